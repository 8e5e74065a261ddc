"""The path of a fit: its codebooks at temperature zero, and temperatures at which cells stand."""

import pickle
from itertools import pairwise

import numpy as np
import pytest

from oda_rl import ODAPartition
from oda_rl.codebook.lloyd import Quench
from oda_rl.datasets import make_gaussians


def test_the_path_is_that_of_the_samples_that_were_fitted():
    """Its codebooks are taken to temperature zero when they are asked for, from samples of its own."""
    samples = np.random.default_rng(100).normal(size=(300, 3))
    at_once = ODAPartition(6, random_state=0).fit(samples).history_
    model = ODAPartition(6, random_state=0).fit(samples)
    kept = samples.copy()
    samples[:] = 0.0
    again = pickle.loads(pickle.dumps(model))
    for history in (model.history_, again.history_, again.partial_fit(kept).history_[: len(at_once)]):
        for one, other in zip(at_once, history, strict=True):
            np.testing.assert_array_equal(one.codevectors, other.codevectors)
            assert one.distortion == other.distortion
    for point in at_once:
        distance = ((kept[:, None] - point.codevectors[None]) ** 2).sum(axis=2).min(axis=1)
        assert point.distortion == pytest.approx(distance.mean())


def test_a_fit_takes_no_codebook_of_the_path_to_temperature_zero_but_the_last(monkeypatch):
    quenched = []
    quench = Quench.__call__
    monkeypatch.setattr(
        Quench, "__call__", lambda self, cells: quenched.append(len(cells)) or quench(self, cells)
    )
    samples, _ = make_gaussians(400)
    model = ODAPartition(8, random_state=0).fit(samples)
    assert quenched == [model.n_codevectors_]
    path = {point.n_codevectors for point in model.history_}
    assert set(quenched) == path
    assert len(path) > 3


def test_a_pickle_holds_the_path_and_no_samples():
    samples = np.random.default_rng(100).uniform(1.0, 2.0, (300, 3))
    text = pickle.dumps(ODAPartition(6, divergence="kl", random_state=0).fit(samples))
    assert not any(row.tobytes() in text for row in samples)


def test_temperatures_at_which_nothing_splits_need_no_samples():
    """After a fit's samples have told where cells stand; K as of records that have presented some."""
    samples, _ = make_gaussians(600)
    path = ODAPartition(8, random_state=0).fit(samples).history_
    same = [b.n_codevectors == a.n_codevectors for a, b in pairwise(path)]
    idle = [b.n_samples_seen == a.n_samples_seen for a, b in pairwise(path)]
    assert sum(idle) > 5
    assert all(s or not i for s, i in zip(same, idle, strict=True))

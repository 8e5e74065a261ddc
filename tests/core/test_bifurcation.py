"""Splits against the closed form: a cell splits at T_c = 2 nu_max (Theorem 5, Rose 1998)."""

import numpy as np
import pytest

from oda_rl import Codebook, ODAPartition
from oda_rl.codebook import bifurcation

KINDS = ["critical", "perturb"]


def split_temperature(samples, critical, kind, seed=0):
    """The temperature at which the codebook first has two cells, in critical temperatures."""
    model = ODAPartition(
        2,
        t_max=1.3 * critical,
        t_min=0.5 * critical,
        cooling=0.99,
        bifurcation=kind,
        samples_per_cell=2000,
        random_state=seed,
        finish=False,
    ).fit(samples)
    assert model.n_codevectors_ == 2
    return model.history_[-1].temperature / critical


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [1, 2, 10, 64])
def test_two_equal_point_masses(kind, d):
    samples = np.zeros((200, d))
    samples[:, 0] = np.repeat([-1.0, 1.0], 100)
    assert split_temperature(samples, 2.0, kind) == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [1, 2, 10])
def test_one_gaussian(kind, d):
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(20_000, d)) * np.r_[2.0, np.ones(d - 1)]
    critical = 2 * np.linalg.eigvalsh(np.cov(samples.T).reshape(d, d))[-1]
    assert split_temperature(samples, critical, kind) == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize(("divergence", "critical"), [("kl", 0.5), ("itakura_saito", 0.25)])
def test_other_divergences(divergence, critical):
    """Two point masses at 1 and 3: variance 1 and mean 2, phi'' = 1/mu or 1/mu^2."""
    samples = np.repeat([[1.0], [3.0]], 100, axis=0)
    model = ODAPartition(
        2, divergence=divergence, t_max=1.2 * critical, cooling=0.99, random_state=0, finish=False
    ).fit(samples)
    assert model.history_[-1].temperature == pytest.approx(critical, rel=0.05)


def test_the_leading_direction_is_split_first():
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(5000, 5)) * [1.0, 1.0, 3.0, 1.0, 1.0]
    model = ODAPartition(2, random_state=0).fit(samples)
    difference = np.subtract(*model.codevectors_)
    assert abs(difference[2]) / np.linalg.norm(difference) > 0.99


def test_children_share_the_variance_of_their_parent():
    book = Codebook(2)
    book.add([1.0, 1.0])
    book.axis[:, 0] = [4.0, 0.0]
    met = book.split_critical(temperature=3.0, max_cells=6, perturbation=0.01)
    np.testing.assert_array_equal(met, [4.0])
    # z = sqrt(2) x; m^2 = T_c - T = 1
    np.testing.assert_allclose(np.sort(book.codevectors[:, 0]), 1.0 + np.array([-1, 1]) / np.sqrt(2))
    np.testing.assert_allclose(book.critical_temperatures, [3.0, 3.0])


def test_no_more_splits_than_there_is_room():
    book = Codebook(1)
    for x in range(4):
        book.add([10.0 * x], 0.25)
    book.axis[0, :4] = [2.0, 5.0, 4.0, 3.0]
    met = book.split_critical(temperature=1.0, max_cells=6, perturbation=0.1)
    np.testing.assert_array_equal(met, [5.0, 4.0])
    assert len(book) == 6


def test_twins_that_have_grown_stay_and_the_others_merge():
    book = Codebook(3)
    book.add([0.0, 0.0, 0.0], 0.5)
    book.add([9.0, 9.0, 9.0], 0.5)
    rng = np.random.default_rng(0)
    bifurcation.double(book, 1.0, 0.1, rng)
    pairs = bifurcation.Pairs(3)
    pairs.begin(book, time=0.0)
    book.location[:, 0] += 0.5 * (book.location[:, 0] - book.location[:, 2])
    book.location[:, 1] -= 0.1 * (book.location[:, 1] - book.location[:, 3])
    assert pairs.waiting
    assert pairs.resolve(book, time=1.0, temperature=1.0) == 1
    assert len(book) == 3
    assert not pairs.waiting

"""The annealing's equilibria: K(T), the phases along the path, turns by all samples."""

import numpy as np
import pytest

from oda_rl import Codebook, ODAPartition
from oda_rl.codebook.association import SQUARED_EUCLIDEAN
from oda_rl.codebook.settling import settle
from oda_rl.datasets import make_gaussians
from oda_rl.quantization import DeterministicAnnealing

N_MIXTURES, LAST = 5, 0.1


def counts(model):
    return np.array([point.n_codevectors for point in model.history_])


@pytest.fixture(scope="module")
def mixtures():
    """Samples, and K at each temperature of batch annealing that has converged."""
    found = []
    for seed in range(N_MIXTURES):
        samples, _ = make_gaussians(300, seed=seed)
        batch = DeterministicAnnealing(30, t_min=LAST, max_iter=1000, tol_converge=1e-7)
        found.append((samples, counts(batch.fit(samples))))
    return found


@pytest.mark.parametrize("bifurcation", ["critical", "perturb"])
def test_there_are_as_many_effective_codevectors_as_in_batch_annealing(mixtures, bifurcation):
    """At the same temperature; where K is about to change, at the one before or after."""
    equal = []
    for samples, wanted in mixtures:
        model = ODAPartition(30, t_min=LAST, bifurcation=bifurcation, random_state=0).fit(samples)
        found = counts(model)
        assert np.diff(found).min() >= -1
        assert len(found) == len(wanted)
        before, after = np.r_[wanted[:1], wanted[:-1]], np.r_[wanted[1:], wanted[-1:]]
        near = np.stack([before, wanted, after])
        equal.append((near.min(axis=0) <= found) & (found <= near.max(axis=0)))
        equal[-1] &= (found == wanted) | (near.min(axis=0) < near.max(axis=0))
    assert np.mean(np.concatenate(equal)) > 0.97


SOFT = ODAPartition(6, finish=False, random_state=0)
BATCH = DeterministicAnnealing(6, max_iter=1000, tol_converge=1e-8)


@pytest.mark.parametrize("model", [SOFT, BATCH])
def test_phases_along_the_path(model):
    """D, H and F of the codebook of each temperature, from eqs. 2 to 4 in NumPy."""
    samples, _ = make_gaussians(150)
    history = model.fit(samples).history_
    assert len(history) > 5
    for point in history[:-1]:
        distance = ((samples[:, None] - point.codevectors[None]) ** 2).sum(axis=2)
        weight = np.full(len(point.codevectors), 1.0 / len(point.codevectors))
        for _ in range(300):
            share = weight * np.exp(-(distance - distance.min(axis=1)[:, None]) / point.temperature)
            share /= share.sum(axis=1)[:, None]
            weight = share.mean(axis=0)
        expected = np.mean(np.sum(share * distance, axis=1))
        entropy = -np.mean(np.sum(share * np.log(np.maximum(share, 1e-300)), axis=1))
        assert point.expected_distortion == pytest.approx(expected, rel=0.02)
        assert point.entropy == pytest.approx(entropy, abs=0.03)
        part = point.temperature / (1 + point.temperature)
        energy = (1 - part) * point.expected_distortion - part * point.entropy
        assert point.free_energy == pytest.approx(energy)


def test_turns_lead_to_the_fixed_point():
    """Means and weights by the associations, and axes that are leading eigenvectors (Theorem 5)."""
    rng = np.random.default_rng(0)
    samples = np.concatenate([rng.normal(m, [0.4, 0.2], (100, 2)) for m in [(-1, 0), (1, 1)]])
    weight = rng.uniform(0.5, 1.5, 200)
    book = Codebook(2)
    for place in ([-1.0, 0.5], [1.0, 0.5]):
        book.add(place, 0.5)
    book.axis[:, :2] = [[1.0, 0.2], [0.1, 1.0]]
    turns = settle(SQUARED_EUCLIDEAN, samples, weight, 0.4, 1e-14, 500, 2, book.arrays)
    assert 3 < turns < 500
    exponent = ((samples[:, None] - book.codevectors[None]) ** 2).sum(axis=2) / 0.4
    share = book.weights * np.exp(-exponent) * weight[:, None]
    share *= (weight / share.sum(axis=1))[:, None]
    np.testing.assert_allclose(book.weights, share.sum(axis=0) / weight.sum(), rtol=1e-5)
    for i in range(2):
        mean = np.average(samples, axis=0, weights=share[:, i])
        np.testing.assert_allclose(book.codevectors[i], mean, rtol=1e-5)
        values = np.linalg.eigvalsh(2.0 * np.cov(samples.T, aweights=share[:, i], ddof=0))
        assert book.critical_temperatures[i] == pytest.approx(values[-1], rel=1e-3)


def test_close_cells_merge_unless_one_in_their_place_would_split():
    """Together, cells of critical temperature c at a distance d have c + d / 2."""
    for critical, left in ((0.7, 1), (0.9, 2)):
        book = Codebook(1)
        book.add([0.0], 0.5)
        book.add([np.sqrt(0.4)], 0.5)
        book.axis[0, :2] = critical
        book.merge_ineffective(1.0)
        assert len(book) == left

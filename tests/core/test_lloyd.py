"""Temperature zero: hard cells, their means, moves of codevectors, one sample at a time."""

import naive
import numpy as np
import pytest

from oda_rl.codebook import association, lloyd
from oda_rl.codebook.book import Codebook
from oda_rl.codebook.divergences import get_divergence
from oda_rl.codebook.lloyd import Quench

KINDS = ["squared_euclidean", "kl", "itakura_saito"]


def make(seed=0, n=300, d=3, k=5):
    rng = np.random.default_rng(seed)
    return rng.uniform(0.1, 2.0, (n, d)), rng.uniform(0.1, 2.0, (k, d))


def assignment(n):
    return np.empty(n, dtype=np.int64), np.empty(n), np.empty(n)


def test_means_and_variances_of_cells():
    samples, codevectors = make()
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(samples))
    nearest, closest, _ = naive.cells("squared_euclidean", samples, codevectors)
    location, mass = np.ascontiguousarray(codevectors.T), np.empty(5)
    lloyd.move_to_means(samples, weight, True, nearest, closest, 5, location, mass)
    spread = np.empty((3, 5))
    for i in range(5):
        of_cell, weights = samples[nearest == i], weight[nearest == i]
        mean = np.average(of_cell, axis=0, weights=weights)
        np.testing.assert_allclose(location[:, i], mean)
        assert mass[i] == pytest.approx(weights.sum())
    lloyd.cell_moments(samples, weight, nearest, 5, location, mass, spread)
    assert mass.sum() == pytest.approx(1.0)
    for i in range(5):
        difference = samples[nearest == i] - location[:, i]
        expected = np.average(difference**2, axis=0, weights=weight[nearest == i])
        np.testing.assert_allclose(spread[:, i], expected)


def test_an_empty_cell_goes_to_the_worst_sample():
    samples = np.array([[0.0], [1.0], [9.0]])
    location, mass = np.array([[2.0, -50.0]]), np.empty(2)
    nearest, closest = np.zeros(3, dtype=np.int64), np.array([4.0, 1.0, 49.0])
    lloyd.move_to_means(samples, np.ones(3), True, nearest, closest, 2, location, mass)
    assert location[0, 1] == pytest.approx(9.0, abs=0.1)


def test_moves_take_from_the_cheapest_and_give_to_the_worst():
    """Two codevectors in one cluster, one for two clusters: one of the two has to go there."""
    samples = np.array([[0.0], [0.1], [5.0], [5.1], [9.0], [9.1]])
    location = np.array([[0.0, 0.1, 7.0]])
    cells = assignment(6)
    association.assign(0, samples, None, False, location, None, 3, *cells)
    moves = lloyd.relocate(samples, np.ones(6), *cells, 3, location, 1, np.array([0.5]))
    assert moves == 1
    assert (location[0, :2] > 4.0).sum() == 1


def test_labelled_samples_move_cells_of_their_own_only():
    samples, labels = np.array([[0.0], [2.0], [9.0], [11.0]]), np.array([0, 0, 1, 1])
    location, label = np.array([[8.0, 0.0, 50.0]]), np.array([0, 1, 1])
    cells = assignment(4)
    value, *_ = lloyd.quench(0, samples, labels, np.ones(4), False, 0.0, 10, 3, location, label, *cells)
    np.testing.assert_array_equal(location, [[1.0, 10.0, 50.0]])  # a cell without samples stays
    np.testing.assert_array_equal(cells[0], [0, 0, 1, 1])
    assert value == 1.0


@pytest.mark.parametrize("name", KINDS)
def test_quench_ends_in_the_means_of_its_cells(name):
    samples, codevectors = make(n=400)
    quench = Quench(samples, np.ones(400), get_divergence(name), np.random.default_rng(0))
    found, distortion = quench(codevectors)
    nearest, closest, _ = naive.cells(name, samples, found)
    assert distortion == pytest.approx(closest.mean(), rel=1e-9)
    assert distortion < naive.cells(name, samples, codevectors)[1].mean()
    for i in range(5):
        np.testing.assert_allclose(found[i], samples[nearest == i].mean(axis=0), rtol=0.01)


def test_quench_of_data_far_from_the_origin_keeps_its_digits():
    samples, codevectors = make(d=20)
    near = Quench(samples, np.ones(300), get_divergence("squared_euclidean"), np.random.default_rng(0))
    far = Quench(
        samples + 1e6, np.ones(300), get_divergence("squared_euclidean"), np.random.default_rng(0)
    )
    assert far(codevectors + 1e6)[1] == pytest.approx(near(codevectors)[1], rel=1e-6)


def test_quench_leaves_its_arguments_alone():
    samples, codevectors = make()
    before = samples.copy(), codevectors.copy()
    Quench(samples, np.ones(300), get_divergence("kl"), np.random.default_rng(0))(codevectors)
    np.testing.assert_array_equal(samples, before[0])
    np.testing.assert_array_equal(codevectors, before[1])


def test_stochastic_vector_quantization():
    samples, codevectors = make(n=200)
    location, count, spread = np.ascontiguousarray(codevectors.T), np.zeros(5), np.zeros((3, 5))
    lloyd.quantize(0, samples, np.ones(200), 1.0, 1.0, 5, location, count, spread)
    expected, moved = naive.vector_quantization(samples, codevectors, 1.0, 1.0)
    np.testing.assert_allclose(location.T, expected, rtol=1e-9)
    np.testing.assert_array_equal(count, moved)


def test_cells_split_at_temperature_zero_until_there_are_so_many():
    samples, codevectors = make(n=200, k=3)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(samples))
    book = Codebook(3, payload={"seen": (1, "count")})
    for mu in codevectors:
        book.add(mu, weight=1 / 3)
    book["seen"][:] = 10.0
    before = (weight * naive.cells("squared_euclidean", samples, codevectors)[1]).sum()
    lloyd.grow_hard(book, samples, weight, 20)
    assert len(book) == 20
    nearest, closest, _ = naive.cells("squared_euclidean", samples, book.codevectors)
    assert len(np.unique(nearest)) == 20
    assert (weight * closest).sum() < before / 3
    np.testing.assert_allclose(book["seen"].sum(), 30.0)  # shared among the children
    # Two places cannot be told apart by more than two cells.
    twice = Codebook(1)
    twice.add([0.5])
    lloyd.grow_hard(twice, np.repeat([[0.0], [1.0]], 5, axis=0), np.ones(10), 8)
    np.testing.assert_allclose(np.sort(twice.codevectors.ravel()), [0.0, 1.0], atol=1e-9)

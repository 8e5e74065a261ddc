"""Divergences, associations and nearest cells against their NumPy twins."""

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oda_rl.codebook import association as kernels

KINDS = {
    "squared_euclidean": kernels.SQUARED_EUCLIDEAN,
    "kl": kernels.GENERALIZED_KL,
    "itakura_saito": kernels.ITAKURA_SAITO,
}


def make_codebook(seed, k, d, n_labels=1):
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.1, 1.0, k)
    return rng.uniform(0.1, 2.0, (k, d)), weights / weights.sum(), rng.integers(n_labels, size=k)


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), k=st.integers(1, 12), d=st.integers(1, 6))
def test_divergences_equal_their_definition(name, seed, k, d):
    codevectors, _, _ = make_codebook(seed, k, d)
    x = np.random.default_rng(seed + 1).uniform(0.0, 2.0, d)
    if name != "itakura_saito":
        x[0] = 0.0  # the limit of x log x
    out = np.full(k + 2, np.nan)
    location = np.zeros((d, k + 2))
    location[:, :k] = codevectors.T
    kernels.divergences(KINDS[name], x, location, 0, k, out)
    expected = [naive.divergence(name, x, mu) for mu in codevectors]
    np.testing.assert_allclose(out[:k], expected, rtol=1e-10, atol=1e-12)
    assert np.isnan(out[k:]).all()


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    k=st.integers(1, 12),
    n_labels=st.integers(1, 3),
    temperature=st.floats(0.01, 100.0),
)
def test_associations_equal_their_definition(name, seed, k, n_labels, temperature):
    d = 3
    codevectors, weights, labels = make_codebook(seed, k, d, n_labels)
    wanted = int(labels[0])
    x = np.random.default_rng(seed + 1).uniform(0.1, 2.0, d)
    location = codevectors.T.copy()
    distance, share = np.empty(k), np.empty(k)
    kernels.divergences(KINDS[name], x, location, 0, k, distance)
    nearest = kernels.associate(distance, weights, labels, k, wanted, temperature, kernels.EXACT, share)
    p = naive.associations(name, x, codevectors, weights, labels, wanted, temperature)
    np.testing.assert_allclose(share, p, rtol=1e-9, atol=1e-15)
    assert labels[nearest] == wanted
    assert distance[nearest] == distance[labels == wanted].min()

    nearest = kernels.associate(distance, None, None, k, 0, temperature, kernels.EXACT, share)
    alike = np.zeros(k, dtype=np.int64)
    p = naive.associations(name, x, codevectors, np.ones(k), alike, 0, temperature)
    np.testing.assert_allclose(share, p, rtol=1e-9, atol=1e-15)
    assert nearest == distance.argmin()


def test_decay_is_the_exponential():
    q = np.linspace(0.0, kernels.EXACT, 10_001)
    np.testing.assert_allclose([kernels.decay(value) for value in q], np.exp(-q), rtol=1e-13)


def test_associations_do_not_underflow():
    distance = np.array([1e6, 1e6 + 1.0, 5e9])
    share = np.empty(3)
    labels = np.zeros(3, dtype=np.int64)
    kernels.associate(distance, np.full(3, 1 / 3), labels, 3, 0, 1.0, kernels.EXACT, share)
    np.testing.assert_allclose(share, [1 / (1 + np.exp(-1)), 1 / (1 + np.e), 0.0])


def test_associations_at_zero_temperature_choose_the_nearest():
    share = np.empty(2)
    labels = np.zeros(2, dtype=np.int64)
    kernels.associate(
        np.array([2.0, 1.0]), np.array([0.9, 0.1]), labels, 2, 0, 0.0, kernels.EXACT, share
    )
    np.testing.assert_array_equal(share, [0.0, 1.0])


def test_unknown_label_associates_with_nothing():
    share = np.full(2, 7.0)
    labels = np.zeros(2, dtype=np.int64)
    nearest = kernels.associate(np.ones(2), np.full(2, 0.5), labels, 2, 3, 1.0, kernels.EXACT, share)
    assert nearest == -1
    np.testing.assert_array_equal(share, 0.0)


def test_cells_further_away_than_the_reach_have_no_share():
    distance, share = np.array([0.0, 1.0, 7.9, 8.1]), np.empty(4)
    kernels.associate(distance, None, None, 4, 0, 1.0, 8.0, share)
    expected = np.exp(-distance) * [1.0, 1.0, 1.0, 0.0]
    np.testing.assert_allclose(share, expected / expected.sum())


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=11))
def test_the_first_of_the_smallest_is_found(numbers):
    array = np.array([*numbers, -9], dtype=float)  # the last is not asked for
    assert kernels.smallest(array, len(numbers)) == min(numbers)
    assert kernels.index_of_smallest(array, len(numbers)) == int(np.argmin(numbers))


def make_samples(seed=0, n=300, d=3, k=5):
    rng = np.random.default_rng(seed)
    return rng.uniform(0.1, 2.0, (n, d)), rng.uniform(0.1, 2.0, (k, d))


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("k", [1, 5])
def test_cells(name, k):
    samples, codevectors = make_samples(k=k)
    n = len(samples)
    found = np.empty(n, dtype=np.int64), np.empty(n), np.empty(n)
    location = np.ascontiguousarray(codevectors.T)
    kernels.assign(KINDS[name], samples, None, False, location, None, k, *found)
    for array, expected in zip(found, naive.cells(name, samples, codevectors), strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-9, atol=1e-12)


def test_cells_by_products():
    samples, codevectors = make_samples(n=500, d=20, k=7)
    samples, codevectors = samples - 1.0, codevectors - 1.0
    n = len(samples)
    found = np.empty(n, dtype=np.int64), np.empty(n), np.empty(n)
    location = np.ascontiguousarray(codevectors.T)
    kernels.assign(0, samples, None, True, location, None, 7, *found)
    expected = naive.cells("squared_euclidean", samples, codevectors)
    for array, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(array, right, rtol=1e-10)

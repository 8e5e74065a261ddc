"""Compiled kernels against their NumPy twins."""

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oda_rl.codebook import learning as kernels

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
    kernels.divergences(KINDS[name], x, location, k, out)
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
def test_one_step_equals_the_learning_rule(name, seed, k, n_labels, temperature):
    d, stepsize = 3, 0.2
    codevectors, weights, labels = make_codebook(seed, k, d, n_labels)
    wanted = int(labels[0])
    x = np.random.default_rng(seed + 1).uniform(0.1, 2.0, d)
    location, weight = codevectors.T.copy(), weights.copy()
    distance, share = np.empty(k), np.empty(k)
    kernels.divergences(KINDS[name], x, location, k, distance)
    nearest = kernels.associate(distance, weight, labels, k, wanted, temperature, kernels.EXACT, share)
    p = naive.associations(name, x, codevectors, weights, labels, wanted, temperature)
    np.testing.assert_allclose(share, p, rtol=1e-9, atol=1e-15)
    assert labels[nearest] == wanted
    assert distance[nearest] == distance[labels == wanted].min()

    kernels.learn(KINDS[name], x, share, stepsize, k, location, weight, np.zeros((d, k)))
    mu, rho = naive.learning_rule(x, p, stepsize, codevectors, weights)
    np.testing.assert_allclose(location.T, mu, rtol=1e-9)
    np.testing.assert_allclose(weight, rho, rtol=1e-9)


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), k=st.integers(1, 12), d=st.integers(1, 6))
def test_both_orders_of_the_learning_rule_are_one(name, seed, k, d):
    """Cell by cell or coordinate by coordinate: the same arithmetic, to rounding."""
    rng = np.random.default_rng(seed)
    codevectors, weights, _ = make_codebook(seed, k, d)
    share = rng.dirichlet(np.ones(k)) * (rng.random(k) < 0.7)
    x, axis = rng.uniform(0.1, 2.0, d), rng.normal(size=(d, k))
    one = [codevectors.T.copy(), weights.copy(), axis.copy()]
    all_ = [codevectors.T.copy(), weights.copy(), axis.copy()]
    kernels.learn(KINDS[name], x, share, 0.3, k, *one)
    kernels.learn_all(KINDS[name], x, share, 0.3, k, *all_, np.empty((3, k)))
    for left, right in zip(one, all_, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-14)


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


@pytest.mark.parametrize("name", KINDS)
def test_axis_finds_the_leading_eigenvector(name):
    """The axis of a single cell converges to the leading eigenpair of phi'' C (Theorem 5)."""
    rng = np.random.default_rng(0)
    samples = np.exp(rng.normal(size=(20_000, 3)) * [0.1, 0.4, 0.2]) * [1.0, 2.0, 0.5]
    location, weight = samples[0][:, None].copy(), np.ones(1)
    axis = np.full((3, 1), 1e-12)
    for n, x in enumerate(samples, start=1):
        kernels.learn(KINDS[name], x, np.ones(1), 1 / (n + 1), 1, location, weight, axis)
    mean = samples.mean(axis=0)
    np.testing.assert_allclose(location[:, 0], mean, rtol=0.01)
    hessian = {"squared_euclidean": np.full(3, 2.0), "kl": 1 / mean, "itakura_saito": mean**-2.0}[name]
    whitened = np.sqrt(hessian)[:, None] * np.cov(samples.T) * np.sqrt(hessian)[None, :]
    values, vectors = np.linalg.eigh(whitened)
    length = np.linalg.norm(axis)
    assert length == pytest.approx(values[-1], rel=0.05)
    assert abs(axis[:, 0] @ vectors[:, -1]) / length > 0.99


def test_cells_without_a_share_keep_their_place():
    location = np.array([[0.0, 1e3]])
    weight = np.array([0.5, 0.5])
    kernels.learn(0, np.array([1.0]), np.array([1.0, 0.0]), 0.1, 2, location, weight, np.ones((1, 2)))
    assert location[0, 1] == 1e3
    np.testing.assert_allclose(weight, [0.55, 0.45])

"""The learning rule of cells, and the loop at one temperature, against their NumPy twins."""

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oda_rl import Codebook
from oda_rl.codebook import learning
from oda_rl.codebook.association import GENERALIZED_KL, ITAKURA_SAITO, SQUARED_EUCLIDEAN
from oda_rl.codebook.model_learning import FORGETTING, Models

KINDS = {
    "squared_euclidean": SQUARED_EUCLIDEAN,
    "kl": GENERALIZED_KL,
    "itakura_saito": ITAKURA_SAITO,
}


def make_codebook(seed, k, d):
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.1, 1.0, k)
    return rng.uniform(0.1, 2.0, (k, d)), weights / weights.sum()


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), k=st.integers(1, 12))
def test_one_step_equals_the_learning_rule(name, seed, k):
    rng = np.random.default_rng(seed + 1)
    codevectors, weights = make_codebook(seed, k, 3)
    x, p = rng.uniform(0.1, 2.0, 3), rng.dirichlet(np.ones(k))
    location, weight = codevectors.T.copy(), weights.copy()
    learning.learn(KINDS[name], x, p, 0.2, k, location, weight, np.zeros((3, k)))
    mu, rho = naive.learning_rule(x, p, 0.2, codevectors, weights)
    np.testing.assert_allclose(location.T, mu, rtol=1e-9)
    np.testing.assert_allclose(weight, rho, rtol=1e-9)


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), k=st.integers(1, 12), d=st.integers(1, 6))
def test_both_orders_of_the_learning_rule_are_one(name, seed, k, d):
    """Cell by cell or coordinate by coordinate: the same arithmetic, to rounding."""
    rng = np.random.default_rng(seed)
    codevectors, weights = make_codebook(seed, k, d)
    share = rng.dirichlet(np.ones(k)) * (rng.random(k) < 0.7)
    x, axis = rng.uniform(0.1, 2.0, d), rng.normal(size=(d, k))
    one = [codevectors.T.copy(), weights.copy(), axis.copy()]
    all_ = [codevectors.T.copy(), weights.copy(), axis.copy()]
    learning.learn(KINDS[name], x, share, 0.3, k, *one)
    learning.learn_all(KINDS[name], x, share, 0.3, k, *all_, np.empty((3, k)))
    for left, right in zip(one, all_, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-14)


@pytest.mark.parametrize("name", KINDS)
def test_axis_finds_the_leading_eigenvector(name):
    """The axis of a single cell converges to the leading eigenpair of phi'' C (Theorem 5)."""
    rng = np.random.default_rng(0)
    samples = np.exp(rng.normal(size=(20_000, 3)) * [0.1, 0.4, 0.2]) * [1.0, 2.0, 0.5]
    location, weight = samples[0][:, None].copy(), np.ones(1)
    axis = np.full((3, 1), 1e-12)
    for n, x in enumerate(samples, start=1):
        learning.learn(KINDS[name], x, np.ones(1), 1 / (n + 1), 1, location, weight, axis)
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
    learning.learn(0, np.array([1.0]), np.array([1.0, 0.0]), 0.1, 2, location, weight, np.ones((1, 2)))
    assert location[0, 1] == 1e3
    np.testing.assert_allclose(weight, [0.55, 0.45])


def test_cells_move_as_without_models():
    """The annealing is that of the partition: models only watch."""
    samples = np.random.default_rng(0).normal(size=(300, 3))
    results = []
    for with_models in (False, True):
        rows = {"theta": 3, "gain": 9, "seen": 1, "noise": 1}
        book = Codebook(3, {name: (n, "mean") for name, n in rows.items()})
        for codevector in np.random.default_rng(1).normal(size=(4, 3)):
            book.add(codevector, 0.25)
        book.axis[:] = np.random.default_rng(2).normal(size=book.axis.shape)
        book["gain"][:] = np.eye(3).reshape(-1, 1)
        theta, gain, seen, noise = (book.payload[book.rows(name)] for name in rows)
        cells = theta, gain, seen[0], noise
        models = Models(
            samples[:, 2:].copy(), 2, np.ones(2), *cells, 1.0, np.array([1.0, 0.0]), False, FORGETTING
        )
        found = learning.anneal(
            samples,
            np.zeros(300, dtype=np.int64),
            np.ones(300),
            SQUARED_EUCLIDEAN,
            learning.Pace(0.5, 10.0, 1.0, 0, 10**9, 0.0, 10**9, np.inf),
            1,
            0.0,
            4,
            book.arrays,
            book.location.copy(),
            np.empty((0, 16)),
            models if with_models else None,
            np.zeros(2),
        )
        results.append((found, book.codevectors, book.weights))
    assert results[0][0][:2] == results[1][0][:2]
    assert results[0][0][2] == pytest.approx(results[1][0][2])
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-10)
    np.testing.assert_allclose(results[0][2], results[1][2], rtol=1e-10)
    assert book["theta"].any()

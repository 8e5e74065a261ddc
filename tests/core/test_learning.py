"""The learning rule of cells and of local models against their NumPy twins."""

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oda_rl import Codebook
from oda_rl.codebook import learning
from oda_rl.codebook.association import GENERALIZED_KL, ITAKURA_SAITO, SQUARED_EUCLIDEAN

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


def shares(x, codevectors, temperature):
    """Equation 6."""
    distance = ((codevectors - x) ** 2).sum(axis=1)
    p = np.exp(-(distance - distance.min()) / temperature)
    return p / p.sum()


def mixture(x, p, theta):
    """sum_i p_i f_i(x), with theta of shape (n_outputs, n_basis, n_cells)."""
    basis = np.r_[1.0, x] if theta.shape[1] > 1 else np.ones(1)
    return np.array([p @ (basis @ theta[c]) for c in range(len(theta))])


def naive_step(x, y, p, weight, theta, gain):
    """Recursive least squares of every cell, driven by the error of the mixture."""
    basis = np.r_[1.0, x] if theta.shape[1] > 1 else np.ones(1)
    error = y - mixture(x, p, theta)
    theta, gain = theta.copy(), gain.copy()
    for i in range(len(p)):
        direction = gain[i] @ basis
        step = weight * p[i] / (1.0 + weight * p[i] * basis @ direction)
        gain[i] -= step * np.outer(direction, direction)
        theta[:, :, i] += step * np.outer(error, direction)
    return theta, gain, float((error**2).sum())


def make(seed, k, d, m, linear):
    rng = np.random.default_rng(seed)
    q = d + 1 if linear else 1
    roots = rng.normal(size=(k, q, q))
    gain = roots @ roots.transpose(0, 2, 1) + 0.1 * np.eye(q)
    return rng, q, rng.normal(size=(m, q, k)), gain


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    k=st.integers(1, 8),
    d=st.integers(1, 4),
    m=st.integers(1, 3),
    linear=st.booleans(),
)
def test_one_step_of_the_models(seed, k, d, m, linear):
    rng, q, theta, gain = make(seed, k, d, m, linear)
    x, y = rng.normal(size=d), rng.normal(size=m)
    p = rng.dirichlet(np.ones(k))
    basis = np.r_[1.0, x] if linear else np.ones(1)
    rows, gains = theta.reshape(m * q, k).copy(), gain.reshape(k, q * q).T.copy()
    scratch = np.empty((q, k)), np.empty(k), np.empty(m)
    squared = learning.learn_models(y, basis, p, 0.7, k, rows, gains, *scratch, False)
    expected_theta, expected_gain, expected = naive_step(x, y, p, 0.7, theta, gain)
    assert squared == pytest.approx(expected)
    np.testing.assert_allclose(rows, expected_theta.reshape(m * q, k), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(gains, expected_gain.reshape(k, q * q).T, rtol=1e-9, atol=1e-12)


def test_one_step_of_logits():
    """The same step with twice the error of the probabilities, which are the softmax of the mixture."""
    rng, q, theta, gain = make(3, 4, 2, 3, True)
    x, y, p = rng.normal(size=2), np.array([0.0, 1.0, 0.0]), rng.dirichlet(np.ones(4))
    basis = np.r_[1.0, x]
    logits = np.einsum("i,cji,j->c", p, theta, basis)
    proba = np.exp(logits) / np.exp(logits).sum()
    rows, gains = theta.reshape(3 * q, 4).copy(), gain.reshape(4, q * q).T.copy()
    scratch = np.empty((q, 4)), np.empty(4), np.empty(3)
    squared = learning.learn_models(y, basis, p, 1.0, 4, rows, gains, *scratch, True)
    assert squared == pytest.approx(((y - proba) ** 2).sum())
    step = [p[i] * gain[i] @ basis / (1.0 + p[i] * basis @ gain[i] @ basis) for i in range(4)]
    expected = theta + 2.0 * np.einsum("c,ij->cji", y - proba, step)
    np.testing.assert_allclose(rows, expected.reshape(3 * q, 4), rtol=1e-9, atol=1e-12)


def test_hard_constant_models_are_means():
    """Equation 28 with the stepsize 1 / n: theta is the mean of f(x) in the cell, not of x."""
    rng = np.random.default_rng(0)
    theta, gain = np.zeros((1, 2)), np.full((1, 2), 1e9)
    y = rng.normal(size=50)
    cell = rng.integers(2, size=50)
    for target, i in zip(y, cell, strict=True):
        p = np.eye(2)[i]
        scratch = np.empty((1, 2)), np.empty(2), np.empty(1)
        learning.learn_models(np.array([target]), np.ones(1), p, 1.0, 2, theta, gain, *scratch, False)
    np.testing.assert_allclose(theta[0], [y[cell == 0].mean(), y[cell == 1].mean()], rtol=1e-6)


def test_the_stream_of_overlapping_cells_comes_to_joint_least_squares():
    rng = np.random.default_rng(0)
    codevectors = np.array([[-1.0], [0.0], [1.0]])
    X = rng.uniform(-1.5, 1.5, (4000, 1))
    y = np.sin(2.0 * X)
    p = np.array([shares(x, codevectors, 0.3) for x in X])
    best = np.linalg.lstsq(p, y, rcond=None)[0]
    theta, gain = np.zeros((1, 3)), np.full((1, 3), 10.0)
    for t in range(4000):
        scratch = np.empty((1, 3)), np.empty(3), np.empty(1)
        learning.learn_models(y[t], np.ones(1), p[t], 1.0, 3, theta, gain, *scratch, False)
    np.testing.assert_allclose(theta[0], best[:, 0], atol=0.05)


def test_cells_move_as_without_models():
    """The annealing is that of the partition: models only watch."""
    samples = np.random.default_rng(0).normal(size=(300, 3))
    results = []
    for with_models in (False, True):
        book = Codebook(3, {"theta": (3, "mean"), "gain": (9, "mean"), "seen": (1, "mean")})
        for codevector in np.random.default_rng(1).normal(size=(4, 3)):
            book.add(codevector, 0.25)
        book.axis[:] = np.random.default_rng(2).normal(size=book.axis.shape)
        book["gain"][:] = np.eye(3).reshape(-1, 1)
        theta, gain, seen = (book.payload[book.rows(name)] for name in ("theta", "gain", "seen"))
        models = learning.Models(
            samples[:, 2:].copy(), 2, np.ones(2), theta, gain, seen[0], 1.0, np.array([1.0, 0.0]), False
        )
        found = learning.anneal(
            samples,
            np.zeros(300, dtype=np.int64),
            np.ones(300),
            SQUARED_EUCLIDEAN,
            learning.Pace(0.5, 10.0, 1.0, 0, 10**9, 0.0, 10**9),
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

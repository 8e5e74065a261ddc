"""Kernels of the local models against their NumPy twins."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oda_rl import Codebook
from oda_rl.codebook import learning as kernels
from oda_rl.estimators.regression import kernels as compiled
from oda_rl.estimators.regression import refit as _refit


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
    squared = compiled.learn_models(y, basis, p, 0.7, k, rows, gains, np.empty((q, k)), np.empty(k))
    expected_theta, expected_gain, expected = naive_step(x, y, p, 0.7, theta, gain)
    assert squared == pytest.approx(expected)
    np.testing.assert_allclose(rows, expected_theta.reshape(m * q, k), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(gains, expected_gain.reshape(k, q * q).T, rtol=1e-9, atol=1e-12)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), k=st.integers(1, 8), d=st.integers(1, 4), linear=st.booleans())
def test_predictions(seed, k, d, linear):
    rng, q, theta, _ = make(seed, k, d, 2, linear)
    X, codevectors, scale = rng.normal(size=(5, d)), rng.normal(size=(k, d)), rng.uniform(0.5, 2.0, d)
    location, found = codevectors.T.copy(), np.empty((5, 2))
    compiled.predict_all(X, scale, location, k, 0.8, theta.reshape(-1, k), q, found)
    table = np.empty((5, k))
    compiled.associations(X, location, k, 0.8, table)
    for x, row, values in zip(X, table, found, strict=True):
        p = shares(x, codevectors, 0.8)
        np.testing.assert_allclose(row, p, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(values, mixture(x * scale, p, theta), rtol=1e-9, atol=1e-12)


def test_hard_constant_models_are_means():
    """Equation 28 with the stepsize 1 / n: theta is the mean of f(x) in the cell, not of x."""
    rng = np.random.default_rng(0)
    theta, gain = np.zeros((1, 2)), np.full((1, 2), 1e9)
    y = rng.normal(size=50)
    cell = rng.integers(2, size=50)
    for target, i in zip(y, cell, strict=True):
        p = np.eye(2)[i]
        compiled.learn_models(
            np.array([target]), np.ones(1), p, 1.0, 2, theta, gain, np.empty((1, 2)), np.empty(2)
        )
    np.testing.assert_allclose(theta[0], [y[cell == 0].mean(), y[cell == 1].mean()], rtol=1e-6)


def test_cells_move_as_without_models():
    """The annealing is that of the partition: models only watch."""
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(300, 3))
    results = []
    for with_models in (False, True):
        book = Codebook(3, {"theta": (3, "mean"), "gain": (9, "mean"), "seen": (1, "mean")})
        for codevector in np.random.default_rng(1).normal(size=(4, 3)):
            book.add(codevector, 0.25)
        book.axis[:] = np.random.default_rng(2).normal(size=book.axis.shape)
        book["gain"][:] = np.eye(3).reshape(-1, 1)
        common = (
            0.5,
            10.0,
            1.0,
            0,
            1,
            0.0,
            10**9,
            0.0,
            10**9,
            4,
            book.location,
            book.weight,
            book.label,
        )
        rest = (book.axis, book.location.copy(), np.empty((0, 16)), np.empty((5, 16)))
        if with_models:
            payload = [book.payload[book.rows(name)] for name in ("theta", "gain", "seen")]
            found = compiled.anneal_models(
                samples,
                samples[:, 2:].copy(),
                np.ones(300),
                2,
                np.ones(2),
                *common,
                *rest,
                payload[0],
                payload[1],
                payload[2][0],
                1.0,
                np.array([1.0, 0.0]),
            )
        else:
            labels = np.zeros(300, dtype=np.int64)
            found = kernels.anneal(samples, labels, np.ones(300), 0, *common, *rest)
        results.append((found, book.codevectors, book.weights))
    assert results[0][0][:2] == results[1][0][:2]
    assert results[0][0][2] == pytest.approx(results[1][0][2])
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-10)
    np.testing.assert_allclose(results[0][2], results[1][2], rtol=1e-10)


def test_the_stream_of_overlapping_cells_comes_to_joint_least_squares():
    rng = np.random.default_rng(0)
    codevectors = np.array([[-1.0], [0.0], [1.0]])
    X = rng.uniform(-1.5, 1.5, (4000, 1))
    y = np.sin(2.0 * X)
    p = np.array([shares(x, codevectors, 0.3) for x in X])
    best = np.linalg.lstsq(p, y, rcond=None)[0]
    theta, gain = np.zeros((1, 3)), np.full((1, 3), 10.0)
    for t in range(4000):
        compiled.learn_models(y[t], np.ones(1), p[t], 1.0, 3, theta, gain, np.empty((1, 3)), np.empty(3))
    np.testing.assert_allclose(theta[0], best[:, 0], atol=0.05)


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("n", [400, 20])  # more samples than columns, and fewer
def test_the_refit_is_ridge_regression(n, linear):
    rng = np.random.default_rng(0)
    X, codevectors = rng.normal(size=(n, 2)), rng.normal(size=(10, 2))
    y, weight = np.column_stack([np.sin(X[:, 0]), X[:, 1] ** 2]), rng.uniform(0.5, 1.5, n)
    found = _refit.fit_mixture(X, y, weight, codevectors, 0.5, linear, ridge=0.1)
    base = _refit.global_model(X, y, weight, linear)
    p = np.array([shares(x, codevectors, 0.5) for x in X])
    columns = p
    if linear:
        offsets = (X[:, None, :] - codevectors) / np.sqrt(0.5)
        columns = (p[:, :, None] * np.dstack([np.ones((n, 10, 1)), offsets])).reshape(n, -1)
    rest = y - base[0] - X @ base[1:]
    gram = columns.T @ (weight[:, None] * columns) + 0.1 * np.eye(columns.shape[1])
    solution = np.linalg.solve(gram, columns.T @ (weight[:, None] * rest))
    expected = base[0] + X @ base[1:] + columns @ solution
    q = 3 if linear else 1
    theta = found.theta.reshape(2, q, 10)
    predicted = np.array([mixture(x, row, theta) for x, row in zip(X, p, strict=True)])
    np.testing.assert_allclose(predicted, expected, rtol=1e-7, atol=1e-8)


def test_the_ridge_is_chosen_for_samples_that_were_not_seen():
    rng = np.random.default_rng(0)
    X, codevectors = rng.uniform(-1.0, 1.0, (300, 1)), np.linspace(-1.0, 1.0, 40)[:, None]
    y = np.sin(3.0 * X) + 0.5 * rng.normal(size=X.shape)
    grid = np.linspace(-1.0, 1.0, 200)[:, None]
    p = np.array([shares(x, codevectors, 0.01) for x in grid])
    errors = []
    for ridge in (1e-6, None, 1e3):
        theta = _refit.fit_mixture(X, y, np.ones(300), codevectors, 0.01, False, ridge).theta
        errors.append(((p @ theta[0] - np.sin(3.0 * grid[:, 0])) ** 2).mean())
    assert errors[1] < 0.8 * min(errors[0], errors[2])

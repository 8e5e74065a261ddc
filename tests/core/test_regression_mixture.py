"""Predictions of local models and their refit against NumPy twins."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import mixture, shares

from oda_rl.estimators.regression import mixture as mixtures


def make(seed, k, d, m, linear):
    rng = np.random.default_rng(seed)
    q = d + 1 if linear else 1
    roots = rng.normal(size=(k, q, q))
    gain = roots @ roots.transpose(0, 2, 1) + 0.1 * np.eye(q)
    return rng, q, rng.normal(size=(m, q, k)), gain


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), k=st.integers(1, 8), d=st.integers(1, 4), linear=st.booleans())
def test_predictions(seed, k, d, linear):
    rng, q, theta, _ = make(seed, k, d, 2, linear)
    X, codevectors, scale = rng.normal(size=(5, d)), rng.normal(size=(k, d)), rng.uniform(0.5, 2.0, d)
    location, found = codevectors.T.copy(), np.empty((5, 2))
    mixtures.predict_all(X, scale, location, k, 0.8, theta.reshape(-1, k), q, found)
    table = np.empty((5, k))
    mixtures.associate_inputs(X, location, k, 0.8, table)
    for x, row, values in zip(X, table, found, strict=True):
        p = shares(x, codevectors, 0.8)
        np.testing.assert_allclose(row, p, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(values, mixture(x * scale, p, theta), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("n", [400, 20])  # more samples than columns, and fewer
def test_the_refit_is_ridge_regression(n, linear):
    rng = np.random.default_rng(0)
    X, codevectors = rng.normal(size=(n, 2)), rng.normal(size=(10, 2))
    y, weight = np.column_stack([np.sin(X[:, 0]), X[:, 1] ** 2]), rng.uniform(0.5, 1.5, n)
    found = mixtures.fit_mixture(X, y, weight, codevectors, 0.5, linear, ridge=0.1)
    base = mixtures.global_model(X, y, weight, linear)
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
        theta = mixtures.fit_mixture(X, y, np.ones(300), codevectors, 0.01, False, ridge).theta
        errors.append(((p @ theta[0] - np.sin(3.0 * grid[:, 0])) ** 2).mean())
    assert errors[1] < 0.8 * min(errors[0], errors[2])

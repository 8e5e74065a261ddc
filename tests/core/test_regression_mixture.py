"""Predictions of local models and their refit against NumPy twins."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import mixture, shares
from sklearn.linear_model import RidgeCV

from oda_rl import ODARegressor
from oda_rl._ridge import RIDGES
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
    base = mixtures.global_model(X, y, weight, linear).theta
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


@pytest.mark.parametrize("d", [30, 5])
def test_a_model_has_the_ridge_with_the_least_error_on_samples_left_out(d):
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(20, d)), np.ones(20)
    y = X[:, :1] + 0.5 * rng.normal(size=(20, 1))
    found = mixtures.global_model(X, y, weight, True)
    errors = []
    for ridge in RIDGES * (20 * X.var(axis=0)).sum() / min(20, d):
        off = 0.0
        for i in range(20):
            rest = np.arange(20) != i
            mean, level = X[rest].mean(axis=0), y[rest].mean()
            A, b = X[rest] - mean, y[rest] - level
            slopes = np.linalg.solve(A.T @ A + ridge * np.eye(d), A.T @ b)
            off += float((y[i] - level - (X[i] - mean) @ slopes)[0] ** 2)
        errors.append(off / 20)
    assert found.score == pytest.approx(min(errors), rel=1e-6)
    assert 1.0 < found.leverage.sum() < 20.0


def test_samples_in_an_order_are_all_fitted():
    x = np.sort(np.random.default_rng(0).uniform(-1.0, 1.0, 3000))[:, None]
    codevectors = np.linspace(-1.0, 1.0, 1300)[:, None]  # more columns than may be
    theta = mixtures.fit_mixture(x, np.sin(3 * x), np.ones(3000), codevectors, 1e-2, True).theta
    p = np.array([shares(one, codevectors, 1e-2) for one in x[::100]])
    found = np.array(
        [mixture(one, row, theta.reshape(1, 2, -1)) for one, row in zip(x[::100], p, strict=True)]
    )
    np.testing.assert_allclose(found, np.sin(3 * x[::100]), atol=0.02)


@pytest.mark.parametrize(("n_useful", "least"), [(5, 0.5), (200, 0.1)])
def test_fewer_samples_than_features(n_useful, least):
    """What matters is found where it is little, and nothing lost beside a ridge where it is all."""
    rng = np.random.default_rng(100)
    X, slopes = rng.normal(size=(560, 200)), np.zeros(200)
    slopes[:n_useful] = rng.normal(size=n_useful)
    y = X @ slopes + 0.3 * np.linalg.norm(slopes) * rng.normal(size=560)
    model = ODARegressor(random_state=0).fit(X[:60], y[:60])
    ridge = RidgeCV(np.geomspace(0.1, 1e4, 20)).fit(X[:60], y[:60])
    assert model.score(X[60:], y[60:]) > max(least, ridge.score(X[60:], y[60:]) - 0.05)
    _, std = model.predict(X[60:], return_std=True)
    off = np.sqrt(np.mean((model.predict(X[60:]) - y[60:]) ** 2))
    assert 0.5 * off < std.mean() < 2.0 * off


def goods(n, seed):
    """Sizes that are nearly the same, and kinds of which some are rare, with what they cost."""
    rng = np.random.default_rng(seed)
    size = rng.gamma(4.0, 0.2, n)
    sides = size[:, None] ** (1 / 3) * (1 + 0.01 * rng.normal(size=(n, 3)))
    kinds = [np.eye(k)[rng.choice(k, n, p=np.arange(1, k + 1) / (k * (k + 1) / 2))] for k in (5, 7, 8)]
    quality = sum(kind @ np.linspace(-0.3, 0.3, kind.shape[1]) for kind in kinds)
    cost = size**1.7 * np.exp(quality) * (1 + 0.1 * rng.normal(size=n))
    return np.column_stack([size, sides, *kinds]), cost


def test_cells_do_not_bend_to_single_samples():
    """Each cell has nearly as many slopes as samples: which of these are left out must tell."""
    X, y = goods(1600, 102)
    assert ODARegressor(random_state=0).fit(X[:800], y[:800]).score(X[800:], y[800:]) > 0.955


@pytest.mark.parametrize("n", [6, 60])  # fewer samples than the ten columns, and more
def test_second_moments(n):
    rng, metric = np.random.default_rng(0), np.linspace(0.5, 2.0, 9)
    X, weight, codevectors = rng.normal(size=(n, 9)), rng.uniform(0.5, 2.0, n), rng.normal(size=(3, 9))
    found = mixtures.second_moments(X, metric, weight, codevectors, 20.0, True, 0.1)
    basis = np.column_stack([np.ones(n), X])
    own = weight[:, None] * np.array([shares(x * metric, codevectors, 20.0) for x in X])
    for i in range(3):
        inverse = np.linalg.inv(basis.T @ (own[:, i : i + 1] * basis) + 0.1 * np.eye(10))
        np.testing.assert_allclose(found[:, i].reshape(10, 10), inverse, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("parameters", [{}, {"pilot_rounds": 0}, {"softness": 0.0}])
def test_slopes_of_cells_of_equal_inputs(parameters):
    """There are as many cells as distinct inputs: without a width of theirs any slopes would fit."""
    X = np.repeat(np.arange(13.0), 20)[:, None] + 1000.0
    rng = np.random.default_rng(0)
    y = (X[:, 0] - 1000.0) ** 1.5 + 0.1 * rng.normal(size=len(X))
    model = ODARegressor(kernel=None, random_state=0, **parameters).fit(X, y)
    np.testing.assert_allclose(model.predict(X), (X[:, 0] - 1000.0) ** 1.5, atol=0.4)
    between = np.arange(12.0) + 0.5
    assert np.abs(model.predict(between[:, None] + 1000.0) - between**1.5).max() < 2.5
    assert np.abs(model.coef_).max() < 8.0

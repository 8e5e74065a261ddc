"""The first samples of a regressor's stream: what they may tell of scales, and what not."""

import numpy as np
import pytest
from model_files import reloaded

from oda_rl import ODARegressor


def function(X):
    return np.sin(2.0 * X[:, 0]) + X[:, 1]


def streamed(X, y, local_model="linear"):
    """A model that has learned from samples in pieces."""
    model = ODARegressor(local_model=local_model, random_state=0)
    for start in range(0, len(X), 50):
        model.partial_fit(X[start : start + 50], y[start : start + 50])
    return model


def ordinary(n=2000, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    return X, function(X)


@pytest.mark.parametrize("wild", [1e2, 1e6])
@pytest.mark.parametrize("local_model", ["linear", "constant"])
def test_a_wild_input_among_the_first_does_not_set_the_scale(local_model, wild):
    X, y = ordinary()
    X_test, y_test = ordinary(500, seed=1)
    usual = streamed(X, y, local_model).score(X_test, y_test)
    X[50] = wild
    model = streamed(X, y, local_model)
    assert model.score(X_test, y_test) > usual - 0.03
    np.testing.assert_array_equal(reloaded(model).predict(X), model.predict(X))


def test_later_inputs_may_lie_anywhere():
    steps = np.arange(4000.0)
    X = np.column_stack([steps, np.random.default_rng(0).normal(size=4000)])
    model = streamed(X, 0.01 * steps + X[:, 1])
    np.testing.assert_allclose(model.predict(X[-50:]), 0.01 * steps[-50:] + X[-50:, 1], atol=0.1)
    assert np.isinf(model._run.scaling.low[:2]).all()


def test_an_input_that_hardly_ever_differs_is_not_wild():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random(3000) < 0.02, rng.normal(size=3000)]).astype(float)
    X[7, 0] = 1.0
    model = streamed(X, 3.0 * X[:, 0] * X[:, 1])
    rare = X[:, 0] > 0.0
    assert model.score(X[rare], 3.0 * X[rare, 1]) > 0.95

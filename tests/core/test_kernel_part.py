"""The kernel beside the cells of a regressor: its formulas, what it is for, and what goes on with it."""

import numpy as np
import pytest
from model_files import reloaded
from sklearn.gaussian_process.kernels import Matern
from sklearn.linear_model import LinearRegression

from oda_rl import ODARegressor
from oda_rl.estimators.regression.kernel_part import KernelPart


def wavy(n, seed):
    """A smooth function that bends too often for few cells, with a little noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 3))
    return X, np.sin(4.0 * X[:, 0]) * np.cos(3.0 * X[:, 1]) + X[:, 2] + 0.05 * rng.normal(size=n)


def made(smooth, seed=0):
    rng = np.random.default_rng(seed)
    return KernelPart(
        rng.normal(size=(9, 4)), rng.normal(size=(9, 2)), np.array([0.5, 1.0, 0.7, 2.0]), smooth
    )


@pytest.mark.parametrize("smooth", [True, False])
def test_kernels_are_matern(smooth):
    part, X = made(smooth), np.random.default_rng(1).normal(size=(3000, 4))
    kernel = Matern(1.0, nu=1.5 if smooth else 0.5)
    twin = kernel(X * part.scale, part.landmarks) @ part.coefficients
    np.testing.assert_allclose(part(X), twin, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("smooth", [True, False])
def test_slopes_of_kernels(smooth):
    part, X = made(smooth), np.random.default_rng(2).normal(size=(5, 4))
    slopes = part.slopes(X)
    assert slopes.shape == (5, 2, 4)
    for j, step in enumerate(1e-6 * np.eye(4)):
        change = (part(X + step) - part(X - step)) / 2e-6
        np.testing.assert_allclose(slopes[:, :, j], change, rtol=1e-5, atol=1e-8)
    assert np.isfinite(part.slopes(part.landmarks / part.scale)).all()


def test_a_kernel_comes_where_cells_are_too_few():
    (X, y), test = wavy(800, 100), wavy(500, 101)
    cells = ODARegressor(20, kernel=None, random_state=0).fit(X, y)
    both = ODARegressor(20, random_state=0).fit(X, y)
    left = [1.0 - model.score(*test) for model in (cells, both)]
    assert left[1] < 0.5 * left[0]
    off = np.abs(both.predict(test[0]) - test[1])
    _, std = both.predict(test[0], return_std=True)
    assert 0.5 < np.sqrt(np.mean(off**2)) / std.mean() < 2.0


def test_no_kernel_where_none_is_needed_or_wanted():
    X, y = wavy(200, 102)
    plane = X @ [1.0, -2.0, 0.5] + 0.1 * np.random.default_rng(0).normal(size=200)
    for options, outputs in (
        ({}, plane),
        ({"kernel": None}, y),
        ({"local_model": "constant"}, y),
        ({"softness": 1.0}, y),
        ({"ridge": 0.1}, y),
        ({"finish": False}, y),
    ):
        model = ODARegressor(8, random_state=0, **options).fit(X, outputs)
        cells = ODARegressor(8, random_state=0, **{**options, "kernel": None}).fit(X, outputs)
        np.testing.assert_array_equal(model.predict(X), cells.predict(X))
    with pytest.raises(ValueError, match=r"'kernel' parameter .* must be .*'auto'.* or None. Got 'rbf'"):
        ODARegressor(kernel="rbf").fit(X, y)


def test_values_and_slopes_are_of_both():
    """Of a single cell they are what is predicted at its codevector, and how that changes."""
    X, y = wavy(800, 103)
    outputs = np.column_stack([y, 10.0 * y - X[:, 0]])
    model = ODARegressor(1, random_state=0).fit(X, outputs)
    at = model.codevectors_
    np.testing.assert_allclose(model.values_, model.predict(at), rtol=1e-9)
    for j, step in enumerate(1e-4 * np.eye(3)):
        change = (model.predict(at + step) - model.predict(at - step)) / 2e-4
        np.testing.assert_allclose(model.coef_[:, :, j], change, rtol=1e-3, atol=1e-4)
    assert model.score(X, outputs) > 0.98


def test_a_stream_goes_on_with_a_kernel():
    (X, y), (more, outputs) = wavy(600, 104), wavy(300, 105)
    model = ODARegressor(20, random_state=0).fit(X, y)
    before = model.score(more, outputs)
    other = reloaded(model)
    np.testing.assert_array_equal(other.predict(X), model.predict(X))
    for one in (model, other):
        one.partial_fit(more[:1], outputs[:1])
        one.partial_fit(more[1:], outputs[1:])
    np.testing.assert_array_equal(other.predict(X), model.predict(X))
    assert model.score(*wavy(500, 106)) > before - 0.02
    # What the kernel has told is not told again by the cells: a shift of all outputs is what they learn.
    for _ in range(3):
        model.partial_fit(more, outputs + 0.1)
    shift = model.predict(more) - other.predict(more)
    assert 0.02 < LinearRegression().fit(more, shift).intercept_ < 0.12


def test_weights_are_as_many_samples():
    X, y = wavy(300, 107)
    weight = np.where(X[:, 0] > 0.0, 1.0, 1e-9)
    model = ODARegressor(20, random_state=0).fit(X, y + 50.0 * (X[:, 0] <= 0.0), sample_weight=weight)
    right = X[:, 0] > 0.3
    assert np.abs(model.predict(X[right]) - y[right]).mean() < 0.5


def test_fits_are_the_same_twice():
    X, y = wavy(250, 108)
    first, second = (ODARegressor(10, random_state=3).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(first.predict(X), second.predict(X))

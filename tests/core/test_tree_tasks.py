"""What is learned in the cells of a tree: constants, linear models, how far their outputs go."""

import numpy as np
import pytest
from made_trees import made, problem
from model_files import reloaded
from sklearn.datasets import make_friedman1

from oda_rl import MultiResolutionODA, ODAClassifier, ODARegressor
from oda_rl.datasets import make_curve
from oda_rl.estimators.tree.least_squares import fit_models


def test_constant_leaves_predict_the_means_of_their_samples():
    X, y = make_curve(800)
    model = MultiResolutionODA(ODARegressor(local_model="constant"), random_state=0).fit(X, y)
    at = model.apply(X)
    means = np.array([y[at == i].mean() for i in range(model.n_codevectors_)])
    np.testing.assert_allclose(model.predict(X), means[at], rtol=1e-9)
    np.testing.assert_allclose(model.values_, means, rtol=1e-9)


def test_linear_leaves_without_ridge_are_least_squares():
    X, y = make_curve(800)
    template = ODARegressor(ridge=0.0)
    model = MultiResolutionODA(template, layers=1, max_children=5, random_state=0).fit(X, y)
    at = model.apply(X)
    for i in range(model.n_codevectors_):
        design = np.column_stack([np.ones((at == i).sum()), X[at == i]])
        best = design @ np.linalg.lstsq(design, y[at == i], rcond=None)[0]
        np.testing.assert_allclose(model.predict(X[at == i]), best, atol=1e-5)


def test_several_outputs():
    X, y = problem("linear")
    both = np.column_stack([y, -2.0 * y])
    model = made("linear").fit(X, both)
    assert model.predict(X).shape == both.shape
    np.testing.assert_allclose(model.predict(X)[:, 1], -2.0 * model.predict(X)[:, 0], atol=1e-8)


def test_functions_that_are_smooth_do_not_jump_where_cells_meet():
    """What pruning and smoothing by samples left out win, of few samples with noise."""
    X, y = make_friedman1(200, noise=1.0, random_state=101)
    X_test, y_test = make_friedman1(1000, random_state=111)

    def error(**options):
        tree = MultiResolutionODA(ODARegressor(), random_state=0, **options).fit(X, y)
        return np.mean((tree.predict(X_test) - y_test) ** 2)

    assert error() < 0.8 * error(validation=None)


def test_outputs_stay_near_those_that_were_seen():
    X, y = make_friedman1(300, random_state=100)
    tree = MultiResolutionODA(ODARegressor(), random_state=0).fit(X, y)
    far = np.concatenate([100.0 * X, -100.0 * X])
    again = reloaded(tree)
    for seen, more in ((y, y), (np.append(y, [-50.0, 90.0]), np.array([-50.0, 90.0]))):
        tree.partial_fit(X[: len(more)], more)  # widens what was seen
        reach = 0.1 * np.ptp(seen) + 1e-9
        found = tree.predict(far)
        assert seen.min() - reach <= found.min() <= found.max() <= seen.max() + reach
        assert np.ptp(found) > 0.5 * np.ptp(y)
    assert y.min() - 0.1 * np.ptp(y) - 1e-9 <= again.predict(far).min()


def test_a_tree_of_regressors_tells_how_far_outputs_may_be():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (1500, 2))
    y = X[:, 1] + np.where(X[:, 0] > 0.0, 0.5, 0.1) * rng.normal(size=1500)
    model = MultiResolutionODA(ODARegressor(), random_state=0).fit(X[:1000], y[:1000])
    mean, std = model.predict(X[1000:], return_std=True)
    assert 0.92 < np.mean(np.abs(y[1000:] - mean) < 2.0 * std) < 0.99
    np.testing.assert_array_equal(mean, model.predict(X[1000:]))
    both = MultiResolutionODA(ODARegressor(), random_state=0).fit(X, np.column_stack([y, 10.0 * y]))
    std = both.predict(X[:5], return_std=True)[1]
    np.testing.assert_allclose(std[:, 1], 10.0 * std[:, 0])
    with pytest.raises(ValueError, match="return_std must be False for the tree of a classifier"):
        MultiResolutionODA(ODAClassifier()).fit(X, y > 0).predict(X, return_std=True)


def test_each_model_is_solved_once(monkeypatch):
    X, y = make_friedman1(120, random_state=100)
    solved = []

    def fit_and_count(tally, *given):
        solved.extend(tally)
        return fit_models(tally, *given)

    monkeypatch.setattr("oda_rl.estimators.tree.tasks.fit_models", fit_and_count)
    own = MultiResolutionODA(ODARegressor(), layers=1, resolutions=[None], validation=None)
    model = own.set_params(random_state=0).fit(X, y)
    assert len(solved) == 1 + model.n_cells_ + len(model.history_)

"""Samples that came several times: rows of a bootstrap are as good as the same rows once."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, make_classification, make_friedman1
from sklearn.metrics import log_loss

from oda_rl import MultiResolutionODA, ODAClassifier, ODARegressor
from oda_rl.rkhs import KernelSGDRegressor

MODELS = {
    "regressor": ODARegressor,
    "classifier": ODAClassifier,
    "tree of a regressor": lambda **given: MultiResolutionODA(ODARegressor(), **given),
    "tree of a classifier": lambda **given: MultiResolutionODA(ODAClassifier(), **given),
}


def problem(name):
    """Samples and targets, of which the first 400 may be learned from."""
    if "classifier" in name:
        return make_classification(1400, 10, n_informative=5, n_classes=3, random_state=3)
    return make_friedman1(1400, 8, noise=0.5, random_state=1)


@pytest.mark.parametrize("times", [2, 12])
@pytest.mark.parametrize("name", MODELS)
def test_rows_that_came_several_times_are_as_good_as_once(name, times):
    X, y = problem(name)
    several = np.repeat(np.arange(200), times)
    rows, targets = X[several], y[several]
    before = rows.copy(), targets.copy()
    once = MODELS[name](random_state=0).fit(X[:200], y[:200])
    model = MODELS[name](random_state=0).fit(rows, targets)
    np.testing.assert_array_equal(rows, before[0])
    np.testing.assert_array_equal(targets, before[1])
    assert model.score(X[400:], y[400:]) > once.score(X[400:], y[400:]) - 0.02


def test_a_bootstrap_is_nearly_as_good_as_its_samples():
    X, y = load_diabetes(return_X_y=True)
    drawn = np.random.default_rng(0).integers(300, size=300)
    once = ODARegressor(random_state=0).fit(X[:300], y[:300])
    model = ODARegressor(random_state=0).fit(X[drawn], y[drawn])
    assert model.score(X[300:], y[300:]) > once.score(X[300:], y[300:]) - 0.05


@pytest.mark.parametrize("name", ["regressor", "classifier"])
def test_copies_count_as_weights(name):
    X, y = problem(name)
    rows, weight = np.arange(200), np.tile([1, 3], 100)  # of mean two: divisions are exact
    drawn = np.repeat(rows, weight)
    copied = MODELS[name](random_state=0).fit(X[drawn], y[drawn])
    weighted = MODELS[name](random_state=0).fit(X[rows], y[rows], sample_weight=weight)
    np.testing.assert_array_equal(copied.codevectors_, weighted.codevectors_)
    np.testing.assert_array_equal(copied.predict(X), weighted.predict(X))


@pytest.mark.parametrize(
    "kind",
    [ODARegressor, lambda **own: MultiResolutionODA(ODARegressor(), **own), KernelSGDRegressor],
)
def test_repeated_measurements_are_as_good_as_their_means(kind):
    X, y = make_friedman1(1100, 8, random_state=1)
    noise = np.random.default_rng(0).normal(size=(100, 8))
    rows, targets = np.repeat(X[:100], 8, axis=0), (y[:100, None] + noise).ravel()
    shuffled = np.random.default_rng(1).permutation(800)
    model = kind(random_state=0).fit(rows[shuffled], targets[shuffled])
    means = kind(random_state=0).fit(X[:100], y[:100] + noise.mean(axis=1))
    assert model.score(X[100:], y[100:]) > means.score(X[100:], y[100:]) - 0.05


@pytest.mark.parametrize("seed", [102, 103, 107])
def test_a_classifier_is_no_surer_of_few_rows_that_came_several_times(seed):
    rng = np.random.default_rng(seed)
    rows, drawn, X = rng.normal(size=(15, 6)), rng.integers(0, 15, 60), rng.normal(size=(800, 6))
    loss = []
    for own in (rows[drawn], rows[np.unique(drawn)]):
        model = ODAClassifier(random_state=seed).fit(own, own[:, 0] + 0.5 * own[:, 1] > 0.0)
        loss.append(log_loss(X[:, 0] + 0.5 * X[:, 1] > 0.0, model.predict_proba(X)))
    assert loss[0] < loss[1] + 0.3


@pytest.mark.parametrize("unlike", [False, True])
def test_draws_of_a_discrete_distribution_are_no_copies(unlike):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (600, 6)).astype(float)
    y = (X[:, :3].sum(axis=1) % 2).astype(int)
    if unlike:  # a seventh feature has many values, but so have targets of the same
        X = np.column_stack([X, np.repeat(rng.normal(size=300), 2)])
        X[1::2], y[::2] = X[::2], 1 - y[1::2]
        X = X[rng.permutation(600)]
    models = [ODAClassifier(scale=None, local_model=None, random_state=0) for _ in range(2)]
    apart = X + 1e-13 * np.arange(600)[:, None]  # nothing is a copy, and hardly anything else
    told = [model.fit(own, y).predict(X) for model, own in zip(models, (X, apart), strict=True)]
    assert (told[0] == told[1]).mean() > 0.99

"""Weights of samples: moments and quantiles, outliers that weigh next to nothing, and streams."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone, is_clusterer, is_regressor
from sklearn.datasets import load_iris, make_friedman1
from sklearn.metrics import balanced_accuracy_score

from oda_rl import (
    KernelSGDClassifier,
    KernelSGDRegressor,
    MultiResolutionODA,
    ODAClassifier,
    ODAPartition,
    ODARegressor,
)
from oda_rl._statistics import quantiles, variances
from oda_rl.quantization import LVQ, DeterministicAnnealing, StochasticVQ
from oda_rl.resolutions import EffectMap, FeatureMap, RankMap

LIGHT = [1e-12, 1e-4]


@pytest.mark.parametrize("shape", [(7, 1), (50, 3), (1000, 12)])
def test_equal_weights_change_nothing_to_the_last_bit(shape):
    values, one = np.random.default_rng(0).normal(3.0, 2.0, shape), np.ones(shape[0])
    for part in (values, values[:, :1], np.asfortranarray(values)):
        np.testing.assert_array_equal(variances(part, one), part.var(axis=0))
        np.testing.assert_array_equal(np.sqrt(variances(part, one)), part.std(axis=0))
    at = [0.0, 0.3, 1.0]
    np.testing.assert_array_equal(quantiles(values, at, one), np.quantile(values, at, axis=0))


def test_whole_weights_are_numbers_of_samples():
    rng = np.random.default_rng(0)
    values, times = rng.normal(size=(200, 2)), rng.integers(1, 4, 200)
    often, weight, at = np.repeat(values, times, axis=0), times.astype(float), [0.21, 0.5, 0.93]
    np.testing.assert_allclose(variances(values, weight), often.var(axis=0))
    expected = np.quantile(often, at, axis=0, method="inverted_cdf")
    np.testing.assert_array_equal(quantiles(values, at, weight), expected)


def test_the_outermost_quantiles_are_of_samples_that_weigh_something():
    values = np.r_[-1e6, np.arange(100.0), 1e6]
    weight = np.r_[1e-9, np.ones(100), 1e-9]
    np.testing.assert_array_equal(quantiles(values, [0.0, 1.0], weight), [0.0, 99.0])


def with_outliers(n=600):
    """Samples, outputs, and which of them may be replaced; samples and outputs to be judged by."""
    X, y = make_friedman1(1000, 8, noise=0.5, random_state=1)
    return X[:n], y[:n], np.random.default_rng(1).random(n) < 0.5, X[600:], y[600:]


@pytest.fixture(scope="module")
def alone():
    """What regressors of each kind learn from the samples that may not be replaced."""
    X, y, bad, *test = with_outliers(300)
    models = {name: ODARegressor(local_model=name, random_state=0) for name in ("linear", "constant")}
    return {name: model.fit(X[~bad], y[~bad]).score(*test) for name, model in models.items()}


@pytest.mark.parametrize(
    ("local_model", "of", "light"),
    [
        ("linear", "inputs", 1e-4),
        ("linear", "outputs", 1e-12),
        ("constant", "inputs", 1e-12),
        ("constant", "outputs", 1e-4),
    ],
)
def test_a_regressor_does_not_mind_outliers_that_weigh_nothing(local_model, of, light, alone):
    X, y, bad, *test = with_outliers(300)
    rng, weight = np.random.default_rng(2), np.where(bad, light, 1.0)
    if of == "inputs":
        X = np.where(bad[:, None], 100.0 * rng.normal(size=X.shape), X)
    else:
        y = np.where(bad, 50.0 * rng.normal(size=300), y)
    model = ODARegressor(local_model=local_model, random_state=0).fit(X, y, sample_weight=weight)
    assert model.score(*test) > alone[local_model] - 0.01


@pytest.mark.parametrize("light", LIGHT)
def test_a_tree_grows_in_spite_of_outliers_that_weigh_nothing(light):
    X, y, bad, *test = with_outliers()
    wild = np.where(bad, 50.0 * np.random.default_rng(2).normal(size=600), y)
    model = MultiResolutionODA(ODARegressor(), random_state=0)
    model.fit(X, wild, sample_weight=np.where(bad, light, 1.0))
    assert model.score(*test) > 0.9


@pytest.mark.parametrize("given", [RankMap(), FeatureMap(RankMap()), EffectMap()])
def test_maps_go_by_weights(given):
    rng = np.random.default_rng(0)
    X, light = rng.normal(size=(600, 2)), np.arange(600) % 3 == 0
    y, weight = np.where(light, 50.0, X[:, 0] ** 2), np.where(light, 1e-12, 2.0)
    X[light] *= 100.0
    found = clone(given).fit_weighted(X, y, weight).transform(X[~light])
    expected = clone(given).fit(X[~light], y[~light]).transform(X[~light])
    np.testing.assert_allclose(found, expected, atol=0.1)


@pytest.mark.parametrize("seed", range(4))
def test_cells_split_whichever_sample_comes_first(seed):
    rng = np.random.default_rng(seed)
    X, heavy = rng.normal(size=(300, 2)), rng.random(300) < 0.3
    model = ODAPartition(10, finish=False, random_state=seed)
    model.fit(X, sample_weight=np.where(heavy, 1.0, 1e-9))
    assert model.n_codevectors_ == 10
    model = ODAPartition(10, random_state=seed).partial_fit(X, sample_weight=np.full(300, 5.0))
    assert model.n_codevectors_ > 1


@pytest.mark.parametrize("levels", [True, False])
def test_a_feature_next_to_constant_has_no_effect(levels):
    X, y = make_friedman1(200, 5, random_state=1)
    X[:, 0] = np.round(3.0 * X[:, 0]) if levels else X[:, 0]
    X[:, 0] *= 1e-300
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = ODARegressor(10, random_state=0).fit(X, y)
        assert np.isfinite(model.coef_).all()
    assert model.score(X, y) > 0.5


@pytest.mark.parametrize(
    "model",
    [
        ODAPartition(3, random_state=0),
        ODAPartition(3, divergence="kl", random_state=0),
        MultiResolutionODA(random_state=0),
        StochasticVQ(3, random_state=0),
        DeterministicAnnealing(3),
    ],
)
def test_samples_that_weigh_nothing_get_labels_alone(model):
    X = load_iris().data
    used = np.arange(len(X)) % 3 > 0
    labels = model.fit_predict(X, sample_weight=used.astype(float))
    without = clone(model).fit(X[used])
    np.testing.assert_array_equal(model.codevectors_, without.codevectors_)
    np.testing.assert_array_equal(labels[used], without.labels_)
    predict = getattr(model, "predict_clusters", model.predict)
    np.testing.assert_array_equal(labels, predict(X))


# -- streams ------------------------------------------------------------------------------------------

STREAMS = {
    "partition": ODAPartition(6, random_state=0),
    "tree of cells": MultiResolutionODA(random_state=0),
    "quantizer": StochasticVQ(4, random_state=0),
    "classifier": ODAClassifier(random_state=0),
    "densities": ODAClassifier(local_model=None, forgetting=None, random_state=0),
    "lvq mode": ODAClassifier(12, mode="lvq", random_state=0),
    "lvq": LVQ(3, random_state=0),
    "tree of classes": MultiResolutionODA(ODAClassifier(), random_state=0),
    "kernel classifier": KernelSGDClassifier(random_state=0),
    "regressor": ODARegressor(n_warmup=50, random_state=0),
    "tree of outputs": MultiResolutionODA(ODARegressor(), random_state=0),
    "kernel regressor": KernelSGDRegressor(random_state=0),
}


def iris_for(model):
    """Shuffled samples, and the targets for a model: none, classes or outputs."""
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    if is_clusterer(model) or isinstance(model, StochasticVQ):
        return X, ()
    return (X[:, :3], (X[:, 3],)) if is_regressor(model) else (X, (y,))


def streamed(model, X, targets, weight, fitted=0, chunk=50):
    """A copy of a model, fitted to the first samples if any, that goes on with a stream."""
    model = clone(model)
    if fitted > 0:
        model.fit(X[:fitted], *(y[:fitted] for y in targets), sample_weight=weight[:fitted])
    for start in range(fitted, len(X), chunk):
        rows = slice(start, start + chunk)
        model.partial_fit(X[rows], *(y[rows] for y in targets), sample_weight=weight[rows])
    return model


@pytest.mark.parametrize("fitted", [0, 75])
@pytest.mark.parametrize("name", STREAMS)
def test_equal_weights_of_a_stream_change_nothing(name, fitted):
    model = STREAMS[name]
    X, targets = iris_for(model)
    one, *others = (
        streamed(model, X, targets, np.full(150, weight), fitted) for weight in (1.0, 0.001, 100.0)
    )
    for other in others:
        # The first steps of least squares amplify what the mean of weights is rounded by.
        np.testing.assert_allclose(other.predict(X), one.predict(X), rtol=1e-3)


@pytest.mark.parametrize(
    "name", ["partition", "densities", "lvq mode", "regressor", "kernel classifier"]
)
def test_chunks_of_a_weighted_stream_do_not_matter(name):
    X, targets = iris_for(STREAMS[name])
    weight = np.random.default_rng(1).exponential(5.0, 150)
    whole, parts = (streamed(STREAMS[name], X, targets, weight, 0, chunk) for chunk in (150, 7))
    np.testing.assert_allclose(whole.predict(X), parts.predict(X), rtol=1e-6)


@pytest.mark.parametrize("name", ["partition", "densities", "tree of classes", "kernel regressor"])
def test_samples_without_a_weight_weigh_one_and_files_know_the_mean(name, tmp_path):
    X, targets = iris_for(STREAMS[name])
    weight = np.where(np.arange(150) < 140, 40.0, 1.0)
    told = streamed(STREAMS[name], X, targets, weight, 70)
    model = streamed(STREAMS[name], X[:140], [y[:140] for y in targets], weight[:140], 70)
    model = type(model).load(model.save(tmp_path / "model"))
    for t in range(140, 150):  # one by one, which is learned on another path if all weights are one
        model.partial_fit(X[t : t + 1], *(y[t : t + 1] for y in targets))
    np.testing.assert_allclose(model.predict(X), told.predict(X), rtol=1e-6)


@pytest.mark.parametrize("forgetting", ["adwin", None])
def test_a_stream_learns_a_rare_class_of_a_large_weight(forgetting):
    rng = np.random.default_rng(100)
    y = (rng.random(1600) < 0.03).astype(int)
    X = rng.normal(size=(1600, 4)) + 2.0 * y[:, None]
    model = ODAClassifier(class_weight={0: 1.0, 1: 30.0}, forgetting=forgetting, random_state=0)
    for start in range(0, 800, 50):
        model.partial_fit(X[start : start + 50], y[start : start + 50])
    assert balanced_accuracy_score(y[800:], model.predict(X[800:])) > 0.9


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_heavy_samples_correct_no_more_than_their_own_errors(loss):
    rng = np.random.default_rng(100)
    X = rng.uniform(0.0, 6.0, (600, 1))
    y, weight = np.sin(X[:, 0]), rng.exponential(1.0, 600) ** 3
    for fitted in (0, 300, 600):
        model = streamed(KernelSGDRegressor(loss, random_state=0), X, (y,), weight, fitted)
        assert model.score(X, y) > 0.8


def test_a_kernel_classifier_keeps_the_points_of_a_class_of_small_weights():
    rng = np.random.default_rng(100)
    y = (rng.random(800) < 0.1).astype(int)
    X = rng.normal(size=(800, 2)) + 2.5 * y[:, None]
    model = KernelSGDClassifier("logistic", random_state=0).fit(X, y, np.where(y == 1, 20.0, 1.0))
    assert balanced_accuracy_score(y, model.predict(X)) > 0.85

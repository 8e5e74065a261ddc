"""Weights of samples: moments and quantiles, and fits that outliers of next to no weight do not harm."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, make_friedman1

from oda_rl import MultiResolutionODA, ODAPartition, ODARegressor
from oda_rl._statistics import quantiles, variances
from oda_rl.quantization import DeterministicAnnealing, StochasticVQ
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

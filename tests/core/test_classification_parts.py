"""The parts of the classifier: kernels against slow twins, moments, scaling, shares of K_max."""

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.datasets import load_digits, load_wine

from oda_rl import ODAClassifier
from oda_rl._schema import check
from oda_rl._schema_texts import RefusedError
from oda_rl.codebook.divergences import get_divergence
from oda_rl.estimators.classification import kernels
from oda_rl.estimators.classification.annealing import capacities
from oda_rl.estimators.classification.book import probabilities
from oda_rl.estimators.feature_scaling import FLOOR, NO_SCALING, SCALING, UNCORRELATED, Moments
from oda_rl.estimators.feature_selection import UNIMPORTANT

SQUARED = get_divergence("squared_euclidean")


def observed(samples, labels, weight=None):
    result = Moments(samples.shape[1])
    for c in range(labels.max() + 1):
        result.insert(c)
    result.observe(samples, labels, np.ones(len(samples)) if weight is None else weight)
    return result


def test_log_joint_is_equation_35():
    rng = np.random.default_rng(0)
    distance, label = rng.uniform(0.0, 3000.0, (20, 6)), np.array([0, 2, 1, 0, 2, 2])
    weight, width = rng.dirichlet(np.ones(6)), np.array([0.5, 1.0, 2.0])
    out = np.empty((20, 4))
    kernels.log_joint(distance, label, weight, np.append(width, 1.0), 3.0, out)
    for c in range(3):
        own = label == c
        terms = np.log(weight[own]) - distance[:, own] / width[c]
        np.testing.assert_allclose(out[:, c], logsumexp(terms, axis=1) - 1.5 * np.log(width[c]))
    assert (out[:, 3] == -np.inf).all()
    np.testing.assert_allclose(probabilities(out).sum(axis=1), 1.0)


def test_moments_are_those_of_the_classes():
    rng = np.random.default_rng(0)
    samples, labels = rng.normal(size=(200, 3)), rng.integers(0, 3, 200)
    weight = rng.uniform(0.5, 2.0, 200)
    found = observed(samples, labels, weight)
    scatter = np.zeros((3, 3))
    for c in range(3):
        own = labels == c
        mean = np.average(samples[own], axis=0, weights=weight[own])
        np.testing.assert_allclose(found.mean[c], mean)
        scatter += (weight[own, None] * (samples[own] - mean)).T @ (samples[own] - mean)
    np.testing.assert_allclose(found.scatter, scatter)
    np.testing.assert_allclose(found.bounds, [samples.min(axis=0), samples.max(axis=0)])
    total = np.cov(samples, rowvar=False, aweights=weight, bias=True)
    np.testing.assert_allclose(found.variances()[1], np.diag(total))


def test_moments_that_rounding_has_spoilt_give_finite_scalings():
    moments = Moments(2)
    moments.insert(0)
    moments.observe(np.eye(2), np.zeros(2, dtype=np.int64), np.ones(2))
    moments.scatter[:] = [[1.0, 5.0], [5.0, 1.0]]  # no covariance: a correlation of 5
    scaling = moments.scaling("auto", get_divergence("squared_euclidean"))
    assert np.isfinite(scaling.matrix).all()
    np.testing.assert_allclose(scaling.back(scaling(np.eye(2))), np.eye(2), atol=1e-9)


@pytest.mark.parametrize("n_kept", [None, 30])
def test_few_samples_are_whitened_without_a_decomposition_of_all_features(n_kept, monkeypatch):
    rng, d, orders = np.random.default_rng(0), 120, []
    mixed = np.eye(d) + 0.1 * rng.normal(size=(d, d))
    samples, labels = 100.0 + rng.normal(size=(40, d)) @ mixed, np.arange(40) % 2
    moments, eigh = observed(samples, labels), np.linalg.eigh
    _, total = moments.variances()
    within = moments.scatter / len(samples) / np.sqrt(np.multiply.outer(total, total))
    units = np.sqrt(total)
    if n_kept is not None:
        moments.kept = np.arange(d) < n_kept
        within[:n_kept, n_kept:] = within[n_kept:, :n_kept] = 0.0
        units[n_kept:] /= UNIMPORTANT
    whole = (1.0 - UNCORRELATED) * within + np.diag(UNCORRELATED * np.diag(within) + FLOOR)
    inverse = np.linalg.inv(whole) / np.multiply.outer(units, units)
    monkeypatch.setattr(np.linalg, "eigh", lambda matrix: orders.append(len(matrix)) or eigh(matrix))
    scaling = moments.scaling("within", SQUARED)
    np.testing.assert_allclose(scaling.matrix @ scaling.matrix.T, inverse, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(scaling.back(scaling(samples)), samples)
    assert max(orders) < 2 * len(samples)


def test_two_samples_of_many_features_are_whitened():
    samples = np.random.default_rng(0).normal(size=(2, 50))
    model = ODAClassifier(random_state=0).fit(samples, [0, 1])
    np.testing.assert_array_equal(model.predict(samples), [0, 1])


def test_moments_do_not_depend_on_chunks():
    rng = np.random.default_rng(0)
    samples, labels = rng.normal(size=(50, 2)), rng.integers(0, 2, 50)
    whole, parts = (observed(samples[:1], labels[:1] * 0 + 1) for _ in range(2))
    whole.observe(samples, labels, np.ones(50))
    for t in range(50):
        parts.observe(samples[t : t + 1], labels[t : t + 1], np.ones(1))
    np.testing.assert_array_equal(whole.scatter, parts.scatter)


@pytest.mark.parametrize("scale", ["within", "standard", "minmax", None])
def test_scalings_go_back(scale):
    X, y = load_wine(return_X_y=True)
    scaling = observed(X, y).scaling(scale, SQUARED)
    np.testing.assert_allclose(scaling.back(scaling(X)), X, rtol=1e-8)


def test_features_of_one_unit_stay_as_they_are():
    rng = np.random.default_rng(0)
    for load, plain in ((load_digits, True), (load_wine, False)):
        X, y = load(return_X_y=True)
        scaling = observed(X, y).scaling_for("auto", SQUARED, X, y, np.ones(len(y)), rng)
        assert (scaling is NO_SCALING) == plain


def test_k_max_is_shared_by_need():
    assert capacities([300, 300, 300], 90) == [30, 30, 30]
    assert capacities([9, 300, 300], 43) == [3, 20, 20]
    assert capacities([1, 2, 3], 40) == [1, 1, 1]
    assert capacities([100, 100], 1) == [1, 1]


def test_units_do_not_matter():
    X, y = load_wine(return_X_y=True)
    factors = 10.0 ** np.random.default_rng(0).integers(-6, 6, X.shape[1])
    one = ODAClassifier(scale="within", random_state=0).fit(X, y)
    two = ODAClassifier(scale="within", random_state=0).fit(X * factors, y)
    np.testing.assert_allclose(two.predict_proba(X * factors), one.predict_proba(X), atol=1e-6)
    np.testing.assert_allclose(two.relevances_, one.relevances_, rtol=1e-6)


def test_a_file_cannot_have_scalings_that_no_data_ask_for():
    def check_scaling(shift, matrix):
        check(SCALING, {"shift": shift, "matrix": matrix, "inverse": np.eye(2)}, {"d": 2})

    check_scaling(np.full(2, 1e74), 1e-58 * np.eye(2))
    check_scaling(np.zeros(2), 1e60 * np.eye(2))
    for shift, matrix in [(1e100, 1.0), (0.0, 1e100)]:
        with pytest.raises(RefusedError, match="a float64 array of shape"):
            check_scaling(np.full(2, shift), matrix * np.eye(2))

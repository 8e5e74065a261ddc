"""Logistic regression over shares of cells: against scikit-learn's over all columns, written out."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from oda_rl.estimators.classification import logistic
from oda_rl.estimators.classification.logistic import LEAST_SHARE, Basis, fit_logistic


def problem(n_classes, n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = (
        2.0 * np.sin(2.0 * X) @ rng.normal(size=(3, n_classes)) + rng.gumbel(size=(n, n_classes))
    ).argmax(1)
    return X, y, rng.uniform(0.5, 2.0, n), rng.normal(size=(4, 3))


def columns_of(X, codevectors, temperature, kept):
    """The slow twin of a basis: (n_samples, n_cells * (1 + n_kept))."""
    share = np.exp(-((X[:, None] - codevectors) ** 2).sum(axis=2) / temperature)
    share /= share.sum(axis=1, keepdims=True)
    share[share <= LEAST_SHARE * share.max(axis=1, keepdims=True)] = 0.0
    share /= share.sum(axis=1, keepdims=True)
    ones = np.ones((len(X), len(codevectors), 1))
    offsets = (X[:, None] - codevectors)[:, :, kept]
    return (share[:, :, None] * np.concatenate([ones, offsets], axis=2)).reshape(len(X), -1)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("temperature", [0.3, 3.0])
@pytest.mark.parametrize("penalty", [1.0, 100.0])
@pytest.mark.parametrize("dense", [0.0, 2.0])
def test_it_is_logistic_regression_over_all_columns(n_classes, temperature, penalty, dense, monkeypatch):
    """By products with all cells, and by those with a share in a sample."""
    monkeypatch.setattr(logistic, "DENSE", dense)
    X, y, weight, codevectors = problem(n_classes)
    kept = np.array([True, False, True])
    basis = Basis.of(X, codevectors, temperature, kept)
    found = fit_logistic(basis, y, weight, penalty, tolerance=1e-7)
    columns = columns_of(X, codevectors, temperature, kept)
    twin = LogisticRegression(C=penalty, tol=1e-9, max_iter=10_000)
    twin.fit(columns, y, sample_weight=weight)
    logits = found(basis)
    proba = np.exp(logits - logits.max(axis=1, keepdims=True))
    proba /= proba.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(proba, twin.predict_proba(columns), atol=1e-5)
    again = columns @ found.models.transpose(0, 2, 1).reshape(-1, n_classes) + found.constant
    np.testing.assert_allclose(again, logits, atol=1e-9)


def test_shares_of_many_samples_are_those_of_few():
    X, _, _, codevectors = problem(2, n=9000)
    every = np.ones(3, dtype=bool)
    whole, part = (Basis.of(rows, codevectors, 0.5, every) for rows in (X, X[4000:5000]))
    start, end = whole.begin[4000], whole.begin[5000]
    np.testing.assert_array_equal(whole.cells[start:end], part.cells)
    np.testing.assert_allclose(whole.share[start:end], part.share, rtol=1e-12)


def test_a_search_goes_on_where_another_has_ended():
    X, y, weight, codevectors = problem(3)
    basis = Basis.of(X, codevectors, 1.0, np.ones(3, dtype=bool))
    found = fit_logistic(basis, y, weight, 1.0, tolerance=1e-6)
    again = fit_logistic(basis, y, weight, 1.0, found, tolerance=1e-6)
    np.testing.assert_allclose(again.models, found.models, atol=1e-12)
    of_others = fit_logistic(basis, y + 1, weight, 1.0, found, tolerance=1e-6)
    assert of_others.of.tolist() == [1, 2, 3]
    np.testing.assert_allclose(of_others.models, found.models, atol=1e-4)

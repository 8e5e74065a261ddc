"""Features that tell classes apart only alone, only in pairs, or not at all."""

import io

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, make_hastie_10_2

from oda_rl import MultiResolutionODA, ODAClassifier
from oda_rl.estimators.feature_selection import INFORMATIVE, agreeing, informativeness, parts_of

KINDS = {
    "thresholds": ([3], lambda X: np.digitize(X[:, 3], [-1.0, -0.2, 0.6]) % 2),
    "a pair": ([2, 7], lambda X: X[:, 2] * X[:, 7] > 0.0),
    "three": ([2, 7, 11], lambda X: (X[:, 2] * X[:, 7] > 0.0) ^ (X[:, 11] > 0.7)),
    "a ring": ([2, 7], lambda X: X[:, 2] ** 2 + X[:, 7] ** 2 > 1.4),
}


def problem(kind, n=1200, d=20, seed=100):
    X = np.random.default_rng(seed).normal(size=(n, d))
    return X, KINDS[kind][1](X).astype(int)


@pytest.mark.parametrize("kind", KINDS)
def test_few_features_of_many(kind):
    X, y = problem(kind)
    model = ODAClassifier(random_state=0).fit(X[:800], y[:800])
    useful = KINDS[kind][0]
    assert model.relevances_[useful].sum() > 0.999
    assert model.relevances_[useful].min() > 0.1 / len(useful)
    assert model.score(X[800:], y[800:]) > 0.9
    np.testing.assert_array_equal(
        model.predict(X), model.classes_[model.predict_proba(X).argmax(axis=1)]
    )


def test_neighbouring_codes_of_different_classes():
    codes = np.random.default_rng(100).integers(0, 12, (900, 10)).astype(float)
    y = codes[:, 5].astype(int) % 2
    assert ODAClassifier(random_state=0).fit(codes[:600], y[:600]).score(codes[600:], y[600:]) > 0.98


def test_a_tree_sees_them_too():
    X, y = problem("thresholds")
    model = MultiResolutionODA(ODAClassifier(), random_state=0).fit(X[:800], y[:800])
    assert model.score(X[800:], y[800:]) > 0.93


def test_nothing_is_left_out_where_all_tell_or_none_does():
    X, y = load_breast_cancer(return_X_y=True)
    assert ODAClassifier(random_state=0).fit(X, y).relevances_.min() > 1e-4
    noise = np.random.default_rng(100).normal(size=(400, 15))
    model = ODAClassifier(random_state=0).fit(noise, np.arange(400) % 2)
    assert model.relevances_.min() > 1e-3


def test_what_was_left_out_is_kept_in_files_and_streams():
    X, y = problem("thresholds")
    model = ODAClassifier(random_state=0).fit(X[:600], y[:600])
    file = io.BytesIO()
    model.save(file)
    file.seek(0)
    again = ODAClassifier.load(file)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    for one in (model, again):  # past the place where features are scaled anew
        one.partial_fit(X[600:], y[600:]).partial_fit(X[:600], y[:600])
        assert one.relevances_[3] > 0.999
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_few_ordinary_samples_are_rejected():
    X, y = problem("a ring", 2000)
    model = ODAClassifier(reject=0.01, reject_label=-1, random_state=0).fit(X[:1000], y[:1000])
    assert (model.predict(X[1000:]) == -1).mean() < 0.05
    far = X[1000:].copy()
    far[:, 2] = 30.0
    assert (model.predict(far) == -1).mean() > 0.95


def test_a_pair_tells_what_neither_does():
    X, y = problem("a pair")
    found = informativeness(X, y)
    assert set(np.flatnonzero(found > INFORMATIVE)) == {2, 7}
    assert set(np.argsort(-found)[:2]) == {2, 7}


def test_tables_have_the_values_of_few_and_quantiles_of_many():
    samples = np.column_stack([np.arange(100) % 3, np.arange(100.0)])
    few, many = parts_of(samples, 5)
    np.testing.assert_array_equal(few, np.arange(100) % 3)
    np.testing.assert_array_equal(np.bincount(many), 20)


@pytest.mark.parametrize("d", [2, 12])  # by a tree, and by all distances
def test_neighbours_vote(d):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, d)), rng.integers(0, 2, 60)
    distance = ((X[:, None] - X) ** 2).sum(axis=2)
    np.fill_diagonal(distance, np.inf)
    votes = y[np.argsort(distance, axis=1)[:, :5]].mean(axis=1) > 0.5
    np.testing.assert_array_equal(agreeing(X, y), votes == y)


def test_neighbours_of_equal_samples():
    assert agreeing(np.zeros((20, 2)), np.zeros(20, dtype=np.int64)).all()


def test_features_that_tell_a_little_each_stay():
    X, y = make_hastie_10_2(640, random_state=100)
    model = ODAClassifier(random_state=0).fit(X, y)
    assert model.relevances_.min() > 1e-3
    assert model.score(*make_hastie_10_2(500, random_state=101)) > 0.9

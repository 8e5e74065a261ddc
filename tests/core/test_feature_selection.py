"""Features that tell classes apart only alone, only in pairs, or not at all."""

import io

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, make_hastie_10_2

from oda_rl import MultiResolutionODA, ODAClassifier
from oda_rl.estimators.feature_selection import (
    INFORMATIVE,
    agreeing,
    informativeness,
    is_clearly_more,
    parts_of,
    thinned,
)

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


# Neighbours by unscaled features are better by chance; a feature without information seems to have some.
@pytest.mark.parametrize(("d", "seed"), [(4, 101), (4, 106), (4, 109), (5, 127)])
def test_features_that_tell_nothing_are_left_out_whatever_chance_says(d, seed):
    X = np.random.default_rng(seed).normal(size=(1000, d))
    y = (np.sin(6.0 * X[:, 0]) > 0.0).astype(int)
    model = ODAClassifier(random_state=100).fit(X[:500], y[:500])
    assert model.relevances_[0] > 0.999
    assert model.score(X[500:], y[500:]) > 0.95


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
    found = informativeness(X, y, np.ones(len(y)))
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
    np.testing.assert_array_equal(agreeing(X, y, np.ones(60)), votes == y)


def test_neighbours_of_equal_samples():
    assert agreeing(np.zeros((20, 2)), np.zeros(20, dtype=np.int64), np.ones(20)).all()


def test_features_that_tell_a_little_each_stay():
    X, y = make_hastie_10_2(640, random_state=100)
    model = ODAClassifier(random_state=0).fit(X, y)
    assert model.relevances_.min() > 1e-3
    assert model.score(*make_hastie_10_2(500, random_state=101)) > 0.9


def test_samples_that_weigh_next_to_nothing_select_nothing():
    X = np.random.default_rng(100).normal(size=(900, 4))
    y = (X[:, 0] * X[:, 1] > 0.0).astype(int)
    wrong = np.arange(900) < 600
    model = ODAClassifier(local_model=None, validation=None, random_state=0)
    for light in (1e-12, 1e-3):
        model.fit(X, np.where(wrong, 1 - y, y), np.where(wrong, light, 1.0))
        assert model.relevances_[:2].sum() > 0.99


def test_light_samples_are_thinned_out_and_heavy_ones_count_more():
    X, y = problem("thresholds", 1000, 4)
    for weight in (0.1, 7.0):
        samples, labels, times = thinned(X, y, np.full(1000, weight))
        assert samples is X
        assert labels is y
        assert (times == 1.0).all()
    weight = np.r_[np.full(500, 0.05), np.ones(400), np.full(100, 3.0)]
    samples, _, times = thinned(X, np.arange(1000) // 500, weight)
    assert 10 < len(samples) - 500 < 45
    np.testing.assert_array_equal(samples[-500:], X[500:])
    np.testing.assert_array_equal(times, np.r_[np.ones(len(samples) - 100), np.full(100, 3.0)])
    heaviest = thinned(X, y, np.where(np.arange(1000) == 3, 1e9, 1.0))
    np.testing.assert_array_equal(heaviest[0], X[3:4])


def test_equal_weights_of_any_size_tell_the_same():
    X, y = problem("thresholds", 300, 4)
    found, ones = informativeness(X, y, np.ones(300)), np.ones(300)
    np.testing.assert_allclose(informativeness(X, y, 3.0 * ones), found)
    np.testing.assert_array_equal(agreeing(X, y, 3.0 * ones), agreeing(X, y, ones))
    few, better = np.zeros(300, dtype=bool), np.arange(300) < 12
    assert is_clearly_more(few, better, ones)
    assert is_clearly_more(few, better, 3.0 * ones)
    assert not is_clearly_more(few, better, np.where(np.arange(300) == 0, 100.0, 1.0))

"""Scores of classes beside features: what they tell, trees that read them, what is told of them."""

from copy import deepcopy

import numpy as np
import pytest
from model_files import reloaded
from sklearn.datasets import make_gaussian_quantiles

from oda_rl import MultiResolutionODA, ODAClassifier, explain
from oda_rl.resolutions import ScoreMap, get_state, restore


def shells(n, seed, names=("inner", "middle", "outer")):
    """Classes around each other: no cell in five dimensions is of one of them."""
    X, y = make_gaussian_quantiles(n_samples=n, n_features=5, n_classes=len(names), random_state=seed)
    return X, np.array(names)[y]


@pytest.fixture(scope="module")
def tree():
    return MultiResolutionODA(ODAClassifier(), random_state=0).fit(*shells(800, 100))


@pytest.mark.parametrize("seed", [100, 101])
def test_classes_around_each_other_are_told_apart(seed):
    X, y = shells(1200, seed)
    found = MultiResolutionODA(ODAClassifier(), random_state=0).fit(X[:800], y[:800])
    plain = MultiResolutionODA(ODAClassifier(), resolutions=[None], random_state=0).fit(X[:800], y[:800])
    assert found.score(X[800:], y[800:]) > 0.85 > 0.78 > plain.score(X[800:], y[800:])
    assert found.n_codevectors_ < plain.n_codevectors_


def test_features_stay_as_they_are_where_scores_do_not_help():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 3)), rng.integers(0, 2, 600)
    X[:, 0] += 3.0 * y
    own = MultiResolutionODA(ODAClassifier(), random_state=0).fit(X, y)
    plain = MultiResolutionODA(ODAClassifier(), resolutions=[None], random_state=0).fit(X, y)
    np.testing.assert_array_equal(own.predict_proba(X), plain.predict_proba(X))


def test_a_tree_with_scores_tells_them(tree):
    X, _ = shells(800, 100)
    names = ["score of inner", "score of middle", "score of outer"]
    rules = explain.rules(tree)
    for child in rules["children"]:
        assert list(child["added"]) == names
    inner = max(rules["children"], key=lambda child: child["added"][names[0]])
    assert inner["decision"] == "inner"
    assert "and score of inner" in explain.rules_text(tree)
    told = explain.explain(tree, X[0])
    assert told.steps[0].added == {}
    sample = ScoreMap().fit(*shells(800, 100)).transform(X[:1])[0, 5:]
    np.testing.assert_allclose([own for _, own in told.steps[1].added.values()], sample)
    assert "score of outer" in str(told)


def test_a_tree_with_scores_goes_on(tree):
    X, y = shells(800, 100)
    other = reloaded(tree)
    np.testing.assert_array_equal(other.predict_proba(X), tree.predict_proba(X))
    worst = explain.errors(other)[0]
    same = deepcopy(tree)
    assert other.refine(worst.name, X, y) == same.refine(worst.name, X, y)
    np.testing.assert_array_equal(other.predict_proba(X), same.predict_proba(X))
    other.partial_fit(X[:50] + 20.0, ["far"] * 50)
    assert other.classes_.tolist() == ["far", "inner", "middle", "outer"]
    assert list(explain.rules(other)["children"][0]["added"]) == ["score0", "score1", "score2"]


@pytest.mark.parametrize(("names", "n"), [(("a", "b"), 1), (("a", "b", "c"), 3)])
def test_the_map_of_scores(names, n):
    X, y = shells(600, 0, names)
    X[:, 4] = X[:, 4] > 0.0  # with no values for a bend
    own = ScoreMap().fit(X, y)
    found = own.transform(X)
    assert found.shape == (600, 5 + n)
    np.testing.assert_array_equal(own.inverse_transform(found), X)
    for score, name in zip(found[:, 5:].T, names[-n:], strict=True):
        assert score[y == name].mean() > 0.1 > 0.0 > score[y != name].mean()
    assert own.get_feature_names_out()[5] == "score0"
    np.testing.assert_array_equal(restore(get_state(own)).transform(X), found)
    state = get_state(own)
    state["fitted"]["knots_"] = state["fitted"]["knots_"][::-1]
    with pytest.raises(ValueError, match="ScoreMap"):
        restore(state)


def test_a_line_counts_in_a_score():
    """A feature of two values has a part in it, in proportion."""
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.integers(0, 2, 400), rng.normal(size=400)])
    y = X[:, 0] + 0.1 * X[:, 1] > 0.5
    score = ScoreMap().fit(X, y).transform([[0.0, 0.0], [0.5, 0.0], [1.0, 0.0]])[:, 2]
    assert score[0] < -0.8
    assert score[2] > 0.8
    assert score[1] == pytest.approx((score[0] + score[2]) / 2.0)


def test_scores_are_of_classes():
    X = np.random.default_rng(2).normal(size=(200, 2))
    with pytest.raises(ValueError, match="Unknown label type"):
        ScoreMap().fit(X, X[:, 0])
    assert ScoreMap().fit(X).transform(X).shape == (200, 2)
    assert ScoreMap().fit(X, np.ones(200)).transform(X).shape == (200, 2)
    assert ScoreMap().fit(X[:4], [0, 1, 0, 1]).transform(X).shape == (200, 2)  # too few samples

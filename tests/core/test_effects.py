"""Effects of features: their sum, what they are of, slopes; regressors and trees that use them."""

import numpy as np
import pytest
from model_files import reloaded

from oda_rl import MultiResolutionODA, ODARegressor
from oda_rl._effects import Effects, FeatureSums
from oda_rl._statistics import standardised
from oda_rl.resolutions import EffectMap, get_state, restore

KINDS = np.array([1.0, -1.0, 2.0, 0.0, -2.0, 1.5, -0.5, 0.5])


def coded(n, seed):
    """Outputs of a kind that is a number without order, and of two features that have one."""
    rng = np.random.default_rng(seed)
    kind, X = rng.integers(0, 8, n), rng.normal(size=(n, 2))
    return np.column_stack([kind, X]), KINDS[kind] * (1.0 + 0.3 * X[:, 0]) + X[:, 1]


def test_effects_are_the_parts_of_a_sum():
    """Of levels each its own value, of many values what is linear between quantiles."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 8, 2000), rng.uniform(-1.0, 1.0, (2000, 2))])
    parts = np.column_stack([KINDS[X[:, 0].astype(int)], 2.0 * np.abs(X[:, 1]), X[:, 2]])
    y = parts.sum(axis=1, keepdims=True)
    effects, leverage = Effects.of(X, y, np.ones(2000))
    assert effects.feature.tolist() == [0, 1]  # the third is a line
    found = effects(X) * [1.0, 1.0, 1.0, y.std(), y.std()]
    np.testing.assert_array_equal(found[:, :3], X)
    for column, part in zip(found[:, 3:].T, parts.T[:2], strict=True):
        off = column - column.mean() - (part - part.mean())
        assert off.std() < 0.05 * part.std()
    assert 0.0 < leverage.min() < leverage.max() < 0.2
    far = effects(np.array([[3.0, 1.0, 0.0], [3.0, 5.0, 0.0]]))[:, 4]
    assert far[0] == pytest.approx(far[1], abs=0.01)  # no further than what was seen


def test_nothing_bends_along_a_plane_or_by_chance():
    rng = np.random.default_rng(1)
    X, one = rng.normal(size=(500, 3)), np.ones(500)
    assert Effects.of(X, X @ [[1.0], [2.0], [0.0]] + 0.1 * rng.normal(size=(500, 1)), one) is None
    assert Effects.of(X, rng.normal(size=(500, 1)), one) is None
    assert Effects.of(np.ones((500, 3)), rng.normal(size=(500, 1)), one) is None


@pytest.mark.parametrize("levels", [True, False])
def test_few_of_many_features_have_effects(levels):
    """The samples are too few for knots of all features; small effects show after large ones."""
    rng = np.random.default_rng(100)
    X = rng.integers(-3, 4, (120, 90)) / 3.0 if levels else rng.uniform(-1.0, 1.0, (120, 90))
    y = 5.0 * X[:, 7] + 4.0 * X[:, 3] ** 2 + np.cos(4.0 * X[:, 50]) + 0.1 * rng.normal(size=120)
    effects, leverage = Effects.of(X, y[:, None], np.ones(120))
    assert {3, 50} <= set(effects.feature.tolist()) <= {3, 7, 50}
    assert leverage.mean() < 0.5
    assert Effects.of(X, rng.normal(size=(120, 1)), np.ones(120)) is None
    two = np.column_stack([rng.normal(size=120), y])
    assert {3, 50} <= set(Effects.of(X, two, np.ones(120))[0].feature.tolist())


@pytest.mark.parametrize("d", [99, 100, 160])
def test_lines_of_more_features_than_samples_explain_no_chance(d):
    """They may interpolate the samples, which does not make their errors on samples left out 0."""
    rng = np.random.default_rng(100)
    X, weight = rng.normal(size=(100, d)), rng.uniform(0.5, 1.5, 100)
    y = (4.0 * X[:, 0] ** 2 + np.sin(4.0 * X[:, 1]))[:, None]
    assert FeatureSums.of(X, standardised(y, weight), weight).score_of_lines > 0.9
    assert 0 in Effects.of(X, y, weight)[0].feature
    line = standardised(y + 20.0 * X[:, 1:2], weight)  # lines do explain a part of this
    assert FeatureSums.of(X, line, weight).score_of_lines < 0.95


def test_a_regressor_finds_few_of_many_features():
    rng = np.random.default_rng(100)
    X = rng.uniform(-1.0, 1.0, (400, 40))
    y = 4.0 * X[:, 0] ** 2 + np.sin(4.0 * X[:, 1])
    model = ODARegressor(max_codevectors=5, kernel=None, pilot_rounds=1, random_state=0)
    assert model.fit(X[:90], y[:90]).score(X[90:], y[90:]) > 0.8


def test_slopes_of_effects():
    X, y = coded(1000, 0)
    effects, _ = Effects.of(X, y[:, None], np.ones(1000))
    points = np.array([[2.3, 0.1, -0.2], [6.7, 0.4, 0.3], [9.0, 9.0, 9.0]])
    step = np.array([1e-6, 0.0, 0.0])
    change = (effects(points + step) - effects(points - step))[:, 3] / 2e-6
    own = effects.feature == 0
    np.testing.assert_allclose(effects.slopes(points)[:, own][:, 0], change, rtol=1e-6, atol=1e-9)
    assert effects.slopes(points)[2].tolist() == [0.0] * len(effects)


def test_numbers_of_kinds_are_followed():
    (X, y), test = coded(600, 100), coded(500, 150)
    flat = ODARegressor(random_state=0).fit(X, y)
    plain = ODARegressor(pilot_rounds=0, kernel=None, random_state=0).fit(X, y)  # which tries no effects
    tree = MultiResolutionODA(ODARegressor(), random_state=0).fit(X, y)
    assert flat.score(*test) > 0.97 > 0.9 > plain.score(*test)
    assert tree.score(*test) > 0.95
    assert flat.coef_.shape == flat.codevectors_.shape == (flat.n_codevectors_, 3)
    assert flat.relevance_.shape == (3,)
    for model in (flat, tree):
        np.testing.assert_array_equal(reloaded(model).predict(test[0]), model.predict(test[0]))


def test_a_tree_has_a_line_for_each_of_many_kinds():
    """Whose lines cross in the middle, so that kinds do not tell outputs alone."""
    rng = np.random.default_rng(100)
    kind, x, slope = rng.integers(0, 30, 1200), rng.uniform(-1.0, 1.0, 1200), rng.normal(size=30)
    X, y = np.column_stack([kind, x]), slope[kind] * x + 0.05 * rng.normal(size=1200)
    tree = MultiResolutionODA(ODARegressor(), random_state=0).fit(X[:800], y[:800])
    assert tree.score(X[800:], y[800:]) > 0.95
    assert tree.n_codevectors_ <= 100
    np.testing.assert_array_equal(reloaded(tree).predict(X), tree.predict(X))


def test_a_stream_goes_on_with_effects():
    X, y = coded(600, 100)
    model = ODARegressor(random_state=0).fit(X, y)
    other = reloaded(model)
    more, outputs = coded(300, 7)
    for one in (model, other):
        one.partial_fit(more[:1], outputs[:1])
        one.partial_fit(more[1:], outputs[1:])
    np.testing.assert_array_equal(other.predict(X), model.predict(X))
    assert model.score(X, y) > 0.9
    assert model.association(X[:5]).sum(axis=1) == pytest.approx(np.ones(5))
    assert model.predict(X[:5], return_std=True)[1].shape == (5,)


def test_the_map_of_effects():
    X, y = coded(600, 0)
    own = EffectMap().fit(X, y)
    found = own.transform(X)
    assert found.shape == (600, 3 + len(own.feature_))
    np.testing.assert_array_equal(own.inverse_transform(found), X)
    assert own.get_feature_names_out(["a", "b", "c"])[3] == "effect of a"
    np.testing.assert_array_equal(restore(get_state(own)).transform(X), found)
    state = get_state(own)
    state["fitted"]["feature_"] = state["fitted"]["feature_"] + 3
    with pytest.raises(ValueError, match="EffectMap"):
        restore(state)

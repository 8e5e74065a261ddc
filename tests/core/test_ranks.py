"""Features by their ranks: scores, the way back, slopes, which features have tails, trees of such."""

import numpy as np
import pytest
from model_files import reloaded
from scipy.stats import norm

from oda_rl import MultiResolutionODA, ODAClassifier, ODARegressor
from oda_rl._statistics import LIMIT, Ranks, have_tails


def test_ranks_are_normal_scores():
    """Between knots as interpolated, equal values half way between their first and last knot."""
    rng = np.random.default_rng(0)
    samples = np.column_stack([rng.exponential(size=150), rng.integers(0, 4, 150)])
    scores = Ranks.of(samples)(samples)
    assert np.abs(scores).max() <= 3.0
    order = samples[:, 0].argsort()
    place = np.linspace(0.0, 1.0, 150)
    np.testing.assert_allclose(scores[order, 0], np.clip(norm.ppf(place), -3, 3), atol=0.06)
    for value in range(4):
        own = scores[samples[:, 1] == value, 1]
        assert np.ptp(own) == 0.0
    between = Ranks(np.array([[0.0], [1.0], [4.0]]))
    np.testing.assert_allclose(
        between(np.array([[-5.0], [0.5], [1.0], [2.5], [9.0]]))[:, 0], [-3, -1.5, 0, 1.5, 3]
    )


def test_the_way_back_and_how_fast_scores_change():
    samples = np.random.default_rng(0).lognormal(size=(500, 2))
    ranks = Ranks.of(samples)
    scores = np.linspace(-LIMIT, LIMIT, 25)[:, None] * [1.0, -1.0]
    np.testing.assert_allclose(ranks(ranks.inverse(scores)), scores, atol=1e-9)
    inside = scores[np.abs(scores[:, 0]) < 1.5]
    np.testing.assert_allclose(ranks.slopes(inside) * ranks.inverse(inside), 1.0, rtol=0.5)
    equal = Ranks.of(np.full((500, 1), 7.0))
    assert equal.slopes(np.zeros((1, 1))).item() == 0.0
    assert equal.inverse(np.array([[-1.0], [2.0]])).ravel().tolist() == [7.0, 7.0]


def test_which_features_have_tails():
    rng = np.random.default_rng(0)
    usual = np.column_stack([rng.normal(size=1000), rng.uniform(size=1000), rng.exponential(size=1000)])
    rare = rng.random((1000, 1)) < 0.1
    assert not have_tails(np.column_stack([usual, rare, np.ones(1000)]), np.ones(1000))
    for long in (
        rng.lognormal(sigma=1.5, size=1000),
        rng.standard_cauchy(1000),
        100.0 * usual[:, 0] * rare[:, 0],
    ):
        assert have_tails(np.column_stack([usual, long]), np.ones(1000))


@pytest.mark.parametrize(
    ("template", "seed"), [(ODAClassifier(), 102), (ODAClassifier(), 103), (ODARegressor(), 100)]
)
def test_trees_rank_skewed_features_where_that_helps(template, seed):
    rng = np.random.default_rng(seed)
    X = np.exp(2.0 * rng.normal(size=(2000, 4)))
    logs = np.log(X[:, 0]) + np.log(X[:, 1])
    y = logs + 0.2 * rng.normal(size=2000)
    if isinstance(template, ODAClassifier):
        y = y > 0.0
    model = MultiResolutionODA(template, random_state=0).fit(X[:1000], y[:1000])
    raw = MultiResolutionODA(template, resolutions=[None], random_state=0).fit(X[:1000], y[:1000])
    score, before = (one.score(X[1000:], y[1000:]) for one in (model, raw))
    assert score > max(0.88, before + 0.05)
    again = reloaded(model)
    assert again.resolutions is None
    for one in (model, again):
        one.partial_fit(X[1000:1300], y[1000:1300])
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert (np.abs(model.codevectors_) <= X.max()).all()
    if isinstance(template, ODARegressor):
        plain = X[:, 0] - X[:, 1]  # which ranks would bend
        linear = MultiResolutionODA(template, random_state=0).fit(X[:1000], plain[:1000])
        inside = 1000 + np.flatnonzero(np.abs(plain[1000:]) < np.abs(plain[:1000]).max())
        assert linear.score(X[inside], plain[inside]) > 0.99

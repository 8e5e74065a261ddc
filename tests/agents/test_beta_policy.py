"""The Beta policy against scipy: parameters, middles, draws, and the gradient of the log-probability."""

import numpy as np
import pytest
from scipy import special, stats

from oda_rl.agents import beta_policy

PREFERENCES = np.array([[-3.0, 0.5, 4.0, -1.0], [0.0, 0.0, 30.0, 25.0]])


def draw(preferences, uniform):
    point, direction = np.zeros(len(uniform)), np.zeros(len(preferences))
    beta_policy.draw_point(preferences, uniform, point, direction)
    return point, direction


def test_parameters_middles_and_deviations():
    a, b = beta_policy.shapes(PREFERENCES)
    s = np.log1p(np.exp([-3.0, 4.0]))
    np.testing.assert_allclose(a[0], 1 + s + s**2 / 20)
    mean, mode = stats.beta(a, b).mean(), (a - 1) / (a + b - 2)
    middle = beta_policy.middles(PREFERENCES)
    assert (np.minimum(mean, mode) <= middle).all()
    assert (middle <= np.maximum(mean, mode)).all()
    np.testing.assert_allclose(beta_policy.deviations(PREFERENCES), stats.beta(a, b).std())


@pytest.mark.parametrize("preferences", [(-9.0, -3.0), (-3.0, -9.0), (-30.0, -4.0)])
def test_the_greedy_point_of_a_nearly_uniform_distribution_is_far_from_its_bounds(preferences):
    assert abs(beta_policy.middles(np.array([preferences])) - 0.5) < 0.12


@pytest.mark.parametrize("preferences", [(-9.0, 3.0), (-9.0, 8.0)])
def test_the_greedy_point_reaches_a_bound_where_most_points_are_near_it(preferences):
    assert beta_policy.middles(np.array([preferences])) < 0.05
    assert beta_policy.middles(np.array([preferences[::-1]])) > 0.95


@pytest.mark.parametrize("least", [0.05, 0.1])
def test_a_distribution_is_narrow_if_any_coordinate_is(least):
    rows = np.random.default_rng(3).uniform(-4.0, 12.0, (50, 4))
    found = [beta_policy.is_narrow(row, least) for row in rows]
    np.testing.assert_array_equal(found, (beta_policy.deviations(rows) < least).any(axis=1))
    assert len(set(found)) == 2


def test_where_all_points_are_the_same_the_middle_is_taken():
    assert beta_policy.middles(np.full((1, 2), -800.0)) == 0.5


@pytest.mark.parametrize("preferences", [(-900.0, -900.0), (0.0, 0.0), (3.0, -2.0), (-5.0, 60.0)])
def test_draws_have_the_distribution(preferences):
    h = np.array(preferences)
    uniform = np.random.default_rng(0).random(4000)
    points = np.array([draw(h, uniform[i : i + 1])[0][0] for i in range(len(uniform))])
    a, b = beta_policy.shapes(h[None])
    assert stats.kstest(points, stats.beta(a[0, 0], b[0, 0]).cdf).pvalue > 0.01
    assert draw(h, uniform[:1])[0] == points[0], "the same number gives the same draw"


@pytest.mark.parametrize("row", [0, 1])
def test_directions_are_the_gradient_of_the_log_probability(row):
    h, step = PREFERENCES[row], 1e-5

    def log_probability(preferences):
        a, b = beta_policy.shapes(preferences[None])
        return stats.beta(a[0], b[0]).logpdf(point).sum()

    for uniform in np.random.default_rng(1).random((5, 2)):
        point, direction = draw(h, uniform)
        slopes = [
            (log_probability(h + step * unit) - log_probability(h - step * unit)) / (2 * step)
            for unit in np.eye(4)
        ]
        np.testing.assert_allclose(direction, slopes, rtol=1e-5, atol=1e-7)


def test_digamma():
    x = np.concatenate([[1.0, 1.0 + 1e-6], np.geomspace(1.1, 1e4, 50)])
    found = [beta_policy.digamma(value) for value in x]
    np.testing.assert_allclose(found, special.digamma(x), rtol=1e-9, atol=1e-10)

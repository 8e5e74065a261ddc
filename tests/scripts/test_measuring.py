"""Statistics over seeds and tasks: against slow twins, written from the definition."""

import numpy as np
import pytest


@pytest.fixture
def statistics(module):
    return module("common.measuring")


def slow_iqm(values):
    ordered = sorted(values)
    cut = int(0.25 * len(ordered))
    middle = ordered[cut : len(ordered) - cut]
    return sum(middle) / len(middle)


def slow_interval(strata, resamples):
    """Draw runs within every task, one after the other; the middle 95 % of what comes out."""
    rng = np.random.default_rng(0)
    draws = [rng.integers(len(scores), size=(resamples, len(scores))) for scores in strata]
    found = sorted(
        slow_iqm([scores[i] for scores, drawn in zip(strata, draws, strict=True) for i in drawn[r]])
        for r in range(resamples)
    )

    def quantile(q):
        place = q * (resamples - 1)
        below = int(place)
        above = min(below + 1, resamples - 1)
        return found[below] + (place - below) * (found[above] - found[below])

    return quantile(0.025), quantile(0.975)


@pytest.mark.parametrize("sizes", [(10,), (3,), (5, 8, 2), (1, 6, 1)])
def test_stratified_interval(statistics, sizes):
    rng = np.random.default_rng(1)
    strata = [rng.normal(10.0 * i, 3.0, size) for i, size in enumerate(sizes)]
    assert statistics.interval(strata, resamples=300) == pytest.approx(slow_interval(strata, 300))
    together = np.concatenate(strata)
    assert statistics.interquartile_mean(together) == pytest.approx(slow_iqm(together))


def test_interval_of_curves_has_one_for_each_column(statistics):
    curves = np.random.default_rng(2).normal(size=(6, 3))
    low, high = statistics.interval([curves], resamples=200)
    for column in range(3):
        expected = slow_interval([curves[:, column]], 200)
        assert (low[column], high[column]) == pytest.approx(expected)


def test_runs_are_never_drawn_across_tasks(statistics):
    # all draws within the tasks have half of each value
    assert statistics.interval([[0.0] * 4, [10.0] * 4]) == (5.0, 5.0)
    low, high = statistics.interval([[0.0] * 4 + [10.0] * 4])
    assert low < 5.0 < high


def test_performance_profile(statistics):
    strata = [[1.0, 2.0, 3.0], [2.0, 5.0]]
    tau = [0.0, 2.0, 2.5, 5.0]
    profile, low, high = statistics.performance_profile(strata, tau)
    expected = [sum(s > t for scores in strata for s in scores) / 5 for t in tau]
    np.testing.assert_allclose(profile, expected)
    assert (low <= profile).all()
    assert (profile <= high).all()
    assert (low[0], high[0], low[-1], high[-1]) == (1.0, 1.0, 0.0, 0.0)


def test_one_run_has_no_interval(statistics):
    assert statistics.interval([[7.0]]) == (7.0, 7.0)
    assert statistics.interval([[7.0], [1.0]]) == (4.0, 4.0)


def test_a_task_with_one_run_leaves_the_others_their_width(statistics):
    rng = np.random.default_rng(3)
    curves, alone = rng.normal(size=(6, 3)), rng.normal(size=(1, 3))
    low, high = statistics.interval([alone, curves], resamples=200)
    for column in range(3):
        expected = slow_interval([alone[:, column], curves[:, column]], 200)
        assert (low[column], high[column]) == pytest.approx(expected)
        assert low[column] < high[column]


def test_first_pass_and_hold(statistics):
    assert statistics.first_pass_and_hold([1.0, 5.0, 2.0, 5.0], 5.0) == (1, pytest.approx(2 / 3))
    assert statistics.first_pass_and_hold([1.0], 5.0) == (None, 0.0)

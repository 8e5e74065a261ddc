"""Q(lambda) on a tree against a slow twin, which moves all cells at every step."""

from itertools import pairwise

import numpy as np
import pytest
from tree_learners import give_values, kept_cells, make_learner, make_points, scaled, shares

from oda_rl.agents.codebook_rl import state as layout
from oda_rl.agents.codebook_rl.rules import q_lambda, traces


def features(learner, x):
    return np.array([1.0, *x]) if learner.config.local_model == "linear" else np.ones(1)


@pytest.mark.parametrize("local_model", ["constant", "linear"])
@pytest.mark.parametrize("rate_by", ["cell", "global"])
def test_steps_follow_watkins_q_lambda(local_model, rate_by):
    """Long enough for the common factor of the traces to be multiplied out, with cuts in between.

    The equations are those of the learner without a tree; the cells that speak are those of the branches
    that were found.
    """
    options = {"gamma": 0.9, "trace_decay": 0.7, "exploration_initial_eps": 0.04, "hold": 1}
    learner = make_learner(local_model=local_model, learning_rate_by=rate_by, **options)
    work, config = learner.numbers, learner.config
    work.figures[layout.NEXT_SLOW] = np.inf  # the fast timescale alone
    rng = np.random.default_rng(1)
    k, m = learner.n_cells, 3 if local_model == "linear" else 1
    temperature = config.softness * learner.temperature
    q = 0.1 * rng.normal(size=(3, m, k))
    give_values(learner, q.reshape(3 * m, k))
    mu = learner.codebook.codevectors
    # near each other, so that branches are left and met again
    points = 0.5 * np.cumsum(make_points(250, 1), axis=0)
    points = np.cos(points).astype(np.float32)
    learner.begin(0, points[0])
    trace, cuts, run, longest = np.zeros((3, m, k)), 0, 0, 0
    visits, rate = learner.codebook["visits"].copy(), learner.codebook["rate"].copy()
    common = config.learning_rate
    for t in range(1, len(points)):
        x, y = scaled(learner, points[t - 1]), scaled(learner, points[t])
        a, exploratory = int(learner.memory.action[0]), bool(learner.memory.exploratory[0])
        p = shares(learner, x, kept_cells(learner))
        reward, last = float(rng.normal()), t == len(points) - 1
        learner.step(0, points[t], reward, last, False)
        there = features(learner, y) @ q @ shares(learner, y, kept_cells(learner))
        error = reward + (0.0 if last else config.gamma * there.max())
        error -= (features(learner, x) @ q @ p)[a]
        away = (x - mu).T if m > 1 else np.zeros((0, k))
        norm = (p**2 * (1.0 + (away**2).sum(axis=0) / temperature)).sum()
        trace *= 0.0 if exploratory else config.gamma * config.trace_decay
        run = 0 if exploratory else run + 1
        cuts, longest = cuts + exploratory, max(longest, run)
        visits[a] += p
        if rate_by == "cell":
            slope = config.learning_rate_power / (config.learning_rate_halving + visits[a])
            rate[a] = np.maximum(config.learning_rate_min, rate[a] * (1 - p * slope))
        else:
            n = (3.0 * k) * config.learning_rate_halving
            slope = config.learning_rate_power / (n + work.counters[layout.LEARNING_STEPS])
            common = max(config.learning_rate_min, common * (1 - slope))
            rate[:] = common
        slopes = rate[a] * p * away / temperature / norm
        trace[a, 1:] += slopes
        trace[a, 0] += rate[a] * p / norm - (slopes * mu.T[: m - 1]).sum(axis=0)
        q += trace * error
        found = learner.codebook
        np.testing.assert_allclose(found["q"], q.reshape(3 * m, k), rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(found["visits"], visits, rtol=1e-9)
    assert cuts > 1
    assert (config.gamma * config.trace_decay) ** longest < traces.SMALLEST_SCALE_OF_BRANCHES


def test_environments_have_traces_of_their_own():
    """What one environment does to the values, another one sees at once; its traces it does not."""
    learner = make_learner(n_envs=2, local_model="constant", exploration_initial_eps=0.0, gamma=0.0)
    learner.numbers.figures[layout.NEXT_SLOW] = np.inf
    give_values(learner, np.zeros((3, learner.n_cells)))
    points = make_points(1, 5)
    taken = [learner.begin(env, points[0]) for env in (0, 1)]
    learner.step(0, points[0], 1.0, False, False)
    first = learner.codebook["q"].copy()
    assert first[taken[0]].max() > 0.0
    learner.step(1, points[0], 0.0, False, False)
    change = learner.codebook["q"] - first
    if taken[0] == taken[1]:
        assert change.min() < 0.0, "its value was no longer 0, and the reward was"
    else:
        assert not change.any()


def test_errors_are_those_of_the_cells_that_spoke():
    learner = make_learner(local_model="constant")
    learner.numbers.figures[layout.NEXT_SLOW] = np.inf
    learner.watch_errors()
    points = make_points(200, 6)
    learner.begin(0, points[0])
    for before, point in pairwise(points):
        assert np.isnan(learner.td_errors).all()
        p = shares(learner, scaled(learner, before), kept_cells(learner))
        learner.step(0, point, 1.0, False, False)
        if learner.numbers.counters[layout.LEARNING_STEPS] % q_lambda.MONITORED_EVERY == 0:
            break
    np.testing.assert_array_equal(np.isfinite(learner.td_errors), p > 0.0)
    assert np.ptp(learner.td_errors[p > 0.0]) < 1e-12, "all have seen the same error"


def test_reading_does_not_change_traces():
    """Whoever asks for actions or for the codebook does not change the learning, even by rounding."""
    quiet, asked = make_learner(), make_learner()
    for point in make_points(300, 2):
        for learner in (quiet, asked):
            learner.step(0, point, float(point[0]), False, False)
        asked.greedy(make_points(5, 3))
        asked.codebook["q"][:] = np.nan  # a copy
        asked.get_state()
    for name, array in quiet.get_state()["slow"]["codebook"].items():
        np.testing.assert_array_equal(array, asked.get_state()["slow"]["codebook"][name], err_msg=name)


def test_greedy_actions_know_the_traces():
    learner = make_learner()
    points = make_points(400, 4)
    for point in points:
        learner.step(0, point, float(point[0] * point[1]), False, False)
    greedy = learner.greedy(points)
    for point, action in zip(points, greedy, strict=True):
        among = learner.active_cells(point)
        assert 0 < among.sum() < learner.n_cells
        x = scaled(learner, point)
        q = learner.codebook["q"].reshape(3, 3, -1)
        worth = features(learner, x) @ q @ shares(learner, x, among)
        assert worth[action] >= worth.max() - 1e-9

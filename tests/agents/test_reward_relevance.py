"""Which coordinates matter for rewards: known cases, a slow twin, an agent that reaches for goals."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from scipy.stats import rankdata
from sklearn.isotonic import IsotonicRegression
from stable_baselines3.common.evaluation import evaluate_policy

from oda_rl.agents import TwoTimescaleAC
from oda_rl.agents.codebook_rl.reward_relevance import LEAST_SHARE, ROUNDS, find_irrelevant

N = 2_000


def reach(rng, n=N):
    """A hand with inertia that is pushed in a plane: its place, its distance from a goal, its speed.

    The last two coordinates are its place once more, and a finger that is moved by the third action.
    """
    push = rng.uniform(-1.0, 1.0, (n, 3))
    place, speed, finger = np.zeros((n + 1, 2)), np.zeros((n + 1, 2)), np.zeros(n + 1)
    goal = np.zeros((n, 2))
    for t in range(n):
        goal[t] = place[t] + rng.uniform(-1.0, 1.0, 2) if t % 50 == 0 else goal[t - 1]
        speed[t + 1] = 0.7 * speed[t] + 0.1 * push[t, :2]
        place[t + 1] = place[t] + speed[t + 1]
        finger[t + 1] = 0.9 * finger[t] + push[t, 2]
    before, after = slice(0, n), slice(1, n + 1)

    def seen(at):
        return np.column_stack([place[at], goal - place[at], speed[at], place[at, :1], finger[at]])

    return seen(before), push, -np.linalg.norm(goal - place[after], axis=1), seen(after)


@pytest.mark.parametrize("seed", [100, 101, 102])
def test_what_rewards_depend_on_and_what_that_depends_on(seed):
    found = find_irrelevant(*reach(np.random.default_rng(seed)))
    np.testing.assert_array_equal(found, [True, True, False, False, False, False, True, True])


def test_units_and_the_scale_of_rewards_do_not_matter():
    before, push, rewards, after = reach(np.random.default_rng(100))
    expected = find_irrelevant(before, push, rewards, after)
    units, origin = 10.0 ** np.arange(-4.0, 4.0), np.arange(8.0)
    for changed in (np.exp(rewards), rewards**3, 1e6 + 1e3 * rewards):
        ends = before * units + origin, after * units + origin
        np.testing.assert_array_equal(find_irrelevant(ends[0], push, changed, ends[1]), expected)


def test_one_of_two_that_are_the_same_matters():
    before, push, rewards, after = reach(np.random.default_rng(100))
    twice = [2, 3, 2, 3, 4, 5, 7]
    found = find_irrelevant(before[:, twice], push, rewards, after[:, twice])
    assert found[:4].sum() == 2
    assert found[0] != found[2]
    assert found[4:].tolist() == [False, False, True]


def test_nothing_is_said_where_rewards_are_not_explained():
    rng = np.random.default_rng(100)
    before, push, rewards, after = reach(rng)
    for unknown in (rng.normal(size=N), np.zeros(N), rewards + 2.0 * rng.normal(size=N), push[:, 0]):
        assert not find_irrelevant(before, push, unknown, after).any()
    few = slice(0, 100)
    assert not find_irrelevant(before[few], push[few], rewards[few], after[few]).any()
    wide = rng.normal(size=(N, 200))
    assert not find_irrelevant(np.hstack([before, wide]), push, rewards, np.hstack([after, wide])).any()


def test_nothing_is_said_where_what_matters_changes_for_unknown_reasons():
    """An object that moves only when the hand is at it: such functions do not explain its change."""
    rng = np.random.default_rng(100)
    hand, thing = rng.uniform(-1.0, 1.0, (2, N, 2))
    push = rng.uniform(-0.1, 0.1, (N, 2))
    touched = np.abs(hand - thing).max(axis=1, keepdims=True) < 0.2
    before, after = np.hstack([hand, thing]), np.hstack([hand + push, thing + touched * push])
    rewards = -np.linalg.norm(thing, axis=1)
    assert not find_irrelevant(before, push, rewards, after).any()
    after[:, 2:] = thing + push
    np.testing.assert_array_equal(
        find_irrelevant(before, push, rewards, after), [True, True, False, False]
    )


def terms_of(states, actions):
    products = [states[:, i] * states[:, j] for i in range(states.shape[1]) for j in range(i + 1)]
    mixed = [action * state for action in actions.T for state in states.T]
    powers = [np.ones(len(states)), actions, actions**2, states, states**3, states**4]
    return np.column_stack([*powers, *products, *mixed])


def fit(terms, target):
    return terms @ np.linalg.lstsq(terms, target)[0]


def find_by_single_regressions(before, actions, rewards):
    """Backward elimination by a regression for each coordinate that may be left out next."""
    n, target = len(rewards), rankdata(rewards)
    for _ in range(ROUNDS):
        target = (target - target.mean()) / target.std()
        fitted = fit(terms_of(before, actions), target)
        target = IsotonicRegression().fit_transform(rewards, fitted)
    target = (target - target.mean()) / target.std()

    def errors(chosen):
        terms = terms_of(before[:, chosen], actions)
        return ((target - fit(terms, target)) ** 2).sum(), terms.shape[1]

    chosen = list(range(before.shape[1]))
    while chosen:
        least, n_terms = errors(chosen)
        gains = {}
        for j in chosen:
            error, fewer = errors([i for i in chosen if i != j])
            gains[j] = error - least - least / (n - n_terms) * (n_terms - fewer)
        worst = min(gains, key=gains.__getitem__)
        if gains[worst] > LEAST_SHARE * n:
            break
        chosen.remove(worst)
    return chosen


@pytest.mark.parametrize("seed", range(100, 105))
def test_elimination_is_that_by_single_regressions(seed):
    rng = np.random.default_rng(seed)
    before, actions = rng.uniform(-1.0, 1.0, (600, 5)), rng.uniform(-1.0, 1.0, (600, 2))
    weights = rng.permutation([0.0, 0.0, 0.02, 0.3, 1.0])
    rewards = before @ weights + (before * actions[:, :1]) @ (weights * rng.integers(0, 2, 5))
    rewards = np.exp(rewards + 0.01 * rng.normal(size=600))
    # coordinates do not change: only rewards have to be explained
    found = find_irrelevant(before, actions, rewards, before)
    assert 2 <= found.sum() < 5
    assert np.flatnonzero(~found).tolist() == find_by_single_regressions(before, actions, rewards)


class ReachEnv(gym.Env):
    """A hand that is moved to a goal, drawn for each episode; rewards are distances below 0."""

    def __init__(self, ends=False):
        box = spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.observation_space = spaces.Dict(observation=box, desired_goal=box, achieved_goal=box)
        self.action_space, self.ends = spaces.Box(-1.0, 1.0, (3,)), ends

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.place, self.finger = 0, np.array([5.0, -3.0]), np.zeros(2)
        self.goal = self.place + self.np_random.uniform(-1.0, 1.0, 2)
        return self._see(), {}

    def step(self, action):
        self.t += 1
        self.place = self.place + 0.2 * action[:2].astype(np.float64)
        self.finger = 0.9 * self.finger + [0.1 * action[2], 0.01]
        distance = float(np.linalg.norm(self.goal - self.place))
        return self._see(), -distance, self.ends and distance > 2.0, self.t == 30, {}

    def _see(self):
        return {
            "observation": self.finger,
            "desired_goal": self.goal.copy(),
            "achieved_goal": self.place.copy(),
        }


def test_an_agent_reaches_goals_and_hardly_distinguishes_where_they_are():
    model = TwoTimescaleAC(env=ReachEnv(), seed=100, warmup_steps=2_000).learn(8_000)
    coarse = dict(zip(model.observations.names(None), model.learner.scale.coarse, strict=True))
    assert [name for name, factor in coarse.items() if factor == 1.0] == [
        "desired_goal[0] - achieved_goal[0]",
        "desired_goal[1] - achieved_goal[1]",
    ]
    assert set(coarse.values()) == {1.0, 3.0}
    # random actions have -25; 3 to 5 steps of .2 lead to a goal
    assert evaluate_policy(model, model.get_env(), 20)[0] > -6.0


def test_coordinates_that_end_episodes_count():
    model = TwoTimescaleAC(env=ReachEnv(ends=True), seed=100).learn(3_000)
    assert model.learner.scale.coarse.tolist() == [1.0] * 6

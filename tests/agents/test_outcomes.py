"""Values of a table from below, where rewards at a goal are noisy or fall with the steps; outcomes."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

from oda_rl._schema import anything
from oda_rl.agents import TwoTimescaleAC, TwoTimescaleQ
from oda_rl.agents.codebook_rl import state as names
from oda_rl.agents.codebook_rl.rules import outcomes
from oda_rl.storage import ModelFileError, load, save


class Walker(gym.Env):
    """A walker on a grid turns left, turns right or goes ahead; other actions do nothing.

    Reaching the far corner pays what `pay(step, random generator)` says.
    """

    n, limit = 5, 150

    def __init__(self, pay, idle=2, slip=0.0):
        self.pay, self.slip = pay, slip
        self.observation_space = spaces.Discrete(4 * self.n**2)
        self.action_space = spaces.Discrete(3 + idle)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.heading, self.t = np.zeros(2, dtype=int), 0, 0
        return self.observe(), {}

    def observe(self):
        return int((self.place[0] * self.n + self.place[1]) * 4 + self.heading)

    def step(self, action):
        self.t += 1
        if self.np_random.random() < self.slip:
            action = self.np_random.integers(3)
        if action == 2:
            ahead = [(1, 0), (0, 1), (-1, 0), (0, -1)][self.heading]
            self.place = np.clip(self.place + ahead, 0, self.n - 1)
        self.heading = (self.heading + [-1, 1, 0][min(action, 2)]) % 4
        done = bool((self.place == self.n - 1).all())
        reward = self.pay(self.t, self.np_random) if done else 0.0
        return self.observe(), reward, done, self.t >= self.limit, {}


PAYMENTS = {
    "falling": lambda t, rng: 1.0 - 0.9 * t / Walker.limit,
    "rare": lambda t, rng: float(rng.random() < 0.4),
    "noisy": lambda t, rng: rng.normal(1.0, 1.0),
}


@pytest.mark.parametrize(
    ("pay", "slip"), [("falling", 0.0), ("rare", 0.0), ("noisy", 0.0), ("falling", 0.1)]
)
def test_a_goal_is_reached_whose_reward_is_noisy_or_falls(pay, slip):
    """Values of turning round, or of doing nothing, once stayed above those of the way to the goal."""
    env = Walker(PAYMENTS[pay], slip=slip)
    model = TwoTimescaleAC(env=env, seed=0).learn(25_000)
    _, lengths = evaluate_policy(model, Monitor(env), 20, return_episode_rewards=True)
    assert np.mean(lengths) < 30, "the shortest way has 9 steps, and an episode at most 150"


def test_values_are_those_of_dynamic_programming():
    """All pairs of a grid without noise, also those that no good policy visits."""
    env = Walker(lambda t, rng: 1.0, idle=1)
    model = TwoTimescaleQ(env=env, seed=1, gamma=0.95, gamma_halving=np.inf).learn(20_000)
    n_states, n_actions = int(env.observation_space.n), int(env.action_space.n)
    expected, after = np.zeros((n_states, n_actions)), np.zeros((n_states, n_actions), dtype=int)
    gains = np.zeros((n_states, n_actions))
    for state, action in np.ndindex(n_states, n_actions):
        env.reset()
        place, env.heading = divmod(state, 4)
        env.place = np.array(divmod(place, env.n))
        after[state, action], gains[state, action], *_ = env.step(action)
    for _ in range(500):
        expected = gains + 0.95 * np.where(gains > 0.0, 0.0, expected.max(axis=1)[after])
    seen = model.learner.codebook["visits"].T > 0
    assert seen[: 4 * (env.n**2 - 1)].all(), "all pairs but those at the goal"
    np.testing.assert_allclose(model.learner.q_values[seen], expected[seen], atol=1e-9)


def test_shares_and_rewards_of_outcomes():
    """They are frequencies and means at first; outcomes without a place make a pair unknown."""
    block, n, first = np.zeros((4 + 3 * 8, 1)), 2, 4
    seen, paid = [3, 5, 3, -1, 3], [1.0, 2.0, 3.0, 4.0, 5.0]
    for visit, (cell, reward) in enumerate(zip(seen, paid, strict=True), start=1):
        block[n + 1, 0] = visit
        outcomes.record_outcome(block, first, n, 1, 0, cell, reward, 1.0 / visit)
    found = {
        int(block[first + k, 0]): (block[first + 8 + k, 0], block[first + 16 + k, 0])
        for k in range(4, 8)
        if block[first + 8 + k, 0] > 0.0
    }
    np.testing.assert_allclose(found[3], (0.6, 3.0))
    np.testing.assert_allclose(found[5], (0.2, 2.0))
    np.testing.assert_allclose(found[-1], (0.2, 4.0))
    values = np.array([0.0, 0.0, 0.0, 10.0, 0.0, 20.0])
    value = outcomes.expected_value(block, first, n, 1, 0, 0.5, values)
    assert value == pytest.approx(0.6 * (3.0 + 5.0) + 0.2 * (2.0 + 10.0) + 0.2 * 4.0)
    assert outcomes.is_known(block, first, n, 1, 0)
    assert not outcomes.is_known(block, first, n, 0, 0)
    for cell in (0, 1):
        outcomes.record_outcome(block, first, n, 1, 0, cell, 0.0, 1.0 / 6)
    assert not outcomes.is_known(block, first, n, 1, 0)
    for _ in range(300):
        outcomes.record_outcome(block, first, n, 1, 0, 5, 2.0, 1.0)
    assert outcomes.is_known(block, first, n, 1, 0)
    assert outcomes.expected_value(block, first, n, 1, 0, 0.5, values) == pytest.approx(12.0)


class Corridor(gym.Env):
    """Sixteen places in a row; the reward is at one end, and after `change` steps at the other."""

    observation_space, action_space = spaces.Discrete(16), spaces.Discrete(2)

    def __init__(self, change):
        self.change, self.n_steps = change, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.t = 7, 0
        return 7, {}

    def step(self, action):
        self.n_steps, self.t = self.n_steps + 1, self.t + 1
        self.place = min(max(self.place + [-1, 1][action], 0), 15)
        done = self.place == (15 if self.n_steps < self.change else 0)
        return self.place, float(done), done, self.t >= 100, {}


def test_a_goal_that_has_moved_is_found_again():
    model = TwoTimescaleQ(env=Corridor(10_000), seed=0).learn(10_000)
    assert evaluate_policy(model, Monitor(Corridor(10_000)), 5)[0] == 1.0
    model.learn(10_000, reset_num_timesteps=False)
    assert evaluate_policy(model, Monitor(Corridor(0)), 5)[0] == 1.0


def test_values_that_no_longer_change_are_computed_rarely_but_at_once_after_a_fall():
    computed = []

    def count(model, n_steps):
        computed.append(0)
        due = model.learner.numbers.figures[names.NEXT_FROM_BELOW]
        for _ in range(n_steps):
            model.learn(1, reset_num_timesteps=False, planned_timesteps=50_000)
            latest = model.learner.numbers.figures[names.NEXT_FROM_BELOW]
            computed[-1] += latest > due
            due = latest

    model = TwoTimescaleQ(env=Corridor(30_500), seed=0).learn(30_000, planned_timesteps=50_000)
    count(model, 500)
    count(model, 500)
    assert computed[0] <= 1 < computed[1]
    model.learn(1_500, reset_num_timesteps=False, planned_timesteps=50_000)
    assert evaluate_policy(model, Monitor(Corridor(0)), 5)[0] == 1.0


@pytest.mark.parametrize("n_envs", [1, 3])
def test_several_environments_and_saved_models_continue_alike(n_envs, tmp_path):
    def make():
        return make_vec_env(Walker, n_envs, env_kwargs={"pay": PAYMENTS["falling"]})

    whole = TwoTimescaleQ(env=make(), seed=0).learn(6_000, planned_timesteps=6_000)
    first = TwoTimescaleQ(env=make(), seed=0).learn(3_000, planned_timesteps=6_000)
    first.save(tmp_path / "model")
    again = TwoTimescaleQ.load(tmp_path / "model")
    np.testing.assert_array_equal(again.learner.q_values, first.learner.q_values)
    first.learn(3_000, reset_num_timesteps=False, planned_timesteps=6_000)
    np.testing.assert_equal(first.get_parameters(), whole.get_parameters())


def test_very_large_tables_have_no_outcomes(monkeypatch):
    monkeypatch.setattr(outcomes, "MOST_MODELLED", 400)
    env = Walker(lambda t, rng: 1.0)
    model = TwoTimescaleQ(env=env, seed=0).learn(20_000)
    assert "outcome" not in model.learner.sizes.payload
    assert evaluate_policy(model, Monitor(env), 5)[0] == 1.0


@pytest.mark.parametrize(("field", "value"), [("outcome", 100.0), ("outcome", 0.5), ("share", 1.5)])
def test_outcomes_of_an_edited_file_are_refused(field, value, tmp_path):
    model = TwoTimescaleQ(env=Walker(PAYMENTS["falling"]), seed=0).learn(500)
    sizes = model.learner.sizes.payload
    row = sum(n for n, _ in list(sizes.values())[: list(sizes).index(field)])
    model.save(tmp_path / "model.npz")
    state = load(tmp_path / "model.npz", "TwoTimescaleQ", anything)
    state["learner"]["slow"]["payload"][row, 0] = value
    save(tmp_path / "edited.npz", "TwoTimescaleQ", state)
    with pytest.raises(ModelFileError, match=r"has (an )?invalid (next state|shares)"):
        TwoTimescaleQ.load(tmp_path / "edited.npz")

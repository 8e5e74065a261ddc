"""One observation or reward that cannot be true, while an agent learns: what it changes."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from oda_rl.agents import FourierSarsa, KernelQ, TwoTimescaleAC, TwoTimescaleQ, UniformGridQ, bounds
from oda_rl.agents.learner import BadTransitionError, DivergenceError
from oda_rl.envs import CompiledEnv

STEPS = 6_000


class Side(CompiledEnv):
    """Which side of the middle is it? Without bounds and end; once something impossible comes."""

    state_size = 2
    start_low, start_high = (-1.0, 0.1), (1.0, 0.9)

    def __init__(self, at=0, observation=0.0, reward=0.0):
        self.given = [at, observation, reward]
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = spaces.Discrete(2)

    def get_parameters(self):
        return self.given

    @staticmethod
    def reset_kernel(parameters, state, start, observation):
        state[0], state[1] = start[0], 0.0
        observation[0] = state[0]
        observation[1] = start[1]

    @staticmethod
    def step_kernel(parameters, state, action, observation):
        reward = 1.0 if (action[0] == 1.0) == (state[0] > 0.0) else 0.0
        # a walk through [-1, 1] that looks random
        state[0] = (state[0] * 7.3 + 2.17) % 2.0 - 1.0
        observation[0] = state[0]
        observation[1] = 0.5
        state[1] += 1.0
        if state[1] == parameters[0]:
            if parameters[1] != 0.0:
                observation[1] = parameters[1]
                if not np.isfinite(parameters[1]):
                    state[0] = parameters[1]
            if parameters[2] != 0.0:
                reward = parameters[2]
        return reward, False


class Cost(Side):
    """Which point of a line is it? The square of what one is off by is lost, but for what comes once."""

    def __init__(self, at=0, observation=0.0, reward=0.0):
        super().__init__(at, observation, reward)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float64)

    @staticmethod
    def step_kernel(parameters, state, action, observation):
        reward = -((action[0] - 0.6 * state[0]) ** 2)
        state[0] = (state[0] * 7.3 + 2.17) % 2.0 - 1.0
        observation[0] = state[0]
        observation[1] = 0.5
        state[1] += 1.0
        if state[1] == parameters[0]:
            reward = parameters[2]
        return reward, False


class Slow(Side):
    """The same, stepped from Python."""

    def step(self, action):  # overriding it is what makes the loop step it
        return super().step(action)


def make(agent, env, **changes):
    small = {
        TwoTimescaleQ: {"warmup_steps": 500, "growth_steps": 1500, "max_cells": 30, "gamma": 0.9},
        TwoTimescaleAC: {"warmup_steps": 500, "growth_steps": 1500, "max_cells": 30, "gamma": 0.9},
    }
    own = small.get(agent, {"warmup_steps": 500, "gamma": 0.9})
    return agent(env=env, seed=0, **own, **changes)


def right_actions(model):
    x = np.linspace(-0.95, 0.95, 200)
    points = np.column_stack([x, np.full(200, 0.5)])
    return np.mean((model.predict(points, deterministic=True)[0] == 1) == (x > 0.0))


@pytest.mark.parametrize("agent", [TwoTimescaleQ, TwoTimescaleAC, UniformGridQ, FourierSarsa, KernelQ])
@pytest.mark.parametrize("at", [300, 1200, 4000])
def test_an_outlier_is_outlived(agent, at, tmp_path):
    steps = STEPS // 2 if agent is KernelQ else STEPS
    large, reward = (1e6, 1e6) if at == 1200 else (1e308, -1e308)
    at = min(at, steps - 1500)
    for glitch in ({"observation": large}, {"reward": reward}):
        model = make(agent, Side(at, **glitch)).learn(steps)
        values = model.learner.action_values(np.array([[0.5, 0.5], [1e9, -1e308]]))
        assert abs(values).max() < 1e3, glitch
        assert right_actions(model) > 0.85, glitch
    model.save(tmp_path / "model")
    assert right_actions(agent.load(tmp_path / "model")) == right_actions(model)


def test_an_actor_goes_on_after_a_reward_that_cannot_be():
    x = np.linspace(-0.9, 0.9, 40)
    points, off = np.column_stack([x, np.full(40, 0.5)]), []
    for reward in (0.0, 1e6, -1e6):
        model = make(TwoTimescaleAC, Cost(1500, reward=reward)).learn(8000)
        actions = model.predict(points, deterministic=True)[0][:, 0]
        off.append(np.abs(actions - 0.6 * x).mean())
    assert max(off) < off[0] + 0.02, off


def test_what_is_odd_at_the_ends_of_observations_is_cut():
    seen = np.random.default_rng(0).normal(size=(1000, 4))
    seen[:, 3] = np.arange(1000) % 2  # a flag
    odd = seen.copy()
    odd[17, 0], odd[18, 0], odd[19, 1], odd[20, 2] = 1e6, 1e9, -1e300, 30.0
    cut = bounds.cut_outliers(odd)
    assert np.all(np.abs(cut - seen).max(axis=0)[:3] < 15.0)
    same = np.abs(odd) < 29.0
    np.testing.assert_array_equal(cut[same], odd[same])


@pytest.mark.parametrize("agent", [TwoTimescaleQ, TwoTimescaleAC, FourierSarsa])
def test_both_loops_treat_it_alike(agent):
    glitch = {"at": 3000, "observation": 1e6, "reward": 1e5}
    compiled, stepped = (make(agent, kind(**glitch)).learn(4000) for kind in (Side, Slow))
    points = np.random.default_rng(0).uniform(-3.0, 3.0, (20, 2))
    np.testing.assert_array_equal(
        compiled.learner.action_values(points), stepped.learner.action_values(points)
    )


@pytest.mark.parametrize("agent", [TwoTimescaleQ, TwoTimescaleAC, FourierSarsa])
@pytest.mark.parametrize("kind", [Side, Slow])
@pytest.mark.parametrize("glitch", [{"observation": np.nan}, {"reward": np.inf}])
def test_what_is_not_finite_names_the_step_and_the_model_stays(agent, kind, glitch, tmp_path):
    model = make(agent, kind(3500, **glitch))
    with pytest.raises(BadTransitionError, match=r"^step 3,500: the environment returned the .*finite"):
        model.learn(STEPS)
    assert right_actions(model) > 0.85
    again = agent.load(model.save(tmp_path / "model") or tmp_path / "model.npz")
    assert right_actions(again) == right_actions(model)
    again.set_env(Side())
    assert right_actions(again.learn(1000, reset_num_timesteps=False)) > 0.85


@pytest.mark.parametrize("agent", [TwoTimescaleQ, TwoTimescaleAC])
def test_values_that_grow_without_bound_are_an_error(agent):
    class Growing(gym.RewardWrapper):
        n = 0

        def reward(self, reward):
            self.n += 1
            return 2.0**self.n if self.n < 1020 else -(2.0**1000)

    model = make(agent, Growing(Side()))
    with pytest.raises(DivergenceError, match=r"step .*have diverged"):
        model.learn(STEPS)
    assert np.isfinite(model.learner.action_values(np.array([[0.5, 0.5]]))).all()

"""The warm-up of `TwoTimescaleAC`: what it tries, for how long, and what its rewards are used for."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

from oda_rl.agents import TwoTimescaleAC

N_STEPS = 100


class FollowEnv(gym.Env):
    """A point in the plane moves by half of each action; `reward(point, target, action)` at each step.

    The target drifts, and nothing bounds how far the point may go. `actions` has all actions.
    """

    observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, reward):
        self.reward, self.actions = reward, []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.point, self.target = 0, np.zeros(2), self.np_random.normal(size=2)
        return self._observe(), {}

    def step(self, action):
        self.actions.append(np.array(action))
        self.t += 1
        self.point = self.point + 0.5 * action
        self.target = 0.97 * self.target + self.np_random.normal(0, 0.15, 2)
        reward = float(self.reward(self.point, self.target, action))
        return self._observe(), reward, False, self.t >= N_STEPS, {}

    def _observe(self):
        return np.concatenate([self.point, self.target]).astype(np.float32)


def by_distance(point, target, action):
    return -np.sum((point - target) ** 2)


def by_cost(point, target, action):
    return -np.sum(action**2)


def by_chance(point, target, action):
    return -np.sum(action**2) + 0.1 * np.sin(1e4 * target[0])


def share_held(actions):
    """How many of the actions are those of the step before."""
    return np.mean(np.all(np.diff(actions, axis=0) == 0.0, axis=1))


@pytest.mark.parametrize(
    ("reward", "is_held"), [(by_distance, False), (by_cost, True), (by_chance, True)]
)
def test_random_actions_are_held_unless_rewards_say_which_states_are_good(reward, is_held):
    env = FollowEnv(reward)
    model = TwoTimescaleAC(env=env, seed=0).learn(580, planned_timesteps=6_000)
    assert share_held(env.actions[:190]) > 0.5
    assert (share_held(env.actions[210:]) > 0.5) == is_held
    left, most = model.learner.warm_up_left
    assert (left < most) == is_held, "it is extended, as no episode terminates"


@pytest.mark.parametrize("seed", [100, 101])
def test_a_point_that_can_run_away_follows_its_target(seed):
    """Random actions, each for a step, lose 1230 an episode, and standing still loses 97 on average."""
    model = TwoTimescaleAC(env=FollowEnv(by_distance), seed=seed).learn(20_000)
    env = Monitor(FollowEnv(by_distance))
    env.reset(seed=seed)
    returns, _ = evaluate_policy(model, env, n_eval_episodes=30, return_episode_rewards=True)
    assert np.median(returns) > -40.0

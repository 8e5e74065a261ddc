"""Environments whose observations are given, and cells that have grown."""

import functools

import gymnasium as gym
import numpy as np

from oda_rl.envs import StateAggregation


class Replay(gym.Env):
    """Shows given observations, one after the other, in episodes of 10 steps."""

    action_space = gym.spaces.Discrete(2)

    def __init__(self, observations, low=-np.inf, high=np.inf):
        self.observations = observations
        shape = observations.shape[1:]
        low, high = np.broadcast_to(low, shape), np.broadcast_to(high, shape)
        self.observation_space = gym.spaces.Box(low, high, dtype=observations.dtype)
        self.t = -1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t += 1
        self.steps = 0
        return self.observations[self.t], {}

    def step(self, action):
        self.t += 1
        self.steps += 1
        return self.observations[self.t], 0.0, self.steps == 10, False, {}


def points(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.normal(size=n), rng.normal(scale=1000.0, size=n)])


def wander(env, n, seed=0):
    """Random steps; returns the states."""
    rng = np.random.default_rng(seed)
    states = [env.reset(seed=seed)[0]]
    while len(states) < n:
        state, _, terminated, truncated, _ = env.step(int(rng.integers(env.action_space.n)))
        states.append(state)
        if terminated or truncated:
            states.append(env.reset()[0])
    return states[:n]


@functools.cache
def grow():
    """CartPole's cells under random actions."""
    env = StateAggregation(gym.make("CartPole-v1"), max_states=60)
    wander(env, 30_000)
    return env.partition

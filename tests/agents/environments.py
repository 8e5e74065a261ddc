"""Small environments whose right answer is known.

Those that functions make are compiled: a thousand steps take milliseconds. The classes are stepped from
Python.
"""

from typing import ClassVar

import gymnasium as gym
import numba
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

from oda_rl.envs import CompiledEnv


@numba.njit
def draw(state):
    """The next uniform number in [-1, 1] of the generator that is the first number of a state."""
    state[0] = (16807.0 * state[0]) % 2147483647.0
    return np.float32(2.0 * state[0] / 2147483647.0 - 1.0)


@numba.njit
def seed_generator(state, start):
    state[0] = 1.0 + np.floor(2147483645.0 * start[0])
    draw(state)


class _Drawn(CompiledEnv):
    """Observations in [-1, 1] that are drawn anew at each step; the state remembers the last one."""

    start_low: ClassVar = (0.0,)
    start_high: ClassVar = (1.0,)
    state_size = 0

    def __init__(self, n, action_space):
        self.observation_space = spaces.Box(-1.0, 1.0, (n,), np.float32)
        self.action_space, self.state_size = action_space, 2 + n

    @staticmethod
    def reset_kernel(parameters, state, start, observation):
        seed_generator(state, start)
        state[1] = 0.0  # steps of the episode
        for i in range(len(observation)):
            observation[i] = state[2 + i] = draw(state)


class IdentityEnv(gym.Env):
    """The right action is the number of the third that the observation lies in.

    After `length` steps an episode has reached its time limit, or ends.
    """

    def __init__(self, n_actions=3, start=0, length=20, ends=False):
        self.observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = spaces.Discrete(n_actions, start=start)
        self.length, self.ends = length, ends

    def _observe(self):
        self.x = self.np_random.uniform(-1.0, 1.0, 1).astype(np.float32)
        return self.x

    def right_action(self, x):
        n = int(self.action_space.n)
        return min(n - 1, int((float(x[0]) + 1.0) / 2.0 * n)) + int(self.action_space.start)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._observe(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        reward = 1.0 if action == self.right_action(self.x) else 0.0
        self.t += 1
        over = self.t >= self.length
        return self._observe(), reward, over and self.ends, over and not self.ends, {}


class _Identity(_Drawn):
    def __init__(self, n_actions, start, ends_after, offset):
        super().__init__(1, spaces.Discrete(n_actions, start=start))
        self.ends_after, self.offset = ends_after, offset

    def get_parameters(self):
        return [self.action_space.n, self.ends_after, self.offset]

    @staticmethod
    def step_kernel(parameters, state, action, observation):
        n = parameters[0]
        right = min(n - 1.0, np.floor((state[2] + 1.0) / 2.0 * n))
        observation[0] = state[2] = draw(state)
        state[1] += 1.0
        reward = 1.0 if action[0] == right else 0.0
        return reward + parameters[2], state[1] == parameters[1]


def identity_env(n_actions=3, start=0, length=20, ends=False, offset=0.0):
    """`IdentityEnv`, compiled; all rewards have the `offset` in common."""
    env = _Identity(n_actions, start, length if ends else 0, offset)
    return TimeLimit(env, length + ends)


class _Track(_Drawn):
    def __init__(self, low, high, offset):
        self.low, self.high, self.offset = low, high, offset
        super().__init__(len(low), spaces.Box(np.float32(low), np.float32(high), dtype=np.float32))

    def get_parameters(self):
        return [*self.low, *self.high, self.offset]

    @staticmethod
    def step_kernel(parameters, state, action, observation):
        n, reward = len(observation), parameters[-1]
        for i in range(n):
            low, high = parameters[i], parameters[n + i]
            wanted = 0.5 * (low + high) + 0.5 * (high - low) * state[2 + i]
            reward -= ((action[i] - wanted) / (high - low)) ** 2
            observation[i] = state[2 + i] = draw(state)
        return reward, False


def track_env(low=(-2.0,), high=(2.0,), length=20, offset=0.0):
    """The closer the action is to the observation, the larger the reward; the best is `offset`."""
    return TimeLimit(_Track(low, high, offset), length)


class _Pair(_Drawn):
    def __init__(self, action_space):
        super().__init__((action_space.shape or (2,))[0], action_space)

    @staticmethod
    def step_kernel(parameters, state, action, observation):
        n, n_right = len(observation), 0
        for i in range(n):
            n_right += (action[i] == 1.0) == (state[2 + i] > 0.0)
            observation[i] = state[2 + i] = draw(state)
        return n_right / n, False


def pair_env(action_space, length=20):
    """Switches, two as a rule; each is right if it is the sign of its own observation."""
    return TimeLimit(_Pair(action_space), length)


class _Once(_Drawn):
    def __init__(self, action_space):
        super().__init__(2, action_space)

    @staticmethod
    def step_kernel(parameters, state, action, observation):
        observation[:] = 0.0
        return 1.0 if (action[0] > 0.0) == (state[2] * state[3] > 0.0) else 0.0, True


def once_env(action_space):
    """Episodes of one step, which end in nothing: the right side is that of the product of two numbers.

    The side is that of `Discrete(2)`, or the sign of a point of a Box.
    """
    return _Once(action_space)


class _Corridor(CompiledEnv):
    start_low: ClassVar = (0.0,)
    start_high: ClassVar = (1.0,)
    state_size = 1

    def __init__(self):
        self.observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float64)
        self.action_space = spaces.Discrete(2)

    @staticmethod
    def reset_kernel(parameters, state, start, observation):
        observation[0] = state[0] = 0.0

    @staticmethod
    def step_kernel(parameters, state, action, observation):
        state[0] = max(0.0, state[0] + (1.0 if action[0] == 1.0 else -1.0))
        observation[0] = state[0]
        arrived = state[0] == 4.0
        return 1.0 if arrived else 0.0, arrived


def corridor_env(length=50):
    """Five rooms in a row; the last one pays and ends the episode. Unbounded observations."""
    return TimeLimit(_Corridor(), length)


class _Toll(_Corridor):
    def __init__(self):
        super().__init__()
        self.action_space = spaces.Discrete(3)

    @staticmethod
    def step_kernel(parameters, state, action, observation):
        move = action[0] - 1.0
        state[0] = max(0.0, state[0] + move)
        observation[0] = state[0]
        arrived = state[0] == 12.0
        return 10.0 if arrived else -0.1 * abs(move), arrived


def toll_env():
    """A corridor in which every move costs .1 and staying nothing; its end, after 12 moves, pays 10."""
    return TimeLimit(_Toll(), 60)


class _Fixed(_Drawn):
    def __init__(self, terminates):
        super().__init__(1, spaces.Discrete(2))
        self.terminates = terminates

    def get_parameters(self):
        return [self.terminates]

    @staticmethod
    def step_kernel(parameters, state, action, observation):
        observation[0] = draw(state)
        return 1.0, parameters[0] == 1.0


def fixed_env(terminates):
    """Whatever is done, the reward is 1 and the episode ends, or reaches its time limit."""
    return TimeLimit(_Fixed(terminates), 2 if terminates else 1)


class BrokenEnv(IdentityEnv):
    """Returns nonsense at one step of the run."""

    def __init__(self, at, observation=None, reward=None):
        super().__init__()
        self.at, self.observation, self.reward = at, observation, reward
        self.count = 0

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        self.count += 1
        if self.count == self.at:
            if self.observation is not None:
                observation = np.array([self.observation], dtype=np.float32)
            if self.reward is not None:
                reward = self.reward
        return observation, reward, terminated, truncated, info


class SpacesEnv(gym.Env):
    """Any spaces."""

    def __init__(self, observation_space, action_space):
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        return self.observation_space.sample(), 0.0, False, False, {}


class StatesEnv(gym.Env):
    """Any discrete state, and another one after each step; the action that is right in it pays 1."""

    def __init__(self, space, right, n_actions=5, length=10):
        self.observation_space, self.action_space = space, spaces.Discrete(n_actions)
        self.right, self.length = right, length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.t, self.state = 0, self.observation_space.sample()
        return self.state, {}

    def step(self, action):
        reward, self.state = float(action == self.right(self.state)), self.observation_space.sample()
        self.t += 1
        return self.state, reward, False, self.t >= self.length, {}


class SquareEnv(gym.Env):
    """A bright square in an image; the right action is the number of the third that it is in."""

    side = 8

    def __init__(self, n=24, length=20):
        self.observation_space = spaces.Box(0, 255, (n, n, 1), np.uint8)
        self.action_space = spaces.Discrete(3)
        self.n, self.length = n, length

    def _observe(self):
        image = self.np_random.integers(0, 9, self.observation_space.shape).astype(np.uint8)
        self.x, y = self.np_random.integers(0, self.n - self.side, 2)
        image[y : y + self.side, self.x : self.x + self.side] = 255
        return image

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._observe(), {}

    def step(self, action):
        reward = float(action == 3 * self.x // (self.n - self.side))
        self.t += 1
        return self._observe(), reward, False, self.t >= self.length, {}


class _Rest(_Drawn):
    def __init__(self):
        super().__init__(1, spaces.Box(-1.0, 1.0, (1,), np.float32))
        self.observation_space = spaces.Box(0.0, 3.0, (1,), np.float32)

    @staticmethod
    def reset_kernel(parameters, state, start, observation):
        seed_generator(state, start)
        state[1], observation[0] = 0.0, 3.0

    @staticmethod
    def step_kernel(parameters, state, action, observation):
        state[1] += 0.75
        observation[0] = np.float32(max(3.0 - state[1], 0.0005 * (draw(state) + 1.0)))
        return -observation[0], False


def rest_env(length=500):
    """Falls from 3 to 0 within four steps, and rests there; what it does changes nothing."""
    return TimeLimit(_Rest(), length)


class NoiseWrapper(gym.ObservationWrapper):
    """Adds coordinates that are drawn anew at each step and tell nothing."""

    def __init__(self, env, n_noise):
        super().__init__(env)
        space, ends = env.observation_space, np.full(n_noise, np.inf, np.float32)
        self.observation_space = spaces.Box(np.r_[space.low, -ends], np.r_[space.high, ends])
        self.n_noise, self.rng = n_noise, np.random.default_rng(0)

    def observation(self, observation):
        return np.r_[observation, self.rng.normal(size=self.n_noise)].astype(np.float32)

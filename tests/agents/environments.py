"""Small environments whose right answer is known."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces


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


class TrackEnv(gym.Env):
    """The closer the action is to the observation, the larger the reward; the best is 0 each step."""

    def __init__(self, low=(-2.0,), high=(2.0,), length=20):
        self.low, self.high = np.array(low), np.array(high)
        n = len(self.low)
        self.observation_space = spaces.Box(-1.0, 1.0, (n,), np.float32)
        self.action_space = spaces.Box(np.float32(low), np.float32(high), dtype=np.float32)
        self.length = length

    def _observe(self):
        self.x = self.np_random.uniform(-1.0, 1.0, len(self.low)).astype(np.float32)
        return self.x

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._observe(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        wanted = 0.5 * (self.low + self.high) + 0.5 * (self.high - self.low) * self.x
        reward = -float(((action - wanted) ** 2 / (self.high - self.low) ** 2).sum())
        self.t += 1
        return self._observe(), reward, False, self.t >= self.length, {}


class PairEnv(gym.Env):
    """Switches, two as a rule; each is right if it is the sign of its own observation."""

    def __init__(self, action_space, length=20):
        shape = action_space.shape or (2,)
        self.observation_space = spaces.Box(-1.0, 1.0, shape, np.float32)
        self.action_space = action_space
        self.start = np.ravel(getattr(action_space, "start", 0))
        self.length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        self.x = self.np_random.uniform(-1.0, 1.0, self.observation_space.shape).astype(np.float32)
        return self.x, {}

    def step(self, action):
        assert self.action_space.contains(action)
        reward = float(np.mean((action - self.start == 1) == (self.x > 0.0)))
        self.t += 1
        self.x = self.np_random.uniform(-1.0, 1.0, self.observation_space.shape).astype(np.float32)
        return self.x, reward, False, self.t >= self.length, {}


class OnceEnv(gym.Env):
    """Episodes of one step, which end in nothing: the right side is that of the product of two numbers.

    The side is that of `Discrete(2)`, or the sign of a point of a Box.
    """

    def __init__(self, action_space):
        self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.uniform(-1.0, 1.0, 2).astype(np.float32)
        return self.x, {}

    def step(self, action):
        side = float(np.ravel(action)[0] > 0)
        return np.zeros(2, np.float32), float(side == (self.x.prod() > 0.0)), True, False, {}


class CorridorEnv(gym.Env):
    """Five rooms in a row; the last one pays and ends the episode. Unbounded observations."""

    def __init__(self, length=50):
        self.observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float64)
        self.action_space = spaces.Discrete(2)
        self.length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.room = 0, 0
        return np.array([0.0]), {}

    def step(self, action):
        self.room = max(0, self.room + (1 if action == 1 else -1))
        self.t += 1
        arrived = self.room == 4
        return np.array([float(self.room)]), float(arrived), arrived, self.t >= self.length, {}


class FixedEnv(gym.Env):
    """Whatever is done, the reward is 1 and the episode reaches its time limit."""

    def __init__(self, terminates):
        self.observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.terminates = terminates

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, 1).astype(np.float32), {}

    def step(self, action):
        x = self.np_random.uniform(-1, 1, 1).astype(np.float32)
        return x, 1.0, self.terminates, not self.terminates, {}


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


class RestEnv(gym.Env):
    """Falls from 3 to 0 within four steps, and rests there; what it does changes nothing."""

    def __init__(self, length=500):
        self.observation_space = spaces.Box(0.0, 3.0, (1,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.length = length

    def _observe(self):
        rest = self.np_random.uniform(0.0, 0.001)
        return np.array([max(3.0 - self.t, rest)], dtype=np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._observe(), {}

    def step(self, action):
        self.t += 0.75
        x = self._observe()
        return x, -float(x[0]), False, self.t >= 0.75 * self.length, {}


class NoiseWrapper(gym.ObservationWrapper):
    """Adds coordinates that are drawn anew at each step and tell nothing."""

    def __init__(self, env, n_noise):
        super().__init__(env)
        space, ends = env.observation_space, np.full(n_noise, np.inf, np.float32)
        self.observation_space = spaces.Box(np.r_[space.low, -ends], np.r_[space.high, ends])
        self.n_noise, self.rng = n_noise, np.random.default_rng(0)

    def observation(self, observation):
        return np.r_[observation, self.rng.normal(size=self.n_noise)].astype(np.float32)

"""The wrappers around an environment: which only look on, and which count steps and rewards."""

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

# Episodes, at least, that a Monitor of the package's own lists, and a checkpoint of a training
EPISODES = 10_000


def wrappers_of(env: gym.Env) -> Iterator[Any]:
    """The wrappers of an environment, the outermost first."""
    while isinstance(env, gym.Wrapper):
        yield env
        env = env.env


def only_looked_at(env: gym.Env) -> bool:
    """Whether no wrapper of an environment could change what it does (see `find_dynamics`)."""
    return all(map(_only_looks_on, wrappers_of(env)))


def _only_looks_on(wrapper: gym.Wrapper) -> bool:
    return type(wrapper) in (TimeLimit, OrderEnforcing, PassiveEnvChecker) or is_monitor(wrapper)


def is_monitor(wrapper: gym.Wrapper) -> bool:
    """Whether a wrapper is the Monitor of Stable-Baselines3."""
    # By its name, as this package does without Stable-Baselines3.
    kind = type(wrapper)
    return (kind.__module__, kind.__qualname__) == ("stable_baselines3.common.monitor", "Monitor")


def find_monitor(env: gym.Env) -> Any | None:
    """The Monitor of Stable-Baselines3 among the wrappers, if there is one."""
    return next(filter(is_monitor, wrappers_of(env)), None)


class _Latest(list[float]):
    """What a Monitor lists of episodes, without those of long ago, which add up to `before`."""

    before = 0.0

    def append(self, one: float) -> None:
        super().append(one)
        if len(self) >= 2 * EPISODES:
            self.before += sum(self[:EPISODES])
            del self[:EPISODES]


def latest_episodes(monitor: Any) -> Any:
    """A new Monitor that will list the latest episodes alone: a training may make millions."""
    for name in ("episode_returns", "episode_lengths", "episode_times"):
        setattr(monitor, name, _Latest())
    return monitor


class _Rewards(list[float]):
    """Rewards of an episode that is gone on with: the first one stands for those of the steps before.

    However many these were, as a model file tells it, they take no memory.
    """

    def __init__(self, total: float, n_steps: int) -> None:
        super().__init__([total])
        self.more = n_steps - 1

    def __len__(self) -> int:
        return super().__len__() + self.more


def go_on_counting(env: gym.Env, elapsed_steps: int, total: float) -> None:
    """Let the wrappers that count steps and rewards go on in the middle of an episode."""
    for wrapper in wrappers_of(env):
        counter: Any = wrapper
        if isinstance(wrapper, TimeLimit):
            counter._elapsed_steps = elapsed_steps
        elif is_monitor(wrapper):  # only their sum and their number matter to it
            counter.rewards = _Rewards(total, elapsed_steps) if elapsed_steps else []
            counter.needs_reset = False

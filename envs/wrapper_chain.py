"""The wrappers around an environment: which are passive, and which count steps and rewards."""

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

# Latest episodes stored in a checkpoint, and at least listed by a Monitor that this package makes
EPISODES = 10_000


def wrappers_of(env: gym.Env | gym.vector.VectorEnv) -> Iterator[Any]:
    """The wrappers of an environment or of a vector environment, the outermost first."""
    while isinstance(env, gym.Wrapper | gym.vector.VectorWrapper):
        yield env
        env = env.env


def has_passive_wrappers_only(env: gym.Env) -> bool:
    """Whether all wrappers of an environment are passive (see `find_dynamics`)."""
    passive = TimeLimit, OrderEnforcing, PassiveEnvChecker
    return all(type(one) in passive or is_monitor(one) for one in wrappers_of(env))


def is_monitor(wrapper: gym.Wrapper) -> bool:
    """Whether a wrapper is the Monitor of Stable-Baselines3."""
    # Compared by name, because this package does not need Stable-Baselines3.
    kind = type(wrapper)
    return (kind.__module__, kind.__qualname__) == ("stable_baselines3.common.monitor", "Monitor")


def find_time_limit(env: gym.Env) -> int | None:
    """Steps after which the TimeLimit wrappers of an environment end an episode; None without them."""
    limits = [one._max_episode_steps for one in wrappers_of(env) if isinstance(one, TimeLimit)]
    return min(limits, default=None)


def find_monitor(env: gym.Env) -> Any | None:
    """The Monitor of Stable-Baselines3 among the wrappers, if there is one."""
    return next(filter(is_monitor, wrappers_of(env)), None)


def episode_record(total: float, length: int, seconds: float) -> dict[str, Any]:
    """The record of a finished episode, as the Monitor makes it: return, steps and time."""
    return {"r": round(float(total), 6), "l": int(length), "t": round(seconds, 6)}


class _Latest(list[float]):
    """A Monitor's list of one number per episode; old ones are dropped, their sum goes to `before`."""

    before = 0.0

    def append(self, one: float) -> None:
        super().append(one)
        if len(self) >= 2 * EPISODES:
            self.before += sum(self[:EPISODES])
            del self[:EPISODES]


def latest_episodes(monitor: Any) -> Any:
    """Make a new Monitor list only the latest episodes, as a training may have millions."""
    for name in ("episode_returns", "episode_lengths", "episode_times"):
        setattr(monitor, name, _Latest())
    return monitor


class _Rewards(list[float]):
    """Rewards of a continued episode: the first entry is the sum of those of the `n_steps` before.

    The list takes no memory for these steps, however large the number in a model file.
    """

    def __init__(self, total: float, n_steps: int) -> None:
        super().__init__([total])
        self.more = n_steps - 1

    def __len__(self) -> int:
        return super().__len__() + self.more


def restore_counters(env: gym.Env, elapsed_steps: int, total: float) -> None:
    """Set the wrappers that count steps and rewards to the middle of an episode."""
    for wrapper in wrappers_of(env):
        counter: Any = wrapper
        if isinstance(wrapper, TimeLimit):
            counter._elapsed_steps = elapsed_steps
        elif is_monitor(wrapper):  # it uses only the sum and number of rewards
            counter.rewards = _Rewards(total, elapsed_steps) if elapsed_steps else []
            counter.needs_reset = False

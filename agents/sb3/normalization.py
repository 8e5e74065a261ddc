"""The inverse of wrappers that normalise observations or rewards by running statistics.

Such statistics change while a policy improves, so that a state has other numbers later than before, and
its cells would be elsewhere. The agents scale observations and rewards by themselves, so they learn from
those of the environment.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from gymnasium import wrappers
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from oda_rl._types import Array
from oda_rl.agents.sb3.env_origin import what_changes, wrappers_around
from oda_rl.agents.schema import BOX
from oda_rl.envs.wrapper_chain import wrappers_of

# Gymnasium's wrappers, around a single environment or around several
OBSERVATIONS = wrappers.NormalizeObservation, wrappers.vector.NormalizeObservation
REWARDS = wrappers.NormalizeReward, wrappers.vector.NormalizeReward
# Names of all that normalise observations
NAMES = {one.__name__ for one in (VecNormalize, *OBSERVATIONS)}
# Mean and standard deviation of the numbers of an observation, or of those of a key of a Dict
Statistics = tuple[Array, Array]


class Normalization:
    """The mean and the standard deviation by which observations have been normalised.

    Parameters
    ----------
    wrapper : VecNormalize, NormalizeObservation or None
        The wrapper that normalises them. Its statistics of the moment are used, or the last finite ones:
        one observation with NaN makes them NaN for ever.
    known : mapping of str to (mean, deviation), optional
        Without a wrapper: the statistics of each normalised key of a Dict, those of a Box as
        "observation".

    Examples
    --------
    >>> Normalization(None, {BOX: (np.array([1.0, -1.0]), np.array([2.0, 0.5]))}).undo([1.0, 2.0])
    array([3., 0.])
    """

    def __init__(self, wrapper: Any, known: Mapping[str, Statistics] | None = None) -> None:
        self.wrapper = wrapper
        self.known = dict(known or {})

    def statistics(self) -> dict[str, Statistics]:
        """The present statistics, as `known`."""
        if self.wrapper is not None:
            found, least = self.wrapper.obs_rms, self.wrapper.epsilon
            found = found if isinstance(found, dict) else {BOX: found}
            present = {key: _mean_and_deviation(one, least) for key, one in found.items()}
            if all(np.isfinite(part).all() for pair in present.values() for part in pair):
                self.known = present
        return self.known

    def undo(self, observation: Any) -> Any:
        """The observation, or several as a VecEnv returns them, in the units of the environment.

        What does not have the shape of the normalised observations is returned as it is.
        """
        return self._converted(observation, lambda x, mean, deviation: x * deviation + mean)

    def redo(self, observation: Any) -> Any:
        """Normalise what is in the units of the environment: the inverse of `undo`."""
        return self._converted(observation, lambda x, mean, deviation: (x - mean) / deviation)

    def _converted(self, observation: Any, convert: Callable[[Array, Array, Array], Array]) -> Any:
        found = self.statistics()
        if isinstance(observation, Mapping):
            return {
                key: _where_it_fits(convert, one, *found[key]) if key in found else one
                for key, one in observation.items()
            }
        return _where_it_fits(convert, observation, *found[BOX]) if BOX in found else observation

    def get_state(self) -> dict[str, Any]:
        """The present statistics, for a model file."""
        return {key: {"mean": a, "deviation": b} for key, (a, b) in self.statistics().items()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any] | None) -> "Normalization | None":
        """One without a wrapper, from the result of `get_state`; None without a state."""
        if state is None:
            return None
        return cls(None, {key: (one["mean"], one["deviation"]) for key, one in state.items()})


def _mean_and_deviation(statistics: Any, least: float) -> Statistics:
    mean, variance = (np.asarray(one, dtype=np.float64) for one in (statistics.mean, statistics.var))
    return mean, np.sqrt(variance + least)


def _where_it_fits(convert: Any, values: Any, mean: Array, deviation: Array) -> Any:
    array = np.asarray(values)
    fits = array.dtype.kind in "fiub" and array.shape[array.ndim - mean.ndim :] == mean.shape
    return convert(array, mean, deviation) if fits else values


def find_normalization(env: Any) -> Normalization | None:
    """Find how observations are normalised, if no wrapper around that changes them.

    Parameters
    ----------
    env : VecEnv or None
        Environments in SB3's `VecNormalize`, or in Gymnasium's `NormalizeObservation` together.

    Returns
    -------
    Normalization or None

    Examples
    --------
    >>> import gymnasium as gym
    >>> env = DummyVecEnv([lambda: wrappers.NormalizeObservation(gym.make("CartPole-v1"))])
    >>> env.seed(0)
    [0]
    >>> normalised = env.reset()
    >>> original = find_normalization(env).undo(normalised)
    >>> bool(np.allclose(original, env.envs[0].unwrapped.state))
    True
    """
    found = _find(env, "norm_obs", OBSERVATIONS, {"actions", "rewards"})
    return None if found is None else Normalization(found)


def find_original_rewards(env: Any) -> Callable[[Any], Any] | None:
    """Find how to convert the rewards of the last step back to those before a normalisation.

    Parameters
    ----------
    env : VecEnv
        Environments in SB3's `VecNormalize`, or in Gymnasium's `NormalizeReward` together.

    Returns
    -------
    callable or None
        A function of the rewards that the environment has returned; None if they are not normalised, or
        if another wrapper changes them after that.
    """
    wrapper = _find(env, "norm_reward", REWARDS, {"actions", "observations"})
    if wrapper is None:
        return None
    if isinstance(wrapper, VecNormalize):
        return lambda rewards: wrapper.get_original_reward()
    # to single precision, in which equal rewards are equal again
    return lambda reward: np.float32(reward * np.sqrt(wrapper.return_rms.var + wrapper.epsilon))


def _find(env: Any, setting: str, kinds: tuple[type, ...], harmless: set[str]) -> Any:
    """The outermost wrapper that normalises, if those around it change nothing but the `harmless`.

    It is one of `kinds`, or a VecNormalize with this `setting`.
    """
    for one in _all_wrappers(env):
        if isinstance(one, kinds) or (isinstance(one, VecNormalize) and getattr(one, setting)):
            return one
        if what_changes(one) not in {"", *harmless} and not isinstance(one, wrappers.TimeLimit):
            return None
    return None


def _all_wrappers(env: Any) -> Iterator[Any]:
    """The wrappers around vectorised environments, and of a single one in them, the outermost first."""
    yield from wrappers_around(env)
    inner = getattr(env, "unwrapped", None)
    if type(inner) is DummyVecEnv and inner.num_envs == 1:
        yield from wrappers_of(inner.envs[0])

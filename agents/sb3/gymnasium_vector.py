"""Single and vector environments of Gymnasium in the form that Stable-Baselines3 takes."""

import time
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import NormalizeObservation
from numpy.typing import NDArray
from stable_baselines3.common.env_util import is_wrapped
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from oda_rl.agents.schema import MOST_ENVS
from oda_rl.envs.wrapper_chain import episode_record, latest_episodes, wrappers_of

KINDS = "the id of an environment, a gymnasium.Env, a gymnasium.vector.VectorEnv or an SB3 VecEnv"
# Keys in the info of an environment: its next observation begins an episode; this observation does
WAITS, BEGINS = "oda_rl.waits", "oda_rl.begins"


class GymnasiumVecEnv(VecEnv):
    """A vector environment of Gymnasium, in any of its autoreset modes, as an SB3 `VecEnv`.

    In the modes SAME_STEP and DISABLED, and for `SyncVectorEnv` and `AsyncVectorEnv` in the mode
    NEXT_STEP, an environment is reset in the step that ends its episode, as in SB3. What is learned is
    then the same as with SB3's `VecEnv` of the same environments and seeds. Other vector environments in
    the mode NEXT_STEP reset an environment in the step after the last one of its episode. That step is
    counted, but nothing is learned from it. The same holds if the environments are in a wrapper that
    cannot reset some of them alone, such as Gymnasium's `NormalizeObservation`.

    Parameters
    ----------
    env : gymnasium.vector.VectorEnv
        The environments.

    Raises
    ------
    ValueError
        If its metadata have no autoreset mode.

    Examples
    --------
    >>> envs = GymnasiumVecEnv(gym.make_vec("CartPole-v1", num_envs=3, vectorization_mode="sync"))
    >>> envs.reset().shape
    (3, 4)
    """

    def __init__(self, env: gym.vector.VectorEnv) -> None:
        mode = env.metadata.get("autoreset_mode")
        if not isinstance(mode, AutoresetMode):
            raise ValueError(
                f"{env} does not declare its autoreset mode: metadata['autoreset_mode'] must be one "
                f"of {[str(one) for one in AutoresetMode]}, got {mode!r}."
            )
        self.env = env
        self._many_seeds = isinstance(env.unwrapped, SyncVectorEnv | AsyncVectorEnv)
        masked = self._many_seeds and _accepts_masks(env)
        self._resets = mode is AutoresetMode.DISABLED or (mode is AutoresetMode.NEXT_STEP and masked)
        self._waits = mode is AutoresetMode.NEXT_STEP and not masked
        n = env.num_envs
        self._begins = np.zeros(n, dtype=bool)
        self._returns, self._lengths = np.zeros(n), np.zeros(n, dtype=np.int64)
        self._begun = time.time()
        super().__init__(n, env.single_observation_space, env.single_action_space)

    def reset(self) -> VecEnvObs:
        """Begin an episode in every environment; return the observations."""
        seed: Any = self._seeds if self._many_seeds else self._seeds[0]
        observations, info = self.env.reset(seed=seed)
        self.reset_infos = [_info_of(info, i) for i in range(self.num_envs)]
        self._reset_seeds()
        self._begins[:], self._returns[:], self._lengths[:] = False, 0.0, 0
        return observations

    def step_async(self, actions: NDArray[Any]) -> None:
        """Store the actions for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        """Step all environments; those whose episodes end begin another, now or in the next step."""
        observations, rewards, terminated, truncated, info = self.env.step(self._actions)
        dones = terminated | truncated
        self._lengths += ~self._begins
        self._returns += rewards
        infos = [_info_of(info, i) for i in range(self.num_envs)]
        for i in np.flatnonzero(self._begins).tolist():
            infos[i][BEGINS] = True
        for i in np.flatnonzero(dones).tolist():
            final = infos[i].pop("final_obs", None)
            infos[i] |= infos[i].pop("final_info", {})
            infos[i]["terminal_observation"] = row_of(observations, i) if final is None else final
            seconds = time.time() - self._begun
            infos[i]["episode"] = episode_record(self._returns[i], self._lengths[i], seconds)
            if self._waits:
                infos[i][WAITS] = True
        for i, one in enumerate(infos):
            one["TimeLimit.truncated"] = bool(truncated[i] and not terminated[i])
        self._returns[dones], self._lengths[dones] = 0.0, 0
        self._begins = dones & self._waits
        if self._resets and dones.any():
            observations, _ = self.env.reset(options={"reset_mask": dones})
        return observations, np.asarray(rewards, dtype=np.float32), dones, infos

    def close(self) -> None:
        """Close the environments."""
        self.env.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """The attribute of each environment, or that of the vector environment once for each."""
        chosen = list(self._get_indices(indices))
        if hasattr(self.env, "get_attr"):
            found = self.env.get_attr(attr_name)
            return [found[i] for i in chosen]
        return [getattr(self.env, attr_name)] * len(chosen)

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute of all environments; a ValueError if `indices` are given."""
        if indices is not None:
            raise ValueError(
                f"indices must be None, got {indices!r}: an attribute of a gymnasium.vector "
                "environment is set for all of its environments."
            )
        self.env.set_attr(attr_name, value)  # type: ignore[attr-defined]

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """Call a method of each environment; return the results."""
        found = self.env.call(method_name, *args, **kwargs)  # type: ignore[attr-defined]
        return [found[i] for i in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Return False for each environment, as its wrappers are not known."""
        return [False for _ in self._get_indices(indices)]


def _accepts_masks(env: gym.vector.VectorEnv) -> bool:
    """Whether `reset` of an environment in the mode NEXT_STEP accepts a mask of those to reset.

    The mode does not require it, so that a `reset` from another package may reset something for all.
    """
    kinds = [type(one) for one in (*wrappers_of(env), env.unwrapped)]
    return env.num_envs == 1 or all(
        kind.reset.__module__.partition(".")[0] in ("gymnasium", "oda_rl")
        and not issubclass(kind, NormalizeObservation)
        for kind in kinds
    )


def row_of(observations: Any, i: int) -> Any:
    """A copy of one of the observations of a VecEnv."""
    if isinstance(observations, dict):
        return {key: row_of(values, i) for key, values in observations.items()}
    if isinstance(observations, tuple):
        return tuple(row_of(values, i) for values in observations)
    return observations[i].copy()


def _info_of(info: dict[str, Any] | list[dict[str, Any]], i: int) -> dict[str, Any]:
    """The info of environment `i`, from Gymnasium's info of all or its wrapper's list of infos."""
    if isinstance(info, list):
        return dict(info[i])
    found = {}
    for key, values in info.items():
        known: Sequence[bool] | None = info.get(f"_{key}")
        if known is not None and known[i]:
            found[key] = _info_of(values, i) if isinstance(values, dict) else values[i]
    return found


def convert_env(env: Any) -> Any:
    """Convert an id, an environment or a vector environment: to one in a Monitor, or to a `VecEnv`.

    Raises a TypeError for anything else, and for an environment without spaces. Raises a ValueError for
    more environments than a model file may have, and for nested Dict or Tuple observations, which SB3
    does not support.
    """
    # SB3 would make it with render_mode="rgb_array", which slows down every step of some environments
    made = gym.make(env) if isinstance(env, str) else env
    if isinstance(made, gym.Env | gym.vector.VectorEnv):
        for name in ("action_space", "observation_space"):
            if not isinstance(getattr(made, name, None), spaces.Space):
                found = getattr(made, name, "no such attribute")
                raise TypeError(f"env must have an {name}, a space of Gymnasium; {made} has {found}.")
        _refuse_nested(getattr(made, "single_observation_space", made.observation_space))
    n = getattr(made, "num_envs", 1)
    if n > MOST_ENVS:
        raise ValueError(f"env has {n:,} environments; at most {MOST_ENVS:,} are accepted.")
    if isinstance(made, gym.vector.VectorEnv):
        return GymnasiumVecEnv(made)
    if isinstance(made, gym.Env):
        return made if is_wrapped(made, Monitor) else latest_episodes(Monitor(made))
    if not isinstance(made, VecEnv):
        raise TypeError(f"env must be {KINDS}, got {made!r}.")
    return made


def _refuse_nested(space: spaces.Space) -> None:
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        return
    parts = space.values() if isinstance(space, spaces.Dict) else space
    if any(isinstance(part, spaces.Dict | spaces.Tuple) for part in parts):
        raise ValueError(
            f"Observation space {space} is not supported: Stable-Baselines3 does not support nested "
            "Dict or Tuple spaces. Wrap the environment in gymnasium.wrappers.FlattenObservation."
        )

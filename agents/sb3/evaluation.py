"""Environments to evaluate a policy in: many episodes at once, in compiled code if there is any."""

import time
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from oda_rl._interrupts import call_compiled
from oda_rl._validation import check_at_least
from oda_rl.envs import find_dynamics, find_twin
from oda_rl.envs.kernels import step_many
from oda_rl.envs.names import find_env_spec
from oda_rl.envs.wrapper_chain import episode_record

# Time limit for environments that set none: a policy may go round in circles.
LONGEST = 10_000


class CompiledVecEnv(DummyVecEnv):
    """Copies of an environment with compiled dynamics, all stepped by one compiled call.

    Its results equal those of SB3's `make_vec_env` of the same environment exactly; a step of twenty
    environments takes less time than a step of a single one of Gymnasium's. The states are stored here:
    the wrapped environments hold only those at the beginning of their episodes.

    Parameters
    ----------
    env_id : str
        An environment in which `oda_rl.envs.find_dynamics` finds dynamics.
    n_envs : int
        Copies.
    **kwargs
        Keyword arguments of `gymnasium.make`.

    Raises
    ------
    ValueError
        If the environment has no compiled dynamics, or `n_envs` is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> import oda_rl.envs
    >>> envs = CompiledVecEnv("oda_rl/CartPole-v1", 3)
    >>> envs.reset().shape
    (3, 4)
    >>> _, rewards, dones, _ = envs.step(np.array([0, 1, 1]))
    >>> rewards, dones
    (array([1., 1., 1.], dtype=float32), array([False, False, False]))
    """

    def __init__(self, env_id: str, n_envs: int, **kwargs: Any) -> None:
        check_at_least(1, n_envs=n_envs)
        super().__init__([lambda: Monitor(gym.make(env_id, **kwargs)) for _ in range(n_envs)])
        dynamics = find_dynamics(self.envs[0])
        if dynamics is None:
            raise ValueError(
                f"env_id must be the id of an environment with compiled dynamics, got {env_id!r}."
            )
        self._dynamics = dynamics
        limit = dynamics.time_limit
        self._time_limit = np.iinfo(np.int64).max if limit is None else limit
        self._states = np.zeros((n_envs, dynamics.state_size))
        self._observations = np.zeros((n_envs, dynamics.observation_size))
        space: Any = self.observation_space
        self._seen = np.zeros((n_envs, *space.shape), dtype=space.dtype)
        self._rewards, self._returns = np.zeros(n_envs), np.zeros(n_envs)
        self._terminated = np.zeros(n_envs, dtype=np.bool_)
        self._lengths = np.zeros(n_envs, dtype=np.int64)
        self._begun = time.time()

    def reset(self) -> VecEnvObs:
        """Begin an episode in every environment; return the observations."""
        observations = super().reset()
        for i in range(self.num_envs):
            self._note_start(i)
        return observations

    def step_wait(self) -> VecEnvStepReturn:
        """Step all environments; those whose episodes end begin another."""
        call_compiled(
            step_many,
            self._dynamics.step,
            self._dynamics.parameters,
            self._states,
            self._encode(np.asarray(self.actions)),
            self._observations,
            self._rewards,
            self._terminated,
        )
        self._lengths += 1
        self._returns += self._rewards
        truncated = self._lengths >= self._time_limit
        dones = self._terminated | truncated
        self._seen[:] = self._observations.reshape(self._seen.shape)
        infos: list[dict[str, Any]] = [{"TimeLimit.truncated": False} for _ in range(self.num_envs)]
        for i in map(int, np.flatnonzero(dones)):
            infos[i] = self._end_episode(i, bool(truncated[i] and not self._terminated[i]))
        return self._seen.copy(), self._rewards.astype(np.float32), dones, infos

    def _encode(self, actions: np.ndarray) -> np.ndarray:
        """Convert actions for the dynamics, to an array of shape (n_envs, action_size)."""
        space: Any = self.action_space
        if isinstance(space, spaces.Box):
            actions = actions.astype(space.dtype)
        else:
            actions = actions - getattr(space, "start", 0)
        return actions.astype(np.float64).reshape(self.num_envs, self._dynamics.action_size)

    def _end_episode(self, i: int, truncated: bool) -> dict[str, Any]:
        """Begin the next episode of an environment; return SB3's info about the last one."""
        info = {
            "TimeLimit.truncated": truncated,
            "episode": episode_record(self._returns[i], self._lengths[i], time.time() - self._begun),
            "terminal_observation": self._seen[i].copy(),
        }
        self._seen[i], self.reset_infos[i] = self.envs[i].reset()
        self._note_start(i)
        return info

    def _note_start(self, i: int) -> None:
        inner: Any = self.envs[i].unwrapped
        self._states[i] = inner.get_state()
        self._lengths[i] = self._returns[i] = 0


def make_evaluation_envs(env_id: str, n_envs: int, seed: int, **kwargs: Any) -> VecEnv:
    """Make environments for SB3's `evaluate_policy`, each wrapped in a Monitor.

    For Gymnasium's classic control tasks these are their compiled twins, which are numerically
    identical: the same policy has the same returns in them. With as many environments as episodes, an
    evaluation needs only as many calls of `predict` as the longest episode has steps.

    Parameters
    ----------
    env_id : str
        Id of the environment.
    n_envs : int
        Copies.
    seed : int
        The copies are seeded with `seed`, `seed + 1` and so on.
    **kwargs
        Keyword arguments of `gymnasium.make`. With any, an environment's twin is not used.

    Returns
    -------
    stable_baselines3.common.vec_env.VecEnv

    Examples
    --------
    >>> type(make_evaluation_envs("CartPole-v1", 20, seed=0)).__name__
    'CompiledVecEnv'
    """
    if kwargs.get("max_episode_steps") == -1:  # no limit, by a convention of Gymnasium
        kwargs["max_episode_steps"] = LONGEST
    twin = find_twin(env_id)
    if twin is None or (kwargs and twin != env_id):
        wrapper: Any = TimeLimit
        endless = find_env_spec(env_id).max_episode_steps is None and "max_episode_steps" not in kwargs
        return make_vec_env(
            partial(gym.make, env_id, **kwargs),
            n_envs,
            seed=seed,
            wrapper_class=wrapper if endless else None,
            wrapper_kwargs={"max_episode_steps": LONGEST} if endless else None,
        )
    envs = CompiledVecEnv(twin, n_envs, **kwargs)
    envs.seed(seed)
    return envs

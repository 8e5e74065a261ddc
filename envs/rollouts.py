"""Playing given actions in a compiled loop."""

from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike, NDArray

from oda_rl.envs.dynamics import CompiledDynamics, StartBlock
from oda_rl.envs.finding import find_dynamics, get_elapsed_steps, hand_back
from oda_rl.envs.kernels import play

# Starts of episodes drawn at once
BLOCK = 256
NO_LIMIT = np.iinfo(np.int64).max


class Transitions(NamedTuple):
    """What `rollout` has seen; the first axis is time.

    Attributes
    ----------
    observations : ndarray of shape (n_steps, observation_size)
        Before each action.
    next_observations : ndarray of shape (n_steps, observation_size)
        After it; at the end of an episode its last one, not the first of the next.
    rewards : ndarray of shape (n_steps,)
    terminated, truncated : ndarray of bool, shape (n_steps,)
    """

    observations: NDArray[np.float64]
    next_observations: NDArray[np.float64]
    rewards: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]


def rollout(env: gym.Env, actions: ArrayLike, seed: int | None = None) -> Transitions:
    """Reset an environment and play given actions, episode after episode, in compiled code.

    The environment's own `step` and `reset` would have given the same, and it can be stepped on from
    where the last action has led.

    Parameters
    ----------
    env : gymnasium.Env
        An environment that `find_dynamics` finds dynamics in.
    actions : array-like of shape (n_steps,) or (n_steps, action_size)
        Elements of the action space.
    seed : int, optional
        For the first reset.

    Returns
    -------
    Transitions
        Everything seen.

    Raises
    ------
    ValueError
        If the environment has no compiled dynamics, or the actions do not fit it.

    Examples
    --------
    >>> import gymnasium as gym
    >>> import numpy as np
    >>> import oda_rl.envs
    >>> env = gym.make("oda_rl/CartPole-v1")
    >>> transitions = rollout(env, np.zeros(1000, dtype=int), seed=0)
    >>> transitions.observations.shape
    (1000, 4)
    """
    dynamics = find_dynamics(env)
    if dynamics is None:
        raise ValueError(f"env must have compiled dynamics that can be found; {env} has not")
    encoded = _encode(dynamics, np.asarray(actions))
    begun, _ = env.reset(seed=seed)
    n, width = len(encoded), dynamics.observation_size
    seen = Transitions(
        np.empty((n, width)),
        np.empty((n, width)),
        np.empty(n),
        np.empty(n, np.bool_),
        np.empty(n, np.bool_),
    )
    state = dynamics.env.get_state()
    observation = np.array(begun, dtype=np.float64).reshape(-1)
    limit = NO_LIMIT if dynamics.time_limit is None else dynamics.time_limit
    t, elapsed = 0, get_elapsed_steps(env)
    while t < n:
        block = StartBlock(dynamics.env, BLOCK)
        t, used, elapsed = play(
            dynamics.step,
            dynamics.reset,
            dynamics.parameters,
            block.rows,
            encoded,
            limit,
            t,
            elapsed,
            state,
            observation,
            *seen,
        )
        block.settle(used)
    hand_back(env, state, elapsed)
    return seen


def _encode(dynamics: CompiledDynamics, actions: NDArray[Any]) -> NDArray[np.float64]:
    """The actions as the kernels have them; an error if one does not fit."""
    space: Any = dynamics.env.action_space
    shape = (len(actions), dynamics.action_size) if actions.ndim else (0,)
    flat = actions.reshape(shape) if actions.size == np.prod(shape) else None
    if flat is None or actions.ndim == 0:
        raise ValueError(f"actions of shape {actions.shape} do not fit a sequence from {space}")
    if isinstance(space, gym.spaces.Box):
        return np.ascontiguousarray(flat.astype(space.dtype), dtype=np.float64)
    counted = flat - np.reshape(getattr(space, "start", 0), -1)
    if isinstance(space, gym.spaces.MultiBinary):
        sizes = np.array([2])
    else:
        sizes = np.reshape(space.n if isinstance(space, gym.spaces.Discrete) else space.nvec, -1)
    if not np.all((counted >= 0) & (counted < sizes) & (counted == np.floor(counted))):
        raise ValueError(f"actions must all be in {space}")
    return np.ascontiguousarray(counted, dtype=np.float64)

"""The bounds of stacked frames."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecFrameStack, unwrap_vec_wrapper

from oda_rl.agents.observations import ObservationCodec


def find_bounds(env: Any, observations: ObservationCodec) -> tuple[NDArray[Any], NDArray[Any]]:
    """The bounds of the numbers of a row, correct also for stacked frames.

    SB3's VecFrameStack puts frames one after the other, but its space repeats each bound `n_stack` times
    before the next: the angle in one frame then has the bounds of the position in another. The parts of
    a Dict are stacked separately.

    Parameters
    ----------
    env : VecEnv or None
        Where the observations come from.
    observations : ObservationCodec
        The codec for the observation space of `env`.

    Returns
    -------
    low, high : ndarray of shape (n_features,)

    Examples
    --------
    >>> from stable_baselines3.common.vec_env import DummyVecEnv
    >>> import gymnasium as gym
    >>> env = VecFrameStack(DummyVecEnv([lambda: gym.make("MountainCar-v0")]), 2)
    >>> bounds = find_bounds(env, ObservationCodec(env.observation_space))
    >>> env.observation_space.high, bounds[1].round(2)
    (array([0.6 , 0.6 , 0.07, 0.07], dtype=float32), array([0.6 , 0.07, 0.6 , 0.07]))
    """
    stack: Any = unwrap_vec_wrapper(env, VecFrameStack)
    low, high = observations.low.copy(), observations.high.copy()
    if not stack or observations.is_table or stack.observation_space != observations.space:
        return low, high
    stacked = getattr(stack.stacked_obs, "sub_stacked_observations", {"": stack.stacked_obs})
    for part in observations.parts:
        frame = stacked[part.name].observation_space
        if low[part.columns].size < frame.low.size:  # encoded as components, which have no bounds
            continue
        by_axis = np.ones(len(frame.shape), dtype=np.int64)
        by_axis[stacked[part.name].repeat_axis] = stacked[part.name].n_stack
        low[part.columns] = np.tile(frame.low, by_axis).ravel()
        high[part.columns] = np.tile(frame.high, by_axis).ravel()
    return low, high

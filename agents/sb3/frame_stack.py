"""The bounds of stacked frames."""

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecFrameStack, unwrap_vec_wrapper

from oda_rl.agents.observations import ObservationCodec
from oda_rl.agents.principal_codec import PrincipalCodec


def find_bounds(env: Any, observations: ObservationCodec) -> tuple[NDArray[Any], NDArray[Any]]:
    """The bounds of the numbers of a row, also where frames are stacked.

    SB3's VecFrameStack puts frames one after the other, but in its space every bound `n_stack` times
    before the next: the angle of one frame has the bounds of another one's position.

    Parameters
    ----------
    env : VecEnv or None
        Where the observations come from.
    observations : ObservationCodec
        Of the space of `env`.

    Returns
    -------
    low, high : ndarray of shape (n_features,)

    Examples
    --------
    >>> from stable_baselines3.common.vec_env import DummyVecEnv
    >>> import gymnasium as gym
    >>> env = VecFrameStack(DummyVecEnv([lambda: gym.make("MountainCar-v0")]), 2)
    >>> env.observation_space.high, find_bounds(env, ObservationCodec(env.observation_space))[1]
    (array([0.6 , 0.6 , 0.07, 0.07], dtype=float32), array([0.6 , 0.07, 0.6 , 0.07], dtype=float32))
    """
    stack: Any = unwrap_vec_wrapper(env, VecFrameStack)
    are_numbers = not (observations.is_table or isinstance(observations, PrincipalCodec))
    frame = stack.venv.observation_space if stack and are_numbers else None
    if not isinstance(frame, spaces.Box) or stack.observation_space != observations.space:
        return observations.low, observations.high
    by_axis = np.ones(len(frame.shape), dtype=np.int64)
    by_axis[stack.stacked_obs.repeat_axis] = stack.stacked_obs.n_stack
    return np.tile(frame.low, by_axis).ravel(), np.tile(frame.high, by_axis).ravel()

"""The action spaces that the baselines accept, and the scale of observations."""

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

# Bounds from here on count as infinite; old environments use a large number for infinity
LARGEST = 1e30


def check_discrete_action_space(space: spaces.Space) -> spaces.Discrete:
    """Return the action space if it is Discrete.

    For any other, raises a ValueError that names the space, what is accepted, and the Gymnasium wrapper
    that converts it.
    """
    if isinstance(space, spaces.Discrete):
        return space
    if isinstance(space, spaces.Box):
        advice = "Wrap the environment in gymnasium.wrappers.DiscretizeAction"
    else:
        advice = (
            "Wrap the environment in gymnasium.wrappers.TransformAction with a function from a "
            "Discrete space"
        )
    raise ValueError(f"Action space {space} is not supported; Discrete is accepted. {advice}.")


def natural_scale(seen: NDArray[Any], low: NDArray[Any], high: NDArray[Any]) -> NDArray[np.float64]:
    """Half the range of each coordinate: that of the space, or of the observations if it has no bounds.

    Takes observations (n, n_features) and the bounds (n_features,) of their space. Without bounds it is
    the largest distance from the mean, or two standard deviations if these are larger; it is 0 if the
    coordinate never changed.

    >>> natural_scale(np.array([[0.0, 1.0], [0.0, 5.0]]), np.array([-2, -np.inf]), np.array([2, np.inf]))
    array([2., 4.])
    """
    lower, upper = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    bounded = (np.abs(lower) < LARGEST) & (np.abs(upper) < LARGEST)
    half_range = 0.5 * (np.where(bounded, upper, 0.0) - np.where(bounded, lower, 0.0))
    spread = np.maximum(2.0 * seen.std(axis=0), np.abs(seen - seen.mean(axis=0)).max(axis=0))
    return np.where(bounded, half_range, spread)

"""What counts as a large difference of each coordinate of an observation."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

# Old environments write a large number where they mean infinity.
LARGEST = 1e30


def natural_scale(seen: NDArray[Any], low: NDArray[Any], high: NDArray[Any]) -> NDArray[np.float64]:
    """Half the range of each coordinate: of the space, or of what was seen where that has no bounds.

    Parameters
    ----------
    seen : ndarray of shape (n, n_features)
        Observations.
    low, high : ndarray of shape (n_features,)
        Bounds of the observation space; may be infinite.

    Returns
    -------
    ndarray of shape (n_features,)
        In the units of the observations; 0 for an unbounded coordinate that never moved.

    Examples
    --------
    >>> natural_scale(np.array([[0.0, 1.0], [0.0, 5.0]]), np.array([-2, -np.inf]), np.array([2, np.inf]))
    array([2., 4.])
    """
    lower, upper = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    bounded = (np.abs(lower) < LARGEST) & (np.abs(upper) < LARGEST)
    half_range = 0.5 * (np.where(bounded, upper, 0.0) - np.where(bounded, lower, 0.0))
    spread = np.maximum(2.0 * seen.std(axis=0), np.abs(seen - seen.mean(axis=0)).max(axis=0))
    return np.where(bounded, half_range, spread)

"""Checks of parameters, with messages that name them."""

from math import inf

import numpy as np
from numpy.typing import ArrayLike, NDArray


def check_at_least(lower: int, **values: int) -> None:
    """Raise a ValueError if a whole number is below `lower`."""
    for name, value in values.items():
        if not value >= lower:
            raise ValueError(f"{name} must be at least {lower}, got {value}.")


def check_non_negative(**values: float) -> None:
    """Raise a ValueError if a number is negative, infinite or NaN."""
    for name, value in values.items():
        if not 0.0 <= value < inf:
            raise ValueError(f"{name} must be a non-negative number, got {value}.")


def check_positive(**values: float) -> None:
    """Raise a ValueError if a number is not positive."""
    for name, value in values.items():
        if not value > 0.0:
            raise ValueError(f"{name} must be positive, got {value}.")


def check_scale(scale: ArrayLike, n_features: int) -> NDArray[np.float64]:
    """The scale as an array; raises a ValueError unless it has a positive number for each feature."""
    found = np.array(scale, dtype=np.float64)
    if found.shape != (n_features,) or not np.all(np.isfinite(found) & (found > 0.0)):
        raise ValueError(
            f"scale must be {n_features} positive numbers, one for each feature, got {scale!r}."
        )
    return found

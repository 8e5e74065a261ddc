"""Checks of parameters, with messages that name them."""

from math import inf
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def check_at_least(lower: int, **values: int) -> None:
    """Raise a ValueError if a value is no whole number, or below `lower`."""
    for name, value in values.items():
        if not isinstance(value, Integral):
            raise ValueError(f"{name} must be a whole number, got {value!r}.")
        if value < lower:
            raise ValueError(f"{name} must be at least {lower}, got {value}.")


def whole_number(name: str, value: object, lower: int) -> int:
    """A whole number of any type; raises a ValueError that names it if it isn't one from `lower` on."""
    number: Any = value
    try:
        wrong = isinstance(value, str | bool | bytes) or number != int(number) or number < lower
    except (TypeError, ValueError, OverflowError):
        wrong = True
    if wrong:
        raise ValueError(f"{name} must be a whole number, at least {lower}, got {value!r}.")
    return int(number)


def check_non_negative(**values: float) -> None:
    """Raise a ValueError if a number is negative, infinite or NaN."""
    for name, value in values.items():
        if not isinstance(value, Real) or not 0.0 <= value < inf:
            raise ValueError(f"{name} must be a non-negative number, got {value!r}.")


def check_positive(**values: float) -> None:
    """Raise a ValueError if a number is not positive, infinite or NaN."""
    for name, value in values.items():
        if not isinstance(value, Real) or not 0.0 < value < inf:
            raise ValueError(f"{name} must be positive and finite, got {value!r}.")


def numbers_of(value: ArrayLike, name: str) -> NDArray[np.float64]:
    """An array of numbers, a copy; raises a ValueError with the name for anything else."""
    try:
        return np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be an array of numbers, got {value!r}.") from error


def check_scale(scale: ArrayLike, n_features: int) -> NDArray[np.float64]:
    """The scale as an array; raises a ValueError unless it has a positive number for each feature."""
    found = numbers_of(scale, "scale")
    if found.shape != (n_features,) or not np.all(np.isfinite(found) & (found > 0.0)):
        raise ValueError(
            f"scale must be {n_features} positive numbers, one for each feature, got {scale!r}."
        )
    return found

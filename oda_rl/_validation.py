"""Checks of parameters, with messages that name them."""

import warnings
from collections.abc import Mapping
from math import inf
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Where deviations of features differ by more, those of the smaller ones count for nothing.
UNLIKE, N_COMPARED = 1e6, 1000
RESCALE = "rescale the features, as with sklearn.preprocessing.StandardScaler"
# No number of the data may be larger: products of variances are still finite.
LARGEST = 1e75
OF_DATA = f"[{-LARGEST}, {LARGEST}]"  # as a schema has it
# A feature that varies by less counts as constant: others, counted in it, would become too large.
SMALLEST_DEVIATION = 1e-60
# The same for one that varies by no more than this part of its size.
CONSTANT = 1e-12
# Weights are within these; lighter samples count as absent.
LEAST_WEIGHT, MOST_WEIGHT = 1e-30, 1e30


def check_at_least(lower: int, **values: int) -> None:
    """Raise a ValueError if a value is no whole number, or below `lower`."""
    for name, value in values.items():
        if not isinstance(value, Integral) or isinstance(value, bool):
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


def check_size(values: NDArray[np.float64], name: str) -> None:
    """Raise a ValueError that names the first value that is NaN, infinite or beyond `LARGEST`.

    `values` are a column, or rows of several.
    """
    right = np.abs(values) <= LARGEST
    if not right.all():
        place = tuple(np.argwhere(~right)[0].tolist())
        value = values[place]
        where = f"column {place[1]} is {value} in row {place[0]}" if len(place) > 1 else f"{value}"
        what = f"numbers beyond {LARGEST:g}" if np.isfinite(value) else "NaN or infinity"
        accepted = "rescale them" if np.isfinite(value) else "all values must be finite"
        if np.isnan(value):
            accepted += " (sklearn.impute.SimpleImputer fills in what is missing)"
        raise ValueError(f"{name} contains {what}: {where}; {accepted}.")


def check_weights(weight: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which samples (n,) have a weight; raises a ValueError if one has too much, or none has any."""
    if not (weight <= MOST_WEIGHT).all():
        raise ValueError(f"sample_weight must be at most {MOST_WEIGHT:g}, got {weight.max()}.")
    used = weight >= LEAST_WEIGHT
    if not used.any():
        raise ValueError("sample_weight must be positive for at least one sample.")
    return used


def check_class_weight(class_weight: Any) -> None:
    """Refuse weights that are no weights, or those of samples that had better be left out."""
    for name, weight in class_weight.items() if isinstance(class_weight, Mapping) else ():
        is_number = isinstance(weight, Real) and not isinstance(weight, bool | np.bool_)
        if not is_number or not LEAST_WEIGHT <= weight <= MOST_WEIGHT:
            raise ValueError(
                f"class_weight must have numbers from {LEAST_WEIGHT:g} to {MOST_WEIGHT:g}, got "
                f"{weight!r} for the class {name!r}; sample_weight=0 leaves samples out."
            )


def warn_of_scales(samples: NDArray[np.float64], remedy: str) -> None:
    """Warn where features of samples (n, n_features) differ too much in scale for a common distance."""
    deviation = samples[:N_COMPARED].std(axis=0)
    varying = np.flatnonzero(deviation > 0.0)
    if len(varying) < 2:
        return
    least, most = varying[deviation[varying].argmin()], varying[deviation.argmax() == varying][0]
    if deviation[most] > UNLIKE * deviation[least]:
        warnings.warn(
            f"feature {most} varies by {deviation[most]:.2g} and feature {least} by "
            f"{deviation[least]:.2g}, which counts for nothing beside it: {remedy}.",
            UserWarning,
            stacklevel=4,
        )


def numbers_of(value: ArrayLike, name: str) -> NDArray[np.float64]:
    """An array of numbers, a copy; raises a ValueError with the name for anything else."""
    try:
        return np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be an array of numbers, got {value!r}.") from error


def check_scale(scale: ArrayLike, n_features: int) -> NDArray[np.float64]:
    """The scale as an array; raises a ValueError unless it has a positive number for each feature."""
    found = numbers_of(scale, "scale")
    right = np.isfinite(found) & (found >= SMALLEST_DEVIATION)
    if found.shape != (n_features,) or not np.all(right):
        raise ValueError(
            f"scale must be {n_features} positive numbers, one for each feature, from "
            f"{SMALLEST_DEVIATION:g} on, got {scale!r}."
        )
    return found

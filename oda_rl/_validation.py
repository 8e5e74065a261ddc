"""Checks of parameters and data, with messages that name them."""

import warnings
from collections.abc import Mapping
from math import inf
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oda_rl._types import Array, Labels

# If standard deviations of features differ by a larger ratio, the smaller ones have no influence.
# The deviations are those of the first N_COMPARED samples.
UNLIKE, N_COMPARED = 1e6, 1000
# The largest absolute value of data, so that products of variances are still finite.
LARGEST = 1e75
OF_DATA = f"[{-LARGEST}, {LARGEST}]"  # the interval for schemas
# A feature with a smaller standard deviation counts as constant: dividing by it could overflow.
SMALLEST_DEVIATION = 1e-60
# So does a feature that varies by no more than this part of its magnitude.
CONSTANT = 1e-12
# Bounds of sample weights; lighter samples are ignored.
LEAST_WEIGHT, MOST_WEIGHT = 1e-30, 1e30


def check_at_least(lower: int, **values: int) -> None:
    """Raise a ValueError if a value is not an integer, or below `lower`."""
    for name, value in values.items():
        if not isinstance(value, Integral) or isinstance(value, bool):
            raise ValueError(f"{name} must be an integer, got {value!r}.")
        if value < lower:
            raise ValueError(f"{name} must be at least {lower}, got {value}.")


def whole_number(name: str, value: object, lower: int) -> int:
    """Convert a whole number of any type to int; raises a ValueError if it is none, or below `lower`."""
    number: Any = value
    try:
        wrong = isinstance(value, str | bool | bytes) or number != int(number) or number < lower
    except (TypeError, ValueError, OverflowError):
        wrong = True
    if wrong:
        raise ValueError(f"{name} must be an integer of at least {lower}, got {value!r}.")
    return int(number)


def whole_or_none(name: str, value: object, lower: int) -> int | None:
    """As `whole_number`, and None for None."""
    return None if value is None else whole_number(name, value, lower)


def plain(value: Any) -> Any:
    """Convert a number of any type, such as NumPy's, to bool, int or float; others are unchanged."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else value


def check_non_negative(**values: float) -> None:
    """Raise a ValueError if a number is negative, infinite or NaN."""
    for name, value in values.items():
        if not isinstance(value, Real) or isinstance(value, bool) or not 0.0 <= value < inf:
            raise ValueError(f"{name} must be a non-negative and finite number, got {value!r}.")


def check_flag(**values: bool) -> None:
    """Raise a ValueError if a value is not True or False."""
    for name, value in values.items():
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"{name} must be True or False, got {value!r}.")


def check_positive(**values: float) -> None:
    """Raise a ValueError if a number is not positive, infinite or NaN."""
    for name, value in values.items():
        if not isinstance(value, Real) or not 0.0 < value < inf:
            raise ValueError(f"{name} must be a positive and finite number, got {value!r}.")


def check_size(values: Array, name: str) -> None:
    """Raise a ValueError that names the first value that is NaN, infinite or beyond `LARGEST`.

    `values` are of shape (n,) or (n, n_columns).
    """
    right = np.abs(values) <= LARGEST
    if not right.all():
        place = tuple(np.argwhere(~right)[0].tolist())
        value = values[place]
        where = f"column {place[1]} is {value} in row {place[0]}" if len(place) > 1 else f"{value}"
        what = f"numbers beyond {LARGEST:g}" if np.isfinite(value) else "NaN or infinity"
        accepted = "rescale them" if np.isfinite(value) else "all values must be finite"
        if np.isnan(value):
            accepted += " (sklearn.impute.SimpleImputer fills in missing values)"
        raise ValueError(f"{name} contains {what}: {where}; {accepted}.")


def targets_of(y: Any, n: int, n_outputs: int = 1) -> NDArray[Any]:
    """Classes or outputs of n samples as an array, (n,), or (n, n_outputs) if there are several.

    A column (n, 1) becomes a vector. Raises a ValueError if y has another shape.
    """
    targets, several = np.asarray(y), (n, n_outputs)
    if targets.shape == several:
        return targets[:, 0] if n_outputs == 1 else targets
    if targets.shape != (n,):
        more = f" or {several}" if n_outputs > 1 else ""
        raise ValueError(f"y must have shape ({n},){more}, one for each sample; got {targets.shape}.")
    return targets


def check_kind(found: NDArray[Any], targets: str) -> None:
    """Raise a ValueError for outputs that are not numbers, or classes that files cannot store."""
    if targets == "outputs" and found.dtype.kind not in "biuf":
        raise ValueError(
            f"y must be numbers, got an array of {found.dtype}; convert it with y.astype(float)."
        )
    if targets == "classes" and kind_of_classes(found) is None:
        accepted = "only numbers or only strings, for example y.astype(str)"
        # same beginning as scikit-learn's message
        what = f"Unknown label type: y must be classes that are {accepted}"
        raise ValueError(f"{what}, got an array of {found.dtype}.")


def kind_of_classes(found: NDArray[Any]) -> str | None:
    """Whether classes are "numbers" or "texts"; None for others, which model files cannot store."""
    if found.dtype.kind in "biuf":
        return "numbers"
    is_text = found.dtype.kind == "U" or (
        found.dtype.kind == "O" and all(isinstance(label, str) for label in found.flat)
    )
    return "texts" if is_text else None


def check_weights(weight: Array) -> NDArray[np.bool_]:
    """Which samples (n,) are used; raises a ValueError if a weight is too large, or none is used."""
    if not (weight <= MOST_WEIGHT).all():
        raise ValueError(f"sample_weight must be at most {MOST_WEIGHT:g}, got {weight.max()}.")
    used = weight >= LEAST_WEIGHT
    if not used.any():
        raise ValueError("sample_weight must be positive for at least one sample.")
    return used


def check_class_weight(class_weight: Any) -> None:
    """Raise a ValueError if the weight of a class is not a number in the range of sample weights."""
    for name, weight in class_weight.items() if isinstance(class_weight, Mapping) else ():
        is_number = isinstance(weight, Real) and not isinstance(weight, bool | np.bool_)
        if not is_number or not LEAST_WEIGHT <= weight <= MOST_WEIGHT:
            raise ValueError(
                f"class_weight must have numbers from {LEAST_WEIGHT:g} to {MOST_WEIGHT:g}, got "
                f"{weight!r} for the class {name!r}; use sample_weight=0 to exclude samples."
            )


def warn_of_scales(samples: Array) -> None:
    """Warn if features of samples (n, n_features) differ too much in scale for a common distance."""
    deviation = samples[:N_COMPARED].std(axis=0)
    varying = np.flatnonzero(deviation > 0.0)
    if len(varying) < 2:
        return
    least, most = varying[deviation[varying].argmin()], varying[deviation.argmax() == varying][0]
    if deviation[most] > UNLIKE * deviation[least]:
        warnings.warn(
            f"feature {most} has a standard deviation of {deviation[most]:.2g}, and feature {least} "
            f"one of {deviation[least]:.2g}, too small to have any influence: rescale the features, for "
            "example with sklearn.preprocessing.StandardScaler.",
            UserWarning,
            stacklevel=4,
        )


def numbers_of(value: ArrayLike, name: str) -> Array:
    """Copy an array of numbers; raises a ValueError with the name for anything else."""
    try:
        return np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be an array of numbers, got {value!r}.") from error


def check_scale(scale: ArrayLike, n_features: int) -> Array:
    """The scale as an array; raises a ValueError unless it has a positive number for each feature."""
    found = numbers_of(scale, "scale")
    right = np.isfinite(found) & (found >= SMALLEST_DEVIATION)
    if found.shape != (n_features,) or not np.all(right):
        raise ValueError(
            f"scale must be {n_features} finite numbers of at least {SMALLEST_DEVIATION:g}, one for "
            f"each feature, got {scale!r}."
        )
    return found


class Observed(NamedTuple):
    """Samples for an annealer, validated so that compiled code can read them without bounds checks.

    These are samples (n, n_features), targets (n, n_outputs) or None, labels and weights (n,).
    """

    samples: Array
    targets: Array | None
    labels: Labels
    weight: Array

    @classmethod
    def of(cls, n_features: int, samples: Any, labels: Any, weight: Any, targets: Any) -> "Observed":
        """Convert arguments to arrays for kernels, without copies if possible.

        Raises a ValueError for anything that cannot be converted or has the wrong shape.
        """
        rows = _array("samples", samples, np.float64, 2)
        if rows.shape[1] != n_features:
            raise ValueError(f"samples must have {n_features} features, got shape {rows.shape}.")
        n = len(rows)
        kinds = np.zeros(n, dtype=np.int64) if labels is None else _array("labels", labels, np.int64, 1)
        heavy = np.ones(n) if weight is None else _array("sample_weight", weight, np.float64, 1)
        outputs = None if targets is None else _array("targets", targets, np.float64, 2)
        beside = {"labels": kinds, "sample_weight": heavy, "targets": outputs}
        for name, found in beside.items():
            if found is not None and len(found) != n:
                raise ValueError(
                    f"{name} must have one entry for each of {n} samples, got {len(found)}."
                )
        return cls(rows, outputs, kinds, heavy)

    def after(self, start: int) -> "Observed":
        """The samples from index `start` on."""
        samples, targets, labels, weight = self
        left = None if targets is None else targets[start:]
        return Observed(samples[start:], left, labels[start:], weight[start:])


def _array(name: str, given: Any, dtype: type, dimensions: int) -> NDArray[Any]:
    """Convert to a C-contiguous array of a dtype, without a copy if possible; check its dimensions."""
    try:
        found = np.asarray(given)
        if found.dtype != dtype:
            found = found.astype(dtype, casting="same_kind")
        found = np.ascontiguousarray(found)
    except (TypeError, ValueError) as error:
        what = "integers" if dtype is np.int64 else "numbers"
        raise ValueError(f"{name} must be an array of {what}: {error}.") from error
    if found.ndim != dimensions:
        raise ValueError(f"{name} must have {dimensions} dimensions, got shape {found.shape}.")
    return found

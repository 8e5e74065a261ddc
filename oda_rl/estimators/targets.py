"""Samples with targets and weights, and their validation."""

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, validate_data

from oda_rl._archive import compressed, decompressed
from oda_rl._statistics import variances
from oda_rl._types import Array, Labels
from oda_rl._validation import OF_DATA, check_kind, check_size, check_weights
from oda_rl.codebook.divergences import SMALLEST_SQUARE, Divergence

# How far predictions may exceed the range of the outputs seen, as a part of that range.
MARGIN = 0.1
# The type of arrays that kernels read.
FLOAT = np.dtype(np.float64)


def data_schema(kind: str, n: str = "waiting") -> dict[str, str]:
    """Schema of n `Data` with d features, for a "classifier", "regressor" or "clusterer"."""
    return {
        "samples": f"float[{n}, d] in {OF_DATA}",
        "targets": f"float[{n}, m]" if kind == "regressor" else f"int[{n}] in [0, C)",
        "weight": f"float[{n}] in [0, inf)",
    }


class Data(NamedTuple):
    """Samples (n, n_features), their targets (n,) or (n, n_outputs), and their weights (n,)."""

    samples: Array
    targets: NDArray[Any]
    weight: Array

    def take(self, rows: Any) -> "Data":
        """Select some of the samples."""
        return Data(self.samples[rows], self.targets[rows], self.weight[rows])

    def joined(self, other: "Data") -> "Data":
        """These samples followed by others."""
        return Data.of([self, other])

    @classmethod
    def of(cls, parts: "list[Data]") -> "Data":
        """Concatenate several parts."""
        return cls(*(np.concatenate(found) for found in zip(*parts, strict=True)))


class Latest:
    """A buffer of at most the `n` latest samples of a stream."""

    def __init__(self, n: int) -> None:
        self.n, self.held = n, 0
        self._data: Data | None = None  # arrays with spare capacity

    def add(self, data: Data) -> None:
        """Append the next samples; they are copied."""
        data = data.take(slice(-self.n, None))
        stop = self.held + len(data.weight)
        if self._data is None or stop > len(self._data.weight):
            self._make_space(data)
            stop = self.held + len(data.weight)
        assert self._data is not None
        for own, new in zip(self._data, data, strict=True):
            own[self.held : stop] = new
        self.held = stop

    def add_few(self, samples: Array, targets: NDArray[Any]) -> None:
        """Append a few samples of weight one, faster than with `add`."""
        data, stop = self._data, self.held + len(samples)
        if data is None or stop > len(data.weight):
            self.add(Data(samples, targets, np.ones(len(samples))))
            return
        place: Any = slice(self.held, stop)
        own: Any = targets
        if stop == self.held + 1:  # an index is faster than a slice
            place, own = self.held, targets[0]
        data.samples[place], data.targets[place], data.weight[place] = samples, own, 1.0
        self.held = stop

    def last(self, n: int, unit: float = 1.0) -> Any:
        """Copies of the last n samples, or of all if there are fewer; None if none was ever added.

        Their weights are divided by `unit`.
        """
        if self._data is None:
            return None
        start = max(0, self.held - min(n, self.n))
        found = Data(*(part[start : self.held].copy() for part in self._data))
        return found._replace(weight=found.weight / unit)

    def insert_classes(self, places: list[int]) -> None:
        """Renumber the targets after new classes got these numbers, in ascending order."""
        for place in places:
            if self._data is not None:
                self._data = self._data._replace(targets=make_place(self._data.targets, place))

    def _make_space(self, data: Data) -> None:
        """Drop all but the last n samples, and reallocate with spare capacity for `data`."""
        old = self.last(self.n)
        self.held = 0 if old is None else len(old.weight)
        capacity = min(2 * self.n, 2 * (self.held + len(data.weight)))
        self._data = Data(*(np.empty((capacity, *part.shape[1:]), part.dtype) for part in data))
        if old is not None:
            for own, part in zip(self._data, old, strict=True):
                own[: self.held] = part

    def __getstate__(self) -> dict[str, Any]:
        recent = self.last(self.n)
        return {"n": self.n, "parts": None if recent is None else [compressed(part) for part in recent]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.n, self.held, self._data = state["n"], 0, None
        if state["parts"] is not None:
            self.add(Data(*(decompressed(part) for part in state["parts"])))


class OutputUnits(NamedTuple):
    """Means and standard deviations (n_outputs,) of outputs; `flat` if y was one-dimensional."""

    mean: Array
    deviation: Array
    flat: bool

    @classmethod
    def of(cls, data: Data, flat: bool) -> "OutputUnits":
        """Compute the units from samples; constant outputs get a deviation of one."""
        mean = np.average(data.targets, axis=0, weights=data.weight)
        variance = variances(data.targets, data.weight)
        small = variance <= np.maximum(SMALLEST_SQUARE, 1e-24 * mean**2)
        return cls(mean, np.where(small, 1.0, np.sqrt(variance)), flat)

    def __call__(self, data: Data) -> Data:
        """Standardise the outputs of the data."""
        return data._replace(targets=(data.targets - self.mean) / self.deviation)

    def back(self, outputs: Array) -> Array:
        """Convert standardised outputs to the original units and shape."""
        found = outputs * self.deviation + self.mean
        return found[:, 0] if self.flat else found

    @property
    def squared(self) -> float:
        """The unit of squared errors: the variance of a single output; 1 for several outputs."""
        return float(self.deviation[0] ** 2) if len(self.deviation) == 1 else 1.0


def within_reach(outputs: Array, low: Array, high: Array) -> Array:
    """Clip predictions (n_samples, n_outputs) to the range of outputs seen, extended by `MARGIN`."""
    margin = MARGIN * (high - low)
    return np.clip(outputs, low - margin, high + margin)


def check_samples(estimator: Any, divergence: Divergence, X: ArrayLike, *, reset: bool) -> Array:
    """Validated samples (n_samples, n_features) that kernels can read: C-contiguous, float64, writeable.

    With `reset`, learning starts from scratch and the estimator's `n_features_in_` is set; otherwise X
    must have that number of features. X is never changed. Raises a ValueError if X is not a matrix of
    finite numbers in the domain of the divergence, or has another number of features.
    """
    if not reset and are_plain(estimator, divergence, X):
        return X  # type: ignore[return-value]
    if not reset and _is_as_before(estimator, X):
        return _readable(np.asarray(X), divergence)
    # The divergence's own check finds NaN; scikit-learn's checks take longer than a small codebook.
    options: dict[str, Any] = (
        {"skip_check_array": True} if _is_plain(X) else {"dtype": np.float64, "order": "C"}
    )
    return _readable(validate_data(estimator, X, reset=reset, **options), divergence)


def check_data(
    estimator: Any,
    divergence: Divergence,
    X: ArrayLike,
    y: ArrayLike | None,
    sample_weight: ArrayLike | None,
    *,
    reset: bool,
    targets: Literal["classes", "outputs", "none"] = "classes",
) -> Data:
    """Validated samples with their targets and weights; samples of weight zero are left out.

    X is checked as by `check_samples`. `targets` is the kind of y: "classes", numeric "outputs", or
    "none", for which the targets are zeros. Also raises a ValueError if y is missing, has the wrong
    length or kind, or if no weight is positive.
    """
    if targets == "none":
        samples = check_samples(estimator, divergence, X, reset=reset)
        found: NDArray[Any] = np.zeros(len(samples), dtype=np.int64)
    elif targets == "classes" and isinstance(y, np.ndarray) and y.ndim == 1 and y.dtype.kind in "biuU":
        samples, found = check_samples(estimator, divergence, X, reset=reset), y
        if len(y) != len(samples):  # integers and texts need no other check
            check_consistent_length(samples, y)
    elif targets == "outputs" and not reset and _is_as_before(estimator, X) and _is_plain(y, (1, 2)):
        samples, found = check_samples(estimator, divergence, X, reset=reset), np.asarray(y)
        if len(found) != len(samples):
            check_consistent_length(samples, found)
        check_size(found, "y")
    else:
        samples, found = _check_fully(estimator, divergence, X, y, reset, targets)
    if sample_weight is None:
        return Data(samples, found, np.ones(len(samples)))
    weight = _check_sample_weight(
        sample_weight, samples, dtype=np.float64, ensure_non_negative=True, copy=True
    )
    used = check_weights(weight)
    data = Data(samples, found, weight)
    return data if used.all() else data.take(used)


def _check_fully(
    estimator: Any, divergence: Divergence, X: ArrayLike, y: Any, reset: bool, targets: str
) -> tuple[Array, NDArray[Any]]:
    """Samples with their classes or outputs, by all checks of scikit-learn."""
    options: dict[str, Any] = {"reset": reset, "dtype": np.float64, "order": "C"}
    if targets == "outputs":
        options |= {"multi_output": True, "y_numeric": True}
    checked: Any = validate_data(estimator, X, y, **options)
    samples, found = _readable(checked[0], divergence), np.asarray(checked[1])
    check_kind(found, targets)
    if targets == "classes":
        check_classification_targets(found)
    else:
        found = found.astype(np.float64, copy=False)
        check_size(found, "y")
    return samples, found


def are_plain(estimator: Any, divergence: Divergence, X: Any, n: int = 1) -> bool:
    """Whether X is a plain array of n samples in the domain, which needs no further checks."""
    told = estimator.__dict__
    if type(X) is not np.ndarray or X.shape != (n, told.get("n_features_in_")):
        return False
    flags = X.flags
    return (
        X.dtype == FLOAT
        and flags.c_contiguous
        and flags.writeable
        and "feature_names_in_" not in told
        and divergence.contains(X)
    )


def make_place(labels: Labels, place: int) -> Labels:
    """Renumber classes after a new class has got the number `place`."""
    return labels + (labels >= place)


def _readable(samples: Array, divergence: Divergence) -> Array:
    # Numba would compile everything a second time for read-only arrays.
    own = samples if samples.flags.writeable else samples.copy()
    if not divergence.contains(own):
        divergence.check(own)  # raises an error with the place and the value
    return own


def _is_as_before(estimator: Any, X: Any) -> bool:
    """Whether X is plain and has the features of the training data, which had no feature names."""
    return (
        _is_plain(X)
        and X.shape[1] == estimator.__dict__.get("n_features_in_")
        and "feature_names_in_" not in estimator.__dict__
    )


def _is_plain(X: ArrayLike | None, dimensions: tuple[int, ...] = (2,)) -> bool:
    """Whether X is already an array that kernels can read."""
    return (
        type(X) is np.ndarray
        and X.dtype == np.float64
        and X.ndim in dimensions
        and X.flags.c_contiguous
        and X.size > 0
    )

"""Samples for an annealer, validated so that compiled code can read them without bounds checks."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oda_rl._types import Array, Labels


class Observed(NamedTuple):
    """Samples (n, n_features), targets (n, n_outputs) or None, labels and weights (n,)."""

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
            raise ValueError(f"samples must have {n_features} features, got the shape {rows.shape}.")
        n = len(rows)
        kinds = np.zeros(n, dtype=np.int64) if labels is None else _array("labels", labels, np.int64, 1)
        heavy = np.ones(n) if weight is None else _array("sample_weight", weight, np.float64, 1)
        outputs = None if targets is None else _array("targets", targets, np.float64, 2)
        beside = {"labels": kinds, "sample_weight": heavy, "targets": outputs}
        for name, found in beside.items():
            if found is not None and len(found) != n:
                raise ValueError(f"{name} must be one for each of {n} samples, got {len(found)}.")
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
        what = "whole numbers" if dtype is np.int64 else "numbers"
        raise ValueError(f"{name} must be an array of {what}: {error}.") from error
    if found.ndim != dimensions:
        raise ValueError(f"{name} must have {dimensions} dimensions, got the shape {found.shape}.")
    return found

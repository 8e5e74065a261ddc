"""Moments and quantiles of samples with weights; of equal ones to the last bit as without any."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from oda_rl._types import Array

Method = Literal["linear", "inverted_cdf"]


def variances(values: Array, weight: Array) -> Array:
    """Variances (n_features,) of values (n_samples, n_features)."""
    mean = np.average(values, axis=0, weights=weight)
    return np.asarray(np.average((values - mean) ** 2, axis=0, weights=weight))


def quantiles(values: Array, at: ArrayLike, weight: Array, method: Method = "linear") -> Array:
    """Quantiles `at` parts of values (n_samples, ...) along the first axis.

    The `method`, as of NumPy, is for equal weights; of others they are values below which there is that
    part of the weight. The first and the last are then no further out than those of equal weights were,
    each with half of its part beyond it: any outlier that weighs next to nothing would be outermost.
    """
    parts: Array = np.asarray(at, dtype=np.float64)
    if (weight == weight[0]).all():
        return np.asarray(np.quantile(values, parts, axis=0, method=method))
    half = 0.5 / len(weight)
    parts = np.clip(parts, half, 1.0 - half)
    return np.asarray(np.quantile(values, parts, axis=0, weights=weight, method="inverted_cdf"))


def standardised(samples: Array, weight: Array) -> Array:
    """Samples (n_samples, n_features) in standard deviations from their mean; zeros of constants."""
    mean, deviation = weight @ samples / weight.sum(), np.sqrt(variances(samples, weight))
    return np.asarray((samples - mean) / np.where(deviation > 0.0, deviation, 1.0))

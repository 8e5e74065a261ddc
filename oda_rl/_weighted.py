"""Moments and quantiles of weighted samples; with equal weights, quantiles equal NumPy's bit for bit."""

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
    """Quantiles of values (n_samples, ...) along the first axis, at the probabilities `at`.

    `method` is that of NumPy, and used for equal weights only; for others it is "inverted_cdf". Then
    probabilities are clipped to 0.5 / n_samples from 0 and 1: else an outlier of hardly any weight would
    be the first or last quantile.
    """
    parts: Array = np.asarray(at, dtype=np.float64)
    if (weight == weight[0]).all():
        return np.asarray(np.quantile(values, parts, axis=0, method=method))
    half = 0.5 / len(weight)
    parts = np.clip(parts, half, 1.0 - half)
    return np.asarray(np.quantile(values, parts, axis=0, weights=weight, method="inverted_cdf"))


def standardised(samples: Array, weight: Array) -> Array:
    """Standardise samples (n_samples, n_features); constant features become zeros."""
    mean, deviation = weight @ samples / weight.sum(), np.sqrt(variances(samples, weight))
    return np.asarray((samples - mean) / np.where(deviation > 0.0, deviation, 1.0))

# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Weighted moments and quantiles of features, and their normal scores by ranks.

With equal weights, quantiles equal NumPy's bit for bit. Ranks are robust to skewness and outliers.
"""

import math
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from oda_rl._jit import kernel, lean_kernel
from oda_rl._schema import Sizes, expect
from oda_rl._types import Array

Method = Literal["linear", "inverted_cdf"]
# The largest number of quantiles that define a map, and the absolute value at which scores are clipped.
KNOTS, LIMIT = 200, 3.0
# Slopes of the map are differences between scores this far apart.
APART = 0.2
# A feature has long tails if the range of its inner 99 % is more than LONG times that of its inner half
# (3.8 times for a normal, 4.8 for an exponential), and if it has more than FEW different values.
LONG, FEW = 6.0, 20
# Samples of the least weights count as parts of a sample if together they have less than this part of
# the weight. (In bootstraps all samples count, as those drawn once have more than a third of it.)
LIGHT = 0.1
# Values are equal up to this part of the range of a feature, and repeated if they occur so many times.
EQUAL, REPEATED = 1e-9, 2


def variances(values: Array, weight: Array) -> Array:
    """Variances (n_features,) of values (n_samples, n_features)."""
    mean = np.average(values, axis=0, weights=weight)
    return np.asarray(np.average((values - mean) ** 2, axis=0, weights=weight))


def gaps_of_repeated(samples: Array) -> Array:
    """The least gap between repeated values of each feature (n_features,), if most are; else zero."""
    found = np.zeros(samples.shape[1])
    for j, values in enumerate(np.sort(samples, axis=0).T):
        is_new = np.diff(values, prepend=-np.inf) > EQUAL * (values[-1] - values[0])
        first = np.flatnonzero(is_new)
        counts = np.diff(first, append=len(values))
        repeated = counts >= REPEATED
        if repeated.sum() > 1 and 2 * counts[repeated].sum() > len(values):
            found[j] = np.diff(values[first[repeated]]).min()
    return found


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


def whole_weight(weight: Array) -> float:
    """The weight from which on a sample counts as one; of equal weights it is each of them.

    A sample of less weight counts as a part of one. Such samples have less than `LIGHT` of all weight.
    """
    rising = np.sort(weight)
    total = np.cumsum(rising)
    return float(rising[np.searchsorted(total, LIGHT * total[-1])])


def standardised(samples: Array, weight: Array) -> Array:
    """Standardise samples (n_samples, n_features); constant features become zeros."""
    mean, deviation = weight @ samples / weight.sum(), np.sqrt(variances(samples, weight))
    return np.asarray((samples - mean) / np.where(deviation > 0.0, deviation, 1.0))


@kernel
def normal_scores(samples, knots, scores, out):
    """Fill `out` (n_samples, n_features) with the normal scores of the samples.

    `knots` (n_knots, n_features) are quantiles in rising order, with `scores` (n_knots,). Between two
    knots the score is interpolated. At several equal knots it is the mean of the first and last score.
    """
    last = knots.shape[0] - 1
    for j in range(samples.shape[1]):
        column = knots[:, j]
        for t in range(samples.shape[0]):
            x = samples[t, j]
            low = np.searchsorted(column, x)
            high = np.searchsorted(column, x, side="right") - 1
            if low > last:
                out[t, j] = scores[last]
            elif high < 0:
                out[t, j] = scores[0]
            elif low <= high:
                out[t, j] = 0.5 * (scores[low] + scores[high])
            else:
                part = (x - column[high]) / (column[low] - column[high])
                out[t, j] = scores[high] + part * (scores[low] - scores[high])


@cache
def _scores_of(n_knots: int) -> Array:
    return np.clip(ndtri(np.linspace(0.0, 1.0, n_knots)), -LIMIT, LIMIT)


@lean_kernel
def fill_softmax(scores, out):
    """Fill `out` (n_classes,) with the softmax of scores; it may be `scores` itself.

    Returns the largest score, and the sum of the exponentials of the differences from it.
    """
    top, total = scores[0], 0.0
    for c in range(1, scores.shape[0]):
        top = max(top, scores[c])
    for c in range(scores.shape[0]):
        out[c] = math.exp(scores[c] - top)
        total += out[c]
    for c in range(scores.shape[0]):
        out[c] /= total
    return top, total


@kernel
def fill_log_softmax(scores, floor, out):
    """Fill `out` (n_samples, n_classes) with `log_softmax`; it may be `scores` itself."""
    n_classes = scores.shape[1]
    for t in range(scores.shape[0]):
        top, total = -np.inf, 0.0
        for c in range(n_classes):
            top = max(top, scores[t, c])
        if top == -np.inf:
            out[t] = -math.log(n_classes)
            continue
        for c in range(n_classes):
            total += math.exp(scores[t, c] - top)
        size = math.log(total)
        for c in range(n_classes):
            out[t, c] = max(scores[t, c] - top - size, floor)


def log_softmax(scores: Array, floor: float = -np.inf) -> Array:
    """Logarithms of the softmax of each row of scores (n_samples, n_classes), at least `floor`.

    All are equal if all scores are -infinity. SciPy's function takes ten times as long for one row.
    """
    out = np.empty(scores.shape)
    fill_log_softmax(scores, floor, out)
    return out


class Ranks(NamedTuple):
    """The map of features to normal scores, defined by quantiles: `knots` (n_knots, n_features)."""

    knots: Array

    @classmethod
    def of(cls, samples: Array, n_knots: int | None = None, weight: Array | None = None) -> "Ranks":
        """Fit the map to samples; knots are some of their values, so that equal values share a score."""
        weight = np.ones(len(samples)) if weight is None else weight
        at = np.linspace(0.0, 1.0, n_knots or min(KNOTS, max(2, len(samples))))
        return cls(np.ascontiguousarray(quantiles(samples, at, weight, "inverted_cdf")))

    @property
    def scores(self) -> Array:
        """The normal scores (n_knots,) of the knots."""
        return _scores_of(len(self.knots))

    def __call__(self, samples: Array) -> Array:
        """Normal scores of samples (n_samples, n_features), from -LIMIT to LIMIT."""
        out = np.empty_like(samples)
        normal_scores(samples, self.knots, self.scores, out)
        return out

    def inverse(self, scores: Array) -> Array:
        """The inverse map: features at scores (n_samples, n_features), interpolated between knots."""
        known, columns = self.scores, zip(scores.T, self.knots.T, strict=True)
        return np.stack([np.interp(own, known, knots) for own, knots in columns], axis=1)

    def slopes(self, scores: Array) -> Array:
        """Derivatives of the scores by the features, (n_samples, n_features); 0 where scores jump."""
        above, below = (np.clip(scores + step, -LIMIT, LIMIT) for step in (0.5 * APART, -0.5 * APART))
        change = self.inverse(above) - self.inverse(below)
        return np.divide(above - below, change, out=np.zeros_like(scores), where=change > 0.0)


def are_rising(knots: Any, sizes: Sizes, place: str = "", what: str = "quantiles") -> None:
    """A rule for knots (n_knots, ...) from a file: each column is sorted."""
    expect(np.all(np.diff(knots, axis=0) >= 0.0), place, "is not sorted", f"{what} in ascending order")


def have_tails(samples: Array, weight: Array) -> bool:
    """Whether any feature of samples (n_samples, n_features) has such tails that ranks may help."""
    low, left, right, high = quantiles(samples, [0.005, 0.25, 0.75, 0.995], weight)
    long = high - low > LONG * (right - left)
    return any(len(np.unique(samples[:, j])) > FEW for j in np.flatnonzero(long))


def is_clear(gains: Array, z: float = 1.0) -> bool:
    """Whether the mean of `gains` (n,) is more than `z` standard errors above zero."""
    return bool(gains.mean() > z * gains.std() / np.sqrt(len(gains)))

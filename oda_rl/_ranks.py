# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Map features to normal scores by their ranks, which is robust to skewness and outliers."""

from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm

from oda_rl._jit import kernel
from oda_rl._schema import Sizes, expect
from oda_rl._types import Array
from oda_rl._weighted import quantiles

# The largest number of quantiles that define a map, and the absolute value at which scores are clipped.
KNOTS, LIMIT = 200, 3.0
# Slopes of the map are differences between scores this far apart.
APART = 0.2
# A feature has long tails if the range of its inner 99 % is more than LONG times that of its inner half
# (3.8 times for a normal, 4.8 for an exponential), and if it has more than FEW different values.
LONG, FEW = 6.0, 20


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
    def _scores(self) -> Array:
        with np.errstate(divide="ignore"):
            return np.clip(norm.ppf(np.linspace(0.0, 1.0, len(self.knots))), -LIMIT, LIMIT)

    def __call__(self, samples: Array) -> Array:
        """Normal scores of samples (n_samples, n_features), from -LIMIT to LIMIT."""
        out = np.empty_like(samples)
        normal_scores(samples, self.knots, self._scores, out)
        return out

    def back(self, scores: Array) -> Array:
        """The inverse map: features at scores (n_samples, n_features), interpolated between knots."""
        known = self._scores
        found = [np.interp(own, known, knots) for own, knots in zip(scores.T, self.knots.T, strict=True)]
        return np.stack(found, axis=1)

    def slopes(self, scores: Array) -> Array:
        """Derivatives of the scores by the features, (n_samples, n_features); 0 where scores jump."""
        above, below = (np.clip(scores + step, -LIMIT, LIMIT) for step in (0.5 * APART, -0.5 * APART))
        change = self.back(above) - self.back(below)
        return np.divide(above - below, change, out=np.zeros_like(scores), where=change > 0.0)


def are_rising(knots: Any, sizes: Sizes) -> None:
    """A rule for knots from a file: quantiles are sorted."""
    expect(bool((np.diff(knots, axis=0) >= 0.0).all()), "", "are not in order", "quantiles, rising")


def have_tails(samples: Array, weight: Array) -> bool:
    """Whether any feature of samples (n_samples, n_features) has such tails that ranks may help."""
    low, left, right, high = quantiles(samples, [0.005, 0.25, 0.75, 0.995], weight)
    long = high - low > LONG * (right - left)
    return any(len(np.unique(samples[:, j])) > FEW for j in np.flatnonzero(long))

# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Features by their ranks: a map of each to a normal, which skewed ones and outliers do not mind."""

from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm

from oda_rl._jit import kernel
from oda_rl._schema import Sizes, expect
from oda_rl._types import Array
from oda_rl._weighted import quantiles

# Features are mapped to a normal by their ranks, of which so many are known, and clipped at LIMIT.
KNOTS, LIMIT = 200, 3.0
# Slopes of the map are told between scores so far apart.
APART = 0.2
# A feature has tails if the inner 99 % of its samples lie so much further apart than the inner half
# (3.8 times for a normal, 4.8 for an exponential), and if it has more values than that.
LONG, FEW = 6.0, 20


@kernel
def normal_scores(samples, knots, scores, out):
    """Fill `out` (n_samples, n_features) with the scores of the samples among the knots.

    `knots` (n_knots, n_features) are quantiles, rising, with `scores` (n_knots,); between two it is
    interpolated, and where several are equal it is half way between the first and the last of them.
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
    """The map of each feature to a normal by its ranks: `knots` (n_knots, n_features), quantiles."""

    knots: Array

    @classmethod
    def of(cls, samples: Array, n_knots: int | None = None, weight: Array | None = None) -> "Ranks":
        """That of samples; knots are some of their values, so that equal values have equal scores."""
        weight = np.ones(len(samples)) if weight is None else weight
        at = np.linspace(0.0, 1.0, n_knots or min(KNOTS, max(2, len(samples))))
        return cls(np.ascontiguousarray(quantiles(samples, at, weight, "inverted_cdf")))

    @property
    def _scores(self) -> Array:
        with np.errstate(divide="ignore"):
            return np.clip(norm.ppf(np.linspace(0.0, 1.0, len(self.knots))), -LIMIT, LIMIT)

    def __call__(self, samples: Array) -> Array:
        """Samples (n_samples, n_features) by their normal scores, from -LIMIT to LIMIT."""
        out = np.empty_like(samples)
        normal_scores(samples, self.knots, self._scores, out)
        return out

    def back(self, scores: Array) -> Array:
        """Where scores (n_samples, n_features) are, between the knots."""
        known = self._scores
        found = [np.interp(own, known, knots) for own, knots in zip(scores.T, self.knots.T, strict=True)]
        return np.stack(found, axis=1)

    def slopes(self, scores: Array) -> Array:
        """How fast scores change with the features there, (n_samples, n_features); 0 where at once."""
        above, below = (np.clip(scores + step, -LIMIT, LIMIT) for step in (0.5 * APART, -0.5 * APART))
        change = self.back(above) - self.back(below)
        return np.divide(above - below, change, out=np.zeros_like(scores), where=change > 0.0)


def are_rising(knots: Any, sizes: Sizes) -> None:
    """A rule for knots from a file: quantiles are in their order."""
    expect(bool((np.diff(knots, axis=0) >= 0.0).all()), "", "are not in order", "quantiles, rising")


def have_tails(samples: Array, weight: Array) -> bool:
    """Whether a feature of samples (n_samples, n_features) is so skewed that ranks may tell more."""
    low, left, right, high = quantiles(samples, [0.005, 0.25, 0.75, 0.995], weight)
    long = high - low > LONG * (right - left)
    return any(len(np.unique(samples[:, j])) > FEW for j in np.flatnonzero(long))

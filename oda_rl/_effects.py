"""What outputs do along each feature alone: features beside features, for levels, codes and bends."""

from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from oda_rl._ridge import Ridge, solve_primal, tried
from oda_rl._schema import Rules, Schema, Sizes, expect
from oda_rl._types import Array
from oda_rl._validation import OF_DATA, SMALLEST_DEVIATION
from oda_rl._weighted import quantiles, variances

# A feature with no more values than LEVELS has an effect for each, others at so many quantiles.
LEVELS, QUANTILES, FEWEST = 24, 10, 3
# All effects together have no more numbers than this, nor than a part of the samples.
MOST_NUMBERS, PART = 500, 0.5
# A sum of effects must have so much less error on samples left out than a linear model has, and an
# effect must bend by so much of the variance of the outputs. No more of them are offered.
CLEARLY, LEAST_BEND, MOST_EFFECTS = 0.97, 0.003, 24
# The largest ridge tried, in samples, over that of ridges of columns of variance 1.
UNIT = 10.0


class Effects(NamedTuple):
    """Functions of one feature each, linear between knots: further features of samples.

    `feature` (n_effects,) are the features, `knots` and `values` (n_knots, n_effects) where they are
    known; a function with fewer knots has its last one several times.
    """

    feature: NDArray[np.int64]
    knots: Array
    values: Array

    def __len__(self) -> int:
        return len(self.feature)

    def __call__(self, samples: Array) -> Array:
        """Samples (n_samples, n_features) with their effects as further columns."""
        found = [samples]
        for j, knots, values in zip(self.feature, self.knots.T, self.values.T, strict=True):
            found.append(np.interp(samples[:, j], knots, values)[:, None])
        return np.hstack(found)

    def slopes(self, samples: Array) -> Array:
        """How fast effects change with their features there, (n_samples, n_effects); 0 beyond knots."""
        out = np.zeros((len(samples), len(self)))
        for k, (j, knots, values) in enumerate(
            zip(self.feature, self.knots.T, self.values.T, strict=True)
        ):
            knots, first = np.unique(knots, return_index=True)
            steps = np.r_[0.0, np.diff(values[first]) / np.diff(knots), 0.0]
            out[:, k] = steps[np.searchsorted(knots, samples[:, j], side="right")]
        return out

    def along_features(self, slopes: Array, samples: Array) -> Array:
        """Slopes (n_samples, n_outputs, n_features) of what `slopes` has along features and effects."""
        d = slopes.shape[2] - len(self)
        found = slopes[:, :, :d].copy()
        for k, (j, own) in enumerate(zip(self.feature, self.slopes(samples).T, strict=True)):
            found[:, :, j] += slopes[:, :, d + k] * own[:, None]
        return found

    @classmethod
    def of(cls, samples: Array, outputs: Array, weight: Array) -> tuple[Self, Array] | None:
        """The effects of features on `outputs` (n_samples, n_outputs), in a sum of all of them.

        Returns those that bend, and the leverages of the samples that ridges were tried on; None where
        a sum of effects errs no less than a linear model on samples left out one by one.
        (Hastie and Tibshirani, "Generalized Additive Models", 1990; a ridge draws towards the mean.)
        """
        own = _knots_of(samples, weight)
        if own is None:
            return None
        total = weight.sum()
        level, deviation = weight @ outputs / total, np.sqrt(variances(outputs, weight))
        target = (outputs - level) / np.where(deviation > 0.0, deviation, 1.0)
        mean, width = weight @ samples / total, np.sqrt(variances(samples, weight))
        width = np.where(width > 0.0, width, 1.0)
        linear = (samples - mean) / width
        hats = [_hats(x, knots) for x, knots in zip(samples.T, own, strict=True)]
        sizes = np.cumsum([0, *(part.shape[1] for part in hats)])
        unit = [1.0 / np.sqrt(max(variances(part, weight).sum(), 1e-12)) for part in hats]
        columns = np.hstack([part * one for part, one in zip(hats, unit, strict=True)])
        columns -= weight @ columns / total
        alone = _solved(linear, target, weight)
        found = _solved(np.hstack([linear, columns]), target, weight)
        if not found.score < CLEARLY * alone.score:
            return None
        d, theta = samples.shape[1], found.solution
        feature, knots, values, bends = [], [], [], []
        for j, (a, b) in enumerate(pairwise(sizes)):
            for bend, slope in zip(theta[d + a : d + b].T * unit[j], theta[j], strict=True):
                if b - a < FEWEST:
                    continue
                feature.append(j)
                knots.append(own[j])
                values.append(bend + slope * (own[j] - mean[j]) / width[j])
                bends.append(_bend(hats[j] @ values[-1], linear[:, j], weight))
        chosen = [k for k in np.argsort(bends)[::-1][:MOST_EFFECTS].tolist() if bends[k] > LEAST_BEND]
        if not chosen:
            return None
        chosen.sort()
        parts = np.array([feature[k] for k in chosen]), *(_padded(a, chosen) for a in (knots, values))
        return cls(*parts), found.leverage


def _knots_of(samples: Array, weight: Array) -> list[Array] | None:
    """Where the effects of features are known, nowhere of those that hardly vary; or None at all."""
    n = len(samples)
    most = min(MOST_NUMBERS, int(PART * n))
    values = [np.unique(x) for x in samples.T]
    n_levels = sum(len(one) for one in values if len(one) <= LEVELS)
    many = sum(len(one) > LEVELS for one in values)
    n_quantiles = min(QUANTILES, (most - n_levels) // max(many, 1))
    if n_levels > most or (many > 0 and n_quantiles < FEWEST):
        return None
    found, at = [], np.linspace(0.0, 1.0, max(n_quantiles, FEWEST))
    for x, one in zip(samples.T, values, strict=True):
        if len(one) > LEVELS:
            one = np.unique(quantiles(x, at, weight, "inverted_cdf"))
        varies = len(one) >= FEWEST and one[-1] - one[0] > SMALLEST_DEVIATION
        found.append(one if varies else one[:0])
    return found if any(len(one) > 0 for one in found) else None


def _hats(x: Array, knots: Array) -> Array:
    """The shares (n_samples, n_knots) of knots in a function that is linear between them."""
    out = np.zeros((len(x), len(knots)))
    if len(knots) == 0:
        return out
    x = np.clip(x, knots[0], knots[-1])
    below = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, len(knots) - 2)
    part, rows = (x - knots[below]) / (knots[below + 1] - knots[below]), np.arange(len(x))
    out[rows, below] = 1.0 - part
    out[rows, below + 1] = part
    return out


def _solved(columns: Array, target: Array, weight: Array) -> Ridge:
    """Ridge regression on centred columns."""
    rows, root = tried(len(target)), np.sqrt(weight)[:, None]
    columns, target = root * columns, root * target
    before = weight[rows] / weight.sum()
    products = columns.T @ columns, columns.T @ target
    return solve_primal(*products, columns[rows], target[rows], None, before, 1.0 - before, UNIT)


def _bend(effect: Array, linear: Array, weight: Array) -> float:
    """The variance of an effect about the line that is nearest to it."""
    total = weight.sum()
    effect = effect - weight @ effect / total
    slope = (weight * linear) @ effect / max(float((weight * linear) @ linear), 1e-300)
    return float(weight @ (effect - slope * linear) ** 2 / total)


def _padded(columns: list[Array], chosen: list[int]) -> Array:
    """Columns of unlike lengths side by side, filled up with their last number."""
    most = max(len(columns[k]) for k in chosen)
    padded = [np.pad(columns[k], (0, most - len(columns[k])), mode="edge") for k in chosen]
    return np.ascontiguousarray(np.stack(padded, axis=1))


# -- storing: effects are an entry of what they belong to, which has none where there are no effects --


def stored(effects: Effects | None) -> dict[str, Any]:
    """The entries of a model file."""
    return {} if effects is None else {"effects": effects._asdict()}


def restored(state: dict[str, Any]) -> Effects | None:
    """Effects from what they are stored in."""
    return Effects(**state["effects"]) if "effects" in state else None


def count_stored(state: Any) -> int:
    """How many effects there are in what may come from a file."""
    return int(state["effects"]["feature"].shape[0]) if "effects" in state else 0


def effects_schema(n_effects: str) -> Schema:
    """What is stored of effects of d features."""
    table = f"float[bends, {n_effects}] in {OF_DATA}"
    entries = {"feature": f"int[{n_effects}]", "knots": table, "values": table}
    return Rules(entries, _are_effects)


def _are_effects(effects: Any, sizes: Sizes) -> None:
    """A rule for effects from a file: of features that there are, with knots in their order."""
    right = np.all((effects["feature"] >= 0) & (effects["feature"] < sizes["d"]))
    expect(right, "feature", "is none of the features", f"numbers below {sizes['d']}")
    rising = bool((np.diff(effects["knots"], axis=0) >= 0.0).all())
    expect(rising, "knots", "are not in order", "knots, rising")

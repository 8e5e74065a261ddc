"""What outputs do along each feature alone: features beside features, for levels, codes and bends."""

from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from oda_rl._ridge import Ridge, solve_primal, tried
from oda_rl._schema import Rules, Schema, Sizes, expect
from oda_rl._types import Array
from oda_rl._validation import OF_DATA, SMALLEST_DEVIATION
from oda_rl._weighted import quantiles, standardised, variances

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
        found = FeatureSums.of(samples, standardised(outputs, weight), weight)
        if found is None or not found.ridge.score < CLEARLY * found.score_of_lines:
            return None
        feature, knots, values, bends = [], [], [], []
        for j, (own, functions) in enumerate(zip(found.knots, found.values, strict=True)):
            for effect in functions.T if len(own) >= FEWEST else []:
                feature.append(j)
                knots.append(own)
                values.append(effect)
                bends.append(_bend(np.interp(samples[:, j], own, effect), samples[:, j], weight))
        chosen = [k for k in np.argsort(bends)[::-1][:MOST_EFFECTS].tolist() if bends[k] > LEAST_BEND]
        if not chosen:
            return None
        chosen.sort()
        parts = np.array([feature[k] for k in chosen]), *(_padded(a, chosen) for a in (knots, values))
        return cls(*parts), found.ridge.leverage


class FeatureSums(NamedTuple):
    """Sums of functions of one feature each, one for each of several targets, by ridge regression.

    Of each feature `knots`, and the `values` (n_knots, n_targets) there; of one with too few values for
    a bend, those of a line at its ends. `score_of_lines` is the score of a `ridge` of lines alone.
    """

    knots: list[Array]
    values: list[Array]
    ridge: Ridge
    score_of_lines: float

    @classmethod
    def of(cls, samples: Array, target: Array, weight: Array) -> Self | None:
        """Those nearest to a standardised `target` (n_samples, n_targets).

        None where features have too few values, or are too many for so few samples.
        """
        own = knots_of(samples, weight)
        if own is None:
            return None
        total = weight.sum()
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
        d, theta = samples.shape[1], found.solution
        ends = np.stack([samples.min(axis=0), samples.max(axis=0)])
        knots = [own[j] if len(own[j]) > 0 else ends[:, j] for j in range(d)]
        values = [(at[:, None] - mean[j]) / width[j] * theta[j] for j, at in enumerate(knots)]
        for j, (a, b) in enumerate(pairwise(sizes)):
            if a < b:
                values[j] += theta[d + a : d + b] * unit[j]
        return cls(knots, values, found, alone.score)


def knots_of(samples: Array, weight: Array) -> list[Array] | None:
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


def _bend(effect: Array, feature: Array, weight: Array) -> float:
    """The variance of an effect about the line that is nearest to it."""
    total = weight.sum()
    effect, linear = effect - weight @ effect / total, feature - weight @ feature / total
    slope = (weight * linear) @ effect / max(float((weight * linear) @ linear), 1e-300)
    return float(weight @ (effect - slope * linear) ** 2 / total)


def _padded(columns: list[Array], chosen: list[int]) -> Array:
    """Columns of unlike lengths side by side, filled up with their last number."""
    most = max(len(columns[k]) for k in chosen)
    return np.ascontiguousarray(np.stack([filled_up(columns[k], most) for k in chosen], axis=1))


def filled_up(column: Array, n: int) -> Array:
    """A column (n_rows, ...) with its last row again and again, up to n rows."""
    return np.concatenate([column, np.repeat(column[-1:], n - len(column), axis=0)])


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

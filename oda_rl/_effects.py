"""Effects of single features on outputs, as additional features: for levels, codes and bends."""

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from oda_rl._ridge import Ridge, one_thread, solve_dual, solve_primal, tried
from oda_rl._schema import Rules, Schema, Sizes, expect
from oda_rl._statistics import are_rising, quantiles, standardised, variances
from oda_rl._types import Array
from oda_rl._validation import OF_DATA, SMALLEST_DEVIATION

# A feature with at most LEVELS values has a knot at each of them; any other has knots at up to QUANTILES
# quantiles. An effect has at least FEWEST knots.
LEVELS, QUANTILES, FEWEST = 24, 10, 3
# All effects together have at most MOST_NUMBERS knots, and at most PART times the number of samples.
MOST_NUMBERS, PART = 500, 0.5
# If these are too few, features are screened in some rounds: those with an effect of significance ALPHA,
# corrected for the number of features, have knots. Lines and knots together are then at most
# MOST_COLUMNS times the number of samples.
ROUNDS, ALPHA, MOST_COLUMNS = 3, 0.05, 0.67
# The squared error of a sum of effects on samples left out must be below CLEARLY times that of a linear
# model. An effect must deviate from a line by more than LEAST_BEND of the variance of the outputs. At
# most MOST_EFFECTS are returned.
CLEARLY, LEAST_BEND, MOST_EFFECTS = 0.97, 0.003, 24
# Factor of the ridges tried, relative to those for columns of variance 1.
UNIT = 10.0


class Effects(NamedTuple):
    """Piecewise linear functions of one feature each: further features of samples.

    `feature` (n_effects,) are the indices of the features; `knots` and `values` (n_knots, n_effects)
    define the functions. A function with fewer knots repeats its last one.
    """

    feature: NDArray[np.int64]
    knots: Array
    values: Array

    def __len__(self) -> int:
        return len(self.feature)

    def __call__(self, samples: Array) -> Array:
        """Append the effects of samples (n_samples, n_features) as further columns."""
        found = [samples]
        for j, knots, values in zip(self.feature, self.knots.T, self.values.T, strict=True):
            found.append(np.interp(samples[:, j], knots, values)[:, None])
        return np.hstack(found)

    def slopes(self, samples: Array) -> Array:
        """Derivatives (n_samples, n_effects) of the effects by their features; 0 outside the knots."""
        out = np.zeros((len(samples), len(self)))
        for k, (j, knots, values) in enumerate(
            zip(self.feature, self.knots.T, self.values.T, strict=True)
        ):
            knots, first = np.unique(knots, return_index=True)
            steps = np.r_[0.0, np.diff(values[first]) / np.diff(knots), 0.0]
            out[:, k] = steps[np.searchsorted(knots, samples[:, j], side="right")]
        return out

    def along_features(self, slopes: Array, samples: Array) -> Array:
        """Total derivatives (n_samples, n_outputs, n_features) by the features, by the chain rule.

        `slopes` (n_samples, n_outputs, n_features + n_effects) are those by features and effects.
        """
        d = slopes.shape[2] - len(self)
        found = slopes[:, :, :d].copy()
        for k, (j, own) in enumerate(zip(self.feature, self.slopes(samples).T, strict=True)):
            found[:, :, j] += slopes[:, :, d + k] * own[:, None]
        return found

    @classmethod
    def none(cls) -> Self:
        """No effects."""
        return cls(np.zeros(0, dtype=np.int64), np.zeros((0, 0)), np.zeros((0, 0)))

    @classmethod
    def of(cls, samples: Array, outputs: Array, weight: Array) -> tuple[Self, Array] | None:
        """Fit the effects of features on `outputs` (n_samples, n_outputs), as a sum of all of them.

        Returns the effects that are not close to linear, and the leverages of the samples on which
        ridges were tried; None if there are no such effects, or if the sum of effects is not clearly
        better than a linear model on samples left out one by one.
        (Hastie and Tibshirani, "Generalized Additive Models", 1990; a ridge draws towards the mean.)
        """
        sums = FeatureSums.of(samples, standardised(outputs, weight), weight)
        if sums is None or not sums.ridge.score < CLEARLY * sums.score_of_lines:
            return None
        found, bends = [], []
        for j, (knots, functions) in enumerate(zip(sums.knots, sums.values, strict=True)):
            for effect in functions.T if len(knots) >= FEWEST else []:
                found.append((j, knots, effect))
                bends.append(_bend(np.interp(samples[:, j], knots, effect), samples[:, j], weight))
        largest = np.argsort(bends)[::-1][:MOST_EFFECTS].tolist()
        chosen = [found[k] for k in sorted(largest) if bends[k] > LEAST_BEND]
        if not chosen:
            return None
        feature, columns, values = zip(*chosen, strict=True)
        return cls(np.array(feature), stacked(columns), stacked(values)), sums.ridge.leverage


class FeatureSums(NamedTuple):
    """Sums of functions of one feature each, one for each of several targets, by ridge regression.

    For each feature, `knots` are its knots and `values` (n_knots, n_targets) the values of the functions
    there. A feature without knots has a line, given at its two ends. `score_of_lines` is the score of a
    ridge regression with lines only.
    """

    knots: list[Array]
    values: list[Array]
    ridge: Ridge
    score_of_lines: float

    @classmethod
    def of(cls, samples: Array, target: Array, weight: Array) -> Self | None:
        """Fit the sums to a standardised `target` (n_samples, n_targets).

        Returns None if no feature has knots; see `knots_of`.
        """
        own = knots_of(samples, weight, target)
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
        d = samples.shape[1]
        # Lines of features without knots are left out if samples would be too few for all columns.
        enough = d + columns.shape[1] <= MOST_COLUMNS * len(samples)
        lines = np.array([enough or len(knots) > 0 for knots in own])
        found = _solved(np.hstack([linear[:, lines], columns]), target, weight)
        theta = np.zeros((d + columns.shape[1], target.shape[1]))
        theta[np.r_[lines, np.ones(columns.shape[1], dtype=np.bool_)]] = found.solution
        ends = np.stack([samples.min(axis=0), samples.max(axis=0)])
        knots = [own[j] if len(own[j]) > 0 else ends[:, j] for j in range(d)]
        values = [(at[:, None] - mean[j]) / width[j] * theta[j] for j, at in enumerate(knots)]
        for j, (a, b) in enumerate(pairwise(sizes)):
            if a < b:
                values[j] += theta[d + a : d + b] * unit[j]
        return cls(knots, values, found, alone.score)


def knots_of(samples: Array, weight: Array, target: Array | None = None) -> list[Array] | None:
    """The knots of each feature: none if it hardly varies or has too few values.

    If there would be too many for the number of samples, only features with an effect on a standardised
    `target` (n_samples, n_targets) have knots. Returns None if no feature has knots.
    """
    found = _knots_of(samples, weight, range(samples.shape[1]))
    if found is None and target is not None:
        chosen = _screened(samples, weight, target)
        while chosen and found is None:
            found = _knots_of(samples, weight, chosen)
            chosen = chosen[:-1]
    return found


def _knots_of(samples: Array, weight: Array, chosen: Collection[int]) -> list[Array] | None:
    """As `knots_of`, for the `chosen` features only; None if there are too many."""
    n = len(samples)
    most = min(MOST_NUMBERS, int(PART * n))
    values = [np.unique(x) if j in chosen else x[:0] for j, x in enumerate(samples.T)]
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


def _screened(samples: Array, weight: Array, target: Array) -> list[int]:
    """Features with a significant effect on a target, the most significant first in each round.

    A round tests functions of each feature alone on what those found before leave unexplained, as small
    effects show only once large ones are accounted for. (Fan and Lv, "Sure independence screening for
    ultrahigh dimensional feature space", 2008, section 4.)
    """
    rows = tried(len(samples))
    samples, weight, target = samples[rows], weight[rows], target[rows]
    root, found = np.sqrt(weight)[:, None], list[int]()
    columns, bases = [], []
    with one_thread():
        for x in samples.T:
            own = _knots_of(x[:, None], weight, [0])
            columns.append(root * _hats(x, own[0])[:, 1:] if own else root[:, :0])
            bases.append(np.linalg.qr(np.hstack([root, columns[-1]]))[0])
        rest = root * target
        for _ in range(ROUNDS):
            p = np.array([_p_value(basis, rest) for basis in bases])
            new = [j for j in np.argsort(p).tolist() if p[j] < ALPHA / len(p) and j not in found]
            if not new:
                break
            found += new[:MOST_EFFECTS]
            known = np.hstack([root, *(columns[j] for j in found)])
            rest = root * target - known @ np.linalg.lstsq(known, root * target)[0]
    return found


def _p_value(basis: Array, target: Array) -> float:
    """Of an F test whether an orthonormal basis explains more of some target than its first column.

    The least of all columns of `target` (n_samples, n_targets), times their number.
    """
    (n, q), m = basis.shape, target.shape[1]
    if q == 1 or n <= q:
        return 1.0
    explained = (basis.T @ target) ** 2
    left = (target**2).sum(axis=0) - explained.sum(axis=0)
    ratio = explained[1:].sum(axis=0) / (q - 1) / np.maximum(left / (n - q), 1e-300)
    return float(m * fdtrc(q - 1, n - q, ratio).min())


def _hats(x: Array, knots: Array) -> Array:
    """Weights (n_samples, n_knots) of the values at the knots in linear interpolation."""
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
    """Fit a ridge regression on centred columns."""
    (n, p), root = columns.shape, np.sqrt(weight)[:, None]
    rows, before = tried(n), weight / weight.sum()
    columns, target = root * columns, root * target
    if p >= n:
        found = solve_dual(columns, target, None, before, 1.0, max(UNIT, (columns**2).sum() / n))
        return found._replace(leverage=found.leverage[rows])
    # Leverages of centred columns add to those of the mean as they are, without a factor; it hardly
    # matters unless columns are so many that samples may almost be interpolated.
    free = 1.0 if p > MOST_COLUMNS * n else 1.0 - before[rows]
    products = columns.T @ columns, columns.T @ target
    return solve_primal(*products, columns[rows], target[rows], None, before[rows], free, UNIT)


def _bend(effect: Array, feature: Array, weight: Array) -> float:
    """The variance of an effect about its least-squares line."""
    total = weight.sum()
    effect, linear = effect - weight @ effect / total, feature - weight @ feature / total
    slope = (weight * linear) @ effect / max(float((weight * linear) @ linear), 1e-300)
    return float(weight @ (effect - slope * linear) ** 2 / total)


def stacked(columns: Sequence[Array]) -> Array:
    """Stack columns (n_rows, ...) of different lengths side by side, padded with their last row."""
    n = max(map(len, columns))
    filled = [np.concatenate([c, np.repeat(c[-1:], n - len(c), axis=0)]) for c in columns]
    return np.ascontiguousarray(np.stack(filled, axis=1))


# -- storing: effects are an entry in the state of their owner, absent if there are none --------------


def count_stored(state: Any) -> int:
    """The number of effects in a state that may come from a file."""
    return int(state["effects"]["feature"].shape[0]) if "effects" in state else 0


def effects_schema(n_effects: str) -> Schema:
    """The schema of stored effects of d features."""
    table = f"float[bends, {n_effects}] in {OF_DATA}"
    entries = {"feature": f"int[{n_effects}]", "knots": table, "values": table}
    return Rules(entries, _are_effects)


def _are_effects(effects: Any, sizes: Sizes) -> None:
    """A rule for effects from a file: their features exist, and their knots are sorted."""
    right = np.all((effects["feature"] >= 0) & (effects["feature"] < sizes["d"]))
    expect(right, "feature", "has invalid indices of features", f"indices from 0 to {sizes['d'] - 1}")
    are_rising(effects["knots"], sizes, "knots", "knots")

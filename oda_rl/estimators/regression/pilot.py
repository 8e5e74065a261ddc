"""What a fit learns before the cells: scales, the relevance of inputs, and outputs without noise."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import softmax

from oda_rl._statistics import Ranks, quantiles
from oda_rl._types import Array
from oda_rl.codebook.divergences import SMALLEST_SQUARE
from oda_rl.estimators.feature_scaling import deviations
from oda_rl.estimators.regression.mixture import (
    fit_mixture,
    mean_distance,
    most_cells,
    predict_all,
)
from oda_rl.estimators.regression.widening import FIRST_STEP, admit_samples
from oda_rl.estimators.session import Run
from oda_rl.estimators.settings import Settings
from oda_rl.estimators.targets import Data, within_reach

# Cells and samples of a pilot, at most; its overlap; and samples at which its slopes are measured.
CELLS, SAMPLES, SOFTNESS, SLOPES = 60, 4000, 4.0, 1000
# Slopes are differences between so many standard deviations of an input above and below.
STEP = 0.2
# Number of pilots for `relevance_of`.
ROUNDS = 2
# Least relevance of an input.
LEAST_RELEVANCE = 0.02
# Inputs are clipped at this part of their range beyond it. The range leaves out the part OUTERMOST of
# the samples at either end, as a single outlier would determine the slope of its cell.
BEYOND, OUTERMOST = 0.25, 0.005
# Inputs are outliers if they lie more than so many interquartile ranges beyond the quartiles, and if at
# most a part FEW_WILD of the samples do.
WILD, FEW_WILD = 20.0, 0.02
NO_KNOTS: Array = np.empty((0, 0))
NO_STEP: Array = np.empty(0)

# From inputs (n_samples, n_inputs) and weights to the bounds (n_inputs,) at which inputs are clipped.
RangeOf = Callable[[Array, Array], tuple[Array, Array]]


class Scaling(NamedTuple):
    """The map from the data's units to standardised ones, and with `metric` to those of the distance.

    Inputs are clipped at `low` and `high`; for outputs these are the least and largest seen. With
    `knots` (n_knots, n_inputs) inputs are first mapped to a normal distribution by `Ranks`. A sample of
    a stream moves the bounds of the inputs by at most a `step` (n_inputs,); without one they are fixed.
    """

    mean: Array  # of inputs and outputs, like the next four
    deviation: Array
    metric: Array
    low: Array
    high: Array
    knots: Array = NO_KNOTS
    step: Array = NO_STEP

    @classmethod
    def of(
        cls,
        samples: Array,
        weight: Array,
        n_inputs: int,
        output_weight: float,
        range_of: RangeOf | None = None,
        ranked: bool = False,
    ) -> "Scaling":
        """The scaling of samples, with equal weights for all inputs; `range_of` gives their bounds."""
        knots = NO_KNOTS
        if ranked:
            inputs = np.ascontiguousarray(samples[:, :n_inputs])
            ranks = Ranks.of(inputs, weight=weight)
            knots, samples = ranks.knots, np.column_stack([ranks(inputs), samples[:, n_inputs:]])
        low, high = samples.min(axis=0), samples.max(axis=0)
        low[:n_inputs], high[:n_inputs] = -np.inf, np.inf
        if range_of is not None:
            low[:n_inputs], high[:n_inputs] = range_of(samples[:, :n_inputs], weight)
            samples = np.clip(samples, low, high)
        mean = np.average(samples, axis=0, weights=weight)
        deviation, varying = deviations(samples, weight)
        metric = np.ones(samples.shape[1])
        # Several outputs together count as much as one.
        n_outputs = samples.shape[1] - n_inputs
        metric[n_inputs:] = output_weight / np.sqrt(n_outputs)
        size = np.maximum(1.0, np.abs(samples).max(axis=0))
        deviation = np.where(varying, deviation, size)
        return cls(mean, deviation, metric, low, high, knots)

    def to_ranks(self, inputs: Array) -> Array:
        """Inputs in the units of the bounds: with knots their normal scores."""
        return inputs if len(self.knots) == 0 else Ranks(self.knots)(np.ascontiguousarray(inputs))

    def standardise(self, inputs: Array) -> Array:
        """Inputs in standardised units, clipped at the bounds."""
        d, inputs = inputs.shape[1], self.to_ranks(inputs)
        clipped = np.minimum(np.maximum(inputs, self.low[:d]), self.high[:d])  # faster than np.clip
        return np.asarray((clipped - self.mean[:d]) / self.deviation[:d])

    def back(self, standard: Array) -> Array:
        """Standardised inputs in the data's units."""
        found = self._unstandardised(standard)
        return found if len(self.knots) == 0 else Ranks(self.knots).inverse(found)

    def _unstandardised(self, standard: Array) -> Array:
        """Standardised inputs in the units of the bounds: the data's, or with knots normal scores."""
        d = standard.shape[1]
        return np.asarray(standard * self.deviation[:d] + self.mean[:d])

    def slopes(self, standard: Array) -> Array:
        """Derivatives of standardised inputs with respect to those of the data (n_samples, n_inputs)."""
        d = standard.shape[1]
        found = np.tile(1.0 / self.deviation[:d], (len(standard), 1))
        if len(self.knots) > 0:
            found *= Ranks(self.knots).slopes(self._unstandardised(standard))
        return found

    def with_outputs(self, samples: Array, n_inputs: int) -> Array:
        """Inputs and outputs side by side in standardised units."""
        outputs = (samples[:, n_inputs:] - self.mean[n_inputs:]) / self.deviation[n_inputs:]
        return np.column_stack([self.standardise(samples[:, :n_inputs]), outputs])

    def see(self, outputs: Array) -> None:
        """Widen the bounds of the outputs to include those of a stream."""
        d = outputs.shape[1]
        self.low[-d:] = np.minimum(self.low[-d:], outputs.min(axis=0))
        self.high[-d:] = np.maximum(self.high[-d:], outputs.max(axis=0))

    def widening(self, n_inputs: int) -> "Scaling":
        """The scaling of a fit, with bounds that a stream may widen; not with knots, where ranks end."""
        if len(self.knots) > 0:
            return self
        return self._replace(step=FIRST_STEP * self.deviation[:n_inputs])

    def bounded(self, low: Array, high: Array) -> "Scaling":
        """The scaling with fixed bounds (n_features,) of features; not with knots, where ranks end."""
        if len(self.knots) > 0:
            return self
        d = len(low)
        low, high = np.r_[low, self.low[d:]], np.r_[high, self.high[d:]]
        return self._replace(low=low, high=high, step=NO_STEP)

    def admit(self, samples: Array) -> Array:
        """Widen the bounds of the inputs by samples of a stream, raw inputs and outputs.

        Returns the samples, with inputs clipped at the bounds that held when they came: so chunks, and
        later samples, make no difference.
        """
        if len(self.step) == 0:
            return samples
        samples = np.array(samples, order="C")
        admit_samples(samples, self.low, self.high, self.deviation, self.step)
        return samples

    def get_state(self) -> dict[str, Any]:
        """Return the state for a model file, with knots and steps only if there are any."""
        optional = ("knots", "step")
        return {
            name: part for name, part in self._asdict().items() if name not in optional or len(part) > 0
        }

    def outputs(self, standard: Array) -> Array:
        """Standardised predictions in the data's units, at most a `MARGIN` beyond the outputs seen."""
        d = standard.shape[1]
        found = standard * self.deviation[-d:] + self.mean[-d:]
        return within_reach(found, self.low[-d:], self.high[-d:])


def usual_range(inputs: Array, weight: Array, outermost: float = OUTERMOST) -> tuple[Array, Array]:
    """Bounds of inputs: their range without the outermost, extended, or if it is zero the full range."""
    low, high = quantiles(inputs, [outermost, 1.0 - outermost], weight)
    beyond = BEYOND * (high - low)
    rare = high <= low
    least, most = inputs.min(axis=0), inputs.max(axis=0)
    return np.where(rare, least, low - beyond), np.where(rare, most, high + beyond)


def range_seen(inputs: Array, weight: Array) -> tuple[Array, Array]:
    """Bounds at the range of the inputs of a fit, including the outermost."""
    return inputs.min(axis=0), inputs.max(axis=0)


def are_cut(inputs: Array, weight: Array) -> bool:
    """Whether some inputs lie outside the bounds of `usual_range`."""
    low, high = usual_range(inputs, weight)
    return bool(((inputs < low) | (inputs > high)).any())


def range_without_wild(inputs: Array, weight: Array) -> tuple[Array, Array]:
    """Bounds of the inputs of a stream: none, unless there are outliers among these first samples.

    Outliers would distort the scale for good. Otherwise the first samples cannot determine the range of
    later ones.
    """
    left, right = quantiles(inputs, [0.25, 0.75], weight)
    low, high = left - WILD * (right - left), right + WILD * (right - left)
    part = weight @ ((inputs < low) | (inputs > high)) / weight.sum()
    wild = (right > left) & (part > 0.0) & (part <= FEW_WILD)
    return np.where(wild, low, -np.inf), np.where(wild, high, np.inf)


def learn_pilot(
    settings: Settings,
    standard: Array,
    weight: Array,
    metric: Array,
    n_inputs: int,
    followed: Array | None,
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    """Learn a mixture of linear models over a first partition, which is annealed with `settings`.

    Its slopes show how much each input matters for the outputs. The cells of the next partition follow
    its predictions: cells that followed the outputs themselves would follow their noise.

    `standard` (n_samples, n_inputs + n_outputs) are standardised inputs and outputs, with their
    `weight`; `metric` (n_inputs + n_outputs,) is how much standard deviations count in the distance. The
    cells of the pilot follow the inputs and, unless None, `followed` (n_samples, n_outputs).

    Returns predictions of the standardised outputs (n_samples, n_outputs), and how much a standard
    deviation of each input should count in the distance (n_inputs,), the largest 1.
    """
    n, d = len(standard), n_inputs
    # The pilot is temporary, so that it may have more cells than the final model.
    k = min(CELLS, most_cells(1 + d))
    settings = settings._replace(max_codevectors=k, finish=False, max_samples=None)
    chosen = np.arange(n) if n <= SAMPLES else rng.choice(n, SAMPLES, replace=False)
    weight = weight[chosen] / weight[chosen].mean()
    inputs = np.ascontiguousarray(standard[:, :d] * metric[:d])
    space = inputs if followed is None else np.hstack([inputs, followed * metric[d:]])
    run = Run(settings, space.shape[1], rng)
    codevectors = run.fit(space[chosen], weight)[:, :d]
    width = max(SOFTNESS * mean_distance(inputs[chosen], codevectors, weight), SMALLEST_SQUARE)
    outputs = standard[chosen, d:]
    theta = fit_mixture(inputs[chosen], outputs, weight, codevectors, width, True).theta
    predicted = np.empty((n, outputs.shape[1]))
    location, no_scale = np.ascontiguousarray(codevectors.T), np.ones(d)
    predict_all(inputs, no_scale, location, len(codevectors), width, theta, d + 1, predicted)
    slopes, theta = np.empty(d), theta.reshape(outputs.shape[1], d + 1, -1)
    cells = codevectors, width, theta
    for j, change in enumerate(output_changes(*cells, inputs[chosen[:SLOPES]], STEP * metric[:d])):
        slopes[j] = np.sqrt(np.average((change**2).sum(axis=1), weights=weight[:SLOPES]))
    if not slopes.max() > 0.0:
        return predicted, np.ones(d)
    return predicted, np.maximum(slopes / slopes.max(), LEAST_RELEVANCE)


def output_changes(
    codevectors: Array, temperature: float, theta: Array, points: Array, steps: Array
) -> Iterator[Array]:
    """Yield, for each input, the change (n_points, n_outputs) from a step below points to one above.

    The outputs are those of linear models `theta` (n_outputs, 1 + n_inputs, n_cells) in cells that
    overlap at a temperature. Distances and outputs of the cells at the points are computed once, so that
    a step in one input costs only as much as that input.
    """
    near = cdist(points, codevectors, "sqeuclidean")
    values = (theta[:, :1] + points @ theta[:, 1:]).transpose(1, 0, 2)

    def at(j: int, step: float) -> Array:
        away = 2.0 * step * (points[:, j : j + 1] - codevectors[:, j])
        share = softmax((near + away) / -temperature, axis=1)
        return np.asarray(np.einsum("nk,nmk->nm", share, values + step * theta[:, 1 + j]))

    for j, step in enumerate(steps):
        yield at(j, step) - at(j, -step)


def relevance_of(settings: Settings, data: Data, rng: np.random.Generator) -> Array:
    """How much a standard deviation of each feature should count for the outputs, the largest 1.

    Found by two pilots, the second with the results of the first; `data` has outputs as targets.
    """
    d = data.samples.shape[1]
    samples = np.column_stack([data.samples, data.targets])
    scaling = Scaling.of(samples, data.weight, d, 1.0, usual_range)
    standard, followed = scaling.with_outputs(samples, d), None
    for _ in range(ROUNDS):
        own = settings, standard, data.weight, scaling.metric, d, followed, rng
        followed, scaling.metric[:d] = learn_pilot(*own)
    return np.asarray(scaling.metric[:d])

# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""The units of inputs and outputs, and the bounds at which inputs are clipped.

Arguments of the compiled kernels, by which a stream after a fit widens these bounds: `low`, `high`
(n_inputs + n_outputs,) are the bounds of a `Scaling` and `deviation` its deviations; those of outputs
are not used. `step` (n_inputs,) is how far the next sample may move a bound; with 0 the bounds of an
input are fixed. Samples begin with inputs in the units of the bounds.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from oda_rl._jit import kernel, lean_kernel
from oda_rl._statistics import Ranks, quantiles
from oda_rl._types import Array
from oda_rl.estimators.feature_scaling import deviations
from oda_rl.estimators.targets import within_reach

# Inputs are clipped at this part of their range beyond it. The range leaves out the part OUTERMOST of
# the samples at either end, as a single outlier would determine the slope of its cell.
BEYOND, OUTERMOST = 0.25, 0.005
# Inputs are outliers if they lie more than so many interquartile ranges beyond the quartiles, and if at
# most a part FEW_WILD of the samples do.
WILD, FEW_WILD = 20.0, 0.02
# A sample beyond a bound moves it by at most a step. First this is so many standard deviations: rare
# outliers should remain close to the other samples, however far out they are.
FIRST_STEP = 0.25
# Each sample beyond the bounds makes the step this many times larger, and each sample inside smaller,
# but not smaller than the first. So steps grow if more than an eighth of the samples are outside.
FASTER, SLOWER = 2.0, 0.9
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


@lean_kernel
def admit_sample(sample, low, high, deviation, step):
    """Widen the bounds by the inputs of a sample, and clip these, in place."""
    for j in range(step.shape[0]):
        if step[j] > 0.0:
            x = sample[j]
            if low[j] <= x <= high[j]:
                step[j] = max(SLOWER * step[j], FIRST_STEP * deviation[j])
                continue
            low[j] = max(low[j] - step[j], min(low[j], x))
            high[j] = min(high[j] + step[j], max(high[j], x))
            step[j] *= FASTER
            sample[j] = min(max(x, low[j]), high[j])


@kernel
def admit_samples(samples, low, high, deviation, step):
    """Do the same with samples (n_samples, n_inputs + n_outputs), one after the other."""
    for t in range(samples.shape[0]):
        admit_sample(samples[t], low, high, deviation, step)

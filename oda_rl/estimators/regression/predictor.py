"""Predictions of a mixture of local models, and of a stream's first samples before there are cells."""

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from oda_rl._effects import Effects, count_stored, effects_schema
from oda_rl._ridge import errors_left_out, tried
from oda_rl._schema import Rules, Schema, Sized, Sizes, expect
from oda_rl._statistics import are_rising
from oda_rl._types import Array
from oda_rl._validation import CONSTANT, OF_DATA, SMALLEST_DEVIATION
from oda_rl.estimators.regression import mixture
from oda_rl.estimators.regression.kernel_part import KernelPart, kernel_schema
from oda_rl.estimators.regression.local_models import LocalModel
from oda_rl.estimators.regression.scaling import NO_STEP, OUTERMOST, Scaling, usual_range
from oda_rl.estimators.targets import MARGIN

if TYPE_CHECKING:
    from oda_rl.estimators.regression.session import RegressionRun

# With at least ENOUGH samples, the outermost at either end, which may be an outlier, does not count for
# the usual range of inputs. LEFT_OUT is one and a half, as quantiles are taken between two samples.
ENOUGH, LEFT_OUT = 10, 1.5
# A plane is fitted again when the number of samples has only zeros after so many binary digits: it then
# lacks at most one in eight of them. To fit it with every sample would take too long.
DIGITS = 4
# Minimum number of samples for slopes: if one of two is left out, the other determines none.
LEAST = 3


def stored_extras(effects: Effects | None, kernel: KernelPart | None) -> dict[str, Any]:
    """The entries of a model file for effects and a kernel: none for what there is not."""
    parts = {"effects": effects, "kernel": kernel}
    return {name: part._asdict() for name, part in parts.items() if part is not None}


def restored_extras(state: dict[str, Any]) -> tuple[Effects | None, KernelPart | None]:
    """The effects and the kernel in a state with the entries of `stored_extras`."""
    effects = Effects(**state["effects"]) if "effects" in state else None
    return effects, KernelPart(**state["kernel"]) if "kernel" in state else None


def _is_of_data(scaling: Any, sizes: Sizes) -> None:
    """A rule for a stored scaling: its bounds and deviations must be possible for samples."""
    expect(np.all(scaling["low"] <= scaling["high"]), "low", "is above high", "low <= high")
    least = np.maximum(SMALLEST_DEVIATION, 0.5 * CONSTANT * np.abs(scaling["mean"]))
    right = np.all(scaling["deviation"] >= least)
    expect(right, "deviation", "is too small for the mean", f"at least {CONSTANT:g} of the mean")


def units_schema(d: str) -> Schema:
    """Schema of a stored `Scaling` of d inputs and m outputs."""
    entries = {
        "mean": f"float[{d}+m] in {OF_DATA}",
        "deviation": f"float[{d}+m]",
        "metric": f"float[{d}+m] in [0, inf)",
        "low": f"float[{d}+m] in [-inf, inf)",
        "high": f"float[{d}+m] in (-inf, inf]",
        "knots?": Rules(f"float[ranked, {d}] in {OF_DATA}", are_rising),
        "step?": f"float[{d}] in (0, inf)",
    }
    return Rules(entries, _is_of_data)


class Predictor(NamedTuple):
    """Local models in cells at `location` (n_inputs + n_outputs, n_cells), in scaled units.

    Cells overlap with the association probabilities at temperature `gate`. `theta` (n_parameters,
    n_cells) are the parameters of their models, linear ones in q basis functions or user-defined ones
    (`own`). Both arrays may have more columns than the `n_cells` in use. `effects` are further inputs,
    and a `kernel` is added to the outputs.
    """

    scaling: Scaling
    location: Array
    theta: Array
    n_cells: int
    gate: float
    q: int
    own: LocalModel | None
    effects: Effects | None = None
    kernel: KernelPart | None = None

    @property
    def cells(self) -> tuple[Array, int, float, Array, int]:
        """Arguments of `mixture.predict_all` and `predict_outputs`."""
        return self.location, self.n_cells, self.gate, self.theta, self.q

    def standard_outputs(self, inputs: Array) -> Array:
        """Standardised predictions for raw inputs (n_samples, n_features)."""
        inputs = inputs if self.effects is None else self.effects(inputs)
        standard = self.scaling.standardise(inputs)
        scaled = np.ascontiguousarray(standard * self.scaling.metric[: inputs.shape[1]])
        return self.of_scaled(scaled, standard)

    def of_scaled(self, scaled: Array, standard: Array) -> Array:
        """Standardised predictions for inputs and effects, in units of the distance and standardised."""
        d, k = scaled.shape[1], self.n_cells
        out = np.zeros((len(scaled), len(self.location) - d))
        if self.own is None:
            mixture.predict_all(scaled, 1.0 / self.scaling.metric[:d], *self.cells, out)
            return out if self.kernel is None else out + self.kernel(scaled)
        share = np.empty((len(scaled), k))
        mixture.associate_inputs(scaled, self.location, k, self.gate, share)
        for i in range(k):
            values = self.own.predict(np.ascontiguousarray(self.theta[:, i]), standard)
            out += share[:, i : i + 1] * np.reshape(values, out.shape)
        return out

    def outputs(self, inputs: Array) -> Array:
        """Predictions for raw inputs (n_samples, n_features), in the units of the data."""
        known = self.scaling
        if self.own is not None or self.kernel is not None or len(known.knots) > 0:
            return known.outputs(self.standard_outputs(inputs))
        inputs = inputs if self.effects is None else self.effects(inputs)
        out = np.zeros((len(inputs), len(self.location) - inputs.shape[1]))
        units = known.mean, known.deviation, known.metric, known.low, known.high, MARGIN
        mixture.predict_outputs(inputs, *units, *self.cells, out)
        return out

    def frozen(self) -> "Predictor":
        """A copy whose predictions further learning does not change.

        Inputs are not clipped if a stream may widen their bounds: those to come may be beyond them.
        """
        known, n_steps, k = self.scaling, len(self.scaling.step), self.n_cells
        low = np.r_[np.full(n_steps, -np.inf), known.low[n_steps:]]
        high = np.r_[np.full(n_steps, np.inf), known.high[n_steps:]]
        return self._replace(
            scaling=known._replace(low=low, high=high, step=NO_STEP),
            location=self.location[:, :k].copy(),
            theta=self.theta[:, :k].copy(),
        )

    def get_state(self) -> dict[str, Any]:
        """Return the state without the kind of the models, for a model file."""
        k = self.n_cells
        cells = {"location": self.location[:, :k], "theta": self.theta[:, :k]}
        parts = {"scaling": self.scaling.get_state(), **cells, "gate": self.gate}
        return parts | stored_extras(self.effects, self.kernel)

    @classmethod
    def restored(cls, state: dict[str, Any], q: int, own: LocalModel | None) -> "Predictor":
        """A predictor with the state that `get_state` returned; `q` does not count effects."""
        location, gate = state["location"], float(state["gate"])
        k = location.shape[1]
        effects, kernel = restored_extras(state)
        q += len(effects) if effects is not None and q > 1 else 0
        cells = location, state["theta"], k, gate, q, own
        return cls(Scaling(**state["scaling"]), *cells, effects, kernel)


def judge_schema(around: Any, sizes: Sizes) -> Schema:
    """Schema of the predictor that judges samples in the `Watch` of a regressor, with d features."""
    kind = sizes["linear"]
    sizes["i"] = sizes["d"] + count_stored(around["judge"])
    sizes["q"] = sizes["i"] + 1 if kind == 1 else 1
    return predictor_schema(kind >= 0, "i")


def predictor_schema(known: bool, d: str = "d") -> Schema:
    """Schema of `Predictor.get_state` with d inputs, m outputs, and, if `known`, q basis functions."""
    entries = {
        "scaling": units_schema(d),
        "effects?": effects_schema("judging"),
        "kernel?": kernel_schema("judged", d),
        "location": f"float[{d}+m, mixed]",
        "theta": "float[t, mixed]" if known else "float[rows, mixed]",
        "gate": "float in [0, inf)",
    }
    return Sized(entries, t="q*m") if known else entries


# -- the cells of a run ------------------------------------------------------------------------------


def cells_of(run: "RegressionRun") -> tuple[Array, Array, Array, Array | None]:
    """Codevectors, weights, values and slopes (or None) of the cells of a run, in the data's units."""
    d, m = run.n_inputs, run.n_outputs
    if run.annealer is None or run.scaling is None:
        mean = np.average(run.buffer, axis=0, weights=run.buffer_weight)[None, :d]
        slopes = None if run.own is not None else first_guess(run).slopes[None]
        return mean, np.ones(1), run.predict(mean), slopes
    codevectors = run.in_data_units(run.book.codevectors)
    weights = run.book.weights / run.book.weights.sum()
    points, k = run.book.codevectors[:, :d] / run.scaling.metric[:d], len(codevectors)
    mean, deviation = run.scaling.mean, run.scaling.deviation
    theta = run.book["theta"]
    if run.own is not None:
        values = [
            np.reshape(run.own.predict(theta[:, i].copy(), points[i : i + 1]), -1) for i in range(k)
        ]
        return codevectors, weights, np.array(values) * deviation[d:] + mean[d:], None
    theta = theta.reshape(m, run.n_basis, k)
    slopes = np.zeros((k, m, d))
    if run.linear:
        slopes[:] = theta[:, 1:].transpose(2, 0, 1)
    values = theta[:, 0].T + np.einsum("kmd,kd->km", slopes, points)
    if run.kernel is not None:
        scaled = run.book.codevectors[:, :d]
        values = values + run.kernel(scaled)
        slopes += run.kernel.slopes(scaled) * run.scaling.metric[:d]
    slopes *= deviation[d:, None] * run.scaling.slopes(points)[:, None]
    values = values * deviation[d:] + mean[d:]
    if run.effects is not None:
        slopes = run.effects.along_features(slopes, codevectors)
    return codevectors, weights, values, slopes


# -- before there are cells -----------------------------------------------------------------------------


class FirstMean(NamedTuple):
    """The mean of the outputs of the buffered samples, for models that are not linear."""

    mean: Array  # (n_outputs,)
    deviation: Array  # (n_outputs,), standard deviations
    slopes: Array  # zeros, (n_outputs, n_inputs)

    def outputs(self, inputs: Array) -> Array:
        """The mean for each of the inputs, (n_samples, n_outputs)."""
        return np.tile(self.mean, (len(inputs), 1))


class FirstPlane(NamedTuple):
    """A linear ridge regression on the first of the buffered samples."""

    predictor: Predictor
    deviation: Array  # (n_outputs,), of leave-one-out errors
    of_samples: tuple[int, int]  # number of samples dropped before these, and of these

    @classmethod
    def of(cls, samples: Array, weight: Array, n_inputs: int, n_dropped: int) -> "FirstPlane":
        """Fit samples (n_samples, n_inputs + n_outputs) in the data's units."""
        d, (n, width) = n_inputs, samples.shape
        outermost = max(OUTERMOST, LEFT_OUT / n) if n >= ENOUGH else OUTERMOST
        scaling = Scaling.of(samples, weight, d, 1.0, partial(usual_range, outermost=outermost))
        standard = scaling.with_outputs(samples, d)
        inputs, outputs = standard[:, :d], standard[:, d:]
        theta, leverage, _ = mixture.global_model(inputs, outputs, weight, linear=n >= LEAST)
        rows = tried(n)
        errors = errors_left_out((outputs - theta[0] - inputs @ theta[1:])[rows], leverage)
        deviation = np.sqrt(np.average(errors**2, axis=0, weights=weight[rows])) * scaling.deviation[d:]
        cell = np.zeros((width, 1)), theta.T.reshape(-1, 1), 1
        return cls(Predictor(scaling, *cell, 1.0, 1 + d, None), deviation, (n_dropped, n))

    def outputs(self, inputs: Array) -> Array:
        """Predictions (n_samples, n_outputs) of raw inputs, with the same bounds as later ones."""
        return self.predictor.outputs(inputs)

    @property
    def slopes(self) -> Array:
        """Slopes of the plane (n_outputs, n_inputs), in the data's units."""
        q, deviation = self.predictor.q, self.predictor.scaling.deviation
        theta = self.predictor.theta.reshape(-1, q)
        return theta[:, 1:] * deviation[q - 1 :, None] / deviation[: q - 1]


def first_guess(run: "RegressionRun") -> FirstMean | FirstPlane:
    """The model of the samples that a run has buffered: it does not depend on how these were chunked.

    A plane is kept in the run for further calls.
    """
    n, d, weight = len(run.buffer), run.n_inputs, run.buffer_weight
    if not run.linear:
        mean = np.average(run.buffer, axis=0, weights=weight)[d:]
        variance = np.average((run.buffer[:, d:] - mean) ** 2, axis=0, weights=weight)
        return FirstMean(mean, np.sqrt(variance), np.zeros((run.n_outputs, d)))
    n -= n % (1 << max(0, n.bit_length() - DIGITS))
    if run.plane is None or run.plane.of_samples != (run.n_dropped, n):
        run.plane = FirstPlane.of(run.buffer[:n], weight[:n], d, run.n_dropped)
    return run.plane

"""Predictions of a mixture of local models, with all the arrays they need."""

from typing import Any, NamedTuple

import numpy as np

from oda_rl import _effects
from oda_rl._effects import Effects, count_stored, effects_schema
from oda_rl._schema import Rules, Schema, Sized, Sizes, expect
from oda_rl._statistics import are_rising
from oda_rl._types import Array
from oda_rl._validation import CONSTANT, OF_DATA, SMALLEST_DEVIATION
from oda_rl.estimators.regression import kernel_part, mixture
from oda_rl.estimators.regression.kernel_part import KernelPart, kernel_schema
from oda_rl.estimators.regression.local_models import LocalModel
from oda_rl.estimators.regression.pilot import Scaling
from oda_rl.estimators.targets import MARGIN


def _is_of_data(scaling: Any, sizes: Sizes) -> None:
    """A rule for a stored scaling: its bounds and deviations must be possible for samples."""
    expect(np.all(scaling["low"] <= scaling["high"]), "low", "is above high", "bounds in order")
    least = np.maximum(SMALLEST_DEVIATION, 0.5 * CONSTANT * np.abs(scaling["mean"]))
    right = np.all(scaling["deviation"] >= least)
    expect(right, "deviation", "is too small for the mean", f"{CONSTANT:g} of it, or more")


def units_schema(d: str) -> Schema:
    """Schema of a stored `Scaling` of d inputs and m outputs."""
    entries = {
        "mean": f"float[{d}+m] in {OF_DATA}",
        "deviation": f"float[{d}+m]",
        "metric": f"float[{d}+m] in [0, inf)",
        "low": f"float[{d}+m] in [-inf, inf)",
        "high": f"float[{d}+m] in (-inf, inf]",
        "knots?": Rules(f"float[ranked, {d}] in {OF_DATA}", are_rising),
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
            cells = self.location, k, self.gate, self.theta, self.q
            mixture.predict_all(scaled, 1.0 / self.scaling.metric[:d], *cells, out)
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
        cells = self.location, self.n_cells, self.gate, self.theta, self.q
        mixture.predict_outputs(inputs, *units, *cells, out)
        return out

    def frozen(self) -> "Predictor":
        """A copy whose predictions further learning does not change."""
        low, high, k = self.scaling.low.copy(), self.scaling.high.copy(), self.n_cells
        return self._replace(
            scaling=self.scaling._replace(low=low, high=high),
            location=self.location[:, :k].copy(),
            theta=self.theta[:, :k].copy(),
        )

    def get_state(self) -> dict[str, Any]:
        """Return the state without the kind of the models, for a model file."""
        k = self.n_cells
        cells = {"location": self.location[:, :k], "theta": self.theta[:, :k]}
        units = {"scaling": self.scaling.get_state()}
        parts = {**_effects.stored(self.effects), **kernel_part.stored(self.kernel)}
        return {**units, **cells, "gate": self.gate, **parts}

    @classmethod
    def restored(cls, state: dict[str, Any], q: int, own: LocalModel | None) -> "Predictor":
        """A predictor with the state that `get_state` returned; `q` does not count effects."""
        location, gate = state["location"], float(state["gate"])
        k = location.shape[1]
        effects, kernel = _effects.restored(state), kernel_part.restored(state)
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

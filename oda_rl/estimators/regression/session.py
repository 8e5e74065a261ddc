"""The state of an `ODARegressor`: a run over inputs and outputs, with local models."""

import time
from typing import Any

import numpy as np

from oda_rl._effects import Effects
from oda_rl._statistics import variances
from oda_rl._types import Array
from oda_rl.codebook.annealer import Annealer
from oda_rl.codebook.model_learning import ERROR, INPUT_DISTORTION
from oda_rl.estimators.hard_path import HardPath
from oda_rl.estimators.regression import mixture
from oda_rl.estimators.regression.fitting import FittedEffects, fit_best, prepare_stream
from oda_rl.estimators.regression.kernel_part import KernelPart, add_kernel
from oda_rl.estimators.regression.local_models import RIDGE, LocalModel, ModelAnnealer, ModelSettings
from oda_rl.estimators.regression.pilot import learn_pilot
from oda_rl.estimators.regression.predictor import (
    FirstPlane,
    Predictor,
    first_guess,
    restored_extras,
    stored_extras,
)
from oda_rl.estimators.regression.scaling import Scaling, range_without_wild
from oda_rl.estimators.session import Run
from oda_rl.estimators.settings import Settings

# Overlap of the cells if it is not chosen by cross-validation.
STREAM_SOFTNESS = 1.0
# Least relevance of an input in a stream, whose first samples cannot determine it precisely.
EARLY_RELEVANCE = 0.15
# A fit has at least so many samples per cell, and as many as the parameters of its model.
SAMPLES_PER_CELL = 3


class RegressionRun(Run):
    """A run over inputs and outputs together, with local models in the payload."""

    annealer_type: type[Annealer] = ModelAnnealer
    least_warmup = 2

    def __init__(
        self,
        settings: Settings,
        models: ModelSettings,
        n_inputs: int,
        n_outputs: int,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(settings, n_inputs + n_outputs, rng)
        self.models = models
        # There are more inputs than features if effects of these are used.
        self.n_features = self.n_inputs = n_inputs
        self.n_outputs = n_outputs
        self.effects: Effects | None = None
        # During a fit: leverages of the samples of the ridge trials, in effects and in all.
        self.effects_leverage: Array | None = None
        self.leverage: Array | None = None
        self.kernel: KernelPart | None = None
        self.plane: FirstPlane | None = None  # of the buffered samples
        self.scaling: Scaling | None = None
        self.softness = STREAM_SOFTNESS if models.softness == "auto" else float(models.softness)
        self.n_fitted = 0  # samples of a fit after which the cells rest
        self.unexplained: list[float] = []
        if isinstance(models.local_model, str):
            q = self.n_basis
            self.payload = {"theta": (q * n_outputs, "mean"), "gain": (q * q, "mean")}
        else:
            self._first_theta = models.local_model.init(n_inputs, n_outputs, rng)
            self.payload = {"theta": (len(self._first_theta), "mean")}
        self.payload |= {"seen": (1, "mean"), "noise": (n_outputs, "mean")}

    @property
    def linear(self) -> bool:
        """Whether the local models are the built-in linear ones."""
        return isinstance(self.models.local_model, str) and self.models.local_model == "linear"

    @property
    def own(self) -> LocalModel | None:
        """The user-defined local model, or None."""
        return None if isinstance(self.models.local_model, str) else self.models.local_model

    @property
    def n_basis(self) -> int:
        """Parameters per cell and output of the built-in local models."""
        return 1 + self.n_inputs if self.linear else 1

    @property
    def book(self) -> Any:
        """The codebook of the annealer."""
        assert self.annealer is not None
        return self.annealer.codebook

    @property
    def figures(self) -> Array:
        """The running averages of the annealer: `INPUT_DISTORTION` and `ERROR`."""
        assert isinstance(self.annealer, ModelAnnealer)
        return self.annealer.figures

    @property
    def gating_temperature(self) -> float:
        """The temperature at which cells overlap in predictions, in the units of the distance."""
        return self.softness * float(self.figures[INPUT_DISTORTION])

    # -- learning --------------------------------------------------------------------------------

    def begin(self, samples: Array, weight: Array, without: str | None = None) -> Annealer:
        """Start the annealer as `Run.begin` does, with untrained local models."""
        annealer = super().begin(samples, weight, without)
        assert isinstance(annealer, ModelAnnealer)
        assert self.scaling is not None
        d = self.n_inputs
        width = max(float(variances(samples[:, :d], weight).sum()), 1e-300)
        annealer.attach(d, 1.0 / self.scaling.metric[:d], self.softness, self.own, width)
        if self.own is not None:
            annealer.codebook["theta"][:, 0] = self._first_theta
        elif without != "gain":
            annealer.codebook["gain"][:] = np.eye(self.n_basis).reshape(-1, 1) / RIDGE
        return annealer

    def remember(self, distortion: float, codevectors: Array) -> None:
        """Keep a record of a finished temperature, with the error of the predictions."""
        super().remember(distortion, codevectors)
        self.unexplained.append(float(self.figures[ERROR]) / self.n_outputs)
        self.figures[ERROR] = 0.0

    @property
    def will_rest(self) -> bool:
        """Whether cells rest in a stream after a fit, until a change is found.

        Models that are fitted together, in cells that overlap a lot, have large parameters that cancel
        each other. Their sum gets worse where cells move, and better where the models alone go on.
        """
        return self.models.forgetting is not None and self.own is None and self.settings.finish

    def fit(self, samples: Array, weight: Array, kernel: bool = True) -> Array:
        """Fit the run to samples, raw inputs and outputs; return the final codevectors.

        Without `kernel` no kernel machine is added, whatever the settings.
        """
        self._clock = time.perf_counter()
        most = max(1, len(samples) // max(self.n_basis, SAMPLES_PER_CELL))
        most = min(most, mixture.most_cells(self.n_basis))
        self.settings = self.settings._replace(max_codevectors=min(most, self.settings.max_codevectors))
        given = self.models
        fit_best(self, samples, weight)
        self.models = given
        if kernel:
            add_kernel(self, samples, weight)
        prepare_stream(self, samples, weight)
        self.effects_leverage = self.leverage = None
        self.stop_clock()
        return np.asarray(self.book.codevectors)

    def anneal_cells(self, samples: Array, weight: Array, targets: Array | None = None) -> Array:
        """Begin, and anneal over the samples in the annealer's units; return the final codevectors.

        Models learn from `targets`, if any. Models need no codebooks at temperature zero for the path.
        """
        self.begin(samples, weight, without="gain" if targets is None else None)
        self.anneal(samples, targets, weight, self._end_stream_level)
        codevectors = HardPath(self, samples, weight).final()
        self.book.location[:, : len(codevectors)] = codevectors.T
        return codevectors

    def untrained(self, models: ModelSettings, effects: FittedEffects | None = None) -> "RegressionRun":
        """An untrained run with these models and effects of features, if there are any."""
        other = RegressionRun(self.settings, models, self.n_features, self.n_outputs, self.rng)
        other._clock = self._clock
        if effects is not None:
            other.use_effects(*effects)
        return other

    def use_effects(self, effects: Effects, leverage: Array | None = None) -> None:
        """Let an untrained run use `effects` of features as further inputs.

        `leverage` is what the effects have already used up, for each sample of the ridge trials.
        """
        self.effects, self.effects_leverage = effects, leverage
        self.n_inputs = self.n_features + len(effects)
        self.buffer = np.empty((0, self.n_inputs + self.n_outputs))
        q = self.n_basis
        if self.own is None:
            self.payload |= {"theta": (q * self.n_outputs, "mean"), "gain": (q * q, "mean")}

    def insert_effects(self, samples: Array) -> Array:
        """Raw inputs, with or without outputs behind them, with the effects inserted after inputs."""
        if self.effects is None:
            return samples
        d = self.n_features
        inputs = self.effects(np.ascontiguousarray(samples[:, :d]))
        return np.ascontiguousarray(np.hstack([inputs, samples[:, d:]]))

    def observe(self, samples: Array, weight: Array) -> None:
        """Learn from the next samples of a stream, raw inputs and outputs."""
        if self.is_entangled:
            self._disentangle()
        samples = self.insert_effects(samples)
        super().observe(samples if self.scaling is None else self.scaling.admit(samples), weight)

    @property
    def is_entangled(self) -> bool:
        """Whether the models are those of a fit whose cells overlap more than the cells of a stream."""
        chosen = self.models.softness == "auto" and self.own is None and self.n_fitted == 0
        return chosen and self.annealer is not None and self.softness > STREAM_SOFTNESS

    def _disentangle(self) -> None:
        """Give cells with the overlap of a stream models that describe the function near each of them.

        Models that are fitted together, in cells that overlap a lot, have large parameters that cancel
        each other. A step of a single cell would ruin their sum.
        """
        assert self.scaling is not None
        assert isinstance(self.annealer, ModelAnnealer)
        d, book = self.n_inputs, self.book
        theta = book["theta"].reshape(self.n_outputs, self.n_basis, len(book))
        fitted = book.codevectors[:, :d], theta, self.gating_temperature, self.scaling.metric[:d]
        self.softness = self.annealer.softness = STREAM_SOFTNESS
        book["theta"][:] = mixture.separate(*fitted, self.gating_temperature).reshape(-1, len(book))

    def to_distance(self, standard: Array) -> Array:
        """Convert standardised inputs to units of the distance; outputs behind them are dropped."""
        assert self.scaling is not None
        d = self.n_inputs
        return np.ascontiguousarray(standard[:, :d] * self.scaling.metric[:d])

    def resume(self, settings: Settings) -> None:
        """Take over settings as `Run` does, with at most as many cells as a stream can train.

        Cells that rest stay as many as they are.
        """
        if settings.max_codevectors > (most := mixture.most_learned(self.n_basis)):
            settings = settings._replace(max_codevectors=most)
        super().resume(settings)
        if self.annealer is not None and self.n_fitted > 0:
            self.annealer.done = True

    def _start(self, samples: Array, weight: Array) -> None:
        self.resume(self.settings)
        d, counting = self.n_inputs, self.models.output_weight
        self.scaling = Scaling.of(samples, weight, d, counting, range_without_wild)
        standard = self.scaling.with_outputs(samples, d)
        if self.models.pilot_rounds > 0 and d > 1:
            own = self.settings, standard, weight, self.scaling.metric, d, None, self.rng
            self.scaling.metric[:d] = np.maximum(learn_pilot(*own)[1], EARLY_RELEVANCE)
        self.begin(standard * self.scaling.metric, weight)

    def _in_units(self, samples: Array) -> tuple[Array, Array | None]:
        assert self.scaling is not None
        self.scaling.see(samples[:, self.n_inputs :])
        standard = self.scaling.with_outputs(samples, self.n_inputs)
        outputs = standard[:, self.n_inputs :]
        if self.kernel is not None:  # cells learn the rest
            outputs = outputs - self.kernel(self.to_distance(standard))
        return standard * self.scaling.metric, outputs

    # -- using -----------------------------------------------------------------------------------

    @property
    def own_share(self) -> float:
        """The overlap by which errors are assigned to cells: at most that of a stream."""
        return min(self.softness, STREAM_SOFTNESS)

    def associations(self, inputs: Array, softness: float | None = None) -> Array:
        """Shares of the cells for inputs in the units of the distance; by default as in predictions."""
        out = np.empty((len(inputs), len(self.book)))
        width = float(self.figures[INPUT_DISTORTION])
        overlap = self.gating_temperature if softness is None else softness * width
        mixture.associate_inputs(inputs, self.book.location, len(self.book), overlap, out)
        return out

    def deviations(self, inputs: Array) -> Array:
        """Standard deviations (n_samples, n_outputs) of outputs about the predictions of raw inputs."""
        if self.annealer is None or self.scaling is None:
            return np.tile(first_guess(self).deviation, (len(inputs), 1))
        variance = self.associations(self.in_distance(inputs), self.own_share) @ self.book["noise"].T
        return np.asarray(np.sqrt(variance) * self.scaling.deviation[self.n_inputs :])

    @property
    def predictor(self) -> Predictor:
        """The current state of all that predicts; further learning changes its arrays."""
        assert self.scaling is not None
        book = self.book
        cells = book.location, book.payload[book.rows("theta")], len(book)
        gate, q = self.gating_temperature, self.n_basis
        return Predictor(self.scaling, *cells, gate, q, self.own, self.effects, self.kernel)

    def predict(self, inputs: Array) -> Array:
        """Outputs (n_samples, n_outputs) in the data's units, of raw inputs."""
        return (first_guess(self) if self.annealer is None else self.predictor).outputs(inputs)

    def in_distance(self, inputs: Array) -> Array:
        """Raw inputs in the units of the distance, with effects if there are any."""
        assert self.scaling is not None
        return self.to_distance(self.scaling.standardise(self.insert_effects(inputs)))

    @property
    def relevance(self) -> Array:
        """How much a standard deviation of each feature, or of its effect, counts in the distance."""
        if self.scaling is None:
            return np.ones(self.n_features)
        relevance = self.scaling.metric[: self.n_features].copy()
        if self.effects is not None:
            own = self.scaling.metric[self.n_features : self.n_inputs]
            np.maximum.at(relevance, self.effects.feature, own)
        return relevance

    def in_data_units(self, codevectors: Array) -> Array:
        """The features of codevectors, in the data's units."""
        assert self.scaling is not None
        d = self.n_inputs
        return self.scaling.back(codevectors[:, :d] / self.scaling.metric[:d])[:, : self.n_features]

    # -- storing ---------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """Return the state as `Run` does, with the scaling and that of the models."""
        return super().get_state() | {
            "scaling": None if self.scaling is None else self.scaling.get_state(),
            "softness": self.softness,
            "unexplained": self.unexplained,
            "figures": None if self.annealer is None else self.figures,
            "n_fitted": self.n_fitted,
            **stored_extras(self.effects, self.kernel),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore the state that `get_state` returned, in a new run."""
        effects, self.kernel = restored_extras(state)
        if effects is not None:
            self.use_effects(effects)
        if state["scaling"] is not None:
            self.scaling = Scaling(**state["scaling"])
        self.softness, self.unexplained = float(state["softness"]), list(state["unexplained"])
        self.n_fitted = state["n_fitted"]
        super().set_state(state)
        if self.annealer is not None:
            self.figures[:] = state["figures"]

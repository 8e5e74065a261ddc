"""Local models of cells: the interface of user-defined ones, settings, and the annealer."""

import math
from functools import cache
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from oda_rl._types import Array
from oda_rl._validation import plain
from oda_rl.codebook.annealer import Annealer
from oda_rl.codebook.association import add_distances
from oda_rl.codebook.learning import Pace
from oda_rl.codebook.model_learning import (
    ERROR,
    FORGETTING,
    INPUT_DISTORTION,
    N_FIGURES,
    Models,
    follow_noise,
)
from oda_rl.estimators.regression.mixture import associate_inputs

KNOWN = ("constant", "linear")
# Initial ridge of recursive least squares.
RIDGE = 0.1
# When a temperature begins, what a cell's model has learned counts as at most so many samples.
MEMORY = 5.0
# Forgetting stops when inverse second moments have grown to so many times those of the initial ridge:
# for inputs that do not vary they would grow without bound.
GROWTH = 100.0
# A user-defined model learns from a sample in the cells with more than this share.
LEAST_SHARE = 0.05


@runtime_checkable
class LocalModel(Protocol):
    """The interface of user-defined models for `ODARegressor(local_model=...)`.

    The object itself keeps no state of the cells: the parameters of a cell are one array of numbers,
    which the codebook stores, copies to both children of a cell that splits, and averages when cells
    merge. Inputs and outputs are standardised (each has mean 0 and variance 1 over the samples).
    """

    def init(self, n_features: int, n_outputs: int, rng: np.random.Generator) -> Array:
        """The parameters of the first cell, of shape (n_parameters,)."""
        ...

    def predict(self, parameters: Array, X: Array) -> Array:
        """The outputs at X (n_samples, n_features): an array of shape (n_samples, n_outputs)."""
        ...

    def update(self, parameters: Array, x: Array, y: Array, weight: float) -> Array:
        """The parameters after one sample x (n_features,), y (n_outputs,), with a weight in (0, 1].

        For instance by stochastic gradient descent (eq. 27). The array may be changed and returned.
        """
        ...


class Quadratic:
    """A local model with all products of two inputs, learned by normalised least mean squares.

    Parameters
    ----------
    stepsize : float, default=0.3
        In (0, 2); with 1 the error of the sample vanishes.

    Examples
    --------
    >>> import numpy as np
    >>> from oda_rl import ODARegressor
    >>> X = np.random.default_rng(0).uniform(-1.0, 1.0, (500, 1))
    >>> model = ODARegressor(4, local_model=Quadratic(), random_state=0).fit(X, X[:, 0] ** 2)
    >>> bool(model.score(X, X[:, 0] ** 2) > 0.99)
    True
    """

    def __init__(self, stepsize: float = 0.3) -> None:
        self.stepsize = stepsize

    def init(self, n_features: int, n_outputs: int, rng: np.random.Generator) -> Array:
        """Zeros, which predict the mean of the outputs."""
        return np.zeros(self.features(np.zeros((1, n_features))).shape[1] * n_outputs)

    def predict(self, parameters: Array, X: Array) -> Array:
        """Basis functions times coefficients."""
        basis = self.features(X)
        return basis @ parameters.reshape(basis.shape[1], -1)

    def update(self, parameters: Array, x: Array, y: Array, weight: float) -> Array:
        """A step that lowers the error of this sample."""
        basis = self.features(x[None, :])[0]
        error = y - basis @ parameters.reshape(len(basis), -1)
        step = weight * self.stepsize / (basis @ basis)
        return parameters + step * np.outer(basis, error).ravel()

    @staticmethod
    def features(X: Array) -> Array:
        """The basis functions: 1, the inputs, and their products."""
        i, j = _pairs(X.shape[1])
        return np.column_stack([np.ones(len(X)), X, X[:, i] * X[:, j]])


@cache
def _pairs(d: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The pairs of d coordinates, each once; finding them takes longer than a step with one sample."""
    return np.triu_indices(d)


class ModelSettings(NamedTuple):
    """Settings of a regressor beyond those of a partition."""

    local_model: str | LocalModel
    output_weight: float
    softness: float | str
    ridge: float | str
    pilot_rounds: int
    kernel: str | None
    forgetting: str | None

    @classmethod
    def of(cls, estimator: Any) -> "ModelSettings":
        """The settings of an estimator."""
        return cls(*(plain(getattr(estimator, name)) for name in cls._fields))

    @property
    def given_ridge(self) -> float | None:
        """The ridge of the fit of all local models; None if cross-validation chooses it."""
        return None if self.ridge == "auto" else float(self.ridge)


class ModelAnnealer(Annealer):
    """An annealer that also trains the local models of the cells, sample by sample.

    The codebook's payload has `"theta"`, the parameters in standardised units, and for built-in models
    `"gain"`, the inverse second moments, once models are trained; `"seen"` is the weight of the samples
    learned, and `"noise"`, if present, the mean squared errors of predictions. `attach` must be called
    before the first sample; the targets given to `observe` are the standardised outputs.
    """

    n_inputs: int
    n_outputs: int
    unscale: Array
    softness: float
    model: LocalModel | None
    figures: Array
    link = False  # whether models are logits of classes, not outputs
    rests = False  # whether cells and their overlap stay as a fit has left them

    def attach(
        self, n_inputs: int, unscale: Array, softness: float, model: LocalModel | None, width: float
    ) -> None:
        """Set the number of input columns and their units, the overlap of cells, and the local model.

        `width` is the initial mean squared distance of inputs from the nearest cell.
        """
        self.n_inputs = n_inputs
        self.unscale, self.softness, self.model = unscale, softness, model
        self.figures = np.zeros(N_FIGURES)
        self.figures[INPUT_DISTORTION] = width

    @property
    def forgetting(self) -> float:
        """The stepsize of the mean squared distance that determines how far cells overlap."""
        return 0.0 if self.rests else FORGETTING

    def pace(self, max_steps: int) -> Pace:
        """As in `Annealer`; with stepsizes of 0 while the cells rest."""
        pace = super().pace(max_steps)
        return pace._replace(a=math.inf, most=math.inf) if self.rests else pace

    def _advance(
        self,
        samples: Array,
        targets: Array | None,
        labels: NDArray[np.int64],
        sample_weight: Array,
        measuring: bool,
        models: Models | None = None,
    ) -> tuple[int, bool]:
        if targets is None:  # only cells are learned
            return super()._advance(samples, None, labels, sample_weight, measuring)
        if self.model is not None:
            return self._advance_own(samples, targets, labels, sample_weight, measuring)
        book = self.codebook
        models = Models(
            targets,
            self.n_inputs,
            self.unscale,
            book.payload[book.rows("theta")],
            book.payload[book.rows("gain")],
            book.payload[book.rows("seen")][0],
            book.payload[book.rows("noise")],
            float(self.softness),
            self.figures,
            self.link,
            self.forgetting,
        )
        return super()._advance(samples, targets, labels, sample_weight, measuring, models)

    def end_level(self) -> None:
        """End a temperature as `Annealer` does; then models forget, as their cells are about to move."""
        if self.rests:
            self._begin_check()
            return
        was_done = self.done
        super().end_level()
        if was_done:
            return
        seen = self.codebook["seen"][0]
        if self.model is not None:  # only used to average the errors of predictions
            np.minimum(seen, MEMORY, out=seen)
            return
        if "gain" not in self.codebook.fields:  # the models are not trained yet
            return
        gain = self.codebook["gain"]
        q = round(np.sqrt(len(gain)))
        most = GROWTH * q / RIDGE / gain[:: q + 1].sum(axis=0)
        factor = np.clip(seen / MEMORY, 1.0, np.maximum(most, 1.0))
        gain *= factor
        seen /= factor

    def _advance_own(
        self, samples: Array, targets: Array, labels: Any, sample_weight: Array, measuring: bool
    ) -> tuple[int, bool]:
        """`_advance` for user-defined models: one sample at a time, in Python."""
        for t in range(len(samples)):
            count = self.n - self.level_begun + 1
            squared = self._learn_own(samples[t, : self.n_inputs], targets[t], float(sample_weight[t]))
            self.figures[ERROR] += (squared - self.figures[ERROR]) / count
            one = slice(t, t + 1)
            _, finished = super()._advance(
                samples[one], None, labels[one], sample_weight[one], measuring
            )
            if finished:
                return t + 1, True
        return len(samples), False

    def _learn_own(self, inputs: Array, y: Array, weight: float) -> float:
        assert self.model is not None
        book, x = self.codebook, inputs * self.unscale
        distance, share = np.zeros(len(book)), np.empty((1, len(book)))
        add_distances(inputs, 0, self.n_inputs, book.location, len(book), distance)
        width = self.figures[INPUT_DISTORTION]
        associate_inputs(inputs[None, :], book.location, len(book), self.softness * width, share)
        self.figures[INPUT_DISTORTION] += FORGETTING * (distance.min() - width)
        theta = book["theta"]
        predicted = np.zeros(len(y))
        for i in np.flatnonzero(share[0] > LEAST_SHARE):
            own = np.ascontiguousarray(theta[:, i])
            predicted += share[0, i] * np.reshape(self.model.predict(own, x[None, :]), -1)
            theta[:, i] = self.model.update(own, x, y, float(min(1.0, weight * share[0, i])))
        seen, noise = (book.payload[book.rows(name)] for name in ("seen", "noise"))
        follow_noise(y, predicted, share[0], weight, len(book), seen[0], noise)
        return float(((y - predicted) ** 2).sum())

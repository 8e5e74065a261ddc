"""The annealer with local models on the faster timescale (Algorithms 2 and 3)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl.codebook.annealer import Annealer
from oda_rl.codebook.association import add_distances
from oda_rl.codebook.learning import ERROR, FORGETTING, INPUT_DISTORTION, N_FIGURES, Models
from oda_rl.estimators.regression import kernels as compiled
from oda_rl.estimators.regression.local_models import LocalModel

Array = NDArray[np.float64]

# Ridge of recursive least squares at the first sample.
RIDGE = 0.1
# What a cell's model has learned counts as so many samples, at most, when a temperature begins.
MEMORY = 5.0
# Forgetting stops where inverse second moments have grown to so many times those of the ridge: inputs
# that do not vary would let them grow without bound.
GROWTH = 100.0
# A user's own model learns from a sample in the cells with more than this share.
LEAST_SHARE = 0.05


class ModelAnnealer(Annealer):
    """Moves cells and trains their models, sample by sample.

    The codebook's payload has `"theta"`, the parameters in standardised units, and for the models of the
    package `"gain"`, the inverse second moments, and `"seen"`, the samples behind them. `attach` must
    be called before the first sample, and `outputs` be set to the standardised outputs of the samples
    before every call of `observe`.
    """

    n_inputs: int
    n_outputs: int
    unscale: Array
    outputs: Array
    softness: float
    model: LocalModel | None
    figures: Array

    def attach(
        self, n_inputs: int, unscale: Array, softness: float, model: LocalModel | None, width: float
    ) -> None:
        """Tell which columns of the samples are inputs, and how cells overlap."""
        self.n_inputs = n_inputs
        self.unscale, self.softness, self.model = unscale, softness, model
        self.figures = np.zeros(N_FIGURES)
        self.figures[INPUT_DISTORTION] = width

    def _advance(
        self,
        samples: Array,
        labels: NDArray[np.int64],
        sample_weight: Array,
        looking: bool,
        models: Models | None = None,
    ) -> tuple[int, bool]:
        if self.model is not None:
            return self._advance_own(samples, labels, sample_weight, looking)
        book = self.codebook
        models = Models(
            self.outputs[len(self.outputs) - len(samples) :],
            self.n_inputs,
            self.unscale,
            book.payload[book.rows("theta")],
            book.payload[book.rows("gain")],
            book.payload[book.rows("seen")][0],
            float(self.softness),
            self.figures,
        )
        return super()._advance(samples, labels, sample_weight, looking, models)

    def end_level(self) -> None:
        """As for the annealer; then models forget, as their cells are about to move."""
        was_done = self.done
        super().end_level()
        if was_done or self.model is not None:
            return
        seen, gain = self.codebook["seen"][0], self.codebook["gain"]
        q = round(np.sqrt(len(gain)))
        room = GROWTH * q / RIDGE / gain[:: q + 1].sum(axis=0)
        factor = np.clip(seen / MEMORY, 1.0, np.maximum(room, 1.0))
        gain *= factor
        seen /= factor

    def _advance_own(
        self, samples: Array, labels: Any, sample_weight: Array, looking: bool
    ) -> tuple[int, bool]:
        """The same for a model of the user's own: one sample at a time, in Python."""
        outputs = self.outputs[len(self.outputs) - len(samples) :]
        for t in range(len(samples)):
            count = self.n - self.level_begun + 1
            squared = self._learn_own(samples[t, : self.n_inputs], outputs[t], float(sample_weight[t]))
            self.figures[ERROR] += (squared - self.figures[ERROR]) / count
            one = slice(t, t + 1)
            _, finished = super()._advance(samples[one], labels[one], sample_weight[one], looking)
            if finished:
                return t + 1, True
        return len(samples), False

    def _learn_own(self, inputs: Array, y: Array, weight: float) -> float:
        assert self.model is not None
        book, x = self.codebook, inputs * self.unscale
        distance, share = np.zeros(len(book)), np.empty((1, len(book)))
        add_distances(inputs, 0, self.n_inputs, book.location, len(book), distance)
        width = self.figures[INPUT_DISTORTION]
        compiled.associations(inputs[None, :], book.location, len(book), self.softness * width, share)
        self.figures[INPUT_DISTORTION] += FORGETTING * (distance.min() - width)
        theta = book["theta"]
        predicted = np.zeros(len(y))
        for i in np.flatnonzero(share[0] > LEAST_SHARE):
            own = np.ascontiguousarray(theta[:, i])
            predicted += share[0, i] * np.reshape(self.model.predict(own, x[None, :]), -1)
            theta[:, i] = self.model.update(own, x, y, float(min(1.0, weight * share[0, i])))
        return float(((y - predicted) ** 2).sum())

"""Linear logits in soft cells as predictions use them: log-probabilities by the fitted models."""

from typing import Any, NamedTuple

import numpy as np

from oda_rl._effects import Effects
from oda_rl._statistics import Ranks
from oda_rl._types import Array
from oda_rl.estimators.classification import kernels
from oda_rl.estimators.classification.book import log_probabilities
from oda_rl.estimators.regression.predictor import Predictor

NO_EFFECTS = Effects.none()


class LogitArrays(NamedTuple):
    """Arguments of `kernels.logit_log_proba` between the samples and the output."""

    ranks: tuple[Any, ...]
    effects: tuple[Any, ...]
    units: tuple[Any, ...]
    cells: tuple[Any, ...]

    @classmethod
    def of(cls, ranks: Ranks, predictor: Predictor) -> "LogitArrays":
        """Collect them; they are valid until the logits learn."""
        known, effects = predictor.scaling, predictor.effects or NO_EFFECTS
        d = ranks.knots.shape[1] + len(effects)

        def units(of_inputs: Array, of_classes: float) -> Array:
            return np.r_[of_inputs[:d], np.full(len(of_inputs) - d, of_classes)]

        # logits have no units, and no bounds
        inputs = (known.mean, 0.0), (known.deviation, 1.0), (known.metric, 1.0)
        bounds = (known.low, -np.inf), (known.high, np.inf)
        parts = tuple(units(*pair) for pair in (*inputs, *bounds))
        return cls((ranks.knots, ranks.scores), tuple(effects), parts, predictor.cells)


class LogitView(NamedTuple):
    """Ranks, cells and their logits, and the weights of densities and logits (see `LocalLogits`)."""

    ranks: Ranks
    predictor: Predictor
    density: float
    logits: float
    arrays: LogitArrays

    @classmethod
    def of(cls, ranks: Ranks, predictor: Predictor, density: float, logits: float) -> "LogitView":
        """A view with these parts."""
        return cls(ranks, predictor, density, logits, LogitArrays.of(ranks, predictor))

    def log_proba(self, samples: Array) -> Array:
        """Log-probabilities (n_samples, n_classes) by the logits."""
        out = np.empty((len(samples), len(self.predictor.location) - self.predictor.q + 1))
        kernels.logit_log_proba(samples, *self.arrays, out)
        return out

    def mixed(self, joint: Array, samples: Array) -> Array:
        """Weighted log-probabilities of raw samples by logits and, from `joint`, densities (eq. 35)."""
        logits = self.logits * self.log_proba(samples)
        if self.density == 0.0:
            return np.asarray(logits)
        return np.asarray(self.density * log_probabilities(joint) + logits)

    def frozen(self) -> "LogitView":
        """A copy whose predictions further learning does not change."""
        return self.of(self.ranks, self.predictor.frozen(), self.density, self.logits)

    def get_state(self) -> dict[str, Any]:
        """Return the state as plain values and arrays, for a model file."""
        parts = {"knots": self.ranks.knots, "predictor": self.predictor.get_state()}
        return {**parts, "density": self.density, "logits": self.logits}

    @classmethod
    def restored(cls, state: dict[str, Any]) -> "LogitView":
        """A view with the state that `get_state` returned."""
        knots = state["knots"]
        predictor = Predictor.restored(state["predictor"], 1 + knots.shape[1], None)
        return cls.of(Ranks(knots), predictor, float(state["density"]), float(state["logits"]))

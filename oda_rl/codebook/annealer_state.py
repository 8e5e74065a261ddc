"""The state of an annealer in a model file."""

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl._schema import GENERATOR
from oda_rl._validation import plain
from oda_rl.codebook.bifurcation import PAIRS, Pairs
from oda_rl.codebook.book import Codebook
from oda_rl.codebook.schedule import Level

# The schema of `Annealer.get_state`, for a codebook with n features and K cells.
_LEVEL = (*("float in (0, inf)", "count", "float in [0, inf)"), *["count"] * 4, ["float in [0, inf)"])
ANNEALER = {
    "t_max": "float in (0, inf)",
    "t_min": "float in (0, inf)",
    "max_codevectors": "count in [1, inf)",
    "tol_converge": "float in [0, inf)",
    "tol_merge": "float in [0, inf)",
    "min_weight": "float in [0, inf)",
    "perturbation": "float in (0, inf)",
    "check_every": "count in [1, inf)",
    "max_samples": "count in [1, inf)",
    "memory": "count",
    "min_samples": "count in [1, inf)",
    "harden": "bool",
    "only_effective": "bool",
    "phase": "float[2]",
    "temperature": "float in (0, inf)",
    "done": "bool",
    "remembered": "float in [0, inf)",
    "n": "count in [1, inf)",
    "distortion": "float in [0, inf)",
    "n_samples_seen": "count",
    "n_splits": "count",
    "n_merges": "count",
    "level_begun": "count in [1, inf)",
    "check_interval": "count in [1, inf)",
    "level_length": "count in [1, inf)",
    "history": [_LEVEL],
    "pairs": PAIRS,
    "rng": GENERATOR,
    "reference": "float[n, K]",
}


class StoredAnnealer:
    """Base class of `Annealer`: derived properties, and storing its state without the codebook."""

    codebook: Codebook
    history: list[Level]
    reference: NDArray[np.float64]
    phase: NDArray[np.float64]
    rng: np.random.Generator
    temperature: float
    _pairs: Pairs

    @property
    def is_measuring(self) -> bool:
        """Whether there are pairs of a perturbation that have not been measured yet."""
        return self._pairs.waiting

    @property
    def entropy(self) -> float:
        """H = -E sum_i p_i log p_i at the present temperature, from the averages `phase` (eq. 3).

        The entropy of the samples themselves, which does not depend on the codebook, is left out.
        """
        weights = self.codebook.weights / self.codebook.weights.sum()
        prior = float(np.sum(weights * np.log(weights)))
        return max(0.0, float(self.phase[0]) / self.temperature + float(self.phase[1]) - prior)

    def get_state(self) -> dict[str, Any]:
        """The learned state without the codebook, as nested plain values and arrays."""
        numbers = {name: plain(n) for name, n in vars(self).items() if isinstance(n, Real | np.bool_)}
        return numbers | {
            "history": [list(level) for level in self.history],
            "pairs": self._pairs.get_state(),
            "rng": self.rng.bit_generator.state,
            "reference": self.reference[:, : len(self.codebook)].copy(),
            "phase": self.phase.copy(),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore what `get_state` returned; the codebook must have been restored before."""
        for name, number in state.items():
            if isinstance(number, bool | int | float):
                setattr(self, name, number)
        self._pairs.set_state(state["pairs"])
        self.history = [Level._make([*record[:-1], tuple(record[-1])]) for record in state["history"]]
        self.rng.bit_generator.state = state["rng"]
        self.reference = self.codebook.location.copy()
        self.reference[:, : len(self.codebook)] = state["reference"]
        self.phase[:] = state["phase"]

"""Warm-ups: random actions at the beginning of a run, and what is learned from their observations."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl._types import Array
from oda_rl.agents import bounds
from oda_rl.envs.spaces import LARGEST

# A warm-up takes this fraction of a run, but at least, and at most, so many steps. The least shows which
# coordinates are noise (`recording.FEWEST`).
WARM_UP_FRACTION = 0.1
SHORTEST_WARM_UP, LONGEST_WARM_UP = 600, 3000


def plan_warm_up(given: int | None, horizon: float = np.inf) -> int:
    """Steps of the warm-up of a run of `horizon` steps, unless they are `given`."""
    return given or int(np.clip(WARM_UP_FRACTION * horizon, SHORTEST_WARM_UP, LONGEST_WARM_UP))


class WarmUp(ABC):
    """Observations collected under random actions, and the attributes that are learned from them.

    `seen` (warmup_steps, n_features) holds the observations, of which the first `n_seen` have been made.
    When the warm-up is over, it is empty and `is_known` is True.
    """

    n_seen: int

    def __init__(self, n_features: int, warmup_steps: int) -> None:
        self.is_known = False
        self.warmup_steps = warmup_steps
        self.n_features = n_features
        WarmUp._prepare(self)

    def observe(self, observation: NDArray[Any]) -> bool:
        """Store one observation; returns whether `seen` is full."""
        row = self.seen[self.n_seen]
        row[:] = observation  # converts to float64 first: other dtypes may not hold +-LARGEST
        np.clip(row, -LARGEST, LARGEST, out=row)
        self.n_seen += 1
        return self.n_seen == len(self.seen)

    def plan(self, steps: int) -> None:
        """Set the length of a warm-up; one that has begun is not made shorter."""
        if not self.is_known and (self.n_seen == 0 or steps > self.warmup_steps):
            seen, self.warmup_steps = self.seen[: self.n_seen], steps
            self._prepare()
            self._continue(seen)

    def _continue(self, seen: Array) -> None:
        """Continue an unfinished warm-up after these observations (n, n_features)."""
        self.n_seen = len(seen)
        self.seen[: self.n_seen] = seen

    def thin_out(self) -> None:
        """Keep every other observation, to make space for more."""
        kept = self.seen[: self.n_seen : 2].copy()
        self.n_seen = len(kept)
        self.seen[: self.n_seen] = kept

    def freeze(self) -> Array:
        """End the warm-up; returns its observations without outliers, in scaled units."""
        seen = bounds.cut_outliers(self.seen[: self.n_seen])
        self._learn(seen)
        self.is_known = True
        self._prepare()
        return self.scaled(seen)

    @abstractmethod
    def _learn(self, seen: Array) -> None:
        """Set the attributes that are learned from the observations."""

    @abstractmethod
    def scaled(self, observations: NDArray[Any]) -> Array:
        """Observations of shape (n, n_features) in scaled units."""

    @abstractmethod
    def restore(self, scaled: Array) -> Array:
        """Convert points from scaled units to the environment's own."""

    @abstractmethod
    def _learned(self) -> dict[str, Array]:
        """The attributes that the warm-up sets, by name."""

    def get_state(self) -> dict[str, Any]:
        """The learned attributes, and the steps and the observations of an unfinished warm-up."""
        learned = {name: array.copy() for name, array in self._learned().items()}
        seen = self.seen[: self.n_seen].copy()
        return {"is_known": self.is_known, "steps": self.warmup_steps, "seen": seen, **learned}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from the result of `get_state`."""
        self.is_known = bool(state["is_known"])
        self.warmup_steps = state["steps"]
        for name in self._learned():
            setattr(self, name, np.array(state[name], dtype=np.float64))
        self._prepare()
        if not self.is_known:
            self._continue(state["seen"])

    def _prepare(self) -> None:
        """Set up what depends on `is_known` and on the learned attributes."""
        self.seen = np.empty((0 if self.is_known else self.warmup_steps, self.n_features))
        self.n_seen = 0

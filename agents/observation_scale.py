"""The units in which distances between observations are measured."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl.envs.spaces import natural_scale

# A coordinate that never moved has no spread to divide by.
SMALLEST = 1e-8


class ObservationScale:
    """Centre and scale of each coordinate: from the user, or learned in a warm-up and then frozen.

    Parameters
    ----------
    low, high : ndarray of shape (n_features,)
        Bounds of the observation space; may be infinite.
    warmup_steps : int
        Observations to learn from.
    given : sequence of n_features floats, optional
        What counts as a large change of each coordinate, in its own units. Nothing is learned then but
        the centre.

    Attributes
    ----------
    centre, scale : ndarray of shape (n_features,)
        An observation is taken as (observation - centre) / scale.
    """

    def __init__(
        self,
        low: NDArray[Any],
        high: NDArray[Any],
        warmup_steps: int,
        given: Sequence[float] | None = None,
    ) -> None:
        self.low = np.asarray(low, dtype=np.float64)
        self.high = np.asarray(high, dtype=np.float64)
        n_features = len(self.low)
        self.given = None if given is None else np.asarray(given, dtype=np.float64)
        if self.given is not None and (
            self.given.shape != (n_features,) or not np.all(np.isfinite(self.given) & (self.given > 0))
        ):
            raise ValueError(
                f"observation_scale must be {n_features} positive numbers, one for each coordinate of "
                f"an observation; got {given}."
            )
        self.centre = np.zeros(n_features)
        self.scale = np.ones(n_features)
        self.warmup_steps = warmup_steps
        self.seen = np.empty((warmup_steps, n_features))
        self.n_seen = 0

    def observe(self, observation: NDArray[Any]) -> bool:
        """Take one observation of the warm-up; returns whether it is complete."""
        self.seen[self.n_seen] = observation
        self.n_seen += 1
        return self.n_seen == len(self.seen)

    def freeze(self) -> NDArray[np.float64]:
        """Fix centre and scale; returns the observations of the warm-up in scaled units."""
        seen = self.seen[: self.n_seen]
        self.centre = seen.mean(axis=0)
        learned = natural_scale(seen, self.low, self.high)
        self.scale = np.maximum(learned if self.given is None else self.given, SMALLEST)
        self.seen = np.empty((0, len(self.centre)))
        self.n_seen = 0
        return (seen - self.centre) / self.scale

    def restore(self, scaled: NDArray[np.float64]) -> NDArray[np.float64]:
        """Points in scaled units, of shape (n, n_features), in the environment's own."""
        return scaled * self.scale + self.centre

    def set_state(
        self, centre: NDArray[np.float64], scale: NDArray[np.float64], seen: NDArray[np.float64]
    ) -> None:
        """Go on with a centre, a scale, and the observations of an unfinished warm-up."""
        self.centre, self.scale = centre.copy(), scale.copy()
        self.n_seen = len(seen)
        self.seen = np.empty((self.warmup_steps, len(centre)))
        self.seen[: self.n_seen] = seen

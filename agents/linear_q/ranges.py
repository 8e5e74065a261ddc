"""The range of each coordinate, which the features of the baselines divide up."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl.agents.observation_scale import SMALLEST
from oda_rl.envs.spaces import LARGEST

# What a coordinate does under random actions is not all that it will do.
MARGIN = 0.1


class ObservationRange:
    """Lower and upper end of each coordinate: from the user, from the space, or seen in a warm-up.

    The warm-up takes place whether or not there is something unknown: it also tells the rewards.

    Coordinates are the entries of an observation that belong to no angle, and then the angles.

    Parameters
    ----------
    low, high : ndarray of shape (n_features,)
        Bounds of the observation space; may be infinite.
    warmup_steps : int
        Observations of the warm-up.
    given_low, given_high : sequence of n_features floats, optional
        The user's; an infinite one is none.
    angles : sequence of pairs of int
        Entries of an observation that are the cosine and the sine of an angle.

    Attributes
    ----------
    source : ndarray of int, shape (n_coordinates, 2)
        The entry of an observation, and -1; or those of cosine and sine.
    low, inverse : ndarray of shape (n_coordinates,)
        A coordinate is taken as (value - low) * inverse.
    is_known : bool
        Whether the warm-up is over.

    Raises
    ------
    ValueError
        If what is given does not fit the observations.
    """

    def __init__(
        self,
        low: NDArray[Any],
        high: NDArray[Any],
        warmup_steps: int,
        given_low: Sequence[float] | None = None,
        given_high: Sequence[float] | None = None,
        angles: Sequence[tuple[int, ...]] = (),
    ) -> None:
        n = len(low)
        in_angles = [i for pair in angles for i in pair]
        if any(i >= n for i in in_angles):
            raise ValueError(f"angles must be coordinates from 0 to {n - 1}, got {tuple(angles)}.")
        self.source = np.array(
            [(i, -1) for i in range(n) if i not in in_angles] + [tuple(pair) for pair in angles],
            dtype=np.int64,
        ).reshape(-1, 2)
        self.lower = self._choose("observation_low", given_low, low)
        self.upper = self._choose("observation_high", given_high, high)
        plain = self.source[:, 1] < 0
        if not np.all(self.lower[plain] < self.upper[plain]):
            raise ValueError(
                "observation_low must be below observation_high, or the space's bound, in each "
                f"coordinate; got {self.lower[plain]} and {self.upper[plain]}."
            )
        self.is_known = False
        self.warmup_steps = warmup_steps
        self.seen = np.empty((warmup_steps, n))
        self.n_seen = 0
        self.low, self.inverse = np.zeros(len(plain)), np.ones(len(plain))

    @property
    def is_angle(self) -> NDArray[np.bool_]:
        """Which coordinates wrap around."""
        angle: NDArray[np.bool_] = self.source[:, 1] >= 0
        return angle

    def observe(self, observation: NDArray[Any]) -> bool:
        """Take one observation of the warm-up; returns whether it is complete."""
        self.seen[self.n_seen] = observation
        self.n_seen += 1
        return self.n_seen == len(self.seen)

    def freeze(self) -> None:
        """Fix the range: the unknown ends are those of what was seen, and a margin."""
        seen = self.seen[: self.n_seen][:, self.source[:, 0]]
        low, high = seen.min(axis=0), seen.max(axis=0)
        margin = np.maximum(MARGIN * (high - low), SMALLEST)
        self.lower = np.where(np.isfinite(self.lower), self.lower, low - margin)
        self.upper = np.where(np.isfinite(self.upper), self.upper, high + margin)
        # What was seen can be beyond an end that was given.
        self.upper = np.maximum(self.upper, self.lower + SMALLEST)
        self.seen, self.n_seen = np.empty((0, self.seen.shape[1])), 0
        self.is_known = True
        self._fix()

    def restore(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Points in [0, 1], of shape (n, n_coordinates), in the environment's own units."""
        return u / self.inverse + self.low

    def set_state(
        self,
        is_known: bool,
        lower: NDArray[np.float64],
        upper: NDArray[np.float64],
        seen: NDArray[np.float64],
    ) -> None:
        """Go on with these ends, and the observations of an unfinished warm-up."""
        self.lower, self.upper = lower.copy(), upper.copy()
        self.is_known = is_known
        if is_known:
            self.seen, self.n_seen = np.empty((0, self.seen.shape[1])), 0
            self._fix()
        else:
            self.n_seen = len(seen)
            self.seen = np.empty((self.warmup_steps, self.seen.shape[1]))
            self.seen[: self.n_seen] = seen

    def _choose(
        self, name: str, given: Sequence[float] | None, bound: NDArray[Any]
    ) -> NDArray[np.float64]:
        """The user's ends where there are some, and the space's elsewhere."""
        ends = np.asarray(bound, dtype=np.float64)
        ends = np.where(np.abs(ends) < LARGEST, ends, np.copysign(np.inf, ends))
        if given is not None:
            wanted = np.array(given, dtype=np.float64)
            if wanted.shape != ends.shape:
                raise ValueError(
                    f"{name} must be {len(ends)} numbers, one for each coordinate of an observation; "
                    f"got {tuple(given)}."
                )
            ends = np.where(np.isfinite(wanted), wanted, ends)
        ends = ends[self.source[:, 0]]
        pi = -np.pi if name == "observation_low" else np.pi
        return np.where(self.is_angle, pi, ends)

    def _fix(self) -> None:
        self.low = self.lower.copy()
        self.inverse = 1.0 / (self.upper - self.lower)

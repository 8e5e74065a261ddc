"""The scale or the range of each coordinate of the observations, learned in a warm-up."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl._types import Array
from oda_rl.agents import bounds
from oda_rl.agents.warm_up import WarmUp
from oda_rl.envs.spaces import LARGEST, natural_scale

# Smallest range of a coordinate.
SMALLEST = 1e-8
# Coordinates of an `ObservationRange` are clipped at this many ranges from the lower end.
MOST_RANGES = 1e3
# Learned ranges are extended by this fraction at each end: later a coordinate may go further.
RANGE_MARGIN = 0.1
# The scale changes if the spread of a coordinate grows or shrinks by at least this factor.
OTHER = 1.5
# The scale of noise coordinates is multiplied by this factor, so that they count less in distances.
COARSE = 10.0
# That of coordinates that do not matter for rewards.
IRRELEVANT = 3.0


class ObservationScale(WarmUp):
    """Centre and scale of each coordinate: given by the user, or learned in a warm-up.

    Observations are converted to (observation - centre) / scale, and clipped at `bounds.MARGIN` widths
    beyond the ends `lowest` and `highest`. These are, in scaled units, the ends of the observations so
    far and of the bounds `low` and `high` of the space. All have the shape (n_features,).

    `given` has a large change of each coordinate, in its own units, as its scale; then the warm-up
    learns only the centre and the ends. Otherwise scales are multiplied by `coarse` (n_features,), which
    is `COARSE` for noise coordinates and `IRRELEVANT` for those that do not matter for rewards, both set
    by `coarsen`, and sqrt(n / 2) for one-hot coordinates of an entry with n values; `kinds`
    (n_features,) has these n, and 1 elsewhere. So the squared distances between many values are smaller
    than those between two. Otherwise each value would have cells of its own. Raises a ValueError if
    `given` does not fit the observations.

    `visited` (n, n_features) holds observations by which the scale will be estimated again, infinite
    where there are none yet; it is empty if the scale is not.
    """

    is_table = False
    visited: Array

    def __init__(
        self,
        low: NDArray[Any],
        high: NDArray[Any],
        warmup_steps: int,
        given: Sequence[float] | None = None,
        kinds: NDArray[np.int64] | None = None,
    ) -> None:
        super().__init__(len(low), warmup_steps)
        self.low = np.asarray(low, dtype=np.float64)
        self.high = np.asarray(high, dtype=np.float64)
        self.given = None if given is None else np.asarray(given, dtype=np.float64)
        if self.given is not None and (
            self.given.shape != self.low.shape or not np.all(np.isfinite(self.given) & (self.given > 0))
        ):
            raise ValueError(
                f"observation_scale must be {len(low)} positive numbers, one for each coordinate of "
                f"an observation; got {given}."
            )
        self.visited = np.empty((0, len(low)))
        self.centre = np.zeros(len(low))
        self.scale = np.ones(len(low))
        self._by_kind = np.ones(len(low)) if kinds is None else np.sqrt(np.maximum(kinds / 2.0, 1.0))
        self.coarse = self._by_kind
        self.lowest, self.highest = np.zeros(len(low)), np.zeros(len(low))

    @property
    def reach(self) -> Array:
        """The lowest and highest credible coordinates in scaled units, of shape (2, n_features)."""
        reach = bounds.MARGIN * np.maximum(self.highest - self.lowest, 1.0)
        return np.stack([self.lowest - reach, self.highest + reach])

    @property
    def ends(self) -> Array:
        """The lowest and highest credible coordinates in the environment's units, (2, n_features)."""
        return self.restore(self.reach)

    def scaled(self, observations: NDArray[Any]) -> Array:
        """Scale observations of shape (n, n_features), or one, and clip them to the credible range."""
        return np.asarray(np.clip((observations - self.centre) / self.scale, *self.reach))

    def restore(self, scaled: Array) -> Array:
        """Convert points of shape (n, n_features) from scaled units to the environment's own."""
        return scaled * self.scale + self.centre

    def count_from_low(self) -> None:
        """Skip the warm-up, for a table: scaled numbers are counted from their lower bounds."""
        self.centre = self.low.copy()
        self.highest = self.high - self.low
        self.is_known = self.is_table = True
        self._prepare()

    def coarsen(self, noise: NDArray[np.bool_], irrelevant: NDArray[np.bool_]) -> None:
        """Make the chosen coordinates, both (n_features,), count less, unless a scale is given."""
        factor = np.where(noise, COARSE, np.where(irrelevant, IRRELEVANT, 1.0))
        self.coarse = np.maximum(factor, self._by_kind)

    def _learn(self, seen: Array) -> None:
        self.centre = seen.mean(axis=0)
        learned = self.coarse * self._find_scale(seen) if self.given is None else self.given
        # A coordinate that never moved has no spread to divide by.
        self.scale = np.where(learned > 0.0, learned, 1.0)
        low = np.where(self.low > -LARGEST, self.low, np.inf)
        high = np.where(self.high < LARGEST, self.high, -np.inf)
        self._keep_ends(np.minimum(low, seen.min(axis=0)), np.maximum(high, seen.max(axis=0)))

    def _keep_ends(self, low: Array, high: Array) -> None:
        """Set `lowest` and `highest` from ends in the environment's units, by `centre` and `scale`."""
        ends, farthest = np.stack([low, high]), bounds.FARTHEST
        self.lowest, self.highest = np.clip((ends - self.centre) / self.scale, -farthest, farthest)

    def follow(self, visited: Array, remembered: Array) -> bool:
        """Learn centre and scale again, from recently `visited` observations (n, n_features).

        The `remembered` observations (m, n_features) are used in addition. Returns False and changes
        nothing unless the spread of a coordinate differs from its scale by the factor `OTHER`, in either
        direction. A coordinate that does not move keeps its scale. If there are remembered observations,
        so does one that comes near both of its bounds: these determine what is far, however rarely they
        are reached.
        """
        kept = 2.0 * self.coarse * visited.std(axis=0) <= SMALLEST * self.scale
        if len(remembered):
            kept |= self._fills_bounds(visited)
        seen = np.concatenate([visited, remembered])
        spread = np.where(kept, self.scale, 2.0 * self.coarse * seen.std(axis=0))
        if np.abs(np.log(spread / self.scale)).max() < np.log(OTHER):
            return False
        self.centre, self.scale = seen.mean(axis=0), spread
        self._keep_ends(seen.min(axis=0), seen.max(axis=0))
        return True

    def _fills_bounds(self, seen: Array) -> NDArray[np.bool_]:
        """Which coordinates (n_features,) have come within `RANGE_MARGIN` of both bounds."""
        with np.errstate(over="ignore", invalid="ignore"):
            margin = RANGE_MARGIN * (self.high - self.low)
            low, high = self.low + margin, self.high - margin
        is_bounded = np.isfinite(low) & np.isfinite(high) & (low < high)
        near = (seen.min(axis=0) <= low) & (seen.max(axis=0) >= high)
        return np.asarray(is_bounded & near)

    def _find_scale(self, seen: Array) -> Array:
        return natural_scale(seen, self.low, self.high)

    def _learned(self) -> dict[str, Array]:
        names = ("centre", "scale", "coarse", "lowest", "highest")
        return {name: getattr(self, name) for name in names}


class BlendedScale(ObservationScale):
    """An `ObservationScale` between the bounds and the spread of the observations.

    Bounds may be far wider than all values that occur (the velocities of Acrobot). The values under
    random actions may span far less than a policy needs (the position of a cart). So the scale of a
    bounded coordinate is the geometric mean of half its range and of the observed spread.

    It is estimated again while a policy is learned, unless it is given.
    """

    def _prepare(self) -> None:
        super()._prepare()
        follows = self.is_known and self.given is None and not self.is_table
        self.visited = np.full((self.warmup_steps if follows else 0, self.n_features), np.inf)

    def _find_scale(self, seen: Array) -> Array:
        by_bounds = natural_scale(seen, self.low, self.high)
        without = np.full(self.n_features, np.inf)
        spread = natural_scale(seen, -without, without)
        # A coordinate that did not move under random actions may move later.
        return np.where(spread > 0.0, np.sqrt(by_bounds * np.minimum(by_bounds, spread)), by_bounds)


class ObservationRange(WarmUp):
    """Lower and upper end of each coordinate: from the user, the space, or a warm-up.

    The warm-up takes place even if all ends are known, as it also collects the rewards.

    Coordinates are the entries of an observation that belong to no angle, followed by the `angles`,
    given as pairs of entries that are a cosine and a sine. `given_low` and `given_high` are the user's
    ends; an infinite one means not given. Raises a ValueError if they do not fit the observations.

    - `source` (n_coordinates, 2): index of the entry and -1, or indices of cosine and sine;
    - `is_angle` (n_coordinates,): which coordinates wrap around;
    - `lower`, `upper` (n_coordinates,): the ends; infinite if not known yet;
    - `low`, `inverse` (n_coordinates,): a coordinate is scaled to (value - low) * inverse.
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
        super().__init__(n, warmup_steps)
        in_angles = [i for pair in angles for i in pair]
        if any(i >= n for i in in_angles):
            raise ValueError(
                f"angles must be indices of coordinates, from 0 to {n - 1}, got {tuple(angles)}."
            )
        self.source = np.array(
            [(i, -1) for i in range(n) if i not in in_angles] + [tuple(pair) for pair in angles],
            dtype=np.int64,
        ).reshape(-1, 2)
        self.is_angle = self.source[:, 1] >= 0
        self._entries: Any = self.source[:, 0] if in_angles else slice(None)
        self.lower = self._choose("observation_low", given_low, low)
        self.upper = self._choose("observation_high", given_high, high)
        plain = ~self.is_angle
        # The range of a coordinate with a single value in the space is learned in the warm-up.
        only = np.where(np.asarray(low) == high, low, np.nan)[self.source[:, 0]]
        fixed = (self.lower == only) & (self.upper == only)
        self.lower[fixed], self.upper[fixed] = -np.inf, np.inf
        if not np.all(self.lower[plain] < self.upper[plain]):
            raise ValueError(
                "observation_low must be below observation_high, or the space's bound, in each "
                f"coordinate; got {self.lower[plain]} and {self.upper[plain]}."
            )
        self._prepare()

    def scaled(self, observations: NDArray[Any]) -> Array:
        """Scale observations of shape (n, n_features), without angles: [0, 1] within the range."""
        points = np.asarray(observations, dtype=np.float64)[:, self._entries]
        farthest = MOST_RANGES / self.inverse
        return np.ascontiguousarray(np.clip(points - self.low, -farthest, farthest) * self.inverse)

    def restore(self, scaled: Array) -> Array:
        """Convert points in [0, 1], of shape (n, n_coordinates), to the environment's own units."""
        return scaled / self.inverse + self.low

    def _learn(self, seen: Array) -> None:
        """Set the unknown ends to those of the observations, extended by a margin."""
        seen = seen[:, self._entries]
        low, high = seen.min(axis=0), seen.max(axis=0)
        margin = np.maximum(RANGE_MARGIN * (high - low), SMALLEST)
        self.lower = np.where(np.isfinite(self.lower), self.lower, low - margin)
        self.upper = np.where(np.isfinite(self.upper), self.upper, high + margin)
        # Observations may lie beyond an end that was given.
        self.upper = np.maximum(self.upper, self.lower + SMALLEST)

    def _learned(self) -> dict[str, Array]:
        return {"lower": self.lower, "upper": self.upper}

    def _prepare(self) -> None:
        super()._prepare()
        self.low, self.inverse = np.zeros(len(self.lower)), np.ones(len(self.lower))
        if self.is_known:
            self.low, self.inverse = self.lower.copy(), 1.0 / (self.upper - self.lower)

    def _choose(self, name: str, given: Sequence[float] | None, bound: NDArray[Any]) -> Array:
        """The user's ends if given, else the space's; -pi and pi for angles."""
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
        pi = -np.pi if name == "observation_low" else np.pi
        return np.where(self.is_angle, pi, ends[self.source[:, 0]])

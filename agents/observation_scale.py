"""What a warm-up tells about the observations: the scale or the range of each coordinate."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl.agents import bounds
from oda_rl.envs.spaces import LARGEST, natural_scale

Array = NDArray[np.float64]

# A range is never smaller.
SMALLEST = 1e-8
# No coordinate is further away than so many ranges.
FARTHEST = 1e3
# What a coordinate does under random actions is not all that it will do.
MARGIN = 0.1
# Observations of which a coordinate spreads so many times as far are of another scale.
OTHER = 1.5
# Noise counts as if it spread so many times less far.
COARSE = 10.0


class WarmUp(ABC):
    """Observations that are collected under random actions, and what follows from them.

    `seen` (warmup_steps, n_features) holds them, the first `n_seen` of which have been made; it is empty
    when the warm-up is over, and `is_known` is True.
    """

    n_seen: int

    def __init__(self, n_features: int, warmup_steps: int) -> None:
        self.is_known = False
        self.warmup_steps = warmup_steps
        self.n_features = n_features
        WarmUp._prepare(self)

    def observe(self, observation: NDArray[Any]) -> bool:
        """Take one observation; returns whether there are as many as wanted."""
        row = self.seen[self.n_seen]
        row[:] = observation  # whose own numbers may be too small for the bounds
        np.clip(row, -LARGEST, LARGEST, out=row)
        self.n_seen += 1
        return self.n_seen == len(self.seen)

    def thin_out(self) -> None:
        """Keep every other observation, so that there is room for more."""
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
        """Fix what the observations tell."""

    @abstractmethod
    def scaled(self, observations: NDArray[Any]) -> Array:
        """Observations of shape (n, n_features) in scaled units."""

    @abstractmethod
    def restore(self, scaled: Array) -> Array:
        """Points in scaled units in the environment's own."""

    @abstractmethod
    def _learned(self) -> dict[str, Array]:
        """The attributes that the warm-up fixes, by name."""

    def get_state(self) -> dict[str, Any]:
        """What is known, and the observations of an unfinished warm-up."""
        learned = {name: array.copy() for name, array in self._learned().items()}
        return {"is_known": self.is_known, "seen": self.seen[: self.n_seen].copy(), **learned}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from `get_state`."""
        self.is_known = bool(state["is_known"])
        for name in self._learned().keys() & state.keys():  # files of before do not have all
            setattr(self, name, np.array(state[name], dtype=np.float64))
        self._prepare()
        if not self.is_known:
            self.n_seen = len(state["seen"])
            self.seen[: self.n_seen] = state["seen"]

    def _prepare(self) -> None:
        """Follow `is_known` and what has been learned."""
        self.seen = np.empty((0 if self.is_known else self.warmup_steps, self.n_features))
        self.n_seen = 0


class ObservationScale(WarmUp):
    """Centre and scale of each coordinate: from the user, or learned in a warm-up and then frozen.

    An observation is taken as (observation - centre) / scale, at most `bounds.MARGIN` widths beyond the
    ends `lowest` and `highest` of what has been seen so far or is within the bounds, in scaled units;
    all are (n_features,). `low` and `high` (n_features,) are the bounds of its space; where `given`
    tells what counts as a large change of each coordinate, in its own units, nothing is learned but the
    centre. The scale of coordinates that `coarsen` tells is `COARSE` times as large: `coarse`
    (n_features,) has these factors. Raises a ValueError if it does not fit the observations.
    """

    def __init__(
        self,
        low: NDArray[Any],
        high: NDArray[Any],
        warmup_steps: int,
        given: Sequence[float] | None = None,
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
        self.centre = np.zeros(len(low))
        self.scale = np.ones(len(low))
        self.coarse = np.ones(len(low))
        self.lowest, self.highest = np.zeros(len(low)), np.zeros(len(low))

    @property
    def reach(self) -> Array:
        """The credible coordinates in scaled units, of shape (2, n_features)."""
        reach = bounds.MARGIN * np.maximum(self.highest - self.lowest, 1.0)
        return np.stack([self.lowest - reach, self.highest + reach])

    @property
    def ends(self) -> Array:
        """The lowest and highest coordinates that are credible, of shape (2, n_features)."""
        return self.restore(self.reach)

    def scaled(self, observations: NDArray[Any]) -> Array:
        """Observations of shape (n, n_features), or one, in scaled units, as far as credible."""
        return np.asarray(np.clip((observations - self.centre) / self.scale, *self.reach))

    def restore(self, scaled: Array) -> Array:
        """Points in scaled units, of shape (n, n_features), in the environment's own."""
        return scaled * self.scale + self.centre

    def count_from_low(self) -> None:
        """Leave the warm-up out: observations are numbers, counted from their lower bounds."""
        self.centre = self.low.copy()
        self.highest = self.high - self.low
        self.is_known = True
        self._prepare()

    def coarsen(self, noise: NDArray[np.bool_]) -> None:
        """Have coordinates that are `noise` (n_features,) hardly count, unless a scale is given."""
        self.coarse = np.where(noise, COARSE, 1.0)

    def _learn(self, seen: Array) -> None:
        self.centre = seen.mean(axis=0)
        learned = self.coarse * self._find_scale(seen) if self.given is None else self.given
        # A coordinate that never moved has no spread to divide by.
        self.scale = np.where(learned > 0.0, learned, 1.0)
        low = np.where(self.low > -LARGEST, self.low, np.inf)
        high = np.where(self.high < LARGEST, self.high, -np.inf)
        self._keep_ends(np.minimum(low, seen.min(axis=0)), np.maximum(high, seen.max(axis=0)))

    def _keep_ends(self, low: Array, high: Array) -> None:
        """Know how far out coordinates have been, in units that are known by now."""
        ends, farthest = np.stack([low, high]), bounds.FARTHEST
        self.lowest, self.highest = np.clip((ends - self.centre) / self.scale, -farthest, farthest)

    def follow(self, visited: Array, remembered: Array) -> bool:
        """Take the observations (n, n_features) that are visited now for what the warm-up told.

        Those that are `remembered` (m, n_features) count beside them. Nothing is done, and False
        returned, unless one coordinate spreads `OTHER` times as far as its scale, or less far by as
        much. One that does not move keeps its scale, and so does, where something is remembered, one
        that goes from bound to bound: these tell what is far there, however seldom it is.
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
        """Which coordinates, (n_features,), have been at most `MARGIN` of the range from both bounds."""
        with np.errstate(over="ignore", invalid="ignore"):
            margin = MARGIN * (self.high - self.low)
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
    """An `ObservationScale` half way between the bounds and what was seen.

    Bounds may be far wider than all that ever happens (the velocities of Acrobot), and what random
    actions show far narrower than what a policy needs (the position of a cart). So the scale of a
    bounded coordinate is the geometric mean of half its range and of the spread that was seen.
    """

    def _find_scale(self, seen: Array) -> Array:
        bounds = natural_scale(seen, self.low, self.high)
        without = np.full(self.n_features, np.inf)
        spread = natural_scale(seen, -without, without)
        # What did not move under random actions may move later.
        return np.where(spread > 0.0, np.sqrt(bounds * np.minimum(bounds, spread)), bounds)


class ObservationRange(WarmUp):
    """Lower and upper end of each coordinate: from the user, from the space, or seen in a warm-up.

    The warm-up takes place whether or not there is something unknown: it also tells the rewards.

    Coordinates are the entries of an observation that belong to no angle, and then the `angles`, given
    as pairs of entries that are a cosine and a sine. `given_low` and `given_high` are the user's ends;
    an infinite one is none. Raises a ValueError if they do not fit the observations.

    - `source` (n_coordinates, 2), the entry of an observation, and -1; or those of cosine and sine;
    - `is_angle` (n_coordinates,), which coordinates wrap around;
    - `lower`, `upper` (n_coordinates,), the ends; infinite where they are not known yet;
    - `low`, `inverse` (n_coordinates,): a coordinate is taken as (value - low) * inverse.
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
            raise ValueError(f"angles must be coordinates from 0 to {n - 1}, got {tuple(angles)}.")
        self.source = np.array(
            [(i, -1) for i in range(n) if i not in in_angles] + [tuple(pair) for pair in angles],
            dtype=np.int64,
        ).reshape(-1, 2)
        self.is_angle = self.source[:, 1] >= 0
        self._entries: Any = self.source[:, 0] if in_angles else slice(None)
        self.lower = self._choose("observation_low", given_low, low)
        self.upper = self._choose("observation_high", given_high, high)
        plain = ~self.is_angle
        # Of a coordinate that the space lets have one value alone the ends tell no range: it is seen.
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
        """Observations of shape (n, n_features), without angles, in [0, 1] as far as within range."""
        points = np.asarray(observations, dtype=np.float64)[:, self._entries]
        farthest = FARTHEST / self.inverse
        return np.ascontiguousarray(np.clip(points - self.low, -farthest, farthest) * self.inverse)

    def restore(self, scaled: Array) -> Array:
        """Points in [0, 1], of shape (n, n_coordinates), in the environment's own units."""
        return scaled / self.inverse + self.low

    def _learn(self, seen: Array) -> None:
        """The unknown ends are those of what was seen, and a margin."""
        seen = seen[:, self._entries]
        low, high = seen.min(axis=0), seen.max(axis=0)
        margin = np.maximum(MARGIN * (high - low), SMALLEST)
        self.lower = np.where(np.isfinite(self.lower), self.lower, low - margin)
        self.upper = np.where(np.isfinite(self.upper), self.upper, high + margin)
        # What was seen can be beyond an end that was given.
        self.upper = np.maximum(self.upper, self.lower + SMALLEST)

    def _learned(self) -> dict[str, Array]:
        return {"lower": self.lower, "upper": self.upper}

    def _prepare(self) -> None:
        super()._prepare()
        self.low, self.inverse = np.zeros(len(self.lower)), np.ones(len(self.lower))
        if self.is_known:
            self.low, self.inverse = self.lower.copy(), 1.0 / (self.upper - self.lower)

    def _choose(self, name: str, given: Sequence[float] | None, bound: NDArray[Any]) -> Array:
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
        pi = -np.pi if name == "observation_low" else np.pi
        return np.where(self.is_angle, pi, ends[self.source[:, 0]])

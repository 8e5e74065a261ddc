"""Shared by the wrappers of `oda_rl.envs.aggregation`: observations in, numbers of cells out."""

import copy
import os
from typing import Any, Literal, get_args

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from oda_rl._validation import check_at_least, check_flag, check_non_negative
from oda_rl.codebook.identities import Birth
from oda_rl.envs.spaces import natural_scale
from oda_rl.estimators.online_assignment import CellFinder
from oda_rl.estimators.partition import ODAPartition

Partition = ODAPartition | str | os.PathLike[str] | None

DEFAULT_STATES = 100
# Observations that are learned from at a time; this is faster and gives the same codebook
CHUNK = 64
# Default multiples of the temperature at which associations are computed. Those at a higher temperature
# are nearly linear in the observation, from which a network learns better if it can tell them apart.
SOFTNESS = {"association": 4.0, "features": 16.0}
Encoding = Literal["number", "one_hot", "codevector", "association", "features"]


class Aggregator:
    """Finds the cell of every observation, and learns from observations while `learn` is True.

    At most `n_at_once` observations arrive at a time. `space` is that of one observation; the other
    parameters are as for `StateAggregation`. Numbers of cells are below `max_states`.
    """

    def __init__(
        self,
        space: spaces.Space,
        partition: Partition,
        learn: bool,
        max_states: int | None,
        warmup_steps: int,
        n_at_once: int = 1,
    ) -> None:
        self.space = _check_space(space)
        check_at_least(2, warmup_steps=warmup_steps)
        check_flag(learn=learn)
        if max_states is not None:
            check_at_least(1, max_states=max_states)
        self.learn = bool(learn)
        self._partition = _own_copy(partition, max_states)
        self._partition.forgetting = None  # states keep their numbers even if the observations drift
        self._cells: CellFinder | None = None
        n_features = int(np.prod(self.space.shape))
        if hasattr(self._partition, "codevectors_"):
            self.max_states = self._fit_states(max_states, n_features)
            self._start_cells()
            self.births.clear()
        elif not self.learn:
            raise ValueError(
                f"learn=False needs a fitted partition or the path of one, got partition={partition!r}."
            )
        else:
            self.max_states = max_states or self._partition.max_codevectors
        self._partition.max_codevectors = min(self._partition.max_codevectors, self.max_states)
        self._warmup_steps = warmup_steps
        self._rows = _empty_rows(warmup_steps, n_at_once, n_features)
        self._n = 0

    # -- reading ---------------------------------------------------------------------------------

    @property
    def partition(self) -> ODAPartition:
        """The partition with all that has been learned; not fitted yet during the warm-up."""
        if self._cells is not None:
            self._cells.publish()
        return self._partition

    @property
    def n_states(self) -> int:
        """Cells at present."""
        return 1 if self._cells is None else len(np.unique(self._cells.ids))

    @property
    def births(self) -> list[Birth]:
        """States that have split off from others, in order of time."""
        return [] if self._cells is None else self._cells.births

    def revert(self, states: ArrayLike) -> NDArray[Any]:
        """The codevectors of some states, of shape (*states.shape, *space.shape)."""
        wanted = _whole_numbers(states)
        ids, points = self.cells()
        place = np.full(self.max_states, -1)
        place[ids] = np.arange(len(ids))
        known = (wanted >= 0) & (wanted < self.max_states)
        known &= place[np.where(known, wanted, 0)] >= 0
        if not known.all():
            raise ValueError(
                f"states must be current states, {sorted(ids.tolist())}, got "
                f"{wanted[~known].ravel()[0]}."
            )
        found = points[place[wanted]].reshape(wanted.shape + self.space.shape)
        dtype = self.space.dtype
        return found.astype(dtype) if np.issubdtype(dtype, np.floating) else found

    def cells(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The numbers (n,) of the present cells, and their codevectors (n, n_features)."""
        if self._cells is not None:
            return self._cells.ids, self._cells.codevectors
        seen = self._rows[: self._n]
        points = seen.mean(axis=0, keepdims=True) if len(seen) else np.zeros((1, seen.shape[1]))
        return np.zeros(1, dtype=np.int64), points

    def shares(self, observations: Any, softness: float) -> NDArray[np.float64]:
        """Association probabilities (n, n_cells) of all cells, at `softness` times their temperature."""
        rows = np.reshape(observations, (-1, self._rows.shape[1])).astype(np.float64)
        return np.ones((len(rows), 1)) if self._cells is None else self._cells.associate(rows, softness)

    def set_learn(self, learn: bool) -> None:
        """Turn learning on or off; a ValueError if it is turned off in the warm-up, or no boolean."""
        check_flag(learn=learn)
        if not learn and self._cells is None:
            raise ValueError(
                "learn cannot be set to False during the warm-up: there is no partition yet."
            )
        self.learn = bool(learn)

    # -- every step ------------------------------------------------------------------------------

    def find(self, observation: Any) -> int:
        """The state of one observation."""
        n = self._n
        self._rows[n] = self._checked(observation, self.space.shape).ravel()
        if self._cells is None:
            self._warm_up(n, n + 1)
            return 0
        try:
            state = int(self._cells.find(self._rows, n, n + 1)[0])
        except ValueError as error:
            raise _bad_observation(observation, error) from None
        if self.learn:
            self._n = n + 1
            if self._n >= CHUNK:
                self._learn()
        return state

    def find_many(self, observations: Any, new: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """The states of several observations; learn from those that are `new`, by default all."""
        seen = np.asarray(observations)
        points = self._checked(seen, (*seen.shape[:1], *self.space.shape)).reshape(len(seen), -1)
        n, last = self._n, self._n + len(points)
        self._rows[n:last] = points
        kept = len(points) if new is None else int(np.sum(new))
        if self._cells is None:
            if new is not None:
                self._rows[n : n + kept] = points[new]
            self._warm_up(n, n + kept)
            return np.zeros(len(points), dtype=np.int64)
        try:
            states = self._cells.find(self._rows, n, last).copy()
        except ValueError as error:
            raise _bad_observation(observations, error) from None
        if self.learn:
            if new is not None:
                self._rows[n : n + kept] = self._rows[n:last][new]
            self._n = n + kept
            if self._n >= CHUNK:
                self._learn()
        return states

    # -- inside ----------------------------------------------------------------------------------

    def _checked(self, observation: Any, shape: tuple[int, ...]) -> NDArray[Any]:
        """Return the observations as an array; raise a ValueError if it does not have this `shape`."""
        found = np.asarray(observation)
        if found.shape != shape:
            raise ValueError(
                f"the environment returned an observation of shape {found.shape}, but the shape of "
                f"its observation_space is {shape}."
            )
        return found

    def _learn(self) -> None:
        assert self._cells is not None
        self._cells.learn(self._rows[: self._n])
        self._n = 0

    def _warm_up(self, start: int, stop: int) -> None:
        """Collect new observations; after the last of the warm-up, start the codebook."""
        new = self._rows[start:stop]
        if not np.isfinite(new).all():
            raise _bad_observation(new, None)
        self._n = stop
        if stop < self._warmup_steps:
            return
        seen, partition = self._rows[:stop], self._partition
        if partition.scale is None:
            scale = natural_scale(seen, self.space.low.ravel(), self.space.high.ravel())
            partition.scale = np.where(scale > 0.0, scale, 1.0)
        partition.partial_fit(seen)
        self._start_cells()
        self._n = 0

    def _start_cells(self) -> None:
        self._cells = CellFinder(self._partition)
        self._cells.allow(self.max_states)

    def _fit_states(self, max_states: int | None, n_features: int) -> int:
        """The most states that a fitted partition may have; a ValueError if it does not fit."""
        partition = self._partition
        if partition.n_features_in_ != n_features:
            raise ValueError(
                f"partition must have {n_features} features, as an observation does, got "
                f"{partition.n_features_in_}."
            )
        identities: Any = partition._run.identities
        needed = max(identities.n_given, partition.n_codevectors_)
        if max_states is None:
            return max(identities.limit, needed)
        if max_states < needed:
            raise ValueError(
                f"max_states must be at least {needed}, as the cells of the partition are numbered up "
                f"to {needed - 1}, got {max_states}."
            )
        return max_states


class StateEncoder:
    """Converts observations to states in an `encoding`; parameters are as for `StateAggregation`.

    `space` is the space of one state.
    """

    def __init__(self, aggregator: Aggregator, encoding: Encoding, softness: float | None) -> None:
        if encoding not in get_args(Encoding):
            raise ValueError(f"encoding must be one of {get_args(Encoding)}, got {encoding!r}.")
        if softness is not None:
            check_non_negative(softness=softness)
        self._aggregator = aggregator
        self._encoding = encoding
        self._softness = find_softness(encoding, softness)
        self.space = _encoded_space(aggregator, encoding)

    def encode(self, observation: Any) -> Any:
        """The state of one observation; learn from the observation if learning is on."""
        if self._encoding == "number":
            return self._aggregator.find(observation)
        return self.encode_many(np.asarray(observation)[None])[0]

    def encode_many(self, observations: Any, new: NDArray[np.bool_] | None = None) -> NDArray[Any]:
        """The states of several observations; learn from those that are `new`, by default all."""
        states = self._aggregator.find_many(observations, new)
        if self._encoding == "number":
            return states
        ids, points = self._aggregator.cells()  # after learning, in which cells may have merged
        shares = self._aggregator.shares(observations, self._softness)
        found = np.zeros((len(states), *self.space.shape), dtype=np.float32)  # type: ignore[misc]
        if self._encoding == "codevector":
            found[:] = points[shares.argmax(axis=1)].reshape(found.shape)
        else:
            np.add.at(found.T, ids, shares.T)
        if self._encoding == "features":  # a network cannot tell small shares apart
            found = np.minimum(found / np.linalg.norm(found, axis=1, keepdims=True), np.float32(1.0))
        return found


def _encoded_space(aggregator: Aggregator, encoding: Encoding) -> spaces.Space:
    """The space of one state in an encoding."""
    if encoding == "codevector":
        return spaces.Box(-np.inf, np.inf, aggregator.space.shape, np.float32)
    n = aggregator.max_states
    try:
        return spaces.Discrete(n) if encoding == "number" else spaces.Box(0.0, 1.0, (n,), np.float32)
    except (MemoryError, OverflowError, ValueError):  # the latter if the number of bytes overflows
        raise ValueError(
            f"max_states must be a number of states that fit into memory, got {n}."
        ) from None


def find_softness(encoding: Encoding, given: float | None) -> float:
    """The softness of an encoding, by default its own; 0 if it does not use associations."""
    usual = SOFTNESS.get(encoding, 0.0)
    return usual if given is None or not usual else given


def _whole_numbers(states: ArrayLike) -> NDArray[np.integer]:
    try:
        found = np.asarray(states)
    except ValueError:  # rows of different lengths
        found = np.empty(1, dtype=object)
    if found.size == 0:
        return found.astype(np.int64)
    if not np.issubdtype(found.dtype, np.integer):
        raise ValueError(f"states must be integers, the numbers of current states, got {states!r}.")
    return found


def _empty_rows(warmup_steps: int, n_at_once: int, n_features: int) -> NDArray[np.float64]:
    """Room for the observations of the warm-up, or of a chunk, and for those of another step."""
    try:
        return np.empty((max(warmup_steps, CHUNK) + n_at_once, n_features))
    except (MemoryError, ValueError):  # the latter if the number of bytes overflows
        raise ValueError(
            f"warmup_steps must be a number of observations that fit into memory, got {warmup_steps}."
        ) from None


def _check_space(space: spaces.Space) -> spaces.Box:
    if isinstance(space, spaces.Box) and np.prod(space.shape) > 0:
        return space
    advice = ""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        advice = " Wrap the environment in gymnasium.wrappers.FlattenObservation first."
    elif isinstance(space, spaces.Discrete):
        advice = " Discrete states need no aggregation."
    raise ValueError(f"Observation space {space} is not supported; a Box is accepted.{advice}")


def _own_copy(partition: Partition, max_states: int | None) -> ODAPartition:
    """Make a partition that may be changed, leaving the caller's as it is."""
    if partition is None:
        # No rehearsal of the latest 200 observations: they are correlated, from an episode or two.
        most = max_states or DEFAULT_STATES
        return ODAPartition(most, samples_per_cell=25, rehearse=False, random_state=0)
    if isinstance(partition, str | os.PathLike):
        return ODAPartition.load(partition)
    if not isinstance(partition, ODAPartition):
        raise TypeError(
            "partition must be an ODAPartition, fitted or not, the path of a model file, or None; got "
            f"{partition!r}."
        )
    fitted = hasattr(partition, "codevectors_")
    own: ODAPartition = copy.deepcopy(partition) if fitted else clone(partition)
    return own


def _bad_observation(observation: Any, error: ValueError | None) -> ValueError:
    reason = "it must be finite" if error is None else str(error).rstrip(".")
    return ValueError(f"the environment returned the observation {np.asarray(observation)}: {reason}.")

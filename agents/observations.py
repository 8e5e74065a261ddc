"""Conversion of an environment's observations to rows of numbers for a learner, always checked."""

from collections.abc import Iterator
from functools import reduce
from math import prod
from operator import getitem
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from oda_rl._types import Array
from oda_rl.agents.observation_parts import (
    MOST_STATES,
    Part,
    are_kinds,
    check_size,
    entries_of,
    goal_of,
    leaves_of,
    minus,
    origin_of,
    refuse_to_read,
    shorten,
    spaces_in,
    values_of,
)
from oda_rl.envs.names import observation_names

# Most combinations of the values of several parts in a table
MOST_TABLE_STATES = 10_000
WHOLE = int | np.integer


class BadTransitionError(ValueError):
    """The environment returned no transition, or one that is not finite or not of its spaces."""


class ObservationCodec:
    """The observations of an environment as a learner receives them: rows of numbers, float64.

    If all parts of an observation are discrete and have few enough combinations, a row has one number
    for each discrete entry, as the environment returns it, and a learner can keep a table. (If float64
    would round it, it is counted from its first value.) Otherwise each discrete entry becomes one-hot,
    in the same row as the numbers of the Boxes. A MultiDiscrete with entries of more than `MOST_KINDS`
    values stays numbers, as so many are hardly kinds, but positions or amounts. "desired_goal" in a Dict
    becomes its difference from "achieved_goal": what is learned for one goal then holds for others.

    Parameters
    ----------
    space : gymnasium.Space
        Discrete, MultiDiscrete, MultiBinary, a Box of any shape, or a Dict or Tuple of these.
    table : bool, default=True
        Whether the learner can keep a table.

    Attributes
    ----------
    n_features : int
        Count of numbers in a row.
    low, high : ndarray of shape (n_features,)
        Their bounds; may be infinite.
    counts : ndarray of int, shape (n_features,) or (0,)
        For a table, how many values each number can have, counted from `low`.
    kinds : ndarray of int, shape (n_features,)
        How many values the entry has of which a number is a one-hot value; 1 for other numbers.
    whole : ndarray of bool, shape (n_features,)
        Whether a number is whole: in a table, or from a Box of integers.
    goal : tuple of two slices, or None
        Columns of the desired goal and of the achieved one.
    normalization : Normalization or None
        If set, observations are given as it has normalised them, and converted back first.

    Raises
    ------
    ValueError
        If the space is not supported; the message says what is.

    Examples
    --------
    >>> codec = ObservationCodec(spaces.Tuple([spaces.Discrete(3), spaces.Discrete(2, start=1)]))
    >>> codec.counts, codec.encode((2, 1))
    (array([3, 2]), array([2., 1.]))
    >>> codec = ObservationCodec(spaces.Dict(place=spaces.Discrete(3), speed=spaces.Box(-1, 1, (2,))))
    >>> codec.encode({"place": 1, "speed": [0.5, -0.5]})
    array([ 0. ,  1. ,  0. ,  0.5, -0.5])
    """

    def __init__(self, space: spaces.Space, table: bool = True) -> None:
        self.space = space
        leaves = leaves_of(space)
        self._paths = [path for path, _ in leaves]
        self._tuples = [(at, len(one)) for at, one in spaces_in(space) if isinstance(one, spaces.Tuple)]
        kinds = [values_of(leaf) for _, leaf in leaves]
        counts = np.concatenate([count for count, _ in kinds]) if kinds else np.empty(0, dtype=np.int64)
        states, discrete = float(np.prod(counts, dtype=float)), all(len(count) for count, _ in kinds)
        most = MOST_STATES if isinstance(space, spaces.Discrete) else MOST_TABLE_STATES
        self.is_table = table and discrete and 0 < states <= most
        self.parts: list[Part] = []
        first = 0
        for place, ((path, leaf), (count, start)) in enumerate(zip(leaves, kinds, strict=True)):
            name = ".".join(map(str, path))
            size = int(np.prod(leaf.shape or ()))
            hot = not self.is_table and are_kinds(leaf, count)
            size = int(count.sum()) if hot else size
            check_size(space, leaf, size, hot)
            size = self._width_of(place, size, len(count) == 0)
            columns, origin = slice(first, first + size), origin_of(count, start)
            self.parts.append(Part(place, name, leaf, columns, count, start, origin, hot))
            first += size
        if first == 0:
            raise ValueError(f"Observation space {space} is not supported: it is empty.")
        self.goal = goal_of(self.parts)
        self.n_features = self._width = first
        self.low, self.high = map(np.concatenate, zip(*map(self._ends, self.parts), strict=True))
        self.counts = counts if self.is_table else np.empty(0, dtype=np.int64)
        self.whole, self.kinds = np.full(first, self.is_table), np.ones(first, dtype=np.int64)
        for part in self.parts:
            if part.is_one_hot:
                self.kinds[part.columns] = np.repeat(part.counts, part.counts)
            if part.is_numeric and self.low[part.columns].size == prod(part.space.shape or ()):
                self.whole[part.columns] = np.dtype(part.space.dtype).kind != "f"
        self.normalization: Any = None
        self._is_flat = isinstance(space, spaces.Box) and len(space.shape) == 1
        self._is_state = isinstance(space, spaces.Discrete) and self.is_table
        self._is_number = self._is_state and not self.parts[0].origin.any()

    # -- encoding --------------------------------------------------------------------------------

    def encode(self, observation: Any) -> NDArray[Any]:
        """The row of an observation, of shape (n_features,).

        Raises
        ------
        BadTransitionError
            If it does not belong to the space; numbers may lie outside of the bounds of a Box.
        """
        if self.normalization is None and self._is_flat and type(observation) is np.ndarray:
            if observation.shape == self.space.shape and observation.dtype == self.space.dtype:
                return observation  # fast path, for every step of most environments
        elif self._is_number and isinstance(observation, WHOLE):
            row = np.array([observation], dtype=np.float64)
            if self.low[0] <= observation <= self.high[0]:
                return row
        try:
            return self._rows(self._split(observation), ())
        except (TypeError, ValueError, LookupError, OverflowError) as error:
            raise self._refuse("the observation", observation, error) from None

    def encode_many(self, observations: Any, n: int) -> NDArray[Any]:
        """The rows of `n` observations as a VecEnv returns them, of shape (n, n_features).

        They are an array, or a dict or tuple of arrays. Raises as `encode` does.
        """
        try:
            return self._rows(self._split(observations), (n,))
        except (TypeError, ValueError, LookupError, OverflowError) as error:
            raise self._refuse(f"the {n} observations", observations, error) from None

    def read(self, observation: Any) -> tuple[NDArray[Any], bool]:
        """The rows of one observation or of several, and whether it was one.

        As in Stable-Baselines3, images may have their channels first or last.

        Raises
        ------
        ValueError
            If it is neither.
        """
        try:
            pairs = zip(self.parts, self._split(observation), strict=True)
            values = [self._turn(part, value) for part, value in pairs]
            outer = {
                array.shape[: array.ndim - len(part.space.shape or ())]
                for part, array in zip(self.parts, values, strict=True)
            }
            batch = outer.pop()
            if outer or len(batch) > 1:
                raise ValueError("the shapes of its parts do not match")
            rows = self._rows(values, batch)
        except (TypeError, ValueError, LookupError, OverflowError) as error:
            raise refuse_to_read(self.space, observation, error) from None
        return (rows if batch else rows[None]), not batch

    def batch(self, observation: Any, copy: bool = False) -> Any:
        """Convert an observation to the form in which a VecEnv of one environment returns it.

        If `copy`, a later change of the observation does not change the result.
        """
        to_array = np.array if copy else np.asarray
        if isinstance(self.space, spaces.Dict):
            return {key: to_array(observation[key])[None] for key in self.space}
        if isinstance(self.space, spaces.Tuple):
            return tuple(to_array(value)[None] for value in observation)
        return to_array(observation)[None]

    def fits(self, size: int) -> bool:
        """Whether an observation of this size, as compiled dynamics write it, is a row already."""
        return self._is_number or (isinstance(self.space, spaces.Box) and size == self.n_features)

    def nearest(self, points: Array) -> Array:
        """Round points (n, n_features) to rows: to whole numbers where needed, and to a Box's dtype."""
        whole = np.clip(np.round(points), self.low, self.high)
        found = np.where(self.whole, whole, points)
        if isinstance(self.space, spaces.Box) and np.issubdtype(self.space.dtype, np.floating):
            found = found.astype(self.space.dtype)
        return np.ascontiguousarray(found, dtype=np.float64)

    def other_values(self, row: Array) -> Iterator[tuple[int, Array]]:
        """Yield (column, row) for each row (n_features,) with another value of one discrete entry.

        The column is that of the entry, or of its new value if it is one-hot. Entries of a MultiDiscrete
        that stays numbers are not discrete in this sense: between two values there are others.
        """
        for part in () if self.is_table else self.parts:
            if part.is_numeric:
                continue
            first = part.columns.start
            for count in part.counts.tolist():
                size = count if part.is_one_hot else 1
                block = row[first : first + size]
                values = np.eye(count) if part.is_one_hot else np.arange(float(count))[:, None]
                for value, numbers in enumerate(values):
                    if (numbers != block).any():
                        other = row.copy()
                        other[first : first + size] = numbers
                        yield first + (value if part.is_one_hot else 0), other
                first += size

    # -- names -----------------------------------------------------------------------------------

    def names(self, env_id: str | None) -> list[str]:
        """Names of the numbers of a row: with units if they are known, "goal = 2" if one-hot.

        Discrete numbers that are counted from an `origin` have it in their names: "state - 2".
        """
        n = sum(int(np.prod(part.space.shape or ())) for part in self.parts)
        known = observation_names(env_id, n)
        own = [name for part in self.parts for name in entries_of(part)]
        if known[0] != "observation[0]" or not (self.parts[0].name or self._is_state):
            own = known
        names, k = [], 0
        for part in self.parts:
            entries = own[k : k + int(np.prod(part.space.shape or ()))]
            k += len(entries)
            if not part.is_one_hot:
                if len(part.counts) > 0:
                    entries = [minus(*pair) for pair in zip(entries, part.origin.tolist(), strict=True)]
                names += entries if self.is_table else self._names_in_row(part, entries)
            else:
                for name, count, start in zip(entries, part.counts, part.start, strict=True):
                    names += [f"{name} = {start + value}" for value in range(count)]
        if self.goal:
            desired, achieved = self.goal
            names[desired] = map(" - ".join, zip(names[desired], names[achieved], strict=True))
        return names

    # -- inside ----------------------------------------------------------------------------------

    def _split(self, observation: Any) -> list[Any]:
        """The values of the parts, in the units of the environment."""
        if self.normalization is not None:
            observation = self.normalization.undo(observation)
        for path, n in self._tuples:
            if len(values := reduce(getitem, path, observation)) != n:
                raise ValueError(f"it has {len(values)} parts instead of {n}")
        return [reduce(getitem, path, observation) for path in self._paths]

    def _turn(self, part: Part, value: Any) -> NDArray[Any]:
        array = np.asarray(value)
        if part.space.dtype != np.uint8 or len(part.space.shape or ()) != 3:
            return array
        # imports torch, which explanations do not need
        from stable_baselines3.common.preprocessing import is_image_space, maybe_transpose

        return maybe_transpose(array, part.space) if is_image_space(part.space) else array

    def _rows(self, values: list[Any], outer: tuple[int, ...]) -> Array:
        rows = np.zeros((*outer, self._width))
        for part, value in zip(self.parts, values, strict=True):
            if not outer and isinstance(value, WHOLE) and isinstance(part.space, spaces.Discrete):
                self._put_state(rows, part, int(value))  # without arrays, which take far longer
                continue
            array, shape = np.asarray(value), outer + tuple(part.space.shape or ())
            if array.shape != shape:
                where = f" of {part.name!r}" if part.name else ""
                raise ValueError(f"the shape{where} is {array.shape} instead of {shape}")
            if array.dtype.kind not in "fiubO":
                raise TypeError(f"the dtype {array.dtype} does not hold real numbers")
            entries = array.reshape(*outer, prod(shape[len(outer) :]))
            is_discrete = len(part.counts) > 0
            numbers = self._place(part, entries) if is_discrete else entries.astype(np.float64)
            rows[..., part.columns] = self._in_row(part, numbers)
        if self.goal:
            rows[..., self.goal[0]] -= rows[..., self.goal[1]]
        return rows

    @staticmethod
    def _put_state(row: Array, part: Part, value: int) -> None:
        """Check the value of a Discrete, and put it into the row."""
        index = value - int(part.start[0])
        if not 0 <= index < part.counts[0]:
            raise ValueError(f"{value} is not in {part.space}")
        first = part.columns.start
        if part.is_one_hot:
            row[first + index] = 1.0
        else:
            row[first] = value - int(part.origin[0])

    # For subclasses to override: the count of numbers of a part in a row, the numbers, and their names.

    def _width_of(self, place: int, n_numbers: int, is_box: bool) -> int:
        return n_numbers

    def _in_row(self, part: Part, numbers: Array) -> Array:
        return numbers

    def _names_in_row(self, part: Part, entries: list[str]) -> list[str]:
        return entries

    def _place(self, part: Part, values: NDArray[Any]) -> Array:
        """Check discrete values, and convert them to their numbers in the row."""
        exact = values.astype(np.int64 if values.dtype.kind in "iub" else np.float64)
        index = exact - part.start
        if not ((index >= 0) & (index < part.counts) & (index == np.floor(index))).all():
            raise ValueError(f"{exact.tolist()} is not in {part.space}")
        if not part.is_one_hot:
            return (exact - part.origin).astype(np.float64)
        hot = np.zeros((*index.shape[:-1], int(part.counts.sum())))
        ends = np.cumsum(part.counts) - part.counts
        np.put_along_axis(hot, (index + ends).astype(np.int64), 1.0, axis=-1)
        return hot

    def _ends(self, part: Part) -> tuple[Array, Array]:
        if not len(part.counts):
            space: Any = part.space
            low, high = space.low.ravel().astype(np.float64), space.high.ravel().astype(np.float64)
            is_difference = self.goal and part.columns == self.goal[0]
            return (low - np.inf, high + np.inf) if is_difference else (low, high)
        if part.is_one_hot:
            n = part.columns.stop - part.columns.start
            return np.zeros(n), np.ones(n)
        low = part.start - part.origin
        return low.astype(np.float64), (low + part.counts - 1).astype(np.float64)

    def _refuse(self, what: str, observation: Any, error: Exception) -> BadTransitionError:
        return BadTransitionError(
            f"the environment returned {what} {shorten(observation)}, but its space is {self.space}: "
            f"{error}."
        )

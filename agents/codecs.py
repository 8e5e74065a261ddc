"""Codecs for particular observations: those that are states though they are numbers, and large ones.

Boxes whose observations are one-hot are read as the indices of states for a table. Observations with
Boxes of very many numbers, such as images, are numbered as states if they recur, and else reduced to
principal components.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from oda_rl.agents.observation_parts import Part, leaves_of
from oda_rl.agents.observations import Array, ObservationCodec

# Limits on the entries of a one-hot Box: fewer may have a single 1 by chance, more are too many states.
FEWEST_ENTRIES, MOST_ENTRIES = 8, 5000
# A Box with more numbers is reduced to components.
LARGE = 512
# Most components of a Box, and the least fraction of its variance that each explains.
COMPONENTS, LEAST_PART = 32, 1e-3
# Components are learned from the observations of this many steps under random actions. A fraction of the
# training would not do: it is unknown in a training of many short calls.
LOOKED_AT = 1000


# Most different observations that are numbered; share of the later half of those of the first steps
# that may be new if they are
MOST_SEEN, MOST_NEW = 10_000, 1 / 3


class NotStatesError(Exception):
    """Observations are no states, though those before were read as states."""


class StateCodec(ObservationCodec):
    """Codec of observations that are numbers, but are read as states, whose indices are the rows."""

    def _read_as_states(self, n: int) -> None:
        """Make the rows the indices of `n` states, of which the last is for all other observations."""
        self.is_table, self.n_features, self._is_flat = True, 1, False
        self.low, self.high, self.counts = np.zeros(1), np.full(1, n - 1.0), np.array([n])
        self.whole, self.kinds = np.ones(1, dtype=bool), np.ones(1, dtype=np.int64)

    def names(self, env_id: str | None) -> list[str]:
        """The single name: that of the state."""
        return ["state"]

    def fits(self, size: int) -> bool:
        """Whether an observation, as compiled dynamics write it, is a row already: never."""
        return False


class OneHotCodec(StateCodec):
    """Codec of one-hot observations in a Box, as `FlattenObservation` makes them from Discrete.

    The index of the 1 is the state. An observation of zeros alone is a further state, the last.

    Parameters
    ----------
    space : gymnasium.spaces.Box
        The space of the observations.

    Examples
    --------
    >>> codec = OneHotCodec(spaces.Box(0, 1, (9,), np.int64))
    >>> codec.encode(np.eye(9, dtype=np.int64)[3]), codec.counts
    (array([3.]), array([10]))
    """

    def __init__(self, space: spaces.Space) -> None:
        super().__init__(space)
        self._read_as_states(self.n_features + 1)

    @classmethod
    def suits(cls, space: spaces.Space, observations: Any) -> bool:
        """Whether a space may have only one-hot observations, and all of these from a VecEnv are."""
        if (
            not isinstance(space, spaces.Box)
            or not FEWEST_ENTRIES <= np.prod(space.shape) <= MOST_ENTRIES
        ):
            return False
        if (space.low != 0).any() or (space.high != 1).any():
            return False
        try:
            rows = cls(space).encode_many(observations, len(observations))
        except NotStatesError:
            return False
        return bool((rows < np.prod(space.shape)).all())

    def read(self, observation: Any) -> tuple[NDArray[Any], bool]:
        """The rows of one observation or of several, as `ObservationCodec.read`."""
        try:
            return super().read(observation)
        except NotStatesError as error:
            raise ValueError(f"observation {error}") from None

    def _rows(self, values: list[Any], outer: tuple[int, ...]) -> NDArray[np.float64]:
        entries = super()._rows(values, outer)
        ones = entries == 1.0
        if (ones != (entries != 0.0)).any() or (ones.sum(axis=-1) > 1).any():
            raise NotStatesError("is not one-hot, unlike all observations of the training.")
        found = np.where(ones.any(axis=-1), ones.argmax(axis=-1), entries.shape[-1])
        return found[..., None].astype(np.float64)


class Components(NamedTuple):
    """Principal components: directions `axes` (n_components, n_numbers) about a `mean` (n_numbers,)."""

    mean: Array
    axes: Array

    @classmethod
    def none(cls, n_numbers: int) -> "Components":
        """Placeholder before components are learned: a single one that is always 0."""
        return cls(np.zeros(n_numbers), np.zeros((1, n_numbers)))

    @classmethod
    def of(cls, rows: NDArray[Any]) -> "Components":
        """Those of observations (n, n_numbers) that explain at least `LEAST_PART` of the variance."""
        # imports scikit-learn, which only large observations need
        from oda_rl.resolutions.projection import principal

        varied = rows.std(axis=0) > 0.0
        if len(rows) < 2 or not varied.any():
            return cls.none(rows.shape[1])
        found = principal(min(COMPONENTS, len(rows), int(varied.sum()))).fit(rows[:, varied])
        kept = found.explained_variance_ratio_ >= LEAST_PART
        axes = np.zeros((int(kept.sum()), rows.shape[1]))
        axes[:, varied] = found.components_[kept]
        return cls(rows.mean(axis=0), axes)


class PrincipalCodec(ObservationCodec):
    """Codec of observations with Boxes too large for a codebook, which are reduced to components.

    Parameters
    ----------
    space : gymnasium.spaces.Space
        The space of the observations, for which `suits` is True.
    components : dict of str to Components, optional
        Components by the index of each large part, as a string; not given before they are learned.

    Attributes
    ----------
    components : dict of str to Components
        As above.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> space = spaces.Box(0, 255, (24, 24), np.uint8)
    >>> images = rng.integers(0, 2, (50, 1, 1)) * rng.integers(0, 255, (24, 24))
    >>> codec = PrincipalCodec(space, PrincipalCodec(space).learned(images, 50))
    >>> codec.n_features, codec.names(None)
    (1, ['observation, component 0'])
    """

    def __init__(self, space: spaces.Space, components: dict[str, Components] | None = None) -> None:
        self.components = dict(components or {})
        super().__init__(space, table=False)
        self._is_flat = False

    @classmethod
    def suits(cls, space: spaces.Space) -> bool:
        """Whether any part of a space is too large for a codebook."""
        leaves = [leaf for _, leaf in leaves_of(space)]
        return any(isinstance(leaf, spaces.Box) and np.prod(leaf.shape) > LARGE for leaf in leaves)

    def learned(self, observations: Any, n: int) -> dict[str, Components]:
        """Learn the components from `n` stacked, finite observations as a VecEnv returns them."""
        found = {}
        for part, values in zip(self.parts, self._split(observations), strict=True):
            if self._components_of(part) is not None:
                found[str(part.place)] = Components.of(
                    np.asarray(values, dtype=np.float64).reshape(n, -1)
                )
        return found

    def nearest(self, points: Array) -> Array:
        """The points (n, n_features) themselves, as components may be any numbers."""
        return np.ascontiguousarray(points, dtype=np.float64)

    def fits(self, size: int) -> bool:
        """Whether an observation, as compiled dynamics write it, is a row already: never."""
        return False

    def _components_of(self, part: Part) -> Components | None:
        return self.components.get(str(part.place))

    def _width_of(self, place: int, n_numbers: int, is_box: bool) -> int:
        if not is_box or n_numbers <= LARGE:
            return n_numbers
        own = self.components.setdefault(str(place), Components.none(n_numbers))
        return len(own.axes)

    def _in_row(self, part: Part, numbers: Array) -> Array:
        own = self._components_of(part)
        return numbers if own is None else (numbers - own.mean) @ own.axes.T

    def _ends(self, part: Part) -> tuple[Array, Array]:
        own = self._components_of(part)
        if own is None:
            return super()._ends(part)
        return np.full(len(own.axes), -np.inf), np.full(len(own.axes), np.inf)

    def _names_in_row(self, part: Part, entries: Iterable[str]) -> list[str]:
        own = self._components_of(part)
        if own is None:
            return list(entries)
        return [f"{part.name or 'observation'}, component {j}" for j in range(len(own.axes))]


class SeenStatesCodec(StateCodec):
    """Codec of large observations that recur: each different one is a state, numbered as it is seen.

    Observations that were not seen in the training are a further state, the last.

    Parameters
    ----------
    space : gymnasium.spaces.Space
        The space of the observations.
    states : dict of int to int
        The numbers of states by the digests of observations. `encode` adds those of new observations.

    Examples
    --------
    >>> images = np.random.default_rng(0).integers(0, 255, (2, 24, 24))
    >>> codec = SeenStatesCodec(spaces.Box(0, 255, (24, 24), np.uint8), {})
    >>> [codec.encode(images[i]).tolist() for i in (0, 1, 0)], codec.read(images[:1] + 1)[0].tolist()
    ([[0.0], [1.0], [0.0]], [[10000.0]])
    """

    def __init__(self, space: spaces.Space, states: dict[int, int]) -> None:
        super().__init__(space, table=False)
        self.states = states
        self.goal = None
        self._read_as_states(MOST_SEEN + 1)

    @classmethod
    def recur(cls, space: spaces.Space, observations: Any, n: int) -> bool:
        """Whether of `n` successive observations from a VecEnv few of the later half are new."""
        codec = cls(space, {})
        values = codec._split(observations)
        digests = [codec._digests([own[i : i + 1] for own in values], (1,))[0] for i in range(n)]
        first = np.unique(digests, return_index=True)[1]
        return len(first) > 1 and int(np.sum(first >= n // 2)) <= MOST_NEW * (n - n // 2)

    def encode(self, observation: Any) -> NDArray[Any]:
        """The row of an observation, as `ObservationCodec.encode`; a new one is numbered."""
        return self._number(super().encode(observation), observation, ())

    def encode_many(self, observations: Any, n: int) -> NDArray[Any]:
        """The rows of `n` observations, as `ObservationCodec.encode_many`; new ones are numbered."""
        return self._number(super().encode_many(observations, n), observations, (n,))

    def _rows(self, values: list[Any], outer: tuple[int, ...]) -> NDArray[np.float64]:
        found = [self.states.get(own, MOST_SEEN) for own in self._digests(values, outer)]
        return np.array(found, dtype=np.float64).reshape(*outer, 1)

    def _number(self, rows: Array, observations: Any, outer: tuple[int, ...]) -> Array:
        """Number the observations that are new."""
        if (rows == MOST_SEEN).any():
            digests = self._digests(self._split(observations), outer)
            for own in digests:
                if len(self.states) == MOST_SEEN and own not in self.states:
                    raise NotStatesError(f"more than {MOST_SEEN:,} different observations were seen.")
                self.states.setdefault(own, len(self.states))
            rows = np.array([self.states[own] for own in digests], dtype=np.float64)
            rows = rows.reshape(*outer, 1)
        return rows

    def _digests(self, values: list[Any], outer: tuple[int, ...]) -> list[int]:
        """A number of 64 bits for each observation, the same in every process."""
        rows = super()._rows(values, outer).reshape(-1, self._width) + 0.0  # -0.0 becomes 0.0
        if not np.isfinite(rows).all():
            raise ValueError("it has NaN or infinity, and must be finite")
        return [
            int.from_bytes(blake2b(row.tobytes(), digest_size=8).digest(), signed=True) for row in rows
        ]

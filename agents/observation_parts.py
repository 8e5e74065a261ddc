"""The parts of an observation space: their values, names, limits on their size, and errors."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

# Most states of a table; most numbers of a part; most one-hot numbers, whose covariances are learned.
MOST_STATES, MOST_FEATURES, MOST_ONE_HOT = 100_000, 1_000_000, 2_000
# Most values of an entry of a MultiDiscrete that is one-hot
MOST_KINDS = 10
# Most characters of an observation in an error message
LONGEST = 200
# Larger integers are rounded in float64
LARGEST_EXACT = 2**53

Path = tuple[str | int, ...]


class Part(NamedTuple):
    """A space without parts of its own: its position among the parts, its name and its columns of a row.

    `counts` has the number of values of each entry, counted from `start`; it is empty for a Box. Numbers
    of a table are values minus `origin`: the start if float64 would round the values, otherwise 0.
    """

    place: int
    name: str
    space: spaces.Space
    columns: slice
    counts: NDArray[np.int64]
    start: NDArray[np.int64]
    origin: NDArray[np.int64]
    is_one_hot: bool

    @property
    def is_numeric(self) -> bool:
        """Whether its entries are numbers, with others between two values."""
        return isinstance(self.space, spaces.Box | spaces.MultiDiscrete) and not self.is_one_hot


def spaces_in(space: spaces.Space, path: Path = ()) -> Iterator[tuple[Path, spaces.Space]]:
    """Yield a space and all within it, from outside to inside, each with the keys that lead to it."""
    yield path, space
    if isinstance(space, spaces.Dict | spaces.Tuple):
        for key, inner in space.items() if isinstance(space, spaces.Dict) else enumerate(space):
            yield from spaces_in(inner, (*path, key))


def leaves_of(space: spaces.Space) -> list[tuple[Path, spaces.Space]]:
    """The innermost parts of a space, each with the keys that lead to it."""
    return [pair for pair in spaces_in(space) if not isinstance(pair[1], spaces.Dict | spaces.Tuple)]


def values_of(space: spaces.Space) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number of values of each entry of a discrete space, and the first of them; empty for a Box."""
    if isinstance(space, spaces.Discrete):
        return np.array([space.n], dtype=np.int64), np.array([space.start], dtype=np.int64)
    if isinstance(space, spaces.MultiDiscrete):
        return space.nvec.ravel().astype(np.int64), space.start.ravel().astype(np.int64)
    if isinstance(space, spaces.MultiBinary):
        size = int(np.prod(space.shape))
        return np.full(size, 2), np.zeros(size, dtype=np.int64)
    if isinstance(space, spaces.Box) and np.dtype(space.dtype).kind in "fiub":
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    raise ValueError(
        f"Observation space {space} is not supported; Discrete, MultiDiscrete, MultiBinary and Box, and "
        "a Dict or Tuple of these, are accepted. Wrap the environment in "
        "gymnasium.wrappers.TransformObservation."
    )


def are_kinds(space: spaces.Space, counts: NDArray[np.int64]) -> bool:
    """Whether the values of a space, `counts` of each entry, are kinds: one-hot unless in a table."""
    if isinstance(space, spaces.MultiDiscrete):
        return bool(counts.max(initial=0) <= MOST_KINDS)
    return isinstance(space, spaces.Discrete)


def origin_of(counts: NDArray[np.int64], start: NDArray[np.int64]) -> NDArray[np.int64]:
    """The `origin` of a part with these `counts` of values from `start` on."""
    rounded = (start < -LARGEST_EXACT) | (start > LARGEST_EXACT - counts)
    return np.where(rounded, start, 0)


def check_size(space: spaces.Space, part: spaces.Space, size: int, is_one_hot: bool) -> None:
    """Raise a ValueError if a part of a space takes more numbers of a row, `size`, than are accepted."""
    if isinstance(part, spaces.Discrete) and part.n > MOST_STATES:
        raise ValueError(
            f"Observation space {space} has more states than the {MOST_STATES:,} that are supported. "
            "Wrap the environment in gymnasium.wrappers.TransformObservation with a function to a "
            "Box or a MultiDiscrete space."
        )
    if is_one_hot and size > MOST_ONE_HOT:
        raise ValueError(
            f"Observation space {space} needs {size:,} one-hot features; at most {MOST_ONE_HOT:,} are "
            "supported. Wrap the environment in gymnasium.wrappers.TransformObservation with a "
            "function to a Box."
        )
    if size > MOST_FEATURES:
        raise ValueError(
            f"Observation space {space} has more numbers per observation than the {MOST_FEATURES:,} "
            "that are supported. Wrap the environment in gymnasium.wrappers.ResizeObservation or "
            "TransformObservation."
        )


def entries_of(part: Part) -> list[str]:
    """Names of the entries of a part."""
    size, name = int(np.prod(part.space.shape or ())), part.name or "state"
    return [name] if size == 1 else [f"{name}[{j}]" for j in range(size)]


def minus(name: str, origin: int) -> str:
    """Name of an entry that is counted from an `origin`."""
    return f"{name} {'-' if origin > 0 else '+'} {abs(origin)}" if origin else name


def goal_of(parts: list[Part]) -> tuple[slice, slice] | None:
    """Columns of the desired and of the achieved goal of a Dict; None unless they are Boxes of a shape.

    The names are those of environments with goals in gymnasium_robotics, highway_env and SB3's HER.
    """
    found = {part.name: part for part in parts if isinstance(part.space, spaces.Box)}
    desired, achieved = found.get("desired_goal"), found.get("achieved_goal")
    if desired is None or achieved is None or desired.space.shape != achieved.space.shape:
        return None
    size = int(np.prod(desired.space.shape or ()))
    if any(part.columns.stop - part.columns.start != size for part in (desired, achieved)):
        return None  # reduced to components
    return desired.columns, achieved.columns


def refuse_to_read(space: spaces.Space, observation: Any, error: Exception) -> ValueError:
    """What to raise if an observation, or a batch of them, is not of the space; `error` says why."""
    if type(observation) is tuple and len(observation) == 2 and type(observation[1]) is dict:
        return ValueError(
            "observation must be one observation or a batch, got the tuple (observation, info) "
            "that reset() returns; pass its first item."
        )
    if not isinstance(space, spaces.Dict | spaces.Tuple) and type(observation) is not str:
        own = tuple(space.shape or ())
        several = f"(n, {str(own)[1:-1].rstrip(',')})" if own else "(n,)"
        try:
            shape = np.shape(observation)
        except ValueError:
            return ValueError(
                f"observation must have shape {own} or {several}, got parts of different lengths: "
                f"{shorten(observation)}."
            )
        if len(shape) not in (len(own), len(own) + 1) or shape[len(shape) - len(own) :] != own:
            return ValueError(f"observation must have shape {own} or {several}, got {shape}.")
    return ValueError(
        f"observation must be in {space}, or a batch of such observations, got "
        f"{shorten(observation)}: {error}."
    )


def shorten(observation: Any) -> str:
    """An observation as a message shows it."""
    text = repr(observation)
    return text if len(text) < LONGEST else f"{text[:LONGEST]}..."

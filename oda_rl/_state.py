"""The state of a model as JSON knows it, its arrays apart, and back (see `oda_rl.storage`).

What JSON doesn't know is a dictionary with one of the keys below: a tuple, a slice, a dictionary whose
keys are not all texts, an array of texts or other objects that are plain, and the place of an array.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

ARRAY, TUPLE, SLICE, PAIRS, OBJECTS = "__array__", "__tuple__", "__slice__", "__pairs__", "__objects__"
# Booleans, integers, floats, complex numbers and texts.
DTYPES = "biufcU"


class State(dict[str, Any]):
    """What a model file holds. A value that is missing is an error of the file, not of the program.

    Parameters
    ----------
    content : mapping
        The values.
    source : str
        What messages call the file.
    place : str
        Where in the file the values are, such as "codebook"; empty for all of it.
    """

    def __init__(self, content: Mapping[str, Any], source: str, place: str = "") -> None:
        super().__init__(content)
        self.source, self.place = source, place

    def __missing__(self, key: str) -> Any:
        missing = _inside(self.place, key)
        raise ValueError(f"{self.source} is damaged or was edited: it has no entry {missing!r}.")


def pack(value: Any, place: str, arrays: dict[str, Array]) -> Any:
    """A value as JSON knows it.

    Parameters
    ----------
    value : object
        As for `oda_rl.storage.save`.
    place : str
        Where in the state it is, such as "codebook/location".
    arrays : dict of str to ndarray
        Takes the arrays, by their places.

    Raises
    ------
    TypeError
        If it holds something that cannot be stored; the message names its place.
    """
    if _is_plain(value):
        return value.item() if isinstance(value, np.generic) else value
    if isinstance(value, np.ndarray) and value.dtype.kind in DTYPES:
        if place in arrays:
            raise TypeError(f"two arrays have the place {place!r}.")
        arrays[place] = value
        return {ARRAY: [value.dtype.str, list(value.shape)]}
    if isinstance(value, np.ndarray) and value.ndim == 1 and all(map(_is_plain, value)):
        return {OBJECTS: [pack(part, place, arrays) for part in value]}
    if isinstance(value, slice):
        return {SLICE: [pack(part, place, arrays) for part in (value.start, value.stop, value.step)]}
    if isinstance(value, list | tuple):
        parts = [pack(part, _inside(place, i), arrays) for i, part in enumerate(value)]
        return {TUPLE: parts} if isinstance(value, tuple) else parts
    if isinstance(value, Mapping):
        tagged = value.keys() & {ARRAY, TUPLE, SLICE, PAIRS, OBJECTS}
        if tagged or not all(isinstance(key, str) for key in value):
            return {PAIRS: pack([list(pair) for pair in value.items()], place, arrays)}
        return {key: pack(part, _inside(place, key), arrays) for key, part in value.items()}
    what = f"array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
    raise TypeError(f"{place!r} is of the type {what}, which a model file cannot hold.")


def unpack(value: Any, place: str, source: str, array_at: Callable[[str, Any], Any]) -> Any:
    """What `pack` was given.

    Parameters
    ----------
    value : object
        From `pack`, or from a file that may be damaged.
    place : str
        As for `pack`.
    source : str
        What messages call the file.
    array_at : callable
        Gives the array of a place, with what the header tells of it.

    Raises
    ------
    ValueError, TypeError
        If it is not from `pack`.
    """
    if isinstance(value, list):
        return [unpack(part, _inside(place, i), source, array_at) for i, part in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if ARRAY in value:
        return array_at(place, value[ARRAY])
    for tag, make in _MAKERS.items():
        if tag in value:
            return make(unpack(list(value[tag]), place, source, array_at))
    parts = {k: unpack(part, _inside(place, k), source, array_at) for k, part in value.items()}
    return State(parts, source, place)


_MAKERS: dict[str, Callable[[list[Any]], Any]] = {
    TUPLE: tuple,
    SLICE: lambda parts: slice(*parts),
    PAIRS: dict,
    OBJECTS: lambda parts: np.array(parts, dtype=object),
}


def _is_plain(value: Any) -> bool:
    if isinstance(value, np.generic):
        return value.dtype.kind in "biufU"
    return value is None or isinstance(value, bool | int | float | str)


def _inside(place: str, key: object) -> str:
    return f"{place}/{key}" if place else str(key)

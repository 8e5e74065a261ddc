"""Convert the state of a model to JSON values and separate arrays, and back (see `oda_rl.storage`).

A value that JSON does not have becomes a dictionary with one of the keys below: a tuple, a slice, a
dictionary whose keys are not all texts, an object array of plain values, and the place of an array.
"""

from collections.abc import Callable, Mapping
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl._schema import RefusedError, expect, inside

Array = NDArray[Any]
State = dict[str, Any]

ARRAY, TUPLE, SLICE, PAIRS, OBJECTS = "__array__", "__tuple__", "__slice__", "__pairs__", "__objects__"
# Booleans, integers, floats, complex numbers and texts.
DTYPES = "biufcU"
# The largest depth of nested dictionaries and lists.
DEEPEST = 64
# The largest number of keys of a dictionary whose hash collides with that of another
MOST_ALIKE = 8


def pack(value: Any, place: str, arrays: dict[str, Array]) -> Any:
    """Convert a value for JSON; its arrays are added to `arrays` by their places, such as "book/weight".

    Raises a TypeError that names the place of a value that cannot be stored; `storage.save` lists those
    that can.
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
        parts = [pack(part, inside(place, i), arrays) for i, part in enumerate(value)]
        return {TUPLE: parts} if isinstance(value, tuple) else parts
    if isinstance(value, Mapping):
        tagged = value.keys() & {ARRAY, TUPLE, SLICE, PAIRS, OBJECTS}
        if tagged or not all(isinstance(key, str) for key in value):
            return {PAIRS: pack([list(pair) for pair in value.items()], place, arrays)}
        return {key: pack(part, inside(place, key), arrays) for key, part in value.items()}
    what = f"array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
    raise TypeError(f"{place!r} is of the type {what}, which a model file cannot hold.")


def unpack(value: Any, place: str, array_at: Callable[[str, Any], Any], depth: int = 0) -> Any:
    """Invert `pack`, for a value `depth` levels down in a file that may be damaged.

    `array_at(place, [dtype, shape])` returns the array of a place. Raises a RefusedError for a value
    that `pack` does not produce.
    """
    expect(depth <= DEEPEST, place, "is nested deeper", f"a depth of {DEEPEST}")
    if isinstance(value, list):
        return [unpack(part, inside(place, i), array_at, depth + 1) for i, part in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if ARRAY in value:
        expect(len(value) == 1, place, "is an array and more", "an array alone")
        return array_at(place, value[ARRAY])
    for tag, make in _MAKERS.items():
        if tag in value:
            listed = len(value) == 1 and isinstance(value[tag], list)
            expect(listed, place, f"is a broken {tag}", "what `save` writes")
            parts = unpack(value[tag], place, array_at, depth)
            try:
                return make(parts)
            except (TypeError, ValueError) as error:
                raise RefusedError(place, f"is a broken {tag}", "what `save` writes") from error
    return {k: unpack(part, inside(place, k), array_at, depth + 1) for k, part in value.items()}


_MAKERS: dict[str, Callable[[list[Any]], Any]] = {
    TUPLE: tuple,
    SLICE: lambda parts: slice(*(None if part is None else index(part) for part in parts)),
    PAIRS: lambda parts: _dictionary(parts),
    OBJECTS: lambda parts: _objects(parts),
}


def _dictionary(parts: list[Any]) -> dict[Any, Any]:
    found = {hash(key) for key, _ in parts}
    if len(found) + MOST_ALIKE < len(parts):  # keys chosen to collide would make a dictionary slow
        raise ValueError
    return dict(parts)


def _objects(parts: list[Any]) -> Array:
    if not all(map(_is_plain, parts)):
        raise TypeError
    return np.array(parts, dtype=object)


def _is_plain(value: Any) -> bool:
    if isinstance(value, np.generic):
        return value.dtype.kind in "biufU"
    return value is None or isinstance(value, bool | int | float | str)

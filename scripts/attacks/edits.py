"""Edits of model files, as a hostile or clumsy person may make them; most leave a valid archive."""

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np

from oda_rl._archive import HEADER, write

Array = np.ndarray
ARRAY = "__array__"
NUMBERS = (
    *(0, 1, -1, 2, 7, 62, 10**6, 2**31, 2**62, -(2**63), 2**63 - 1, 10**12, 10**30, -(10**9)),
    *(0.5, -0.5, 1e-300, 1e-9, 1e9, 1e100, 1e150, 1e200, 1.7e308, -1e308),
    *(float("nan"), float("inf"), float("-inf")),
)
VALUES = (None, True, False, "", "x", "auto", "ODAPartition", [], {}, [[]], [0], {"a": 1}, [None] * 3)
TAGGED = (
    {"__tuple__": [1]},
    {"__pairs__": [[1, 2]]},
    {"__slice__": [0, 1, None]},
    {"__objects__": ["a", None]},
)
DTYPES = ("<f4", ">f8", "<i4", "<i8", "<f8", "|b1", "<c16", "<u8", "<U3", "|i1")


class Opened:
    """Header and arrays of a model file, which can be changed and written again."""

    def __init__(self, content: bytes) -> None:
        header, arrays = _read(content)
        self.header: Any = json.loads(header)
        self.arrays = arrays.copy()

    def written(self) -> bytes:
        """Return the file's bytes, with the dtypes and shapes in the header updated to the arrays."""
        for place, array in self.arrays.items():
            node = self.at(place)
            if _is_array(node):
                node[ARRAY] = [array.dtype.str, list(array.shape)]
        file = io.BytesIO()
        write(file, json.dumps(self.header).encode(), self.arrays)
        return file.getvalue()

    def at(self, place: str) -> Any:
        """Return the header's entry for the array at `place`, or None if that is gone."""
        node = self.header.get("state")
        for key in place.split("/"):
            node = _child(node, key)
        return node

    def leaves(self) -> list[tuple[Any, Any, str]]:
        """List every entry of the state as (container, key, place); nodes of arrays are not entered."""
        return list(_leaves(self.header["state"], ""))


@cache
def _read(content: bytes) -> tuple[bytes, dict[str, Array]]:
    """Return the header and the read-only arrays of a file; cached for the thousands of trials."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        arrays = {
            name.removesuffix(".npy"): np.load(io.BytesIO(archive.read(name)))
            for name in archive.namelist()
            if name != HEADER
        }
        for array in arrays.values():
            array.flags.writeable = False
        return archive.read(HEADER), arrays


def _child(node: Any, key: str) -> Any:
    for tag in ("__tuple__", "__pairs__"):
        if isinstance(node, dict) and tag in node:
            node = node[tag]
    if isinstance(node, list):
        return node[int(key)] if key.isdigit() and int(key) < len(node) else None
    return node.get(key) if isinstance(node, dict) else None


def _leaves(node: Any, place: str) -> Iterator[tuple[Any, Any, str]]:
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in items:
        yield node, key, f"{place}/{key}"
        if isinstance(value, dict | list) and not _is_array(value):
            yield from _leaves(value, f"{place}/{key}")


def edit(content: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
    """Make one random edit, sometimes two or three; return the file and a description."""
    opened, done = Opened(content), []
    for _ in range(1 + int(rng.random() < 0.1)):
        kinds = [_edit_array] * 5 * bool(opened.arrays) + [_edit_value] * 5 + [_edit_names] * 2
        done.append(kinds[rng.integers(len(kinds))](opened, rng))
    if rng.random() < 0.02:
        done.append(_edit_header(opened, rng))
    return opened.written(), "; ".join(done)


def _overwrite(array: Array, rng: np.random.Generator, everywhere: bool) -> tuple[Array, str]:
    return _with_value(array, NUMBERS[rng.integers(len(NUMBERS))], rng, everywhere)


def _with_value(
    array: Array, value: float, rng: np.random.Generator, everywhere: bool
) -> tuple[Array, str]:
    if array.dtype.kind not in "bif" or not array.size:
        return array, "as it was"
    if array.dtype.kind == "i":  # `NUMBERS` has integers beyond the limits of the dtype
        finite = isinstance(value, int) or np.isfinite(value)
        limits = np.iinfo(array.dtype)
        value = max(int(limits.min), min(int(limits.max), int(value))) if finite else 0
    index: Any = ... if everywhere else tuple(int(rng.integers(n)) for n in array.shape)
    array = array.copy()
    array[index] = value
    return array, f"all = {value}" if everywhere else f"{index} = {value}"


SHAPES: tuple[Callable[[Array], Array], ...] = (
    lambda array: array[:0],
    lambda array: array[:-1],
    lambda array: array[..., :0],
    lambda array: array[..., :-1],
    lambda array: array[None],
    lambda array: array.ravel(),
    lambda array: array.T,
    lambda array: np.concatenate([array, array]) if array.ndim else array[None],
    np.asfortranarray,
)


def _reshape(array: Array, rng: np.random.Generator) -> tuple[Array, str]:
    array = SHAPES[rng.integers(len(SHAPES))](array)
    return array, f"shape {array.shape}"


def _convert(array: Array, rng: np.random.Generator) -> tuple[Array, str]:
    dtype = DTYPES[rng.integers(len(DTYPES))]
    try:
        return array.astype(dtype), f"dtype {dtype}"
    except ValueError:  # a text that is not a number
        return array, "as it was"


def _shuffle(array: Array, rng: np.random.Generator) -> tuple[Array, str]:
    return rng.permutation(array.flatten()).reshape(array.shape), "shuffled"


OF_ARRAYS: list[Callable[[Array, np.random.Generator], tuple[Array, str]]] = [
    *(partial(_overwrite, everywhere=True),) * 2,
    *(partial(_overwrite, everywhere=False),) * 3,
    *(_reshape, _convert, _shuffle),
]


def _edit_array(opened: Opened, rng: np.random.Generator) -> str:
    place = str(rng.choice(list(opened.arrays)))
    array, kind = opened.arrays[place], int(rng.integers(len(OF_ARRAYS) + 2))
    if kind < len(OF_ARRAYS):
        with np.errstate(all="ignore"):
            opened.arrays[place], what = OF_ARRAYS[kind](array, rng)
        return f"{place}: {what}"
    if kind == len(OF_ARRAYS):
        other = str(rng.choice(list(opened.arrays)))
        opened.arrays[place], opened.arrays[other] = opened.arrays[other], array
        return f"{place}: swapped with {other}"
    numbers = array.ravel()[:50].tolist()
    node = opened.at(place)
    node.clear()
    node["__objects__"] = [str(x) if array.dtype.kind == "c" else x for x in numbers]
    del opened.arrays[place]
    return f"{place}: as a list"


def _edit_value(opened: Opened, rng: np.random.Generator) -> str:
    found = [leaf for leaf in opened.leaves() if not _is_array(leaf[0][leaf[1]])]
    node, key, place = found[rng.integers(len(found))]
    kind = rng.random()
    if kind < 0.55 and not isinstance(node[key], dict | list):
        value: Any = NUMBERS[rng.integers(len(NUMBERS))]
    elif kind < 0.7 and isinstance(node[key], int | float) and not isinstance(node[key], bool):
        value = node[key] * float(rng.choice([0.5, 2.0, -1.0])) if rng.random() < 0.5 else node[key] + 1
    elif kind < 0.9:
        value = (*VALUES, *TAGGED)[rng.integers(len(VALUES) + len(TAGGED))]
    else:
        other, name, _ = found[rng.integers(len(found))]
        value = json.loads(json.dumps(other[name]))
    if isinstance(node[key], dict | list):
        _delete_arrays(opened, place)
    node[key] = json.loads(json.dumps(value))
    return f"{place[1:]} = {json.dumps(value)[:60]}"


def _edit_names(opened: Opened, rng: np.random.Generator) -> str:
    """Add, remove or rename an entry, or add or remove an array."""
    found = [leaf for leaf in opened.leaves() if isinstance(leaf[0], dict)]
    node, key, place = found[rng.integers(len(found))]
    kind = str(rng.choice(["removed", "added", "renamed", "array added", "array lost"]))
    if kind == "added":
        node["more"] = 1
    elif kind == "array added":
        opened.arrays["more"] = np.zeros(3)
        opened.header["state"]["more"] = {ARRAY: ["<f8", [3]]}
        place = "/more"
    elif kind == "array lost" and opened.arrays:
        place = "/" + str(rng.choice(list(opened.arrays)))
        del opened.arrays[place[1:]]
    else:
        _delete_arrays(opened, place)
        value = node.pop(key)
        if kind == "renamed" and not _has_array(value):
            node[f"{key}_"] = value
    return f"{place[1:]} {kind}"


def _edit_header(opened: Opened, rng: np.random.Generator) -> str:
    key = str(rng.choice(["format", "version", "kind", "state"]))
    values = (*NUMBERS, *VALUES)
    opened.header[key] = values[rng.integers(len(values))]
    return f"header {key} = {opened.header[key]!r}"


def _delete_arrays(opened: Opened, place: str) -> None:
    """Delete the arrays of an entry that is removed or replaced."""
    inside = place[1:].replace("/__tuple__", "")
    for name in [n for n in opened.arrays if n == inside or n.startswith(inside + "/")]:
        del opened.arrays[name]


def _is_array(value: Any) -> bool:
    return isinstance(value, dict) and ARRAY in value


def _has_array(value: Any) -> bool:
    return f'"{ARRAY}"' in json.dumps(value)


# Values that every number of a file is set to in turn
EXTREMES = (0, -1, 62, 1e-300, 1e9, 1e100, 1e150, 1.7e308)


def places_of(content: bytes) -> list[str]:
    """List the places of numeric arrays and of single numbers; of lists only the first two entries."""
    opened = Opened(content)
    alone = [
        place[1:]
        for node, key, place in opened.leaves()
        if isinstance(node[key], int | float) and not isinstance(node[key], bool)
    ]
    found = [name for name, array in opened.arrays.items() if array.dtype.kind in "if"] + alone
    return [p for p in found if all(part in ("0", "1") for part in p.split("/") if part.isdigit())]


def set_number(content: bytes, place: str, value: float, rng: np.random.Generator) -> tuple[bytes, str]:
    """Set a number to a value; in an array, all elements or a random one."""
    opened = Opened(content)
    if place in opened.arrays:
        array = opened.arrays[place]
        opened.arrays[place], what = _with_value(array, value, rng, bool(rng.random() < 0.5))
        return opened.written(), f"{place}: {what}"
    for node, key, own in opened.leaves():
        if own[1:] == place:
            node[key] = value
    return opened.written(), f"{place} = {value}"


def flip(content: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
    """Flip one random bit of the file."""
    place = int(rng.integers(8 * len(content)))
    changed = bytearray(content)
    changed[place // 8] ^= 1 << place % 8
    return bytes(changed), f"bit {place}"


def cut(content: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
    """Truncate the file, append bytes to it, or overwrite a stretch with zeros."""
    at, kind = int(rng.integers(len(content))), int(rng.integers(3))
    if kind == 0:
        return content[:at], f"cut at {at}"
    if kind == 1:
        return content + content[:at], f"{at} bytes appended"
    n = min(int(rng.integers(1, 200)), len(content) - at)
    return content[:at] + bytes(n) + content[at + n :], f"{n} zeros at {at}"

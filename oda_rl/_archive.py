"""The content of a model file (see `oda_rl.storage`): its JSON values, and its arrays in a zip archive.

A value that JSON does not have becomes a dictionary with one of the keys below: a tuple, a slice, a
dictionary whose keys are not all texts, an object array of plain values, and the place of an array.
`compressed` is for arrays in pickles.
"""

import math
import re
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from operator import index
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from oda_rl._schema import RefusedError, expect, inside
from oda_rl._schema_texts import ArraySpec

HEADER = "header.json"
# Bytes in memory of the header and all arrays of one file, at most.
MAX_BYTES = 2**30
# Bytes of the header, at most, and their ratio to the compressed bytes: parsed JSON takes several times
# the memory of its text.
MAX_HEADER, MAX_HEADER_RATIO = 2**26, 100
# Deflate cannot compress by a larger ratio; an entry that claims more is forged.
MAX_RATIO = 1032
CHUNK = 2**20

ARRAY, TUPLE, SLICE, PAIRS, OBJECTS = "__array__", "__tuple__", "__slice__", "__pairs__", "__objects__"
# Booleans, integers, floats, complex numbers and texts.
DTYPES = "biufcU"
MAX_DIMENSIONS = 32
# The first bytes of files of other formats
STARTS = {b"\x80": "a pickle", b"\x93N": "a single array (.npy)", b"\x1f\x8b": "a gzip archive"}
# The largest depth of nested dictionaries and lists.
DEEPEST = 64
# The largest number of keys of a dictionary whose hash collides with that of another
MOST_ALIKE = 8

State = dict[str, Any]
# Dtype, shape and compressed content of an array.
Compressed = tuple[str, tuple[int, ...], bytes]
# Dtype and shape of the arrays of a file, by their places.
Declared = dict[str, ArraySpec]


# -- values ------------------------------------------------------------------------------------------


def pack(value: Any, place: str, arrays: dict[str, NDArray[Any]]) -> Any:
    """Convert a value for JSON; its arrays are added to `arrays` by their places, such as "book/weight".

    Raises a TypeError that names the place of a value that cannot be stored; `storage.save` lists those
    that can.
    """
    if _is_plain(value):
        return value.item() if isinstance(value, np.generic) else value
    if isinstance(value, np.ndarray) and value.dtype.kind in DTYPES:
        if place in arrays:
            raise TypeError(f"two arrays share the place {place!r}.")
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
    raise TypeError(f"{place!r} has the type {what}, which a model file cannot store.")


def unpack(value: Any, place: str, array_at: Callable[[str, Any], Any], depth: int = 0) -> Any:
    """Invert `pack`, for a value `depth` levels down in a file that may be damaged.

    `array_at(place, [dtype, shape])` returns the array of a place. Raises a RefusedError for a value
    that `pack` does not produce.
    """
    expect(depth <= DEEPEST, place, "is nested too deeply", f"at most {DEEPEST} levels")
    if isinstance(value, list):
        return [unpack(part, inside(place, i), array_at, depth + 1) for i, part in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if ARRAY in value:
        expect(len(value) == 1, place, "is an array with extra entries", "an array only")
        return array_at(place, value[ARRAY])
    for tag, make in _MAKERS.items():
        if tag in value:
            listed = len(value) == 1 and isinstance(value[tag], list)
            expect(listed, place, f"is an invalid {tag}", "a value written by `save`")
            parts = unpack(value[tag], place, array_at, depth)
            try:
                return make(parts)
            except (TypeError, ValueError) as error:
                raise RefusedError(place, f"is an invalid {tag}", "a value written by `save`") from error
    return {k: unpack(part, inside(place, k), array_at, depth + 1) for k, part in value.items()}


def _dictionary(parts: list[Any]) -> dict[Any, Any]:
    found = {hash(key) for key, _ in parts}
    if len(found) + MOST_ALIKE < len(parts):  # keys chosen to collide would make a dictionary slow
        raise ValueError
    return dict(parts)


def _objects(parts: list[Any]) -> NDArray[Any]:
    if not all(map(_is_plain, parts)):
        raise TypeError
    return np.array(parts, dtype=object)


_MAKERS: dict[str, Callable[[list[Any]], Any]] = {
    TUPLE: tuple,
    SLICE: lambda parts: slice(*(None if part is None else index(part) for part in parts)),
    PAIRS: _dictionary,
    OBJECTS: _objects,
}


def _is_plain(value: Any) -> bool:
    if isinstance(value, np.generic):
        return value.dtype.kind in "biufU"
    return value is None or isinstance(value, bool | int | float | str)


# -- archive -----------------------------------------------------------------------------------------


def write(file: Any, header: bytes, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write an archive; the same content gives the same bytes."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        first = zipfile.ZipInfo(HEADER)
        if len(header) <= MAX_HEADER_RATIO * len(zlib.compress(header)):
            first.compress_type = zipfile.ZIP_DEFLATED
        with archive.open(first, "w") as entry:
            entry.write(header)
        for name, array in arrays.items():
            with archive.open(name + ".npy", "w") as entry:
                npy.write_array(entry, array, allow_pickle=False)


class DamagedError(Exception):
    """An archive is damaged or forged; the message describes how."""


def read_plain(archive: zipfile.ZipFile, name: str) -> bytes:
    """The bytes of one entry."""
    entry = archive.getinfo(name)
    check_size(entry)
    most = min(MAX_HEADER, MAX_HEADER_RATIO * entry.compress_size + CHUNK)
    if entry.file_size > most:
        raise DamagedError(f"its entry {name} claims {entry.file_size} bytes, more than {most}")
    with _named(name):
        return archive.read(name)


def check_size(*entries: zipfile.ZipInfo) -> None:
    """Refuse entries that claim more bytes than is possible or allowed, before anything is allocated."""
    for entry in entries:
        if entry.file_size > MAX_RATIO * entry.compress_size + CHUNK:
            raise DamagedError(f"its entry {entry.filename} claims {entry.file_size} bytes")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise DamagedError(
                f"its entry {entry.filename} is compressed by a method other than deflate"
            )
    total = sum(entry.file_size for entry in entries)
    if total > MAX_BYTES:
        raise DamagedError(f"it claims {total} bytes, more than the limit of {MAX_BYTES}")


def check_entries(archive: zipfile.ZipFile, declared: Declared) -> None:
    """Refuse an archive that has other entries than those declared."""
    names = archive.namelist()
    expected = {HEADER, *(place + ".npy" for place in declared)}
    missing, unknown = expected.difference(names), set(names).difference(expected)
    if missing:
        raise DamagedError(f"it has no entry {min(missing)}")
    if unknown or len(names) > len(expected):
        entry = f"the entry {min(unknown)}" if unknown else "a second entry of the same name"
        raise DamagedError(f"it has {entry}, which its {HEADER} does not declare")
    check_size(*archive.infolist())


def declare_array(place: str, tag: Any, declared: Declared) -> ArraySpec:
    """Add the `[dtype, shape]` of an array, from the header, to `declared`, and return them."""
    found: Any = tag if isinstance(tag, list) and len(tag) == 2 else (None, None)
    dtype, shape = found
    sizes = isinstance(shape, list) and all(type(n) is int and 0 <= n <= MAX_BYTES for n in shape)
    known = isinstance(dtype, str) and re.fullmatch(rf"[<>|][{DTYPES}]\d{{1,6}}", dtype)
    right = known and sizes and len(shape) <= MAX_DIMENSIONS and place not in declared
    expect(right, place, "is declared as an invalid array", "a value written by `save`")
    declared[place] = ArraySpec(dtype, tuple(shape))
    return declared[place]


def read_array(archive: zipfile.ZipFile, place: str, spec: ArraySpec) -> NDArray[Any]:
    """Read one array to the end of its entry, where zipfile compares the checksum."""
    name = place + ".npy"
    with _named(name), archive.open(name) as entry:
        version = npy.read_magic(entry)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = read(entry)
        n_bytes = math.prod(spec.shape) * dtype.itemsize
        size = archive.getinfo(name).file_size - entry.tell()
        if (dtype.str, shape, size) != (spec.dtype, spec.shape, n_bytes):
            raise DamagedError(f"its array {place} does not have the size that its {HEADER} declares")
        content = np.empty(n_bytes, dtype=np.uint8)
        for start in range(0, n_bytes, CHUNK):
            part = entry.read(min(CHUNK, n_bytes - start))
            if not part:
                raise DamagedError(f"its array {place} is truncated")
            content[start : start + CHUNK] = np.frombuffer(part, dtype=np.uint8)
    if dtype.kind == "b" and np.any(content > 1):
        raise DamagedError(f"its array {place} has booleans other than 0 and 1")
    if dtype.kind == "U" and np.any(content.view(f"{dtype.byteorder}u4") > sys.maxunicode):
        raise DamagedError(f"its array {place} has invalid Unicode characters")
    return content.view(dtype).reshape(shape, order="F" if fortran else "C")


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Name the entry in the error if zipfile, zlib or NumPy cannot read it."""
    try:
        yield
    except (DamagedError, Warning):
        raise
    except Exception as error:  # each library raises many types
        raise DamagedError(f"its entry {name} cannot be read ({type(error).__name__})") from error


# -- pickles -----------------------------------------------------------------------------------------


def compressed(array: NDArray[Any]) -> Compressed:
    """The dtype, shape and compressed content of an array of numbers."""
    return array.dtype.str, array.shape, zlib.compress(array.tobytes(), 1)


def decompressed(found: Compressed) -> NDArray[Any]:
    """The array that `compressed` was given, as a writable copy."""
    kind, shape, content = found
    return np.frombuffer(zlib.decompress(content), kind).reshape(shape).copy()


def what_begins(start: bytes) -> str:
    """What kind of file has these first bytes, which are not those of a zip archive."""
    for begin, what in STARTS.items():
        if start.startswith(begin):
            return what
    try:
        start[:48].decode()
    except UnicodeDecodeError:
        return "a file of another format"
    return "a text file"

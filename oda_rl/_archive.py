"""Write, check and read the entries of the zip archive of a model file (see `oda_rl.storage`)."""

import math
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from oda_rl._schema_texts import Told

HEADER = "header.json"
# Bytes in memory of the header and all arrays of one file, at most.
MAX_BYTES = 2**30
# Bytes of the header, at most, and their ratio to the compressed bytes: parsed JSON takes several times
# the memory of its text.
MAX_HEADER, MAX_HEADER_RATIO = 2**26, 100
# Deflate cannot compress by a larger ratio; an entry that claims more is forged.
MAX_RATIO = 1032
CHUNK = 2**20

Array = NDArray[Any]
# Dtype and shape of the arrays of a file, by their places.
Declared = dict[str, Told]


def write(file: Any, header: bytes, arrays: Mapping[str, Array]) -> None:
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
            raise DamagedError(f"its entry {entry.filename} is packed in another way than by deflate")
    total = sum(entry.file_size for entry in entries)
    if total > MAX_BYTES:
        raise DamagedError(f"it claims {total} bytes, more than the {MAX_BYTES} that are read")


def check_entries(archive: zipfile.ZipFile, declared: Declared) -> None:
    """Refuse an archive that has other entries than those declared."""
    names = archive.namelist()
    expected = {HEADER, *(place + ".npy" for place in declared)}
    missing, unknown = expected.difference(names), set(names).difference(expected)
    if missing:
        raise DamagedError(f"it has no entry {min(missing)}")
    if unknown or len(names) > len(expected):
        entry = min(unknown, default="twice")
        raise DamagedError(f"it has an entry {entry} that its {HEADER} does not tell")
    check_size(*archive.infolist())


def read_array(archive: zipfile.ZipFile, place: str, told: Told) -> Array:
    """Read one array to the end of its entry, where zipfile compares the checksum."""
    name = place + ".npy"
    with _named(name), archive.open(name) as entry:
        version = npy.read_magic(entry)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = read(entry)
        n_bytes = math.prod(told.shape) * dtype.itemsize
        size = archive.getinfo(name).file_size - entry.tell()
        if (dtype.str, shape, size) != (told.dtype, told.shape, n_bytes):
            raise DamagedError(f"its array {place} is not of the size that its {HEADER} tells")
        content = np.empty(n_bytes, dtype=np.uint8)
        for start in range(0, n_bytes, CHUNK):
            part = entry.read(min(CHUNK, n_bytes - start))
            if not part:
                raise DamagedError(f"its array {place} ends early")
            content[start : start + CHUNK] = np.frombuffer(part, dtype=np.uint8)
    if dtype.kind == "b" and np.any(content > 1):
        raise DamagedError(f"its array {place} has truth values that are neither")
    if dtype.kind == "U" and np.any(content.view(f"{dtype.byteorder}u4") > sys.maxunicode):
        raise DamagedError(f"its array {place} has texts of no letters")
    return content.view(dtype).reshape(shape, order="F" if fortran else "C")


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Name the entry in the error if zipfile, zlib or NumPy cannot read it."""
    try:
        yield
    except DamagedError:
        raise
    except Exception as error:  # each library raises many types
        raise DamagedError(f"its entry {name} cannot be read ({type(error).__name__})") from error

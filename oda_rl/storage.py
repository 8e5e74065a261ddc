"""Model files: nested dictionaries of plain values and arrays, in a `.npz` that cannot run code.

A file is a zip archive. `header.json` tells the format, its version, what the file holds and the
plain values; where an array belongs it has `{"__array__": [dtype, shape]}`. The array itself is an
entry in NumPy's format named by its place, such as `codebook/location.npy`: `numpy.load` reads it too.

A file is checked before anything of it is used: the entries are exactly those of the header, their sizes
are those that it tells and within `MAX_BYTES` together, and every entry is read to its end, so that its
checksum counts.
"""

import io
import json
import os
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from oda_rl._archive import (
    HEADER,
    MAX_BYTES,
    Array,
    Declared,
    check_entries,
    read_array,
    read_plain,
    write,
)

FORMAT = "oda_rl"
VERSION = 2
ARRAY = "__array__"
EARLIER = "an earlier version of oda_rl: learn the model again, or read it with that version"
# Booleans, integers, floats, complex numbers and texts.
DTYPES = "biufcU"
# Of the parts that keep their arrays apart.
CONFIG, ARRAYS = "__config__", "__arrays__"

PathOrFile = str | os.PathLike[str] | io.BufferedIOBase


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


# -- writing -----------------------------------------------------------------------------------------


def save(
    path: PathOrFile, kind: str, state: Mapping[str, Any], arrays: Mapping[str, Array] | None = None
) -> Path | None:
    """Write a model file under a temporary name, then rename it: there is never half a file.

    Parameters
    ----------
    path : str, path or binary file
        Where to. `.npz` is appended to a name without a suffix; missing folders are made.
    kind : str
        What the file holds, the name of a class.
    state : mapping
        Numbers, texts, booleans, None and arrays of numbers, in dictionaries with texts for keys and in
        lists, as deep as need be. Tuples become lists, numbers of NumPy plain ones.
    arrays : mapping of str to ndarray, optional
        Arrays beside the state, for parts that keep the two apart; `load` returns both then.

    Returns
    -------
    Path or None
        The file written; None for a binary file.

    Raises
    ------
    TypeError
        If the state holds something else; the message names its place.
    ValueError
        If the arrays take more than `MAX_BYTES`.
    """
    if arrays is not None:
        state = {CONFIG: state, ARRAYS: arrays}
    found: dict[str, Array] = {}
    plain = _take_arrays(state, "", found)
    header = {"format": FORMAT, "version": VERSION, "kind": kind, "state": plain}
    text = json.dumps(header).encode()
    if len(text) + sum(array.nbytes for array in found.values()) > MAX_BYTES:
        raise ValueError(f"a model file holds up to {MAX_BYTES} bytes of arrays, this {kind} has more.")
    if isinstance(path, io.BufferedIOBase):
        write(path, text, found)
        return None
    target = with_suffix(path)
    with written_whole(target) as temporary, temporary.open("wb") as file:
        write(file, text, found)
    return target


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Write a file under a temporary name, which is then renamed: there is never half of it.

    Parameters
    ----------
    path : str or path
        The file; missing folders are made.

    Yields
    ------
    Path
        What to write to, in the same folder and with the same suffix.

    Examples
    --------
    >>> folder = Path(tempfile.mkdtemp())
    >>> with written_whole(folder / "new" / "notes.md") as path:
    ...     _ = path.write_text("all of it")
    >>> [found.name for found in (folder / "new").iterdir()]
    ['notes.md']
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(target.suffix, f".{target.stem}.", target.parent)
    os.close(handle)
    try:
        yield Path(temporary)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def with_suffix(path: str | os.PathLike[str]) -> Path:
    """The path with `.npz` appended where its name has no suffix."""
    target = Path(path)
    return target if target.suffix else target.with_name(target.name + ".npz")


def _take_arrays(value: Any, place: str, found: dict[str, Array]) -> Any:
    """The value as JSON knows it; its arrays are collected in `found` by their places."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in DTYPES:
            raise TypeError(f"{place!r} is an array of {value.dtype}; only plain numbers are stored.")
        if place in found:
            raise TypeError(f"two arrays have the place {place!r}.")
        found[place] = value
        return {ARRAY: [value.dtype.str, list(value.shape)]}
    if isinstance(value, list | tuple):
        return [_take_arrays(part, _inside(place, i), found) for i, part in enumerate(value)]
    if isinstance(value, Mapping):
        if ARRAY in value or not all(isinstance(key, str) for key in value):
            raise TypeError(f"{place!r} must have texts for keys, other than {ARRAY!r}.")
        return {key: _take_arrays(part, _inside(place, key), found) for key, part in value.items()}
    raise TypeError(f"{place!r} is a {type(value).__name__}, which a model file cannot hold.")


def _inside(place: str, key: object) -> str:
    return f"{place}/{key}" if place else str(key)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


# -- reading -----------------------------------------------------------------------------------------


class _ForeignError(Exception):
    """Why a file is none of ours."""


def load(path: PathOrFile, kind: str) -> Any:
    """Read a model file.

    Parameters
    ----------
    path : str, path or binary file
        The file; `.npz` is appended where no file of the name itself exists.
    kind : str
        What it should hold, the name of a class.

    Returns
    -------
    State
        As given to `save`, with lists in place of tuples. A missing entry is a ValueError that names the
        file.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is damaged, not one of this package, written by another version of it, or holds
        something else than `kind`. The message says which.
    """
    with _opened(path) as (archive, name):
        header = _read_header(archive)
        if header["kind"] != kind:
            raise ValueError(f"{name} holds a {header['kind']}, not a {kind}.")
        declared: Declared = {}
        _list_arrays(header["state"], "", declared)
        check_entries(archive, declared)
        arrays = {place: read_array(archive, place, *told) for place, told in declared.items()}
        state = _put_arrays(header["state"], "", arrays, name)
    return (state[CONFIG], dict(state[ARRAYS])) if CONFIG in state else state


def kind_of(path: PathOrFile) -> str:
    """What a model file holds, the name of a class. Only the header is read.

    Parameters
    ----------
    path : str, path or binary file
        As for `load`; a binary file is left at its beginning.

    Returns
    -------
    str

    Raises
    ------
    FileNotFoundError, ValueError
        As `load` does.
    """
    with _opened(path) as (archive, _):
        kind: str = _read_header(archive)["kind"]
    if isinstance(path, io.BufferedIOBase):
        path.seek(0)
    return kind


@contextmanager
def _opened(path: PathOrFile) -> Iterator[tuple[zipfile.ZipFile, str]]:
    """The archive and what messages call it; whatever is wrong with it becomes a ValueError."""
    if isinstance(path, io.BufferedIOBase):
        with _explained(path, "the model file") as archive:
            yield archive, "the model file"
        return
    found = Path(path) if Path(path).is_file() else with_suffix(path)
    if not found.is_file():
        raise FileNotFoundError(f"there is no model file {found}.")
    with found.open("rb") as file, _explained(file, str(found)) as archive:
        yield archive, str(found)


@contextmanager
def _explained(file: Any, name: str) -> Iterator[zipfile.ZipFile]:
    start = file.read(2)
    file.seek(-len(start), io.SEEK_CUR)
    try:
        if start not in (b"", b"P", b"PK"):
            raise _ForeignError("it is no zip archive")
        with zipfile.ZipFile(file) as archive:
            yield archive
    except _ForeignError as error:
        raise ValueError(f"{name} is not a model file of oda_rl: {error}.") from error
    except ValueError as error:
        if str(error).startswith(name):
            raise
        raise ValueError(f"{name} is damaged, perhaps truncated: {error}.") from error
    except Exception as error:  # zipfile, zlib, json and numpy have many for the same
        what = str(error) or type(error).__name__
        raise ValueError(f"{name} is damaged, perhaps truncated: {what}.") from error


def _read_header(archive: zipfile.ZipFile) -> dict[str, Any]:
    names = archive.namelist()
    if HEADER not in names:
        if "header.npy" in names and b'"format": "oda_rl"' in read_plain(archive, "header.npy"):
            raise _ForeignError(f"its format version is 1, of {EARLIER}; here it is {VERSION}")
        raise _ForeignError(f"it has no {HEADER}")
    try:
        header = json.loads(read_plain(archive, HEADER).decode())
    except (ValueError, RecursionError) as error:
        raise _ForeignError(f"its {HEADER} cannot be read, {type(error).__name__}") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise _ForeignError(f"its {HEADER} is of another program")
    version = header.get("version")
    if type(version) is not int or version < 1:
        raise _ForeignError(f"its format version is {version!r}")
    if version != VERSION:
        found = "a newer version of oda_rl: upgrade it" if version > VERSION else EARLIER
        raise _ForeignError(f"its format version is {version}, of {found}; here it is {VERSION}")
    if not isinstance(header.get("kind"), str) or not isinstance(header.get("state"), dict):
        raise ValueError(f"its {HEADER} does not tell what it holds")
    return header


def _list_arrays(value: Any, place: str, declared: Declared) -> None:
    """Collect the arrays that a header tells of."""
    if isinstance(value, list):
        for i, part in enumerate(value):
            _list_arrays(part, _inside(place, i), declared)
    elif isinstance(value, dict) and ARRAY in value:
        dtype, shape = value[ARRAY]
        sizes = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)
        if place in declared or not sizes or np.dtype(dtype).kind not in DTYPES:
            raise ValueError(f"its {HEADER} tells of an array {place} that cannot be")
        declared[place] = (dtype, shape)
    elif isinstance(value, dict):
        for key, part in value.items():
            _list_arrays(part, _inside(place, key), declared)


def _put_arrays(value: Any, place: str, arrays: Mapping[str, Array], source: str) -> Any:
    """The state with its arrays in their places."""
    if isinstance(value, list):
        return [_put_arrays(part, _inside(place, i), arrays, source) for i, part in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if ARRAY in value:
        return arrays[place]
    parts = {key: _put_arrays(part, _inside(place, key), arrays, source) for key, part in value.items()}
    return State(parts, source, place)

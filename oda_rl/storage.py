"""Model files: nested dictionaries of plain values and arrays, in a `.npz` that cannot run code.

A file is a zip archive. `header.json` has the format, its version, the kind of model and the plain
values, with `{"__array__": [dtype, shape]}` in place of each array. The array itself is an entry in
NumPy's format named by its place, such as `codebook/location.npy`: `numpy.load` reads it too.

A file is checked before any of it is used. Its entries must be those of the header, of the sizes given
there and with at most `MAX_BYTES` in total; all checksums are verified. The content must conform to the
schema of the model (`oda_rl._schema`): missing or unknown entries and values out of bounds are refused.
"""

import io
import json
import os
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from errno import EEXIST, ELOOP
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from oda_rl._archive import (
    HEADER,
    MAX_BYTES,
    MAX_HEADER,
    DamagedError,
    Declared,
    State,
    check_entries,
    declare_array,
    pack,
    read_array,
    read_plain,
    unpack,
    what_begins,
    write,
)
from oda_rl._schema import NotStoredError, RefusedError, Schema, check

FORMAT = "oda_rl"
VERSION = 8
# Most characters of a name that the name of its temporary file begins and ends with
MOST_KEPT = 20
SB3 = "_stable_baselines3_version"
EARLIER = "an earlier version of oda_rl: train the model again, or load it with that version"

PathOrFile = str | os.PathLike[str] | io.BufferedIOBase


# -- writing -----------------------------------------------------------------------------------------


def save(path: PathOrFile, kind: str, state: Mapping[str, Any]) -> Path | None:
    """Write a model file under a temporary name, then rename it: there is never a partial file.

    Parameters
    ----------
    path : str, path or binary file
        The file. `.npz` is appended to a name without a suffix; missing folders are made.
    kind : str
        The kind of model, the name of a class.
    state : mapping
        Numbers, texts, booleans, None and arrays of these, in nested dictionaries, lists, tuples and
        slices. Numbers of NumPy become plain ones.

    Returns
    -------
    Path or None
        The file written; None for a binary file.

    Raises
    ------
    TypeError
        If the state holds something else (the message names its place), or `path` is not a path.
    ValueError
        If the arrays take more than `MAX_BYTES`, or `path` has no name.
    """
    found: dict[str, NDArray[Any]] = {}
    header = {"format": FORMAT, "version": VERSION, "kind": kind, "state": pack(state, "", found)}
    text = json.dumps(header).encode()
    n_bytes = len(text) + sum(array.nbytes for array in found.values())
    if n_bytes > MAX_BYTES or len(text) > MAX_HEADER:
        raise ValueError(
            f"a {kind} of {n_bytes} bytes cannot be saved: a model file has at most {MAX_BYTES} "
            f"bytes, and {MAX_HEADER} of them outside of arrays."
        )
    if isinstance(path, io.BufferedIOBase):
        write(path, text, found)
        return None
    target = with_suffix(path)
    with written_whole(target) as temporary, temporary.open("wb") as file:
        write(file, text, found)
    return target


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Write a file under a temporary name, which is then renamed: there is never a partial file.

    Parameters
    ----------
    path : str or path
        The file; missing folders are made.

    Yields
    ------
    Path
        What to write to, in the same folder and with the same suffix (if it is not very long).

    Raises
    ------
    OSError
        If it cannot be written, or there is a folder or a device of this name.

    Examples
    --------
    >>> folder = Path(tempfile.mkdtemp())
    >>> with written_whole(folder / "new" / "notes.md") as path:
    ...     _ = path.write_text("all of it")
    >>> [found.name for found in (folder / "new").iterdir()]
    ['notes.md']
    """
    suffix, target = Path(path).suffix, Path(os.path.realpath(path))  # replaces the target of a link
    if target.is_symlink():  # one of a loop of links
        raise OSError(ELOOP, os.strerror(ELOOP), str(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists() and not target.is_file():  # /dev/null, say, which root can replace
        raise FileExistsError(EEXIST, "not a regular file and cannot be replaced by one", str(path))
    try:
        short = suffix if len(suffix) <= MOST_KEPT else ""  # a longer name may exceed what is legal
        handle, temporary = tempfile.mkstemp(short, f".{target.stem[:MOST_KEPT]}.", target.parent)
    except OSError as error:  # its message would name the temporary file
        raise type(error)(error.errno, error.strerror, str(path)) from None
    os.close(handle)
    try:
        yield Path(temporary)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def with_suffix(path: str | os.PathLike[str]) -> Path:
    """Append `.npz` to a path without a suffix.

    Raises a TypeError if it is not a path, and a ValueError if it has no name.
    """
    _check_path(path)
    target = Path(path)
    if target.name in ("", ".."):
        raise ValueError(f"path must end with the name of a file, got {str(path)!r}.")
    return target if target.suffix else target.with_name(target.name + ".npz")


def _check_path(path: Any) -> None:
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be a str, a path or a binary file, got {path!r}.")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


# -- reading -----------------------------------------------------------------------------------------


class ModelFileError(ValueError):
    """A file is damaged, foreign, of another version, or another kind of model; see the message."""


def load(path: PathOrFile, kind: str, schema: Schema) -> State:
    """Read a model file.

    Parameters
    ----------
    path : str, path or binary file
        The file; the suffix `.npz` or `.zip` may be missing, or the other one of the two.
    kind : str
        The expected kind of model, the name of a class.
    schema : schema
        What is accepted; see `oda_rl._schema`.

    Returns
    -------
    State
        The state that was given to `save`.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    TypeError
        If `path` is not a path or a binary file, or cannot seek, as a pipe.
    ModelFileError
        If the file is damaged, not from this package, of another format version, holds another
        kind of model, or anything that the schema does not accept.
    """
    with _opened(path) as (archive, name):
        header = _read_header(archive)
        if header["kind"] != kind:
            raise ModelFileError(f"{name} contains a {header['kind']}, not a {kind}.")
        declared: Declared = {}
        outline = unpack(header["state"], "", lambda place, tag: declare_array(place, tag, declared))
        check(schema, outline, {}, whole=False)  # shapes, before anything is allocated
        check_entries(archive, declared)
        arrays = {place: read_array(archive, place, form) for place, form in declared.items()}
        state: State = unpack(header["state"], "", lambda place, tag: arrays[place])
        check(schema, state, {})
    return state


@contextmanager
def restoring(path: PathOrFile) -> Iterator[None]:
    """Turn any error while a model is restored from its state into one that names the file.

    A warning that the user has made an error is raised as it is.
    """
    try:
        yield
    except (ModelFileError, Warning):
        raise
    except Exception as error:
        own = isinstance(error, ValueError | TypeError | ImportError)
        what = str(error) if own else type(error).__name__
        raise ModelFileError(f"no model can be restored from {_name(path)}: {what}") from error


def kind_of(path: PathOrFile) -> str:
    """The kind of model in a file, the name of a class. Only the header is read.

    Parameters
    ----------
    path : str, path or binary file
        As for `load`; a binary file is rewound to its beginning.

    Returns
    -------
    str

    Raises
    ------
    FileNotFoundError, TypeError, ModelFileError
        As `load` does.
    """
    with _opened(path) as (archive, _):
        kind: str = _read_header(archive)["kind"]
    if isinstance(path, io.BufferedIOBase):
        path.seek(0)
    return kind


def _name(path: PathOrFile) -> str:
    return "the model file" if isinstance(path, io.BufferedIOBase) else str(path)


@contextmanager
def _opened(path: PathOrFile) -> Iterator[tuple[zipfile.ZipFile, str]]:
    """Open the archive, with its name for messages; errors in it become a ModelFileError."""
    if isinstance(path, io.BufferedIOBase):
        if not path.seekable():
            raise TypeError(f"path must be a file that can seek, unlike a pipe, got {path!r}.")
        with _explained(path, _name(path)) as archive:
            yield archive, _name(path)
        return
    _check_path(path)
    found = Path(path) if Path(path).name in ("", "..") else _find(Path(path))
    if found.is_dir() or (Path(path).is_dir() and not found.is_file()):
        raise FileNotFoundError(f"{path} is a folder, not a model file.")
    if not found.is_file():
        raise FileNotFoundError(f"there is no model file {found}.")
    with found.open("rb") as file, _explained(file, str(found)) as archive:
        yield archive, str(found)


def _find(path: Path) -> Path:
    """Find a file whose suffix may be missing or wrong: SB3's callbacks append .zip."""
    name = path.name.removesuffix(".npz").removesuffix(".zip")
    others = [path.with_name(name + suffix) for suffix in (".npz", ".zip")]
    return next((found for found in (path, *others) if found.is_file()), with_suffix(path))


class _ForeignError(Exception):
    """A file is not a model file of this package; the message gives the reason."""


class _OtherVersionError(Exception):
    """A model file is of another version; the message gives both."""


@contextmanager
def _explained(file: Any, name: str) -> Iterator[zipfile.ZipFile]:
    start = file.read(64)
    file.seek(-len(start), io.SEEK_CUR)
    try:
        if start[:2] not in (b"", b"P", b"PK"):
            raise _ForeignError(f"it is {what_begins(start)}, not a zip archive")
        with zipfile.ZipFile(file) as archive:
            yield archive
    except (ModelFileError, Warning):  # a warning is raised only if the user has made it an error
        raise
    except _OtherVersionError as error:
        raise ModelFileError(f"{name} cannot be loaded: {error}.") from error
    except _ForeignError as error:
        raise ModelFileError(f"{name} is not a model file of oda_rl: {error}.") from error
    except NotStoredError as error:
        raise ModelFileError(f"no model can be restored from {name}: {error}") from error
    except RefusedError as error:
        raise ModelFileError(f"{name} is damaged or was edited: {error}.") from error
    except DamagedError as error:
        raise ModelFileError(f"{name} is damaged, perhaps truncated: {error}.") from error
    except Exception as error:  # zipfile raises many types
        what = f"its directory cannot be read ({type(error).__name__})"
        raise ModelFileError(f"{name} is damaged, perhaps truncated: {what}.") from error


def _read_header(archive: zipfile.ZipFile) -> dict[str, Any]:
    names = archive.namelist()
    if HEADER not in names:
        if "header.npy" in names and b'"format": "oda_rl"' in read_plain(archive, "header.npy"):
            raise _OtherVersionError(f"its format version is 1 instead of {VERSION}, from {EARLIER}")
        if SB3 in names:
            raise _ForeignError(
                "it is a model of Stable-Baselines3: load it with that package, or distill it with "
                "scripts/distill.py"
            )
        arrays = all(name.endswith(".npy") for name in names)
        raise _ForeignError(f"it has no {HEADER}" + (", only arrays" if arrays and names else ""))
    try:
        header = json.loads(read_plain(archive, HEADER).decode())
    except (ValueError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else "not valid JSON"
        raise _ForeignError(f"its {HEADER} is {why}") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise _ForeignError(f"its {HEADER} was written by another program")
    version = header.get("version")
    if type(version) is not int or version < 1:
        raise _ForeignError(f"it has an invalid format version, {version!r}")
    if version != VERSION:
        found = "a newer version of oda_rl: upgrade oda_rl" if version > VERSION else EARLIER
        raise _OtherVersionError(f"its format version is {version} instead of {VERSION}, from {found}")
    if not isinstance(header.get("kind"), str) or not isinstance(header.get("state"), dict):
        raise DamagedError(f"its {HEADER} does not declare a kind and a state")
    return header

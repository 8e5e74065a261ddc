"""Model files: a `.npz` of plain arrays with a JSON header. Reading one cannot run code."""

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
from numpy.typing import NDArray

FORMAT = "oda_rl"
VERSION = 1
HEADER = "header"

PathOrFile = str | os.PathLike[str] | io.BufferedIOBase


def save(
    path: PathOrFile, kind: str, config: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> Path | None:
    """Write a model file under a temporary name, then rename it: a reader never sees half a file.

    Parameters
    ----------
    path : str, path or binary file
        Where to. `.npz` is appended to a name without a suffix; missing folders are made.
    kind : str
        What the file holds, the name of a class.
    config : mapping
        Numbers, strings, lists and dictionaries that JSON can hold.
    arrays : mapping of str to ndarray
        Arrays of numbers or booleans.

    Returns
    -------
    Path or None
        The file written; None for a binary file.

    Raises
    ------
    TypeError
        If an array holds objects or the config something that JSON does not know.
    """
    for name, array in arrays.items():
        if np.asarray(array).dtype.hasobject:
            raise TypeError(f"array {name!r} holds Python objects; only plain numbers are stored.")
    header = json.dumps({"format": FORMAT, "version": VERSION, "kind": kind, "config": config})
    content = {HEADER: np.frombuffer(header.encode(), dtype=np.uint8), **arrays}
    if isinstance(path, io.BufferedIOBase):
        np.savez_compressed(path, allow_pickle=False, **content)
        return None
    target = with_suffix(path)
    with written_whole(target) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **content)
    return target


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Write a file under a temporary name, which is then renamed: a reader never sees half of it.

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


def load(path: PathOrFile, kind: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read a model file.

    Parameters
    ----------
    path : str, path or binary file
        The file; `.npz` is appended where no file of the name itself exists.
    kind : str
        What it should hold, the name of a class.

    Returns
    -------
    config : dict
        As given to `save`.
    arrays : dict of str to ndarray
        As given to `save`.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is damaged, not one of this package, written by a newer version of it, or holds
        something else than `kind`. The message says which.
    """
    found, config, arrays, name = _read(path)
    if found != kind:
        raise ValueError(f"{name} holds a {found}, not a {kind}.")
    return config, arrays


def kind_of(path: PathOrFile) -> str:
    """What a model file holds, the name of a class.

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
    kind = _read(path)[0]
    if isinstance(path, io.BufferedIOBase):
        path.seek(0)
    return kind


def with_suffix(path: str | os.PathLike[str]) -> Path:
    """The path with `.npz` appended where its name has no suffix."""
    target = Path(path)
    return target if target.suffix else target.with_name(target.name + ".npz")


def _read(path: PathOrFile) -> tuple[str, dict[str, Any], dict[str, NDArray[Any]], str]:
    """Kind, config and arrays of a model file, and what messages call the file."""
    file: Path | io.BufferedIOBase
    if isinstance(path, io.BufferedIOBase):
        file, name = path, "the model file"
    else:
        file = Path(path) if Path(path).is_file() else with_suffix(path)
        name = str(file)
        if not file.is_file():
            raise FileNotFoundError(f"there is no model file {name}.")
    try:
        with np.load(file, allow_pickle=False) as content:
            if not isinstance(content, np.lib.npyio.NpzFile) or HEADER not in content:
                raise ValueError(f"{name} is not a model file of oda_rl: it has no header.")
            header = _read_header(content, name)
            arrays = {key: content[key] for key in content.files if key != HEADER}
    except (zipfile.BadZipFile, EOFError, OSError, zipfile.zlib.error) as error:  # type: ignore[attr-defined]
        raise ValueError(f"{name} is damaged, perhaps truncated: {error}.") from error
    except ValueError as error:
        if name in str(error):
            raise
        raise ValueError(f"{name} is not a model file of oda_rl: {error}.") from error
    if header["version"] > VERSION:
        raise ValueError(
            f"{name} was written by a newer version of oda_rl: its format is {header['version']}, "
            f"this version reads up to {VERSION}. Upgrade oda_rl."
        )
    return header["kind"], header["config"], arrays, name


def _read_header(content: Any, name: str) -> dict[str, Any]:
    try:
        header = json.loads(bytes(content[HEADER]).decode())
        known = header["format"] == FORMAT and isinstance(header["version"], int)
        known = known and {"kind", "config"} <= header.keys()
    except (ValueError, TypeError, KeyError):
        known = False
    if not known:
        raise ValueError(f"{name} is not a model file of oda_rl: its header is of another program.")
    return dict(header)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask

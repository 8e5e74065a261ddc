"""Model files: a `.npz` of plain arrays with a JSON header. Reading one cannot run code."""

import io
import json
import os
import tempfile
import zipfile
from collections.abc import Mapping
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
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez_compressed(file, allow_pickle=False, **content)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
    return target


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
    name, header, arrays = _read(path)
    if header["kind"] != kind:
        raise ValueError(f"{name} holds a {header['kind']}, not a {kind}.")
    return header["config"], arrays


def kind_of(path: PathOrFile) -> str:
    """What a model file holds: the name of a class.

    Parameters
    ----------
    path : str, path or binary file
        As for `load`, which says what is raised.

    Returns
    -------
    str
    """
    return str(_read(path)[1]["kind"])


def _read(path: PathOrFile) -> tuple[str, dict[str, Any], dict[str, NDArray[Any]]]:
    """The name of a model file for messages, its header, and its arrays."""
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
    return name, header, arrays


def with_suffix(path: str | os.PathLike[str]) -> Path:
    """The path with `.npz` appended where its name has no suffix."""
    target = Path(path)
    return target if target.suffix else target.with_name(target.name + ".npz")


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

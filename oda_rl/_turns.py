"""Processes that compile the same function take turns, so that one compiles and the others wait.

A turn is a lock on one byte of a file in the cache's folder, which a hash of the function's name gives.
Unlike a file for each lock, this leaves one empty file. A lock ends with its process, however that ends.
"""

import os
import time
import zlib
from pathlib import Path
from typing import Any

try:
    import fcntl as _fcntl
except ImportError:  # on Windows, where every process compiles for itself
    _fcntl = None  # type: ignore[assignment]

fcntl: Any = _fcntl
# Name of the file of locks, and the number of bytes that may be locked.
FILE, N_BYTES = "compiling.lock", 2**30
# Seconds between attempts, and after which a process compiles although another one seems to do so.
PAUSE, PATIENCE = 0.02, 120.0
# Files that are open: closing one would end all locks of the process there.
_files: dict[str, int] = {}
# The file and the byte of the present turn: compilers work one at a time in a process.
_present: list[tuple[int, int]] = []


def begin_turn(folder: str, name: str) -> bool:
    """Wait until no other process has the turn for this name, and take it.

    Parameters
    ----------
    folder : str
        An existing folder; the turns of each folder are separate.
    name : str
        What is to be done by one process alone.

    Returns
    -------
    bool
        Whether the turn has been taken; not if there are no locks here, or after `PATIENCE` seconds.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    end_turn()  # of a function that could not be compiled
    if fcntl is None:
        return False
    path = str(Path(folder) / FILE)
    if path not in _files:
        _files[path] = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    place = _files[path], zlib.crc32(name.encode()) % N_BYTES
    patience = time.monotonic() + PATIENCE
    while time.monotonic() < patience:
        if try_lock(*place, 1):
            _present.append(place)
            return True
        time.sleep(PAUSE)
    return False


def try_lock(file: int, start: int = 0, n_bytes: int = 0) -> bool:
    """Lock bytes of an open file, all if `n_bytes` is 0; return False if another process has them.

    Raises an OSError if the file system has no locks.
    """
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, n_bytes, start)
    except (BlockingIOError, PermissionError):  # which of these it is depends on the system
        return False
    return True


def end_turn() -> None:
    """Let other processes take the turn that this one has, if it has one."""
    while _present:
        file, byte = _present.pop()
        fcntl.lockf(file, fcntl.LOCK_UN, 1, byte)

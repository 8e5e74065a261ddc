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
        try:
            fcntl.lockf(place[0], fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place[1])
        except (BlockingIOError, PermissionError):  # which of these it is depends on the system
            time.sleep(PAUSE)
            continue
        _present.append(place)
        return True
    return False


def end_turn() -> None:
    """Let other processes take the turn that this one has, if it has one."""
    while _present:
        file, byte = _present.pop()
        fcntl.lockf(file, fcntl.LOCK_UN, 1, byte)

"""A lock on the folder of a run, so that no two processes train the same run."""

import os
from pathlib import Path
from typing import Any

try:
    import fcntl as _fcntl
except ImportError:  # on Windows, where nothing is locked
    _fcntl = None  # type: ignore[assignment]

fcntl: Any = _fcntl
FILE = ".lock"
# Files that stay open: closing one would end the lock.
_held: list[int] = []


def lock_run(folder: Path) -> bool:
    """Lock a run for this process until that ends, however it ends.

    Parameters
    ----------
    folder : Path
        The existing folder of the run.

    Returns
    -------
    bool
        False if another process has locked it. True where nothing can be locked.
    """
    if fcntl is None:
        return True
    try:
        file = os.open(folder / FILE, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError:  # what this means for the training is said when it writes
        return True
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # which of these it is depends on the system
        os.close(file)
        return False
    except OSError:  # a file system without locks
        os.close(file)
        return True
    _held.append(file)
    return True

"""A lock on the folder of a run, so that no two processes train the same run."""

import os
from pathlib import Path

from oda_rl._turns import fcntl, try_lock

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
    if fcntl is None:  # on Windows
        return True
    try:
        file = os.open(folder / FILE, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError:  # what this means for the training is said when it writes
        return True
    try:
        free = try_lock(file)
    except OSError:  # a file system without locks
        free = True
    if free:
        _held.append(file)
    else:
        os.close(file)
    return free

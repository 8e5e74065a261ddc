"""Linear algebra in a single thread."""

from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()  # searches all loaded libraries, which takes milliseconds


def one_thread() -> AbstractContextManager[object]:
    """Limit BLAS to one thread, for systems of a few hundred unknowns, which are too small for more.

    BLAS starts a thread for each core, and these wait for one another in busy loops: when other programs
    used the cores, too, a fit of 0.1 s took 5 to 14 s.
    """
    found: AbstractContextManager[object] = _libraries().limit(limits=1, user_api="blas")
    return found

"""Linear algebra in a single thread."""

from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()  # looks through all that is loaded, which takes milliseconds


def one_thread() -> AbstractContextManager[object]:
    """Where systems of a few hundred unknowns are solved: they are not worth the threads.

    BLAS has one for each core, which wait for one another without pause: where other programs use the
    cores, too, a fit of 0.1 s took 5 to 14.
    """
    found: AbstractContextManager[object] = _libraries().limit(limits=1, user_api="blas")
    return found

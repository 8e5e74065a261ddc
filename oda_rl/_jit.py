"""The one decorator for compiled code.

Numba notices a change in the file of a cached function, but not in the files of the functions that it
calls. `kernel` therefore puts a digest of the core kernels into every cache key, so that a kernel in
another file is compiled anew when one of the core kernels changes.
"""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache

# Division by zero gives infinity, as in NumPy: loops with a test in them would not become vector code.
OPTIONS: Any = {"nogil": True, "error_model": "numpy"}
CORE = ("kernels.py", "events.py", "batch.py")


@cache
def _core_digest() -> str:
    digest = hashlib.sha256()
    for name in CORE:
        digest.update(Path(__file__).with_name(name).read_bytes())
    return digest.hexdigest()


class _KernelCache(FunctionCache):
    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        return (*super()._index_key(sig, codegen), _core_digest())


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a free function on its first call and keep the machine code on disk.

    Parameters
    ----------
    function : callable
        A function over arrays and numbers, without validation.

    Returns
    -------
    callable
        The compiled function. Nothing is compiled until it is called. Where no folder for the cache can
        be written, it is compiled anew in every process instead.
    """
    compiled = numba.njit(**OPTIONS)(function)
    with suppress(RuntimeError):  # raised where numba finds no place to write to
        compiled._cache = _KernelCache(function)
    return compiled

"""The one decorator for compiled code.

Numba notices a change in the file of a cached function, but not in the files of the functions that it
calls. `kernel` therefore puts a digest of those files into the cache key, so that a kernel is compiled
anew when one that it may call changes.
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


@cache
def _digest(path: str) -> bytes:
    return hashlib.sha256(Path(path).read_bytes()).digest()


def _files(function: Callable[..., Any], found: set[str]) -> set[str]:
    """The files of the kernels that a function can name, directly or through one of those."""
    for other in function.__globals__.values():
        called = getattr(other, "py_func", None)
        if called is not None and called.__code__.co_filename not in found:
            found.add(called.__code__.co_filename)
            _files(called, found)
    return found


class _KernelCache(FunctionCache):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._function = function

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        files = sorted(_files(self._function, {self._function.__code__.co_filename}))
        return (*super()._index_key(sig, codegen), *(_digest(path) for path in files))


def kernel(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile a free function on its first call and keep the machine code on disk.

    Parameters
    ----------
    function : callable
        A function over arrays and numbers, without validation.
    **options
        For numba, besides those that all kernels have.

    Returns
    -------
    callable
        The compiled function. Nothing is compiled until it is called. Where no folder for the cache can
        be written, it is compiled anew in every process instead.
    """
    compiled = numba.njit(**{**OPTIONS, **options})(function)
    with suppress(RuntimeError):  # raised where numba finds no place to write to
        compiled._cache = _KernelCache(function)
    return compiled


def bare_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a kernel that makes no arrays, only views of those that it is given.

    Such a kernel need not count references to arrays. To count them takes an atomic operation for every
    array that is passed on, which in a loop of small kernels costs more than all the arithmetic. NumPy's
    reductions (`array.max()`) do not compile in it.
    """
    return kernel(function, _nrt=False)

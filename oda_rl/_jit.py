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
LEAN: Any = {**OPTIONS, "_nrt": False}
FREE_ORDER = {"reassoc", "contract", "nsz", "nnan"}


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
    return _compile(function)


def lean_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """A `kernel` that makes no arrays, and does not count references to those that it is given.

    A loop that runs a million times a second over a dozen arrays would spend most of its time counting.

    Parameters
    ----------
    function : callable
        As for `kernel`.

    Returns
    -------
    callable
        The compiled function.
    """
    return _compile(function, _nrt=False)


def inline_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """A `lean_kernel` that becomes part of the kernel which calls it.

    For those that take named tuples of arrays: handing over a dozen arrays by value costs as much as
    the work of a step.

    Parameters
    ----------
    function : callable
        As for `kernel`.

    Returns
    -------
    callable
        The compiled function.
    """
    return _compile(function, _nrt=False, forceinline=True)


def vector_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """A `lean_kernel` whose sums may be taken in any order, and whose numbers are all finite.

    Loops with sums or minima become vector code only if the order is free.

    Parameters
    ----------
    function : callable
        As for `kernel`.

    Returns
    -------
    callable
        The compiled function.
    """
    return _compile(function, _nrt=False, fastmath=FREE_ORDER)


def _compile(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    compiled = numba.njit(**OPTIONS, **options)(function)
    with suppress(RuntimeError):  # raised where numba finds no place to write to
        compiled._cache = _KernelCache(function)
    return compiled

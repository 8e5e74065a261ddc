"""The one decorator for compiled code, and arrays that lie well for its loops.

Numba notices a change in the file of a cached function, but not in the files of the functions that it
calls. `kernel` therefore puts a digest of those files into the cache key, so that a kernel is compiled
anew when one that it may call changes.
"""

import hashlib
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core.caching import FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numpy.typing import NDArray

# Division by zero gives infinity, as in NumPy: loops with a test in them would not become vector code.
# What says nothing of the order of sums would take it from the kernel that it is first compiled for.
OPTIONS: Any = {"nogil": True, "error_model": "numpy", "fastmath": False}
LEAN: Any = {**OPTIONS, "_nrt": False}
FREE_ORDER = {"reassoc", "contract", "nsz", "nnan"}
# Bytes of a line of the processor's cache, and of its longest vectors
CACHE_LINE = 64
# What decides of all machine code: the options here, and how groups of arrays are read
COMPILING = (__file__, str(Path(__file__).with_name("_structs.py")))
# Where compiled code was found broken: one warning in a process is enough
BROKEN: list[str] = []


class _OwnCode(JITCodeLibrary):
    """Machine code that calls its own copies of other kernels, never those of another's code.

    A kernel contains the kernels that it calls, optimised once more. Where sums may be taken in any
    order, a copy then differs from the original in the last bit, and the loader takes whichever came
    first: the results of a process that compiles would not be those of one that reads from the disk.
    """

    def _finalize_final_module(self) -> None:
        self._shared_module = self._final_module.clone()
        for function in self._shared_module.functions:
            if not function.is_declaration and function.linkage.name == "external":
                function.linkage = "linkonce_odr"  # as numba does, for whoever links it
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage.name == "linkonce_odr":
                function.linkage = "internal"
        super()._finalize_final_module()


class _KernelCompiler(Compiler):
    def compile_extra(self, function: Any) -> Any:
        library = _OwnCode(self.state.targetctx.codegen(), function.__qualname__)
        library.enable_object_caching()
        self.state.library = library
        return super().compile_extra(function)


@cache
def _digest(path: str) -> bytes:
    return hashlib.sha256(Path(path).read_bytes()).digest()


def _files(function: Callable[..., Any], found: set[str]) -> set[str]:
    """The files of the kernels and groups of arrays that a function can name, or one of those can."""
    for other in function.__globals__.values():
        called = getattr(other, "py_func", None)
        if called is not None and called.__code__.co_filename not in found:
            found.add(called.__code__.co_filename)
            _files(called, found)
        if declared_in := getattr(other, "declared_in", None):
            found.add(str(sys.modules[declared_in].__file__))
    return found


class _KernelCache(FunctionCache):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._function = function

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        files = sorted(_files(self._function, {self._function.__code__.co_filename, *COMPILING}))
        return (*super()._index_key(sig, codegen), *(_digest(path) for path in files))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Machine code from the disk, or None. What cannot be read there is compiled anew."""
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # whatever damaged bytes, or modules that have moved, end in
            _warn_of_broken_cache(self.cache_path, repr(error))
            self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write machine code to the disk; where that is full, it is compiled again the next time."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _warn_of_full_disk(self.cache_path, error.strerror or str(error))


def _warn_of_broken_cache(folder: str, reason: str) -> None:
    if BROKEN:
        return
    BROKEN.append(folder)
    warnings.warn(
        f"compiled code in {folder} cannot be read ({reason}); it is compiled anew, "
        "as all that is broken there.",
        RuntimeWarning,
        stacklevel=4,
    )


@cache
def _warn_of_full_disk(folder: str, reason: str) -> None:
    warnings.warn(
        f"compiled code cannot be kept in {folder} ({reason}); it is compiled again the next time.",
        RuntimeWarning,
        stacklevel=4,
    )


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function over arrays and numbers on its first call, and keep the machine code on disk.

    Where no folder for the cache can be written, it is compiled anew in every process instead.
    """
    return _compile(function)


def lean_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """A `kernel` that makes no arrays, and does not count references to those that it is given.

    A loop that runs a million times a second over a dozen arrays would spend most of its time counting.
    """
    return _compile(function, _nrt=False)


def inline_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """A `lean_kernel` whose source becomes part of the kernels that call it.

    For the large pieces of a step, which would otherwise be compiled by themselves and then once more
    inside of every caller; what takes named tuples of arrays would spend its time handing them over.
    """
    return _compile(function, _nrt=False, inline="always")


def vector_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """A `lean_kernel` whose sums may be taken in any order, and whose numbers are all finite.

    Loops with sums or minima become vector code only if the order is free. It must not take powers:
    theirs is one piece of code for all kernels of a process, with the order of whoever came first.
    """
    return _compile(function, _nrt=False, fastmath=FREE_ORDER)


def aligned_zeros(shape: int | tuple[int, ...]) -> NDArray[np.float64]:
    """Zeros that begin at a line of the processor's cache, as all rows whose length is a multiple of 8.

    NumPy's own begin at any multiple of 16 bytes. Then, by chance, the vectors that a compiled loop
    reads lie across two lines, and a step takes up to a fifth longer in one process than in another.
    """
    n_bytes = 8 * int(np.prod(shape))
    buffer = np.zeros(n_bytes + CACHE_LINE, dtype=np.uint8)
    start = -buffer.ctypes.data % CACHE_LINE
    return buffer[start : start + n_bytes].view(np.float64).reshape(shape)


def _compile(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    compiled = numba.njit(pipeline_class=_KernelCompiler, **{**OPTIONS, **options})(function)
    compiled.get_call_template = _without_literals(compiled.get_call_template)
    with suppress(RuntimeError):  # raised where numba finds no place to write to
        compiled._cache = _KernelCache(function)
    return compiled


def _without_literals(resolve: Callable[..., Any]) -> Callable[..., Any]:
    # A kernel that hands on the number 0 would have the other compiled for that 0, and then once more.
    def resolve_plain(args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
        plain = {name: numba.types.unliteral(kind) for name, kind in kws.items()}
        return resolve(tuple(numba.types.unliteral(kind) for kind in args), plain)

    return resolve_plain

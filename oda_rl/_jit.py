"""The decorators for compiled code, and arrays that are aligned for its loops."""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba.np.unsafe.ndarray import to_fixed_tuple
from numpy.typing import NDArray

from oda_rl._kernel_cache import find_cache

# The first and the last version of numba whose internals `_pipeline` uses, to compile in three fifths of
# the time. Any other version compiles kernels in its own way.
KNOWN = ((0, 62), (0, 68))
# Whether kernels are run as plain Python: by NUMBA_DISABLE_JIT=1, for a debugger or a profiler
_CONFIG: Any = numba.config
DISABLED = bool(_CONFIG.DISABLE_JIT)
# Division by zero gives infinity, as in NumPy: loops that test for it would not be vectorised.
# An option that is not given is inherited from the kernel for which a function is first compiled.
OPTIONS: Any = {"nogil": True, "error_model": "numpy", "fastmath": False, "forceinline": False}
LEAN: Any = {**OPTIONS, "_nrt": False}
FREE_ORDER = {"reassoc", "contract", "nsz", "nnan"}
# Bytes of a cache line of the processor, and of its longest vectors
CACHE_LINE = 64


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function over arrays and numbers on its first call, and keep the machine code on disk.

    If no folder can be written, what is not on disk is compiled again in every process, with a warning.
    """
    return _compile(function)


def lean_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """A `kernel` that allocates no arrays and does not count references to its arguments.

    A loop that runs a million times a second over a dozen arrays would spend most of its time counting.
    If another lean kernel calls it, it is optimised only as a part of that one.
    """
    return _compile(function, **LEAN)


def inline_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """A `lean_kernel` that is always inlined into the kernels that call it.

    For the pieces of a step: they have no machine code of their own. Called from Python, such a function
    runs as plain Python.
    """
    compiled = _compile(function, **{**LEAN, "forceinline": True})
    compiled._compile_for_args = lambda *_, **__: function
    return compiled


def pasted_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """A `lean_kernel` whose source becomes part of the kernels that call it, with their options.

    For functions that a `vector_kernel` calls, and for functions that return an array they were not
    given. Every call in the source compiles it once more, and copying it takes half as long again.
    """
    return _compile(function, **LEAN, inline="always")


def vector_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """A `lean_kernel` whose sums may be taken in any order, and which never meets NaN.

    Loops with sums or minima are vectorised only if the order is free. The function must not use powers:
    all kernels of a process share their code, with the options of the kernel that was first compiled.
    """
    return _compile(function, **{**LEAN, "fastmath": FREE_ORDER})


def _tuple_in_python(array: NDArray[Any], length: int) -> tuple[Any, ...]:
    return tuple(array[:length].tolist())


# fixed_tuple(array, length): the first numbers of an array as a tuple of constant length
fixed_tuple: Any = _tuple_in_python if DISABLED else to_fixed_tuple


def aligned_zeros(shape: int | tuple[int, ...]) -> NDArray[np.float64]:
    """Zeros aligned to a cache line; so is every row if the length of rows is a multiple of 8.

    NumPy aligns arrays to 16 bytes only. By chance, the vectors that a compiled loop reads can then
    cross cache lines, and a step takes up to a fifth longer in one process than in another.
    """
    n_bytes = 8 * int(np.prod(shape))
    buffer = np.zeros(n_bytes + CACHE_LINE, dtype=np.uint8)
    start = -buffer.ctypes.data % CACHE_LINE
    return buffer[start : start + n_bytes].view(np.float64).reshape(shape)


def _compile(function: Callable[..., Any], **options: Any) -> Any:
    if DISABLED:
        return np.errstate(all="ignore")(function)  # compiled code does not warn of overflows either
    compiled = _make_dispatcher(function, {**OPTIONS, **options})
    if (kept := find_cache(function)) is not None:
        compiled._cache = kept
    return compiled


def _make_dispatcher(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    if not KNOWN[0] <= numba.version_info.short <= KNOWN[1]:
        return numba.njit(**options)(function)
    from oda_rl._pipeline import make_dispatcher

    return make_dispatcher(function, options)

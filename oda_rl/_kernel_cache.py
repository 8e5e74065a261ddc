"""Machine code on disk: where it is kept, and what its key contains.

Numba notices a change in the file of a cached function, but not in the files of the functions that it
calls. A digest of those files is therefore a part of the key, so that a kernel is compiled again when
one that it may call changes.
"""

import hashlib
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from numba.core.caching import CompileResultCacheImpl, FunctionCache

from oda_rl._interrupts import interrupts_wait
from oda_rl._turns import begin_turn, end_turn

# Files on which all machine code depends: its options, how it is made, and how groups of arrays are read
FILES = ("_jit.py", "_pipeline.py", "_structs.py")
COMPILING = tuple(str(Path(__file__).with_name(name)) for name in FILES)
# Warnings about the cache that this process has given
WARNED: set[object] = set()
# Folders in which this process could not store machine code, and why not
UNSTORED: dict[str, str] = {}


class _Place:
    """One of numba's kinds of folders for machine code, also where it can only be read.

    `trouble` says why the folder cannot be written, None if it can.
    """

    trouble: str | None = None

    def ensure_cache_path(self) -> None:
        """Make the folder, and try to write there."""
        try:
            super().ensure_cache_path()  # type: ignore[misc]
        except OSError as error:
            self.trouble = error.strerror or str(error)


def _in_one_place(kind: type) -> Any:
    place = type(kind.__name__, (_Place, kind), {})
    return type("_KernelCode", (CompileResultCacheImpl,), {"_locator_classes": [place]})


# Next to the source, in the user's folder, and so on, in the order of numba's preference
PLACES = [_in_one_place(kind) for kind in CompileResultCacheImpl._locator_classes]


@cache
def _digest(path: str) -> bytes:
    return hashlib.sha256(Path(path).read_bytes()).digest()


def _files(function: Callable[..., Any], found: set[str]) -> set[str]:
    """The files of the kernels and groups of arrays among the globals of a function, recursively.

    The modules of this package among them count, too: their constants become part of machine code.
    """
    for other in function.__globals__.values():
        if isinstance(other, ModuleType) and other.__name__.startswith("oda_rl.") and other.__file__:
            found.add(other.__file__)
        called = getattr(other, "py_func", None)
        if called is not None and called.__code__.co_filename not in found:
            found.add(called.__code__.co_filename)
            _files(called, found)
        if declared_in := getattr(other, "declared_in", None):
            found.add(str(sys.modules[declared_in].__file__))
    return found


class KernelCache(FunctionCache):
    """The machine code of a function in one folder, and what others have that can only be read.

    Raises a RuntimeError if there can be no such folder for the function.
    """

    def __init__(self, function: Callable[..., Any], place: Any) -> None:
        self._impl_class = place
        super().__init__(function)
        self._function = function
        self.others: list[KernelCache] = []

    @property
    def trouble(self) -> str | None:
        """Why nothing can be stored in the folder; None if it can."""
        return getattr(self._impl.locator, "trouble", None)

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        files = sorted(_files(self._function, {self._function.__code__.co_filename, *COMPILING}))
        return (*super()._index_key(sig, codegen), *(_digest(path) for path in files))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Machine code from the disk, or None: then this process is to compile it.

        If another process is compiling the function already, its result is waited for. Two that compiled
        it for different types could also mistake each other's files.
        """
        for one in (self, *self.others):
            if (found := one._load(sig, target_context)) is not None:
                return found
        if not self._begin_turn():
            return None
        found = self._load(sig, target_context)
        if found is not None:
            end_turn()
        return found

    def _begin_turn(self) -> bool:
        with suppress(OSError):  # it is compiled all the same
            self._impl.locator.ensure_cache_path()
            return begin_turn(self.cache_path, self._cache_file._index_name)
        return False

    @interrupts_wait  # LLVM calls back into Python, as when it makes machine code
    def _load(self, sig: Any, target_context: Any) -> Any:
        """Machine code from this folder, or None. What cannot be read is compiled again."""
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # damaged bytes, or modules that have moved, can raise any type
            if self.trouble and isinstance(error, OSError):
                return None  # a folder that this process may not even read
            _warn_once(
                "broken",
                f"compiled code in {self.cache_path} cannot be read ({error!r}); it will be compiled "
                "again, like all other unreadable files there.",
            )
            if not self.trouble:
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write machine code to the disk; if that is full, it is compiled again the next time."""
        where, why = self.cache_path, self.trouble
        if not why:
            try:
                super().save_overload(sig, data)
            except OSError as error:
                why = error.strerror or str(error)
        if why:
            UNSTORED[where] = why
            message = (
                f"compiled code cannot be cached in {where} ({why}); it will be compiled again the "
                "next time, unless NUMBA_CACHE_DIR names a folder that can be written."
            )
            _warn_once((where, why), message)
        end_turn()


def _warn_once(what: object, message: str) -> None:
    if what not in WARNED:
        WARNED.add(what)
        warnings.warn(message, RuntimeWarning, stacklevel=4)


def find_cache(function: Callable[..., Any]) -> KernelCache | None:
    """Find where the machine code of a function is kept: in the first folder that can be written.

    Those that numba would prefer, but that cannot be written, are read as well: code that was compiled
    ahead of time may belong to another user, or be in a file system that is read-only.

    Parameters
    ----------
    function : callable
        A Python function.

    Returns
    -------
    KernelCache or None
        Its cache, without any folder that can be written one in which nothing is stored; None if there
        is none for its source, which may not be a file.
    """
    found: list[KernelCache] = []
    for place in PLACES:
        with suppress(RuntimeError):  # a function without such a place
            found.append(KernelCache(function, place))
            if not found[-1].trouble:
                found.insert(0, found.pop())
                break
    if found:
        found[0].others = found[1:]
        return found[0]
    return None

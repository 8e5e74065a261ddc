"""How kernels are compiled: as by numba, but in less time, and with copies of what they call.

This uses internals of numba, of the versions `oda_rl._jit.KNOWN`.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering

from oda_rl._interrupts import interrupts_wait

WITHIN: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
OPTIONS_HASH = hash(Flags())  # numba hashes only the names of the options


class _OwnCode(JITCodeLibrary):
    """Machine code that calls its own copies of other kernels, never the copies in another kernel.

    A kernel contains copies of the kernels that it calls. If sums may be taken in any order, the results
    of two copies can differ in the last bit, and the loader would use whichever copy was loaded first: a
    process that compiles would then get other results than one that reads from the disk.
    """

    def _finalize_final_module(self) -> None:
        _relink(self._final_module, "linkonce_odr", "internal")
        super()._finalize_final_module()

    # LLVM calls back into Python here: an exception raised there, as by Ctrl-C, is printed and lost.
    @interrupts_wait
    def _finalize_specific(self) -> None:
        super()._finalize_specific()


class _SimpleCode(_OwnCode):
    """`_OwnCode` without reference counts, for which alone numba has the first of its two passes."""

    def _optimize_final_module(self) -> None:
        passes, builder = self._codegen._module_pass_manager()
        passes.run(self._final_module, builder)


def _relink(module: Any, old: str, new: str) -> None:
    for function in module.functions:
        if not function.is_declaration and function.linkage.name == old:
            function.linkage = new


class _Flags(Flags):
    """Compiler options with a fast comparison: numba compares them ten thousand times for a kernel."""

    def __eq__(self, other: object) -> bool:
        return self._values == other._values if isinstance(other, _Flags) else super().__eq__(other)

    def __hash__(self) -> int:
        return OPTIONS_HASH


def _is_simple(flags: Flags) -> bool:
    """Whether no references are counted, and sums are taken in the order of the source."""
    return not (flags.nrt or flags.fastmath)


class _KernelCompiler(Compiler):
    @property
    def library_class(self) -> type[JITCodeLibrary]:
        return _SimpleCode if _is_simple(self.state.flags) else _OwnCode

    def compile_extra(self, function: Any) -> Any:
        self.state.flags = _Flags(self.state.flags)
        library = self.library_class(self.state.targetctx.codegen(), function.__qualname__)
        library.enable_object_caching()
        self.state.library = library
        with _uncollected():
            return super().compile_extra(function)


class _OptimisedPartCode(JITCodeLibrary):
    """Code that is never run by itself: it becomes machine code as a part of the kernels that call it.

    It is optimised by itself all the same: if sums may be taken in any order, that order is then the
    same in all kernels that contain it.
    """

    def _finalize_final_module(self) -> None:
        _relink(self._final_module, "external", "linkonce_odr")
        self._shared_module = self._final_module
        self._finalized = True


class _PartCode(_OptimisedPartCode):
    """Code of this kind that is optimised only as a part of the kernels that contain it."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        pass


@register_pass(mutates_CFG=True, analysis_only=False)
class _PartLowering(NativeLowering):
    """Numba's last pass, without machine code and without a wrapper for calls from Python."""

    _name = "part_lowering"

    def run_pass(self, state: Any) -> bool:
        state.flags.no_compile = True
        super().run_pass(state)
        key = object()
        state.targetctx.insert_user_function(key, state.cr.fndesc, [state.library])
        state.cr = state.cr._replace(cfunc=key)
        return True


class _PartCompiler(_KernelCompiler):
    @property
    def library_class(self) -> type[JITCodeLibrary]:
        return _PartCode if _is_simple(self.state.flags) else _OptimisedPartCode

    def define_pipelines(self) -> list[Any]:
        [passes] = super().define_pipelines()
        passes.passes = [
            (_PartLowering if kind is NativeLowering else kind, name) for kind, name in passes.passes
        ]
        passes.finalize()
        return [passes]


@contextmanager
def _uncollected() -> Iterator[None]:
    """Turn off garbage collection, which takes a tenth of the compile time if torch is imported."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def make_dispatcher(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """A function that numba compiles with these options when it is called."""
    compiled = numba.njit(pipeline_class=_KernelCompiler, **options)(function)
    part = _make_part(function, options)
    compiled.get_call_template, compiled.get_overload = part.get_call_template, part.get_overload
    return compiled


def _make_part(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """The version of a kernel that other kernels call, typed once per process."""
    part = numba.njit(pipeline_class=_PartCompiler, **{**options, **WITHIN})(function)
    part.add_overload = lambda made: part.overloads.update({made.signature.args: made})
    part.get_call_template = _without_literals(part.get_call_template)
    return part


def _without_literals(resolve: Callable[..., Any]) -> Callable[..., Any]:
    # If a kernel passes the constant 0, numba would compile the callee for that 0, and then once more.
    def resolve_plain(args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
        plain = {name: numba.types.unliteral(kind) for name, kind in kws.items()}
        return resolve(tuple(numba.types.unliteral(kind) for kind in args), plain)

    return resolve_plain

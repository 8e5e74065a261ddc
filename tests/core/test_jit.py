"""Compiled code on disk is made anew where it is broken, with a warning; arrays for compiled loops."""

import ast
import gc
import importlib
import inspect
import os
import pkgutil
import signal
import subprocess
import sys
import tempfile
import textwrap

import numpy as np
import pytest
from numba.core import config, event

import oda_rl
from oda_rl import _jit, _kernel_cache
from oda_rl._jit import CACHE_LINE, aligned_zeros, inline_kernel, lean_kernel, vector_kernel

BROKEN = [
    (ending, content)
    for ending in ("nbi", "nbc")
    for content in (b"", b"half", b"\x80\x04cno_such_module\nname\n.")
]
# Besides those whose files will be broken, one that stays whole, and one that meets a full disk
N_KERNELS = len(BROKEN) + 2
MODULE = "from oda_rl._jit import kernel\n" + "".join(
    f"@kernel\ndef add_{n}(x):\n    return x + {n}\n" for n in range(N_KERNELS)
)
# Calls all kernels, and prints how many of them were read from the disk. (Of what Python itself
# compiles, it would leave the first half on a full disk, and fail at the next import.)
CALLS = f"""
import importlib, sys
sys.dont_write_bytecode = True
import kernels
def call_all():
    kernels = importlib.reload(sys.modules["kernels"])
    added = [getattr(kernels, f"add_{{n}}") for n in range({N_KERNELS})]
    assert [add(1) for add in added] == list(range(1, {N_KERNELS} + 1))
    print(sum(sum(add.stats.cache_hits.values()) for add in added))
"""
FULL_DISK = f"""
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (500, 10**9))
assert kernels.add_{N_KERNELS - 1}(1) == {N_KERNELS}
resource.setrlimit(resource.RLIMIT_FSIZE, (10**9, 10**9))
"""


def run(folder, code):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", CALLS + code],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split(), done.stderr


def test_a_broken_cache_is_compiled_anew_and_a_full_disk_goes_without(tmp_path):
    (tmp_path / "kernels.py").write_text(MODULE)
    hits, errors = run(tmp_path, FULL_DISK + "call_all()")
    assert hits == ["0"]
    assert errors.count("it will be compiled again the next time") == 1
    for n, (ending, content) in enumerate(BROKEN):
        (path,) = tmp_path.rglob(f"*.add_{n}-*.{ending}")
        path.write_bytes(content)
    hits, errors = run(tmp_path, "call_all()\ncall_all()")
    assert hits == ["2", str(N_KERNELS)]
    assert errors.count("it will be compiled again") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="every process compiles for itself there")
def test_of_two_processes_at_once_one_compiles_and_the_other_waits(tmp_path):
    (tmp_path / "kernels.py").write_text(MODULE)
    code = (
        "import kernels; print(flush=True); input(); kernels.add_0(1);"
        "print(len(kernels.add_0.stats.cache_misses))"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(tmp_path)}
    both = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in both:
        assert process.stdout.readline() == "\n"
    for process in both:
        process.stdin.write("\n")
        process.stdin.flush()
    assert sorted(process.communicate()[0] for process in both) == ["0\n", "1\n"]


@pytest.mark.parametrize("within", ["_raw_object_cache_notify", "_raw_object_cache_getbuffer"])
def test_ctrl_c_while_machine_code_is_made_or_read_is_not_lost(within, tmp_path, monkeypatch, capfd):
    (tmp_path / "own_code.py").write_text("def triple(x):\n    return 3 * x\n")
    monkeypatch.syspath_prepend(tmp_path)
    triple = importlib.import_module("own_code").triple
    came = []

    def interrupt(frame, event, _):
        if event == "call" and frame.f_code.co_name == within and not came:
            came.append(signal.raise_signal(signal.SIGINT))

    if within.endswith("getbuffer"):
        _jit.kernel(triple)(2)  # is on the disk from here on
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.setprofile(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            _jit.kernel(triple)(2)
    finally:
        sys.setprofile(None)
        signal.signal(signal.SIGINT, before)
    assert came
    assert "Exception ignored" not in capfd.readouterr().err
    assert _jit.kernel(triple)(2) == 6


def test_a_change_of_how_code_is_compiled_compiles_anew(tmp_path, monkeypatch):
    (tmp_path / "own.py").write_text("def double(x):\n    return 2 * x\n")
    monkeypatch.syspath_prepend(tmp_path)
    double = importlib.import_module("own").double

    def hits():
        again = _jit.kernel(double)
        assert again(2) == 4
        return sum(again.stats.cache_hits.values())

    assert [hits(), hits()] == [0, 1]
    digest = _kernel_cache._digest
    for changed in _kernel_cache.FILES:

        def other(path, changed=changed):
            return digest(path) + changed.encode() * path.endswith(changed)

        monkeypatch.setattr(_kernel_cache, "_digest", other)
        assert [hits(), hits()] == [0, 1]


def test_an_unknown_version_of_numba_compiles_in_its_own_way(tmp_path, monkeypatch):
    code = (
        "from oda_rl._jit import inline_kernel, kernel, pasted_kernel, vector_kernel\n"
        "@inline_kernel\ndef twice(x):\n    return 2.0 * x\n"
        "@pasted_kernel\ndef square(x):\n    return x * x\n"
        "@vector_kernel\ndef add(x):\n    s = 0.0\n"
        "    for y in x:\n        s += square(y)\n    return s\n"
        "@kernel\ndef total(x):\n    return add(x) + twice(x[0])\n"
    )
    (tmp_path / "plain_kernels.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(_jit, "KNOWN", ((0, 1), (0, 2)))
    monkeypatch.setitem(sys.modules, "oda_rl._pipeline", None)  # an import of it fails
    total = importlib.import_module("plain_kernels").total
    assert total(np.array([3.0, 4.0])) == 31.0
    assert list(tmp_path.rglob("plain_kernels.total-*.nbc"))


def test_a_change_of_a_module_that_is_named_compiles_anew(tmp_path, monkeypatch):
    """Its constants are part of machine code."""
    code = "from oda_rl import divergences\n\n\ndef double(x):\n    return 2 * x\n"
    (tmp_path / "named.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    double, digest = importlib.import_module("named").double, _kernel_cache._digest
    assert _jit.kernel(double)(2) == 4
    monkeypatch.setattr(
        _kernel_cache, "_digest", lambda path: digest(path) + b"other" * path.endswith("divergences.py")
    )
    again = _jit.kernel(double)
    assert again(2) == 4
    assert not again.stats.cache_hits


@pytest.fixture
def double(tmp_path, monkeypatch):
    """A function, and the folders for its machine code: next to its source, and the user's."""
    (tmp_path / "lone.py").write_text("def double(x):\n    return 2 * x\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    monkeypatch.setattr(config, "CACHE_DIR", "")
    monkeypatch.delitem(sys.modules, "lone", raising=False)
    return importlib.import_module("lone").double


def hits_of(function, number):
    """How much machine code comes from the disk when a function is called in a new process."""
    again = _jit.kernel(function)
    assert again(number) == 2 * number
    return sum(again.stats.cache_hits.values())


def forbid(monkeypatch, folder):
    """Let every attempt to write below a folder fail; root would not mind its permissions."""
    opened = tempfile.TemporaryFile  # by which numba tries

    def attempt(**options):
        if options["dir"].startswith(str(folder)):
            raise PermissionError(13, "Permission denied", options["dir"])
        return opened(**options)

    monkeypatch.setattr(tempfile, "TemporaryFile", attempt)


@pytest.mark.skipif(sys.platform != "linux", reason="the user's folder has another name there")
def test_code_that_was_compiled_ahead_is_read_where_nothing_can_be_written(
    double, tmp_path, monkeypatch, recwarn
):
    assert [hits_of(double, 2), hits_of(double, 2)] == [0, 1]
    forbid(monkeypatch, tmp_path / "__pycache__")
    assert hits_of(double, 2) == 1
    # what is missing there goes to the user's folder, and is read from it
    assert [hits_of(double, 2.0), hits_of(double, 2.0), hits_of(double, 2)] == [0, 1, 1]
    forbid(monkeypatch, tmp_path)
    assert [hits_of(double, 2), hits_of(double, 2.0)] == [1, 1]
    assert not recwarn.list
    with pytest.warns(
        RuntimeWarning, match="cannot be cached in .*__pycache__ .Permission denied"
    ) as told:
        assert [hits_of(double, 2j), hits_of(double, 2j)] == [0, 0]
    assert len(told) == 1
    # and what cannot be read is compiled, as elsewhere
    for path in tmp_path.rglob("*.nb[ic]"):
        path.write_bytes(b"half")
    monkeypatch.setattr(_kernel_cache, "WARNED", set())
    with pytest.warns(RuntimeWarning, match="will be compiled again"):
        assert hits_of(double, 2) == 0


@pytest.mark.parametrize("shape", [3, (2, 8), (0, 8), (3, 2, 16)])
def test_aligned_zeros(shape):
    made = aligned_zeros(shape)
    np.testing.assert_array_equal(made, np.zeros(shape), strict=True)
    assert made.flags.c_contiguous
    assert made.flags.writeable
    assert made.ctypes.data % CACHE_LINE == 0 or made.size == 0


def test_machine_code_offers_no_copies_of_other_kernels():
    """The loader would take them for the originals, which differ in the last bit, or the other way."""

    @vector_kernel
    def inner(x, power):
        total = 0.0
        if power == 1:
            for value in x:
                total += value
        elif power == 2:
            for value in x:
                total += value * value
        else:
            for value in x:
                total += abs(value) * value + total
        return total

    @vector_kernel
    def outer(x, power):
        return inner(x, power) * inner(x[1:], power) + inner(x[2:], power + 1)

    x = np.arange(9.0)
    assert outer(x, 1) == 36.0 * 36.0 + 203.0
    (made,) = outer.overloads.values()
    functions = made.library.get_defined_functions()
    offered = [one.name for one in functions if one.linkage.name != "internal"]
    assert offered
    assert all("outer" in name for name in offered)


class Compiled(event.Listener):
    """The names of the functions that numba compiles; garbage is not looked for meanwhile."""

    def __init__(self):
        self.names, self.depth = [], 0

    def on_start(self, told):
        assert gc.isenabled() == (self.depth == 0)
        self.names.append(told.data["dispatcher"].py_func.__name__)
        self.depth += 1

    def on_end(self, told):
        self.depth -= 1


def test_a_part_has_no_machine_code_and_runs_as_python_when_it_is_called_alone():
    @inline_kernel
    def quotient(x):
        return x[0] / x[1]

    @lean_kernel
    def first(x):
        return quotient(x) + 1.0

    @lean_kernel
    def second(x):
        return quotient(x) + 2.0

    x = np.array([1.0, 0.0])
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        assert quotient(x) == np.inf
    with event.install_listener("numba:compile", Compiled()) as compiled:
        assert first(x) == second(x) == np.inf
    assert compiled.names == ["first", "quotient", "second"]
    assert gc.isenabled()
    (made,) = first.overloads.values()
    assert not any("quotient" in one.name for one in made.library.get_defined_functions())


def test_a_kernel_that_others_call_is_made_machine_code_only_where_it_is_called_alone():
    @lean_kernel
    def total(x):
        found = 0.0
        for value in x:
            found += value
        return found

    @lean_kernel
    def mean(x):
        return total(x) / x.shape[0]

    @vector_kernel
    def centred(x):
        return x[0] - mean(x) + total(x)

    x = np.arange(4.0)
    with event.install_listener("numba:compile", Compiled()) as compiled:
        assert mean(x) == 1.5
        assert centred(x) == 4.5
    assert compiled.names == ["mean", "total", "centred", "mean"]
    assert not total.overloads
    assert len(mean.overloads) == 1
    assert total(x) == 6.0
    assert len(total.overloads) == 1


def test_free_sums_do_not_depend_on_what_was_compiled_before():
    """Numba compiles a power once in a process, with the options of the kernel that came first."""
    agents = pytest.importorskip("oda_rl.agents", reason="the agents are not installed")
    free = []
    for package in (oda_rl, agents):
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            members = vars(importlib.import_module(info.name)).values()
            kernels = [one for one in members if hasattr(one, "targetoptions")]
            assert all("fastmath" in one.targetoptions for one in kernels)  # else it is the caller's
            free += [one.py_func for one in kernels if one.targetoptions["fastmath"]]
    assert len(free) > 20
    for function in free:
        nodes = ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function))))
        assert not any(isinstance(node, ast.Pow) for node in nodes), function.__qualname__

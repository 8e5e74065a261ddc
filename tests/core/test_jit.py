"""Compiled code on disk is made anew where it is broken, with a warning; arrays for compiled loops."""

import os
import subprocess
import sys

import numpy as np
import pytest

from oda_rl._jit import CACHE_LINE, aligned_zeros, vector_kernel

CODE = """
import numpy as np
from oda_rl.codebook.association import smallest
print(smallest(np.array([3.0, 1.0, 2.0]), 3))
"""


def run(folder):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    return subprocess.run(
        [sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, check=True
    )


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compiled")
    assert run(folder).stderr == ""
    assert run(folder).stderr == ""
    return folder


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize("content", [b"", b"half", b"\x80\x04cno_such_module\nname\n."])
def test_a_broken_cache_is_compiled_anew(filled, ending, content):
    for path in filled.rglob(f"*.{ending}"):
        path.write_bytes(content)
    again = run(filled)
    assert again.stdout == "1.0\n"
    assert "it is compiled anew" in again.stderr
    assert run(filled).stderr == ""


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

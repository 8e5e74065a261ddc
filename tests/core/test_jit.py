"""Compiled code on disk is made anew where it is broken, with a warning; arrays for compiled loops."""

import os
import subprocess
import sys

import numpy as np
import pytest

from oda_rl._jit import CACHE_LINE, aligned_zeros

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

"""Compiled code on disk: what is broken there is made anew, with a warning and the same result."""

import os
import subprocess
import sys

import pytest

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

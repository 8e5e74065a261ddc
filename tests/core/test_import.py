import subprocess
import sys

import pytest

import oda_rl


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_the_core_loads_neither_torch_nor_sb3():
    code = (
        "import sys, oda_rl; from oda_rl import Annealer, Codebook, Cooling, Stepsize; "
        "print(sorted({'torch', 'stable_baselines3', 'gymnasium'} & set(sys.modules)))"
    )
    assert run(code) == "[]"


def test_the_package_itself_loads_nothing_heavy():
    """What keeps `import oda_rl` quick: numba and NumPy come with the first name that is used."""
    code = "import sys, oda_rl; print(sorted({'numba', 'numpy', 'sklearn'} & set(sys.modules)))"
    assert run(code) == "[]"


def test_names():
    for name in oda_rl.__all__:
        assert getattr(oda_rl, name).__name__ == name
        assert name in dir(oda_rl)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        oda_rl.nothing  # noqa: B018

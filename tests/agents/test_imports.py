"""What is not needed is not imported before it is asked for: imports and first steps are quick."""

import subprocess
import sys

import pytest

import oda_rl
import oda_rl.agents
import oda_rl.agents.distill
import oda_rl.envs

# Imports that follow one another in an interpreter, and what none of them may bring along.
ESTIMATORS_FIRST = [
    ("import oda_rl", {"numba", "numpy", "sklearn"}),
    ("from oda_rl import Annealer, Codebook", {"torch", "stable_baselines3", "gymnasium"}),
    ("from oda_rl import Cooling, Stepsize", {"torch", "stable_baselines3", "gymnasium"}),
    ("import oda_rl.envs.classic", {"stable_baselines3", "oda_rl.agents"}),
    ("assert oda_rl.envs.classic.CartPole._compiled_step._compiled is None", set()),
    ("import oda_rl.agents.explain", {"matplotlib", "sklearn", "torch"}),
    ("from oda_rl.resolutions import Scattering, WaveletPyramid", {"pywt", "kymatio", "torch"}),
]
AGENTS_FIRST = [
    ("import oda_rl.agents", {"torch", "stable_baselines3", "numba", "gymnasium"}),
    ("import gymnasium, oda_rl.envs", {"stable_baselines3", "numba"}),
    ("import stable_baselines3", set()),
    (
        "from oda_rl.agents import TwoTimescaleQ, SOMQ, KernelQ",
        {"numba", "sklearn", "oda_rl.rkhs", "oda_rl.plotting", "oda_rl.inspect"}
        | {"oda_rl.agents.explain", "matplotlib", "pandas"},
    ),
    (
        "sys.path.insert(0, 'scripts'); import train",
        {"moviepy", "benchmarks", "matplotlib.pyplot"},
    ),
]


@pytest.mark.parametrize("imports", [ESTIMATORS_FIRST, AGENTS_FIRST], ids=["estimators", "agents"])
def test_nothing_comes_along_unasked(imports):
    code = "import sys; seen = set(sys.modules)\n"
    for statement, _ in imports:
        code += f"{statement}\nprint(*set(sys.modules) - seen); seen |= set(sys.modules)\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for (statement, unwanted), brought in zip(imports, done.stdout.splitlines(), strict=True):
        assert not unwanted & set(brought.split()), statement


PACKAGES = [oda_rl, oda_rl.agents, oda_rl.agents.distill, oda_rl.envs]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_all_names_are_there(package):
    for name in package.__all__:
        assert getattr(package, name).__name__ == name
        assert name in dir(package)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = package.Nothing

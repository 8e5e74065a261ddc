"""What agents do not need is not imported before it is asked for."""

import subprocess
import sys

import pytest

HEAVY = ["numba", "sklearn", "oda_rl.rkhs", "oda_rl.plotting", "oda_rl.inspect", "oda_rl.agents.explain"]


def imported_by(code):
    code = f"import sys; before = set(sys.modules)\n{code}\nprint(*set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.fixture(scope="module")
def modules_of_sb3():
    return imported_by("import stable_baselines3")


def test_the_package_imports_nothing_but_itself():
    found = imported_by("import oda_rl.agents")
    assert not {"torch", "stable_baselines3", "numba", "gymnasium"} & found


def test_an_agent_needs_no_more_than_stable_baselines(modules_of_sb3):
    found = imported_by("from oda_rl.agents import TwoTimescaleQ, SOMQ, KernelQ")
    assert not set(HEAVY) & found
    assert not {"matplotlib", "pandas"} & (found - modules_of_sb3)


def test_all_names_are_there():
    import oda_rl.agents

    for name in oda_rl.agents.__all__:
        assert getattr(oda_rl.agents, name).__name__ == name
        assert name in dir(oda_rl.agents)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = oda_rl.agents.Nothing

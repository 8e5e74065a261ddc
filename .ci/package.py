"""Build the source distribution and the wheel, and use them in clean environments.

Such an environment has the package and what that declares to need, and nothing else: the packages are
links to those of the interpreter that runs this, so that nothing is downloaded. The core is used without
torch and Stable-Baselines3, then an agent is trained, and mypy checks a user's script.
"""

import importlib.metadata
import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
ALONE = ("--quiet", "--no-deps", "--no-build-isolation")
CORE = """
import importlib.util, numpy
from oda_rl import ODAPartition
assert all(importlib.util.find_spec(name) is None for name in ("torch", "stable_baselines3"))
samples = numpy.random.default_rng(0).normal(size=(200, 2))
print("the core:", ODAPartition(max_codevectors=4, random_state=0).fit(samples).n_codevectors_, "cells")
"""
AGENTS = """
from oda_rl.agents import UniformGridQ
print("the agents:", UniformGridQ(env="CartPole-v1", seed=0).learn(1_000).num_timesteps, "steps")
"""


def call(*command: object, **options: object) -> None:
    """Run a command; an exception if it fails."""
    subprocess.run([str(word) for word in command], check=True, **options)  # type: ignore[call-overload]


def build(folder: Path) -> tuple[Path, Path]:
    """The source distribution, and the wheel that is made of it, which has all modules."""
    code = f"import setuptools.build_meta as backend; backend.build_sdist({str(folder)!r})"
    call(sys.executable, "-c", code, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (source,) = folder.glob("*.tar.gz")
    call(sys.executable, "-m", "pip", "wheel", *ALONE, "--wheel-dir", folder, source)
    (wheel,) = folder.glob("*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    wanted = {"oda_rl/py.typed", "oda_rl/inspect/page.html"}
    for package, within in (("oda_rl", ""), ("agents", "oda_rl/"), ("envs", "oda_rl/")):
        wanted |= {f"{within}{path.relative_to(ROOT)}" for path in (ROOT / package).rglob("*.py")}
    assert wanted <= packed, f"the wheel lacks {wanted - packed}"
    return source, wheel


def find_needed(name: str, extras: set[str], found: set[tuple[str, str]]) -> set[str]:
    """A distribution and all that it needs with these extras, by name."""
    names = {name}
    for line in importlib.metadata.requires(name) or ():
        needed = Requirement(line)
        wanted = needed.marker is None or any(
            needed.marker.evaluate({"extra": extra}) for extra in extras | {""}
        )
        key = (needed.name, ",".join(sorted(needed.extras)))
        if wanted and key not in found:
            found.add(key)
            names |= find_needed(needed.name, needed.extras, found)
    return names


def make_environment(folder: Path, made: Path, extras: set[str]) -> Path:
    """An interpreter with what was built, and links to what it needs."""
    venv.create(folder, symlinks=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = folder / "lib" / version / "site-packages"
    call(sys.executable, "-m", "pip", "install", *ALONE, "--target", site, made)
    for name in find_needed("oda_rl", extras, set()) - {"oda_rl"}:
        found = importlib.metadata.distribution(name)
        for top in {path.parts[0] for path in found.files or () if path.parts[0] != ".."}:
            if not (site / top).exists():
                (site / top).symlink_to(Path(str(found.locate_file(top))).resolve())
    return folder / "bin" / "python"


def main() -> None:
    """Build, install, use."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, wheel = build(folder)
        core = make_environment(folder / "core", wheel, set())
        full = make_environment(folder / "full", source, {"agents"})
        own = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")}
        call(core, "-I", "-c", CORE, cwd=folder, env=own)
        call(full, "-I", "-c", AGENTS, cwd=folder, env=own)
        # elsewhere, that mypy reads what is installed and not this folder
        options = ("--strict", "--python-executable", full, "--cache-dir", ROOT / ".mypy_cache")
        call(sys.executable, "-m", "mypy", *options, ROOT / ".ci" / "typed_user.py", cwd=folder)


if __name__ == "__main__":
    main()

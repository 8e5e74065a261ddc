"""The scripts as modules: a new interpreter for each of them would take seconds."""

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import tyro

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts"


def load(name):
    """A script, `reproduce/trees` say. What it shares is found as when it is started."""
    path, key = SCRIPTS / f"{name}.py", f"script_{name.replace('/', '_')}"
    if key not in sys.modules:
        before = sys.path[:]
        spec = importlib.util.spec_from_file_location(key, path)
        module = sys.modules[key] = importlib.util.module_from_spec(spec)
        sys.path.insert(0, str(path.parent))
        try:
            spec.loader.exec_module(module)
        finally:
            sys.path[:] = before  # workers of a cluster must do without it
    return sys.modules[key]


def call_script(name, *arguments):
    """Run a script here; returns its exit code."""
    script, arguments = load(name), [str(argument) for argument in arguments]
    try:
        args = (
            script.parse(arguments)
            if hasattr(script, "parse")
            else tyro.cli(script.Args, args=arguments)
        )
        return script.main(args) or 0
    except SystemExit as end:
        return end.code or 0


@pytest.fixture(scope="session")
def call():
    """Run a script here; returns its exit code."""
    return call_script


@pytest.fixture
def run(capsys, monkeypatch):
    """Run a script: its exit code and what it prints."""
    monkeypatch.setenv("COLUMNS", "100")

    def run_script(name, *arguments):
        capsys.readouterr()
        code = call_script(name, *arguments)
        return code, "".join(capsys.readouterr())

    return run_script


@pytest.fixture
def module():
    """A module of the scripts by its name, `benchmarks.plans` say."""
    load("benchmark")
    load("compare")
    load("torture")
    load("plot")
    return importlib.import_module


def _listen():
    """A job in the background of a shell ignores interrupts, and so would its children."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def start():
    """Start a script in a process of its own, as a person does."""

    def start_script(name, *arguments):
        return subprocess.Popen(
            [sys.executable, f"scripts/{name}.py", *map(str, arguments)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "COLUMNS": "100"},
            preexec_fn=_listen,
        )

    return start_script


QUICK = ("--growth-steps", 1000, "--growth-cells", 10, "--max-cells", 20, "--eval-freq", 1000)


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """The folder of a short run of `train.py`, and its log folder."""
    folder = tmp_path_factory.mktemp("logs")
    briefly = ("--total-timesteps", 3000, "--eval-episodes", 5)
    assert call_script("train", "--log-dir", folder, "--seed", 3, *briefly, *QUICK) == 0
    return folder / "CartPole-v1" / "TwoTimescaleAC_3_1", folder

"""The scripts as modules: a new interpreter for each of them would take seconds."""

import importlib.util
import os
import signal
import sys
import threading
from functools import partial
from pathlib import Path

import pytest
import tyro

SCRIPTS = Path(__file__).parents[2] / "scripts"


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

    def main():
        has_own = hasattr(script, "parse")
        return script.main(script.parse(arguments) if has_own else tyro.cli(script.Args, args=arguments))

    with pytest.raises(SystemExit) as ended:
        script.run_and_exit(main)
    return ended.value.code or 0


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


@pytest.fixture
def script():
    """A script as a module by its name, `reproduce/trees` say."""
    return load


@pytest.fixture(scope="module")
def few_decisions():
    """Time decisions of agents over fewer of them: 500 after every run are only for tables to keep."""
    load("benchmark")
    training = importlib.import_module("benchmarks.training")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "time_decision", partial(training.time_decision, number=2))
        yield


@pytest.fixture
def interrupt(run):
    """Run a script here until `ready()`, then press Ctrl-C, say: its exit code and what it prints."""

    def interrupt_script(ready, name, *arguments, by=signal.SIGINT):
        over = threading.Event()

        def press():
            while not over.wait(0.02):
                if ready():
                    os.kill(os.getpid(), by)
                    return

        thread = threading.Thread(target=press)
        before = signal.signal(by, signal.default_int_handler)
        thread.start()
        try:
            return run(name, *arguments)
        except KeyboardInterrupt:
            pytest.fail(f"{name} has not ended by itself")
        finally:
            over.set()
            thread.join()
            signal.signal(by, before)

    return interrupt_script

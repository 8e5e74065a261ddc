"""Scripts end with a line, whatever comes between."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest


def interrupt():
    raise KeyboardInterrupt


def full():
    raise OSError(28, "No space left on device", "model.npz")


def cut_off():
    raise OSError("the data set is not available.")


@pytest.mark.parametrize(
    ("main", "told"),
    [
        (lambda: 2, "2"),
        (interrupt, "130"),
        (full, "Cannot continue: [Errno 28] No space left on device: 'model.npz'. Files written"),
        (cut_off, "Cannot continue: the data set is not available. Files written"),
    ],
)
def test_it_ends_with_a_code_or_a_line(module, main, told):
    with pytest.raises(SystemExit) as ended:
        module("common.ending").run_and_exit(main)
    assert str(ended.value.code).startswith(told)


def test_a_reader_that_has_seen_enough_ends_a_script_in_silence():
    code = """from common.ending import run_and_exit
run_and_exit(lambda: [print('x' * 99) for _ in range(9999)])"""
    piped = ["sh", "-c", f'"{sys.executable}" -c "$1" | head -n 1', "sh", code]
    ended = subprocess.run(piped, cwd=SCRIPTS, capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == ("x" * 99 + "\n", "")


SCRIPTS = Path(__file__).parents[2] / "scripts"
STARTED = [path for path in SCRIPTS.rglob("*.py") if "run_and_exit(lambda" in path.read_text()]


@pytest.mark.parametrize("script", STARTED, ids=lambda path: path.stem)
def test_an_interrupt_while_a_script_is_imported_ends_it_with_a_line(script, tmp_path):
    # among the first that any of them imports; it goes on, as some do
    (tmp_path / "dataclasses.py").write_text(
        "import signal\ntry:\n    signal.raise_signal(signal.SIGINT)\nexcept BaseException:\n    pass\n"
    )
    ended = subprocess.run(
        [sys.executable, script],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert (ended.stderr, ended.returncode) == ("Interrupted.\n", 130)

"""Processes that take turns: one waits for another, but not for ever, nor for one that has ended."""

import subprocess
import sys

import pytest

from oda_rl import _turns
from oda_rl._turns import begin_turn, end_turn

HOLD = (
    "import sys; from oda_rl._turns import begin_turn;"
    "print(begin_turn(*sys.argv[1:]), flush=True); input()"
)

pytestmark = pytest.mark.skipif(_turns.fcntl is None, reason="there are no such locks on Windows")


def test_a_turn_is_waited_for_until_its_process_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(_turns, "PATIENCE", 0.1)
    command = [sys.executable, "-c", HOLD, str(tmp_path), "first"]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout.readline() == "True\n"
        assert not begin_turn(str(tmp_path), "first")  # after waiting
        assert begin_turn(str(tmp_path), "second")
    finally:
        other.kill()
        other.communicate()
    assert begin_turn(str(tmp_path), "first")
    end_turn()


def test_a_turn_that_is_ended_is_free(tmp_path):
    assert begin_turn(str(tmp_path), "first")
    end_turn()
    end_turn()  # there may be none
    command = [sys.executable, "-c", HOLD, str(tmp_path), "first"]
    done = subprocess.run(command, input="\n", capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_without_locks_nobody_waits(tmp_path, monkeypatch):
    monkeypatch.setattr(_turns, "fcntl", None)
    assert not begin_turn(str(tmp_path), "first")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(OSError):
        begin_turn(str(tmp_path / "missing"), "first")

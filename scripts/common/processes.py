"""Processes: workers that end with their parent, new interpreters, and the memory that is used."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

SCRIPTS = Path(__file__).parents[1]


def begin_worker(parent: int) -> None:
    """Start a worker: ignore Ctrl-C, which its parent handles, and exit when the parent has ended."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=watch, daemon=True).start()


def run_alone(code: str, *arguments: object, **environment: str) -> list[float]:
    """Run code in a new interpreter, which finds these modules; returns the numbers on its last line."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(SCRIPTS), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return [float(word) for line in done.stdout.splitlines()[-1:] for word in line.split()]


def resident_memory() -> float:
    """The resident memory of this process in MiB."""
    with open("/proc/self/statm", encoding="utf-8") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20

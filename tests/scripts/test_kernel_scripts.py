"""The scripts on kernel machines: that they run, and write what they promise."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*arguments):
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_reproduce_kernels(tmp_path):
    options = ("--seeds", 2, "--n-samples", 600, "--out", tmp_path)
    assert "BARRETTE from 1" in run("scripts/reproduce/kernels.py", *options)
    for name in ("data", "paths"):
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000


def test_benchmark_of_kernels():
    options = ("--seeds", 0, "--starts", 1, "--grid", 0.4, "--no-svc")
    output = run("scripts/benchmark.py", "kernels", *options)
    assert "POLK 0.2, oracle" in output
    assert "from 1" in output
    assert "microseconds" in output

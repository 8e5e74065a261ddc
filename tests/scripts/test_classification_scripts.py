"""The scripts on classification: that they run, and write what they promise."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*arguments):
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_reproduce_classification(tmp_path):
    options = ("--datasets", "mixture", "--n-samples", 200, "--out", tmp_path)
    assert str(tmp_path) in run("scripts/reproduce/classification.py", *options)
    for name in ("accuracy_by_samples_and_codevectors", "evolution", "poor_start"):
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    assert "| ODA |" in (tmp_path / "table.md").read_text()


def test_benchmark_of_classification():
    parts = ("--no-credit", "--no-robustness", "--no-regression")
    output = run("scripts/benchmark.py", "supervised", "--datasets", "iris", "--seeds", 0, *parts)
    assert "iris" in output
    assert "forest" in output

"""The scripts on trees: that they run, and write what they promise."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*arguments):
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_reproduce_trees(tmp_path):
    few = ("--n-samples", 150, "--max-codevectors", 12, "--max-class-codevectors", 12, "--repeats", 1)
    output = run("scripts/reproduce/trees.py", *few, "--compared-seeds", 0, "--out", tmp_path)
    assert str(tmp_path) in output
    names = [path.name for path in sorted(tmp_path.glob("*.png"))]
    assert names[0] == "errors_over_time.png"
    assert [name[:4] for name in names[1:]] == [f"fig{i}" for i in range(3, 9)]
    assert all(path.stat().st_size > 10_000 for path in tmp_path.glob("*.png"))
    tables = (tmp_path / "tables.txt").read_text()
    assert "1-D then 2-D" in tables
    assert "right in the end" in tables


def test_benchmark_of_trees():
    parts = ("--no-resolutions", "--no-splits", "--repeats", 1, "--leaves", 300)
    output = run("scripts/benchmark.py", "trees", "--seeds", 0, *parts)
    assert "flat, K = 100" in output
    assert "300 leaves" in output
    assert "scikit-learn" in output


def test_benchmark_of_resolutions_and_splits():
    few = ("--stream", 600)
    parts = ("--no-gaussians", "--no-prediction", "--datasets", "digits", "--resolution-seeds", 0)
    output = run(
        "scripts/benchmark.py", "trees", "--seeds", 0, *parts, "--cases", "pixels", "wavelets", *few
    )
    assert "wavelets" in output
    assert "scattering" not in output.split("Flat:")[0]
    assert "regression, constant, stream" in output
    assert "digits, batch" in output

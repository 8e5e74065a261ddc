"""The scripts on regression: that they run, and write what they promise."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_reproduce_regression(tmp_path):
    command = [sys.executable, "scripts/reproduce/regression.py", "--out", str(tmp_path)]
    options = ["--counts", "2", "8", "--n-samples", "200"]
    done = subprocess.run(command + options, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert str(tmp_path) in done.stdout
    for name in ("curve", "surface", "errors"):
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    assert "| 2-D | 0.2" in (tmp_path / "table.md").read_text()


def test_benchmark_of_regression(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    from benchmarks import supervised_regression
    from rich.console import Console

    monkeypatch.setattr(supervised_regression, "PROBLEMS", supervised_regression.PROBLEMS[:1])
    console = Console(width=200, record=True)
    supervised_regression.show_regression(console, range(1))
    supervised_regression.show_regression_stream(console, range(1))
    assert console.export_text().count("1-D") == 3  # two tables of fits, one of streams

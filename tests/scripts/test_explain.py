"""`scripts/explain.py`, run as a person runs it."""

from functools import partial

import pytest
from matplotlib.backend_bases import FigureCanvasBase

from oda_rl import ODAPartition

# The first ending of pictures: .avif, or another where matplotlib is older
FIRST = min(FigureCanvasBase.get_supported_filetypes())


@pytest.fixture
def explain(run):
    return partial(run, "explain")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    import oda_rl.envs  # noqa: F401
    from oda_rl.agents import TwoTimescaleQ

    options = {"warmup_steps": 500, "growth_steps": 2000, "growth_cells": 10, "max_cells": 20}
    model = TwoTimescaleQ(env="oda_rl/CartPole-v1", seed=0, **options).learn(6000)
    path = tmp_path_factory.mktemp("run") / "model.npz"
    model.save(path)
    return path


def test_the_table_and_its_files(path, explain):
    code, output = explain(path, "--cells", 7)
    assert code == 0
    assert "oda_rl/CartPole-v1, TwoTimescaleQ: the 7 visited most of" in output
    assert "greedy action" in output
    assert max(map(len, output.splitlines()[:11])) <= 100
    assert (path.parent / "explained.png").stat().st_size > 10_000
    assert "| cell |" in (path.parent / "explained.md").read_text()
    names = {"model.npz", "explained.md", "explained.png"}
    assert {file.name for file in path.parent.iterdir()} == names
    # what to type next can be typed
    command = output.splitlines()[-1].split("explain.py ")[1]
    code, output = explain(*command.split())
    assert code == 0
    assert "by a margin of" in output


def test_one_state(path, tmp_path, explain):
    files = ("--markdown", tmp_path / "new" / "why.md", "--picture", tmp_path / "why.png")
    state = ("--observation", 0, 0, -0.05, "-1e-3")
    code, output = explain(path, *state, "--dimensions", 0, 2, *files)
    assert code == 0
    assert "pole angle (rad) = -0.05, pole velocity (rad/s) = -0.001" in output
    assert "What the active cells contribute here" in output
    assert "What would change the action" in output
    assert "## Why" in (tmp_path / "new" / "why.md").read_text()
    assert (tmp_path / "why.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--observation", 0, 0), "must be 4 finite numbers"),
        (("--dimensions", 0, 7), "dimensions must be two different indices from 0 to 3"),
        (("--dimensions", 1, 1), "dimensions must be two different indices from 0 to 3"),
        (("--picture", "why"), f"--picture must be a file ending in .{FIRST},"),
        (("--markdown", "why.npz"), "--markdown must be a file ending in .md, .markdown or .txt"),
        (("--html", "why"), "--html must be a file ending in .html or .htm, got why"),
        (("--data", "samples.csv"), "--data requires --html"),
        (
            ("--html", "why.html", "--picture", "why.png"),
            "--picture cannot be used with --html",
        ),
        (("--html", "why.html", "--cells", 3), "--cells cannot be used with --html"),
    ],
)
def test_mistakes_are_named(path, explain, arguments, message):
    code, output = explain(path, *arguments)
    assert code == 1
    assert message in output


@pytest.mark.parametrize("option", ["--html", "--markdown", "--picture"])
def test_no_output_replaces_the_model(path, explain, option):
    before = path.read_bytes()
    code, output = explain(path, option, path)
    assert code == 1
    assert f"{option} must be a file ending in" in output
    assert path.read_bytes() == before


def test_what_is_no_model_is_refused(tmp_path, explain):
    (tmp_path / "notes.npz").write_text("no model")
    code, output = explain(tmp_path / "notes.npz")
    assert code == 1
    assert "not a model file of oda_rl" in output


def test_an_estimator_is_explained_by_its_page(tmp_path, explain):
    ODAPartition(2, random_state=0).fit([[0.0], [1.0]]).save(tmp_path / "cells.npz")
    code, output = explain(tmp_path / "cells.npz")
    assert code == 1
    assert "contains a ODAPartition, not an agent; for a page of it, add --html FILE." in output
    assert explain(tmp_path / "cells.npz", "--html", tmp_path / "page.html")[0] == 0


def test_help_explains_itself(explain):
    code, output = explain("--help")
    assert code == 0
    assert "A state, in the environment's own units" in output

"""`plot.py` draws what a file holds, and says where."""

import sys
from functools import partial

import numpy as np
import pytest
from PIL import Image

import oda_rl.envs  # noqa: F401
from oda_rl import ODAClassifier, ODAPartition, ODARegressor
from oda_rl.agents import TileCodingSarsa, TwoTimescaleQ

QUICK = {"warmup_steps": 200, "growth_steps": 1000, "growth_cells": 10, "max_cells": 20}


@pytest.fixture
def script(module, monkeypatch):
    """The script. Its animations do not hold the last picture, which would be drawn 24 times."""
    own = module("script_plot")
    brief = partial(own.plotting.animate_codebook, hold=0.0)
    monkeypatch.setattr(own.plotting, "animate_codebook", brief)
    return own


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    path = tmp_path_factory.mktemp("agent") / "model.npz"
    TwoTimescaleQ(env="oda_rl/CartPole-v1", seed=0, **QUICK).learn(3_000).save(path)
    return path


def drawn(folder):
    return {path.name for path in folder.iterdir()}


def draw(script, *args, **options):
    try:
        return script.main(script.Args(*args, **options))
    except SystemExit as ended:
        return ended.code


def test_the_command_line(agent, tmp_path, run):
    options = ("--kind", "value", "--dimensions", 0, 1, "--at", 0, 0, 0.1, 0)
    code, output = run("plot", agent, *options, "--out", tmp_path, "--dpi", 40)
    assert code == 0, output
    assert drawn(tmp_path) == {"model_value.png"}
    assert str(tmp_path / "model_value.png") in output.replace("\n", "")
    assert "2: pole angle (rad)" in output


def test_a_resolution_that_takes_too_much_memory_is_refused(agent, run):
    code, output = run("plot", agent, "--dpi", 100_000)
    assert code == 2
    assert "1 to 1200" in output


def test_all_of_an_agent_is_drawn_next_to_it(script, agent, capsys):
    assert draw(script, agent, dpi=40) == 0
    kinds = ("codebook", "partition", "value", "policy", "annealing")
    assert drawn(agent.parent) == {"model.npz", *(f"model_{kind}.png" for kind in kinds)}
    for kind in kinds:
        with Image.open(agent.parent / f"model_{kind}.png") as picture:
            assert np.asarray(picture.convert("L")).std() > 5.0
    printed = capsys.readouterr().out
    assert "TwoTimescaleQ" in printed
    assert f"python scripts/plot.py {agent} --kind animation" in printed.replace("\n", "")


def test_the_animation_of_an_agent_is_of_a_training_like_its_own(
    script, agent, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(sys.modules["common.reading"], "FIRST_INTERVAL", 0.15)
    snapshots = script.train_again(script.load(agent))
    trained = script.load(agent)
    again = snapshots.views()[-1]
    assert snapshots.snapshots[-1][0] == trained.num_timesteps
    np.testing.assert_array_equal(again.codevectors, trained.learner.codevectors)
    assert draw(script, agent, "animation", out=tmp_path, dpi=40) == 0
    assert drawn(tmp_path) == {"model_animation.gif"}
    with Image.open(tmp_path / "model_animation.gif") as gif:
        assert gif.n_frames > 3
    assert "3,000 steps" in capsys.readouterr().out


def test_estimators_with_their_data(script, tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = np.where(X[:, 0] > 0.0, "right", "left")
    ODAClassifier(max_codevectors=6, random_state=0).fit(X, y).save(tmp_path / "classes.npz")
    rows = "\n".join(f"{a},{b},{c}" for (a, b), c in zip(X, y, strict=True))
    (tmp_path / "data.csv").write_text("x,y,label\n" + rows + "\n")
    assert draw(script, tmp_path / "classes.npz", "partition", data=tmp_path / "data.csv", dpi=40) == 0
    assert draw(script, tmp_path / "classes.npz", dpi=40) == 0
    ODARegressor(max_codevectors=6, random_state=0).fit(X, X[:, 0]).save(tmp_path / "curve.npz")
    assert draw(script, tmp_path / "curve.npz", dpi=40) == 0
    assert "No policy" in capsys.readouterr().out
    ODAPartition(max_codevectors=5, random_state=0).fit(X).save(tmp_path / "cells.npz")
    assert draw(script, tmp_path / "cells.npz", "animation", data=None, dpi=40) == 0
    assert {"classes_policy.png", "curve_value.png", "cells_animation.gif"} <= drawn(tmp_path)
    assert "curve_policy.png" not in drawn(tmp_path)


@pytest.fixture
def classifier(tmp_path):
    """A classifier of two features with classes that are hard to write in a CSV file."""
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = np.where(X[:, 0] > 0.0, "C#", 'C, or "C++"')
    return ODAClassifier(max_codevectors=4, random_state=0).fit(X, y)


def test_samples_are_read_as_csv_with_quotes_and_hashes(script, classifier, tmp_path):
    path = tmp_path / "data.csv"
    path.write_bytes(b'\xef\xbb\xbf"x, in #",y,label\r\n1,2,C#\r\n\r\n3,4e-1,"C, or ""C++"""\r\n')
    X, y = script.read_samples(path, classifier)
    np.testing.assert_array_equal(X, [[1.0, 2.0], [3.0, 0.4]])
    assert y.tolist() == ["C#", 'C, or "C++"']
    numbered = ODAClassifier(max_codevectors=4, random_state=0).fit(X, [3, 7])
    path.write_text("x,y,label\n1,2,7\n3,4,3.0\n")
    assert script.read_samples(path, numbered)[1].tolist() == [7, 3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty"),
        ("x,y\n", "it is only one line"),
        ("x;y\n1;2\n", "must have 2 columns.*or one more.*got 1 in line 1, 1 in line 2"),
        ("x,y\n1,2\n1\n1,2,C#\n", "got 1 in line 3, 3 in line 4"),
        ("x\n" * 20, "1 in line 8, and 12 more"),
        ("x,height\n1,2\n\n1,high\n", r"got 'high' in line 4, column 2 \(height\)"),
        ("x,y\n1,nan\n", "must have finite numbers, got 'nan'"),
        ("x,y,label\n1,2,C# 2\n1,2,C#\n1,2,C\n", "'C#', 'C, or .*got 'C# 2' in line 2, 'C' in line 4"),
        ('x,y,label\n1,2,"C#\n', "must be a CSV file"),
    ],
)
def test_a_file_that_does_not_fit_the_model_is_refused_by_line(
    script, classifier, tmp_path, text, message
):
    path = tmp_path / "data.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        script.read_samples(path, classifier)
    assert str(path) in str(caught.value)


def test_a_bad_output_of_a_regressor_is_named(script, tmp_path):
    model = ODARegressor(max_codevectors=4, random_state=0).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    (tmp_path / "data.csv").write_text("x,price\n1,2\n2,?\n")
    with pytest.raises(ValueError, match=r"got '\?' in line 3, column 2 \(price\)"):
        script.read_samples(tmp_path / "data.csv", model)
    (tmp_path / "data.csv").write_text("x,price\n1,2\n2,3\n")
    assert script.read_samples(tmp_path / "data.csv", model)[1].tolist() == [2.0, 3.0]


def test_an_agent_that_has_learned_nothing_is_not_drawn(script, tmp_path, capsys):
    TwoTimescaleQ(env="oda_rl/CartPole-v1", seed=0, **QUICK).save(tmp_path / "model.npz")
    assert draw(script, tmp_path / "model.npz", dpi=40) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.startswith("Cannot plot the model: the model has learned nothing yet"), printed
    assert drawn(tmp_path) == {"model.npz"}


def test_a_baseline_has_no_cells_to_draw(script, tmp_path, capsys):
    path = tmp_path / "tiles.npz"
    TileCodingSarsa(env="oda_rl/MountainCar-v0", seed=0, warmup_steps=200).learn(1_000).save(path)
    assert draw(script, path, dpi=40) == 0
    assert drawn(tmp_path) == {"tiles.npz", "tiles_value.png", "tiles_policy.png"}
    printed = capsys.readouterr().out
    assert "No partition" in printed
    assert "No annealing" in printed


def test_a_model_with_one_dimension_is_drawn_with_its_values(script, tmp_path, capsys, monkeypatch):
    drawings = []
    monkeypatch.setattr(script, "save", lambda figure, path, dpi: drawings.append(figure.axes[0]))
    path = tmp_path / "table.npz"
    TwoTimescaleQ(env="FrozenLake-v1", seed=0, warmup_steps=200).learn(2_000).save(path)
    x = np.linspace(0.0, 3.0, 100)[:, None]
    ODARegressor(max_codevectors=6, random_state=0).fit(x, np.sin(x[:, 0])).save(tmp_path / "curve.npz")
    expected = {
        "table.npz": ("state", "value of the greedy action"),
        "curve.npz": ("feature 0", "prediction"),
    }
    for file, names in expected.items():
        drawings.clear()
        assert draw(script, tmp_path / file) == 0
        assert (drawings[0].get_xlabel(), drawings[0].get_ylabel()) == names
        assert "--kind animation" not in capsys.readouterr().out
    assert draw(script, path, "codebook", dimensions=(0, 1)) == 1
    assert "at least two dimensions" in capsys.readouterr().out.replace("\n", " ")


def test_what_cannot_be_drawn_is_told(script, agent, tmp_path, capsys):
    assert draw(script, tmp_path / "nothing.npz") == 1
    assert "there is no model file" in capsys.readouterr().out.replace("\n", " ")
    assert draw(script, agent, "value", dimensions=(0, 9), out=tmp_path) == 1
    assert "from 0 to 3" in capsys.readouterr().out.replace("\n", " ")
    for wrong in ({"dimensions": (0, 9)}, {"at": (0.0, 0.0)}):
        assert draw(script, agent, out=tmp_path, **wrong) == 1
        printed = " ".join(capsys.readouterr().out.split())
        assert printed.startswith(f"Cannot plot the model: {next(iter(wrong))} must be"), printed
        assert "No value" not in printed
    assert draw(script, agent, "partition", data=tmp_path / "data.csv", out=tmp_path) == 1
    assert "--data can be given only for an estimator" in capsys.readouterr().out.replace("\n", " ")
    assert drawn(tmp_path) == set()

"""`scripts/distill.py`, `scripts/shrink.py` and the pages of `scripts/explain.py`."""

import zipfile

import numpy as np
import pytest
from stable_baselines3 import DQN

from oda_rl import MultiResolutionODA, ODAClassifier, ODAPartition, ODARegressor
from oda_rl.agents import UniformGridQ
from oda_rl.agents.models import load_model

FEW = ("--max-cells", 1, "--rounds", 1, "--steps-per-round", 400, "--episodes", 2)


def test_a_model_of_sb3_is_distilled_and_shrunk(run, tmp_path):
    DQN("MlpPolicy", "CartPole-v1", seed=0, learning_starts=10).learn(100).save(tmp_path / "dqn_model")
    code, said = run("distill", tmp_path / "dqn_model.zip", *FEW)
    assert code == 1
    assert "--env-id" in said
    code, said = run("distill", tmp_path / "dqn_model.zip", "--env-id", "CartPole-v1", *FEW)
    assert code == 0, said
    assert "teacher" in said
    student = load_model(tmp_path / "distilled.npz")
    assert student.n_cells == 1
    # what to type next can be typed
    code, said = run("shrink", tmp_path / "distilled.npz", *FEW, "--eval-episodes", 2)
    assert code == 0, said
    assert load_model(tmp_path / "shrunk.npz").n_parameters <= student.n_parameters
    assert "| numbers |" in (tmp_path / "shrunk.md").read_text()
    assert (tmp_path / "shrunk.page.png").stat().st_size > 1000
    assert run("explain", tmp_path / "shrunk.npz", "--html", tmp_path / "small.html")[0] == 0
    assert "preference" in (tmp_path / "small.html").read_text()
    elsewhere = ("--env-id", "Nowhere-v0", "--html", tmp_path / "none.html")
    code, said = run("explain", tmp_path / "shrunk.npz", *elsewhere)
    assert code == 1
    assert "Nowhere" in said


def test_a_teacher_that_cannot_be_read(run, tmp_path):
    (tmp_path / "who.zip").write_bytes(b"")
    with zipfile.ZipFile(tmp_path / "ppo.zip", "w") as file:
        file.writestr("notes.txt", "no model")
    UniformGridQ(env="CartPole-v1", seed=0).save(tmp_path / "grid.npz")
    for path, word in (
        ("who.zip", "--algorithm must be given"),
        ("none.zip", "There is no file"),
        ("ppo.zip", "is not a model of PPO"),
        ("grid.npz", "Nowhere"),
    ):
        code, said = run("distill", tmp_path / path, "--env-id", "Nowhere-v0")
        assert code == 1
        assert word in said


@pytest.mark.parametrize("name", ["student.md", "folder.npz"])
def test_where_a_student_cannot_go_is_told_before_the_work(name, run, tmp_path):
    UniformGridQ(env="CartPole-v1", seed=0).save(tmp_path / "grid.npz")
    (tmp_path / "folder.npz").mkdir()
    for script in ("distill", "shrink"):
        code, said = run(script, tmp_path / "grid.npz", "--to", tmp_path / name, *FEW)
        assert (code, "--to must be a file ending in .npz or .zip" in said) == (1, True)


def test_a_student_does_not_replace_its_teacher(run, tmp_path):
    UniformGridQ(env="CartPole-v1", seed=0).save(tmp_path / "shrunk.npz")
    before = (tmp_path / "shrunk.npz").read_bytes()
    typed = ("distill", tmp_path / "shrunk.npz", "--to", tmp_path / "shrunk")
    for words in (typed, ("shrink", tmp_path / "shrunk.npz"), ("shrink", tmp_path / "shrunk")):
        code, said = run(*words, *FEW)
        assert (code, "the model that is read: give another one with --to" in said) == (1, True)
        assert (tmp_path / "shrunk.npz").read_bytes() == before


MODELS = {
    "classifier": ODAClassifier(max_codevectors=6, random_state=0),
    "tree": MultiResolutionODA(ODAClassifier(), max_children=2, random_state=0),
    "partition": ODAPartition(max_codevectors=5, random_state=0),
    "regressor": ODARegressor(max_codevectors=4, random_state=0),
}


@pytest.mark.parametrize("kind", MODELS)
def test_the_page_of_an_estimator(kind, run, tmp_path):
    X = np.random.default_rng(0).normal(size=(120, 2))
    y = X[:, 0] if kind == "regressor" else (X[:, 0] > 0.0).astype(int)
    MODELS[kind].fit(X, y).save(tmp_path / "model.npz")
    np.savetxt(tmp_path / "data.csv", X[:9], delimiter=",", header="a,b")
    page = tmp_path / "page.html"
    code, said = run("explain", tmp_path / "model.npz", "--html", page, "--data", tmp_path / "data.csv")
    assert code == 0, said
    text = page.read_text()
    assert page.stat().st_size < 500_000
    assert text.count('"state":') == 9
    assert ("nearest of its siblings" in text) == (kind == "tree")


def test_an_agent_that_grows_on_its_page(run, tmp_path):
    UniformGridQ(env="CartPole-v1", bins=2, seed=0).learn(1_500).save(tmp_path / "grid.npz")
    code, said = run("explain", tmp_path / "grid.npz", "--html", tmp_path / "a.html", "--grown")
    assert code == 0, said
    assert "steps: 16 cells" in (tmp_path / "a.html").read_text()

"""Train and evaluate, as a person does."""

import json
import shlex
import sys

import gymnasium as gym
import numpy as np
import pytest

QUICK = ("--growth-steps", 1000, "--growth-cells", 10, "--max-cells", 20, "--eval-freq", 1000)


@pytest.fixture(scope="module")
def trained(tmp_path_factory, call):
    """The folder of a short run, and its log folder."""
    folder = tmp_path_factory.mktemp("logs")
    briefly = ("--total-timesteps", 3000, "--eval-episodes", 5)
    assert call("train", "--log-dir", folder, "--seed", 3, *briefly, *QUICK) == 0
    return folder / "CartPole-v1" / "TwoTimescaleAC_3_1", folder


def test_a_run_leaves_what_it_says(trained):
    folder, _ = trained
    names = {path.name.split(".")[0] for path in folder.glob("[!.]*")}
    projector = {"03000", "projector_config"}  # what TensorBoard shows of the codebook
    made = {"model", "config", "evaluations", "events", "training", "checkpoints"}
    assert names == made | projector
    assert (folder / "training.png").stat().st_size > 10_000
    config = json.loads((folder / "config.json").read_text())
    assert config["agent"]["max_cells"] == 20
    assert config["result"]["steps"] == 3000
    for name in ("mean", "sd", "n_cells", "seconds", "file_bytes"):
        assert config["result"][name] >= 0


def test_a_second_run_gets_a_folder_of_its_own(trained, run):
    _, logs = trained
    briefly = ("--total-timesteps", 1500, "--eval-episodes", 2, "--eval-freq", 2000)
    code, output = run("train", "--log-dir", logs, "--seed", 3, *briefly)
    assert code == 0, output
    folder = logs / "CartPole-v1" / "TwoTimescaleAC_3_2"
    assert (folder / "model.npz").is_file()
    result = json.loads((folder / "config.json").read_text())["result"]
    assert f"{result['mean']:.1f}" in output
    assert result["kept_at"] == 1500, "it ended before the first evaluation"
    assert f"tensorboard --logdir {logs}" in output
    assert f"scripts/evaluate.py {folder / 'model.npz'}" in output


def test_evaluate(trained, run):
    code, output = run("evaluate", trained[0] / "model.npz", "--episodes", 7)
    assert code == 0, output
    assert "CartPole-v1" in output
    assert "return, mean" in output


def test_evaluate_records_videos(trained, run, tmp_path):
    pytest.importorskip("moviepy")
    code, output = run("evaluate", trained[0] / "model.npz", "--episodes", 1, "--video-dir", tmp_path)
    assert code == 0, output
    assert [path.suffix for path in tmp_path.iterdir()] == [".mp4"]


def test_evaluate_refuses_what_is_not_a_model(run, tmp_path):
    path = tmp_path / "notes.npz"
    path.write_text("no model")
    code, output = run("evaluate", path)
    assert code == 1
    assert "not a model file of oda_rl" in output


def test_an_interrupted_run_saves_what_it_has(interrupt, run, tmp_path):
    code, output = interrupt(
        lambda: list(tmp_path.rglob("evaluations.npz")),
        *("train", "--log-dir", tmp_path, "--total-timesteps", 10**9, "--eval-episodes", 2, *QUICK),
    )
    assert code == 130, output
    assert "interrupted" in output
    (model,) = tmp_path.rglob("model.npz")
    assert str(model.parent) in output.replace("\n", "")
    code, output = run("evaluate", model, "--episodes", 1)
    assert code == 0, output


@pytest.mark.parametrize("script", ["train", "evaluate", "benchmark", "compare"])
def test_help_explains_itself(script, run):
    code, output = run(script, "--help")
    assert code == 0
    assert "show this help message" in output
    if script == "train":
        assert "Initial discount factor" in output
        assert "--total-timesteps" in output


def test_the_other_agent_is_trained_by_name(trained, run, tmp_path, monkeypatch):
    figures = {}
    picture = sys.modules["common.training_picture"]
    monkeypatch.setattr(picture, "save", lambda figure, path, dpi: figures.update({path: figure}))
    briefly = (*QUICK, "--eval-freq", 0, "--total-timesteps", 3000, "--eval-episodes", 1)
    for env_id in ("CartPole-v1", "FrozenLake-v1"):
        options = ("--algorithm=TwoTimescaleQ", "--env-id", env_id, "--optimism", 0.5)
        code, output = run("train", *options, "--log-dir", tmp_path, *briefly)
        assert code == 0, output
    assert len(list(tmp_path.glob("*/TwoTimescaleQ_0_1/model.npz"))) == 2
    (table,) = (figure.axes[1] for path, figure in figures.items() if "FrozenLake" in str(path))
    assert (table.get_xlabel(), table.get_ylabel()) == ("state", "value of the greedy action")
    assert run("train", "--optimism", 0.5)[0] != 0, "it is the other agent's"
    code, output = run("train", "--env-id", "NoSuch-v0")
    assert code == 2
    assert "The training cannot start: Environment `NoSuch` doesn't exist." in output


def test_the_compiled_twin_learns_what_is_learned_in_gymnasiums_own(trained, run, monkeypatch, tmp_path):
    script = sys.modules["script_train"]
    assert script.find_training_id(script.Args()) == "oda_rl/CartPole-v1"
    monkeypatch.setattr(script, "find_training_id", lambda args: args.env_id)
    briefly = ("--total-timesteps", 3000, "--eval-episodes", 5, "--seed", 3)
    assert run("train", "--log-dir", tmp_path, *briefly, *QUICK)[0] == 0
    (folder,) = tmp_path.glob("*/*")
    here, there = (np.load(f / "model.npz") for f in (folder, trained[0]))
    names = [name for name in here.files if name.startswith("learner/")]
    assert len(names) > 5
    for name in names:
        np.testing.assert_array_equal(here[name], there[name])


def test_hyperparameters_are_refused_by_name(run, tmp_path):
    code, _ = run("train", "--max-cells", 0, "--log-dir", tmp_path)
    assert code == "max_cells must be an integer in [1, inf) or None, got 0."
    assert not list(tmp_path.iterdir())


def test_an_environment_that_is_not_there_is_named(trained, run):
    for env_id in ("Nothing-v0", "nowhere_at_all:Thing-v0"):
        code, output = run("evaluate", trained[0] / "model.npz", "--env-id", env_id)
        assert code == 1
        assert f"Cannot make the environment {env_id}: " in output


def test_an_environment_whose_package_is_missing_is_named(trained, run):
    def raising(**_):
        raise ImportError("this needs a package")

    gym.register("Lacking-v0", raising)
    try:
        for name, *options in (("train",), ("evaluate", trained[0] / "model.npz")):
            code, output = run(name, *options, "--env-id", "Lacking-v0")
            assert code == (2 if name == "train" else 1)
            made = (
                "training cannot start" if name == "train" else "Cannot make the environment Lacking-v0"
            )
            assert f"{made}: this needs a package" in output
    finally:
        gym.registry.pop("Lacking-v0")


def test_the_extra_with_a_missing_package_of_gymnasium_is_named(trained, run):
    def raising(**_):
        missing = ModuleNotFoundError("No module named 'Box2D'", name="Box2D")
        raise gym.error.DependencyNotInstalled("install swig") from missing

    gym.register("Lacking-v1", raising)
    try:
        for words in (("train",), ("train", "--algorithm", "TwoTimescaleQ"), ("evaluate", trained[0])):
            name, *options = (words[0], trained[0] / "model.npz") if "evaluate" in words else words
            _, output = run(name, *options, "--env-id", "Lacking-v1")
            assert 'Box2D is not installed: pip install -c constraints.txt -e ".[agents,box2d]"' in (
                " ".join(output.split())
            )
    finally:
        gym.registry.pop("Lacking-v1")


@pytest.mark.parametrize("env_id", ["Acrobot-v1", "FrozenLake-v1", "Pendulum-v1"])
def test_an_environment_with_other_spaces_is_refused_with_a_word(env_id, trained, run):
    code, output = run("evaluate", trained[0] / "model.npz", "--env-id", env_id)
    assert code == 1
    assert f"The model does not fit {env_id}: observation" in output


def test_other_actions_than_the_models_are_refused_with_a_word(run, tmp_path):
    briefly = (*QUICK, "--total-timesteps", 600, "--eval-episodes", 1, "--eval-freq", 0)
    env_id = "MountainCar-v0"
    assert run("train", "--env-id", env_id, "--log-dir", tmp_path, *briefly)[0] == 0
    [model] = tmp_path.glob("*/*/model.npz")
    code, output = run("evaluate", model, "--env-id", "MountainCarContinuous-v0")
    assert code == 1
    assert (
        "are in Discrete(3), but those of the environment are in Box(-1.0, 1.0, (1,), float32)" in output
    )


def test_what_to_type_next_can_be_typed_whatever_the_folder_is_called(run, tmp_path):
    briefly = (*QUICK, "--total-timesteps", 3000, "--eval-episodes", 1)
    code, output = run("train", "--log-dir", tmp_path / "two [red]words", *briefly)
    assert code == 0, output
    [model] = tmp_path.glob("*/*/*/model.npz")
    typed = [shlex.split(line) for line in output.splitlines() if line.startswith("  python scripts/")]
    assert [words[2] for words in typed] == [str(model)] * 2
    assert typed[0][3:] == ["--render"]
    assert typed[1][1] == "scripts/explain.py"
    for script in ("explain", "export"):
        code, output = run(script, model)
        assert code == 0, output
        folder = model if script == "explain" else model.parent
        assert str(folder) in shlex.split(output.splitlines()[-1])


def test_an_id_with_its_module_is_enough_for_all_that_follows(run, tmp_path):
    briefly = ("--total-timesteps", 400, "--eval-episodes", 2, "--eval-freq", 0)
    env_id = "oda_rl.envs:oda_rl/Catch-v0"
    code, output = run("train", "--env-id", env_id, "--log-dir", tmp_path, *briefly)
    assert code == 0, output
    [model] = tmp_path.glob("*/*/model.npz")
    assert "training.png" not in output, "nothing has been learned that could be drawn"
    [command] = [line for line in output.splitlines() if "evaluate.py" in line]
    code, output = run("evaluate", *shlex.split(command)[2:], "--episodes", 2)
    assert code == 0, output
    assert env_id in output
    for option, mode in (("--render", "human"), (f"--video-dir={tmp_path}", "rgb_array")):
        code, output = run("evaluate", model, option)
        assert code == 1
        assert f"has no render mode {mode} (it has none): omit {option.split('=')[0]}" in output


def test_a_folder_is_no_model(trained, run):
    code, output = run("evaluate", trained[0])
    assert (code, f"{trained[0]} is a folder, not a model file" in output) == (1, True)

"""Scripts use the environment of the training as it was, or name what they cannot restore of it."""

import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import wrappers
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from oda_rl.agents import TwoTimescaleQ
from oda_rl.agents.sb3.env_origin import EnvOrigin

QUICK = {"warmup_steps": 200, "growth_steps": 600, "growth_cells": 5, "max_cells": 10}


@pytest.fixture(scope="module")
def wrapped(tmp_path_factory):
    path = tmp_path_factory.mktemp("wrapped") / "model.npz"
    env = wrappers.RescaleObservation(gym.make("MountainCar-v0"), np.float32(-1.0), np.float32(1.0))
    TwoTimescaleQ(env=env, seed=0, **QUICK).learn(800).save(path)
    return path


def test_keyword_arguments_of_the_environment_are_used_again(run, module, capsys, tmp_path):
    env = gym.make("FrozenLake-v1", is_slippery=False)
    model = TwoTimescaleQ(env=env, seed=0).learn(6000)
    model.save(tmp_path / "model.npz")
    code, output = run("evaluate", tmp_path / "model.npz", "--episodes", 5)
    assert code == 0, output
    assert "FrozenLake-v1(is_slippery=False)" in output
    assert "1.0 to 1.0" in output
    again = module("common.reading").train_again(model).model
    assert "again on FrozenLake-v1(is_slippery=False) for 6,000 steps" in capsys.readouterr().out
    assert (again.env_origin, again._episode_num) == (model.env_origin, model._episode_num)


def test_an_interrupted_evaluation_ends_with_the_code_of_ctrl_c(wrapped, run, script, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(script("evaluate"), "evaluate_policy", interrupted)
    code, output = run("evaluate", wrapped, "--env-id", "MountainCar-v0", "--episodes", 1)
    assert (code, "Interrupted." in output) == (130, True)


def test_an_environment_without_a_time_limit_is_given_one(run, tmp_path):
    path = tmp_path / "model.npz"
    TwoTimescaleQ(env=gym.make("oda_rl/MountainCar-v0").unwrapped, seed=0, **QUICK).save(path)
    code, output = run("evaluate", path, "--episodes", 2)
    assert code == 0, output
    assert "10000.0" in output.replace(",", "")


def test_an_environment_that_cannot_be_made_again_is_not_replaced(wrapped, run, tmp_path):
    for name, *options in (("evaluate",), ("plot", "--kind", "animation")):
        code, output = run(name, wrapped, *options)
        output = " ".join(output.split())
        assert code == 1
        assert "trained on MountainCar-v0 with RescaleObservation" in output
    page = tmp_path / "page.html"
    code, output = run("explain", wrapped, "--html", page)
    assert code == 0, output
    assert "There is no episode: the model was trained on MountainCar-v0 with" in page.read_text()
    code, output = run("explain", wrapped, "--html", page, "--grown")
    assert code == 1
    assert "SnapshotCallback" in output
    code, output = run("shrink", wrapped)
    assert code == 1
    assert "--env-id must be the id of a registered environment" in " ".join(output.split())
    code, output = run("evaluate", wrapped, "--env-id", "MountainCar-v0", "--episodes", 2)
    assert code == 0, output


def test_a_module_is_not_imported_because_a_file_names_it(wrapped, run, tmp_path, monkeypatch):
    registers = (
        "import gymnasium as gym\ngym.register('Named-v0', lambda **_: gym.make('MountainCar-v0'))\n"
    )
    (tmp_path / "named_in_a_file.py").write_text(registers)
    monkeypatch.syspath_prepend(tmp_path)
    path, page, model = tmp_path / "model.npz", tmp_path / "page.html", TwoTimescaleQ.load(wrapped)
    model.env_id, model.env_origin = "named_in_a_file:Named-v0", EnvOrigin()
    model.save(path)
    for name, *options in (
        *(("evaluate",), ("plot", "--kind", "animation"), ("shrink",), ("distill",)),
        ("explain", "--html", page, "--grown"),
    ):
        code, output = run(name, path, *options)
        assert code == 1
        assert "whose module named_in_a_file is not imported" in " ".join(output.split())
        assert "--env-id" in output
    code, output = run("explain", path, "--html", page)
    assert code == 0, output
    assert "named_in_a_file is not imported" in page.read_text()
    code, output = run("explain", path, "--observation", 0, 0)
    assert f"evaluate.py {path} --env-id {model.env_id}" in output
    assert "named_in_a_file" not in sys.modules
    code, output = run("evaluate", path, "--env-id", model.env_id, "--episodes", 2)
    assert code == 0, output


def test_a_file_is_no_folder_for_videos_or_pictures(wrapped, run):
    for words in (("evaluate", wrapped, "--video-dir"), ("plot", wrapped, "--out")):
        code, output = run(*words, wrapped)
        assert code == 1
        assert f"{words[-1]} must be a folder, got the file {wrapped}." in output.replace("\n", "")


def test_other_rewards_are_named(run, tmp_path):
    env = VecNormalize(make_vec_env("MountainCar-v0", 1), norm_obs=False)
    TwoTimescaleQ(env=env, seed=0, **QUICK).learn(800).save(tmp_path / "model.npz")
    code, output = run("evaluate", tmp_path / "model.npz", "--episodes", 2)
    assert code == 0, output
    assert "in the training VecNormalize changed them" in " ".join(output.split())

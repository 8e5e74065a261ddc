"""Our agents in RL Zoo."""

import sys
from importlib.util import find_spec

import gymnasium as gym
import pytest

# not importorskip: RL Zoo changes Gymnasium when it is imported
pytestmark = pytest.mark.skipif(find_spec("rl_zoo3") is None, reason="rl_zoo3 is not installed")

BRIEFLY = ("--env", "oda_rl/CartPole-v1", "-n", "2000", "--seed", "0")


@pytest.fixture
def zoo(run, monkeypatch):
    """A command of RL Zoo: exit code and output."""
    monkeypatch.setattr(sys, "argv", sys.argv)
    return lambda *typed: run("zoo", *typed)


def test_trains_enjoys_and_goes_on(zoo, tmp_path):
    from oda_rl.agents.models import load_model

    where = ("-f", tmp_path, "--algo", "ttq")
    own = ("-params", "learning_rate:0.05", "warmup_steps:500", "--save-freq", 1000)
    code, _ = zoo("train", *where, *BRIEFLY, *own)
    assert code == 0
    (path,) = tmp_path.glob("ttq/*_1/oda_rl-CartPole-v1.zip")
    model = load_model(path)
    assert model.learning_rate == 0.05
    assert model.num_timesteps == 2000
    assert path.with_name("rl_model_1000_steps.zip").is_file()
    code, output = zoo("enjoy", *where, "--env", "oda_rl/CartPole-v1", "--no-render", "-n", 300)
    assert code == 0
    assert "Mean reward: " in output
    zoo("train", *where, *BRIEFLY, "-i", path)
    (again,) = tmp_path.glob("ttq/*_2/oda_rl-CartPole-v1.zip")
    assert load_model(again).learner.n_learned > model.learner.n_learned


def test_optimises(zoo, tmp_path, module):
    code, _ = zoo(
        *("train", "-f", tmp_path, "--algo", "ttac", *BRIEFLY, "-optimize", "--n-trials", 2),
        *("--n-evaluations", 1, "--no-optim-plots"),
    )
    assert code == 0
    (told,) = tmp_path.glob("ttac/report_*.csv")
    space = module("common.search_spaces").SPACES["TwoTimescaleAC"]
    assert all(f"params_{name}" in told.read_text() for name in space)


def test_what_is_not_known(zoo):
    assert "Commands: train, enjoy" in zoo()[1]
    code, output = zoo("tain")
    assert code == 2
    assert "RL Zoo has no command tain; it has train, enjoy" in output
    code, output = zoo("train", "--algo", "ttac", "--env", "CartPol-v1")
    assert code == 2
    assert "CartPol-v1 not found in gym registry, you maybe meant CartPole-v1" in output
    assert type(gym.make("CartPole-v1")).__module__ == "gymnasium.wrappers.common"
    with pytest.raises(ValueError, match=r"learning_rate must be a number, not a schedule such as lin_"):
        zoo("train", "--algo", "ttac", *BRIEFLY, "-params", "learning_rate:'lin_0.1'")

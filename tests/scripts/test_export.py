"""`scripts/export.py`: a model file becomes a source file."""

import re
import shutil

import pytest

from oda_rl.agents import SOMQ, FourierSarsa, TwoTimescaleQ
from oda_rl.agents.distill import distill

FEW = {"max_cells": 2, "rounds": 1, "steps_per_round": 200, "eval_episodes": 2}


def test_a_single_cell_is_counted_as_one(run, tmp_path):
    SOMQ(env="oda_rl/CartPole-v1", n_cells=1, seed=0).learn(2_000).save(tmp_path / "model.npz")
    _, said = run("export", tmp_path / "model.npz")
    assert "policy.py: 1 cell, " in said.replace("\n", "")
    assert "1 cell, " in (tmp_path / "policy.py").read_text().partition("decide")[0]


@pytest.mark.parametrize(("ending", "word"), [(".py", "then decide"), (".c", "cc -std=c99")])
def test_it_says_what_was_written_and_what_to_type_next(ending, word, run, tmp_path):
    SOMQ(env="CartPole-v1", n_cells=4, seed=0).learn(2_000).save(tmp_path / "model.npz")
    path = tmp_path / f'the "policy"{ending}'
    code, said = run("export", tmp_path / "model.npz", "--to", path)
    assert code == 0
    assert "4 cells, " in said
    assert "The agent itself counts 32: " in said
    if ending == ".py" or shutil.which("cc"):
        assert "chooses the action of the agent in 100.00% of 10,000 states" in said
    assert word in said
    assert path.exists()
    if ending == ".c" and shutil.which("cc"):
        assert re.search(r"compiled with cc, \d+ ns per decision", said)
        share = re.search(r"In single precision \(-DREAL=float\) it does in ([0-9.]+)%", said)
        assert float(share.group(1)) > 99.5


@pytest.mark.parametrize("env_id", ["FrozenLake-v1", "Blackjack-v1"])
def test_states_with_numbers_are_compared_too(env_id, run, tmp_path):
    if env_id == "FrozenLake-v1":
        model = TwoTimescaleQ(env=env_id, seed=0).learn(3_000)  # a table of 16 states
    else:
        model = distill(lambda hand: int(hand[0] < 17), env_id, **FEW)
    model.save(tmp_path / "model.npz")
    code, said = run("export", tmp_path / "model.npz")
    assert code == 0
    assert "chooses the action of the agent in 100.00% of 10,000 states" in said


def test_so_are_points_that_several_numbers_decide(run, tmp_path):
    distill(lambda observation: [observation[1]], "Pendulum-v1", **FEW).save(tmp_path / "model.npz")
    for ending in (".py", ".c") if shutil.which("cc") else (".py",):
        code, said = run("export", tmp_path / "model.npz", "--to", tmp_path / f"policy{ending}")
        assert code == 0
        assert "chooses the action of the agent in 100.00% of 10,000 states" in said


def test_what_cannot_be_exported_is_said_in_a_line(run, tmp_path):
    FourierSarsa(env="CartPole-v1", seed=0).save(tmp_path / "model.npz")
    code, said = run("export", tmp_path / "model.npz")
    assert code == 1
    assert said.startswith("Cannot export the model: A FourierSarsa")

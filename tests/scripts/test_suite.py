"""The suite: its tasks, its scores, what it keeps and what it writes."""

import json

import gymnasium as gym
import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("few_decisions")


@pytest.fixture
def suite(run, tmp_path):
    """Run the suite briefly, kept in the folder of the test."""
    briefly = ("--n-jobs", 1, "--evaluations", 2, "--curve-episodes", 2, "--eval-episodes", 3)
    return lambda *more: run("benchmark", "suite", "--log-dir", tmp_path, *briefly, *more)


def solve(env_id):
    """The expected return of who knows the table and the time left, by backward induction."""
    env = gym.make(env_id)
    rows = [
        (s, a, *told)
        for s, actions in env.unwrapped.P.items()
        for a, outcomes in actions.items()
        for told in outcomes
    ]
    s, a, probability, then, reward, done = (np.array(column) for column in zip(*rows, strict=True))
    value = np.zeros(env.observation_space.n)
    for _ in range(env.spec.max_episode_steps):
        paid = np.zeros((len(value), env.action_space.n))
        np.add.at(paid, (s, a), probability * (reward + np.where(done, 0.0, value[then])))
        value = paid.max(axis=1)
    return env.unwrapped.initial_state_distrib @ value


def test_the_best_returns_of_tables_are_those_of_backward_induction(module):
    tasks = module("benchmarks.tasks")
    for name in ("FrozenLake-v1", "FrozenLake8x8-v1", "CliffWalking-v1", "Taxi-v4"):
        task = tasks.find_task(name, tasks.SUITE)
        if not task.missing:  # Taxi-v4 came with Gymnasium 1.3
            assert task.best == pytest.approx(solve(task.env_id), abs=6e-4)


def test_every_task_that_misses_nothing_can_be_made_for_all_agents(module):
    tasks = module("benchmarks.tasks")
    assert len({task.name for task in tasks.SUITE}) == len(tasks.SUITE)
    for task in tasks.SUITE:
        if not task.missing:
            with gym.make(task.flat_id or task.env_id) as env:
                assert isinstance(env.observation_space, gym.spaces.Box | gym.spaces.Discrete)
                assert env.spec.max_episode_steps or "suite/" in env.spec.id or "oda_rl/" in env.spec.id


def test_scores_tables_and_files(suite, tmp_path):
    briefly = ("--tasks", "CartPole-v1", "DeepSea10", "--steps-scale", 0.004)
    code, output = suite(*briefly, "--agents", "random", "A2C", "A2C-zoo", "--seeds", 0, 1)
    assert code == 0, output
    assert "A2C on suite/DeepSea10-v0, seed 1: return" in output
    found = json.loads((tmp_path / "suite.json").read_text())
    # RL Zoo has nothing for deep sea
    pairs = {(row["task"], row["agent"]): row for row in found}
    cart_pole = "oda_rl/CartPole-v1"
    assert len(found) == len(pairs) == 5
    assert ("suite/DeepSea10-v0", "A2C-zoo") not in pairs
    low = np.mean(pairs[cart_pole, "random"]["returns"])
    for row in (pairs[cart_pole, "A2C"], pairs[cart_pole, "random"]):
        expected = (np.array(row["returns"]) - low) / (500 - low)
        np.testing.assert_allclose(row["scores"], expected)
    assert pairs[cart_pole, "A2C"]["steps"] == 200
    page = (tmp_path / "suite.md").read_text()
    assert "| DeepSea10-v0 | 400 | 0.99 |" in page
    assert "Seeds of each agent on a task: random 2, A2C 2, A2C-zoo 2." in page
    for name in ("suite", "suite_steps", "suite_seconds"):
        assert f"{name}.png" in page
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    assert (tmp_path / "suite.csv").read_text().count("\n") == 11
    # Seeds without a stored run have the results of a file.
    known, returns = tmp_path / "known.json", pairs[cart_pole, "A2C"]["returns"]
    record = {"task": cart_pole, "agent": "A2C", "steps": 200, "seeds": [1, 4], "returns": [0.0, 90.0]}
    known.write_text(json.dumps([{**record, "seconds": [1.0, 1.0]}]))
    code, output = suite(*briefly, "--agents", "random", "A2C", "--only-kept", "--known", known)
    assert code == 0, output
    found = json.loads((tmp_path / "suite.json").read_text())
    (row,) = [one for one in found if one["task"] == cart_pole and one["agent"] == "A2C"]
    assert (row["seeds"], row["returns"]) == ([0, 1, 4], [*returns, 90.0])
    assert [len(curve) for curve in row["curve"]] == [2, 2, 0]
    # Runs that are kept are told again, whatever code has made them, and no others are made.
    kept = next(tmp_path.glob("CartPole-v1/A2C-*/seed-0.json"))
    changed = json.loads(kept.read_text())
    changed["plan"]["code"], changed["run"]["mean"] = "of before", 500.0
    kept.write_text(json.dumps(changed))
    output = suite(*briefly, "--agents", "random", "A2C", "PPO", "--only-kept")[1]
    assert "seed" not in output.split("Return, and score")[0]
    assert len(list(tmp_path.glob("*/PPO-*"))) == 0


def test_results_of_a_file_stand_beside_stored_runs(suite, tmp_path):
    agents = ("--agents", "random", "A2C")
    briefly = ("--tasks", "CartPole-v1", "--steps-scale", 0.004, "--only-kept", *agents)
    (tmp_path / "earlier").mkdir()
    known, output = tmp_path / "earlier" / "suite.json", tmp_path / "later"
    records = [
        {"task": "oda_rl/CartPole-v1", "agent": "random", "steps": 0, "seeds": [0], "returns": [20.0]},
        {"task": "oda_rl/CartPole-v1", "agent": "A2C", "steps": 200, "seeds": [3], "returns": [260.0]},
        {"task": "oda_rl/CartPole-v1", "agent": "PPO", "steps": 200, "seeds": [3], "returns": [260.0]},
    ]
    known.write_text(json.dumps([{**record, "seconds": [1.0]} for record in records]))
    code, text = suite(*briefly, "--known", known, "--output", output)
    assert code == 0, text
    found = json.loads((output / "suite.json").read_text())
    assert [(row["agent"], row["scores"]) for row in found] == [("random", [0.0]), ("A2C", [0.5])]
    assert found[1]["curve"] == [[]]
    assert suite(*briefly, "--known", output / "suite.json", "--output", output)[0] == 0
    assert json.loads((output / "suite.json").read_text()) == found
    known.write_text("{}]")
    code, text = suite(*briefly, "--known", known)
    assert code == 2
    assert "is not a suite.json of this command" in " ".join(text.split())


def test_our_agent_needs_no_options(suite, tmp_path):
    code, output = suite(
        *("--tasks", "CartPole-v1", "--agents", "ours", "--seeds", 0), "--steps-scale", 0.1
    )
    assert code == 0, output
    (kept,) = tmp_path.glob("CartPole-v1/TwoTimescale*/seed-0.json")
    assert json.loads(kept.read_text())["plan"]["options"] == {}


def test_tasks_that_cannot_be_made_are_named(module, monkeypatch):
    suite, tasks = module("benchmarks.suite"), module("benchmarks.tasks")
    monkeypatch.setattr(tasks, "find_spec", lambda name: None if name == "mujoco" else object())
    monkeypatch.delitem(gym.registry, "Taxi-v4", raising=False)
    chosen, skipped = suite.choose_tasks(["Hopper", "CartPole-v1", "Taxi"])
    assert [task.name for task in chosen] == ["CartPole-v1"]
    assert skipped == [
        f"Taxi-v4 is left out: Gymnasium {gym.__version__} does not have it.",
        "Hopper-v5 is left out: pip install 'oda_rl[mujoco]'.",
    ]


def test_a_task_that_is_none(suite):
    code, output = suite("--tasks", "NoSuchTask")
    assert code == 2
    assert "--tasks: none begins with NoSuchTask; there are CartPole-v1," in output


def test_a_folder_without_runs(run, tmp_path):
    options = ("--tasks", "FrozenLake", "--only-kept", "--log-dir", tmp_path)
    code, output = run("benchmark", "suite", *options)
    assert code == 0
    assert "There are no runs of these tasks and options in" in output
    assert "All runs are stored" not in output

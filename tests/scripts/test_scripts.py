"""The scripts run as a person runs them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
QUICK = ["--growth-steps", "1000", "--growth-cells", "10", "--max-cells", "20", "--eval-freq", "1000"]


def listen():
    """A job in the background of a shell ignores interrupts, and so would its children."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def start(*arguments):
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "COLUMNS": "100"},
        preexec_fn=listen,
    )


def run(*arguments):
    process = start(*arguments)
    output, _ = process.communicate(timeout=120)
    return process.returncode, output


def train(folder, *arguments):
    return run(
        "scripts/train.py",
        "--log-dir",
        folder,
        "--total-timesteps",
        3000,
        "--eval-episodes",
        5,
        *QUICK,
        *arguments,
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    code, output = train(folder, "--seed", 3)
    assert code == 0, output
    return folder, output


def test_a_run_leaves_what_it_says(trained):
    folder, output = trained
    run_folder = folder / "CartPole-v1" / "TwoTimescaleQ_3_1"
    names = {path.name.split(".")[0] for path in run_folder.iterdir()}
    projector = {"03000", "projector_config"}  # what TensorBoard shows of the codebook
    assert names == {"model", "config", "evaluations", "events", "training", *projector}
    assert (run_folder / "training.png").stat().st_size > 10_000
    assert f"tensorboard --logdir {folder}" in output
    assert f"scripts/evaluate.py {run_folder / 'model.npz'}" in output
    config = json.loads((run_folder / "config.json").read_text())
    assert config["agent"]["max_cells"] == 20
    assert config["result"]["steps"] == 3000
    for name in ("mean", "sd", "n_cells", "seconds", "file_bytes"):
        assert config["result"][name] >= 0
    assert f"{config['result']['mean']:.1f}" in output


def test_a_second_run_gets_a_folder_of_its_own(trained):
    folder, _ = trained
    code, output = train(folder, "--seed", 3, "--eval-freq", 0)
    assert code == 0, output
    assert (folder / "CartPole-v1" / "TwoTimescaleQ_3_2" / "model.npz").is_file()


def test_evaluate(trained):
    folder, _ = trained
    model = folder / "CartPole-v1" / "TwoTimescaleQ_3_1" / "model.npz"
    code, output = run("scripts/evaluate.py", model, "--episodes", 7)
    assert code == 0, output
    assert "CartPole-v1" in output
    assert "return, mean" in output


def test_evaluate_records_videos(trained, tmp_path):
    pytest.importorskip("moviepy")
    folder, _ = trained
    model = folder / "CartPole-v1" / "TwoTimescaleQ_3_1" / "model.npz"
    code, output = run("scripts/evaluate.py", model, "--episodes", 1, "--video-dir", tmp_path)
    assert code == 0, output
    assert [path.suffix for path in tmp_path.iterdir()] == [".mp4"]


def test_evaluate_refuses_what_is_not_a_model(tmp_path):
    path = tmp_path / "notes.npz"
    path.write_text("no model")
    code, output = run("scripts/evaluate.py", path)
    assert code == 1
    assert "not a model file of oda_rl" in output
    assert "Traceback" not in output


def test_an_interrupted_run_saves_what_it_has(tmp_path):
    process = start(
        "scripts/train.py",
        "--log-dir",
        tmp_path,
        "--total-timesteps",
        10**9,
        "--eval-episodes",
        2,
        *QUICK,
    )
    deadline = time.monotonic() + 60
    while not list(tmp_path.rglob("evaluations.npz")):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    assert "interrupted" in output
    (model,) = tmp_path.rglob("model.npz")
    assert str(model.parent) in output.replace("\n", "")
    assert run("scripts/evaluate.py", model, "--episodes", 1)[0] == 0


@pytest.mark.parametrize("script", ["train.py", "evaluate.py", "benchmark.py"])
def test_help_explains_itself(script):
    code, output = run(f"scripts/{script}", "--help")
    assert code == 0
    assert "show this help message" in output
    if script == "train.py":
        assert "Discount factor" in output
        assert "--total-timesteps" in output


BRIEFLY = [
    *("--total-timesteps", 3000, "--seeds", 0, 1, "--eval-freq", 1000, "--eval-episodes", 2),
    *("--jobs", 1, "--growth-cells", 10, "--max-cells", 20),
]


def benchmark(folder, *arguments):
    return run("scripts/benchmark.py", "agent", "--log-dir", folder, *BRIEFLY, *arguments)


def test_benchmark_of_one_task(tmp_path):
    code, output = benchmark(tmp_path, "--env-id", "CartPole-v1")
    assert code == 0, output
    assert "IQM" in output
    assert str(tmp_path / "TwoTimescaleQ.csv") in output.replace("\n", "")
    kept = sorted(tmp_path.glob("CartPole-v1/TwoTimescaleQ-*/seed-*.json"))
    assert len(kept) == 2
    # What is kept is not made again: a table of what somebody wrote there.
    changed = json.loads(kept[0].read_text())
    changed["run"]["mean"] = 123.4
    kept[0].write_text(json.dumps(changed))
    assert "123.4" in benchmark(tmp_path, "--env-id", "CartPole-v1")[1]
    assert "123.4" not in benchmark(tmp_path, "--env-id", "CartPole-v1", "--fresh")[1]


def test_benchmark_of_all_tasks_and_its_picture(tmp_path):
    code, output = benchmark(tmp_path)
    assert code == 0, output
    for name in ("CartPole-v1", "CartPoleFriction-v0", "Acrobot-v1", "MountainCar-v0"):
        assert output.count(f" {name} ") == 2
    for name in ("Pendulum-v1", "MountainCarContinuous-v0"):  # in the tables, or why they are not
        assert name in output
    assert not list(tmp_path.glob("*.png"))
    code, output = run("scripts/benchmark.py", "agent", "--log-dir", tmp_path, "--plot")
    assert code == 0, output
    assert "No runs of the table's tasks" in output  # at their numbers of steps
    for path in tmp_path.glob("*/*/seed-*.json"):
        kept = json.loads(path.read_text())
        kept["plan"]["total_timesteps"] = 500_000
        path.write_text(json.dumps(kept))
    code, output = run("scripts/benchmark.py", "agent", "--log-dir", tmp_path, "--plot")
    assert code == 0, output
    assert (tmp_path / "return_by_numbers.png").stat().st_size > 10_000


def test_benchmark_of_an_agent_of_sb3(tmp_path):
    code, output = benchmark(tmp_path, "--env-id", "oda_rl/MountainCar-v0", "--algorithm", "PPO")
    assert code == 0, output
    assert "-200.0" in output


def test_benchmark_says_what_cannot_be_run(tmp_path):
    code, output = benchmark(tmp_path, "--env-id", "Pendulum-v1", "--algorithm", "DQN")
    assert code == 1
    assert "left out: DQN does not take actions in Box" in output
    assert "Traceback" not in output


def test_an_interrupted_benchmark_keeps_its_runs(tmp_path):
    arguments = ("agent", "--log-dir", tmp_path, *BRIEFLY, "--seeds", *range(200))
    process = start("scripts/benchmark.py", *arguments, "--env-id", "oda_rl/CartPole-v1")
    deadline = time.monotonic() + 60
    while not list(tmp_path.rglob("seed-1.json")):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    assert "Interrupted" in output
    assert "IQM" in output
    assert "Traceback" not in output


def test_benchmark_of_lunar_lander_with_its_preset(tmp_path):
    pytest.importorskip("Box2D")
    code, output = benchmark(tmp_path, "--env-id", "LunarLander-v3", "--preset")
    assert code == 0, output
    (kept, _) = sorted(tmp_path.glob("LunarLander-v3/*/seed-*.json"))
    options = json.loads(kept.read_text())["plan"]["options"]
    assert options["optimism"] == 0
    assert options["max_cells"] > 20


def test_aggregation(tmp_path):
    code, output = run(
        "scripts/reproduce/aggregation.py",
        *("--out", tmp_path, "--methods", "TwoTimescaleQ", "--t-min", 0.3, 0.1, "--seeds", 0, 1),
        *("--total-timesteps", 13_000, "--eval-episodes", 2, "--jobs", 1),
    )
    assert code == 0, output
    assert str(tmp_path) in output
    assert (tmp_path / "timesteps.png").stat().st_size > 10_000
    assert "T_min 0.3" in (tmp_path / "table.md").read_text()


def test_benchmark_statistics():
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        from benchmarks import statistics, tasks
    finally:
        sys.path.pop(0)
    assert statistics.interquartile_mean([1.0, 2.0, 3.0, 100.0]) == 2.5
    assert statistics.first_pass_and_hold([1.0, 5.0, 2.0, 5.0], 5.0) == (1, pytest.approx(2 / 3))
    assert statistics.first_pass_and_hold([1.0], 5.0) == (None, 0.0)
    low, high = statistics.bootstrap_interval([1.0, 2.0, 3.0, 4.0] * 5)
    assert 1.5 < low < 2.5 < high < 3.5
    assert statistics.bootstrap_interval([7.0]) == (7.0, 7.0)
    assert tasks.find_task("CartPole-v1") is tasks.find_task("oda_rl/CartPole-v1") is tasks.TASKS[0]
    assert tasks.find_threshold("oda_rl/Pendulum-v1") == -200
    assert tasks.find_threshold("CartPole-v1") == 475
    assert tasks.find_threshold("Blackjack-v1") == float("inf")

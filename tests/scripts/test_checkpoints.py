"""Trainings that are killed, stopped, or cannot write."""

import json
import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from oda_rl import storage
from oda_rl._schema import anything
from oda_rl.agents.sb3 import keeping

SCRIPTS = Path(__file__).parents[2] / "scripts"
RUN = (
    *("--total-timesteps", 4000, "--save-freq", 700, "--eval-episodes", 2, "--seed", 3),
    *("--growth-steps", 1000, "--growth-cells", 10, "--max-cells", 20, "--eval-freq", 1000),
)
MADE = ("model.npz", "evaluations.npz", "checkpoints/steps-4000.npz")


@pytest.fixture(scope="module")
def made(tmp_path_factory, call):
    """The folder of a run that nothing has disturbed."""
    logs = tmp_path_factory.mktemp("logs")
    assert call("train", "--log-dir", logs, *RUN) == 0
    return next(logs.glob("*/*"))


def test_a_run_that_was_killed_is_resumed_as_if_nothing_had_been(made, run, tmp_path):
    folder = shutil.copytree(made, tmp_path / "CartPole-v1" / made.name)
    left = sorted(path.name for path in (folder / "checkpoints").iterdir())
    assert left == ["steps-3500.npz", "steps-4000.npz"]
    shutil.copy(folder / MADE[-1], folder / "checkpoints" / "steps-4000 (copy).npz")
    for name in MADE:
        if name != "evaluations.npz":
            (folder / name).unlink()
    code, output = run("train", "--resume", "--log-dir", tmp_path, *RUN)
    assert code == 0, output
    assert "from step 3,500 of 4,000" in output
    assert "seconds since step 3,500" in output
    results = [json.loads((one / "config.json").read_text())["result"] for one in (made, folder)]
    assert [result["timed_from"] for result in results] == [0, 3500]
    for name in MADE:
        assert (folder / name).read_bytes() == (made / name).read_bytes(), name


def test_a_run_that_another_process_trains_is_not_resumed(made, run, tmp_path):
    first = shutil.copytree(made, tmp_path / "CartPole-v1" / f"{made.name[:-1]}1")
    second = shutil.copytree(made, first.with_name(f"{made.name[:-1]}2"))
    hold = "from pathlib import Path; from common.run_lock import lock_run; print(lock_run(Path({})))"
    hold = f"{hold.format(repr(str(second)))}; input()"
    options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": SCRIPTS}
    with subprocess.Popen([sys.executable, "-u", "-c", hold], **options) as other:
        assert other.stdout.readline() == "True\n"
        code, output = run("train", "--resume", second)
        assert code == 2
        assert "that another process trains now" in output
        code, output = run("train", "--resume", "--log-dir", tmp_path, *RUN)
        assert code == 0, output
        assert f"Resuming {first}" in output.replace("\n", "")
        other.communicate("\n")
    _, output = run("train", "--resume", "--log-dir", tmp_path, *RUN)
    assert f"Resuming {second}" in output.replace("\n", "")


def test_a_checkpoint_that_does_not_tell_how_things_were_is_refused(made, run, tmp_path):
    folder = shutil.copytree(made, tmp_path / "CartPole-v1" / made.name)
    last, before = (folder / "checkpoints" / f"steps-{n}.npz" for n in (4000, 3500))
    shutil.copy(folder / "model.npz", last)  # a model, and nothing of the training
    schema = storage.kind_of(before), anything
    state = storage.load(before, *schema)
    del state["run"]["CodebookCallback"]["n_calls"]
    storage.save(before, schema[0], state)
    code, output = run("train", "--resume", folder)
    assert code == 2
    assert "from step 3,500" in output
    assert "The training cannot start" in output
    for config in ("{", "{}", "[]"):
        (folder / "config.json").write_text(config)
        code, output = run("train", "--resume", folder)
        assert (code, "The training cannot start" in output) == (2, True)


def test_a_start_that_was_refused_is_not_the_last_run(made, run, tmp_path):
    folder = shutil.copytree(made, tmp_path / "CartPole-v1" / made.name)
    code, output = run("train", "--log-dir", tmp_path, *RUN, "--observation-scale", 1, 2)
    assert (code, "The training cannot start" in output) == (2, True)
    assert list(folder.parent.iterdir()) == [folder]
    killed = shutil.copytree(made, folder.with_name(f"{made.name[:-1]}2"))
    shutil.rmtree(killed / "checkpoints")
    steps = ("--total-timesteps", 4500)
    code, output = run("train", "--resume", "--log-dir", tmp_path, *RUN, *steps)
    assert code == 0, output
    assert f"Resuming {folder} from step 4,000 of 4,500" in output.replace("\n", "")
    shutil.rmtree(folder)
    code, output = run("train", "--resume", "--log-dir", tmp_path, *RUN)
    assert (code, "no run with these options and a checkpoint" in output) == (2, True)


def test_options_of_a_resumed_run_are_its_own(made, run):
    code, output = run("train", "--resume", made, "--softness", 0.5)
    assert (code, "softness is 4.0 in" in output) == (2, True)
    code, output = run("train", "--resume", made, "--gamma", 0.5)
    assert (code, "gamma is the default in" in output) == (2, True)
    code, output = run("train", "--resume", made / "checkpoints")
    assert (code, "checkpoints is not a run of this script" in output) == (2, True)


def test_a_default_that_is_typed_counts_where_a_run_is_resumed(made, run):
    code, output = run("train", "--resume", made, "--seed", 0)
    assert (code, "seed is 3 in" in output) == (2, True)
    options = sys.modules["script_train"].parse(["--resume", str(made), "--total-timesteps", "200000"])
    assert (options.total_timesteps, options.seed) == (200_000, 3)


def test_a_total_below_the_steps_made_is_refused_and_a_larger_one_is_kept(made, run, script, tmp_path):
    folder = shutil.copytree(made, tmp_path / "CartPole-v1" / made.name)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    code, output = run("train", "--resume", folder, "--total-timesteps", 3999)
    assert (code, "--total-timesteps must be at least 4000" in output, "got 3999" in output) == (2, 1, 1)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    options = script("train").parse(["--resume", str(folder), "--total-timesteps", "4500"])
    sys.modules["common.training_options"].store_total(folder, options)  # and the process is killed
    again = script("train").parse(["--resume", str(folder)])
    assert (again.total_timesteps, again.log_dir) == (4500, tmp_path)
    assert json.loads((folder / "config.json").read_text())["result"]["steps"] == 4000


def test_sigterm_is_as_good_as_ctrl_c(interrupt, tmp_path):
    code, output = interrupt(
        lambda: list(tmp_path.rglob("steps-*.npz")),
        *("train", "--log-dir", tmp_path, *RUN, "--total-timesteps", 10**9),
        by=signal.SIGTERM,
    )
    assert code == 143, output
    assert "interrupted" in output
    (model,) = tmp_path.rglob("model.npz")
    assert f"train.py --resume {model.parent}" in output.replace("\n", "")
    with np.load(max(tmp_path.rglob("steps-*.npz"), key=os.path.getmtime)) as last:
        assert len(last.files) > 10


def test_a_full_disk_costs_the_curves_and_not_the_model(made, run, tmp_path, monkeypatch):
    checkpoints = sys.modules["common.checkpoints"]

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoints.TensorBoardOutputFormat, "write", full)
    monkeypatch.setattr(checkpoints, "write_model", full)
    monkeypatch.setattr(keeping, "written_whole", full)
    with pytest.warns(RuntimeWarning, match="evaluations are not written"):
        code, output = run("train", "--log-dir", tmp_path, *RUN)
    assert code == 0, output
    assert "TensorBoard logging stops here: No space left on device" in output
    none = "There is no checkpoint of this run."
    assert f"No checkpoint was written (No space left on device). {none}" in output
    assert len(list(tmp_path.rglob("model.npz"))) == 1
    assert not list(tmp_path.rglob("metadata.tsv"))  # as nothing else for TensorBoard
    monkeypatch.setattr(checkpoints.OnlineAlgorithm, "save", full)
    code, output = run("train", "--log-dir", tmp_path, *RUN, "--total-timesteps", 100)
    assert (code, none in output.rpartition("The model cannot be written")[2]) == (1, True)


def test_a_checkpoint_that_is_not_written_leaves_the_last_one(made, run, tmp_path, monkeypatch):
    folder = shutil.copytree(made, tmp_path / "CartPole-v1" / made.name)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys.modules["common.checkpoints"], "write_model", full)
    code, output = run("train", "--resume", folder, "--total-timesteps", 4100)
    assert code == 0, output
    kept = f"The last checkpoint, of step 4,000, is in {folder / 'checkpoints'}."
    assert f"(No space left on device). {kept}".replace(" ", "") in "".join(output.split())


def test_a_board_that_may_not_grow_is_left_out_with_one_line(module, tmp_path, monkeypatch):
    threads, told = [], []
    monkeypatch.setattr(threading, "excepthook", lambda error: threads.append(error.thread))
    checkpoints = module("common.checkpoints")
    monkeypatch.setattr(checkpoints._print_others, "__defaults__", (threading.excepthook,))
    board = checkpoints.SteadyTensorBoard(tmp_path, None, told.append)
    board.writer.flush()
    points = checkpoints.SteadyTensorBoard(tmp_path / "points", None, told.append)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # of imports, halves would be left
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        board.write({"reward": 1.0}, {"reward": None}, 1)
        board.write({"reward": 1.0}, {"reward": None}, 2)
        board.close()
        for step in (1, 2):
            points.writer.add_embedding(np.eye(3), metadata=["cell"] * 3, global_step=step)
        points.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    other = threading.Thread(target=lambda: 1 / 0)
    other.start()
    other.join()
    assert told == 2 * ["TensorBoard logging stops here: File too large."]
    assert threads == [other]


def test_what_the_environment_raises_is_told_and_the_model_kept(made, run, tmp_path, monkeypatch):
    script = sys.modules["script_train"]

    class Fails(gym.Wrapper):
        left = 3_000

        def step(self, action):
            Fails.left -= 1
            if Fails.left == 0:
                raise RuntimeError("the motor has stopped")
            return self.env.step(action)

    made = script.make_vec_env
    monkeypatch.setattr(script, "make_vec_env", lambda *a, **o: made(*a, **o, wrapper_class=Fails))
    code, output = run("train", "--log-dir", tmp_path, *RUN, "--save-freq", 0)
    assert code == 1
    assert "ended early: RuntimeError: the motor has stopped" in output
    assert len(list(tmp_path.rglob("model.npz"))) == 1
    # what to type next can be typed, and goes on from there
    [command] = [line for line in output.splitlines() if "--resume" in line]
    code, output = run("train", *shlex.split(command)[2:])
    assert code == 0, output
    assert "from step 2,999 of 4,000" in output


def test_what_the_environment_raises_in_the_evaluation_costs_no_model(made, run, tmp_path, monkeypatch):
    script = sys.modules["script_train"]

    def fail(*_):
        raise RuntimeError("the motor does not start")

    monkeypatch.setattr(script, "evaluate", fail)
    code, output = run("train", "--log-dir", tmp_path, *RUN)
    [model] = tmp_path.rglob("model.npz")
    assert code == 1
    told = (
        f"The evaluation failed, RuntimeError: the motor does not start. The model is in {model.parent}"
    )
    assert told in output


def test_ctrl_c_in_an_import_at_the_end_is_no_error(made, run, tmp_path, monkeypatch):
    """Modules may take an interrupt for an error of what they try to import."""

    class Pressed:
        def find_spec(self, name, *_):
            if name == "common.training_picture":
                try:
                    os.kill(os.getpid(), signal.SIGINT)
                except KeyboardInterrupt:
                    raise AttributeError("half imported") from None

    monkeypatch.delitem(sys.modules, "common.training_picture", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Pressed(), *sys.meta_path])
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        code, output = run("train", "--log-dir", tmp_path, *RUN)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (code, "Interrupted. The model is in" in output) == (130, True), output


def test_a_folder_that_cannot_be_is_told_before_the_training(run, tmp_path):
    (tmp_path / "logs").write_text("a file")
    code, output = run("train", "--log-dir", tmp_path / "logs", *RUN)
    assert code == 2
    assert "The training cannot start" in output


@pytest.mark.parametrize(
    ("script", "options", "told"),
    [
        ("train", ("--eval-freq", -1), "--eval-freq: must be an integer, 0 or more; got -1"),
        ("train", ("--n-envs", 0), "--n-envs: must be an integer, 1 or more; got 0"),
        ("train", ("--total-timesteps", 0), "--total-timesteps"),
        ("train", ("--seed", "x"), "--seed: must be an integer, 0 or more; got x"),
        ("evaluate", ("model.npz", "--episodes", 0), "--episodes"),
        ("compare", ("--n-jobs", 0), "--n-jobs: must be an integer, 1 or more or -1; got 0"),
        ("compare", ("--seeds", -1), "--seeds"),
        ("benchmark", ("agent", "--n-jobs", 0), "--n-jobs"),
    ],
)
def test_numbers_out_of_range_are_refused_by_name(script, options, told, run):
    code, output = run(script, *options)
    assert code == 2
    assert told in " ".join(output.replace("│", " ").split())


def test_workers_end_with_their_parent():
    parent = (
        "import os, subprocess, sys, time; child = subprocess.Popen([sys.executable, '-c', 'import os, "
        "time; from common.processes import begin_worker; begin_worker(os.getppid()); "
        "print(1, flush=True); time.sleep(60)']); print(child.pid, flush=True); time.sleep(60)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", parent], cwd=SCRIPTS, stdout=subprocess.PIPE, text=True
    )
    child = int(process.stdout.readline())
    assert process.stdout.readline() == "1\n"
    process.kill()
    deadline = time.monotonic() + 30
    while process.stdout.read(1):  # until nobody has the pipe any more
        pass
    assert time.monotonic() < deadline, child

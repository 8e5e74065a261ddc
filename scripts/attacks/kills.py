"""Attacks on long commands, which are killed or asked to end several times and restarted each time."""

import json
import mmap
import os
import re
import signal
import tempfile
import time
from collections import defaultdict
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from attacks.commands import (
    BENCHMARKED,
    BRIEFLY,
    COMPARED,
    ENV_ID,
    SMALL,
    Command,
    Ended,
    import_scripts,
    judge,
)
from attacks.trials import GOOD, Attack, Begin, Found, Verdict

SAVE_FREQ = 500
TRAIN = (
    *("train", "--log-dir", "OUT", "--total-timesteps", "6000", "--save-freq", str(SAVE_FREQ)),
    *("--eval-freq", "1500", "--eval-episodes", "1", *SMALL),
)
COMPARE = ("compare", "--output", "OUT", *COMPARED, *BRIEFLY, "--n-jobs")
ACTOR, Q = ("--algorithm", "TwoTimescaleAC", "--env-id"), ("--algorithm", "TwoTimescaleQ", "--env-id")
RUNS: dict[str, tuple[str, ...]] = {
    "train": (*TRAIN, *ACTOR, "CartPole-v1"),
    "compare": (*COMPARE, "1"),
    "train, mountain car": (*TRAIN, *Q, "MountainCar-v0"),
    "benchmark": ("benchmark", "agent", "--log-dir", "OUT", *BENCHMARKED, *BRIEFLY),
    "train, pendulum": (*TRAIN, *Q, "Pendulum-v1"),
    "compare, two workers": (*COMPARE, "2"),
    "train, two environments": (*TRAIN, *ACTOR, ENV_ID, "--n-envs", "2"),
}
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
# Results of a run that are measured times, so that they differ between runs
TIMES = ("seconds", "curve_seconds", "decision")
# Seconds in which the workers of a killed command must end.
GRACE = 10.0


def start(name: str, logs: Path, begun: mmap.mmap, resumes: bool = True) -> Command:
    """Start a command, or resume it if it `resumes` and there is a checkpoint.

    `begun` receives its step number before each checkpoint is written.
    """
    resumed = ("--resume",) if resumes and list(logs.rglob("steps-*.npz")) else ()
    words = [str(logs) if word == "OUT" else word for word in (*RUNS[name], *resumed)]
    return Command(words, partial(_note_checkpoints, begun))


def _note_checkpoints(begun: mmap.mmap) -> None:
    from common import training_picture
    from common.checkpoints import Checkpoints

    write = Checkpoints.write

    def note(self: Checkpoints) -> None:
        begun[:8] = self.model.num_timesteps.to_bytes(8, "little")
        write(self)

    Checkpoints.write = note  # type: ignore[method-assign]
    training_picture.draw = lambda *_: None


def attack_kills(number: int, rng: np.random.Generator, begin: Begin) -> Found:
    """Run one trial: send a command one to three signals at random times, and restart it after each."""
    name = list(RUNS)[number % len(RUNS)]
    expected, seconds = undisturbed(name)
    begun, done = mmap.mmap(-1, 8), []
    with tempfile.TemporaryDirectory() as folder:
        logs = Path(folder)
        for _ in range(1 + number // len(RUNS) % 3):
            which, after = SIGNALS[rng.integers(3)], float(rng.uniform(0.0, 1.2 * seconds))
            done.append(f"{which.name} after {after:.2f} s")
            begin(name, ", ".join(done))
            command = start(name, logs, begun)
            ended = command.signalled(which, after)
            found = judge(ended)
            if ended.code != -which and found.verdict not in GOOD:
                return found
            trouble = kill_survivors(command.pid) or check_files(
                logs, int.from_bytes(begun[:8], "little")
            )
            if trouble:
                return Found(Verdict.WRONG, trouble)
        return _compare([start(name, logs, begun).wait()], logs, expected)


def attack_thrice(number: int, rng: np.random.Generator, begin: Begin) -> Found:
    """Run one trial: the same command three times at once."""
    name = list(RUNS)[number % len(RUNS)]
    expected, _ = undisturbed(name)
    begin(name, "three at once")
    with tempfile.TemporaryDirectory() as folder:
        commands = []
        for _ in range(3):
            commands.append(start(name, Path(folder), mmap.mmap(-1, 8), resumes=False))
            time.sleep(float(rng.uniform(0.0, 0.2)))
        return _compare([command.wait() for command in commands], Path(folder), expected)


def _compare(ends: list[Ended], logs: Path, expected: dict[str, Any]) -> Found:
    """Check that commands succeeded and left the same results as an undisturbed one."""
    bad = [found for found in map(judge, ends) if found.verdict != Verdict.VALID]
    found = read_results(logs)
    last = {key: found.get(key, [None])[-len(ends) :] for key in expected}
    unlike = [key for key, contents in last.items() if any(one != expected[key] for one in contents)]
    if bad or not unlike:
        return bad[0] if bad else Found(Verdict.EQUAL)
    return Found(Verdict.WRONG, f"other {', '.join(unlike)}")


@cache
def undisturbed(name: str) -> tuple[dict[str, Any], float]:
    """Return what the command leaves without signals, and how many seconds it takes."""
    for _ in range(2):  # the first run compiles
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            ended = start(name, Path(folder), mmap.mmap(-1, 8)).wait()
            seconds = time.monotonic() - began
            found = {key: contents[-1] for key, contents in read_results(Path(folder)).items()}
        assert ended.code == 0, ended.said
    return found, seconds


def kill_survivors(session: int) -> str:
    """Kill the processes that outlive their command; return a note on them, if there are any."""
    deadline, left = time.monotonic() + GRACE, [session]
    while left and time.monotonic() < deadline:
        time.sleep(0.02)
        left = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = path.read_text(encoding="utf-8").rpartition(")")[2].split()
            except OSError:  # it has just ended
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                left.append(int(path.parent.name))
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return f"{len(left)} processes live on" if left else ""


def check_files(logs: Path, begun: int) -> str:
    """Return what is wrong with the files of a killed command, if anything."""
    last = 0
    for path in logs.rglob("*.*"):
        if path.name.startswith(".") or not path.is_file():
            continue
        try:
            if path.suffix == ".npz":
                with np.load(path) as content:
                    _ = [content[name] for name in content.files if name != "header.json"]
            elif path.suffix == ".json":
                json.loads(path.read_text(encoding="utf-8"))
        except Exception as error:
            return f"{path.name} cannot be read: {error}"
        if path.name.startswith("steps-"):
            last = max(last, int(path.stem.removeprefix("steps-")))
    return f"step {begun} was reached, {last} is kept" if begun - last > SAVE_FREQ else ""


def read_results(logs: Path) -> dict[str, list[Any]]:
    """Collect the results of runs by path, without the run numbers in the names of folders."""
    found: dict[str, list[Any]] = defaultdict(list)
    for path in sorted(logs.rglob("*.*")):
        key = re.sub(r"_\d+(?=/)", "", str(path.relative_to(logs)))
        if "checkpoints" in path.parts or path.name.startswith("."):
            continue
        if path.suffix == ".npz":
            found[key].append(path.read_bytes())
        elif path.suffix == ".json" and path.name.startswith("seed-"):
            run = json.loads(path.read_text(encoding="utf-8"))["run"]
            found[key].append({name: value for name, value in run.items() if name not in TIMES})
    return found


def prepare() -> None:
    """Import all modules before children are forked; the first runs cache the compiled code."""
    import_scripts(script for script, *_ in RUNS.values())


ATTACKS: dict[str, Attack] = {"kills": attack_kills, "three at once": attack_thrice}

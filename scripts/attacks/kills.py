"""Attacks on trainings: killed, or asked to end, again and again, and resumed each time."""

import json
import mmap
import os
import signal
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from attacks.trials import EQUAL, WRONG, Attack, Begin

SAVE_FREQ = 1000
SMALL = (
    *("--total-timesteps", "12000", "--save-freq", str(SAVE_FREQ), "--eval-freq", "3000"),
    *("--eval-episodes", "1", "--growth-steps", "1000", "--growth-cells", "10", "--max-cells", "30"),
)
RUNS = (
    ("--algorithm", "TwoTimescaleAC", "--env-id", "CartPole-v1"),
    ("--algorithm", "TwoTimescaleQ", "--env-id", "MountainCar-v0"),
    ("--algorithm", "TwoTimescaleQ", "--env-id", "Pendulum-v1"),
    ("--algorithm", "TwoTimescaleAC", "--env-id", "oda_rl/CartPole-v1", "--n-envs", "2"),
)
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
COMPARED = ("model.npz", "evaluations.npz")


def attack(number: int, rng: np.random.Generator, begin: Begin) -> tuple[str, str, float]:
    """One trial: a training that gets up to three signals, each at any time, and is resumed."""
    options = RUNS[number % len(RUNS)]
    expected, seconds = undisturbed(options)
    logs, told = Path(tempfile.mkdtemp()), []
    begun = mmap.mmap(-1, 8)
    try:
        for _ in range(rng.integers(1, 4)):
            which, after = SIGNALS[rng.integers(3)], float(rng.uniform(0.0, 1.2 * seconds))
            told.append(f"{which.name} after {after:.2f} s")
            begin(" ".join(options[1::2]), ", ".join(told))
            pid = fork_training(options, logs, begun)
            time.sleep(after)
            os.kill(pid, which)
            os.waitpid(pid, 0)
            trouble = look(logs, int.from_bytes(begun[:8], "little"))
            if trouble:
                return WRONG, trouble, 0.0
        os.waitpid(fork_training(options, logs, begun), 0)
        found = read(logs)
    finally:
        remove(logs)
    unlike = [name for name in COMPARED if found.get(name) != expected[name]]
    return (WRONG, f"other {', '.join(unlike)}", 0.0) if unlike else (EQUAL, "", 0.0)


def fork_training(options: tuple[str, ...], logs: Path, begun: mmap.mmap) -> int:
    """Train in a child, from the last checkpoint if there is one; `begun` gets the steps of each."""
    pid = os.fork()
    if pid:
        return pid
    try:
        import train

        from common import training_picture
        from common.checkpoints import Checkpoints

        write = Checkpoints.write

        def note(self: Checkpoints) -> None:
            begun[:8] = self.model.num_timesteps.to_bytes(8, "little")
            write(self)

        Checkpoints.write = note  # type: ignore[method-assign]
        training_picture.draw = lambda *_: None
        resumed = ("--resume",) if list(logs.rglob("steps-*.npz")) else ()
        train.main(train.parse([*options, *SMALL, "--log-dir", str(logs), *resumed]))
    except KeyboardInterrupt:
        pass
    finally:
        os._exit(0)


@cache
def undisturbed(options: tuple[str, ...]) -> tuple[dict[str, bytes], float]:
    """The files of the training without signals, and its seconds."""
    import train

    from common import training_picture

    logs = Path(tempfile.mkdtemp())
    training_picture.draw = lambda *_: None
    # compiles here, once for all children
    train.main(train.parse([*options, *SMALL, "--log-dir", str(logs), "--seed", "1"]))
    remove(logs)
    logs.mkdir()
    start = time.monotonic()
    os.waitpid(fork_training(options, logs, mmap.mmap(-1, 8)), 0)
    seconds = time.monotonic() - start
    found = read(logs)
    remove(logs)
    return found, seconds


def look(logs: Path, begun: int) -> str:
    """What is wrong with what a killed training has left, if anything."""
    last = 0
    for path in logs.rglob("*.*"):
        if path.name.startswith(".") or not path.is_file():
            continue
        try:
            if path.suffix == ".npz":
                with np.load(path) as content:
                    _ = [content[name] for name in content.files if name != "header.json"]
            elif path.suffix == ".json":
                json.loads(path.read_text())
        except Exception as error:
            return f"{path.name} cannot be read: {error}"
        if path.name.startswith("steps-"):
            last = max(last, int(path.stem.removeprefix("steps-")))
    return f"step {begun} was reached, {last} is kept" if begun - last > SAVE_FREQ else ""


def read(logs: Path) -> dict[str, Any]:
    """The files to be compared, by name, of the last run."""
    found = sorted(logs.rglob("model.npz"))
    return {name: (found[-1].parent / name).read_bytes() for name in COMPARED} if found else {}


def remove(folder: Path) -> None:
    """Delete a folder with all that is in it."""
    for where, folders, files in os.walk(folder, topdown=False):
        for name in files:
            os.unlink(os.path.join(where, name))
        for name in folders:
            os.rmdir(os.path.join(where, name))
    folder.rmdir()


ATTACKS: dict[str, Attack] = {"killed trainings": attack}

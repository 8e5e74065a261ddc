"""Attacks on the command-line scripts: invalid model files, disks that cannot be written to, Ctrl-C."""

import ctypes
import os
import pickle
import resource
import runpy
import signal
import struct
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from attacks.models import model_bytes
from attacks.trials import FORK, Attack, Begin, Found, Verdict

SCRIPTS = Path(__file__).parents[1]
SECONDS = 120
ENV_ID = "oda_rl/CartPole-v1"
SMALL = ("--growth-steps", "1000", "--growth-cells", "10", "--max-cells", "30")
BRIEFLY = ("--total-timesteps", "2000", "--eval-freq", "1000", "--eval-episodes", "2")
COMPARED = (
    *("--env-ids", ENV_ID, "--algorithms", "TwoTimescaleAC", "UniformGridQ", "--seeds", "0", "1"),
)
BENCHMARKED = ("--env-id", ENV_ID, "--seeds", "0", "1", "2", "--n-jobs", "1", *SMALL)
STUDENT = ("--rounds", "1", "--steps-per-round", "400", "--episodes", "2")
# Placeholders in `COMMANDS` for the model file and the output folder; `workspace` replaces them.
MODEL, OUT = "MODEL", "OUT"
COMMANDS: dict[str, tuple[str, ...]] = {
    "train": ("train", "--log-dir", OUT, "--env-id", ENV_ID, *BRIEFLY, *SMALL),
    "compare": ("compare", "--output", OUT, "--n-jobs", "1", *COMPARED, *BRIEFLY),
    "benchmark": ("benchmark", "agent", "--log-dir", OUT, *BENCHMARKED, *BRIEFLY),
    "evaluate": ("evaluate", MODEL, "--episodes", "2"),
    "explain": ("explain", MODEL, "--markdown", f"{OUT}/policy.md", "--picture", f"{OUT}/policy.png"),
    "page": ("explain", MODEL, "--html", f"{OUT}/page.html"),
    "plot": ("plot", MODEL, "--out", OUT, "--kind", "policy"),
    "export to C": ("export", MODEL, "--to", f"{OUT}/policy.c"),
    "export to ONNX": ("export", MODEL, "--to", f"{OUT}/policy.onnx"),
    "distill": ("distill", MODEL, "--to", f"{OUT}/small.npz", *STUDENT),
    "shrink": ("shrink", MODEL, "--to", f"{OUT}/small.npz", "--eval-episodes", "2", *STUDENT),
}


# -- running commands --------------------------------------------------------------------------------


class Ended(NamedTuple):
    """Exit code of a command (negative for a signal, None if it did not end), and what it printed."""

    code: int | None
    said: str


class Command:
    """A script that runs in a forked child, with its own session and with all modules imported already.

    Parameters
    ----------
    words : sequence of str
        The name of the script, and its arguments.
    prepare : callable
        Called in the child before the script starts.
    """

    def __init__(self, words: Sequence[str], prepare: Callable[[], object] = lambda: None) -> None:
        self._reading, writing = os.pipe()
        self._process = FORK.Process(target=_run, args=(words, prepare, writing))
        self._process.start()
        self.pid: int = self._process.pid  # type: ignore[assignment]
        os.close(writing)
        os.read(self._reading, 1)  # from here on the child can be interrupted

    def signalled(self, which: signal.Signals, after: float) -> Ended:
        """Send a signal after `after` seconds, unless the command has ended; return how it ended."""
        self._process.join(after)
        if self._process.exitcode is None:
            os.kill(self.pid, which)
        return self.wait()

    def wait(self, seconds: float = SECONDS) -> Ended:
        """Return how the command ended; kill its process group if it takes longer than `seconds`."""
        self._process.join(seconds)
        code = self._process.exitcode
        if code is None:
            os.killpg(self.pid, signal.SIGKILL)
            self._process.join()
        os.set_blocking(self._reading, False)
        try:
            said = os.read(self._reading, 2**16)
        except BlockingIOError:  # other processes hold the pipe open and have printed nothing
            said = b""
        os.close(self._reading)
        return Ended(code, said.decode(errors="replace"))


def _run(words: Sequence[str], prepare: Callable[[], object], writing: int) -> None:
    os.setsid()
    os.dup2(writing, 1)
    os.dup2(writing, 2)
    sys.stdout = sys.stderr = os.fdopen(1, "w", closefd=False)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.path.insert(0, str(SCRIPTS))
    sys.argv = [str(SCRIPTS / f"{words[0]}.py"), *words[1:]]
    prepare()
    try:
        os.write(writing, b"\n")
        runpy.run_path(sys.argv[0], run_name="__main__")
    except KeyboardInterrupt:  # during the imports; in `main`, `run_and_exit` catches it
        sys.exit("Interrupted before it began.")


def judge(ended: Ended) -> Found:
    """Judge how a command ended: no traceback is allowed, and a nonzero exit code needs a message."""
    last = ended.said.strip().rpartition("\n")[2]
    if ended.code is None:
        return Found(Verdict.HANG, last)
    if ended.code < 0:
        return Found(Verdict.CRASH, f"signal {-ended.code}")
    if "Traceback" in ended.said:
        return Found(Verdict.RAW, last)
    if ended.code and not last:
        return Found(Verdict.WRONG, "nothing is said")
    return Found(Verdict.REFUSED if ended.code else Verdict.VALID, last)


@contextmanager
def workspace(name: str) -> Iterator[tuple[list[str], Path, Path]]:
    """Yield a command's words, its model file in a temporary folder, and the path of its output."""
    with tempfile.TemporaryDirectory() as folder:
        model, out = Path(folder) / "model.npz", Path(folder) / "out"
        model.write_bytes(model_bytes("TwoTimescaleAC")[1])
        yield (
            [word.replace(MODEL, str(model)).replace(OUT, str(out)) for word in COMMANDS[name]],
            model,
            out,
        )


# -- disks -------------------------------------------------------------------------------------------


def drop_capabilities() -> None:
    """Drop all capabilities, so that file permissions apply to root, too."""
    header = struct.pack("Ii", 0x20080522, 0)  # version 3 of the system call, this process
    ctypes.CDLL(None).capset(header, bytes(24))


def _fill(out: Path, rng: np.random.Generator) -> Callable[[], None]:
    most = int(10.0 ** rng.uniform(0.0, 5.0))

    def prepare() -> None:
        sys.dont_write_bytecode = True  # a truncated .pyc file would fail at the next import
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    return prepare


def _protect(out: Path, rng: np.random.Generator) -> Callable[[], None]:
    out.chmod(0o555)
    return drop_capabilities


def _put_file(out: Path, rng: np.random.Generator) -> Callable[[], None]:
    out.rmdir()
    out.write_text("a file", encoding="utf-8")
    return lambda: None


def _put_folders(out: Path, rng: np.random.Generator) -> Callable[[], None]:
    for name in ("policy.md", "page.html", "policy.c", "policy.onnx", "small.npz", "runs.csv"):
        (out / name).mkdir()
    return lambda: None


FAULTS: dict[str, Callable[[Path, np.random.Generator], Callable[[], None]]] = {
    "no file may grow beyond some bytes": _fill,
    "a folder that cannot be written to": _protect,
    "a file in place of the folder": _put_file,
    "folders in place of files": _put_folders,
}
WRITING = [name for name, words in COMMANDS.items() if any(OUT in word for word in words)]


def attack_disks(number: int, rng: np.random.Generator, begin: Begin) -> Found:
    """Run one trial: a command that cannot write its output must not leave a temporary file."""
    name = WRITING[number % len(WRITING)]
    fault = list(FAULTS)[number // len(WRITING) % len(FAULTS)]
    begin(name, fault)
    with workspace(name) as (words, _, out):
        out.mkdir()
        found = judge(Command(words, FAULTS[fault](out, rng)).wait())
        halves = [path.name for path in out.parent.rglob(".*")]
        return Found(Verdict.WRONG, f"{halves} are left") if halves else found


# -- invalid model files -----------------------------------------------------------------------------


# Changes of an agent's model file, by name.
OTHERS: dict[str, Callable[[Path], object]] = {
    "absent": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "a text": lambda path: path.write_text("no model at all\n", encoding="utf-8"),
    "a pickle": lambda path: path.write_bytes(pickle.dumps({"weights": [1.0]})),
    "half a file": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "an array": lambda path: path.write_bytes(b"\x93NUMPY\x01\x00v\x00{'descr': '|O'}"),
    "an estimator's": lambda path: path.write_bytes(model_bytes("ODAPartition")[1]),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "unreadable": lambda path: path.chmod(0),
}
READING = [name for name, words in COMMANDS.items() if MODEL in words]
# Commands that accept models of every kind.
FOR_ALL = ("page", "plot")


def attack_readers(number: int, rng: np.random.Generator, begin: Begin) -> Found:
    """Run one trial: a command gets a file that is not an agent's, and must refuse it with a message."""
    name, what = READING[number % len(READING)], list(OTHERS)[number // len(READING) % len(OTHERS)]
    begin(name, what)
    with workspace(name) as (words, model, _):
        OTHERS[what](model)
        found = judge(Command(words, drop_capabilities).wait())
    fits = name in FOR_ALL and what == "an estimator's"
    wrong = found.verdict == Verdict.VALID and not fits
    return Found(Verdict.WRONG, "it was taken for a model") if wrong else found


# -- interrupts --------------------------------------------------------------------------------------


def attack_interrupts(number: int, rng: np.random.Generator, begin: Begin) -> Found:
    """Run one trial: Ctrl-C after 0.01 to 3 seconds."""
    name = list(COMMANDS)[number % len(COMMANDS)]
    after = float(10.0 ** rng.uniform(-2.0, 0.5))
    begin(name, f"after {after:.2f} s")
    with workspace(name) as (words, _, _):
        return judge(Command(words).signalled(signal.SIGINT, after))


def import_scripts(names: Iterable[str]) -> None:
    """Import the modules of all scripts before children are forked."""
    for name in sorted(set(names)):
        runpy.run_path(str(SCRIPTS / f"{name}.py"), run_name="imported")


def prepare() -> None:
    """Import all modules and fill the cache of compiled code, which attacks may prevent from growing."""
    import_scripts(script for script, *_ in COMMANDS.values())
    for name in COMMANDS:
        with workspace(name) as (words, _, _):
            Command(words).wait(10 * SECONDS)


ATTACKS: dict[str, Attack] = {
    "disks": attack_disks,
    "other files": attack_readers,
    "interrupts": attack_interrupts,
}

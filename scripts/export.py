"""Export a trained policy as a file that does not need this package: Python, C or ONNX.

python scripts/export.py logs/CartPole-v1/TwoTimescaleAC_0_1/model.npz
python scripts/export.py MODEL --to policy.c --digits 5
"""

from common.ending import run_and_exit

import runpy
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import numpy as np
import tyro
from gymnasium import spaces

from common.evaluation import refused_in_a_line
from oda_rl._types import Array
from oda_rl.agents import DistilledPolicy
from oda_rl.agents.export import PolicyProgram, export_policy
from oda_rl.agents.models import load_model
from oda_rl.agents.sb3.algorithm import OnlineAlgorithm
from oda_rl.inspect.table import counted

STATES = 10_000
FLAGS = ("-std=gnu99", "-O2", "-Wall", "-Wextra", "-Werror")
# Passes over the states when decisions are timed
PASSES = 20
# C program that reads states, writes the decisions, and prints the nanoseconds per decision
HARNESS = """
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "policy.c"
static double given[{n}][{d}], answers[{n}][{size}];
static REAL states[{n}][{d}], decided[{n}][{size}];
int main(void)
{{
    struct timespec begun, ended;
    if (fread(given, sizeof given, 1, stdin) != 1) return 1;
    for (int i = 0; i < {n}; i++)
        for (int j = 0; j < {d}; j++) states[i][j] = (REAL)given[i][j];
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begun);
    for (int pass = 0; pass < {passes}; pass++)
        for (int i = 0; i < {n}; i++) {decide};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ended);
    fprintf(stderr, "%.17g", ((ended.tv_sec - begun.tv_sec) * 1e9 + ended.tv_nsec - begun.tv_nsec)
            / {passes} / {n});
    for (int i = 0; i < {n}; i++)
        for (int j = 0; j < {size}; j++) answers[i][j] = (double)decided[i][j];
    return fwrite(answers, sizeof answers, 1, stdout) != 1;
}}
"""
NUMBERED = """{{
            int number = policy_decide(states[i]);
            for (int j = 0; j < {size}; j++)
                decided[i][j] = number < 0 ? NAN : (REAL)policy_actions[number][j];
        }}"""
# How to use an exported file, by its suffix
NEXT = {
    ".py": "cd {folder} && python -i {name}   # then decide([...])",
    ".c": "cc -std=c99 -O2 -c {path}   # int policy_decide(const double *observation)",
    ".onnx": "onnxruntime.InferenceSession({text!r}).run(None, {{'observation': observations}})",
}


@dataclass
class Args:
    """Export the greedy policy of an agent with a table of cells."""

    model: Annotated[Path, tyro.conf.Positional]
    """The model file."""
    to: Path | None = None
    """File to write: .py (standard library), .c (C99) or .onnx; by default policy.py next to it."""
    digits: int | None = None
    """Significant digits of the numbers, 1 to 17; by default all of them."""


def draw_states(model: OnlineAlgorithm, program: PolicyProgram) -> Array:
    """Draw states in the environment's dtype: near the cells for a Box, otherwise from the space."""
    rng, codec = np.random.default_rng(0), model.observations
    if not isinstance(codec.space, spaces.Box):
        codec.space.seed(0)
        drawn = (codec.encode(codec.space.sample()) for _ in range(STATES))
        return np.array(list(drawn), dtype=np.float64)
    if isinstance(model, DistilledPolicy):  # its cells may ignore some coordinates
        states = rng.uniform(*model.learner.ranges, (STATES, len(program.scale)))
    else:
        about = program.codevectors[rng.integers(len(program.codevectors), size=STATES)]
        states = about + 0.5 * program.scale * rng.standard_normal(about.shape)
    return codec.nearest(states)


def agreement(model: OnlineAlgorithm, states: Array, found: Any) -> float:
    """The share of states in which the actions `found` equal those of the agent."""
    decided = model.actions.decode_many(model.learner.act(states, deterministic=True))
    same = np.isclose(found.reshape(STATES, -1), decided.reshape(STATES, -1), rtol=1e-5, atol=1e-6)
    return float(same.all(axis=1).mean())


def run_exported(path: Path, program: PolicyProgram, states: Array) -> tuple[Array | None, str]:
    """Run an exported file on states of shape (n, d).

    Returns
    -------
    decided : ndarray of shape (n,) or (n, size), or None
        Actions of the environment; None if nothing is installed that can run the file.
    how : str
        What ran it, with the time per decision in C; or what is missing.
    """
    if path.suffix == ".py":
        decide = runpy.run_path(str(path))["decide"]
        return np.array([decide(state) for state in states.tolist()]), "run with Python"
    if path.suffix == ".c":
        if shutil.which("cc") is None:
            return None, "not compiled, as cc is not installed"
        found, nanoseconds = run_compiled(path, program, states)
        return found, f"compiled with cc, {nanoseconds:.0f} ns per decision"
    try:
        import onnxruntime
    except ImportError:
        return None, "not run, as onnxruntime is not installed"
    session = onnxruntime.InferenceSession(str(path))
    return session.run(["action"], {"observation": states})[0], "run with onnxruntime"


def run_compiled(
    source: Path, program: PolicyProgram, states: Array, real: str = "double"
) -> tuple[Array, float]:
    """Compile an exported C file with cc, and run it.

    Parameters
    ----------
    source : Path
        The file.
    program : PolicyProgram
        The policy that was exported.
    states : ndarray of shape (n, d)
        States in which to choose an action.
    real : {"double", "float"}
        Precision of the compiled code.

    Returns
    -------
    decided : ndarray of shape (n, size)
        Actions of the environment.
    nanoseconds : float
        Processor time per decision.

    Raises
    ------
    FileNotFoundError
        If there is no cc.
    """
    points = program.actions is None
    size = (
        program.bounds.shape[1] if points else program.actions.reshape(len(program.actions), -1).shape[1]
    )
    text = HARNESS.format(
        n=len(states),
        d=states.shape[1],
        size=size,
        passes=PASSES,
        decide="policy_decide(states[i], decided[i])" if points else NUMBERED.format(size=size),
    )
    with tempfile.TemporaryDirectory() as folder:
        harness, binary = Path(folder, "harness.c"), Path(folder, "harness")
        harness.write_text(text, encoding="utf-8")
        # its own path may have characters that C cannot name
        shutil.copy(source, Path(folder, "policy.c"))
        subprocess.run(["cc", *FLAGS, f"-DREAL={real}", harness, "-o", binary, "-lm"], check=True)
        given = np.ascontiguousarray(states, dtype=np.float64).tobytes()
        found = subprocess.run([binary], input=given, capture_output=True, check=True)
    return np.frombuffer(found.stdout).reshape(len(states), size), float(found.stderr)


def main(args: Args) -> int:
    """Load, write, compare, print."""
    path = args.to or args.model.with_name("policy.py")
    with refused_in_a_line("Cannot export the model"):
        model = load_model(args.model)
        program = export_policy(model, path, args.digits)
    states = draw_states(model, program)
    found, how = run_exported(path, program, states)
    size = path.stat().st_size / 1000
    print(
        f"{path}: {counted(len(program.values), 'cell')}, {counted(program.n_numbers, 'number')}, "
        f"{size:.1f} kB; {how}."
    )
    if program.n_numbers != model.n_parameters:
        n = model.n_parameters
        print(f"The agent itself counts {n:,}: the numbers of its own form, and zeros, too.")
    if found is not None:
        same = agreement(model, states, found)
        print(f"The file chooses the action of the agent in {same:.2%} of {STATES:,} states.")
    if found is not None and path.suffix == ".c":
        same = agreement(model, states, run_compiled(path, program, states, "float")[0])
        print(f"In single precision (-DREAL=float) it does in {same:.2%}.")
    typed = {"path": path, "folder": path.parent, "name": path.name}
    quoted = {name: quote(str(part)) for name, part in typed.items()}
    command = NEXT[path.suffix].format(**quoted, text=str(path))
    print(f"To use it:\n  {command}")
    return 0


if __name__ == "__main__":
    run_and_exit(lambda: main(tyro.cli(Args)))

"""Run exported policies: the actions that they choose and, in C, the time per decision."""

import runpy
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from oda_rl._types import Array
from oda_rl.agents.policy_program import PolicyProgram

FLAGS = ("-std=gnu99", "-O2", "-Wall", "-Wextra", "-Werror")
# Passes over the states when decisions are timed
PASSES = 20
# C program that reads states, writes the decisions, and prints the nanoseconds per decision
HARNESS = """
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "{policy}"
static double given[{n}][{d}], told[{n}][{size}];
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
        for (int j = 0; j < {size}; j++) told[i][j] = (double)decided[i][j];
    return fwrite(told, sizeof told, 1, stdout) != 1;
}}
"""
NUMBERED = """{{
            int number = policy_decide(states[i]);
            for (int j = 0; j < {size}; j++) decided[i][j] = (REAL)policy_actions[number][j];
        }}"""


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
        return np.array([decide(state) for state in states.tolist()]), "run by Python"
    if path.suffix == ".c":
        if shutil.which("cc") is None:
            return None, "there is no cc to compile it"
        found, nanoseconds = run_compiled(path, program, states)
        return found, f"compiled with cc, {nanoseconds:.0f} ns a decision"
    try:
        import onnxruntime
    except ImportError:
        return None, "onnxruntime is not installed"
    session = onnxruntime.InferenceSession(str(path))
    return session.run(["action"], {"observation": states})[0], "run by onnxruntime"


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
        policy=source.resolve(),
        n=len(states),
        d=states.shape[1],
        size=size,
        passes=PASSES,
        decide="policy_decide(states[i], decided[i])" if points else NUMBERED.format(size=size),
    )
    with tempfile.TemporaryDirectory() as folder:
        harness, binary = Path(folder, "harness.c"), Path(folder, "harness")
        harness.write_text(text)
        subprocess.run(["cc", *FLAGS, f"-DREAL={real}", harness, "-o", binary, "-lm"], check=True)
        told = np.ascontiguousarray(states, dtype=np.float64).tobytes()
        found = subprocess.run([binary], input=told, capture_output=True, check=True)
    return np.frombuffer(found.stdout).reshape(len(states), size), float(found.stderr)

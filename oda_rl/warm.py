"""Compile everything that is usually needed before its first use: `python -m oda_rl.warm`.

For container images and continuous integration: machine code is stored next to the package, or in the
folder NUMBA_CACHE_DIR, and every later process reads it from there, whether or not it may write there.
Without Stable-Baselines3, only the estimators and environments are compiled.
"""

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context

import numpy as np

from oda_rl._jit import DISABLED
from oda_rl._kernel_cache import UNSTORED

# Steps of each training.
STEPS = 4000
# Agents, each with environments that need different parts of its code.
TRAININGS = (
    ("TwoTimescaleAC", "oda_rl/CartPole-v1"),
    ("TwoTimescaleAC", "oda_rl/Pendulum-v1"),
    ("TwoTimescaleQ", "oda_rl/CartPole-v1"),
    ("TwoTimescaleQ", "oda_rl/Pendulum-v1"),
    ("TwoTimescaleQ", "FrozenLake-v1"),
    ("UniformGridQ", "oda_rl/CartPole-v1"),
    ("SOMQ", "oda_rl/CartPole-v1"),
    ("TileCodingSarsa", "oda_rl/CartPole-v1"),
    ("FourierSarsa", "oda_rl/CartPole-v1"),
)
ESTIMATORS = ("ODAPartition", "ODAClassifier", "ODARegressor")


def fit(estimator: str) -> None:
    """Compile the code of an estimator for `fit`, `partial_fit` and `predict`."""
    kind = getattr(import_module("oda_rl"), estimator)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = (X[:, 0] > 0.0).astype(int) if estimator == "ODAClassifier" else X[:, 0]
    model = kind(random_state=0).fit(X, y)
    model.partial_fit(X, y)
    model.predict(X)


def train(agent: str, env_id: str) -> None:
    """Compile the code of an agent for learning and acting in an environment."""
    import_module("oda_rl.envs")
    model = getattr(import_module("oda_rl.agents"), agent)(env=env_id, seed=0)
    model.learn(STEPS)
    model.predict(model.env.reset(), deterministic=True)


def compile_environments() -> None:
    """Compile the dynamics of all environments of the package that have compiled ones."""
    envs = import_module("oda_rl.envs")
    gym = import_module("gymnasium")
    for env_id in [one for one in gym.registry if one.startswith("oda_rl/")]:
        with gym.make(env_id) as env:
            dynamics = envs.find_dynamics(env)
        if dynamics is not None:
            assert dynamics.step.compiled
            assert dynamics.reset.compiled


def find_work() -> dict[str, tuple[Callable[..., None], tuple[str, ...]]]:
    """All parts to compile, by name: a function and its arguments. The slowest come first."""
    work: dict[str, tuple[Callable[..., None], tuple[str, ...]]] = {}
    if find_spec("stable_baselines3"):
        work |= {f"{agent} on {env_id}": (train, (agent, env_id)) for agent, env_id in TRAININGS}
    work["environments"] = (compile_environments, ())
    return work | {estimator: (fit, (estimator,)) for estimator in ESTIMATORS}


def timed(function: Callable[..., None], arguments: tuple[str, ...]) -> float:
    """Call a function and return the processor time in seconds."""
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # trainings are too short for their settings
        function(*arguments)
    return time.process_time() - begun


def compile_part(function: Callable[..., None], arguments: tuple[str, ...]) -> tuple[float, list[str]]:
    """Compile a part; returns its processor time, and the folders that cannot store it, with reasons."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "compiled code cannot be cached")  # `main` says so once
        seconds = timed(function, arguments)
    return seconds, [f"{where} ({why})" for where, why in UNSTORED.items()]


def main(typed: Sequence[str] | None = None) -> int:
    """Compile the chosen parts and print a line for each; returns 1 if code could not be stored."""
    parser = argparse.ArgumentParser(prog="python -m oda_rl.warm", description=__doc__)
    work = find_work()
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="number of parallel processes"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        default=[""],
        help="compile only the parts whose names begin with one of these",
    )
    args = parser.parse_args(typed)
    if DISABLED:
        parser.error("nothing is compiled where NUMBA_DISABLE_JIT is set.")
    chosen = {name: todo for name, todo in work.items() if name.startswith(tuple(args.only))}
    if not chosen or args.jobs < 1:
        parser.error(
            "--only must be the beginning of a part's name, and --jobs at least 1; the parts are "
            f"{', '.join(work)}."
        )
    begun = time.perf_counter()
    with ProcessPoolExecutor(min(args.jobs, len(chosen)), get_context("spawn")) as pool:
        names = {pool.submit(compile_part, *todo): name for name, todo in chosen.items()}
        for future in as_completed(names):
            seconds, unstored = future.result()
            if unstored:
                pool.shutdown(cancel_futures=True)
                print(
                    f"Compiled code cannot be stored in {unstored[0]}. Run this as a user who may write "
                    "there, or let NUMBA_CACHE_DIR name a folder that can be written, now and later.",
                    file=sys.stderr,
                )
                return 1
            print(f"{names[future]}: {seconds:.1f} s of CPU time", flush=True)
    print(f"Compiled in {time.perf_counter() - begun:.1f} s.")
    return 0


if __name__ == "__main__":
    sys.exit(main())

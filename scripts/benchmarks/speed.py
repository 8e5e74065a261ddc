"""Speed of training (flat and on a tree) and of a decision; cost of logging and the wrapper."""

import os
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numba import njit
from rich.console import Console
from rich.table import Table
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import configure

import oda_rl.envs
from benchmarks.envs import GYMNASIUM, environment_speed
from common.arguments import Positive
from common.checkpoints import Checkpoints
from common.measuring import Clock, repeated_seconds
from common.tables import make_table
from oda_rl.agents import TwoTimescaleAC, TwoTimescaleQ
from oda_rl.agents.bounds import bound_reward, keep_inside
from oda_rl.agents.callbacks import CodebookCallback
from oda_rl.agents.sb3.callback_schedule import ProgressBar
from oda_rl.envs import StateAggregation

# Alternations between training with and without logging, or with and without a callback
ALTERNATIONS = 7
# Steps between two checkpoints, as train.py has it by default
SAVE_FREQ = 50_000
COMPILED = "oda_rl/CartPole-v1"
# What is timed in the compiled loop: title, options.
VARIANTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("compiled loop, actor and critic, soft, linear (default)", {"kind": TwoTimescaleAC}),
    ("compiled loop, Q, soft, linear", {}),
    ("compiled loop, Q, soft, constant", {"local_model": "constant"}),
    ("compiled loop, Q, nearest cell, linear", {"softness": 0.0}),
    ("compiled loop, four environments, Q, soft, linear", {"n_envs": 4}),
    ("compiled loop, Q, nearest cell, constant", {"softness": 0.0, "local_model": "constant"}),
)
# Options for quick growth to many cells; the speed does not depend on how well they are placed.
MANY_CELLS: dict[str, Any] = {"samples_per_cell": 1, "growth_steps": 50_000, "growth_fraction": 1.0}
MANY_CELLS_STEPS = 60_000


@dataclass
class Speed:
    """Time training on CartPole, compiled and Gymnasium's own, and one decision."""

    total_timesteps: Positive = 100_000
    """Environment steps to time on Gymnasium's CartPole; ten times as many in the compiled loop."""
    cells: Positive = 100
    """Cells of the codebook."""
    tree_cells: tuple[int, ...] = (100, 300, 1000)
    """Numbers of cells for which trees are compared with flat codebooks; none skips the comparison."""
    only_safety: bool = False
    """Only measure what checkpoints and the bounds on outliers cost."""


def make_agent(
    env_id: str, cells: int, n_envs: int = 1, kind: Any = TwoTimescaleQ, **options: Any
) -> Any:
    """Make an agent that quickly grows to the given number of cells."""
    environment = make_vec_env(partial(gym.make, env_id), n_envs, seed=0)
    return kind(env=environment, seed=0, growth_cells=cells, max_cells=cells, **options)


def training_speed(
    env_id: str,
    steps: int,
    cells: int,
    callbacks: Any = None,
    first_steps: int = 30_000,
    clock: Clock = time.perf_counter,
    **options: Any,
) -> tuple[float, Any]:
    """Return steps per second of training after the codebook's growth (best of three), and the agent."""
    model = make_agent(env_id, cells, **options)
    model.learn(first_steps)
    again = partial(model.learn, steps, callback=callbacks, reset_num_timesteps=False)
    return steps / min(repeated_seconds(again, repeats=3, clock=clock)), model


class TimedCallback(CodebookCallback):
    """Measures the seconds that it takes at the end of the training."""

    at_end = 0.0

    def _on_training_end(self) -> None:
        begun = time.process_time()
        super()._on_training_end()
        self.at_end = time.process_time() - begun


def alternate(
    model: Any, steps: int, make: Callable[[], Any], switch: Callable[[bool], None] = lambda _: None
) -> tuple[list[float], list[float]]:
    """Processor times of trainings of one agent without and with a callback of `make`, in turns.

    It is the same agent, because the speed of the compiled loop depends a little on the addresses of its
    arrays. `switch` is called before each training, with whether it has a callback. What a callback
    takes at the end of a training (`at_end`) is not counted.
    """
    times: tuple[list[float], list[float]] = [], []
    for turn in range(-1, 2 * ALTERNATIONS):  # turn -1 grows the codebook and imports matplotlib
        is_on = turn % 2 == 1
        switch(is_on)
        callback = make() if is_on else None
        begun = time.process_time()
        model.learn(steps if turn >= 0 else 30_000, callback, reset_num_timesteps=False)
        times[is_on].append(time.process_time() - begun - getattr(callback, "at_end", 0.0))
    return times[0], times[1][1:]


def logging_speed(env_id: str, steps: int, cells: int) -> tuple[float, float, float]:
    """Steps per second without and with logging, and the seconds of what is written once at the end.

    Medians of processor time, which other programs disturb less.
    """
    model, callbacks = make_agent(env_id, cells), []
    with tempfile.TemporaryDirectory() as folder:
        loggers = configure(None, []), configure(folder, ["tensorboard"])

        def switch(logged: bool) -> None:
            model.set_logger(loggers[logged])
            model.learner.watch_errors(logged)

        def make() -> TimedCallback:
            callbacks.append(TimedCallback())
            return callbacks[-1]

        silent, logged = alternate(model, steps, make, switch)
        loggers[1].close()
    end = float(np.median([callback.at_end for callback in callbacks[1:]]))
    return steps / np.median(silent), steps / np.median(logged), end


def callback_share(env_id: str, steps: int, cells: int, make: Callable[[], BaseCallback]) -> float:
    """The share of a training's time that a callback costs; medians as in `logging_speed`."""
    without, with_callback = alternate(make_agent(env_id, cells), steps, make)
    return float(np.median(with_callback) / np.median(without)) - 1.0


def bar_share(env_id: str, steps: int, cells: int) -> float:
    """The share of a training's time that a progress bar costs on a terminal."""
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tqdm warns that its bars by rich are experimental
        console = Console(file=nowhere, force_terminal=True)
        return callback_share(env_id, steps, cells, partial(ProgressBar, console=console))


def checkpoint_share(env_id: str, steps: int, cells: int) -> float:
    """The share of a training's time that checkpoints cost, one every `SAVE_FREQ` steps."""
    with tempfile.TemporaryDirectory() as folder:
        options = Path(folder), SAVE_FREQ, [], print
        return callback_share(env_id, steps, cells, partial(Checkpoints, *options))


@njit
def bound(n: int, d: int, numbers: np.ndarray) -> float:
    """Bound `n` rewards and observations of `d` numbers as a step of the training does."""
    total, figures = 0.0, np.zeros(4)
    for i in range(n):
        total += bound_reward(numbers[i % len(numbers)], 0.99, figures, 0)
        for j in range(d):
            total += keep_inside(numbers[(i + j) % len(numbers)], -1.0, 1.0)
    return total


def bound_seconds(n: int, d: int = 4) -> float:
    """Seconds for the bounds of a reward and of an observation of CartPole, the best of five."""
    numbers = np.random.default_rng(0).normal(size=1000)
    bound(1, d, numbers)
    return min(repeated_seconds(bound, n, d, numbers, clock=time.process_time)) / n


def safety_table(args: Speed) -> Table:
    """Make the table of what checkpoints and the bounds on outliers cost."""
    table = make_table("Checkpoints and bounds", "", "")
    for title, env_id, steps in (
        ("compiled loop", COMPILED, 4 * args.total_timesteps),
        ("on Gymnasium's", GYMNASIUM, args.total_timesteps),
    ):
        share = checkpoint_share(env_id, steps, args.cells)
        table.add_row(f"{title}, a checkpoint every {SAVE_FREQ:,} steps costs", f"{share:.1%}")
    seconds = bound_seconds(10 * args.total_timesteps)
    table.add_row("bounds of rewards and observations, a step", f"{1e9 * seconds:.1f} ns")
    options: dict[str, Any] = {"kind": TwoTimescaleAC, "clock": time.process_time}
    speed, _ = training_speed(COMPILED, 4 * args.total_timesteps, args.cells, **options)
    table.add_row("  of a step of the compiled loop, actor and critic", f"{seconds * speed:.1%}")
    return table


def wrapper_speeds(steps: int, cells: int, rounds: int = 5) -> dict[str, float]:
    """Seconds per step of CartPole, alone and with StateAggregation; the best of alternating rounds."""
    growing = StateAggregation(gym.make(GYMNASIUM), max_states=cells)
    while growing.n_states < cells:
        environment_speed(5_000, growing)
    environments = {
        "Gymnasium alone": gym.make(GYMNASIUM),
        "StateAggregation, learn=False": StateAggregation(
            gym.make(GYMNASIUM), growing.partition, learn=False
        ),
        "StateAggregation, learn=True": growing,
    }
    times: dict[str, list[float]] = {name: [] for name in environments}
    for _ in range(rounds):
        for name, environment in environments.items():
            times[name].append(1.0 / environment_speed(steps // rounds, environment))
    return {name: min(found) for name, found in times.items()}


def wrapper_table(steps: int, cells: int) -> Table:
    """Make the table of what StateAggregation adds to a step."""
    speeds = wrapper_speeds(steps, cells)
    alone = min(speeds.values())
    table = make_table(f"CartPole-v1 as {cells} states", "", "a step", "added")
    for name, seconds in speeds.items():
        added = "" if seconds == alone else f"{1e6 * (seconds - alone):.1f} us"
        table.add_row(name, f"{1e6 * seconds:.1f} us", added)
    return table


def decision_seconds(cells: int) -> float:
    """Time of one `predict`."""
    model = make_agent(GYMNASIUM, cells)
    model.learn(30_000)
    observation = np.zeros(4, dtype=np.float32)

    def decide() -> None:
        for _ in range(10_000):
            model.predict(observation, deterministic=True)

    return float(np.median(repeated_seconds(decide))) / 10_000


def tree_table(args: Speed) -> Table:
    """Make the table of codebooks on a tree against flat ones in the compiled loop."""
    table = make_table(
        "CartPole-v1, compiled loop: flat against tree",
        *("values", "flat: cells", "distances", "steps/s", "tree: cells", "distances", "steps/s"),
        "ratio",
    )
    for cells in args.tree_cells:
        for local_model in ("linear", "constant"):
            options = {"local_model": local_model, "first_steps": MANY_CELLS_STEPS, **MANY_CELLS}
            slow, flat = training_speed(COMPILED, args.total_timesteps, cells, **options)
            fast, tree = training_speed(COMPILED, args.total_timesteps, cells, tree=True, **options)
            table.add_row(
                *(local_model, f"{flat.n_cells:,}", f"{flat.n_cells:,}", f"{slow:,.0f}"),
                *(f"{tree.n_cells:,}", f"{tree.learner.n_distances:.0f}", f"{fast:,.0f}"),
                f"{fast / slow:.1f}",
            )
    return table


def add_logging(table: Table, args: Speed) -> None:
    """Add rows on what logging costs: `CodebookCallback` with its defaults, and a TensorBoard logger."""
    table.add_section()
    for title, env_id, steps in (
        ("compiled loop", COMPILED, 10 * args.total_timesteps),
        ("on Gymnasium's", GYMNASIUM, args.total_timesteps),
    ):
        plain, logged, end = logging_speed(env_id, steps, args.cells)
        table.add_row(f"{title}, without any log", f"{plain:,.0f} steps/s")
        table.add_row("  with TensorBoard and CodebookCallback", f"{logged:,.0f} steps/s")
        table.add_row("  logging costs", f"{1.0 - logged / plain:.1%}")
        table.add_row("  a progress bar costs", f"{bar_share(env_id, 4 * steps, args.cells):.1%}")
        table.add_row("  and once, at the end, all that is drawn", f"{end:.2f} s")
    table.add_section()


def run_speed(args: Speed, console: Console) -> None:
    """Print the tables of `benchmark.py speed`."""
    assert oda_rl.envs  # registers the compiled twins
    with console.status("timing checkpoints"):
        safety = safety_table(args)
    console.print(safety)
    if args.only_safety:
        return
    table = make_table(f"CartPole-v1, {args.cells} cells", "", "")
    with console.status("timing"):
        for title, options in VARIANTS:
            speed, model = training_speed(COMPILED, 10 * args.total_timesteps, args.cells, **options)
            title = title if model.n_cells == args.cells else f"{title}, {model.n_cells} cells"
            table.add_row(title, f"{speed:,.0f} steps/s")
        table.add_section()
        table.add_row("Gymnasium alone", f"{environment_speed(args.total_timesteps):,.0f} steps/s")
        speed, _ = training_speed(GYMNASIUM, args.total_timesteps, args.cells)
        table.add_row("training on Gymnasium's", f"{speed:,.0f} steps/s")
        add_logging(table, args)
        table.add_row("one decision (predict)", f"{1e6 * decision_seconds(args.cells):.1f} us")
        states = wrapper_table(args.total_timesteps, args.cells)
    console.print(table)
    console.print(states)
    if args.tree_cells:
        with console.status("timing trees"):
            table = tree_table(args)
        console.print(table)
    console.print("Speeds are the best of three, after the compilation and the growth of the codebook.")
    if args.tree_cells:
        console.print("Distances: for each decision, comparisons with the planes of the tree included.")

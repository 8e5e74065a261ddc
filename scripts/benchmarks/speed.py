"""Speed: training steps per second, seconds until CartPole is solved, a decision, the import."""

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from rich.console import Console
from rich.table import Table

import oda_rl.envs
from benchmarks.training import CURVE_EPISODES, EVALUATION_SEED, Evaluation
from oda_rl.agents import TwoTimescaleQ
from oda_rl.agents.callbacks import CodebookCallback

COMPILED, GYMNASIUM = "oda_rl/CartPole-v1", "CartPole-v1"
# What is timed in the compiled loop: title, options, steps per second to be reached.
VARIANTS: tuple[tuple[str, dict[str, Any], float], ...] = (
    ("compiled loop, soft, linear (default)", {}, 1.5e6),
    ("compiled loop, soft, constant", {"local_model": "constant"}, 1.5e6),
    ("compiled loop, nearest cell, linear", {"softness": 0.0}, 3e6),
    ("compiled loop, nearest cell, constant", {"softness": 0.0, "local_model": "constant"}, 3e6),
)
SOLVED = 475.0


@dataclass
class Speed:
    """Time training on CartPole, compiled and Gymnasium's own, one decision, and the import."""

    total_timesteps: int = 100_000
    """Environment steps to time on Gymnasium's CartPole; ten times as many in the compiled loop."""
    cells: int = 100
    """Cells of the codebook."""
    seeds: int = 5
    """Seeds of the trainings until CartPole is solved."""
    max_timesteps: int = 200_000
    """Steps after which those give up."""


def seconds_of(function: Callable[[], object], repeats: int = 5) -> float:
    """Median time of a call."""
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        function()
        times.append(time.perf_counter() - begun)
    return float(np.median(times))


def import_seconds() -> float:
    """Time that `import oda_rl` adds to a fresh interpreter."""
    start = seconds_of(lambda: subprocess.run([sys.executable, "-c", ""], check=True))
    return (
        seconds_of(lambda: subprocess.run([sys.executable, "-c", "import oda_rl"], check=True)) - start
    )


def make_agent(env_id: str, cells: int, seed: int = 0, **options: Any) -> TwoTimescaleQ:
    """An agent that soon has the wanted number of cells."""
    environment = gym.make(env_id)
    return TwoTimescaleQ(env=environment, seed=seed, growth_cells=cells, max_cells=cells, **options)


def training_speed(
    env_id: str, steps: int, cells: int, callbacks: Any = None, **options: Any
) -> tuple[float, int]:
    """Steps per second of training once the codebook has grown, and its cells; the best of three."""
    model = make_agent(env_id, cells, **options)
    model.learn(30_000)
    times = []
    for _ in range(3):
        begun = time.perf_counter()
        model.learn(steps, callback=callbacks, reset_num_timesteps=False)
        times.append(time.perf_counter() - begun)
    return steps / min(times), model.n_cells


def environment_speed(steps: int) -> float:
    """Steps per second of the environment alone, under random actions."""
    environment = gym.make(GYMNASIUM)
    environment.reset(seed=0)
    actions = np.random.default_rng(0).integers(2, size=steps).tolist()
    begun = time.perf_counter()
    for action in actions:
        _, _, terminated, truncated, _ = environment.step(action)
        if terminated or truncated:
            environment.reset()
    return steps / (time.perf_counter() - begun)


def seconds_until_solved(seed: int, max_timesteps: int, every: int = 5_000) -> tuple[float, int]:
    """Seconds of training, without the evaluations, and steps until one of those says solved."""
    model = TwoTimescaleQ(env=gym.make(COMPILED), seed=seed)
    evaluation = Evaluation(COMPILED, CURVE_EPISODES, EVALUATION_SEED * (seed + 1))
    spent, begun = 0.0, time.perf_counter()

    def look(seen: dict[str, Any], _: dict[str, Any]) -> bool:
        nonlocal spent, begun
        if model.num_timesteps % every:
            return True
        spent += time.perf_counter() - begun
        solved = evaluation.play(model).mean() >= SOLVED
        begun = time.perf_counter()
        return not solved

    model.learn(max_timesteps, callback=look)
    return (
        (spent, model.num_timesteps) if model.num_timesteps < max_timesteps else (np.inf, max_timesteps)
    )


def decision_seconds(cells: int) -> float:
    """Time of one `predict`."""
    model = make_agent(GYMNASIUM, cells)
    model.learn(30_000)
    observation = np.zeros(4, dtype=np.float32)

    def decide() -> None:
        for _ in range(10_000):
            model.predict(observation, deterministic=True)

    return seconds_of(decide) / 10_000


def run_speed(args: Speed, console: Console) -> None:
    """The table of `benchmark.py speed`."""
    assert oda_rl.envs  # registers the compiled twins
    table = Table(title=f"CartPole-v1, {args.cells} cells", title_justify="left")
    table.add_column("")
    for name in ("", "to be reached"):
        table.add_column(name, justify="right")
    with console.status("timing"):
        for title, options, target in VARIANTS:
            speed, cells = training_speed(COMPILED, 10 * args.total_timesteps, args.cells, **options)
            title = title if cells == args.cells else f"{title}, {cells} cells"
            table.add_row(title, f"{speed:,.0f} steps/s", f"{target:,.0f}")
        solved = [seconds_until_solved(seed, args.max_timesteps) for seed in range(args.seeds)]
        seconds, steps = np.median(solved, axis=0)
        table.add_row(f"compiled loop, until an evaluation is at {SOLVED:g}", f"{seconds:.3f} s", "")
        table.add_row(f"  in steps (medians of {args.seeds} seeds)", f"{steps:,.0f}", "")
        table.add_section()
        table.add_row("Gymnasium alone", f"{environment_speed(args.total_timesteps):,.0f} steps/s", "")
        speed, _ = training_speed(GYMNASIUM, args.total_timesteps, args.cells)
        table.add_row("training on Gymnasium's", f"{speed:,.0f} steps/s", "100,000")
        speed, _ = training_speed(GYMNASIUM, args.total_timesteps, args.cells, [CodebookCallback()])
        table.add_row("  with CodebookCallback", f"{speed:,.0f} steps/s", "")
        table.add_row("one decision (predict)", f"{1e6 * decision_seconds(args.cells):.1f} us", "")
        table.add_row("import oda_rl", f"{1e3 * import_seconds():.0f} ms", "")
    console.print(table)
    console.print("Speeds are the best of three, after the compilation and the growth of the codebook.")

"""Measure the package. Each command prints a table of what it measured.

python scripts/benchmark.py agent            # returns over seeds, by environment
python scripts/benchmark.py speed            # steps per second, microseconds per decision, import
python scripts/benchmark.py partition        # the partitioner: time, distortion against k-means, memory
"""

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import gymnasium as gym
import numpy as np
import torch
import tyro
from benchmarks.partition import Partition, run_partition
from joblib import Parallel, delayed
from rich.console import Console
from rich.table import Table
from stable_baselines3 import DQN
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

from oda_rl.agents import TwoTimescaleConfig, TwoTimescaleQ
from oda_rl.agents.callbacks import CodebookCallback
from sb3_zoo import make_zoo_agent

EVALUATION_SEED = 1_000_000


@dataclass
class Agent:
    """Train with several seeds; evaluate the last greedy policy, not the best one."""

    env_id: str = "CartPole-v1"
    """Environment to train on."""
    algorithm: Literal["TwoTimescaleQ", "PPO", "DQN"] = "TwoTimescaleQ"
    """Ours, or one of SB3's with the hyperparameters of RL Zoo."""
    total_timesteps: int = 200_000
    """Environment steps of each run."""
    seeds: tuple[int, ...] = tuple(range(10))
    """Seeds to run. The defaults of the agent were chosen on seeds 100 to 115."""
    threshold: float | None = None
    """Return that counts as solved; the environment's own if not given."""
    eval_freq: int = 5_000
    """Steps between evaluations of 20 greedy episodes."""
    eval_episodes: int = 100
    """Greedy episodes at the end."""
    jobs: int = 2
    """Processes."""
    agent: Annotated[TwoTimescaleConfig, tyro.conf.arg(name="")] = field(
        default_factory=TwoTimescaleConfig
    )


@dataclass
class Speed:
    """Time training on Gymnasium's CartPole, one decision, and the import."""

    total_timesteps: int = 100_000
    """Environment steps to time."""
    cells: int = 100
    """Cells of the codebook."""


class CurveCallback(EvalCallback):
    """Evaluates now and then, and remembers the means."""

    def __init__(self, environment: gym.Env, eval_freq: int) -> None:
        super().__init__(environment, n_eval_episodes=20, eval_freq=eval_freq, verbose=0)
        self.steps: list[int] = []
        self.means: list[float] = []

    def _on_step(self) -> bool:
        go_on = super()._on_step()
        if self.n_calls % self.eval_freq == 0:
            self.steps.append(self.num_timesteps)
            self.means.append(float(self.last_mean_reward))
        return go_on


def make_model(args: Agent, seed: int) -> BaseAlgorithm:
    """The agent to be trained."""
    if args.algorithm == "TwoTimescaleQ":
        return TwoTimescaleQ(env=args.env_id, seed=seed, **args.agent.to_dict())
    return make_zoo_agent(args.algorithm, args.env_id, seed)


def count_numbers(model: BaseAlgorithm) -> int:
    """Numbers stored to act: for SB3 the parameters of the policy, the target network left out."""
    if isinstance(model, TwoTimescaleQ):
        return model.n_parameters
    policy = model.policy.q_net if isinstance(model, DQN) else model.policy
    return sum(parameter.numel() for parameter in policy.parameters())


def run_seed(args: Agent, seed: int) -> dict[str, Any]:
    """Train with one seed; returns what the table wants to know."""
    torch.set_num_threads(1)
    environment = Monitor(gym.make(args.env_id))
    environment.reset(seed=EVALUATION_SEED + seed)
    model = make_model(args, seed)
    curve = CurveCallback(environment, max(args.eval_freq // model.n_envs, 1))
    begun = time.perf_counter()
    model.learn(args.total_timesteps, callback=curve)
    seconds = time.perf_counter() - begun
    returns, _ = evaluate_policy(model, environment, args.eval_episodes, return_episode_rewards=True)
    return {
        "seed": seed,
        "mean": float(np.mean(returns)),
        "sd": float(np.std(returns)),
        "cells": getattr(model, "n_cells", 0),
        "numbers": count_numbers(model),
        "seconds": seconds,
        "steps": curve.steps,
        "curve": curve.means,
    }


def first_pass_and_hold(curve: list[float], threshold: float) -> tuple[int | None, float]:
    """Index of the first evaluation at the threshold, and the share from there on that stay there."""
    passed = np.asarray(curve) >= threshold
    if not passed.any():
        return None, 0.0
    first = int(passed.argmax())
    return first, float(passed[first:].mean())


def interquartile_mean(values: list[float]) -> float:
    """Mean of the middle half (IQM)."""
    ordered = np.sort(values)
    cut = len(ordered) // 4
    return float(ordered[cut : len(ordered) - cut].mean())


def run_agent(args: Agent, console: Console) -> None:
    """The table of `benchmark.py agent`."""
    # One short run first, so that two processes do not compile the same kernels at once.
    run_seed(replace(args, total_timesteps=20_000, eval_episodes=1), 0)
    runs = Parallel(n_jobs=args.jobs)(delayed(run_seed)(args, seed) for seed in args.seeds)
    spec = gym.spec(args.env_id)
    threshold = args.threshold if args.threshold is not None else spec.reward_threshold
    if threshold is None:
        threshold = np.inf
    title = f"{args.algorithm} on {args.env_id}, {args.total_timesteps:,} steps"
    table = Table(title=title, title_justify="left")
    for name in ("seed", "return", "sd", "cells", "numbers", "seconds", "first pass", "hold"):
        table.add_column(name, justify="right")
    firsts, holds = [], []
    for run in runs:
        first, hold = first_pass_and_hold(run["curve"], threshold)
        firsts.append(np.inf if first is None else run["steps"][first])
        holds.append(hold)
        table.add_row(
            str(run["seed"]),
            f"{run['mean']:.1f}",
            f"{run['sd']:.1f}",
            str(run["cells"] or "-"),
            f"{run['numbers']:,}",
            f"{run['seconds']:.1f}",
            "-" if first is None else f"{firsts[-1]:,}",
            f"{hold:.2f}",
        )
    table.add_section()
    table.add_row(
        "IQM",
        f"{interquartile_mean([run['mean'] for run in runs]):.1f}",
        "",
        f"{np.median([run['cells'] for run in runs]):.0f}",
        f"{np.median([run['numbers'] for run in runs]):,.0f}",
        f"{np.median([run['seconds'] for run in runs]):.1f}",
        f"{np.median(firsts):,.0f}",
        f"{np.median(holds):.2f}",
    )
    console.print(table)
    console.print(
        "return: mean of the greedy episodes with the last policy. seconds: evaluations included. "
        f"first pass: steps to the first evaluation at {threshold}; hold: the share of the evaluations "
        "from there on that stay at it. The last row has the IQM of the returns, else medians."
    )


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


def training_speed(args: Speed, with_callbacks: bool) -> float:
    """Steps per second of training at about the wanted number of cells."""
    model = TwoTimescaleQ(env="CartPole-v1", seed=0, growth_cells=args.cells, max_cells=args.cells)
    model.learn(30_000)
    callbacks = [CodebookCallback()] if with_callbacks else None
    begun = time.perf_counter()
    model.learn(args.total_timesteps, callback=callbacks, reset_num_timesteps=False)
    return args.total_timesteps / (time.perf_counter() - begun)


def environment_speed(steps: int) -> float:
    """Steps per second of the environment alone, under random actions."""
    environment = gym.make("CartPole-v1")
    environment.reset(seed=0)
    actions = np.random.default_rng(0).integers(2, size=steps).tolist()
    begun = time.perf_counter()
    for action in actions:
        _, _, terminated, truncated, _ = environment.step(action)
        if terminated or truncated:
            environment.reset()
    return steps / (time.perf_counter() - begun)


def decision_seconds(cells: int) -> float:
    """Time of one `predict`."""
    model = TwoTimescaleQ(env="CartPole-v1", seed=0, growth_cells=cells, max_cells=cells)
    model.learn(30_000)
    observation = np.zeros(4, dtype=np.float32)

    def decide() -> None:
        for _ in range(10_000):
            model.predict(observation, deterministic=True)

    return seconds_of(decide) / 10_000


def run_speed(args: Speed, console: Console) -> None:
    """The table of `benchmark.py speed`."""
    table = Table(title=f"CartPole-v1, {args.cells} cells", title_justify="left")
    table.add_column("")
    table.add_column("", justify="right")
    table.add_row("Gymnasium alone", f"{environment_speed(args.total_timesteps):,.0f} steps/s")
    table.add_row("training", f"{training_speed(args, False):,.0f} steps/s")
    table.add_row("training with CodebookCallback", f"{training_speed(args, True):,.0f} steps/s")
    table.add_row("one decision (predict)", f"{1e6 * decision_seconds(args.cells):.1f} us")
    table.add_row("import oda_rl", f"{1e3 * import_seconds():.0f} ms")
    console.print(table)


def main(args: Agent | Speed | Partition) -> None:
    """Run one benchmark."""
    console = Console()
    if isinstance(args, Agent):
        run_agent(args, console)
    elif isinstance(args, Partition):
        run_partition(args, console)
    else:
        run_speed(args, console)


if __name__ == "__main__":
    main(
        tyro.extras.subcommand_cli_from_dict(  # type: ignore[call-overload]
            {"agent": Agent, "speed": Speed, "partition": Partition}
        )
    )

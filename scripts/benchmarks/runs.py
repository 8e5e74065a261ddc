"""Training runs that are kept as they end, so that a long table can be interrupted and resumed."""

import csv
import hashlib
import json
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import stable_baselines3
import torch
from joblib import Parallel, delayed
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback

import oda_rl
import oda_rl.agents
import oda_rl.envs
from benchmarks.tasks import short_name
from sb3_zoo import make_zoo_agent

EVALUATION_SEED = 1_000_000
CURVE_EPISODES = 20
SB3 = ("PPO", "DQN")
Run = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """All that tells one set of runs from another, but for the seed and the version of the code."""

    algorithm: str
    """Name of a class of `oda_rl.agents`, or of an SB3 algorithm in `sb3_zoo`."""
    env_id: str
    """Environment to train on."""
    total_timesteps: int
    """Environment steps of each run."""
    eval_freq: int = 5_000
    """Steps between evaluations of 20 greedy episodes."""
    eval_episodes: int = 100
    """Greedy episodes at the end."""
    options: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments of the agent."""

    def folder(self, log_dir: Path) -> Path:
        """Where its runs are kept: a folder of its own for each version of the code."""
        told = json.dumps([asdict(self), code_version(self.algorithm)], sort_keys=True, default=list)
        digest = hashlib.sha1(told.encode()).hexdigest()[:8]
        return log_dir / short_name(self.env_id) / f"{self.algorithm}-{digest}"


@cache
def code_version(algorithm: str) -> str:
    """The version of SB3, or a digest of this package's source: other code, other runs."""
    if algorithm in SB3:
        return stable_baselines3.__version__
    digest = hashlib.sha1()
    for package in (oda_rl, oda_rl.agents, oda_rl.envs):
        for path in sorted(Path(str(package.__file__)).parent.rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


def make_model(plan: Plan, seed: int) -> BaseAlgorithm:
    """The agent to be trained; ValueError if there is none for the plan."""
    if plan.algorithm in SB3:
        return make_zoo_agent(plan.algorithm, plan.env_id, seed)
    try:
        kind = getattr(oda_rl.agents, plan.algorithm)
    except AttributeError:
        raise ValueError(f"oda_rl.agents has no {plan.algorithm}.") from None
    # From an id SB3 makes an environment that renders, and some (LunarLander) are slowed down by that.
    return kind(env=gym.make(plan.env_id), seed=seed, **plan.options)


def count_numbers(model: Any) -> int:
    """Numbers stored to act: for SB3 the parameters of the policy, the target network left out."""
    if hasattr(model, "n_parameters"):
        return model.n_parameters
    policy = getattr(model.policy, "q_net", model.policy)
    return sum(parameter.numel() for parameter in policy.parameters())


class Evaluation:
    """Greedy episodes in several environments in step, one episode in each."""

    def __init__(self, env_id: str, episodes: int, seed: int) -> None:
        self.envs = [gym.make(env_id, disable_env_checker=True) for _ in range(episodes)]
        for i, env in enumerate(self.envs):
            env.reset(seed=seed + i)

    def play(self, model: BaseAlgorithm) -> np.ndarray:
        """The return of each episode."""
        observations = np.array([env.reset()[0] for env in self.envs])
        returns = np.zeros(len(self.envs))
        going = list(range(len(self.envs)))
        scaler = model.get_vec_normalize_env()
        while going:
            seen = observations[going]
            if scaler is not None:
                seen = scaler.normalize_obs(seen)
            actions, _ = model.predict(seen, deterministic=True)
            still = []
            for i, action in zip(going, actions, strict=True):
                observations[i], reward, terminated, truncated, _ = self.envs[i].step(action)
                returns[i] += float(reward)
                if not (terminated or truncated):
                    still.append(i)
            going = still
        return returns


class CurveCallback(BaseCallback):
    """Evaluates now and then, and remembers the means."""

    def __init__(self, evaluation: Evaluation, eval_freq: int) -> None:
        super().__init__()
        self.evaluation = evaluation
        self.eval_freq = eval_freq
        self.steps: list[int] = []
        self.means: list[float] = []

    def _on_step(self) -> bool:
        if self.num_timesteps >= self.eval_freq * (len(self.steps) + 1):
            self.steps.append(self.num_timesteps)
            self.means.append(float(self.evaluation.play(self.model).mean()))
        return True


def train(plan: Plan, seed: int) -> Run:
    """Train with one seed; returns what tables and pictures want to know of the last greedy policy."""
    torch.set_num_threads(1)
    model = make_model(plan, seed)
    evaluation = Evaluation(plan.env_id, CURVE_EPISODES, EVALUATION_SEED * (seed + 1))
    curve = CurveCallback(evaluation, plan.eval_freq)
    begun = time.perf_counter()
    model.learn(plan.total_timesteps, callback=curve)
    seconds = time.perf_counter() - begun
    last = Evaluation(plan.env_id, plan.eval_episodes, EVALUATION_SEED * (seed + 1) + CURVE_EPISODES)
    returns = last.play(model)
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


def train_and_keep(plan: Plan, seed: int, folder: Path, in_a_worker: bool) -> Run:
    """`train`, and the result in a file before anything else can happen."""
    if in_a_worker:  # Ctrl-C is for the process that has the table
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    run = train(plan, seed)
    folder.mkdir(parents=True, exist_ok=True)
    about = {**asdict(plan), "code": code_version(plan.algorithm), "finished": time.time()}
    path = folder / f"seed-{seed}.json"
    whole = path.with_suffix(".part")
    whole.write_text(json.dumps({"plan": about, "run": run}, indent=1, default=list) + "\n")
    whole.replace(path)
    return run


def find_kept(folder: Path, seeds: Sequence[int]) -> dict[int, Run]:
    """The runs of a plan that have been made already, by seed."""
    paths = {seed: folder / f"seed-{seed}.json" for seed in seeds}
    return {s: json.loads(path.read_text())["run"] for s, path in paths.items() if path.is_file()}


def carry_out(
    plan: Plan, seeds: Sequence[int], jobs: int, log_dir: Path, fresh: bool, console: Console
) -> tuple[list[Run], bool]:
    """Make the runs that are not there yet, with a progress bar.

    Returns the runs in the order of the seeds, and whether Ctrl-C has cut them short.
    """
    folder = plan.folder(log_dir)
    runs = {} if fresh else find_kept(folder, seeds)
    missing = [seed for seed in seeds if seed not in runs]
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    title = f"{plan.algorithm} on {short_name(plan.env_id)}, seeds"
    interrupted = False
    hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        bar = progress.add_task(title, total=len(seeds), completed=len(runs))
        try:
            for run in _run_missing(plan, missing, jobs, folder):
                runs[run["seed"]] = run
                progress.advance(bar)
        except KeyboardInterrupt:
            interrupted = True
            runs |= find_kept(folder, missing)
    return [runs[seed] for seed in seeds if seed in runs], interrupted


def _run_missing(plan: Plan, seeds: list[int], jobs: int, folder: Path) -> Iterator[Run]:
    if not seeds:
        return
    if plan.algorithm not in SB3:
        # Compiled here and now: not on the clock of a run, and not by two processes at once.
        steps = min(plan.total_timesteps, 20_000)
        train(Plan(plan.algorithm, plan.env_id, steps, steps, 1, plan.options), seeds[0])
    if jobs == 1:
        for seed in seeds:
            yield train_and_keep(plan, seed, folder, False)
        return
    work = (delayed(train_and_keep)(plan, seed, folder, True) for seed in seeds)
    yield from Parallel(n_jobs=jobs, return_as="generator_unordered")(work)


def write_csv(path: Path, rows: Sequence[tuple[Plan, Run]]) -> None:
    """One line for each run, without its curve."""
    names = ("algorithm", "env_id", "total_timesteps")
    numbers = ("seed", "mean", "sd", "cells", "numbers", "seconds")
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*names, *numbers])
        for plan, run in rows:
            writer.writerow([*(getattr(plan, n) for n in names), *(run[n] for n in numbers)])

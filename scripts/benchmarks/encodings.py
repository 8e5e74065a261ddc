"""SB3's agents on the states of a partition, by how the states are shown to them."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import gymnasium as gym
import numpy as np
from rich.console import Console

from benchmarks.comparison import Entry
from benchmarks.plans import Plan
from benchmarks.runs import carry_out, tell_run
from benchmarks.tasks import find_threshold
from common.arguments import Count, Positive
from common.tables import show_table
from common.workers import Where
from oda_rl.envs import StateAggregation
from oda_rl.envs.aggregator import Encoding, find_softness
from sb3_zoo import find_zoo_options

NOTHING = "observations themselves"


@dataclass
class Encodings:
    """Train SB3's agents on observations, and on the states of a partition, however they are shown.

    The partition grows under random actions, and stays as it is. SB3's agents have RL Zoo's
    hyperparameters for the environment. Its constant learning rate of DQN on CartPole leaves to chance
    whether the last policy is one that balances, or one that has just lost it.
    """

    env_id: str = "CartPole-v1"
    """Environment."""
    algorithms: tuple[str, ...] = ("PPO", "DQN")
    """Agents of SB3."""
    encodings: tuple[Encoding, ...] = get_args(Encoding)
    """How states are shown."""
    seeds: tuple[Count, ...] = (0, 1, 2)
    """Seeds of each."""
    total_timesteps: Positive = 50_000
    """Environment steps of each run."""
    max_states: Positive = 100
    """Cells of the partition."""
    grow_steps: Positive = 50_000
    """Steps under random actions by which it grows."""
    softness: float | None = None
    """Of the associations, in temperatures; none: the wrapper's own."""
    falling_rate: bool = True
    """Learning rates fall linearly to 0; off: as RL Zoo has them."""
    log_dir: Path = Path("logs/encodings")
    """Every run is kept here when it ends."""


def grow(args: Encodings) -> Path:
    """The file of a partition that has grown under random actions held for 1 to 10 steps."""
    path = (
        args.log_dir / f"cells-{args.env_id.replace('/', '-')}-{args.max_states}-{args.grow_steps}.npz"
    )
    if path.is_file():
        return path
    args.log_dir.mkdir(parents=True, exist_ok=True)
    env = StateAggregation(gym.make(args.env_id), max_states=args.max_states)
    rng, held, action = np.random.default_rng(0), 0, 0
    env.action_space.seed(0)
    env.reset(seed=0)
    for _ in range(args.grow_steps):
        if held == 0:
            held, action = int(rng.integers(1, 11)), env.action_space.sample()
        held -= 1
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()
    env.partition.save(path)
    return path


def make_aggregated(env_id: str, cells: Path, **options: Any) -> gym.Env:
    """An environment behind a partition that stays as it is."""
    return StateAggregation(gym.make(env_id), cells, learn=False, **options)


def register(args: Encodings, cells: Path, encoding: Encoding) -> str:
    """The id of the environment, its states shown in this way; whatever else has been under that id."""
    softness = find_softness(encoding, args.softness)
    env_id = f"encodings/{encoding}-{softness:g}-{cells.stem}-v0"
    make = partial(make_aggregated, args.env_id, cells, encoding=encoding, softness=softness)
    gym.registry.pop(env_id, None)
    gym.register(env_id, make)
    return env_id


def find_hyperparameters(args: Encodings, algorithm: str) -> dict[str, Any]:
    """RL Zoo's, with a learning rate that falls if asked for."""
    options = find_zoo_options(algorithm, args.env_id)
    rate = options.get("learning_rate")
    if args.falling_rate and isinstance(rate, float):
        options["learning_rate"] = f"lin_{rate}"
    return options


def run_encodings(args: Encodings, console: Console) -> None:
    """The table of `benchmark.py encodings`."""
    cells = grow(args)
    shown = {NOTHING: args.env_id} | {one: register(args, cells, one) for one in args.encodings}
    plans = [
        Plan(algorithm, env_id, args.total_timesteps, options=find_hyperparameters(args, algorithm))
        for algorithm in args.algorithms
        for env_id in shown.values()
    ]
    # here: processes would not know these environments
    made = carry_out(
        plans,
        args.seeds,
        args.log_dir,
        console,
        Where(n_jobs=1),
        on_run=lambda plan, run: tell_run(plan, run, console),
    )
    titles = {env_id: title for title, env_id in shown.items()}
    rows = []
    for plan, runs in zip(plans, made.runs, strict=True):
        if runs:
            entry = Entry(replace(plan, env_id=args.env_id), runs, find_threshold(args.env_id))
            best = np.mean(entry.curves("curve").max(axis=1))
            told = [f"{x:.1f}" for x in (np.mean(entry.returns), entry.returns.min(), best)]
            rows.append([plan.algorithm, titles[plan.env_id], *told, str(len(runs))])
    title = f"{args.env_id}, {args.total_timesteps:,} steps, {args.max_states} states"
    columns = ("", "shown", "last policies", "worst of them", "best on the way", "seeds")
    show_table(console, title, columns, rows, left=2)

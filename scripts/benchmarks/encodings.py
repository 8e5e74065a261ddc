"""SB3's agents on the states of a partition, in several encodings."""

import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_args

import gymnasium as gym
import numpy as np
from rich.console import Console

from benchmarks.comparison import Entry
from benchmarks.plans import Plan
from benchmarks.runs import INTERRUPTED, carry_out
from benchmarks.tasks import find_threshold
from common.arguments import Count, NonNegative, Positive, one_of
from common.tables import show_table
from common.workers import Where
from oda_rl.envs import StateAggregation
from oda_rl.envs.aggregator import Encoding, find_softness
from sb3_zoo import ZOO, find_zoo_options

NOTHING = "observations themselves"


@dataclass
class Encodings:
    """Train SB3's agents on observations, and on the states of a partition in several encodings.

    The partition grows under random actions, and then stays fixed. SB3's agents have RL Zoo's
    hyperparameters for the environment. With RL Zoo's constant learning rate, it is left to chance
    whether the last policy of DQN on CartPole balances the pole or has just lost this ability.
    """

    env_id: str = "CartPole-v1"
    """Environment."""
    algorithms: tuple[Annotated[str, one_of(ZOO)], ...] = ("PPO", "DQN")
    """Agents of SB3."""
    encodings: tuple[Encoding, ...] = get_args(Encoding)
    """Encodings of the states."""
    seeds: tuple[Count, ...] = (0, 1, 2)
    """Seeds of each agent and encoding."""
    total_timesteps: Positive = 50_000
    """Environment steps of each run."""
    max_states: Positive = 100
    """Cells of the partition."""
    grow_steps: Positive = 50_000
    """Steps under random actions in which the partition grows."""
    softness: NonNegative | None = None
    """Softness of associations, in multiples of the temperature; the wrapper's default if not given."""
    falling_rate: bool = True
    """Let constant learning rates fall linearly to 0; if off, they are RL Zoo's."""
    log_dir: Path = Path("logs/encodings")
    """Folder where every run is stored when it ends."""


def grow(args: Encodings) -> Path:
    """Return a partition's file; without one, grow it under random actions held for 1 to 10 steps."""
    path = (
        args.log_dir / f"cells-{args.env_id.replace('/', '-')}-{args.max_states}-{args.grow_steps}.npz"
    )
    if path.is_file():
        return path
    args.log_dir.mkdir(parents=True, exist_ok=True)
    try:
        env = StateAggregation(gym.make(args.env_id), max_states=args.max_states)
    except ValueError as error:
        sys.exit(f"--env-id {args.env_id} cannot be used: {error}")
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
    if not hasattr(env.partition, "codevectors_"):
        sys.exit(f"--grow-steps must be larger: after {args.grow_steps:,} steps there are no cells yet.")
    env.partition.save(path)
    return path


def make_aggregated(env_id: str, cells: Path, **options: Any) -> gym.Env:
    """Make an environment behind a fixed partition."""
    return StateAggregation(gym.make(env_id), cells, learn=False, **options)


def register(args: Encodings, cells: Path, encoding: Encoding) -> str:
    """Register the environment with this encoding, in place of an earlier one; return its id."""
    softness = find_softness(encoding, args.softness)
    env_id = f"encodings/{encoding}-{softness:g}-{cells.stem}-v0"
    make = partial(make_aggregated, args.env_id, cells, encoding=encoding, softness=softness)
    gym.registry.pop(env_id, None)
    gym.register(env_id, make)
    return env_id


def find_hyperparameters(args: Encodings, algorithm: str) -> dict[str, Any]:
    """RL Zoo's hyperparameters, with a falling learning rate if `falling_rate` is set."""
    options = find_zoo_options(algorithm, args.env_id)
    rate = options.get("learning_rate")
    if args.falling_rate and isinstance(rate, float):
        options["learning_rate"] = f"lin_{rate}"
    return options


def run_encodings(args: Encodings, console: Console) -> int:
    """Print the table of `benchmark.py encodings`; return the exit code."""
    cells = grow(args)
    shown = {NOTHING: args.env_id} | {one: register(args, cells, one) for one in args.encodings}
    plans = [
        Plan(algorithm, env_id, args.total_timesteps, options=find_hyperparameters(args, algorithm))
        for algorithm in args.algorithms
        for env_id in shown.values()
    ]
    # in this process, as others do not have these environments registered
    made = carry_out(plans, args.seeds, args.log_dir, console, Where(n_jobs=1), say_runs=True)
    titles = {env_id: title for title, env_id in shown.items()}
    rows = []
    for plan, runs in zip(plans, made.runs, strict=True):
        if runs:
            entry = Entry(replace(plan, env_id=args.env_id), runs, find_threshold(args.env_id))
            best = np.mean(entry.curves("curve").max(axis=1))
            figures = [f"{x:.1f}" for x in (np.mean(entry.returns), entry.returns.min(), best)]
            rows.append([plan.algorithm, titles[plan.env_id], *figures, str(len(runs))])
    title = f"{args.env_id}, {args.total_timesteps:,} steps, {args.max_states} states"
    columns = ("", "shown", "last policies", "worst of them", "best during training", "seeds")
    if rows:
        show_table(console, title, columns, rows, left=2)
    if made.interrupted:
        console.print(INTERRUPTED)
    return made.exit_code()

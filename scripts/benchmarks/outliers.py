"""Effect of a single impossible observation or reward on the training of an agent."""

import sys
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from rich.console import Console

from benchmarks.training import greedy_return
from common.arguments import Count, Positive
from common.measuring import interquartile_mean
from common.tables import show_table
from common.workers import Where, call_all
from oda_rl import agents

# What is replaced once (a coordinate of an observation, or a reward), and by which value.
GLITCHES = {
    "nothing": (None, 0.0),
    "observation 1e6": ("observation", 1e6),
    "observation -1e37": ("observation", -1e37),
    "reward 1e6": ("reward", 1e6),
    "reward -1e6": ("reward", -1e6),
}


@dataclass
class Outliers(Where):
    """Train agents with one impossible observation or reward, and evaluate them without.

    A single changed number makes a run take another course, as another seed does. Check whether the
    returns differ by more than those of different seeds.
    """

    env_ids: tuple[str, ...] = ("CartPole-v1", "Acrobot-v1", "MountainCar-v0", "Pendulum-v1")
    """Environments."""
    algorithm: Literal["TwoTimescaleAC", "TwoTimescaleQ"] = "TwoTimescaleAC"
    """Agent."""
    at: tuple[Positive, ...] = (1_030, 3_030, 20_030)
    """Steps of the impossible value: in the warm-up, while the codebook grows, and after that."""
    seeds: tuple[Count, ...] = tuple(range(10))
    """Seeds of each case."""
    total_timesteps: Positive = 50_000
    """Environment steps of each run."""
    episodes: Positive = 20
    """Greedy episodes of each evaluation."""


class Glitch(gym.Wrapper):
    """Replaces a value once: the last coordinate of an observation, or a reward."""

    def __init__(self, env: gym.Env, what: str | None, value: float, at: int) -> None:
        super().__init__(env)
        self.what, self.value, self.at, self.n = what, value, at, 0

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Make one step."""
        seen, reward, terminated, truncated, info = self.env.step(action)
        self.n += 1
        if self.n == self.at and self.what == "observation":
            seen = np.append(seen[:-1], np.asarray(self.value, seen.dtype))
        elif self.n == self.at and self.what == "reward":
            reward = self.value
        return seen, reward, terminated, truncated, info


def run_once(args: Outliers, env_id: str, name: str, at: int, seed: int) -> float:
    """Train once; return the mean return of the last policy."""
    env = Glitch(gym.make(env_id), *GLITCHES[name], at)
    model = getattr(agents, args.algorithm)(env=env, seed=seed).learn(args.total_timesteps)
    return greedy_return(model, env_id, args.episodes, 10_000 + seed)


def run_outliers(args: Outliers, console: Console) -> None:
    """Print the table of `benchmark.py outliers`."""
    if max(args.at) > args.total_timesteps:
        sys.exit(f"--at must be --total-timesteps {args.total_timesteps} at most, got {max(args.at)}.")
    kinds = [(name, at) for name in GLITCHES for at in (args.at if name != "nothing" else args.at[:1])]
    work = {
        (env_id, *kind, seed): partial(run_once, args, env_id, *kind, seed)
        for env_id in args.env_ids
        for kind in kinds
        for seed in args.seeds
    }
    found = call_all(args, work, console)
    rows = []
    for name, at in kinds:
        returns = [[found[env_id, name, at, s] for s in args.seeds] for env_id in args.env_ids]
        cells = [f"{interquartile_mean(one):.1f} / {min(one):.1f}" for one in returns]
        rows.append([name, "" if name == "nothing" else f"{at:,}", *cells])
    title = f"{args.algorithm}, {args.total_timesteps:,} steps, {len(args.seeds)} seeds: IQM / worst"
    show_table(console, title, ("comes once", "at step", *args.env_ids), rows, left=1)

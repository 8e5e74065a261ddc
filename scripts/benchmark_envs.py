"""Measure the environments: steps per second in a compiled loop, from Python, and of Gymnasium's own.

python scripts/benchmark_envs.py
python scripts/benchmark_envs.py --ids CartPole-v1 --steps 5000000
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import gymnasium as gym
import numba
import numpy as np
import tyro
from rich.console import Console

from common.measuring import repeated_seconds
from common.tables import show_table
from oda_rl.envs import StartBlock, find_dynamics

# Rows of the table: ours, and Gymnasium's where there is one
IDS = (
    "CartPole-v1",
    "MountainCar-v0",
    "MountainCarContinuous-v0",
    "Acrobot-v1",
    "Pendulum-v1",
    "CartPoleFriction-v0",
)


@dataclass
class Args:
    """Time the environments under random actions, resets included."""

    ids: tuple[str, ...] = IDS
    """Which, without `oda_rl/`."""
    steps: int = 3_000_000
    """Steps of the compiled loop; from Python a hundredth of it."""
    repeats: int = 3
    """The best of these is told: the machine may be busy otherwise."""


@numba.njit(cache=True, nogil=True)
def spin(step, reset, parameters, starts, actions, time_limit, state, observation, n):  # type: ignore[no-untyped-def]
    """Run the dynamics alone for `n` steps; returns the number of episodes."""
    episodes, elapsed = 0, 0
    reset(parameters, state, starts[0], observation)
    for t in range(n):
        _, terminated = step(parameters, state, actions[t % actions.shape[0]], observation)
        elapsed += 1
        if terminated or elapsed == time_limit:
            episodes += 1
            elapsed = 0
            reset(parameters, state, starts[episodes % starts.shape[0]], observation)
    return episodes


def best_rate(run: Callable[[int], object], steps: int, repeats: int) -> float:
    """Steps per second of the quickest run."""
    run(10)  # compile
    return steps / min(repeated_seconds(run, steps, repeats=repeats))


def compiled_rate(env: gym.Env, args: Args) -> float:
    """Steps per second of the dynamics in a compiled loop."""
    dynamics = find_dynamics(env)
    if dynamics is None:
        raise ValueError(f"{env} has no compiled dynamics")
    env.reset(seed=0)
    starts = StartBlock(dynamics.env, 1024).rows
    actions = np.array([dynamics.env.encode_action(env.action_space.sample()) for _ in range(1024)])
    state, observation = np.zeros(dynamics.state_size), np.zeros(dynamics.observation_size)
    arrays = (dynamics.parameters, starts, actions, dynamics.time_limit or -1, state, observation)
    run = partial(spin, dynamics.step, dynamics.reset, *arrays)
    return best_rate(run, args.steps, args.repeats)


def python_rate(env: gym.Env, args: Args) -> float:
    """Steps per second of `env.step`."""
    env.reset(seed=0)
    actions = [env.action_space.sample() for _ in range(1024)]

    def run(n: int) -> None:
        env.reset()
        for t in range(n):
            _, _, terminated, truncated, _ = env.step(actions[t % 1024])
            if terminated or truncated:
                env.reset()

    return best_rate(run, args.steps // 100, args.repeats)


def main(args: Args) -> None:
    """Print the table."""
    rows = []
    for name in args.ids:
        ours = gym.make(f"oda_rl/{name}")
        ours.action_space.seed(0)
        rates = [compiled_rate(ours, args), python_rate(ours, args)]
        if name in gym.registry:
            rates.append(python_rate(gym.make(name), args))
        rows.append([name, *(f"{rate:,.0f}" for rate in rates), *["-"] * (3 - len(rates))])
    columns = ("environment", "compiled loop", "oda_rl from Python", "Gymnasium")
    show_table(Console(), "Steps per second", columns, rows)


if __name__ == "__main__":
    main(tyro.cli(Args))

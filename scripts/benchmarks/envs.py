"""Speed of the environments alone, in a compiled loop and from Python."""

import time
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import gymnasium as gym
import numba
import numpy as np
from rich.console import Console

import oda_rl.envs  # noqa: F401  (registers the compiled twins)
from common.arguments import Positive, whole
from common.measuring import repeated_seconds
from common.tables import show_table
from oda_rl.envs import StartBlock, find_dynamics

GYMNASIUM = "CartPole-v1"
# Rows of the table: our environments, with Gymnasium's of the same id if there is one
IDS = (
    "CartPole-v1",
    "MountainCar-v0",
    "MountainCarContinuous-v0",
    "Acrobot-v1",
    "Pendulum-v1",
    "CartPoleFriction-v0",
)


@dataclass
class Envs:
    """Time the environments under random actions, resets included."""

    ids: tuple[str, ...] = IDS
    """Ids of environments, without `oda_rl/`."""
    steps: Annotated[int, whole(100)] = 3_000_000
    """Steps of the compiled loop; a hundredth of these from Python."""
    repeats: Positive = 3
    """Repetitions, of which the fastest counts, as the machine may be busy."""


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


def compiled_rate(env: gym.Env, args: Envs) -> float:
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
    run(10)  # compile
    return args.steps / min(repeated_seconds(run, args.steps, repeats=args.repeats))


def run_envs(args: Envs, console: Console) -> None:
    """Print the table of `benchmark.py envs`."""
    rows = []
    for name in args.ids:
        ours = gym.make(f"oda_rl/{name}")
        ours.action_space.seed(0)
        rates = [compiled_rate(ours, args)]
        for env in (ours, gym.make(name)) if name in gym.registry else (ours,):
            rates.append(max(environment_speed(args.steps // 100, env) for _ in range(args.repeats)))
        rows.append([name, *(f"{rate:,.0f}" for rate in rates), *["-"] * (3 - len(rates))])
    columns = ("environment", "compiled loop", "oda_rl from Python", "Gymnasium")
    show_table(console, "Steps per second", columns, rows)


def environment_speed(steps: int, environment: gym.Env | None = None) -> float:
    """Steps per second of an environment (by default Gymnasium's CartPole) under random actions."""
    environment = environment or gym.make(GYMNASIUM)
    environment.reset(seed=0)
    environment.action_space.seed(0)
    actions = [environment.action_space.sample() for _ in range(1024)]
    begun = time.perf_counter()
    for t in range(steps):
        _, _, terminated, truncated, _ = environment.step(actions[t % 1024])
        if terminated or truncated:
            environment.reset()
    return steps / (time.perf_counter() - begun)

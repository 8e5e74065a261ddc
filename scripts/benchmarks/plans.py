"""What is trained: the tasks, the algorithms with their options, and what one set of runs is."""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import stable_baselines3
from stable_baselines3.common.base_class import BaseAlgorithm

import oda_rl
import oda_rl.agents
import oda_rl.envs
from oda_rl.agents.baselines import preset
from sb3_zoo import ZOO, find_zoo_options, make_zoo_agent

Algorithm = Literal[
    "TwoTimescaleQ",
    "TwoTimescaleAC",
    "UniformGridQ",
    "SOMQ",
    "TileCodingSarsa",
    "FourierSarsa",
    "KernelQ",
    "PPO",
    "A2C",
    "DQN",
    "QRDQN",
]
OURS, ACTOR = "TwoTimescaleQ", "TwoTimescaleAC"
SB3 = tuple(ZOO)


# Options of ours for environments that want others than the defaults, chosen by short searches on seeds
# 100 to 102. LunarLander-v3, 600,000 steps, seeds 0 to 4, 100 greedy episodes of the last policy: IQM
# 200.3, worst seed 162.2; 250 cells, 11,017 numbers. RL Zoo: DQN 154 after 100,000 steps, PPO 242 after
# 1,000,000.
PRESETS: dict[str, dict[str, Any]] = {
    "LunarLander-v3": {
        "max_cells": 250,
        "growth_cells": 100,
        # The largest reward, 100 for landing, comes once.
        "optimism": 0.0,
        "trace_decay": 0.95,
        # Who does not try held actions learns to hover, not to land.
        "hold": 6,
        "exploration_initial_eps": 0.3,
        "exploration_final_eps": 0.03,
        "exploration_fraction": 0.9,
        # Far smaller than the bounds of the space
        "observation_scale": (0.6, 0.8, 0.8, 0.8, 0.6, 0.8, 1.5, 1.5),
    },
}


# -- tasks -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """One task: how long it may take, and which return counts."""

    env_id: str
    """Environment; with compiled dynamics, equal to Gymnasium's in every number."""
    steps: int
    """Environment steps of a run."""
    reach: float
    """Return to be reached ..."""
    reach_by: Literal["IQM", "every seed"]
    """... by the interquartile mean over seeds, or by every one of them."""
    aim: float
    """Return of the best peer."""
    peer: str
    """Who that is."""
    cells: int
    """Cells at most."""

    @property
    def name(self) -> str:
        """The id as Gymnasium has it."""
        return short_name(self.env_id)


TASKS = (
    Task("oda_rl/CartPole-v1", 200_000, 475, "every seed", 500, "PPO, Fourier", 150),
    Task("oda_rl/CartPoleFriction-v0", 300_000, 990, "IQM", 1000, "PPO, Fourier", 150),
    Task("oda_rl/Acrobot-v1", 500_000, -95, "IQM", -71, "PPO; tile coding -83", 250),
    Task("oda_rl/MountainCar-v0", 500_000, -110, "IQM", -100, "tile coding", 250),
    Task("oda_rl/Pendulum-v1", 500_000, -200, "IQM", -157, "SAC", 400),
    Task("oda_rl/MountainCarContinuous-v0", 500_000, 90, "IQM", 96.7, "ARS", 400),
)
DEFAULT_STEPS = 200_000


def short_name(env_id: str) -> str:
    """An id without the prefix of the compiled twins."""
    return env_id.removeprefix("oda_rl/")


def find_task(env_id: str) -> Task | None:
    """The task of an environment or of its compiled twin, if it is one of the table's."""
    return next((task for task in TASKS if task.name == short_name(env_id)), None)


def find_threshold(env_id: str) -> float:
    """The return that counts as solved: Gymnasium's, else the one to be reached, else infinity."""
    assert oda_rl.envs  # registers the compiled twins
    # "module:id" is an id once the module is imported
    threshold = gym.spec(env_id.rpartition(":")[2]).reward_threshold
    if threshold is not None:
        return threshold
    task = find_task(env_id)
    return task.reach if task else np.inf


# -- plans -------------------------------------------------------------------------------------------


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
    """Keyword arguments of the agent; for SB3's as RL Zoo writes them."""

    def folder(self, log_dir: Path) -> Path:
        """Where its runs are kept: a folder of its own for each version of the code."""
        told = json.dumps([asdict(self), code_version(self.algorithm)], sort_keys=True, default=list)
        digest = hashlib.sha1(told.encode()).hexdigest()[:8]
        return log_dir / short_name(self.env_id) / f"{self.algorithm}-{digest}"


def code_version(algorithm: str) -> str:
    """The version of SB3, or a digest of this package's source: other code, other runs."""
    if algorithm in SB3:
        return stable_baselines3.__version__
    digest = hashlib.sha1()
    for package in (oda_rl, oda_rl.agents, oda_rl.envs):
        for path in sorted(Path(str(package.__file__)).parent.rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


def find_options(algorithm: str, env_id: str) -> dict[str, Any]:
    """What an algorithm is best given for an environment: its preset, or RL Zoo's hyperparameters."""
    if algorithm in SB3:
        return find_zoo_options(algorithm, env_id)
    if algorithm == OURS:
        return dict(PRESETS.get(short_name(env_id), {}))
    if algorithm == ACTOR:  # it has none, anywhere
        return {}
    return preset(algorithm, env_id)


def make_model(plan: Plan, seed: int) -> BaseAlgorithm:
    """The agent to be trained; ValueError if there is none for the plan."""
    if plan.algorithm in SB3:
        return make_zoo_agent(plan.algorithm, plan.env_id, seed, plan.options)
    try:
        kind = getattr(oda_rl.agents, plan.algorithm)
    except AttributeError:
        raise ValueError(f"oda_rl.agents has no {plan.algorithm}.") from None
    # From an id SB3 makes an environment that renders, and some (LunarLander) are slowed down by that.
    return kind(env=gym.make(plan.env_id), seed=seed, **plan.options)


def refuse(plan: Plan) -> str | None:
    """Why the plan cannot be run, if it cannot."""
    try:
        model = make_model(plan, 0)
    except (ValueError, ImportError, gym.error.Error) as error:
        return str(error).strip().splitlines()[0]
    environment = model.get_env()
    if environment is not None:
        environment.close()
    return None

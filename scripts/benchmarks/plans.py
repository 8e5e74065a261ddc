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
from oda_rl.agents.models import default_agent
from sb3_zoo import ZOO, find_zoo_options, make_zoo_agent

Algorithm = Literal[
    "TwoTimescaleAC",
    "TwoTimescaleQ",
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
OURS = ("TwoTimescaleAC", "TwoTimescaleQ")
SB3 = tuple(ZOO)


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
    return {} if algorithm in OURS else preset(algorithm, env_id)


def find_ours(env_id: str) -> str:
    """Which of our agents is the default for an environment; the first where there is no such one."""
    try:
        return default_agent(env_id).__name__
    except (gym.error.Error, ModuleNotFoundError):
        return OURS[0]


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

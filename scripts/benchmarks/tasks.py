"""The tasks that agents are measured on, and what is to be reached there."""

from dataclasses import dataclass
from typing import Literal

import gymnasium as gym
import numpy as np

import oda_rl.envs


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

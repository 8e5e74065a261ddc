"""What is trained: the algorithms with their options, and what one set of runs is."""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import stable_baselines3

import oda_rl
import oda_rl.agents
import oda_rl.envs
from benchmarks.tasks import short_name
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
    "SAC",
]
OURS = ("TwoTimescaleAC", "TwoTimescaleQ")
SB3 = tuple(ZOO)
RANDOM = "random"
CURVE_EPISODES = 20

# Of the source, once it has been read
_DIGEST: list[str] = []


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
    """Steps between evaluations on the way; 0 for none."""
    eval_episodes: int = 100
    """Greedy episodes at the end."""
    options: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments of the agent; for SB3's as RL Zoo writes them."""
    curve_episodes: int = CURVE_EPISODES
    """Greedy episodes of each evaluation on the way."""

    def folder(self, log_dir: Path) -> Path:
        """Where its runs are kept: a folder of its own for each version of the code."""
        told = json.dumps([asdict(self), code_version(self.algorithm)], sort_keys=True, default=list)
        digest = hashlib.sha1(told.encode()).hexdigest()[:8]
        return log_dir / short_name(self.env_id) / f"{self.algorithm}-{digest}"


def code_version(algorithm: str) -> str:
    """The version of SB3, or a digest of this package's source: other code, other runs."""
    if algorithm in SB3 or algorithm == RANDOM:
        return stable_baselines3.__version__
    # Not functools.cache: what that makes cannot be sent to the workers of a cluster.
    if not _DIGEST:
        digest = hashlib.sha1()
        for package in (oda_rl, oda_rl.agents, oda_rl.envs):
            for path in sorted(Path(str(package.__file__)).parent.rglob("*.py")):
                digest.update(path.read_bytes())
        _DIGEST.append(digest.hexdigest()[:8])
    return _DIGEST[0]


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


class RandomAgent:
    """Acts at random, and learns nothing: what scores of 0 are made of."""

    n_cells = n_parameters = 0

    def __init__(self, env_id: str, seed: int) -> None:
        self.env = gym.make(env_id)
        self.env.action_space.seed(seed)

    def learn(self, *_: Any, **__: Any) -> None:
        """Nothing to learn."""

    def predict(self, observations: Any, state: Any = None, *_: Any, **__: Any) -> tuple[Any, Any]:
        """A random action for each of several observations."""
        part = observations
        while isinstance(part, dict | tuple):
            part = part[next(iter(part)) if isinstance(part, dict) else 0]
        return np.array([self.env.action_space.sample() for _ in np.atleast_1d(part)]), state

    def get_env(self) -> gym.Env:
        """Its environment."""
        return self.env

    def get_vec_normalize_env(self) -> None:
        """It has no use for one."""

    def save(self, path: Path) -> None:
        """Nothing to keep."""


def make_model(plan: Plan, seed: int) -> Any:
    """The agent to be trained; ValueError if there is none for the plan."""
    if plan.algorithm == RANDOM:
        return RandomAgent(plan.env_id, seed)
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

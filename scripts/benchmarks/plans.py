"""Plans of training runs: algorithms with their options, environments and steps."""

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
from common.evaluation import reason_of
from oda_rl.agents.baselines import preset
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
DEFAULT = "TwoTimescaleAC"
OURS = (DEFAULT, "TwoTimescaleQ")
SB3 = tuple(ZOO)
RANDOM = "random"
CURVE_EPISODES = 20

# Digest of the source code, once it has been computed
_DIGEST: list[str] = []


@dataclass(frozen=True)
class Plan:
    """All that identifies a set of runs, except for the seed and the version of the code."""

    algorithm: str
    """Name of a class of `oda_rl.agents`, or of an SB3 algorithm in `sb3_zoo`."""
    env_id: str
    """Environment to train on."""
    total_timesteps: int
    """Environment steps of each run."""
    eval_freq: int = 5_000
    """Steps between evaluations during training; 0 for none."""
    eval_episodes: int = 100
    """Greedy episodes at the end."""
    options: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments of the agent; for SB3's agents in the format of RL Zoo."""
    curve_episodes: int = CURVE_EPISODES
    """Greedy episodes of each evaluation during training."""

    def folder(self, log_dir: Path) -> Path:
        """Folder where its runs are stored; each version of the code has its own."""
        text = json.dumps([asdict(self), code_version(self.algorithm)], sort_keys=True, default=list)
        digest = hashlib.sha1(text.encode()).hexdigest()[:8]
        return log_dir / short_name(self.env_id) / f"{self.algorithm}-{digest}"


def code_version(algorithm: str) -> str:
    """The version of SB3, or a digest of this package's source code."""
    if algorithm in SB3 or algorithm == RANDOM:
        return stable_baselines3.__version__
    # Not functools.cache: cached functions cannot be sent to the workers of a cluster.
    if not _DIGEST:
        digest = hashlib.sha1()
        for package in (oda_rl, oda_rl.agents, oda_rl.envs):
            for path in sorted(Path(str(package.__file__)).parent.rglob("*.py")):
                digest.update(path.read_bytes())
        _DIGEST.append(digest.hexdigest()[:8])
    return _DIGEST[0]


def find_options(algorithm: str, env_id: str) -> dict[str, Any]:
    """Options of an algorithm for an environment: preset or RL Zoo's hyperparameters; none for ours."""
    if algorithm in SB3:
        return find_zoo_options(algorithm, env_id)
    return {} if algorithm in OURS else preset(algorithm, env_id)


class RandomAgent:
    """Acts at random and learns nothing; its returns define a score of 0."""

    n_cells = n_parameters = 0

    def __init__(self, env_id: str, seed: int) -> None:
        self.env = gym.make(env_id)
        self.env.action_space.seed(seed)

    def learn(self, *_: Any, **__: Any) -> None:
        """Do nothing."""

    def predict(self, observations: Any, state: Any = None, *_: Any, **__: Any) -> tuple[Any, Any]:
        """Return a random action for each of several observations."""
        part = observations
        while isinstance(part, dict | tuple):
            part = part[next(iter(part)) if isinstance(part, dict) else 0]
        return np.array([self.env.action_space.sample() for _ in np.atleast_1d(part)]), state

    def get_env(self) -> gym.Env:
        """Its environment."""
        return self.env

    def get_vec_normalize_env(self) -> None:
        """Return None, as observations are not normalised."""

    def save(self, path: Path) -> None:
        """Do nothing: there is nothing to store."""


def make_model(plan: Plan, seed: int) -> Any:
    """Make the agent of a plan; raises a ValueError if there is none."""
    if plan.algorithm == RANDOM:
        return RandomAgent(plan.env_id, seed)
    if plan.algorithm in SB3:
        return make_zoo_agent(plan.algorithm, plan.env_id, seed, plan.options)
    try:
        kind = getattr(oda_rl.agents, plan.algorithm)
    except AttributeError:
        raise ValueError(f"oda_rl.agents has no {plan.algorithm}.") from None
    # From an id SB3 makes an environment that renders, which slows down some of them (LunarLander).
    return kind(env=gym.make(plan.env_id), seed=seed, **plan.options)


def refuse(plan: Plan) -> str | None:
    """Return why the plan cannot be run, or None if it can."""
    try:
        model = make_model(plan, 0)
    except (ValueError, ImportError, gym.error.Error) as error:
        return reason_of(error).strip().splitlines()[0]
    environment = model.get_env()
    if environment is not None:
        environment.close()
    return None

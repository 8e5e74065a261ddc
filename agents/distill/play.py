"""Episodes of a policy, to learn from and to judge it by."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecEnv

from oda_rl.agents.distill.fitting import Records
from oda_rl.agents.distill.teacher import Teacher, balanced
from oda_rl.agents.sb3.evaluation import make_evaluation_envs

Array = NDArray[np.float64]
# The episodes that tables are judged by are none of those that they are fitted to.
JUDGED_FROM = 500_000


class Recorder:
    """Notes what a teacher would do where policies go.

    Parameters
    ----------
    teacher : Teacher
        Asked in every state.
    env_id : str
        The environment.
    n_envs, seed : int
        Copies of it, and the seed of the first.
    """

    def __init__(self, teacher: Teacher, env_id: str, n_envs: int, seed: int) -> None:
        self.teacher, self.n_envs = teacher, n_envs
        self.envs = make_evaluation_envs(env_id, n_envs, seed)
        self.parts: list[tuple[Array, NDArray[Any], Array]] = []

    def play(self, act: Callable[[Array], NDArray[Any]] | None, n_steps: int) -> float:
        """Note `n_steps` or a few more; returns the share of decisions that are the teacher's.

        `act` gives actions as the environment takes them, of rows (n, d); by default the teacher's.
        """
        codec, actions = self.teacher.observations, self.teacher.actions
        seen: Any = self.envs.reset()
        same = []
        for _ in range(-(-n_steps // self.n_envs)):
            rows = codec.encode_many(seen, self.n_envs).astype(np.float64)
            labels, weights = self.teacher.label(seen, self.n_envs)
            self.parts.append((rows, labels, weights))
            wanted = actions.decode_many(labels)
            taken = wanted if act is None else act(rows)
            same.append(np.isclose(taken, wanted).reshape(self.n_envs, -1).all(axis=1).mean())
            seen, *_ = self.envs.step(taken)
        return float(np.mean(same))

    @property
    def records(self) -> Records:
        """All that has been noted, with weights of a mean of about 1."""
        states, labels, weights = map(np.concatenate, zip(*self.parts, strict=True))
        return Records(states, labels, balanced(weights))


class Judge:
    """The mean return of policies over the same episodes.

    Parameters
    ----------
    env_id : str
        The environment.
    n_episodes, seed : int
        How many, each in an environment of its own, and the seed of the first.
    """

    def __init__(self, env_id: str, n_episodes: int, seed: int) -> None:
        self.envs: VecEnv = make_evaluation_envs(env_id, n_episodes, seed + JUDGED_FROM)
        self.seed = seed + JUDGED_FROM

    def __call__(self, policy: Any) -> float:
        """The mean return of an agent, or of anything with SB3's `predict`."""
        self.envs.seed(self.seed)
        self.envs.reset()
        found, _ = evaluate_policy(policy, self.envs, self.envs.num_envs, warn=False)
        return float(found)  # type: ignore[arg-type]

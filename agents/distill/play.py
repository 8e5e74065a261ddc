"""Episodes of a policy, to learn from and to judge it by."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.utils.seeding import np_random
from numpy.typing import NDArray
from stable_baselines3.common.evaluation import evaluate_policy

from oda_rl.agents.distill.compiled_play import play_table
from oda_rl.agents.distill.fitting import Records
from oda_rl.agents.distill.teacher import Teacher, balanced
from oda_rl.agents.sb3.distilled import DistilledPolicy
from oda_rl.agents.sb3.evaluation import LONGEST, make_evaluation_envs
from oda_rl.envs import find_dynamics, find_twin

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
    """The mean return of policies over the same episodes; of tables in compiled code, if possible.

    Parameters
    ----------
    env_id : str
        The environment.
    n_episodes, seed : int
        How many, each in an environment of its own, and the seed of the first.

    Attributes
    ----------
    seed : int
        Other episodes follow when it is set.
    n_steps : int
        Steps that were made so far.
    """

    def __init__(self, env_id: str, n_episodes: int, seed: int) -> None:
        self.env_id, self.n_episodes, self.seed = env_id, n_episodes, seed + JUDGED_FROM
        self.n_steps = 0
        twin = find_twin(env_id)
        env = None if twin is None else gym.make(twin)
        plain = env is not None and isinstance(env.observation_space, spaces.Box)
        self._dynamics = find_dynamics(env) if env is not None and plain else None
        self._envs: Any = None
        self._starts: tuple[int, Array] = (-1, np.empty((0, 0)))

    def __call__(self, policy: Any) -> float:
        """The mean return of an agent, or of anything with SB3's `predict`."""
        if isinstance(policy, DistilledPolicy) and self._dynamics is not None:
            returns, steps = self._play_table(policy), 0
        else:
            self._envs = self._envs or make_evaluation_envs(self.env_id, self.n_episodes, self.seed)
            self._envs.seed(self.seed)
            found: Any = evaluate_policy(
                policy, self._envs, self.n_episodes, return_episode_rewards=True, warn=False
            )
            returns, steps = np.array(found[0]), sum(found[1])
        self.n_steps += steps
        return float(returns.mean())

    def _play_table(self, policy: DistilledPolicy) -> Array:
        dynamics: Any = self._dynamics
        learner, program = policy.learner, policy.learner.program
        size = program.bounds.shape[1]
        returns = np.empty(self.n_episodes)
        self.n_steps += play_table(
            dynamics.step,
            dynamics.reset,
            dynamics.parameters,
            np.zeros(dynamics.state_size),
            np.zeros(dynamics.observation_size),
            self._drawn_starts(),
            dynamics.time_limit or LONGEST,
            program.codevectors,
            1.0 / program.scale,
            program.values,
            program.slopes,
            float(program.temperature),
            program.reach,
            np.empty((0, size)) if program.actions is None else policy.actions.commands[learner.known],
            program.bounds,
            returns,
        )
        return returns

    def _drawn_starts(self) -> Array:
        """Those of the environments of the other way."""
        if self._starts[0] != self.seed:
            dynamics: Any = self._dynamics
            seeds = range(self.seed, self.seed + self.n_episodes)
            rows = [dynamics.env.draw_starts(np_random(seed)[0], 1)[0] for seed in seeds]
            self._starts = self.seed, np.array(rows)
        return self._starts[1]

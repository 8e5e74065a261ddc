"""Play episodes, to record a teacher's actions and to score policies."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.utils.seeding import np_random
from numpy.typing import NDArray
from stable_baselines3.common.evaluation import evaluate_policy

from oda_rl._interrupts import call_compiled
from oda_rl._types import Array
from oda_rl.agents.distill.compiled_play import Cells, play_table
from oda_rl.agents.distill.fitting import Records
from oda_rl.agents.distill.policy import DistilledPolicy
from oda_rl.agents.distill.teacher import Teacher, balanced
from oda_rl.agents.sb3.evaluation import LONGEST, make_evaluation_envs
from oda_rl.envs import find_dynamics, find_twin

# Share of random steps while the states of a `StatesJudge` are recorded
RANDOM_SHARE = 0.1
# Largest number of environments without compiled dynamics that share the episodes of a `Judge`
SHARED = 10
# Offset of the seeds for scoring, so that tables are scored by other episodes than they are fitted to.
JUDGED_FROM = 500_000


class Recorder:
    """Records a teacher's actions in the states that policies visit.

    Parameters
    ----------
    teacher : Teacher
        Labels every state.
    env_id : str
        The environment.
    n_envs, seed : int
        Copies of the environment, and the seed of the first.
    """

    def __init__(self, teacher: Teacher, env_id: str, n_envs: int, seed: int) -> None:
        self.teacher, self.n_envs = teacher, n_envs
        self.envs = make_evaluation_envs(env_id, n_envs, seed)
        self.envs.action_space.seed(seed)
        self._rng = np.random.default_rng(seed)
        self.parts: list[tuple[Array, NDArray[Any], Array, Array | None]] = []

    def play(
        self, act: Callable[[Array], NDArray[Any]] | None, n_steps: int, random_share: float = 0.0
    ) -> float:
        """Record `n_steps` or a few more; returns the share of actions taken that equal the teacher's.

        `act` maps rows (n, d) to actions as the environment takes them; if None, the teacher acts. In
        each step, with probability `random_share`, all environments take random actions instead.
        """
        codec, actions = self.teacher.observations, self.teacher.actions
        seen: Any = self.envs.reset()
        same = []
        for _ in range(-(-n_steps // self.n_envs)):
            # `read`, as SB3 puts the channels of images first, which `distill` does not
            rows = codec.read(seen)[0].astype(np.float64)
            labels, weights, values = self.teacher.label(seen, self.n_envs)
            self.parts.append((rows, labels, weights, values))
            wanted = actions.decode_many(labels)
            taken = wanted if act is None else act(rows)
            if self._rng.random() < random_share:
                space = self.envs.action_space
                taken = np.array([space.sample() for _ in range(self.n_envs)])
            same.append(np.isclose(taken, wanted).reshape(self.n_envs, -1).all(axis=1).mean())
            seen, *_ = self.envs.step(taken)
        return float(np.mean(same))

    def close(self) -> None:
        """Close the environments."""
        self.envs.close()

    @property
    def records(self) -> Records:
        """All records so far, with weights that are scaled to a mean of about 1."""
        states, labels, weights, _ = zip(*self.parts, strict=True)
        weight = balanced(np.concatenate(weights))
        return Records(np.concatenate(states), np.concatenate(labels), weight)


class StatesJudge(Recorder):
    """Scores tables by the teacher's own Q values in recorded states.

    The states are those that the teacher visits when one step in ten is random. The score is 1 for the
    teacher's actions, and 0 for the worst actions everywhere. If the teacher has no values, it is the
    share of equal actions. For continuous actions it is the part of their variance that is explained.

    Parameters
    ----------
    teacher, env_id, n_envs : Teacher, str, int
        As for `Recorder`.
    seed, n_steps : int
        Seed of the first environment, and number of states, or a few more.
    """

    def __init__(self, teacher: Teacher, env_id: str, n_envs: int, seed: int, n_steps: int) -> None:
        super().__init__(teacher, env_id, n_envs, seed + JUDGED_FROM)
        self.play(None, n_steps, RANDOM_SHARE)
        self.states, labels, _ = self.records
        actions = teacher.actions
        if actions.is_continuous:
            values = np.clip(labels, *actions.ends)  # as the environment takes them
        else:
            numbered = np.eye(actions.n_actions)
            values = np.concatenate(
                [numbered[own] if values is None else values for _, own, _, values in self.parts]
            )
        self.labels, self.values = labels, values.astype(np.float64)

    def __call__(self, policy: Any) -> float:
        """The score of a `DistilledPolicy`, at most 1; 1 for the teacher itself."""
        if policy is self.teacher:
            return 1.0
        chosen = policy.learner.greedy(self.states)
        if self.teacher.actions.is_continuous:
            lost, most = (self.values - chosen) ** 2, (self.values - self.values.mean(axis=0)) ** 2
        else:
            at = np.arange(len(chosen))
            best = self.values[at, self.labels]  # the teacher may not take the action it values most
            lost = np.maximum(best - self.values[at, chosen], 0.0)
            most = best - self.values.min(axis=1)
        return float(1.0 - lost.sum() / max(most.sum(), 1e-300))


class Judge:
    """Mean return of policies over the same episodes; tables play in compiled code if possible.

    Parameters
    ----------
    env_id : str
        The environment.
    n_episodes, seed : int
        Number of episodes, and seed of the first; with compiled dynamics each has its own environment.

    Attributes
    ----------
    seed : int
        Seed of the first episode; set it to play other episodes.
    n_steps : int
        Environment steps so far.
    """

    def __init__(self, env_id: str, n_episodes: int, seed: int) -> None:
        self.env_id, self.n_episodes, self.seed = env_id, n_episodes, seed + JUDGED_FROM
        self.n_steps = 0
        twin = find_twin(env_id)
        # If steps are slow, a few environments share the episodes: none has to wait for the longest one.
        self._n_envs = n_episodes if twin is not None else min(n_episodes, SHARED)
        self._twin = None if twin is None else gym.make(twin)
        plain = self._twin is not None and isinstance(self._twin.observation_space, spaces.Box)
        self._dynamics = find_dynamics(self._twin) if self._twin is not None and plain else None
        self._envs: Any = None
        self._starts: tuple[int, Array] = (-1, np.empty((0, 0)))

    def __call__(self, policy: Any) -> float:
        """The mean return of an agent, or of anything with SB3's `predict`."""
        if isinstance(policy, DistilledPolicy) and self._dynamics is not None:
            returns, steps = self._play_table(policy), 0
        else:
            self._envs = self._envs or make_evaluation_envs(self.env_id, self._n_envs, self.seed)
            self._envs.seed(self.seed)
            found: Any = evaluate_policy(
                policy, self._envs, self.n_episodes, return_episode_rewards=True, warn=False
            )
            returns, steps = np.array(found[0]), sum(found[1])
        self.n_steps += steps
        return float(returns.mean())

    def close(self) -> None:
        """Close the environments."""
        for env in (self._twin, self._envs):
            if env is not None:
                env.close()

    def _play_table(self, policy: DistilledPolicy) -> Array:
        dynamics: Any = self._dynamics
        learner, program = policy.learner, policy.learner.program
        size = program.bounds.shape[1]
        cells = Cells(
            program.codevectors,
            1.0 / program.scale,
            program.values,
            program.slopes,
            float(program.temperature),
            program.reach,
            np.empty((0, size)) if program.actions is None else policy.actions.commands[learner.known],
            program.bounds,
        )
        returns = np.empty(self.n_episodes)
        self.n_steps += call_compiled(
            play_table,
            dynamics.step,
            dynamics.reset,
            dynamics.parameters,
            np.zeros(dynamics.state_size),
            np.zeros(dynamics.observation_size),
            self._drawn_starts(),
            dynamics.time_limit or LONGEST,
            cells,
            returns,
        )
        return returns

    def _drawn_starts(self) -> Array:
        """The starts (n_episodes, start_size); the evaluation environments would begin with the same."""
        if self._starts[0] != self.seed:
            dynamics: Any = self._dynamics
            seeds = range(self.seed, self.seed + self.n_episodes)
            rows = [dynamics.env.draw_starts(np_random(seed)[0], 1)[0] for seed in seeds]
            self._starts = self.seed, np.array(rows)
        return self._starts[1]

"""The learner of kernel Q-learning: a kernel machine with an output for each action."""

from copy import deepcopy
from typing import Any, NamedTuple, Self

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from oda_rl import _schema
from oda_rl._schema import Schema, Sizes, expect
from oda_rl._types import Array
from oda_rl.agents.action_choice import begin_random, choose_numbered
from oda_rl.agents.actions import ActionCodec
from oda_rl.agents.learner import BAD_OBSERVATION, BAD_REWARD, DIVERGED, Learner
from oda_rl.agents.linear_q.config import KernelQConfig
from oda_rl.agents.observation_scale import ObservationRange
from oda_rl.agents.schema import range_schema, shared_schema
from oda_rl.rkhs.functional_sgd import FIRST_STATE, LOSS, SQUARED
from oda_rl.rkhs.hyperparameters import Rules
from oda_rl.rkhs.machine import KernelMachine, machine_schema

# Targets beyond this count as divergence; uniform random numbers for one choice of an action.
LARGEST, N_DRAWS = 1e9, 4
# Number of mini-batches over which the logged error is averaged.
RECENT = 20


class Memory(NamedTuple):
    """Arrays with an entry for each environment: its last action, and its last observation, if `known`.

    The action is `held` for so many more steps, and is `exploratory` if it is not greedy. `last` is in
    scaled units.
    """

    action: NDArray[np.int64]
    held: NDArray[np.int64]
    exploratory: NDArray[np.bool_]
    last: Array
    known: NDArray[np.bool_]


def _rules(config: KernelQConfig) -> Rules:
    """The settings of the kernel machine."""
    return Rules(
        kind=SQUARED,
        bandwidth=config.bandwidth,
        stepsize=config.stepsize,
        regularization=config.regularization,
        batch_size=config.batch_size,
        parsimony=config.parsimony,
        stepsize_halving=config.stepsize_halving,
        adapt=("bandwidth",) if config.adapt_bandwidth else (),
        fitness="loss",
        ratio=config.ratio,
        reach=config.reach,
        move_probability=config.move_probability,
        slowing=config.slowing,
        max_points=config.max_points,
    )


class KernelLearner(Learner):
    """Q(x, a) as the outputs of one kernel machine over observations in [0, 1].

    Parameters are as for `LinearLearner`. `machine` computes Q(x, a) from observations that are scaled
    by `range`. `n_learned` counts the steps learned from, including those of the current mini-batch.
    """

    remedy = "lower stepsize, or raise regularization"
    has_loop = False
    n_learned = 0

    def __init__(
        self,
        n_features: int,
        actions: ActionCodec,
        n_envs: int,
        low: NDArray[Any],
        high: NDArray[Any],
        config: KernelQConfig,
        seed: int | None = None,
    ) -> None:
        self.range = ObservationRange(
            low, high, config.warmup_steps, config.observation_low, config.observation_high
        )
        super().__init__(actions, self.range, config.warmup_hold, config, N_DRAWS, seed)
        (moving_rng,) = self.rng.spawn(1)
        self.machine = KernelMachine(n_features, self.n_actions, _rules(config), moving_rng)
        self._n_envs = n_envs
        self.memory = self._new_memory()
        # The current mini-batch: observation, action, reward, next observation, whether terminated.
        self.waiting = np.zeros((config.batch_size, 2 * n_features + 3))
        self.n_waiting = 0

    def _new_memory(self) -> Memory:
        n_envs = self._n_envs
        return Memory(
            np.zeros(n_envs, dtype=np.int64),
            np.zeros(n_envs, dtype=np.int64),
            np.zeros(n_envs, dtype=np.bool_),
            np.zeros((n_envs, len(self.range.low))),
            np.zeros(n_envs, dtype=np.bool_),
        )

    @classmethod
    def smallest(cls, seed: int = 0, joint: bool = False, table: bool = False) -> Self:
        """A learner of one coordinate and two actions, to compile its code in advance."""
        config = KernelQConfig(warmup_steps=2, batch_size=2)
        return cls(1, ActionCodec(spaces.Discrete(2)), 1, np.full(1, -1.0), np.ones(1), config, seed)

    # -- what has been learned -------------------------------------------------------------------

    @property
    def n_cells(self) -> int:
        """Number of points of the dictionary."""
        return self.machine.n_points

    @property
    def n_parameters(self) -> int:
        """Numbers stored to act: points, their weights, ranges, and the bandwidth."""
        n_features = len(self.range.low)
        return self.n_cells * (n_features + self.n_actions) + 2 * n_features + 1

    @property
    def dictionary(self) -> Array:
        """The points, in the units of the observations, of shape (n_cells, n_features)."""
        return self.range.restore(self.machine.points)

    @property
    def bandwidth_history(self) -> Array:
        """The bandwidth after each mini-batch, in parts of the ranges, of shape (n_batches,)."""
        return self.machine.records[:, FIRST_STATE]

    def figures(self) -> dict[str, float]:
        """The figures that an SB3 algorithm logs."""
        records = self.machine.records[-RECENT:]
        return {
            "rollout/exploration_rate": self.exploration_rate,
            "train/loss": float(records[:, LOSS].mean()) if len(records) else 0.0,
            "train/n_updates": len(self.machine.records),
            "kernel/bandwidth": self.machine.value_of("bandwidth"),
            "kernel/n_points": self.n_cells,
        }

    # -- learning --------------------------------------------------------------------------------

    def _end_warm_up(self) -> None:
        self.range.freeze()
        self.memory.held[:] = 0

    def _advance(
        self,
        env: int,
        observation: NDArray[Any],
        reward: float,
        terminated: bool,
        ended: bool,
        first: bool,
    ) -> int:
        memory = self.memory
        if not np.isfinite(reward):
            return BAD_REWARD
        if not np.isfinite(observation).all():
            return BAD_OBSERVATION
        point = self.range.scaled(observation[None])
        if first:
            memory.held[env] = 0
        elif memory.known[env]:
            bounded = self._bound_reward(reward)
            row = (*memory.last[env], memory.action[env], bounded, *point[0], terminated)
            self.waiting[self.n_waiting] = row
            self.n_waiting += 1
            self.n_learned += 1
            if self.n_waiting == len(self.waiting) and not self._learn():
                return DIVERGED
        memory.last[env], memory.known[env] = point[0], not ended
        if ended:
            return 0
        draws, hold = self.draws.draw(), self.config.hold
        likely = begin_random(self.exploration_rate, hold)
        choose_numbered(env, draws, bool(draws[0] < likely), hold, self.machine(point)[0], memory)
        return self.next_action(env)

    def _learn(self) -> bool:
        """Learn from a mini-batch: only the outputs of the actions taken move to new targets.

        Returns False, and learns nothing, if the values have diverged.
        """
        n_features, rows = self.memory.last.shape[1], np.arange(self.n_waiting)
        parts = np.split(self.waiting, np.cumsum([n_features, 1, 1, n_features]), axis=1)
        points, action, reward, after, terminated = (np.ascontiguousarray(part) for part in parts)
        targets = self.machine(points)
        best = self.machine(after).max(axis=1)
        goal = reward[:, 0] + self.gamma * np.where(terminated[:, 0] > 0.0, 0.0, best)
        self.n_waiting = 0
        if not np.abs(goal).max() < LARGEST:
            return False
        targets[rows, action[:, 0].astype(np.int64)] = goal
        self.machine.learn(points, targets, np.ones(len(points)))
        return True

    # -- acting ----------------------------------------------------------------------------------

    def greedy(self, observations: NDArray[Any]) -> NDArray[np.int64]:
        """The greedy actions for observations of shape (n, n_features), as `Learner.greedy`."""
        actions: NDArray[np.int64] = self.action_values(observations).argmax(axis=1)
        return actions

    def action_values(self, observations: NDArray[Any]) -> Array:
        """Q(x, a), of shape (n, n_actions), as `Learner.action_values`."""
        if not np.isfinite(observations).all():
            raise ValueError("observation must be finite, but contains NaN or infinity.")
        if not self.is_scaled:  # nothing has been learned
            return np.zeros((len(observations), self.n_actions))
        return self.machine(self.range.scaled(observations))

    # -- storing ---------------------------------------------------------------------------------

    @classmethod
    def schema(cls, config: Any, actions: ActionCodec, observations: Any, n_envs: int) -> Schema:
        """The schema of `get_state` in a model file."""

        def are_whole(waiting: Any, sizes: Sizes) -> None:
            """A rule: actions are valid indices, and the transitions are less than a mini-batch."""
            taken, n = waiting[:, observations.n_features], actions.n_actions
            right = np.all((taken == np.round(taken)) & (taken >= 0.0) & (taken < n))
            expect(right, "", "has invalid actions", f"actions from 0 to {n - 1}")
            expect(
                len(waiting) < config.batch_size,
                "",
                "is too long",
                f"fewer than {config.batch_size} transitions",
            )

        memory = {
            "action": f"int[E] in [0, {actions.n_actions})",
            "held": "count[E]",
            "exploratory": "bool[E]",
            "last": "float[E, obs]",
            "known": "bool[E]",
        }
        entries = {
            **shared_schema(range_schema(config.warmup_steps), memory),
            "n_learned": "count",
            "machine": machine_schema(_rules(config), by_classes=False),
            "waiting": _schema.Rules("float[waiting, 2*obs+3]", are_whole),
        }
        return _schema.Sized(entries, d="obs", c="obs", m=actions.n_actions)

    def get_state(self, under_way: bool = True) -> dict[str, Any]:
        """The state as in `Learner.get_state`, the kernel machine, and the current mini-batch."""
        return {
            **super().get_state(under_way),
            "n_learned": self.n_learned,
            "machine": deepcopy(self.machine.get_state()),
            "waiting": self.waiting[: self.n_waiting].copy(),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore the state that `get_state` returned."""
        super().set_state(state)
        self.n_learned = state["n_learned"]
        self.machine.set_state(state["machine"])
        self.n_waiting = len(state["waiting"])
        self.waiting[: self.n_waiting] = state["waiting"]

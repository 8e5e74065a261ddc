"""Transitions of a warm-up, used to find noise coordinates and the common part of all rewards."""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from oda_rl._validation import LARGEST
from oda_rl.agents.actions import ActionCodec
from oda_rl.agents.codebook_rl.arrays import Sizes
from oda_rl.agents.learner import Learner
from oda_rl.agents.noise_coordinates import MOST_COORDINATES, find_noise
from oda_rl.agents.observation_scale import ObservationScale

# Actions with more options in all are described by the numbers that an environment takes for them,
# instead of indicators of the options
MOST_OPTIONS = 64
# Losses have a common part if the smallest loss is at least their interquartile range. If more than
# MOST_EQUAL of all losses equal the smallest one, it is taken as the price of a step instead.
QUARTERS, MOST_EQUAL = (0.25, 0.75), 0.5
# If actions explain more than this share of the variance of the losses (of their ranks), the losses are
# taken as costs of actions.
MOST_BY_ACTIONS = 0.5


def row_length(sizes: Sizes) -> int:
    """Numbers that are stored of a transition."""
    return 2 * sizes.n_observed * (sizes.n_observed <= MOST_COORDINATES) + sizes.n_command + 2


class WarmUpRecord:
    """The first transitions of a warm-up, up to `most`, of environments that take turns.

    A row of `rows` has the observations before and after the transition, the action as a compiled
    environment takes it, the reward, and whether the episode terminated. Observations are left out if
    they have more than `MOST_COORDINATES` coordinates. `last` (n_envs, n_observed) has the last
    observation of each environment, infinite if there is none. For a table nothing is stored.
    """

    def __init__(self, sizes: Sizes, most: int) -> None:
        self.rows = np.empty((0 if sizes.is_table else most, row_length(sizes)))
        self.n = 0
        self.last = np.full((sizes.n_envs, sizes.n_observed), np.inf)

    def begin(self, env: int, observation: NDArray[Any]) -> None:
        """Store an observation without a transition that led to it."""
        self.last[env] = np.where(np.isfinite(observation), observation, np.inf)

    def add(
        self, env: int, command: NDArray[Any], reward: float, terminated: bool, observation: NDArray[Any]
    ) -> None:
        """Store a transition if all its numbers are finite and the record is not full."""
        ends = np.concatenate([self.last[env], observation])
        row = np.concatenate([ends, command, [reward, terminated]])[-self.rows.shape[1] :]
        if self.n < len(self.rows) and np.isfinite(row).all():
            self.rows[self.n] = np.clip(row, -LARGEST, LARGEST)
            self.n += 1
        self.begin(env, observation)

    def find_noise(self, actions: ActionCodec) -> NDArray[np.bool_]:
        """Which coordinates are noise, of shape (n_observed,)."""
        d, rows = self.last.shape[1], self.rows[: self.n]
        if d > MOST_COORDINATES:
            return np.zeros(d, dtype=np.bool_)
        return find_noise(rows[:, :d], self._taken(actions), rows[:, -2], rows[:, d : 2 * d])

    def find_common_loss(self, sign: float, actions: ActionCodec) -> float:
        """The smallest loss, below 0, if it is common to all rewards times `sign`; else 0.

        It is 0, too, if there may be a goal to look for: if an episode terminated, if most steps cost
        the smallest loss, or if the actions explain most of the differences between losses.
        """
        rewards, terminated = sign * self.rows[: self.n, -2], self.rows[: self.n, -1]
        least = float(rewards.max(initial=-np.inf))
        if not -np.inf < least < 0.0 or terminated.any() or np.mean(rewards == least) > MOST_EQUAL:
            return 0.0
        low, high = np.quantile(rewards, QUARTERS)
        taken = self._taken(actions)
        known = np.hstack([np.ones((self.n, 1)), taken, taken * taken])
        ranks = rankdata(rewards)
        rest = ranks - known @ np.linalg.lstsq(known, ranks)[0]
        by_actions = 1.0 - rest.var() / ranks.var()
        return least if -least >= high - low and by_actions <= MOST_BY_ACTIONS else 0.0

    def _taken(self, actions: ActionCodec) -> NDArray[np.float64]:
        """The actions taken, (n, n_options): indicators of options, else the environment's numbers."""
        taken = self.rows[: self.n, -2 - actions.commands.shape[1] : -2]
        if not 0 < sum(actions.options) <= MOST_OPTIONS:
            return taken
        parts = zip(taken.T.astype(np.int64), actions.options, strict=True)
        return np.hstack([np.eye(count)[part] for part, count in parts])

    def get_state(self) -> dict[str, Any]:
        """Return the transitions so far, and the last observations."""
        return {"transitions": self.rows[: self.n].copy(), "last": self.last.copy()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from `get_state`; the record starts empty if a file of an earlier version has none."""
        found = state.get("transitions", self.rows[:0])
        self.n = len(found)
        self.rows[: self.n] = found
        last = state.get("last", np.empty((0, 0)))
        self.last[:] = last if last.shape == self.last.shape else np.inf


class RecordingLearner(Learner):
    """A learner that stores the transitions of its warm-up in a `record`, until the scale is known."""

    sizes: Sizes
    scale: ObservationScale

    @cached_property
    def record(self) -> WarmUpRecord:
        """The transitions of the warm-up so far; empty once it is over."""
        return WarmUpRecord(self.sizes, self.config.warmup_steps)

    def get_state(self, under_way: bool = True) -> dict[str, Any]:
        """As `Learner.get_state`, with the record during the warm-up."""
        state = super().get_state(under_way)
        if not self.is_scaled:
            state["warm_up"] |= self.record.get_state()
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from `get_state`."""
        super().set_state(state)
        self.record = WarmUpRecord(self.sizes, 0 if self.is_scaled else self.config.warmup_steps)
        self.record.set_state(state["warm_up"])

    def _act_at_random(self, env: int, observation: NDArray[Any], *paid: Any) -> int:
        if paid:
            reward, terminated = paid
            self.record.add(env, self.memory.command[env], reward, terminated, observation)
        else:
            self.record.begin(env, observation)
        return super()._act_at_random(env, observation, *paid)

    def _end_warm_up(self) -> None:
        self.scale.coarsen(self.record.find_noise(self.actions))
        self.record = WarmUpRecord(self.sizes, 0)

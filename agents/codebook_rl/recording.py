"""Transitions of a warm-up: what rewards have in common, and what can be told from them."""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from oda_rl._types import Array
from oda_rl._validation import LARGEST
from oda_rl.agents.actions import ActionCodec
from oda_rl.agents.codebook_rl import state as names
from oda_rl.agents.codebook_rl.arrays import Sizes
from oda_rl.agents.codebook_rl.rank_correlations import (
    FEWEST,
    MOST_COORDINATES,
    actions_matter,
    find_noise,
    is_curved,
    varies,
)
from oda_rl.agents.codebook_rl.reward_relevance import find_irrelevant
from oda_rl.agents.config import DECISIVE_ACTION_WEIGHT
from oda_rl.agents.learner import Learner
from oda_rl.agents.observation_scale import ObservationScale
from oda_rl.agents.warm_up import plan_warm_up

# Actions with more options in all are described by the numbers that an environment takes for them,
# instead of indicators of the options
MOST_OPTIONS = 64
# With more coordinates, products of continuous actions with them are too many to be tested.
MOST_IN_PRODUCTS = 64
# Losses have a common part if the smallest loss is at least their interquartile range. If more than
# MOST_LEAST of all losses equal the smallest one, it is taken as the price of a step instead.
QUARTERS, MOST_LEAST = (0.25, 0.75), 0.5
# Losses that differ by a smaller fraction are equal but for rounding errors.
ROUNDING = 1e-6
# If actions explain more than this share of the variance of the losses (of their ranks), the losses are
# taken as costs of actions.
MOST_BY_ACTIONS = 0.5
# The stretches of which the best is found are as long as this fraction of the horizon, 1 / (1 - gamma).
STRETCH = 0.5


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

    def add(self, env: int, command: Array, reward: float, terminated: bool, observation: Array) -> None:
        """Store a transition if all its numbers are finite and the record is not full."""
        ends = np.concatenate([self.last[env], observation])
        row = np.concatenate([ends, command, [reward, terminated]])[-self.rows.shape[1] :]
        if self.n < len(self.rows) and np.isfinite(row).all():
            self.rows[self.n] = np.clip(row, -LARGEST, LARGEST)
            self.n += 1
        self.begin(env, observation)

    def find_noise(self, actions: ActionCodec) -> NDArray[np.bool_]:
        """Which coordinates are noise, of shape (n_observed,)."""
        d = self.last.shape[1]
        return np.zeros(d, np.bool_) if d > MOST_COORDINATES else find_noise(*self._transitions(actions))

    def find_irrelevant(self, actions: ActionCodec) -> NDArray[np.bool_]:
        """Which coordinates do not matter for rewards that say which states are good, (n_observed,).

        Rare signals always count: what they tell may show later.
        """
        d = self.last.shape[1]
        if d > MOST_COORDINATES or self.n < FEWEST or not self.states_matter(actions):
            return np.zeros(d, np.bool_)
        found = self._transitions(actions)
        return find_irrelevant(*found) & varies(found[0])

    def find_usual_reward(self) -> tuple[float, float]:
        """The most frequent reward, of several the one that occurred last, and the share of the others.

        Both are 0 if there is none.
        """
        if self.n == 0:
            return 0.0, 0.0
        latest_first = self.rows[: self.n, -2][::-1]
        rewards, first, counts = np.unique(latest_first, return_index=True, return_counts=True)
        usual = np.lexsort((first, -counts))[0]
        return float(rewards[usual]), 1.0 - float(counts[usual]) / self.n

    def find_best_stretch(self, sign: float, length: int) -> float:
        """The largest mean of rewards times `sign` over `length` successive steps of an environment.

        Over all its steps if there are fewer; 0 if there are none.
        """
        n_envs = len(self.last)
        n = self.n // n_envs
        if n == 0:
            return 0.0
        length = min(max(length, 1), n)
        rewards = sign * self.rows[: n * n_envs, -2].reshape(n, n_envs)
        sums = np.cumsum(np.vstack([np.zeros(n_envs), rewards]), axis=0)
        return float((sums[length:] - sums[:-length]).max() / length)

    def only_actions_cost(self, sign: float, actions: ActionCodec) -> bool:
        """Whether rewards times `sign` differ, are no gains, and depend on the action alone.

        Rewards that terminated an episode do not count. It is enough if continuous actions explain most
        of the variance of the ranks.
        """
        rows = self.rows[: self.n]
        rows = rows[rows[:, -1] == 0.0]
        rewards, first = sign * rows[:, -2], -2 - actions.commands.shape[1]
        paid = rows[:, first:-1]  # commands and rewards; rows of many coordinates have no observations
        if len(rewards) == 0 or rewards.max() > 0.0 or rewards.min() == rewards.max():
            return False
        if actions.is_continuous:
            return self._by_actions(rows, actions) > MOST_BY_ACTIONS
        return len(np.unique(paid, axis=0)) == len(np.unique(paid[:, :-1], axis=0))

    def find_common_loss(self, sign: float, actions: ActionCodec) -> float:
        """The smallest loss, below 0, if it is common to all rewards times `sign`; else 0.

        It is 0, too, if there may be a goal to look for: if an episode terminated, if most steps cost
        the smallest loss, or if the actions explain most of the differences between losses.
        """
        rewards, terminated = sign * self.rows[: self.n, -2], self.rows[: self.n, -1]
        least = float(rewards.max(initial=-np.inf))
        if not -np.inf < least < 0.0 or terminated.any():
            return 0.0
        if np.mean(rewards >= least * (1.0 + ROUNDING)) > MOST_LEAST:
            return 0.0
        low, high = np.quantile(rewards, QUARTERS)
        return least if -least >= high - low and self.states_matter(actions) else 0.0

    def states_matter(self, actions: ActionCodec, most: int | None = None) -> bool:
        """Whether rewards differ, and actions explain little of it, in the first `most` transitions.

        An episode that terminated among them may be an end to look for, or to avoid: False. It is False,
        too, if there are too few transitions to tell.
        """
        rows = self.rows[: self.n][:most]
        return not rows[:, -1].any() and self._by_actions(rows, actions) <= MOST_BY_ACTIONS

    def _by_actions(self, rows: Array, actions: ActionCodec) -> float:
        """The share of the variance of the ranks of rewards that actions explain in `rows`, at most 1.

        NaN if there are too few transitions to tell, or if all rewards are equal.
        """
        ranks, taken = rankdata(rows[:, -2]), self._taken(actions, rows)
        known = np.hstack([np.ones((len(rows), 1)), taken, taken * taken])
        if 2 * known.shape[1] > len(rows) or np.ptp(ranks) == 0.0:
            return np.nan
        rest = ranks - known @ np.linalg.lstsq(known, ranks)[0]
        return 1.0 - float(rest.var() / ranks.var())

    def is_dense(self, actions: ActionCodec) -> bool:
        """Whether the next few rewards show what discrete actions are worth.

        That is so if most rewards differ from the usual one, and states matter.
        """
        varied = self.find_usual_reward()[1] > names.LEAST_VARIED
        return varied and not actions.is_continuous and self.states_matter(actions)

    def is_contextual(self) -> bool:
        """Whether continuous actions do not affect the next observation, and rewards are curved in them.

        The value of an action is then that of its reward, apart from what no action can change.
        """
        d, rows = self.last.shape[1], self.rows[: self.n]
        if self.n < FEWEST or d > MOST_IN_PRODUCTS:
            return False
        before, taken, after = rows[:, :d], rows[:, 2 * d : -2], rows[:, d : 2 * d]
        goes_on = rows[:, -1] == 0.0
        moves = actions_matter(before[goes_on], taken[goes_on], after[goes_on])
        return not moves and is_curved(before, taken, rows[:, -2])

    def _transitions(self, actions: ActionCodec) -> tuple[Array, Array, Array, Array]:
        """Observations before (n, n_observed), actions (n, n_options), rewards (n,), and those after."""
        d, rows = self.last.shape[1], self.rows[: self.n]
        return rows[:, :d], self._taken(actions, rows), rows[:, -2], rows[:, d : 2 * d]

    def _taken(self, actions: ActionCodec, rows: Array) -> NDArray[np.float64]:
        """The actions taken, (n, n_options): indicators of options, else the environment's numbers."""
        taken = rows[:, -2 - actions.commands.shape[1] : -2]
        if not 0 < sum(actions.options) <= MOST_OPTIONS:
            return taken
        parts = zip(taken.T.astype(np.int64), actions.options, strict=True)
        return np.hstack([np.eye(count)[part] for part, count in parts])

    def get_state(self) -> dict[str, Any]:
        """Return the transitions so far, and the last observations."""
        return {"transitions": self.rows[: self.n].copy(), "last": self.last.copy()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from `get_state`; a state from after the warm-up has no transitions."""
        found = state.get("transitions", self.rows[:0])
        self.n = len(found)
        self.rows[: self.n] = found
        last = state.get("last", np.empty((0, 0)))
        self.last[:] = last if last.shape == self.last.shape else np.inf


class RecordingLearner(Learner):
    """A learner that stores the transitions of its warm-up in a `record`, until the scale is known."""

    sizes: Sizes
    scale: ObservationScale
    numbers: names.Numbers

    @cached_property
    def record(self) -> WarmUpRecord:
        """The transitions of the warm-up so far; empty once it is over."""
        return WarmUpRecord(self.sizes, 0 if self.is_scaled else plan_warm_up(self.config.warmup_steps))

    def get_state(self, under_way: bool = True) -> dict[str, Any]:
        """As `Learner.get_state`, with the record during the warm-up."""
        state = super().get_state(under_way)
        if not self.is_scaled:
            state["warm_up"] |= self.record.get_state()
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from `get_state`."""
        super().set_state(state)
        vars(self).pop("record", None)
        self.record.set_state(state["warm_up"])

    def _act_at_random(self, env: int, observation: NDArray[Any], *paid: Any) -> int:
        if paid:
            reward, terminated = paid
            self.record.add(env, self.memory.command[env], reward, terminated, observation)
        else:
            self.record.begin(env, observation)
        return super()._act_at_random(env, observation, *paid)

    def _end_warm_up(self) -> None:
        figures, sign = self.numbers.figures, float(self.numbers.settings[names.SIGN])
        figures[names.USUAL_REWARD], figures[names.VARIED_SHARE] = self.record.find_usual_reward()
        length = int(STRETCH / (1.0 - self.gamma) + 0.5)
        if self.sizes.n_joint and self.record.is_contextual():
            figures[names.ACTION_WEIGHT] = DECISIVE_ACTION_WEIGHT
        figures[names.BEST_STRETCH] = self.record.find_best_stretch(sign, length)
        record, actions = self.record, self.actions
        self.scale.coarsen(record.find_noise(actions), record.find_irrelevant(actions))
        self.record = WarmUpRecord(self.sizes, 0)

    def _largest_recurring(self) -> float:
        """The largest reward that may come at every step, from all steps before learning; at least 0.

        If most rewards differ, the largest is good luck, and it is the best mean of a stretch instead.
        Values that begin far above what can be had sink for most of a run, and hide what actions differ
        in. Below it, whatever is tried first seems best, and the rest is hardly tried at all.
        """
        figures = self.numbers.figures
        again = min(figures[names.RECURRING_REWARD], figures[names.BEST_GOING_ON])
        if figures[names.VARIED_SHARE] > names.LEAST_VARIED:
            again = min(again, figures[names.BEST_STRETCH])
        return max(0.0, float(again))

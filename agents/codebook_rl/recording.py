"""Transitions of a warm-up: noise coordinates, what rewards have in common, what actions affect.

A noise coordinate of observations is drawn independently at each step, without information. Cells lie in
the space of all coordinates, and distances along all of them determine which cells learn from a sample.
So a few coordinates without information hide those that have some. Under the random actions of a warm-up
a noise coordinate is independent of itself a step before, of the other coordinates now, before and
after, of actions and of rewards. Its products with any of these are also uncorrelated with rewards and
with what comes next. A state variable depends on its previous value, and a number that an environment
draws for the agent to react to affects rewards or what comes next, so that both fail one of these tests.
All tests are correlations of ranks, both of coordinates and of their distances from the median. So
neither units nor heavy tails matter.
"""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from oda_rl._statistics import standardised
from oda_rl._types import Array
from oda_rl._validation import LARGEST
from oda_rl.agents.actions import ActionCodec
from oda_rl.agents.codebook_rl import state as names
from oda_rl.agents.codebook_rl.arrays import Sizes
from oda_rl.agents.config import DECISIVE_ACTION_WEIGHT
from oda_rl.agents.learner import Learner
from oda_rl.agents.observation_scale import ObservationScale
from oda_rl.agents.warm_up import plan_warm_up

# Actions with more options in all are described by the numbers that an environment takes for them,
# instead of indicators of the options
MOST_OPTIONS = 64
# Losses have a common part if the smallest loss is at least their interquartile range. If more than
# MOST_LEAST of all losses equal the smallest one, it is taken as the price of a step instead.
QUARTERS, MOST_LEAST = (0.25, 0.75), 0.5
# If actions explain more than this share of the variance of the losses (of their ranks), the losses are
# taken as costs of actions.
MOST_BY_ACTIONS = 0.5
# The stretches of which the best is found are as long as this fraction of the horizon, 1 / (1 - gamma).
STRETCH = 0.5
# Correlations from n transitions have a standard deviation of 1 / sqrt(n). One that is this many
# deviations away from 0 is not due to chance.
DEVIATIONS = 5.0
# Rewards are curved in actions if the squares of actions explain more than this share of what linear
# effects of the action, different in each state, leave of the (ranks of) rewards.
LEAST_CURVED = 0.05
# With fewer transitions or more coordinates none is called noise: there are too many tests of pairs.
FEWEST, MOST_COORDINATES = 500, 64
# A coordinate with one value in more than this fraction of the transitions is a rare signal, not noise.
MOST_EQUAL_VALUES = 0.6


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
        d, rows = self.last.shape[1], self.rows[: self.n]
        if d > MOST_COORDINATES:
            return np.zeros(d, dtype=np.bool_)
        return find_noise(rows[:, :d], self._taken(actions), rows[:, -2], rows[:, d : 2 * d])

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

    def only_actions_cost(self, sign: float) -> bool:
        """Whether rewards times `sign` differ, are no gains, and depend on the action alone.

        Rewards that terminated an episode do not count.
        """
        rows = self.rows[: self.n]
        rows = rows[rows[:, -1] == 0.0]
        rewards, paid = sign * rows[:, -2], rows[:, 2 * self.last.shape[1] : -1]  # commands and rewards
        if len(rewards) == 0 or rewards.max() > 0.0 or rewards.min() == rewards.max():
            return False
        return len(np.unique(paid, axis=0)) == len(np.unique(paid[:, :-1], axis=0))

    def find_common_loss(self, sign: float, actions: ActionCodec) -> float:
        """The smallest loss, below 0, if it is common to all rewards times `sign`; else 0.

        It is 0, too, if there may be a goal to look for: if an episode terminated, if most steps cost
        the smallest loss, or if the actions explain most of the differences between losses.
        """
        rewards, terminated = sign * self.rows[: self.n, -2], self.rows[: self.n, -1]
        least = float(rewards.max(initial=-np.inf))
        if not -np.inf < least < 0.0 or terminated.any() or np.mean(rewards == least) > MOST_LEAST:
            return 0.0
        low, high = np.quantile(rewards, QUARTERS)
        taken = self._taken(actions)
        known = np.hstack([np.ones((self.n, 1)), taken, taken * taken])
        ranks = rankdata(rewards)
        rest = ranks - known @ np.linalg.lstsq(known, ranks)[0]
        by_actions = 1.0 - rest.var() / ranks.var()
        return least if -least >= high - low and by_actions <= MOST_BY_ACTIONS else 0.0

    def is_contextual(self) -> bool:
        """Whether continuous actions do not affect the next observation, and rewards are curved in them.

        The value of an action is then that of its reward, apart from what no action can change.
        """
        d, rows = self.last.shape[1], self.rows[: self.n]
        if self.n < FEWEST or d > MOST_COORDINATES:
            return False
        before, taken, after = rows[:, :d], rows[:, 2 * d : -2], rows[:, d : 2 * d]
        goes_on = rows[:, -1] == 0.0
        moves = actions_matter(before[goes_on], taken[goes_on], after[goes_on])
        return not moves and is_curved(before, taken, rows[:, -2])

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
        self.scale.coarsen(self.record.find_noise(self.actions))
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


# -- noise coordinates -------------------------------------------------------------------------------


def find_noise(before: Array, actions: Array, rewards: Array, after: Array) -> NDArray[np.bool_]:
    """Find the coordinates that are noise, from transitions under random actions.

    Parameters
    ----------
    before, after : ndarray of shape (n, n_observed)
        The observations at the two ends of each transition.
    actions : ndarray of shape (n, n_options)
        Features of the actions: which option was taken, or the coordinates of a continuous action.
    rewards : ndarray of shape (n,)

    Returns
    -------
    ndarray of shape (n_observed,), bool
        Whether each coordinate is noise. False for all if every coordinate that varies would be noise,
        or if there are too few transitions or too many coordinates.
    """
    n, d = before.shape
    noise = np.zeros(d, dtype=np.bool_)
    if n < FEWEST or not 1 < d <= MOST_COORDINATES:
        return noise
    now, later, acts = _with_sizes(before), _with_sizes(after), _scores(actions)
    rewarded = _with_sizes(rewards[:, None])
    for j in np.flatnonzero(_varies(before)):
        own, others = [j, d + j], np.delete(np.arange(2 * d), [j, d + j])
        around = (now[:, others], later, rewarded)
        noise[j] = _unrelated(now[:, own], *around) and _unrelated(later[:, own], now, acts, rewarded)
    # Candidates must not explain what remains of rewards and changes after a regression on the rest.
    known = np.hstack([np.ones((n, 1)), now[:, np.tile(~noise, 2)], acts])
    follows = np.column_stack([rewards, after[:, ~noise] - before[:, ~noise]])
    follows = _with_sizes(follows - known @ np.linalg.lstsq(known, follows)[0])
    rewarded = follows[:, [0, follows.shape[1] // 2]]
    for j in np.flatnonzero(noise):
        with_one = _standard(now[:, [j]] * np.hstack([acts, now[:, :d]]))
        with_two = [_standard(with_one[:, len(acts.T) :] * own[:, None]) for own in acts.T]
        noise[j] = _unrelated(now[:, [j, d + j]], follows) and _unrelated(with_one, follows)
        noise[j] = noise[j] and all(_unrelated(part, rewarded) for part in with_two)
    moves = before.min(axis=0) < before.max(axis=0)
    return noise if not noise[moves].all() else np.zeros(d, dtype=np.bool_)


# -- continuous actions ------------------------------------------------------------------------------


def actions_matter(before: Array, actions: Array, after: Array) -> bool:
    """Whether actions affect the next observation, alone or in a product with the present one.

    The arguments are those of `find_noise`; False if there are no transitions.
    """
    if len(before) == 0:
        return False
    now, acts = _with_sizes(before), _with_sizes(actions)
    known = np.hstack([np.ones((len(now), 1)), now])
    moves = after - before
    follows = _with_sizes(moves - known @ np.linalg.lstsq(known, moves)[0])
    products = _standard(_products(acts, now[:, : before.shape[1]]))
    return not (_unrelated(acts, follows) and _unrelated(products, follows))


def is_curved(before: Array, actions: Array, rewards: Array) -> bool:
    """Whether rewards are curved in continuous actions; the arguments are those of `find_noise`.

    False if there are too few transitions to tell.
    """
    now, acts, ranks = _with_sizes(before), _standard(actions), _scores(rewards[:, None])
    linear = np.hstack([np.ones((len(now), 1)), now, acts, _products(acts, now[:, : before.shape[1]])])
    if 2 * linear.shape[1] > len(linear):
        return False
    left = ranks - linear @ np.linalg.lstsq(linear, ranks)[0]
    curved = np.hstack([linear, acts * acts])
    rest = ranks - curved @ np.linalg.lstsq(curved, ranks)[0]
    return bool(rest.var() < (1.0 - LEAST_CURVED) * left.var())


def _products(first: Array, second: Array) -> Array:
    """All products of a column of one array and a column of the other, (n, p * q)."""
    return (first[:, :, None] * second[:, None]).reshape(len(first), -1)


def _unrelated(columns: Array, *others: Array) -> bool:
    """Whether all correlations of the scores in `columns` (n, p) with those in others may be chance."""
    largest = DEVIATIONS * np.sqrt(len(columns))
    return all(np.abs(columns.T @ part).max(initial=0.0) < largest for part in others)


def _standard(columns: Array) -> Array:
    return standardised(columns, np.ones(len(columns)))


def _scores(columns: Array) -> Array:
    """Ranks of each column, with mean 0 and variance 1; 0 if all are equal."""
    return _standard(rankdata(columns, axis=0))


def _with_sizes(columns: Array) -> Array:
    """Scores of columns, and of their absolute distances from the median."""
    return np.hstack([_scores(columns), _scores(np.abs(columns - np.median(columns, axis=0)))])


def _varies(observations: Array) -> NDArray[np.bool_]:
    """Which coordinates have no single value in more than `MOST_EQUAL_VALUES` of the observations."""
    most = [np.unique(column, return_counts=True)[1].max() for column in observations.T]
    return np.array(most) <= MOST_EQUAL_VALUES * len(observations)

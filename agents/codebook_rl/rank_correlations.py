"""Tests by correlations of ranks: which coordinates of observations are noise, what actions affect.

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

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from oda_rl._statistics import standardised
from oda_rl._types import Array

# Correlations from n transitions have a standard deviation of 1 / sqrt(n). One that is this many
# deviations away from 0 is not due to chance.
DEVIATIONS = 5.0
# Rewards are curved in actions if the squares of actions explain more than this share of what linear
# effects of the action, different in each state, leave of the (ranks of) rewards.
LEAST_CURVED = 0.05
# With fewer transitions, or fewer for each coordinate, or more coordinates, none is called noise.
FEWEST, PER_COORDINATE, MOST_COORDINATES = 500, 6, 256
# Variance of a product of scores below which it is constant but for rounding
LEAST_VARIANCE = 1e-9
# A coordinate with one value in more than this fraction of the transitions is a rare signal, not noise.
MOST_EQUAL_VALUES = 0.6


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
    if n < max(FEWEST, PER_COORDINATE * d) or not 1 < d <= MOST_COORDINATES:
        return np.zeros(d, dtype=np.bool_)
    now, later, acts = _with_sizes(before), _with_sizes(after), rank_scores(actions)
    rewarded, other = _with_sizes(rewards[:, None]), np.tile(~np.eye(d, dtype=np.bool_), (2, 2))
    across = _correlations(now, later)
    related = [_correlations(now, now) * other, across, across.T, _correlations(now, rewarded)]
    related += [_correlations(later, acts), _correlations(later, rewarded)]
    noise = varies(before) & _are_by_chance(n, np.hstack(related)).reshape(2, d).all(axis=0)
    if not noise.any():
        return noise
    # Candidates must not explain what remains of rewards and changes after a regression on the rest.
    known = np.hstack([np.ones((n, 1)), now[:, np.tile(~noise, 2)], acts])
    follows = np.column_stack([rewards, after[:, ~noise] - before[:, ~noise]])
    follows = _with_sizes(follows - known @ np.linalg.lstsq(known, follows)[0])
    noise &= _are_by_chance(n, _correlations(now, follows)).reshape(2, d).all(axis=0)
    rewarded = follows[:, [0, follows.shape[1] // 2]]
    noise[noise] = _have_no_telling_products(now[:, :d], noise, acts, follows, rewarded)
    moves = before.min(axis=0) < before.max(axis=0)
    return noise if not noise[moves].all() else np.zeros(d, dtype=np.bool_)


def _have_no_telling_products(
    scores: Array, chosen: NDArray[np.bool_], acts: Array, follows: Array, rewarded: Array
) -> NDArray[np.bool_]:
    """Which of the `chosen` coordinates have only products with others that are unrelated to the rest.

    Products of two coordinates, or of a coordinate and an action, are compared with all that `follows`;
    those of two coordinates and an action with what is `rewarded`. All arguments are scores, one row for
    each transition. Means of products are sums over transitions, that is products of matrices: the
    products themselves would be as many as the squared number of coordinates, for each transition.
    """
    n, own = len(scores), scores[:, chosen]
    others, squared = np.hstack([acts, scores]), scores**2
    mean = others.T @ own / n
    deviation = _deviations((others**2).T @ own**2 / n - mean**2)
    found = np.ones(own.shape[1], dtype=np.bool_)
    for after in follows.T:
        found &= _are_by_chance(n, (others.T @ (after[:, None] * own) / deviation).T)
    mean = mean[acts.shape[1] :]
    for act in acts.T:
        with_act = act[:, None] * own
        squares = squared.T @ with_act**2 - 2.0 * mean * (scores.T @ (act[:, None] * with_act))
        middle = scores.T @ with_act / n
        deviation = _deviations((squares + mean**2 * (act @ act)) / n - middle**2)
        for reward in rewarded.T:
            together = scores.T @ (reward[:, None] * with_act) - mean * (act @ reward)
            found &= _are_by_chance(n, (together / deviation).T)
    return found


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
    mixed = standard(products(acts, now[:, : before.shape[1]]))
    return not (_unrelated(acts, follows) and _unrelated(mixed, follows))


def is_curved(before: Array, actions: Array, rewards: Array) -> bool:
    """Whether rewards are curved in continuous actions; the arguments are those of `find_noise`.

    False if there are too few transitions to tell.
    """
    now, acts, ranks = _with_sizes(before), standard(actions), rank_scores(rewards[:, None])
    linear = np.hstack([np.ones((len(now), 1)), now, acts, products(acts, now[:, : before.shape[1]])])
    if 2 * linear.shape[1] > len(linear):
        return False
    left = ranks - linear @ np.linalg.lstsq(linear, ranks)[0]
    curved = np.hstack([linear, acts * acts])
    rest = ranks - curved @ np.linalg.lstsq(curved, ranks)[0]
    return bool(rest.var() < (1.0 - LEAST_CURVED) * left.var())


def products(first: Array, second: Array) -> Array:
    """All products of a column of one array and a column of the other, (n, p * q)."""
    return (first[:, :, None] * second[:, None]).reshape(len(first), -1)


def _correlations(first: Array, second: Array) -> Array:
    """The correlations, times n, of the scores in columns of (n, p) and (n, q): (p, q)."""
    return np.asarray(first.T @ second)


def _deviations(variance: Array) -> Array:
    return np.sqrt(np.maximum(variance, LEAST_VARIANCE))


def _are_by_chance(n: int, related: Array) -> NDArray[np.bool_]:
    """Which rows (p,) of correlations (p, q), times n, chance may have given."""
    return np.asarray((np.abs(related) < DEVIATIONS * np.sqrt(n)).all(axis=1))


def _unrelated(columns: Array, *others: Array) -> bool:
    """Whether all correlations of the scores in `columns` (n, p) with those in others may be chance."""
    return all(_are_by_chance(len(columns), _correlations(columns, part)).all() for part in others)


def standard(columns: Array) -> Array:
    """Each column with mean 0 and variance 1; 0 if all are equal."""
    return standardised(columns, np.ones(len(columns)))


def rank_scores(columns: Array) -> Array:
    """Ranks of each column, with mean 0 and variance 1; 0 if all are equal."""
    return standard(rankdata(columns, axis=0))


def _with_sizes(columns: Array) -> Array:
    """Scores of columns, and of their absolute distances from the median."""
    return np.hstack([rank_scores(columns), rank_scores(np.abs(columns - np.median(columns, axis=0)))])


def varies(observations: Array) -> NDArray[np.bool_]:
    """Which coordinates have no single value in more than `MOST_EQUAL_VALUES` of the observations."""
    most = [np.unique(column, return_counts=True)[1].max() for column in observations.T]
    return np.array(most) <= MOST_EQUAL_VALUES * len(observations)

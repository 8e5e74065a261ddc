"""Coordinates of an observation that are noise: drawn anew at each step, and about nothing else.

Cells lie among all coordinates, and what is learned is shared out by distances along all of them: a few
that mean nothing leave little of those that do. Under the random actions of a warm-up such a coordinate
is known by its independence: of itself a step before, of the others now, before and after, of actions
and of rewards, and also together with any of them in what it says of rewards and of what comes next. A
state moves on from where it was, and what an environment draws for an agent to react to says something
of rewards or of what comes next; both fail one of these tests. All of them are correlations of ranks, of
coordinates and of how far they are from their medians, so that no units and no tails matter.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from oda_rl._types import Array
from oda_rl._weighted import standardised

# Correlations of n transitions have a deviation of 1 / sqrt(n); so many of these are none by chance.
DEVIATIONS = 5.0
# Of fewer transitions nothing is said, nor of more coordinates: there are too many tests of pairs.
FEWEST, MOST_COORDINATES = 500, 64
# A coordinate that has one value in so large a part of all transitions is no noise, but a rare sign.
MOST_EQUAL = 0.6


def find_noise(before: Array, actions: Array, rewards: Array, after: Array) -> NDArray[np.bool_]:
    """Which coordinates are noise, by transitions under random actions.

    Parameters
    ----------
    before, after : ndarray of shape (n, n_observed)
        The observations at the two ends of each transition.
    actions : ndarray of shape (n, n_options)
        Features of the actions: which option was taken, or the coordinates of a point.
    rewards : ndarray of shape (n,)

    Returns
    -------
    ndarray of shape (n_observed,), bool
        None of them, where all are, or where there are too few transitions or too many coordinates.
    """
    n, d = before.shape
    noise = np.zeros(d, dtype=np.bool_)
    if n < FEWEST or not 1 < d <= MOST_COORDINATES:
        return noise
    now, later, acts = _with_sizes(before), _with_sizes(after), _scores(actions)
    told = _with_sizes(rewards[:, None])
    for j in np.flatnonzero(_varies(before)):
        own, others = [j, d + j], np.delete(np.arange(2 * d), [j, d + j])
        around = (now[:, others], later, told)
        noise[j] = _unrelated(now[:, own], *around) and _unrelated(later[:, own], now, acts, told)
    # What is known of rewards, and of what moves, without them is no part of what they tell.
    known = np.hstack([np.ones((n, 1)), now[:, np.tile(~noise, 2)], acts])
    follows = np.column_stack([rewards, after[:, ~noise] - before[:, ~noise]])
    follows = _with_sizes(follows - known @ np.linalg.lstsq(known, follows)[0])
    told = follows[:, [0, follows.shape[1] // 2]]
    for j in np.flatnonzero(noise):
        with_one = _standard(now[:, [j]] * np.hstack([acts, now[:, :d]]))
        with_two = [_standard(with_one[:, len(acts.T) :] * own[:, None]) for own in acts.T]
        noise[j] = _unrelated(now[:, [j, d + j]], follows) and _unrelated(with_one, follows)
        noise[j] = noise[j] and all(_unrelated(part, told) for part in with_two)
    return noise if not noise[_moves(before)].all() else np.zeros(d, dtype=np.bool_)


def _unrelated(columns: Array, *others: Array) -> bool:
    """Whether no scores of `columns` (n, p) are correlated with those of others but by chance."""
    largest = DEVIATIONS * np.sqrt(len(columns))
    return all(np.abs(columns.T @ part).max(initial=0.0) < largest for part in others)


def _standard(columns: Array) -> Array:
    return standardised(columns, np.ones(len(columns)))


def _scores(columns: Array) -> Array:
    """Ranks of each column, with mean 0 and variance 1; 0 where all are equal."""
    return _standard(rankdata(columns, axis=0))


def _with_sizes(columns: Array) -> Array:
    """Scores of columns, and of how far these are from their medians."""
    return np.hstack([_scores(columns), _scores(np.abs(columns - np.median(columns, axis=0)))])


def _moves(observations: Array) -> NDArray[np.bool_]:
    return np.asarray(observations.min(axis=0) < observations.max(axis=0))


def _varies(observations: Array) -> NDArray[np.bool_]:
    """Which coordinates have no value in most of the observations."""
    most = [np.unique(column, return_counts=True)[1].max() for column in observations.T]
    return np.array(most) <= MOST_EQUAL * len(observations)

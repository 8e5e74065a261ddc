"""Which coordinates of observations matter for rewards, found by regressions on transitions.

Cells lie in the space of all coordinates. Beside those that rewards depend on there may be others, such
as the places of a hand and of its goal if only their distance pays, or the fingers of a hand that only
has to reach. They are no noise, but cells that differ in them alone learn the same thing once more.

A coordinate matters if rewards depend on it, or the change of one that matters does, and so on. Rewards
and changes are explained by linear functions of actions, coordinates, their powers and their products.
Coordinates are eliminated from these functions as long as these explain almost as much without them.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from oda_rl._types import Array
from oda_rl.agents.codebook_rl.rank_correlations import products, rank_scores, standard

# Nothing is told from functions that explain less than this share of the variance of rewards:
# what they do not explain may depend on other coordinates.
LEAST_EXPLAINED = 0.99
# Nor if they explain less than this of the change of a coordinate that matters, such as the place of an
# object that is moved only when it is touched.
LEAST_FOLLOWED = 0.8
# A coordinate matters for a number if it explains this share of its variance beside all others.
LEAST_SHARE = 0.01
# Transitions for each term of the functions, and most terms. If there would be too many terms, products
# of coordinates are left out; if there still are, nothing is told.
PER_TERM, MOST_TERMS = 3, 600
# Keeps covariances invertible if one coordinate follows from others
RIDGE = 1e-6
# Coordinates are clipped at this many ranges of the first to the last percentile beyond these.
REACH = 1.0
# How often the scale of rewards and the function that explains them are fitted to each other
ROUNDS = 50

Chosen = NDArray[np.bool_]


def find_irrelevant(before: Array, actions: Array, rewards: Array, after: Array) -> Chosen:
    """Find the coordinates that do not matter for rewards, from transitions under random actions.

    Of several that follow from each other, such as a coordinate that is there twice, one matters.

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
        Whether each coordinate is irrelevant. False for all if states and actions do not explain
        the rewards, or the changes of what matters, if no coordinate matters, or if there are too few
        transitions to tell.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> before, moves = rng.normal(size=(1000, 3)), rng.uniform(-1.0, 1.0, (1000, 1))
    >>> after = before + moves * [1.0, 0.0, 1.0]
    >>> find_irrelevant(before, moves, -np.abs(before[:, 0] - before[:, 1]), after)
    array([False, False,  True])
    """
    n, d = before.shape
    none, tried = np.zeros((2, d), dtype=np.bool_)
    terms, has = _terms(_clipped(before), _clipped(actions))
    if terms.shape[1] == 0 or np.ptp(rewards) == 0.0:
        return none
    inverse = np.linalg.inv(terms.T @ terms + RIDGE * n * np.eye(terms.shape[1]))
    needed, explained = _needed(terms, has, inverse, _rescaled(terms, inverse, rewards), none)
    if explained < LEAST_EXPLAINED or not needed.any():
        return none
    while (needed & ~tried).any():
        j = int(np.argmax(needed & ~tried))
        tried[j] = True
        moves = _clipped(after[:, [j]] - before[:, [j]])[:, 0]
        needed, explained = _needed(terms, has, inverse, moves, needed)
        if explained < LEAST_FOLLOWED:
            return none
    return ~needed


def _clipped(columns: Array) -> Array:
    """Columns with mean 0 and variance 1, without outliers."""
    low, high = np.percentile(columns, [1.0, 99.0], axis=0)
    reach = REACH * (high - low)
    return standard(np.clip(columns, low - reach, high + reach))


def _terms(states: Array, actions: Array) -> tuple[Array, Chosen]:
    """Terms of the functions, (n, n_terms), and which coordinates each contains, (n_terms, n_observed).

    Products of two coordinates are left out if there are too many; no terms if still too many are left.
    """
    (n, d), k = states.shape, actions.shape[1]
    own, none = np.eye(d, dtype=np.bool_), np.zeros((k, d), dtype=np.bool_)
    most = min(n // PER_TERM, MOST_TERMS) - (1 + 2 * k + 3 * d + k * d)
    i, j = np.triu_indices(d)
    if len(i) > most:
        i = j = np.arange(d)
    if len(i) > most:
        return np.empty((n, 0)), np.empty((0, d), dtype=np.bool_)
    mixed, squares = products(actions, states), states[:, i] * states[:, j]
    columns = [np.ones((n, 1)), actions, actions**2, mixed, squares]
    has = [np.zeros((1, d), dtype=np.bool_), none, none, np.tile(own, (k, 1)), own[i] | own[j]]
    powers = [states, states**3, states**4]
    return np.hstack([*columns, *powers]), np.vstack([*has, *[own] * len(powers)])


def _rescaled(terms: Array, inverse: Array, rewards: Array) -> Array:
    """Rewards (n,) on the scale, of variance 1, on which a function of the terms explains them best.

    A distance is no quadratic function, but its square is one. The scale is any that rises with rewards;
    it begins with their ranks (alternating conditional expectations, Breiman and Friedman 1985).
    """
    _, group = np.unique(rewards, return_inverse=True)
    sizes, found = np.bincount(group), rank_scores(rewards[:, None])[:, 0]
    for _ in range(ROUNDS):
        fitted = terms @ (inverse @ (terms.T @ found))
        rising = isotonic_regression(np.bincount(group, fitted) / sizes, weights=sizes).x[group]
        if np.ptp(rising) == 0.0:
            break
        found = standard(rising[:, None])[:, 0]
    return found


def _needed(
    terms: Array, has: Chosen, inverse: Array, target: Array, kept: Chosen
) -> tuple[Chosen, float]:
    """The `kept` coordinates (n_observed,) and those that a target needs beside them, by elimination.

    Also what share of the target (n,), whose variance is 1, all coordinates and actions explain. The
    `inverse` of the products of the terms, and their weights, follow from those with the terms that are
    eliminated. All coordinates that explain little are eliminated at once, unless they explain more
    together, as one of them follows from the others; then it is that which explains least.
    """
    n, needed = len(terms), np.ones_like(kept)
    weights = inverse @ (terms.T @ target)
    left, least = float(((target - terms @ weights) ** 2).sum()), LEAST_SHARE * n
    explained = 1.0 - left / max(n - len(weights), 1)
    while True:
        chance = left / max(n - len(weights), 1)
        each = np.flatnonzero(needed & ~kept)
        gains = {int(j): _gain(weights, inverse, has[:, j], chance) for j in each}
        gone = [j for j, gain in gains.items() if gain <= least]
        if not gone:
            return needed, explained
        out = np.asarray(has[:, gone].any(axis=1))
        if _gain(weights, inverse, out, chance) > least:
            gone = [min(gains, key=gains.__getitem__)]
            out = has[:, gone[0]]
        needed[gone] = False
        left += _gain(weights, inverse, out, 0.0)
        across = np.linalg.solve(inverse[np.ix_(out, out)], inverse[out][:, ~out])
        weights = weights[~out] - across.T @ weights[out]
        inverse = inverse[np.ix_(~out, ~out)] - inverse[~out][:, out] @ across
        has = has[~out]


def _gain(weights: Array, inverse: Array, chosen: Chosen, chance: float) -> float:
    """By how much squared errors would be larger without the chosen terms, beyond `chance` for each."""
    own = weights[chosen]
    return float(own @ np.linalg.solve(inverse[np.ix_(chosen, chosen)], own) - chance * len(own))

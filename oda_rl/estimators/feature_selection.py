"""Feature selection for classes: keeps features that are informative alone or in pairs.

The other features are dropped only if the classes of nearest neighbours then agree better.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from oda_rl._statistics import whole_weight
from oda_rl._types import Array, Labels

# Bins of a feature alone, and in a pair; a feature with up to twice as many values has a bin for each.
PARTS, PAIR_PARTS = 16, 5
# Samples that are counted, and numbers in the tables of all pairs, at most.
N_COUNTED, N_TABLES = 5000, 4_000_000
# A feature to add or drop is searched for only if candidates times those chosen are at most this many.
N_TRIALS = 300
# A feature or pair is informative if its chi-squared exceeds its mean by this many standard deviations.
INFORMATIVE = 6.0
# If any is, single features above this lower limit are kept, too, unless neighbours agree better without
# them: they may be weakly informative. For pairs, of which there are many, only the limit above counts.
PERHAPS_INFORMATIVE = 3.5
# Features are dropped if more samples then have neighbours of their class, by SELECTION_Z standard
# errors of the difference; the majority of NEIGHBOURS decides.
SELECTION_Z, NEIGHBOURS = 3.0, 5
# Up to this number of features, neighbours are found with a k-d tree.
LOW = 8
# The scale factor of a dropped feature relative to a kept one.
UNIMPORTANT = 1e-3

Kept = NDArray[np.bool_]
# Chosen features, and for each sample whether its neighbours then have its label.
_Trial = tuple[Labels, Kept]


def parts_of(samples: Array, n_parts: int) -> list[Labels]:
    """For each feature, the numbers of the bins (n_samples,) that the samples are in."""
    found = []
    for column in samples.T:
        ends = np.unique(column)
        if len(ends) > 2 * n_parts:
            ends = np.unique(np.quantile(column, np.arange(1, n_parts) / n_parts))
            found.append(np.searchsorted(ends, column, side="right"))
        else:
            found.append(np.searchsorted(ends, column))
    return found


def thinned(samples: Array, labels: Labels, weight: Array) -> tuple[Array, Labels, Array]:
    """Leave out random samples of small weights, so that all others count as at least one sample.

    Also returns as how many samples each of the others counts. The neighbours of a sample are then
    those that weigh something. With equal weights all samples are returned, with ones.
    """
    n, weight = len(weight), weight / whole_weight(weight)
    used = np.random.default_rng(n).random(n) < weight
    if not used.all():
        known = np.unique(labels[used], return_inverse=True)[1]
        samples, labels, weight = samples[used], known, weight[used]
    return samples, labels, np.maximum(weight, 1.0)


def informativeness(samples: Array, labels: Labels, weight: Array) -> Array:
    """How informative each feature (n_features,) is about the classes, alone or in a pair.

    Samples count as often as `weight` (n_samples,) says. The unit is the standard deviation of
    chi-squared for features that are independent of the classes.
    """
    n_classes, d = int(labels.max()) + 1, samples.shape[1]
    weight = weight * (weight.sum() / (weight**2).sum())  # the sum is the number of equal weights
    alone = np.zeros(d)
    for j, part in enumerate(parts_of(samples, PARTS)):
        n = int(part.max()) + 1
        table = np.bincount(part * n_classes + labels, weight, n * n_classes)
        alone[j] = _deviations(_chi_squared(table.reshape(n, n_classes)), (n - 1) * (n_classes - 1))
    if d < 2 or (PAIR_PARTS * d) ** 2 * n_classes > N_TABLES:
        return alone
    in_pairs = _in_pairs(samples, labels, weight, n_classes)
    return np.maximum(alone, np.where(in_pairs > INFORMATIVE, in_pairs, 0.0))


def _in_pairs(samples: Array, labels: Labels, weight: Array, n_classes: int) -> Array:
    """What the best pair with each feature adds to the information of its two features alone."""
    d, parts = samples.shape[1], parts_of(samples, PAIR_PARTS)
    sizes = [int(part.max()) + 1 for part in parts]
    first = np.cumsum([0, *sizes])
    rows = np.concatenate([start + part for start, part in zip(first, parts, strict=False)])
    ones = np.zeros((len(samples), first[-1]))
    ones[np.tile(np.arange(len(samples)), d), rows] = 1.0
    # Counts of every part of one feature together with every part of another, class by class.
    weighed = ones * weight[:, None]
    counts = np.stack([weighed[labels == c].T @ ones[labels == c] for c in range(n_classes)], axis=-1)
    blocks = np.add.reduceat(_squares(counts, np.diagonal(counts).sum(axis=1)), first[:-1], axis=0)
    own = np.add.reduceat(blocks, first[:-1], axis=1)  # of all parts of two features
    single = np.array([_chi_squared(counts[i:j, i:j].sum(axis=1)) for i, j in pairwise(first)])
    size = np.array(sizes) - 1
    freedom = np.maximum(np.multiply.outer(size, size) * (n_classes - 1), 1)
    more = _deviations(own - single[:, None] - single[None, :], freedom)
    np.fill_diagonal(more, 0.0)
    return np.asarray(more.max(axis=1))


def _squares(table: NDArray[Any], total: NDArray[Any]) -> Array:
    """Contributions to chi-squared of rows of counts (..., n_classes), with the `total` of all rows."""
    expected = table.sum(axis=-1, keepdims=True) * (total / total.sum())
    return np.asarray(((table - expected) ** 2 / np.maximum(expected, 1e-9)).sum(axis=-1))


def _chi_squared(table: NDArray[Any]) -> float:
    return float(_squares(table, table.sum(axis=0)).sum())


def _deviations(squared: Array | float, freedom: Array | int) -> Array:
    return np.asarray((squared - freedom) / np.sqrt(2.0 * np.maximum(freedom, 1)))


def shifted_distances(samples: Array) -> Array:
    """Squared distances (n_samples, n_samples) up to a constant per row; infinite on the diagonal."""
    product = samples @ samples.T
    norm = np.diag(product).copy()
    product *= -2.0
    product += norm[None, :]
    np.fill_diagonal(product, np.inf)
    return np.asarray(product)


def agreeing(samples: Array, labels: Labels, weight: Array) -> Kept:
    """For each sample, whether most of its nearest other samples, by weight, have its label."""
    n, k = len(samples), min(NEIGHBOURS, len(samples) - 1)
    if samples.shape[1] <= LOW:
        near = cKDTree(samples).query(samples, k + 1)[1]
        itself = near == np.arange(n)[:, None]
        itself[~itself.any(axis=1), k] = True  # not among its own neighbours: many samples are equal
        near = near[~itself].reshape(n, k)
    else:
        near = np.argpartition(shifted_distances(samples), k - 1, axis=1)[:, :k]
    own, votes = labels[near], weight[near]
    votes = np.stack([(votes * (own == c)).sum(axis=1) for c in range(int(labels.max()) + 1)], axis=1)
    return np.asarray(votes.argmax(axis=1) == labels)


def select(
    samples: Array,
    labels: Labels,
    weight: Array,
    tried: Labels,
    scaled: Callable[[Labels], Array],
) -> Kept | None:
    """Which features to keep (n_features,), or None for all.

    Samples count as often as `weight` (n_samples,) says. `tried` are the indices of samples on which
    selections are compared: features are dropped only if more of these then have neighbours of their
    class. `scaled` returns these samples, scaled for distances, with only the features whose numbers it
    is given.
    """
    d = samples.shape[1]
    if d < 2 or len(np.unique(labels)) < 2:
        return None
    step = -(-len(samples) // N_COUNTED)
    found = informativeness(samples[::step], labels[::step], weight[::step])
    if not (found > INFORMATIVE).any():
        return None
    chosen, own = np.flatnonzero(found > PERHAPS_INFORMATIVE), (labels[tried], weight[tried])
    doubtful = chosen[found[chosen] <= INFORMATIVE]
    if len(chosen) == d and len(doubtful) == 0:
        return None

    def trial(chosen: Labels) -> _Trial:
        return chosen, agreeing(scaled(chosen), *own)

    # Some seem informative by chance; others are informative only together with the chosen ones.
    best = _with_changes(trial(chosen), doubtful, trial, own[1])
    if not is_clearly_more(agreeing(scaled(np.arange(d)), *own), best[1], own[1]):
        return None
    best = _with_changes(best, np.setdiff1d(np.arange(d), best[0]), trial, own[1])
    kept = np.zeros(d, dtype=np.bool_)
    kept[best[0]] = True
    return kept


def _with_changes(
    best: _Trial, candidates: Labels, trial: Callable[[Labels], _Trial], weight: Array
) -> _Trial:
    """Add or drop the best of the candidates, one by one, while neighbours then agree clearly better."""
    while 0 < len(candidates) <= N_TRIALS // len(best[0]):
        trials = [trial(np.setxor1d(best[0], j)) for j in candidates]
        k = int(np.argmax([weight[right].sum() for _, right in trials]))
        if not is_clearly_more(best[1], trials[k][1], weight):
            break
        best, candidates = trials[k], np.delete(candidates, k)
    return best


def is_clearly_more(before: Kept, after: Kept, weight: Array, z: float = SELECTION_Z) -> bool:
    """Whether more of the same samples are right `after` than `before`, by `z` standard errors."""
    gained, lost, changed = weight[after & ~before], weight[before & ~after], weight[before != after]
    return bool(gained.sum() - lost.sum() > z * np.sqrt((changed**2).sum()))

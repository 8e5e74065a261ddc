"""Equal rows of data, which are copies of a sample or draws of a discrete distribution."""

from typing import NamedTuple

import numpy as np

from oda_rl._effects import LEVELS
from oda_rl._types import Array, Labels
from oda_rl.estimators.targets import Data

# Rows that occur more often than this on average are taken for draws of a discrete distribution, unless
# two features tell all of them apart.
MOST_COPIES = 10


def without_copies(data: Data) -> Data:
    """Keep the first of equal rows, with the weight of all its copies; the mean weight is unchanged.

    Otherwise cross-validation that leaves out a sample of a bootstrap, or of data with repeated rows,
    would keep its copies in the training set. The data are returned unchanged if equal rows have
    different targets, or if rows may be draws of a discrete distribution: then new samples repeat the
    same values as well.
    """
    copies, n = _copies(data), len(data.weight)
    if copies is None or _may_be_draws(data.samples[copies.first], n):
        return data
    order = np.argsort(copies.first)
    weight = np.bincount(copies.place, data.weight)[order] / (n / len(order))
    return data.take(copies.first[order])._replace(weight=weight)


class Copies(NamedTuple):
    """Equal rows: the first of each kind (n_distinct,), and the kind of each sample (n_samples,)."""

    first: Labels
    place: Labels


def few_with_copies(data: Data) -> Copies | None:
    """The copies of few rows that `without_copies` does not join, though features tell rows apart.

    Up to `LEVELS` rows may be draws of a discrete distribution, so they are learned from as they are.
    But it is unlikely that two of its features each have another value in every row: cross-validation
    then leaves out a row with its copies. None if there are no copies, or if they rather are draws.
    """
    copies = _copies(data)
    if copies is None or len(data.weight) > MOST_COPIES * len(copies.first):
        return None
    n_values = np.array([len(np.unique(x)) for x in data.samples[copies.first].T])
    return copies if (n_values == len(copies.first)).sum() > 1 else None


def _copies(data: Data) -> Copies | None:
    """Equal rows; None if all differ, or if equal rows have different targets."""
    rows = np.ascontiguousarray(data.samples + 0.0)  # turns -0.0 into 0.0, since bytes are compared
    n, d = rows.shape
    # If all hashes of the rows differ, so do the rows: this is faster than sorting the rows.
    bits = rows.view(np.uint64)
    odd = 2 * np.random.default_rng(n).integers(2**63, size=d, dtype=np.uint64) + 1
    if len(np.unique((bits ^ bits >> np.uint64(32)) @ odd)) == n:
        return None
    whole = rows.view(np.dtype((np.void, rows.itemsize * d)))[:, 0]
    _, first, place = np.unique(whole, return_index=True, return_inverse=True)
    unlike = data.targets[first[place]] != data.targets
    return None if len(first) == n or unlike.any() else Copies(first, place)


def _may_be_draws(rows: Array, n: int) -> bool:
    """Whether n samples with the distinct rows `rows` may be draws of a discrete distribution.

    They may be if the features have fewer distinct values in total than there are rows, and, if each row
    occurs more than `MOST_COPIES` times on average, unless two features each have another value in every
    row. Features with at most `LEVELS` values do not count here.
    """
    many, told, apart = n > MOST_COPIES * len(rows), 0, 0
    for x in rows.T:
        n_values = len(np.unique(x))
        told += n_values if n_values > LEVELS else 0
        apart += LEVELS < n_values == len(rows)
        if apart > 1 or (told >= len(rows) and not many):
            return False
    return True

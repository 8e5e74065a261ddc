"""Removal of duplicate samples, which would make validation on samples left out too optimistic."""

import numpy as np

from oda_rl._effects import LEVELS
from oda_rl._types import Array
from oda_rl.estimators.targets import Data

# Rows that occur more often than this on average are taken for draws of a discrete distribution.
MOST_COPIES = 10


def without_copies(data: Data) -> Data:
    """Keep the first of equal rows, with the weight of all its copies; the mean weight is unchanged.

    Otherwise cross-validation that leaves out a sample of a bootstrap, or of data with repeated rows,
    would keep its copies in the training set. The data are returned unchanged if equal rows have
    different targets, or if rows may be draws of a discrete distribution: then new samples repeat the
    same values as well.
    """
    rows = np.ascontiguousarray(data.samples + 0.0)  # turns -0.0 into 0.0, since bytes are compared
    n, d = rows.shape
    # If all hashes of the rows differ, so do the rows: this is faster than sorting the rows.
    bits = rows.view(np.uint64)
    odd = 2 * np.random.default_rng(n).integers(2**63, size=d, dtype=np.uint64) + 1
    if len(np.unique((bits ^ bits >> np.uint64(32)) @ odd)) == n:
        return data
    whole = rows.view(np.dtype((np.void, rows.itemsize * d)))[:, 0]
    _, first, place = np.unique(whole, return_index=True, return_inverse=True)
    unlike = data.targets[first[place]] != data.targets
    if len(first) == n or unlike.any() or _may_be_draws(rows[first], n):
        return data
    order = np.argsort(first)
    weight = np.bincount(place, data.weight)[order] / (n / len(first))
    return data.take(first[order])._replace(weight=weight)


def _may_be_draws(rows: Array, n: int) -> bool:
    """Whether n samples with the distinct rows `rows` may be draws of a discrete distribution.

    They may be if each row occurs more than `MOST_COPIES` times on average, or if the features have
    fewer distinct values in total than there are rows. Features with at most `LEVELS` values do not
    count here.
    """
    if n > MOST_COPIES * len(rows):
        return True
    told = 0
    for x in rows.T:
        n_values = len(np.unique(x))
        told += n_values if n_values > LEVELS else 0
        if told >= len(rows):
            return False
    return True

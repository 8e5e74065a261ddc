"""Samples that came several times: joined before anything is learned from those left out."""

import numpy as np

from oda_rl._effects import LEVELS
from oda_rl._types import Array
from oda_rl.estimators.targets import Data

# Rows of which there are more than so many, on average, are no copies of one another.
MOST_COPIES = 10


def without_copies(data: Data) -> Data:
    """Each row once, where it came first, with the weight of all its copies; the mean weight stays.

    What leaves out one sample of a bootstrap, or of rows that came twice, would leave its twin in.
    The data stay as they are where some rows that are alike have unlike targets, or where they may be
    draws of a discrete distribution: its values are as likely to come again in new samples.
    """
    rows = np.ascontiguousarray(data.samples + 0.0)  # no -0.0: bytes are compared
    n, d = rows.shape
    # Sums of bits, mixed, tell for sure that rows differ, in less time than sorting them.
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
    """Whether n samples, of which only `rows` differ, may be draws of a discrete distribution.

    So they may where there are many of each, or where features have too few values for each row to have
    one of its own, all together: those of features with no more than `LEVELS` tell nothing.
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

"""Rows of samples that are equal: repeated measurements, or draws of a discrete distribution."""

from typing import NamedTuple

import numpy as np

from oda_rl._effects import LEVELS
from oda_rl._types import Array, Labels

# Rows that occur more often than this on average are taken for draws of a discrete distribution, unless
# two features tell all of them apart.
MOST_COPIES = 10


class EqualRows(NamedTuple):
    """Equal rows: the first of each kind (n_distinct,), and the kind of each sample (n_samples,)."""

    first: Labels
    place: Labels


def equal_rows(samples: Array) -> EqualRows | None:
    """Equal rows; None if all differ."""
    rows = np.ascontiguousarray(samples + 0.0)  # turns -0.0 into 0.0, since bytes are compared
    n, d = rows.shape
    # If all hashes of the rows differ, so do the rows: this is faster than sorting the rows.
    bits = rows.view(np.uint64)
    odd = 2 * np.random.default_rng(n).integers(2**63, size=d, dtype=np.uint64) + 1
    if len(np.unique((bits ^ bits >> np.uint64(32)) @ odd)) == n:
        return None
    whole = rows.view(np.dtype((np.void, rows.itemsize * d)))[:, 0]
    _, first, place = np.unique(whole, return_index=True, return_inverse=True)
    return None if len(first) == n else EqualRows(first, place)


def may_be_draws(rows: Array, n: int) -> bool:
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


def replicates(samples: Array) -> EqualRows | None:
    """Equal rows, which are repeated measurements, or None if all differ or may be draws.

    Their targets may differ. A tree that is validated on samples whose replicates it has learned from
    would seem as good as these are alike.
    """
    equal = equal_rows(samples)
    return None if equal is None or may_be_draws(samples[equal.first], len(samples)) else equal


def means_of_replicates(samples: Array, outputs: Array, weight: Array) -> tuple[Array, Array, Array]:
    """Distinct rows with the mean outputs (n, n_outputs) and the total weight of their replicates.

    A ridge that is chosen by leaving out single samples would be too small for replicates.
    """
    same = replicates(samples)
    if same is None:
        return samples, outputs, weight
    total = np.bincount(same.place, weight)
    sums = np.stack([np.bincount(same.place, weight * y) for y in outputs.T], axis=1)
    kept = total > 0.0
    means = sums[kept] / total[kept, None]
    return samples[same.first[kept]], means, total[kept] * (kept.sum() / total.sum())

"""Equal rows of data, which are copies of a sample or draws of a discrete distribution."""

import numpy as np

from oda_rl._replicates import MOST_COPIES, EqualRows, equal_rows, may_be_draws
from oda_rl.estimators.targets import Data


def without_copies(data: Data) -> Data:
    """Keep the first of equal rows, with the weight of all its copies; the mean weight is unchanged.

    Otherwise cross-validation that leaves out a sample of a bootstrap, or of data with repeated rows,
    would keep its copies in the training set. The data are returned unchanged if equal rows have
    different targets, or if rows may be draws of a discrete distribution: then new samples repeat the
    same values as well.
    """
    copies, n = _copies(data), len(data.weight)
    if copies is None or may_be_draws(data.samples[copies.first], n):
        return data
    order = np.argsort(copies.first)
    weight = np.bincount(copies.place, data.weight)[order] / (n / len(order))
    return data.take(copies.first[order])._replace(weight=weight)


def few_with_copies(data: Data) -> EqualRows | None:
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


def _copies(data: Data) -> EqualRows | None:
    """Equal rows; None if all differ, or if equal rows have different targets."""
    equal = equal_rows(data.samples)
    if equal is None or (data.targets[equal.first[equal.place]] != data.targets).any():
        return None
    return equal

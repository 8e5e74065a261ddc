"""Ridge regression whose ridge is chosen by samples left out one by one."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from oda_rl._threads import one_thread
from oda_rl._types import Array
from oda_rl.codebook.divergences import SMALLEST_SQUARE

# Ridges tried by cross-validation.
RIDGES = np.geomspace(1e-8, 1e3, 34)
# No less is left of a sample that is predicted without itself.
LEAST_OF_ONE = 1e-6
# Columns, or samples where there are more columns, of the largest system that is solved.
LARGEST = 2500


def tried(n: int) -> slice:
    """Which of n samples ridges are tried on: some of very many, which may be in some order."""
    return slice(None, None, -(-n // LARGEST))


class Ridge(NamedTuple):
    """A ridge regression: its solution, its leverages of the samples tried, its cross-validation."""

    solution: Array  # (n_columns, n_outputs)
    leverage: Array  # (n_tried,)
    score: float


def solve_primal(
    gram: Array,
    moments: Array,
    columns: Array,
    target: Array,
    ridge: float | None,
    before: Array,
    free: Array | float,
    unit: float = 1.0,
) -> Ridge:
    """Ridge regression from products of columns, of which some samples' are at hand to try ridges on.

    Ridges that are tried are in a `unit`; `before` (n_tried,) are leverages of what was fitted before,
    which leave a part `free` of each sample to be told.
    """
    with one_thread():
        values, vectors = np.linalg.eigh(gram)
    values, projected = np.maximum(values, 0.0), vectors.T @ moments
    mapped = columns @ vectors
    best, leverage, score = _choose_ridge(values, projected, mapped, target, ridge, before, free, unit)
    return Ridge(vectors @ (projected / (values + best)[:, None]), leverage, score)


def solve_in_blocks(
    columns_of: Callable[[slice], Array],
    n_columns: int,
    target: Array,
    block: int,
    ridge: float | None,
    before: Array,
) -> tuple[Ridge, Array]:
    """The same of columns that are made for a `block` of samples at a time: all may not fit in memory.

    Returns the columns of the samples tried, too.
    """
    n = len(target)
    gram, moments = np.zeros((n_columns, n_columns)), np.zeros((n_columns, target.shape[1]))
    for start in range(0, n, block):
        part = slice(start, start + block)
        columns = columns_of(part)
        gram += columns.T @ columns
        moments += columns.T @ target[part]
    rows = tried(n)
    told = columns if n <= min(block, LARGEST) else columns_of(rows)
    return solve_primal(gram, moments, told, target[rows], ridge, before, 1.0 - before), told


def solve_dual(
    columns: Array,
    target: Array,
    ridge: float | None,
    before: Array,
    free: Array | float,
    unit: float = 1.0,
) -> Ridge:
    """The same where there are more columns than samples, all of which are tried."""
    with one_thread():
        values, vectors = np.linalg.eigh(columns @ columns.T)
    told = values > 1e-10 * max(float(values[-1]), SMALLEST_SQUARE)
    values, vectors = values[told], vectors[:, told]
    inside, mapped = vectors.T @ target, vectors * np.sqrt(values)
    projected = np.sqrt(values)[:, None] * inside
    best, leverage, score = _choose_ridge(values, projected, mapped, target, ridge, before, free, unit)
    return Ridge(columns.T @ (vectors @ (inside / (values + best)[:, None])), leverage, score)


def _choose_ridge(
    values: Array,
    projected: Array,
    mapped: Array,
    target: Array,
    ridge: float | None,
    before: Array,
    free: Array | float,
    unit: float,
) -> tuple[float, Array, float]:
    """The ridge with the least squared errors of samples left out one by one, leverages, that error.

    `mapped` (n_tried, n_values) are columns along the eigenvectors. Generalised cross-validation, which
    has the mean of the leverages in place of each, knows nothing of samples that a cell bends to.
    (Allen, "The relationship between variable selection and data augmentation", 1974.)
    """
    ridges = RIDGES * unit if ridge is None else np.array([max(ridge, RIDGES[0])])
    shrunk = values[:, None] + ridges
    leverage = before[:, None] + np.reshape(free, (-1, 1)) * (mapped**2 @ (1.0 / shrunk))
    residuals = target[:, :, None] - np.tensordot(mapped, projected[:, :, None] / shrunk[:, None], 1)
    scores = left_out(residuals, leverage)
    # Towards interpolation both a residual and what is left vanish, and rounding has their ratio.
    vanish = leverage.max(axis=0) > 1.0 - LEAST_OF_ONE
    best = np.lexsort((scores, vanish))[0]
    return float(ridges[best]), leverage[:, best], float(scores[best])


def left_out(residuals: Array, leverage: Array) -> Array:
    """Mean squared errors (n_ridges,) of samples left out one by one, summed over outputs.

    `residuals` are (n_tried, n_outputs, n_ridges), leverages (n_tried, n_ridges).
    """
    errors = errors_left_out(residuals, leverage)
    return np.asarray((errors**2).sum(axis=(0, 1)) / len(errors))


def errors_left_out(residuals: Array, leverage: Array) -> Array:
    """What residuals (n_tried, n_outputs, ...) would be of samples that were left out one by one."""
    return np.asarray(residuals / np.maximum(1.0 - leverage, LEAST_OF_ONE)[:, None])

"""Ridge regression whose ridge is chosen by leave-one-out cross-validation, in a single thread."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import NamedTuple

import numpy as np
from threadpoolctl import ThreadpoolController

from oda_rl._types import Array
from oda_rl.codebook.divergences import SMALLEST_SQUARE

# Ridges tried by cross-validation.
RIDGES = np.geomspace(1e-8, 1e3, 34)
# Lower bound of 1 - leverage, by which residuals are divided for leave-one-out errors.
LEAST_OF_ONE = 1e-6
# Order of the largest system that is solved: columns, or samples if there are more columns.
MAX_ORDER = 2500


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()  # searches all loaded libraries, which takes milliseconds


def one_thread() -> AbstractContextManager[object]:
    """Limit BLAS to one thread, for systems of a few hundred unknowns, which are too small for more.

    BLAS starts a thread for each core, and these wait for one another in busy loops: when other programs
    used the cores, too, a fit of 0.1 s took 5 to 14 s.
    """
    found: AbstractContextManager[object] = _libraries().limit(limits=1, user_api="blas")
    return found


@contextmanager
def learning() -> Iterator[None]:
    """Learn in one thread of BLAS; shares of cells may vanish, even after `np.seterr(all="raise")`."""
    with one_thread(), np.errstate(under="ignore"):
        yield


def tried(n: int) -> slice:
    """Which of n samples ridges are tried on: at most MAX_ORDER, spread evenly as they may be sorted."""
    return slice(None, None, -(-n // MAX_ORDER))


class Ridge(NamedTuple):
    """A ridge regression: its solution, leverages of the samples tried, and leave-one-out error."""

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
    """Ridge regression from `gram` and `moments`, the products of all columns.

    `columns` and `target` are rows of the samples on which ridges are tried. The ridges tried are
    multiplied by `unit`. `before` (n_tried,) are the leverages of an earlier fit, to which those of this
    fit are added, times `free`.
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
    """`solve_primal` with columns made for a `block` of samples at a time, to save memory.

    Returns the ridge regression, and the columns of the samples on which ridges were tried.
    """
    n, blocks = len(target), []
    gram, moments = np.zeros((n_columns, n_columns)), np.zeros((n_columns, target.shape[1]))
    for start in range(0, n, block):
        part = slice(start, start + block)
        columns = columns_of(part)
        gram += columns.T @ columns
        moments += columns.T @ target[part]
        if n <= MAX_ORDER:  # ridges are tried on all samples
            blocks.append(columns)
    rows = tried(n)
    told = np.concatenate(blocks) if blocks else columns_of(rows)
    return solve_primal(gram, moments, told, target[rows], ridge, before, 1.0 - before), told


def solve_dual(
    columns: Array,
    target: Array,
    ridge: float | None,
    before: Array,
    free: Array | float,
    unit: float = 1.0,
) -> Ridge:
    """Ridge regression with more columns than samples; ridges are tried on all samples."""
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
    """The ridge with the least leave-one-out error, the leverages, and that error.

    `mapped` (n_tried, n_values) are columns along the eigenvectors. Generalised cross-validation, which
    replaces each leverage by their mean, would miss single samples that a cell fits too closely.
    (Allen, "The relationship between variable selection and data augmentation", 1974.)
    """
    ridges = RIDGES * unit if ridge is None else np.array([max(ridge, RIDGES[0])])
    shrunk = values[:, None] + ridges
    leverage = before[:, None] + np.reshape(free, (-1, 1)) * (mapped**2 @ (1.0 / shrunk))
    residuals = target[:, :, None] - np.tensordot(mapped, projected[:, :, None] / shrunk[:, None], 1)
    scores = left_out(residuals, leverage)
    # Near interpolation both a residual and 1 - leverage vanish, and rounding dominates their ratio.
    vanish = leverage.max(axis=0) > 1.0 - LEAST_OF_ONE
    best = np.lexsort((scores, vanish))[0]
    return float(ridges[best]), leverage[:, best], float(scores[best])


def left_out(residuals: Array, leverage: Array) -> Array:
    """Mean squared leave-one-out errors (n_ridges,), summed over outputs.

    `residuals` are (n_tried, n_outputs, n_ridges), leverages (n_tried, n_ridges).
    """
    errors = errors_left_out(residuals, leverage)
    return np.asarray((errors**2).sum(axis=(0, 1)) / len(errors))


def errors_left_out(residuals: Array, leverage: Array) -> Array:
    """Leave-one-out errors from residuals (n_tried, n_outputs, ...)."""
    return np.asarray(residuals / np.maximum(1.0 - leverage, LEAST_OF_ONE)[:, None])

"""What tables and pictures say of many runs.

The interquartile mean with stratified bootstrap intervals and performance profiles follow R. Agarwal,
M. Schwarzer, P. S. Castro, A. Courville and M. G. Bellemare: *Deep Reinforcement Learning at the Edge of
the Statistical Precipice*, NeurIPS 2021, Section 4.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
# A statistic takes an array of values and the axis that it reduces.
Statistic = Callable[..., Any]


def interquartile_mean(values: ArrayLike, axis: int = -1) -> Any:
    """Mean of the middle half (IQM), along an axis; of one row a plain float."""
    ordered = np.sort(np.asarray(values, dtype=np.float64), axis=axis)
    n = ordered.shape[axis]
    cut = n // 4
    means = np.take(ordered, np.arange(cut, n - cut), axis=axis).mean(axis=axis)
    return float(means) if np.ndim(means) == 0 else means


def bootstrap_interval(
    values: ArrayLike,
    statistic: Statistic = interquartile_mean,
    level: float = 0.95,
    resamples: int = 2000,
) -> tuple[float, float]:
    """Percentile bootstrap over seeds: the interval that the statistic falls in with this level."""
    low, high = stratified_interval([values], statistic, level, resamples)
    return float(low), float(high)


def stratified_interval(
    strata: Sequence[ArrayLike],
    statistic: Statistic = interquartile_mean,
    level: float = 0.95,
    resamples: int = 2000,
) -> tuple[Any, Any]:
    """Percentile bootstrap, stratified: runs are drawn anew within each task, never across tasks.

    Parameters
    ----------
    strata : sequence of arrays
        For each task one value, or one row of values, per run; tasks may have different numbers of runs.
    statistic : callable, default=interquartile_mean
        `statistic(values, axis=1)` of the values of all tasks together, shape (resamples, runs of all
        tasks, ...).
    level : float, default=0.95
        Share of the resamples inside the interval.
    resamples : int, default=2000
        How many; the same ones in every call.

    Returns
    -------
    low, high : float or array
        Ends of the interval; arrays if runs have rows of values, with an interval for each column.
    """
    rng = np.random.default_rng(0)
    drawn = []
    for stratum in strata:
        data = np.asarray(stratum, dtype=np.float64)
        drawn.append(data[rng.integers(len(data), size=(resamples, len(data)))])
    found = statistic(np.concatenate(drawn, axis=1), axis=1)
    low, high = np.quantile(found, [0.5 - level / 2, 0.5 + level / 2], axis=0)
    return low, high


def performance_profile(
    strata: Sequence[ArrayLike], thresholds: ArrayLike, level: float = 0.95, resamples: int = 2000
) -> tuple[Array, Array, Array]:
    """Fraction of the runs of all tasks whose score is above each threshold, and its interval.

    Parameters
    ----------
    strata : sequence of arrays
        Scores of the runs, one array per task.
    thresholds : array of shape (n,)
        Scores to compare with.
    level, resamples
        As for `stratified_interval`.

    Returns
    -------
    profile, low, high : arrays of shape (n,)
    """
    tau = np.asarray(thresholds, dtype=np.float64)
    above = [np.asarray(scores, dtype=np.float64)[:, None] > tau for scores in strata]
    low, high = stratified_interval(above, np.mean, level, resamples)
    return np.concatenate(above).mean(axis=0), low, high


def first_pass_and_hold(curve: Sequence[float], threshold: float) -> tuple[int | None, float]:
    """Index of the first evaluation at the threshold, and the share from there on that stay there."""
    passed = np.asarray(curve) >= threshold
    if not passed.any():
        return None, 0.0
    first = int(passed.argmax())
    return first, float(passed[first:].mean())

"""Timing of calls, and statistics of runs over seeds and tasks.

The interquartile mean with stratified bootstrap intervals and performance profiles follow R. Agarwal,
M. Schwarzer, P. S. Castro, A. Courville and M. G. Bellemare: *Deep Reinforcement Learning at the Edge of
the Statistical Precipice*, NeurIPS 2021, Section 4. A stratum holds the runs of one task: the bootstrap
resamples runs within each task, never across tasks.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from scipy.stats import bootstrap, trim_mean

from oda_rl._types import Array

Result = TypeVar("Result")
Clock = Callable[[], float]


def timed(
    function: Callable[..., Result], *arguments: Any, clock: Clock = time.perf_counter
) -> tuple[Result, float]:
    """Call a function; returns its result and the seconds that it took."""
    begun = clock()
    result = function(*arguments)
    return result, clock() - begun


def repeated_seconds(
    function: Callable[..., object], *arguments: Any, repeats: int = 5, clock: Clock = time.perf_counter
) -> list[float]:
    """The seconds of several calls. Their minimum estimates the cost when nothing else runs."""
    return [timed(function, *arguments, clock=clock)[1] for _ in range(repeats)]


def passes_over(model: Any, passes: int, seed: int, *parts: Array) -> Iterator[float]:
    """Stream all samples to a model in random order, `passes` times; yields the seconds of each pass."""
    rng = np.random.default_rng(seed)
    for _ in range(passes):
        rows = rng.permutation(len(parts[0]))
        yield timed(model.partial_fit, *(part[rows] for part in parts))[1]


def distortion(samples: Array, codevectors: Array) -> float:
    """Mean squared distance of samples to the nearest codevector."""
    return float(cdist(samples, codevectors, "sqeuclidean").min(axis=1).mean())


def interquartile_mean(values: ArrayLike, axis: int = 0) -> Any:
    """Mean of the middle half (IQM), along an axis."""
    return trim_mean(values, 0.25, axis)


def interval(
    strata: Sequence[ArrayLike],
    statistic: Callable[..., Any] = interquartile_mean,
    level: float = 0.95,
    resamples: int = 2000,
) -> tuple[Any, Any]:
    """Percentile bootstrap interval of a statistic over the runs of all tasks together.

    A stratum has one value, or one row of values, for each run of a task; tasks may have different
    numbers of runs. The statistic is called as `statistic(values, axis=...)`. Every call draws the same
    resamples. The spread of a task with a single run is unknown: its value is the same in all
    resamples. If all tasks have a single run, both ends are the statistic itself.
    """
    samples = [np.asarray(stratum, dtype=np.float64) for stratum in strata]
    drawn = [sample for sample in samples if len(sample) > 1]
    alone = [np.moveaxis(sample, 0, -1) for sample in samples if len(sample) == 1]

    def pooled(*resampled: Array, axis: int) -> Any:
        front = resampled[0].shape[:-1]
        same = [
            np.broadcast_to(np.expand_dims(one, tuple(range(one.ndim - 1, len(front)))), (*front, 1))
            for one in alone
        ]
        return statistic(np.concatenate([*resampled, *same], axis=axis), axis=axis)

    if not drawn:
        value = statistic(np.concatenate(samples), axis=0)
        return value, value
    found = bootstrap(
        drawn,
        pooled,
        n_resamples=resamples,
        axis=0,
        confidence_level=level,
        method="percentile",
        vectorized=True,
        rng=np.random.default_rng(0),
    ).confidence_interval
    return found.low, found.high


def performance_profile(
    strata: Sequence[ArrayLike], thresholds: ArrayLike, level: float = 0.95, resamples: int = 2000
) -> tuple[Array, Array, Array]:
    """Fraction of the runs of all tasks with scores above each threshold, and its interval."""
    tau = np.asarray(thresholds, dtype=np.float64)
    above = [np.asarray(scores, dtype=np.float64)[:, None] > tau for scores in strata]
    return np.concatenate(above).mean(axis=0), *interval(above, np.mean, level, resamples)


def first_pass_and_hold(curve: Sequence[float], threshold: float) -> tuple[int | None, float]:
    """Index of the first evaluation that reaches the threshold, and the share from there on that do."""
    passed = np.asarray(curve) >= threshold
    if not passed.any():
        return None, 0.0
    first = int(passed.argmax())
    return first, float(passed[first:].mean())

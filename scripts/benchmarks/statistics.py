"""What tables and pictures say of many runs."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike


def interquartile_mean(values: ArrayLike) -> float:
    """Mean of the middle half (IQM)."""
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    cut = len(ordered) // 4
    return float(ordered[cut : len(ordered) - cut].mean())


def bootstrap_interval(
    values: Sequence[float],
    statistic: Callable[[ArrayLike], float] = interquartile_mean,
    level: float = 0.95,
    resamples: int = 2000,
) -> tuple[float, float]:
    """Percentile bootstrap over seeds: the interval that the statistic falls in with this level."""
    rng = np.random.default_rng(0)
    data = np.asarray(values, dtype=np.float64)
    drawn = data[rng.integers(len(data), size=(resamples, len(data)))]
    found = np.array([statistic(row) for row in drawn])
    low, high = np.quantile(found, [0.5 - level / 2, 0.5 + level / 2])
    return float(low), float(high)


def first_pass_and_hold(curve: Sequence[float], threshold: float) -> tuple[int | None, float]:
    """Index of the first evaluation at the threshold, and the share from there on that stay there."""
    passed = np.asarray(curve) >= threshold
    if not passed.any():
        return None, 0.0
    first = int(passed.argmax())
    return first, float(passed[first:].mean())

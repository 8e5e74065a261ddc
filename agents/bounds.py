# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Bounds on the effect of a single outlier among observations or rewards.

A value beyond all previous ones is clipped to a limit that follows from these. The limit grows with each
such value, so that a signal that has really become larger is followed within a few steps. Values within
the limits are not changed.
"""

import numpy as np

from oda_rl._jit import inline_kernel

# Each coordinate of an observation is clipped at this many widths beyond the ends of its range so far.
# The width of the range is at least 1, in scaled units.
MARGIN = 1.0
# Rewards are clipped at GAIN, and losses at LOSS, times the discounted sum of the second largest reward
# at every step. The limit for losses is tighter: after one that is too large, its action is avoided, and
# the value never corrected.
GAIN, LOSS = 10.0, 1.0
# Errors are clipped at this multiple of the largest recent error, or at the second largest reward.
RISE = 4.0
# The horizon 1 / (1 - gamma) of that sum is clipped to this range, in steps.
SHORTEST, LONGEST = 10.0, 1000.0
# Collected observations are clipped at FAR times the distance of the first and last percentile beyond
# these. If there are more than MANY, they are also clipped at `MARGIN` widths beyond all but the ODD
# outermost at each end.
FAR, ODD, MANY = 20.0, 2, 100
# Largest scaled coordinate: next to a larger one, rounding would hide all differences of the others.
FARTHEST = 1e12
# A larger error means that the values have diverged. With smaller ones a model file can still hold them.
LARGEST_ERROR = 1e50


@inline_kernel
def keep_inside(z, lowest, highest):
    """Clip a scaled coordinate at `MARGIN` widths beyond the ends of its range so far."""
    reach = MARGIN * max(highest - lowest, 1.0)
    return min(max(z, lowest - reach), highest + reach)


@inline_kernel
def bound_reward(reward, gamma, figures, first):
    """Clip a reward to the credible range, and note it in `figures`.

    The four entries of `figures` from `first` on are the largest and the second largest absolute reward
    so far, and the largest and the second largest positive reward. A single outlier never raises the
    second largest. While the second largest absolute reward is 0, as at the start, nothing is clipped.
    """
    horizon = min(max(1.0 / max(1.0 - gamma, 1e-12), SHORTEST), LONGEST)
    largest = figures[first + 1] * horizon
    if largest > 0.0:
        reward = min(max(reward, -LOSS * largest), GAIN * largest)
    for pair in range(first, first + 4, 2):
        size = abs(reward) if pair == first else reward
        figures[pair + 1] = max(figures[pair + 1], min(figures[pair], size))
        figures[pair] = max(figures[pair], size)
    return reward


@inline_kernel
def bound_error(error, largest, reward):
    """Clip an error to the credible range.

    `largest` is the largest recent absolute error; if it is 0, nothing is clipped. `reward` is the
    second largest absolute reward so far: errors up to it are never clipped, so that a rare reward, such
    as that at the goal of a maze, counts in full.
    """
    if largest > 0.0:
        limit = max(RISE * largest, reward)
        return min(max(error, -limit), limit)
    return error


def cut_outliers(seen):
    """Clip observations (n, n_features) that are far beyond the rest, in each coordinate.

    The rest lies between the first and last percentile. If these are equal, as for a flag that is rarely
    set, it is all but the smallest and the largest value.
    """
    if len(seen) < 4:
        return seen
    low, high = np.percentile(seen, [1.0, 99.0], axis=0)
    still, ranked = low == high, np.sort(seen, axis=0)
    low, high = np.where(still, ranked[1], low), np.where(still, ranked[-2], high)
    reach = FAR * (high - low)
    lowest, highest = find_odd(ranked)
    return np.clip(seen, np.maximum(low - reach, lowest), np.minimum(high + reach, highest))


def cut_odd(seen):
    """Clip the few observations (n, n_features) that are far beyond all others.

    Regions that are visited repeatedly are kept, such as initial states far from the later ones.
    """
    return np.clip(seen, *find_odd(np.sort(seen, axis=0)))


def find_odd(ranked):
    """Low and high limits beyond which sorted observations (n, n_features) are odd; may be infinite."""
    low, high = np.full((2, ranked.shape[1]), [[-np.inf], [np.inf]])
    if len(ranked) > MANY:
        least, most = ranked[ODD], ranked[-1 - ODD]
        reach = MARGIN * (most - least)
        # a coordinate that is constant but for these few may be a flag
        low = np.where(reach > 0.0, least - reach, low)
        high = np.where(reach > 0.0, most + reach, high)
    return low, high

# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""What bounds the effect of a single outlier among observations or rewards.

What is unheard-of counts only as far as what was seen before makes it credible, and that grows by its
arrival: a signal that has really become larger is followed within a few steps, at no loss where nothing
is out of bounds.
"""

import numpy as np

from oda_rl._jit import inline_kernel

# An observation counts as at most this many widths of what was seen beyond its ends, in each coordinate.
# A coordinate has a width of 1 at least, in scaled units.
MARGIN = 1.0
# A reward counts as at most this many times what the second largest so far would come to for ever; a
# loss as no more than that, as what is avoided from then on is never found to be better.
GAIN, LOSS = 10.0, 1.0
# An error counts as at most this many times the largest of late, or as the second largest reward.
RISE = 4.0
# For ever is at least, and at most, this many steps.
SHORTEST, LONGEST = 10.0, 1000.0
# Of observations at hand, what is so many times their distance beyond the first and last percentile is
# cut, and what is `MARGIN` widths beyond all others but so many at each end, if there are many.
FAR, ODD, MANY = 20.0, 2, 100
# A scaled coordinate ends at some `FARTHEST`: beside a larger one nothing else could be told apart.
FARTHEST = 1e12
# No value is within reach of an error beyond this: the values have diverged. A file takes what smaller
# errors leave.
LARGEST_ERROR = 1e50


@inline_kernel
def keep_inside(z, lowest, highest):
    """A scaled coordinate, at most `MARGIN` widths of what was seen beyond its ends."""
    reach = MARGIN * max(highest - lowest, 1.0)
    return min(max(z, lowest - reach), highest + reach)


@inline_kernel
def bound_reward(reward, gamma, figures, first):
    """The reward as far as it is credible.

    The four entries of `figures` from `first` on are the sizes of the largest and of the second largest
    reward so far, and the largest and the second largest reward above 0: a single one never raises the
    second. Where the second is 0, as before there was any reward, anything is credible.
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
    """An error as far as it is credible.

    `largest` is the size of the largest error of late; where it is 0, anything is credible. `reward` is
    that of the second largest reward so far: what is rare, as the goal of a maze, always counts in full.
    """
    if largest > 0.0:
        limit = max(RISE * largest, reward)
        return min(max(error, -limit), limit)
    return error


def cut_outliers(seen):
    """Observations (n, n_features) without what is far beyond the rest, in each coordinate.

    Of one that hardly ever moves, such as a flag, the rest is all but the smallest and the largest.
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
    """Observations (n, n_features) without the few that are far beyond all others.

    What is visited time and again stays, such as the beginnings of episodes that rest somewhere else.
    """
    return np.clip(seen, *find_odd(np.sort(seen, axis=0)))


def find_odd(ranked):
    """Beyond what observations (n, n_features), in order, are odd, low and high; infinite if none is."""
    low, high = np.full((2, ranked.shape[1]), [[-np.inf], [np.inf]])
    if len(ranked) > MANY:
        least, most = ranked[ODD], ranked[-1 - ODD]
        reach = MARGIN * (most - least)
        # one that never moved but for these few may be a flag
        low = np.where(reach > 0.0, least - reach, low)
        high = np.where(reach > 0.0, most + reach, high)
    return low, high

# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""The Beta policy of an actor with continuous actions: a distribution with two preferences.

A coordinate of an action is low + (high - low) y, and y has the Beta distribution with the parameters
a = 1 + f(h_a) and b = 1 + f(h_b), where f(h) = s + s^2 / 20 and s = softplus(h). It has one mode and no
mass outside of the bounds. So nothing is clipped, and the gradient of log p(y) by h belongs to the
action that the environment received. This gradient becomes smaller as a and b grow; the square lets a
distribution become narrow in fewer steps.

References
----------
Chou, Maturana and Scherer, "Improving Stochastic Policy Gradients in Continuous Control with Deep
Reinforcement Learning using the Beta Distribution", ICML 2017.
Cheng, "Generating Beta Variates with Nonintegral Shape Parameters", Communications of the ACM 21, 1978,
algorithm BB.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl._jit import inline_kernel, lean_kernel

# f(h) is s + SQUARE s^2, with s clipped to [LEAST, MOST] so that products of parameters stay finite.
SQUARE = 0.05
LEAST, MOST = 1e-6, 1e9
# y keeps at least this distance from 0 and 1, where log p has no finite gradient.
EDGE = 1e-6


def excesses(preferences: NDArray[np.float64]) -> NDArray[np.float64]:
    """The excess f(h) of the parameters of the distribution over 1."""
    s = np.clip(np.logaddexp(0.0, preferences), LEAST, MOST)
    found: NDArray[np.float64] = s + SQUARE * s * s
    return found


# a + b - 2 for preferences of 0, and the least k of `middles` where it is no more than that
WIDE, LEAST_WIDE = 2.0 * float(excesses(np.zeros(1))[0]), 0.2


def shapes(preferences: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The parameters a and b, each of shape (n, m), of preferences of shape (n, 2 m)."""
    found = 1.0 + excesses(preferences)
    return found[:, ::2], found[:, 1::2]


def middles(preferences: NDArray[np.float64]) -> NDArray[np.float64]:
    """The greedy y, of shape (n, m): the mean, or nearer to the mode where that lies at a bound.

    It is (a - 1 + k) / (a + b - 2 + 2 k) with k = min(1, a - 1, b - 1). With k = 1 it is the mean, which
    does not reach a bound even if the best action lies there. With k = 0 it is the mode, which may be
    far from most of the drawn actions: if a and b are nearly 1, all are drawn equally often. So k is at
    least .2 if the distribution is as wide as that of preferences of 0 or wider, and less if narrower.
    """
    parts = excesses(preferences)
    rising, falling = parts[:, ::2], parts[:, 1::2]
    least = LEAST_WIDE * np.minimum(1.0, np.exp(2.0 * (WIDE - rising - falling)))
    more = np.minimum(1.0, np.maximum(least, np.minimum(rising, falling)))
    found: NDArray[np.float64] = (rising + more) / (rising + falling + 2.0 * more)
    return found


def deviations(preferences: NDArray[np.float64]) -> NDArray[np.float64]:
    """The standard deviations of y, of shape (n, m)."""
    a, b = shapes(preferences)
    found: NDArray[np.float64] = np.sqrt(a * b / (a + b + 1.0)) / (a + b)
    return found


@inline_kernel
def shape_of(preference):
    """The parameter of a preference, and its derivative."""
    small = math.exp(-abs(preference))
    s = min(max(max(preference, 0.0) + math.log1p(small), LEAST), MOST)
    slope = (1.0 if preference >= 0.0 else small) / (1.0 + small)
    return 1.0 + s + SQUARE * s * s, slope * (1.0 + 2.0 * SQUARE * s)


@inline_kernel
def is_narrow(preferences, least):
    """Whether a coordinate of y, by `preferences` (2 m,), has a standard deviation below `least`."""
    for j in range(preferences.shape[0] // 2):
        a, b = shape_of(preferences[2 * j])[0], shape_of(preferences[2 * j + 1])[0]
        total = a + b
        if a * b < least * least * total * total * (total + 1.0):
            return True
    return False


@inline_kernel
def digamma(x):
    """The derivative of the logarithm of the gamma function for x >= 1, accurate to 1e-10."""
    found = 0.0
    while x < 8.0:
        found -= 1.0 / x
        x += 1.0
    inverse = 1.0 / (x * x)
    series = 1.0 / 240.0 - inverse / 132.0
    series = 1.0 / 252.0 - inverse * series
    series = 1.0 / 120.0 - inverse * series
    series = 1.0 / 12.0 - inverse * series
    return found + math.log(x) - 0.5 / x - inverse * series


@lean_kernel
def draw_beta(a, b, draw):
    """Draw from the Beta distribution, for a and b above 1, with the seed `draw`, uniform in [0, 1).

    Rejection sampling needs a varying number of uniform numbers. A generator (splitmix64) seeded with
    `draw` provides them, so that one number of a block is enough for a coordinate.
    """
    seed = np.uint64(int(draw * 9007199254740992.0))
    least, most, total = min(a, b), max(a, b), a + b
    beta = math.sqrt((total - 2.0) / (2.0 * a * b - total))
    gamma = least + 1.0 / beta
    while True:
        first, second = 0.0, 0.0
        for k in range(2):
            seed += np.uint64(0x9E3779B97F4A7C15)
            mixed = (seed ^ (seed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            mixed = mixed ^ (mixed >> np.uint64(31))
            uniform = (float(mixed >> np.uint64(11)) + 0.5) / 9007199254740992.0
            if k == 0:
                first = uniform
            else:
                second = uniform
        v = beta * math.log(first / (1.0 - first))
        w = least * math.exp(min(v, 700.0))
        r = gamma * v - math.log(4.0)
        # "not <" accepts NaN, for which the loop would never end.
        if not r + total * math.log(total / (most + w)) < math.log(first * first * second):
            return w / (most + w) if a <= b else most / (most + w)


@inline_kernel
def draw_point(preferences, draws, point, direction):
    """Draw every coordinate of `point` (m,) in [0, 1] by `preferences` (2 m,) and `draws` (m,).

    `direction` (2 m,) is set to the gradient of its log-probability by the preferences.
    """
    for j in range(point.shape[0]):
        a, slope_a = shape_of(preferences[2 * j])
        b, slope_b = shape_of(preferences[2 * j + 1])
        y = min(max(draw_beta(a, b, draws[j]), EDGE), 1.0 - EDGE)
        of_both = digamma(a + b)
        direction[2 * j] = slope_a * (math.log(y) - digamma(a) + of_both)
        direction[2 * j + 1] = slope_b * (math.log(1.0 - y) - digamma(b) + of_both)
        point[j] = y


def scale_points(points: NDArray[np.float64], centre: Any, scale: Any) -> NDArray[np.float64]:
    """Map points in [0, 1], of shape (n, m), to a Box with this centre and half range."""
    found: NDArray[np.float64] = centre + scale * (2.0 * points - 1.0)
    return found

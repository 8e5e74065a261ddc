# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled kernels of hyperparameters that are Markov chains over finite sets: BARRETTE, Algorithm 1.

Each hyperparameter u has a set of values, a state in it, and a running fitness R (eq. 7) that tells
which way to go; at times the next state is drawn from P(R) (eq. 8).
"""

import math
from typing import Any, NamedTuple

from oda_rl._jit import lean_kernel, vector_kernel

BANDWIDTH, STEPSIZE, REGULARIZATION = 0, 1, 2
# How a hyperparameter adapts: not at all, by the likelihood, or by a gradient of the loss.
FIXED, BY_LIKELIHOOD, BY_LOSS = 0, 1, 2
# Every so many samples one is held against the window of past ones.
PROBE_EVERY = 4
# Fewer past samples than this tell nothing of the bandwidth.
LEAST_PAST = 16
# Samples between two moves: at least this many, and this share of all seen.
LEAST_STAY = 32
# Those that adapt by the loss stay where the mean of a gradient is below this part of its mean size.
UNDECIDED = 0.1


class Chains(NamedTuple):
    """One row or entry for each of bandwidth, stepsize and regularisation.

    `sets` (3, n), rising; `state`, an index into its row; `adapts`; `fitness` R; `size`, the mean
    absolute fitness, or the mean curvature of the likelihood; `n_fitness`, how many made them; `stay`,
    [samples seen, samples since a move was last considered, past samples]; `past` (p, window), a ring of
    past samples.
    """

    sets: Any
    state: Any
    adapts: Any
    fitness: Any
    size: Any
    n_fitness: Any
    stay: Any
    past: Any
    distance: Any


@vector_kernel
def likelihood(past, n, x, bandwidth, distance):
    """Slope and curvature in log(bandwidth) of the log-likelihood of one sample, given past ones.

    The likelihood is that of a Gaussian kernel density estimate, the slope p (q - 1) where q is the
    sample's term of eq. 9, in squares of the present bandwidth. The curvature is minus the second
    derivative. Both are divided by p. A past sample that coincides with x tells nothing of a scale and
    is left out; of nothing but such samples the curvature is -1.
    """
    nearest = math.inf
    for j in range(n):
        distance[j] = 0.0
    for i in range(past.shape[0]):
        row = past[i]
        for j in range(n):
            distance[j] += (row[j] - x[i]) ** 2
    for j in range(n):
        if 0.0 < distance[j] < nearest:
            nearest = distance[j]
    if nearest == math.inf:
        return 0.0, -1.0
    square = bandwidth * bandwidth
    total = 0.0
    first = 0.0
    second = 0.0
    for j in range(n):
        if distance[j] > 0.0:
            share = math.exp(0.5 * (nearest - distance[j]) / square)
            total += share
            first += share * distance[j]
            second += share * distance[j] ** 2
    first /= total * square
    second /= total * square * square
    p = past.shape[0]
    return first / p - 1.0, (2.0 * first - (second - first * first)) / p


@lean_kernel
def credit(chains, u, fitness, size, gamma):
    """The running fitness of hyperparameter u: R <- R + gamma (r - R), a plain mean at first."""
    chains.n_fitness[u] += 1
    rate = max(gamma, 1.0 / chains.n_fitness[u])
    chains.fitness[u] += rate * (fitness - chains.fitness[u])
    chains.size[u] += rate * (size - chains.size[u])


@lean_kernel
def remember(chains, x, bandwidth, gamma):
    """Hold a sample against past ones if it is its turn, and put it into the ring."""
    past, stay = chains.past, chains.stay
    n = min(stay[2], past.shape[1])
    if stay[2] % PROBE_EVERY == 0 and n >= LEAST_PAST:
        slope, curvature = likelihood(past, n, x, bandwidth, chains.distance)
        if slope != 0.0 or curvature >= 0.0:
            credit(chains, BANDWIDTH, slope, curvature, gamma)
    place = stay[2] % past.shape[1]
    for i in range(past.shape[0]):
        past[i, place] = x[i]
    stay[2] += 1


@lean_kernel
def wanted(chains, u):
    """Which way the fitness of hyperparameter u points: up 1, down -1, or 0 to stay.

    By the likelihood, it stays where the likeliest value, by Newton's method, is nearest to its state.
    """
    if chains.n_fitness[u] == 0:
        return 0
    fitness, size = chains.fitness[u], chains.size[u]
    least = UNDECIDED * size
    if chains.adapts[u] == BY_LIKELIHOOD:
        least = 0.5 * math.log(chains.sets[u, 1] / chains.sets[u, 0]) * max(size, 0.0)
    if abs(fitness) <= least:
        return 0
    return 1 if fitness > 0.0 else -1


@lean_kernel
def move(chains, n, draws, probability, slowing):
    """After n more samples, draw the next states if it is time; returns whether the bandwidth moved."""
    stay = chains.stay
    stay[0] += n
    stay[1] += n
    if stay[1] < max(LEAST_STAY, slowing * stay[0]):
        return False
    stay[1] = 0
    moved = False
    for u in range(chains.state.shape[0]):
        if chains.adapts[u] == FIXED:
            continue
        way = wanted(chains, u)
        if draws[u] >= probability:
            way = -way
        state = min(max(chains.state[u] + way, 0), chains.sets.shape[1] - 1)
        if state != chains.state[u]:
            if (
                chains.adapts[u] == BY_LIKELIHOOD
            ):  # what is known of the slope holds elsewhere, by the curvature
                row = chains.sets[u]
                curvature = max(chains.size[u], 0.0)
                chains.fitness[u] -= curvature * math.log(row[state] / row[chains.state[u]])
            chains.state[u] = state
            chains.n_fitness[u] //= 2
            moved = moved or u == BANDWIDTH
    return moved

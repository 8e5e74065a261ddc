# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""The compiled loop of functional stochastic gradients, with pruning and moving hyperparameters."""

import math
from typing import Any, NamedTuple

from oda_rl._jit import lean_kernel
from oda_rl.rkhs.chains import (
    BANDWIDTH,
    BY_LIKELIHOOD,
    BY_LOSS,
    REGULARIZATION,
    STEPSIZE,
    credit,
    move,
    remember,
)
from oda_rl.rkhs.expansions import (
    WORST_RESIDUAL,
    add,
    prune,
    rebuild,
    residual,
    similarities,
    values_of,
)
from oda_rl.rkhs.losses import loss

# Samples between two checks of the inverse.
CHECK_EVERY = 16

# Settings, float64
WIDTH = 0
HALVING = 1
PARSIMONY = 2
GAMMA = 3
PROBABILITY = 4
SLOWING = 5
AVERAGING = 6
N_SETTINGS = 7

# Counters, int64
KIND = 0
BATCH = 1
MOST = 2
PROJECT = 3
N_SEEN = 4
N_BATCHES = 5
N_REBUILT = 6
N_LAST = 7
N_COUNTERS = 8

# Columns of a record, one for each mini-batch
SEEN, LOSS, POINTS, FIRST_STATE = 0, 1, 2, 3
N_COLUMNS = 6


class Batch(NamedTuple):
    """What is kept of a mini-batch: outputs, gradients, and samples and steps of the one before."""

    values: Any
    slopes: Any
    trend: Any
    last: Any
    steps: Any


@lean_kernel
def stepsize_at(n_seen, first, halving):
    """The stepsize after so many samples; it falls as 1/n, to the half at `halving`."""
    return first / (1.0 + n_seen / halving)


@lean_kernel
def by_widening(expansion, slope):
    """Derivative of the loss with respect to log(bandwidth), the weights being as they are.

    `expansion.near` has the similarities of the sample, whose squared distances in squares of the
    bandwidth are -2 log of them.
    """
    weights, near = expansion.weights, expansion.near
    total = 0.0
    for j in range(expansion.size[0]):
        if near[j] > 0.0:
            effect = 0.0
            for c in range(slope.shape[0]):
                effect += slope[c] * weights[j, c]
            total -= 2.0 * near[j] * math.log(near[j]) * effect
    return total


@lean_kernel
def judge(x, bandwidth, shrinkage, slope, values, expansion, chains, batch, counters, gamma):
    """Credit what adapts by the loss: what would have done better on a new sample.

    The fitness is minus the derivative of the loss with respect to the logarithm of the hyperparameter;
    for stepsize and regularisation through the last step alone.
    """
    n = counters[N_LAST]
    if chains.adapts[BANDWIDTH] == BY_LOSS:
        fitness = -by_widening(expansion, slope)
        credit(chains, BANDWIDTH, fitness, abs(fitness), gamma)
    by_shrinking = 0.0
    for c in range(values.shape[0]):
        by_shrinking += slope[c] * shrinkage * values[c]
    if chains.adapts[REGULARIZATION] == BY_LOSS:
        credit(chains, REGULARIZATION, by_shrinking, abs(by_shrinking), gamma)
    if chains.adapts[STEPSIZE] == BY_LOSS:
        similarities(batch.last, n, x, bandwidth, batch.trend)
        by_moving = 0.0
        for k in range(n):
            for c in range(values.shape[0]):
                by_moving += slope[c] * batch.steps[k, c] * batch.trend[k]
        fitness = by_shrinking - by_moving
        credit(chains, STEPSIZE, fitness, abs(fitness), gamma)


@lean_kernel
def step(x, y, weight, begin, end, draws, settings, counters, expansion, chains, batch):
    """One mini-batch (eqs. 4 to 6, then Algorithm 1); returns its mean loss before it was learned."""
    n_outputs = batch.values.shape[0]
    bandwidth = chains.sets[BANDWIDTH, chains.state[BANDWIDTH]]
    rate = stepsize_at(
        counters[N_SEEN], chains.sets[STEPSIZE, chains.state[STEPSIZE]], settings[HALVING]
    )
    shrinkage = rate * chains.sets[REGULARIZATION, chains.state[REGULARIZATION]]
    total = 0.0
    mass = 0.0
    for t in range(begin, end):
        slope = batch.slopes[t - begin]
        similarities(expansion.points, expansion.size[0], x[t], bandwidth, expansion.near)
        values_of(expansion.weights, expansion.size[0], expansion.near, batch.values)
        total += weight[t] * loss(counters[KIND], batch.values, y[t], settings[WIDTH], slope)
        mass += weight[t]
        if counters[N_LAST] > 0:
            judge(
                x[t],
                bandwidth,
                shrinkage,
                slope,
                batch.values,
                expansion,
                chains,
                batch,
                counters,
                settings[GAMMA],
            )
        if chains.adapts[BANDWIDTH] == BY_LIKELIHOOD:
            remember(chains, x[t], bandwidth, settings[GAMMA])
    kept = 1.0 - shrinkage * (end - begin) / counters[BATCH]
    for j in range(expansion.size[0]):
        for c in range(n_outputs):
            expansion.weights[j, c] *= kept
    for t in range(begin, end):
        slope = batch.slopes[t - begin]
        size = 0.0
        for c in range(n_outputs):
            slope[c] *= -rate * weight[t] / counters[BATCH]
            size += abs(slope[c])
            batch.steps[t - begin, c] = slope[c]
        for i in range(x.shape[1]):
            batch.last[i, t - begin] = x[t, i]
        if size > 0.0:
            add(expansion, x[t], bandwidth, slope, n_outputs)
    counters[N_LAST] = end - begin
    prune(expansion, settings[PARSIMONY] * rate**1.5, counters[MOST], n_outputs)
    counters[N_SEEN] += end - begin
    counters[N_BATCHES] += 1
    finish(bandwidth, end - begin, draws, settings, counters, expansion, chains, n_outputs)
    return total / mass


@lean_kernel
def finish(bandwidth, n, draws, settings, counters, expansion, chains, n_outputs):
    """After a mini-batch of n: average, move the hyperparameters, and see that the inverse is one."""
    weights = expansion.weights
    if weights.shape[1] > n_outputs:
        share = settings[AVERAGING] / (settings[AVERAGING] - 1.0 + counters[N_BATCHES])
        for j in range(expansion.size[0]):
            for c in range(n_outputs):
                weights[j, n_outputs + c] += share * (weights[j, c] - weights[j, n_outputs + c])
    if move(chains, n, draws, settings[PROBABILITY], settings[SLOWING]):
        now = chains.sets[BANDWIDTH, chains.state[BANDWIDTH]]
        rebuild(expansion, bandwidth, now, counters[PROJECT] == 1)
        counters[N_REBUILT] += 1
    elif (
        expansion.size[0] > 0 and counters[N_SEEN] // CHECK_EVERY > (counters[N_SEEN] - n) // CHECK_EVERY
    ):
        row = counters[N_BATCHES] % expansion.size[0]
        worst = residual(
            expansion.points, expansion.inverse, expansion.size[0], bandwidth, row, expansion.near
        )
        if not worst < WORST_RESIDUAL:
            rebuild(expansion, bandwidth, bandwidth, False)
            counters[N_REBUILT] += 1


@lean_kernel
def learn(x, y, weight, first, draws, settings, counters, expansion, chains, batch, records):
    """Mini-batches from sample `first` on; returns how many samples are done when room runs out."""
    t = first
    k = first // counters[BATCH]
    while t < x.shape[0]:
        end = min(t + counters[BATCH], x.shape[0])
        if expansion.size[0] + end - t > expansion.points.shape[1]:
            return t
        records[k, LOSS] = step(
            x, y, weight, t, end, draws[k], settings, counters, expansion, chains, batch
        )
        records[k, SEEN] = counters[N_SEEN]
        records[k, POINTS] = expansion.size[0]
        for u in range(chains.state.shape[0]):
            records[k, FIRST_STATE + u] = chains.sets[u, chains.state[u]]
        t = end
        k += 1
    return t


@lean_kernel
def evaluate(x, bandwidth, points, weights, size, first_column, near, values):
    """f(x) for many x: fills `values` (n, outputs) from the columns of the weights from the first on."""
    for t in range(x.shape[0]):
        similarities(points, size, x[t], bandwidth, near)
        for c in range(values.shape[1]):
            values[t, c] = 0.0
        for j in range(size):
            for c in range(values.shape[1]):
                values[t, c] += weights[j, first_column + c] * near[j]

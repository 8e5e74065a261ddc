# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Functional stochastic gradient descent in mini-batches: the losses and the compiled loop.

Arguments of the compiled functions: samples x (n, n_features), targets y (n, 1) or (n, n_outputs), which
are class indices or outputs, and positive weights (n,); slope (n_outputs,), a gradient of the loss;
draws (n_batches, 3), uniform in [0, 1); records (n_batches, N_COLUMNS). Row k of the last two belongs to
the k-th mini-batch of `batch_size` samples.
"""

import math
from typing import Any, NamedTuple

from oda_rl._jit import lean_kernel
from oda_rl._statistics import fill_softmax
from oda_rl.rkhs.dictionary import add, evaluate, factorise, is_exact, prune, rebuild
from oda_rl.rkhs.hyperparameters import (
    BANDWIDTH,
    REGULARIZATION,
    STEPSIZE,
    credit,
    move,
)

HINGE, LOGISTIC, SQUARED, HUBER = 0, 1, 2, 3  # those of classes come first
CHECK_EVERY = 16  # samples between two checks of the inverse
# Mini-batch k has a weight of about k^3 in the average, so that mainly the last quarter counts.
AVERAGING = 4.0
# Counters: samples seen, mini-batches, rebuilds of the inverse, samples of the last mini-batch.
N_SEEN, N_BATCHES, N_REBUILT, N_LAST, N_COUNTERS = 0, 1, 2, 3, 4
# Columns of a record: samples seen, loss before learning, then points and hyperparameters after it.
SEEN, LOSS, POINTS, FIRST_STATE, N_COLUMNS = 0, 1, 2, 3, 6


class Settings(NamedTuple):
    """The settings of the compiled loop, from `hyperparameters.Rules`, each with a fixed type."""

    kind: int
    width: float
    halving: float
    parsimony: float
    fitness_rate: float
    probability: float
    slowing: float
    batch_size: int
    most: int
    project: bool


class Batch(NamedTuple):
    """Scratch arrays of a mini-batch, and what is kept of the previous one.

    Scratch arrays are `values` (1, n_outputs) and `slopes` (batch_size, n_outputs) of new samples, and
    their stepsizes `lengths` (batch_size,). Of the previous mini-batch, `last` (n_features, batch_size)
    are the samples, `steps` (batch_size, n_outputs) the weights that they got, and `similarity`
    (batch_size,) their kernel with a new sample.
    """

    values: Any
    slopes: Any
    lengths: Any
    similarity: Any
    last: Any
    steps: Any


@lean_kernel
def loss(kind, values, target, width, slope):
    """Return the loss at the outputs `values` (n_outputs,), and fill `slope` with its gradient.

    `target` holds the class index for the hinge (Crammer and Singer's) and the logistic loss. It holds
    the target outputs for the squared loss, (f - y)^2 / 2, and Huber's, which is linear beyond `width`.
    """
    n = values.shape[0]
    total = 0.0
    if kind == HINGE:
        own = int(target[0])
        rival = -1
        for c in range(n):
            slope[c] = 0.0
            if c != own and (rival < 0 or values[c] > values[rival]):
                rival = c
        if rival >= 0:
            total = 1.0 + values[rival] - values[own]
            if total <= 0.0:
                return 0.0
            slope[rival] = 1.0
            slope[own] = -1.0
    elif kind == LOGISTIC:
        own = int(target[0])
        largest, total = fill_softmax(values, slope)
        slope[own] -= 1.0
        total = math.log(total) + largest - values[own]
    else:
        for c in range(n):
            error = values[c] - target[c]
            slope[c] = error
            if kind == HUBER and abs(error) > width:
                slope[c] = math.copysign(width, error)
                total += width * (abs(error) - 0.5 * width)
            else:
                total += 0.5 * error * error
    return total


@lean_kernel
def learn(x, y, weight, first, draws, settings, counters, dictionary, chains, batch, records):
    """Learn from mini-batches from sample `first` on (eqs. 4 to 6, then Algorithm 1).

    Stops when the capacity of the dictionary could be exceeded, and returns the index of the first
    sample that is left, or n.
    """
    n_outputs, size, weights = batch.values.shape[1], settings.batch_size, dictionary.weights
    begin = first
    k = first // size
    while begin < x.shape[0]:
        n = min(size, x.shape[0] - begin)
        if dictionary.size[0] + n > dictionary.points.shape[1]:
            return begin
        bandwidth = chains.sets[BANDWIDTH, chains.state[BANDWIDTH]]
        rate = chains.sets[STEPSIZE, chains.state[STEPSIZE]]
        rate = rate / (1.0 + counters[N_SEEN] / settings.halving)
        shrinkage = rate * chains.sets[REGULARIZATION, chains.state[REGULARIZATION]]

        # Gradients, and the fitness of the hyperparameters.
        total = 0.0
        mass = 0.0
        for i in range(n):
            t = begin + i
            slope = batch.slopes[i]
            evaluate(
                x[t : t + 1],
                bandwidth,
                dictionary.points,
                weights,
                dictionary.size[0],
                0,
                dictionary.similarity,
                batch.values,
            )
            found = loss(settings.kind, batch.values[0], y[t], settings.width, slope)
            total += weight[t] * found
            mass += weight[t]
            step = rate * weight[t] / size
            if weight[t] > 1.0 and settings.kind >= SQUARED:
                # At most to the target, or as far as without a weight: beyond it, errors would grow.
                step = min(step, max(rate / size, 1.0))
            batch.lengths[i] = step
            credit(
                x[t],
                bandwidth,
                shrinkage,
                slope,
                settings.fitness_rate,
                dictionary,
                chains,
                batch,
                counters[N_LAST],
            )

        # The step: the function shrinks, and every sample with a gradient is added as a point.
        kept = 1.0 - shrinkage * n / size
        for j in range(dictionary.size[0]):
            for c in range(n_outputs):
                weights[j, c] *= kept
        for i in range(n):
            t = begin + i
            norm = 0.0
            for c in range(n_outputs):
                batch.steps[i, c] = -batch.slopes[i, c] * batch.lengths[i]
                norm += abs(batch.steps[i, c])
            for feature in range(x.shape[1]):
                batch.last[feature, i] = x[t, feature]
            if norm > 0.0:
                add(dictionary, x[t], bandwidth, batch.steps[i], n_outputs)
        usual = rate * min(1.0, mass / n)  # else points of small weights would all be dropped
        prune(dictionary, settings.parsimony * usual**1.5, settings.most, n_outputs)
        counters[N_LAST] = n
        counters[N_SEEN] += n
        counters[N_BATCHES] += 1

        # Update the average of the functions.
        if weights.shape[1] > n_outputs:
            share = AVERAGING / (AVERAGING - 1.0 + counters[N_BATCHES])
            for j in range(dictionary.size[0]):
                for c in range(n_outputs):
                    weights[j, n_outputs + c] += share * (weights[j, c] - weights[j, n_outputs + c])

        # Move the hyperparameters; compute the inverse anew if it has become inaccurate.
        due = counters[N_SEEN] // CHECK_EVERY > (counters[N_SEEN] - n) // CHECK_EVERY
        if move(chains, n, draws[k], settings.probability, settings.slowing):
            now = chains.sets[BANDWIDTH, chains.state[BANDWIDTH]]
            rebuild(dictionary, bandwidth, now, settings.project)
            counters[N_REBUILT] += 1
            bandwidth = now
            due = True
        m = dictionary.size[0]
        if due and m > 0 and not is_exact(dictionary, bandwidth, counters[N_BATCHES] % m):
            factorise(dictionary, bandwidth)
            counters[N_REBUILT] += 1

        records[k, SEEN] = counters[N_SEEN]
        records[k, LOSS] = total / mass
        records[k, POINTS] = dictionary.size[0]
        for u in range(chains.state.shape[0]):
            records[k, FIRST_STATE + u] = chains.sets[u, chains.state[u]]
        begin += n
        k += 1
    return begin

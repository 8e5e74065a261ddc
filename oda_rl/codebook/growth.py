# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled kernels that grow a codebook from the samples of one region, all temperatures in one call.

`samples` (n_samples, n_features) are C-contiguous, with `labels` (n_samples,) from 0 on and `weight`
(n_samples,). `cells` are the `BookArrays` of a codebook. The algorithm is that of
`oda_rl.codebook.annealer`, but it needs no Python, and releases Python's global lock.

Algorithm and equation numbers are those of Mavridis and Baras, "Multi-Resolution Online Deterministic
Annealing: A Hierarchical and Progressive Learning Architecture".
"""

import math
from typing import NamedTuple

import numpy as np

from oda_rl._jit import kernel
from oda_rl.codebook.association import curvature, divergences, index_of_smallest
from oda_rl.codebook.events import merge_close, prune_idle, split_critical
from oda_rl.codebook.learning import Pace, anneal
from oda_rl.codebook.lloyd import move_to_means, quench
from oda_rl.codebook.schedule import FIRST_TEMPERATURE, begin_level_compiled, cool

# The most iterations of the power method, and the relative growth of the eigenvalue at which it stops.
# The margin of the first temperature covers the error.
POWER_TURNS, POWER_TOLERANCE = 20, 1e-2
# The most iterations of the final quench before the last move to the means, and the relative gain below
# which it stops.
LAST_TURNS, LAST_TOLERANCE = 2, 1e-2
# Why a region stopped growing: K_max; the last temperature; a temperature with too little improvement;
# no sample is nearest to a codevector of another label; `max_samples`.
FULL, COLD, NO_GAIN, PURE, SPENT = range(5)


class GrowthRule(NamedTuple):
    """Settings for growing a region; names that occur in `Annealer` have the same meaning.

    A `t_max` of 0 stands for a little above the critical temperature of the region; a negative `t_min`
    is relative to the first temperature. `cooling` multiplies T, or lambda if `by_lambda`. `a` and `b`
    define the stepsizes. At most `max_samples` are presented in all, and `samples_per_cell` at one
    temperature; at least `min_samples` lie between two checks. The error is that of the nearest
    codevector along the first `n_inputs` coordinates: of its label if `by_labels`, else its divergence.
    Once cells have split, a temperature must lower the error by at least the fraction `min_improvement`.
    """

    t_max: float
    t_min: float
    cooling: float
    by_lambda: bool
    a: float
    b: float
    max_codevectors: int
    max_samples: int
    samples_per_cell: int
    min_samples: int
    tol_converge: float
    tol_merge: float
    min_weight: float
    perturbation: float
    n_inputs: int
    by_labels: bool
    min_improvement: float


@kernel
def begin(kind, samples, labels, weight, cells):
    """Make a cell at the mean of each label that occurs; returns (cells, largest critical temperature).

    The axis of a cell is the leading eigenvector of phi'' C, found by the power method, with the
    eigenvalue as its length (Theorem 5).
    """
    location, mass, label = cells.location, cells.weight, cells.label
    n, d = samples.shape
    n_labels = 0
    for t in range(n):
        n_labels = max(n_labels, labels[t] + 1)
    cell_of = np.full(n_labels, -1)
    for t in range(n):
        cell_of[labels[t]] = 0
    k = 0
    for c in range(n_labels):
        if cell_of[c] == 0:
            cell_of[c] = k
            label[k] = c
            mass[k] = 0.0
            for j in range(d):
                location[j, k] = 0.0
            k += 1
    total = 0.0
    for t in range(n):
        i = cell_of[labels[t]]
        mass[i] += weight[t]
        total += weight[t]
        for j in range(d):
            location[j, i] += weight[t] * samples[t, j]
    for i in range(k):
        for j in range(d):
            location[j, i] /= mass[i]
    hottest = fill_axes(kind, samples, labels, weight, cell_of, k, location, mass, cells.axis)
    for i in range(k):
        mass[i] /= total
    return k, hottest


@kernel
def fill_axes(kind, samples, labels, weight, cell_of, n_cells, location, mass, axis):
    """Fill `axis` with the leading eigenvectors of phi'' C; returns the largest eigenvalue.

    The lengths of the eigenvectors are the eigenvalues. The cell of a sample is `cell_of` its label;
    `mass` (n_cells,) is the sum of the weights in each cell. An axis is zero if nothing varies.
    """
    n, d = samples.shape
    root, vector = np.empty((n_cells, d)), np.zeros((n_cells, d))
    product, value = np.empty((n_cells, d)), np.zeros(n_cells)
    for i in range(n_cells):
        for j in range(d):
            root[i, j] = math.sqrt(curvature(kind, location[j, i]))
    for t in range(n):
        i = cell_of[labels[t]]
        for j in range(d):
            vector[i, j] += weight[t] * (samples[t, j] - location[j, i]) ** 2
    for i in range(n_cells):
        for j in range(d):
            # Standard deviations, some with changed sign: hardly ever orthogonal to the eigenvector.
            vector[i, j] = root[i, j] * math.sqrt(vector[i, j]) * (1.0 if j % 3 != 1 else -0.7)
    for _ in range(POWER_TURNS):
        for i in range(n_cells):
            length = 0.0
            for j in range(d):
                length += vector[i, j] * vector[i, j]
            scale = 1.0 / math.sqrt(length) if length > 0.0 else 0.0
            for j in range(d):
                vector[i, j] *= root[i, j] * scale
                product[i, j] = 0.0
        for t in range(n):
            i = cell_of[labels[t]]
            dot = 0.0
            for j in range(d):
                dot += vector[i, j] * (samples[t, j] - location[j, i])
            dot *= weight[t] / mass[i]
            for j in range(d):
                product[i, j] += dot * (samples[t, j] - location[j, i])
        still = True
        for i in range(n_cells):
            length = 0.0
            for j in range(d):
                vector[i, j] = root[i, j] * product[i, j]
                length += vector[i, j] * vector[i, j]
            before, value[i] = value[i], math.sqrt(length)
            still = still and value[i] <= before * (1.0 + POWER_TOLERANCE)
        if still:
            break
    hottest = 0.0
    for i in range(n_cells):
        hottest = max(hottest, value[i])
        for j in range(d):
            axis[j, i] = vector[i, j]
    return hottest


@kernel
def _errors(kind, samples, labels, weight, n_inputs, n_cells, cells, count_all):
    """Errors of the nearest codevector: (weight of samples with another label, sum of divergences).

    Only the first `n_inputs` coordinates count. Unless `count_all`, stops at the first wrong label.
    """
    wrong, total = 0.0, 0.0
    distance = np.empty(n_cells)
    for t in range(samples.shape[0]):
        divergences(kind, samples[t, :n_inputs], cells.location, 0, n_cells, distance)
        nearest = index_of_smallest(distance, n_cells)
        total += weight[t] * distance[nearest]
        if cells.label[nearest] != labels[t]:
            wrong += weight[t]
            if not count_all:
                break
    return wrong, total


@kernel
def to_means(kind, samples, labels, weight, n_cells, cells):
    """Quench the cells of a region to temperature zero (eq. 10); samples join cells of their own label.

    The weights of the cells become those of their samples before the last move. Returns the weighted sum
    of the divergences.
    """
    n = samples.shape[0]
    nearest, closest, second = np.empty(n, dtype=np.int64), np.empty(n), np.empty(n)
    location = cells.location
    _, _, standing = quench(
        kind,
        samples,
        labels,
        weight,
        False,
        LAST_TOLERANCE,
        LAST_TURNS,
        n_cells,
        location,
        cells.label,
        nearest,
        closest,
        second,
    )
    total = 0.0
    for i in range(n_cells):
        cells.weight[i] = 0.0
    for t in range(n):
        cells.weight[nearest[t]] += weight[t]
        total += weight[t] * closest[t]
    if not standing:
        move_to_means(samples, weight, False, nearest, closest, n_cells, location, np.empty(n_cells))
    return total


@kernel
def grow(kind, minimum, samples, labels, weight, order, rule, cells):
    """Run Algorithm 1 or 4 on the samples of one region, starting from one cell for each label.

    `order` holds the indices of the samples in the order of presentation, and is repeated as often as
    needed. The arrays of the codebook must have capacity for two cells more than `rule.max_codevectors`,
    or than there are labels. The final weights of the cells are those of `to_means`.

    Returns (cells, temperature, samples presented, why it stopped, sum of divergences from the
    codevectors of the label).
    """
    n_cells, critical = begin(kind, samples, labels, weight, cells)
    temperature = rule.t_max if rule.t_max > 0.0 else FIRST_TEMPERATURE * critical
    last = rule.t_min if rule.t_min >= 0.0 else -rule.t_min * temperature
    spread, met = np.empty((0, 0)), np.empty(cells.weight.shape[0])
    n_labels, memory = n_cells, rule.samples_per_cell // 10
    n, seen, at = 1, 0, 0
    error, counted = np.inf, 0
    reason, max_samples = SPENT, rule.max_samples
    # The samples of one pass are copied at a time, in the order of presentation.
    size = samples.shape[0]
    rows, row_labels, row_weight = np.empty_like(samples), np.empty_like(labels), np.empty_like(weight)
    filled, used_up = 0, 0
    if critical <= 0.0:
        reason, max_samples = COLD, 0
    while seen < max_samples:
        per_cell = memory, rule.samples_per_cell // 2, rule.samples_per_cell
        n, check_every, length = begin_level_compiled(n, n_cells, n_labels, *per_cell, rule.min_samples)
        distortion, reference = 0.0, cells.location.copy()
        tolerance = rule.tol_converge * temperature
        pace = Pace(temperature, rule.a, rule.b, n - 1, check_every, tolerance, length, np.inf)
        finished = False
        while not finished and seen < max_samples:
            if used_up == filled:
                filled, used_up = size, 0
                for t in range(size):
                    source = order[at]
                    at = at + 1 if at + 1 < order.shape[0] else 0
                    row_labels[t] = labels[source]
                    row_weight[t] = weight[source]
                    for j in range(samples.shape[1]):
                        rows[t, j] = samples[source, j]
            stop = min(filled, used_up + max_samples - seen)
            used, n, distortion, finished = anneal(
                rows[used_up:stop],
                row_labels[used_up:stop],
                row_weight[used_up:stop],
                kind,
                pace,
                n,
                distortion,
                n_cells,
                cells,
                reference,
                spread,
                None,
                None,
            )
            used_up += used
            seen += used
        n_cells = merge_close(kind, rule.tol_merge * temperature, n_cells, cells)
        n_cells = prune_idle(rule.min_weight, n_cells, cells)
        if n_cells >= rule.max_codevectors:
            reason = FULL
            break
        if n_cells > counted and (rule.by_labels or rule.min_improvement > 0.0):
            count_all = rule.min_improvement > 0.0
            wrong, total = _errors(
                kind, samples, labels, weight, rule.n_inputs, n_cells, cells, count_all
            )
            now = wrong if rule.by_labels else total
            if rule.by_labels and wrong <= 0.0:
                reason = PURE
                break
            if count_all and counted > n_labels and error - now < rule.min_improvement * error:
                reason = NO_GAIN
                break
            error, counted = now, n_cells
        cooled = cool(temperature, rule.cooling, rule.by_lambda)
        if cooled < last:
            reason = COLD
            break
        n_more = rule.max_codevectors - n_cells
        n_cells = split_critical(kind, minimum, cooled, n_more, rule.perturbation, n_cells, cells, met)
        temperature = cooled
    total = to_means(kind, samples, labels, weight, n_cells, cells)
    return n_cells, temperature, seen, reason, total

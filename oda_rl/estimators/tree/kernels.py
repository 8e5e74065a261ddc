# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled kernels: annealing the cells of one region, and going down a tree of cells.

The arrays of a codebook are laid out as in `learning`. The children of a cell stand next to each
other in the arrays of their layer.

Algorithm and equation numbers are those of Mavridis and Baras, "Multi-Resolution Online Deterministic
Annealing: A Hierarchical and Progressive Learning Architecture".
"""

import math

import numpy as np

from oda_rl._jit import kernel, lean_kernel
from oda_rl.codebook.events import merge_close, prune_idle, split
from oda_rl.codebook.learning import (
    MIN_LOCATION,
    anneal,
    critical_temperature,
    curvature,
    divergences,
    divergences_between,
)

# The first temperature of a region, in critical temperatures of its data.
FIRST_TEMPERATURE = 1.1
# Turns of the power method; what it misses of the eigenvalue the first temperature has to spare.
POWER_TURNS, POWER_TOLERANCE = 20, 1e-2
# Turns in which the codevectors of a region come to rest at temperature zero, and the gain that ends it.
SETTLE_TURNS, SETTLE_TOLERANCE = 3, 1e-2
# Why a region stopped growing.
FULL, COLD, SETTLED, PURE, SPENT = range(5)


@kernel
def begin(kind, samples, labels, weight, location, mass, label, axis):
    """One cell for each label that occurs, at its mean; returns (cells, critical temperature).

    The axis of a cell is the leading eigenvector of phi'' C, with its eigenvalue as its length
    (Theorem 5), by the power method.
    """
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
    hottest = _lead(kind, samples, labels, weight, cell_of, k, location, mass, axis)
    for i in range(k):
        mass[i] /= total
    return k, hottest


@kernel
def _lead(kind, samples, labels, weight, cell_of, n_cells, location, mass, axis):
    """Fill `axis` with the leading eigenvectors of phi'' C, as long as the eigenvalues."""
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
            # The deviations, some turned over: hardly ever at right angles to the leading direction.
            vector[i, j] = root[i, j] * math.sqrt(vector[i, j]) * (1.0 if j % 3 != 1 else -0.7)
    for _ in range(POWER_TURNS):
        for i in range(n_cells):
            length = 0.0
            for j in range(d):
                length += vector[i, j] * vector[i, j]
            scale = root[i] * (1.0 / math.sqrt(length) if length > 0.0 else 0.0)
            for j in range(d):
                vector[i, j] *= scale[j]
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
def split_critical(
    kind, minimum, temperature, room, perturbation, n_cells, location, weight, label, axis
):
    """Split the cells that are critical at `temperature`, hottest first, while there is room.

    As `oda_rl.codebook.bifurcation.split_critical`. Returns the new number of cells.
    """
    d = location.shape[0]
    offset = np.empty(d)
    none, kinds = np.empty((0, weight.shape[0])), np.empty(0, dtype=np.int64)
    before = n_cells
    critical = np.empty(before)
    for i in range(before):
        critical[i] = critical_temperature(axis, i)
    while n_cells - before < room:
        i = -1
        for k in range(before):
            if critical[k] > temperature and (i < 0 or critical[k] > critical[i]):
                i = k
        if i < 0:
            break
        settled = math.sqrt(critical[i] - temperature)
        length = max(settled, perturbation * math.sqrt(critical[i]))
        for j in range(d):
            offset[j] = length * axis[j, i] / critical[i] / math.sqrt(curvature(kind, location[j, i]))
        new = n_cells
        n_cells = split(minimum, i, offset, n_cells, location, weight, label, axis, none, kinds)
        left = max(0.0, critical[i] - length * length) / critical[i]
        for j in range(d):
            axis[j, i] *= left
            axis[j, new] *= left
        critical[i] = 0.0
    return n_cells


@kernel
def cool(temperature, factor, by_lambda):
    """The temperature that follows, as `oda_rl.codebook.schedule.Cooling`."""
    if not by_lambda:
        return factor * temperature
    fraction = factor * temperature / (1.0 + temperature)
    return fraction / (1.0 - fraction)


@kernel
def nearest_labels(
    kind, samples, labels, weight, n_cells, n_inputs, location, label, distance, count_all
):
    """The error of the nearest codevector: (weight of samples with another label, sum of divergences).

    Only the first `n_inputs` coordinates are looked at; unless `count_all`, the first error ends it.
    """
    wrong, distortion = 0.0, 0.0
    for t in range(samples.shape[0]):
        divergences(kind, samples[t, :n_inputs], location, n_cells, distance)
        nearest = 0
        for i in range(n_cells):
            if distance[i] < distance[nearest]:
                nearest = i
        distortion += weight[t] * distance[nearest]
        if label[nearest] != labels[t]:
            wrong += weight[t]
            if not count_all:
                break
    return wrong, distortion


@kernel
def settle(kind, samples, labels, weight, n_cells, location, mass, label, distance):
    """Temperature zero: hard cells among those of a sample's label, and their means, in turn (eq. 10).

    `mass` gets the weights of these cells. Returns the sum of the divergences.
    """
    d = samples.shape[1]
    mean = np.empty((n_cells, d))
    before = np.inf
    for _ in range(SETTLE_TURNS):
        mean[:] = 0.0
        mass[:n_cells] = 0.0
        total = 0.0
        for t in range(samples.shape[0]):
            divergences(kind, samples[t], location, n_cells, distance)
            nearest = -1
            for i in range(n_cells):
                if label[i] == labels[t] and (nearest < 0 or distance[i] < distance[nearest]):
                    nearest = i
            total += weight[t] * distance[nearest]
            mass[nearest] += weight[t]
            for j in range(d):
                mean[nearest, j] += weight[t] * samples[t, j]
        if not total < before * (1.0 - SETTLE_TOLERANCE):
            break
        before = total
        for i in range(n_cells):
            if mass[i] > 0.0:
                for j in range(d):
                    location[j, i] = mean[i, j] / mass[i]
    return min(before, total)


@kernel
def grow(
    kind,
    minimum,
    samples,
    labels,
    weight,
    order,
    n_inputs,
    by_labels,
    t_max,
    t_min,
    cooling,
    by_lambda,
    stepsize_a,
    stepsize_b,
    max_codevectors,
    max_samples,
    samples_per_cell,
    min_samples,
    tol_converge,
    tol_merge,
    min_weight,
    perturbation,
    min_improvement,
    location,
    mass,
    label,
    axis,
):
    """Algorithm 1 or 4 over the samples of one region, from a cell for each label to its codevectors.

    `order` holds the samples' numbers as they are presented, and is gone through again and again. A
    temperature of 0 for `t_max` stands for a little above the critical one of the region; a negative
    `t_min` is a part of the first temperature. `min_improvement` is the part by which a temperature has
    to lower the error (of labels if `by_labels`, else the divergence from the nearest codevector) once
    cells have split. The arrays of the codebook have room for two cells more than `max_codevectors`, or
    than there are labels.

    Afterwards `mass` has the weights of the samples that belong to the codevectors of their label.

    Returns (cells, temperature, samples presented, why it stopped, sum of divergences from the
    codevectors of the label).
    """
    n_cells, critical = begin(kind, samples, labels, weight, location, mass, label, axis)
    temperature = t_max if t_max > 0.0 else FIRST_TEMPERATURE * critical
    last = t_min if t_min >= 0.0 else -t_min * temperature
    capacity = mass.shape[0]
    scratch = np.empty((5, capacity))
    spread, none = np.empty((0, capacity)), np.empty((0, capacity))
    kinds = np.empty(0, dtype=np.int64)
    n_labels = n_cells
    memory = samples_per_cell // 10
    n, seen, at = 1, 0, 0
    error, counted = np.inf, 0
    reason = SPENT
    # One pass at a time, in the order in which it is presented.
    size = samples.shape[0]
    rows, row_labels, row_weight = np.empty_like(samples), np.empty_like(labels), np.empty_like(weight)
    filled, used_up = 0, 0
    if critical <= 0.0:
        reason, max_samples = COLD, 0
    while seen < max_samples:
        if n_cells > n_labels:
            n = 1 + min(n - 1, memory * n_cells)
        first, distortion = n, 0.0
        reference = location.copy()
        check_every = max(min_samples, (samples_per_cell // 2) * n_cells)
        level_length = n + max(min_samples, samples_per_cell * n_cells)
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
                temperature,
                stepsize_a,
                stepsize_b,
                first - 1,
                n,
                distortion,
                check_every,
                tol_converge * temperature,
                level_length,
                n_cells,
                location,
                mass,
                label,
                axis,
                reference,
                spread,
                scratch,
            )
            used_up += used
            seen += used
        n_cells = merge_close(
            kind, tol_merge * temperature, n_cells, location, mass, label, axis, none, kinds
        )
        n_cells = prune_idle(min_weight, n_cells, location, mass, label, axis, none)
        if n_cells >= max_codevectors:
            reason = FULL
            break
        if n_cells > counted and (by_labels or min_improvement > 0.0):
            wrong, total = nearest_labels(
                kind,
                samples,
                labels,
                weight,
                n_cells,
                n_inputs,
                location,
                label,
                scratch[0],
                min_improvement > 0.0,
            )
            now = wrong if by_labels else total
            if by_labels and wrong <= 0.0:
                reason = PURE
                break
            if min_improvement > 0.0 and counted > n_labels and error - now < min_improvement * error:
                reason = SETTLED
                break
            error, counted = now, n_cells
        cooled = cool(temperature, cooling, by_lambda)
        if cooled < last:
            reason = COLD
            break
        n_cells = split_critical(
            kind,
            minimum,
            cooled,
            max_codevectors - n_cells,
            perturbation,
            n_cells,
            location,
            mass,
            label,
            axis,
        )
        temperature = cooled
    rest = settle(kind, samples, labels, weight, n_cells, location, mass, label, scratch[0])
    return n_cells, temperature, seen, reason, rest


@kernel
def nearest_child(kind, samples, location, first, count, at, closest):
    """Go one layer down the tree (eq. 37): `at` are cells of a layer, and become cells of the next.

    `location` (n_features, n_cells) are the codevectors of the next layer, `first` and `count` where the
    children of a cell stand there. Samples whose cell has no children get -1, those without a cell keep
    their -1. `closest` gets the divergences. Of equally near codevectors the first is taken.
    """
    size = 1
    for i in range(count.shape[0]):
        size = max(size, count[i])
    distance = np.empty(size)
    for t in range(samples.shape[0]):
        cell = at[t]
        if cell < 0 or count[cell] == 0:
            at[t] = -1
            continue
        a, k = first[cell], count[cell]
        divergences_between(kind, samples[t], location, a, k, distance)
        best = 0
        for i in range(k):
            if distance[i] < distance[best]:
                best = i
        at[t] = a + best
        closest[t] = distance[best]


@kernel
def mixture_log_joint(kind, samples, at, parent, first, count, location, own, share, width, out):
    """log(pi_c p(x | c)) of samples from the codevectors that share a region (eq. 35).

    `at` are the cells of a layer in which samples are; all children of its parent take part, with their
    probabilities `share` and the `width` (n_parents,) of the mixture there. `own` are the classes. Rows
    of samples without a cell are left alone. What all classes have in common is left out.
    """
    n_classes = out.shape[1]
    size = 1
    for i in range(count.shape[0]):
        size = max(size, count[i])
    distance = np.empty(size)
    top, total = np.empty(n_classes), np.empty(n_classes)
    for t in range(samples.shape[0]):
        if at[t] < 0:
            continue
        p = parent[at[t]]
        a, k = first[p], count[p]
        divergences_between(kind, samples[t], location, a, k, distance)
        for c in range(n_classes):
            top[c] = -np.inf
            total[c] = 0.0
        for i in range(k):
            c = own[a + i]
            distance[i] = math.log(max(share[a + i], MIN_LOCATION)) - distance[i] / width[p]
            top[c] = max(top[c], distance[i])
        for i in range(k):
            c = own[a + i]
            total[c] += math.exp(distance[i] - top[c])
        for c in range(n_classes):
            out[t, c] = -np.inf
            if total[c] > 0.0:
                out[t, c] = top[c] + math.log(total[c])


@lean_kernel
def add_samples(samples, weight, at, support, mass, total):
    """Add samples to the cells in which they are: their number, weight and weighted sum."""
    for t in range(samples.shape[0]):
        i = at[t]
        if i >= 0:
            support[i] += 1.0
            mass[i] += weight[t]
            for j in range(samples.shape[1]):
                total[i, j] += weight[t] * samples[t, j]


@lean_kernel
def add_votes(targets, weight, at, tally):
    """Add the weights of samples to the votes for their classes in the cells in which they are."""
    for t in range(targets.shape[0]):
        if at[t] >= 0:
            tally[at[t], targets[t]] += weight[t]


@lean_kernel
def add_products(basis, targets, weight, at, tally):
    """Add products of the basis with itself and with the outputs, and squared outputs, to the cells.

    The basis is (n_samples, q), the outputs are (n_samples, m): q q + q m + m numbers for each cell.
    """
    q, m = basis.shape[1], targets.shape[1]
    for t in range(basis.shape[0]):
        i = at[t]
        if i < 0:
            continue
        place = 0
        for j in range(q):
            part = weight[t] * basis[t, j]
            for k in range(q):
                tally[i, place] += part * basis[t, k]
                place += 1
        for j in range(q):
            part = weight[t] * basis[t, j]
            for k in range(m):
                tally[i, place] += part * targets[t, k]
                place += 1
        for k in range(m):
            tally[i, place] += weight[t] * targets[t, k] * targets[t, k]
            place += 1

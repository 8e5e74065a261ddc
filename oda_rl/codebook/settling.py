# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled kernels that take cells to equilibrium at one temperature by iterations over all samples.

Arrays are laid out as in `association`. The equilibrium consists of the means (eq. 10), and of the
leading eigenvectors of the cells' covariances, whose lengths are the critical temperatures (Theorem 5).
The learning rule only approaches it, with noise from its last samples. With few samples per cell, the
largest eigenvalue is overestimated, and cells would split without need.

References
----------
Equation numbers are those of Mavridis and Baras, "Multi-Resolution Online Deterministic Annealing".
R. Varadhan and C. Roland, "Simple and globally convergent methods for accelerating the convergence of
any EM algorithm", Scandinavian Journal of Statistics 35 (2008), for the strides.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oda_rl._jit import kernel, lean_kernel
from oda_rl.codebook.association import BLOCK, EXACT, curvature, decay, divergences, is_euclidean
from oda_rl.codebook.events import length_of
from oda_rl.codebook.learning import MIN_LOCATION, MIN_WEIGHT

# Critical temperatures have converged when an iteration changes none by more than this part of T.
AXIS_TOLERANCE = 1e-3
# A critical temperature is safely above or below T if it differs by more than PATIENCE times its last
# change. If all are, nothing will split or merge, and codevectors may still move by STILL times T.
PATIENCE, STILL = 100.0, 1e-4
# The largest factor of the extrapolation after every third iteration.
LONGEST_STRIDE = 8.0


class Points(NamedTuple):
    """Samples prepared for all iterations, padded to whole blocks with samples of weight 0.

    `rows` (n, n_features + 1) are the samples minus `origin` (n_features,), and a column of ones;
    `square` (n,) are the squared lengths of the former, `weight` (n,) the samples' weights.
    """

    origin: NDArray[np.float64]
    rows: NDArray[np.float64]
    square: NDArray[np.float64]
    weight: NDArray[np.float64]


@kernel
def _points(samples, sample_weight, origin):
    """Make `Points` of the samples, relative to `origin`."""
    n, d = samples.shape
    filled = -(-n // BLOCK) * BLOCK
    rows, square, weight = np.ones((filled, d + 1)), np.zeros(filled), np.zeros(filled)
    for t in range(filled):
        weight[t] = sample_weight[t] if t < n else 0.0
        sample = samples[min(t, n - 1)]
        for j in range(d):
            rows[t, j] = sample[j] - origin[j]
            square[t] += rows[t, j] * rows[t, j]
    return Points(origin, rows, square, weight)


@lean_kernel
def _associate_block(gap, cell_weight, sample_weight, n_cells, temperature, share, least, total):
    """Fill `share` with association probabilities (eq. 13) times the weights of the samples.

    `gap` (n_cells, BLOCK) has the divergences of a block of samples, up to a constant for each sample.
    `least` and `total` (BLOCK,) get the smallest, and sum_i rho_i exp((least - d_i) / T).
    Inner loops run over the samples, of which there are more than cells.
    """
    limit, inverse = EXACT * temperature, 1.0 / temperature
    for t in range(BLOCK):
        least[t], total[t] = gap[0, t], 0.0
    for i in range(1, n_cells):
        for t in range(BLOCK):
            least[t] = min(least[t], gap[i, t])
    for i in range(n_cells):
        row, part, own = gap[i], share[i], cell_weight[i]
        for t in range(BLOCK):
            excess = row[t] - least[t]
            near = own * decay(min(excess * inverse, EXACT))
            part[t] = near if excess < limit else 0.0
            total[t] += part[t]
    for i in range(n_cells):
        part = share[i]
        for t in range(BLOCK):
            part[t] *= sample_weight[t] / total[t]


@kernel
def _add_up(kind, samples, points, temperature, n_cells, cells, along, moments, measuring):
    """Fill `moments` (2 n_cells, n_features + 1); if `measuring`, return the sums for `measure_phase`.

    The first n_cells rows are the sums of the rows (x, 1) of `points`, weighted by their shares in each
    cell. In the other rows, these are also weighted by the projections of the samples, relative to the
    codevector, along `along` (n_features, n_cells). Locations are relative to the origin of the points.
    """
    d, location = samples.shape[1], cells.location
    moments[:] = 0.0
    # The products of these rows with (x, 1) are x mu - |mu|^2 / 2, and the projections.
    sides, distance = np.zeros((2 * n_cells, d + 1)), np.empty(n_cells)
    for i in range(n_cells):
        for j in range(d):
            from_origin = location[j, i] - points.origin[j]
            sides[i, j], sides[n_cells + i, j] = from_origin, along[j, i]
            sides[i, d] -= 0.5 * from_origin * from_origin
            sides[n_cells + i, d] -= along[j, i] * from_origin
    expected, log_sum = 0.0, 0.0
    gap, share = np.empty((n_cells, BLOCK)), np.empty((2 * n_cells, BLOCK))
    least, total = np.empty(BLOCK), np.empty(BLOCK)
    for start in range(0, points.rows.shape[0], BLOCK):
        rows, weight = points.rows[start : start + BLOCK], points.weight[start : start + BLOCK]
        product = np.dot(sides, rows.T)
        if is_euclidean(kind):
            square = points.square[start : start + BLOCK]
            for i in range(n_cells):
                for t in range(BLOCK):
                    gap[i, t] = square[t] - 2.0 * product[i, t]
        else:
            for t in range(BLOCK):
                at = min(start + t, samples.shape[0] - 1)
                divergences(kind, samples[at], location, 0, n_cells, distance)
                for i in range(n_cells):
                    gap[i, t] = distance[i]
        _associate_block(gap, cells.weight, weight, n_cells, temperature, share, least, total)
        for t in range(BLOCK if measuring else 0):
            log_sum += weight[t] * (math.log(total[t]) - least[t] / temperature)
            for i in range(n_cells):
                expected += share[i, t] * gap[i, t]
        for i in range(n_cells):
            for t in range(BLOCK):
                share[n_cells + i, t] = share[i, t] * product[n_cells + i, t]
        sums = np.dot(share, rows)
        for i in range(2 * n_cells):
            for j in range(d + 1):
                moments[i, j] += sums[i, j]
    return expected, log_sum


@kernel
def _iterate(kind, samples, points, temperature, n_cells, cells, moments):
    """One iteration: means, weights, and one step of the power method for each axis.

    Returns (the largest divergence of a codevector from its previous location, the largest change of a
    critical temperature that may still cross T).
    """
    d, location, axis = samples.shape[1], cells.location, cells.axis
    along, place, before = np.empty((d, n_cells)), np.empty(d), np.empty((d, 1))
    for i in range(n_cells):
        length = max(length_of(axis, i), MIN_LOCATION)
        for j in range(d):
            along[j, i] = axis[j, i] / length * math.sqrt(curvature(kind, location[j, i]))
    _add_up(kind, samples, points, temperature, n_cells, cells, along, moments, False)
    total, largest, change, distance = moments[:n_cells, d].sum(), 0.0, 0.0, np.empty(1)
    origin = points.origin
    for i in range(n_cells):
        mass, shift, old = moments[i, d], 0.0, length_of(axis, i)
        cells.weight[i] = max(mass / total, MIN_WEIGHT)
        if mass <= 0.0:
            continue
        for j in range(d):
            place[j], before[j, 0] = origin[j] + moments[i, j] / mass, location[j, i]
            shift += along[j, i] * (place[j] - before[j, 0])
        for j in range(d):
            # The covariance about the new mean, times the direction: E[proj x] - E[proj] E[x]
            moment = moments[n_cells + i, j] / mass - shift * (place[j] - origin[j])
            axis[j, i] = math.sqrt(curvature(kind, before[j, 0])) * moment
            location[j, i] = place[j]
        new = length_of(axis, i)
        if abs(new - temperature) <= PATIENCE * abs(new - old):
            change = max(change, abs(new - old))
        divergences(kind, place, before, 0, 1, distance)
        largest = max(largest, distance[0])
    return largest, change


@kernel
def _stride(n_cells, location, origin, step):
    """Extrapolate locations from two iterations that began at `origin`, the first of them by `step`."""
    for i in range(n_cells):
        length, bend = 0.0, 0.0
        for j in range(location.shape[0]):
            length += step[j, i] ** 2
            bend += (location[j, i] - origin[j, i] - 2.0 * step[j, i]) ** 2
        factor = LONGEST_STRIDE if bend <= 0.0 else math.sqrt(length / bend)
        factor = min(LONGEST_STRIDE, max(1.0, factor))
        for j in range(location.shape[0]):
            curve = location[j, i] - origin[j, i] - 2.0 * step[j, i]
            location[j, i] = origin[j, i] + factor * (2.0 * step[j, i] + factor * curve)


@kernel
def settle(kind, samples, sample_weight, temperature, tolerance, max_turns, n_cells, cells):
    """Update associations and means until no codevector moves by a divergence above `tolerance`.

    Near critical temperatures this would take hundreds of iterations. Therefore, every third one is
    followed by an extrapolation (for the squared Euclidean distance, whose domain has no bounds).
    Locations, weights and axes of the cells change. Returns the number of iterations.
    """
    d, location = samples.shape[1], cells.location
    points = _points(samples, sample_weight, location[:, 0].copy())
    moments = np.empty((2 * n_cells, d + 1))
    origin, step = location[:, :n_cells].copy(), np.zeros((d, n_cells))
    turns = 0
    for turn in range(max_turns):
        largest, change = _iterate(kind, samples, points, temperature, n_cells, cells, moments)
        turns = turn + 1
        enough = tolerance if change > 0.0 else max(tolerance, STILL * temperature)
        if largest < enough and change < AXIS_TOLERANCE * temperature:
            break
        phase = turn % 3 if is_euclidean(kind) else -1
        for i in range(n_cells):
            for j in range(d):
                if phase == 0:
                    origin[j, i] = location[j, i]
                elif phase == 1:
                    step[j, i] = location[j, i] - origin[j, i]
        if phase == 2 and turns < max_turns:
            _stride(n_cells, location, origin, step)
    return turns


@kernel
def measure_phase(kind, samples, sample_weight, temperature, n_cells, cells):
    """(D, L): the expected distortion (eq. 2), and the mean logarithm of sum_i rho_i exp(-d_i / T)."""
    d, total = samples.shape[1], 0.0
    expected, log_sum = _add_up(
        kind,
        samples,
        _points(samples, sample_weight, cells.location[:, 0].copy()),
        temperature,
        n_cells,
        cells,
        np.zeros((d, n_cells)),
        np.empty((2 * n_cells, d + 1)),
        True,
    )
    for t in range(samples.shape[0]):
        total += sample_weight[t]
    # If every sample has a cell of its own, rounding may leave a negative number.
    return max(expected, 0.0) / total, log_sum / total

# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled kernels: the rest of the way to equilibrium at one temperature, with samples at hand.

Arrays are laid out as in `association`. What the learning rule approaches with the noise of its last
samples, turns over all samples reach: the means (eq. 10), and the leading eigenvectors of the cells'
covariances, whose lengths are the critical temperatures (Theorem 5). Of a few samples per cell the
largest eigenvalue comes out too large, and cells would split that have no reason to.

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

from oda_rl._jit import kernel
from oda_rl.codebook.association import BLOCK, EXACT, associate, curvature, divergences, is_euclidean
from oda_rl.codebook.learning import MIN_LOCATION, MIN_WEIGHT

# Critical temperatures have settled when a turn changes none of them by more than this part of T.
AXIS_TOLERANCE = 1e-4
# A cell is on its side of the temperature when it is so many times its last change away from it; where
# all are, nothing will split or merge, and codevectors need to stand only as still as this part of T.
PATIENCE, STILL = 100.0, 1e-5
# Every third turn goes at most so many times as far as the two before it.
LONGEST_STRIDE = 8.0


class _Sums(NamedTuple):
    """What a turn adds up: masses (K,); sums (2 K, d) of samples, and of samples times projections."""

    mass: NDArray[np.float64]
    moments: NDArray[np.float64]


@kernel
def _add_up(kind, samples, sample_weight, temperature, n_cells, cells, along, sums, measuring):
    """Fill `sums` about the first codevector; if `measuring`, return what `measure_phase` averages.

    `along` (n_features, n_cells) are directions, along which samples are projected.
    """
    d, location, mass = samples.shape[1], cells.location, sums.mass
    mass[:], sums.moments[:] = 0.0, 0.0
    # Codevectors and directions side by side, so that two matrix products do.
    sides, foot = np.empty((d, 2 * n_cells)), np.zeros(2 * n_cells)
    for j in range(d):
        for i in range(n_cells):
            from_first = location[j, i] - location[j, 0]
            sides[j, i], sides[j, n_cells + i] = from_first, along[j, i]
            foot[i] += from_first * from_first
            foot[n_cells + i] += along[j, i] * from_first
    distance, expected, log_sum = np.empty(n_cells), 0.0, 0.0
    share, rows = np.empty((BLOCK, 2 * n_cells)), np.empty((BLOCK, d))
    for start in range(0, samples.shape[0], BLOCK):
        n = min(BLOCK, samples.shape[0] - start)
        for t in range(n):
            for j in range(d):
                rows[t, j] = samples[start + t, j] - location[j, 0]
        product = np.dot(rows[:n], sides)
        for t in range(n):
            part = share[t]
            if is_euclidean(kind):
                own = 0.0
                if measuring:
                    for j in range(d):
                        own += rows[t, j] * rows[t, j]
                for i in range(n_cells):
                    distance[i] = own + foot[i] - 2.0 * product[t, i]
            else:
                divergences(kind, samples[start + t], location, 0, n_cells, distance)
            nearest = associate(distance, cells.weight, None, n_cells, 0, temperature, EXACT, part)
            own = sample_weight[start + t]
            if measuring:
                # The nearest cell's share gives the logarithm of the sum over all.
                ratio = cells.weight[nearest] / part[nearest]
                log_sum += own * (math.log(ratio) - distance[nearest] / temperature)
                for i in range(n_cells):
                    expected += own * part[i] * distance[i]
            for i in range(n_cells):
                part[i] *= own
                mass[i] += part[i]
                part[n_cells + i] = part[i] * (product[t, n_cells + i] - foot[n_cells + i])
        sums.moments[:] += np.dot(share[:n].T, rows[:n])
    return expected, log_sum


@kernel
def _take_turn(kind, samples, sample_weight, temperature, n_cells, cells, sums):
    """One turn: means, weights, and one step of the power method for each axis.

    Returns (the largest divergence of a codevector from where it was, the largest change of a critical
    temperature that may still pass T).
    """
    d, location, axis = samples.shape[1], cells.location, cells.axis
    along, place, before = np.empty((d, n_cells)), np.empty(d), np.empty((d, 1))
    for i in range(n_cells):
        length = 0.0
        for j in range(d):
            length += axis[j, i] * axis[j, i]
        length = max(math.sqrt(length), MIN_LOCATION)
        for j in range(d):
            along[j, i] = axis[j, i] / length * math.sqrt(curvature(kind, location[j, i]))
    _add_up(kind, samples, sample_weight, temperature, n_cells, cells, along, sums, False)
    total, largest, change, distance = sums.mass.sum(), 0.0, 0.0, np.empty(1)
    origin = location[:, 0].copy()
    for i in range(n_cells):
        mass, shift, old, new = sums.mass[i], 0.0, 0.0, 0.0
        cells.weight[i] = max(mass / total, MIN_WEIGHT)
        if mass <= 0.0:
            continue
        for j in range(d):
            place[j], before[j, 0] = origin[j] + sums.moments[i, j] / mass, location[j, i]
            shift += along[j, i] * (place[j] - before[j, 0])
        for j in range(d):
            old += axis[j, i] * axis[j, i]
            # The covariance about the new mean, times the direction: E[proj x] - E[proj] E[x]
            moment = sums.moments[n_cells + i, j] / mass - shift * (place[j] - origin[j])
            axis[j, i] = math.sqrt(curvature(kind, before[j, 0])) * moment
            new += axis[j, i] * axis[j, i]
            location[j, i] = place[j]
        old, new = math.sqrt(old), math.sqrt(new)
        if abs(new - temperature) <= PATIENCE * abs(new - old):
            change = max(change, abs(new - old))
        divergences(kind, place, before, 0, 1, distance)
        largest = max(largest, distance[0])
    return largest, change


@kernel
def _stride(n_cells, location, origin, step):
    """From `origin`, over which two turns have led here, the first of them by `step`: go on further."""
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
    """Associations and means in turn, until no codevector moves by a divergence above `tolerance`.

    Near critical temperatures this would take hundreds of turns; so every third one is extrapolated
    (for the squared Euclidean distance, whose domain has no bounds). Locations, weights and axes of the
    cells change. Returns the turns.
    """
    d, location = samples.shape[1], cells.location
    sums = _Sums(np.empty(n_cells), np.empty((2 * n_cells, d)))
    origin, step = location[:, :n_cells].copy(), np.zeros((d, n_cells))
    turns = 0
    for turn in range(max_turns):
        largest, change = _take_turn(kind, samples, sample_weight, temperature, n_cells, cells, sums)
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
    sums = _Sums(np.empty(n_cells), np.empty((2 * n_cells, d)))
    expected, log_sum = _add_up(
        kind,
        samples,
        sample_weight,
        temperature,
        n_cells,
        cells,
        np.zeros((d, n_cells)),
        sums,
        True,
    )
    for t in range(samples.shape[0]):
        total += sample_weight[t]
    return expected / total, log_sum / total

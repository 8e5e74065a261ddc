# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled kernels: divergences, associations, the learning rule, the loop at one temperature.

Arrays that describe a codebook are stored column by column, one entry per cell, with room to grow: the
first `n_cells` entries are in use. So `location` is (n_features, capacity) and `payload` is (n_columns,
capacity), and every inner loop runs over cells, next to each other in memory.

`kind` chooses the divergence: a number for those of the package, or a pair of first-class functions
`(d(x, mu), phi''(mu))` of one coordinate for a user's own. Numba compiles a kernel once for the numbers
and once for the pairs.

Kernels validate nothing. The classes that call them do. They copy arrays in loops: assigning one slice
to another makes numba compile the text of an error message, which takes longer than all the rest.

References
----------
Equation numbers are those of Mavridis and Baras, "Multi-Resolution Online Deterministic Annealing: A
Hierarchical and Progressive Learning Architecture", unless another paper is named.
"""

import math

import numpy as np
from numba import types
from numba.extending import overload

from oda_rl._jit import LEAN, kernel, lean_kernel

SQUARED_EUCLIDEAN = 0
GENERALIZED_KL = 1
ITAKURA_SAITO = 2

# A share below exp(-36) of the largest is lost in a float64 anyway.
EXACT = 36.0
# Weights decay geometrically where no sample falls; they must stay positive numbers.
MIN_WEIGHT = 1e-12
# Codevectors of the KL and Itakura-Saito divergences must stay inside the open positive orthant.
MIN_LOCATION = 1e-300
# With a share in fewer than one cell in so many, the learning rule visits those cells one by one.
SPARSE = 4


def _add_coordinate(kind, xj, row, n_cells, out):
    """Add the divergence along one coordinate to `out[:n_cells]`; compiled code only."""


@overload(_add_coordinate, jit_options=LEAN)
def _overload_add_coordinate(kind, xj, row, n_cells, out):
    if isinstance(kind, types.Integer):
        return _add_known_coordinate
    return _add_own_coordinate


def _add_known_coordinate(kind, xj, row, n_cells, out):
    if kind == SQUARED_EUCLIDEAN:
        for i in range(n_cells):
            difference = xj - row[i]
            out[i] += difference * difference
    elif kind == GENERALIZED_KL:
        # x log x tends to 0 with x
        own = xj * math.log(xj) - xj if xj > 0.0 else 0.0
        for i in range(n_cells):
            mu = max(row[i], MIN_LOCATION)
            out[i] += own + mu - xj * math.log(mu)
    else:
        for i in range(n_cells):
            ratio = xj / max(row[i], MIN_LOCATION)
            out[i] += ratio - math.log(ratio) - 1.0


def _add_own_coordinate(kind, xj, row, n_cells, out):
    for i in range(n_cells):
        out[i] += kind[0](xj, row[i])


def _hessian(kind, mu):
    """phi''(mu) at one coordinate; compiled code only."""


@overload(_hessian, jit_options=LEAN)
def _overload_hessian(kind, mu):
    if isinstance(kind, types.Integer):
        return _known_hessian
    return _own_hessian


def _known_hessian(kind, mu):
    if kind == SQUARED_EUCLIDEAN:
        return 2.0
    inverse = 1.0 / max(mu, MIN_LOCATION)
    return inverse if kind == GENERALIZED_KL else inverse * inverse


def _own_hessian(kind, mu):
    return kind[1](mu)


def is_euclidean(kind):
    """Whether the divergence is the squared Euclidean distance; compiled code only."""


@overload(is_euclidean, jit_options=LEAN)
def _overload_is_euclidean(kind):
    if isinstance(kind, types.Integer):
        return lambda kind: kind == SQUARED_EUCLIDEAN
    return lambda kind: False


@lean_kernel
def divergences(kind, x, location, n_cells, out):
    """Fill `out[:n_cells]` with d(x, mu_i) (Definition 1 and the examples after Theorem 2)."""
    out[:n_cells] = 0.0
    for j in range(x.shape[0]):
        _add_coordinate(kind, x[j], location[j], n_cells, out)


@lean_kernel
def divergences_between(kind, x, location, begin, n_cells, out):
    """Fill `out[:n_cells]` with d(x, mu_i) of the cells from `begin` on."""
    for i in range(n_cells):
        out[i] = 0.0
    for j in range(x.shape[0]):
        _add_coordinate(kind, x[j], location[j, begin : begin + n_cells], n_cells, out)


@lean_kernel
def curvature(kind, mu):
    """Diagonal entry of the Hessian of the generator phi at one coordinate (eqs. 8 and 18)."""
    return _hessian(kind, mu)


@lean_kernel
def decay(q):
    """exp(-q) for q in [0, 40], to a relative error of 1e-13.

    Written as the 256th power of a short Taylor series, because a loop over it becomes vector code,
    which one over the library's function does not.
    """
    y = q * (1.0 / 256.0)
    s = 1.0 - y * (1.0 / 10.0)
    s = 1.0 - y * (1.0 / 9.0) * s
    s = 1.0 - y * (1.0 / 8.0) * s
    s = 1.0 - y * (1.0 / 7.0) * s
    s = 1.0 - y * (1.0 / 6.0) * s
    s = 1.0 - y * (1.0 / 5.0) * s
    s = 1.0 - y * (1.0 / 4.0) * s
    s = 1.0 - y * (1.0 / 3.0) * s
    s = 1.0 - y * (1.0 / 2.0) * s
    s = 1.0 - y * s
    s *= s
    s *= s
    s *= s
    s *= s
    s *= s
    s *= s
    s *= s
    return s * s


@lean_kernel
def associate(distance, weight, label, n_cells, wanted, temperature, reach, out):
    """Fill `out[:n_cells]` with the association probabilities p(mu_i | x) (eq. 13).

    Only cells whose label is `wanted` take part: the indicator s_i of the classifier. The exponent is
    taken relative to the nearest of them, so that the sum is never 0. Cells more than `reach` (at most
    `EXACT`) temperatures further away than the nearest get nothing. Returns the nearest cell, or -1
    where no cell has the label.
    """
    nearest = -1
    smallest = np.inf
    for i in range(n_cells):
        if distance[i] < smallest and label[i] == wanted:
            smallest = distance[i]
            nearest = i
    if nearest < 0 or temperature <= 0.0:
        out[:n_cells] = 0.0
        if nearest >= 0:
            out[nearest] = 1.0
        return nearest
    limit = reach * temperature
    for i in range(n_cells):
        excess = distance[i] - smallest
        # Cells of other labels may be nearer, and any cell far away: keep to the range of `decay`.
        q = min(max(excess / temperature, 0.0), EXACT)
        part = weight[i] * decay(q)
        out[i] = part if (excess < limit) & (label[i] == wanted) else 0.0
    total = 0.0
    for i in range(n_cells):
        total += out[i]
    scale = 1.0 / total
    for i in range(n_cells):
        out[i] *= scale
    return nearest


@lean_kernel
def learn(kind, x, share, stepsize, n_cells, location, weight, axis):
    """One step of the learning rule (eq. 12), all cells from the same state.

    The location moves by a p_i / rho_i' (x - mu_i), which is eq. 12 written for mu = sigma / rho: a cell
    without a share keeps its place and loses weight by the same factor as all the others. `axis`
    follows the leading eigenvector of phi'' C_i with its eigenvalue as its length: the critical
    temperature of the cell (Theorem 5).
    """
    for i in range(n_cells):
        weight[i] *= 1.0 - stepsize
    for i in range(n_cells):
        if share[i] == 0.0:
            continue
        weight[i] += stepsize * share[i]
        gain = stepsize * share[i] / max(weight[i], MIN_WEIGHT)
        length = 0.0
        projection = 0.0
        for j in range(x.shape[0]):
            difference = math.sqrt(_hessian(kind, location[j, i])) * (x[j] - location[j, i])
            length += axis[j, i] * axis[j, i]
            projection += axis[j, i] * difference
        # The mean moves at the same time; (1 - gain) makes the pair exact for the sample covariance.
        projection *= (1.0 - gain) / max(math.sqrt(length), MIN_LOCATION)
        for j in range(x.shape[0]):
            difference = x[j] - location[j, i]
            scaled = math.sqrt(_hessian(kind, location[j, i])) * difference
            axis[j, i] += gain * (projection * scaled - axis[j, i])
            location[j, i] += gain * difference
    for i in range(n_cells):
        weight[i] = max(weight[i], MIN_WEIGHT)


@lean_kernel
def learn_all(kind, x, share, stepsize, n_cells, location, weight, axis, scratch):
    """The same step as `learn`, coordinate by coordinate: faster where most cells have a share.

    `scratch` has room for three rows of cells.
    """
    gain, length, projection = scratch[0], scratch[1], scratch[2]
    for i in range(n_cells):
        raised = weight[i] * (1.0 - stepsize) + stepsize * share[i]
        gain[i] = stepsize * share[i] / max(raised, MIN_WEIGHT)
        weight[i] = max(raised, MIN_WEIGHT)
        length[i] = 0.0
        projection[i] = 0.0
    for j in range(x.shape[0]):
        xj, row, along = x[j], location[j], axis[j]
        for i in range(n_cells):
            difference = math.sqrt(_hessian(kind, row[i])) * (xj - row[i])
            length[i] += along[i] * along[i]
            projection[i] += along[i] * difference
    for i in range(n_cells):
        projection[i] *= (1.0 - gain[i]) / max(math.sqrt(length[i]), MIN_LOCATION)
    for j in range(x.shape[0]):
        xj, row, along = x[j], location[j], axis[j]
        for i in range(n_cells):
            difference = xj - row[i]
            scaled = math.sqrt(_hessian(kind, row[i])) * difference
            along[i] += gain[i] * (projection[i] * scaled - along[i])
            row[i] += gain[i] * difference


@lean_kernel
def critical_temperature(axis, i):
    """The temperature below which cell `i` splits: the length of its axis (eq. 18)."""
    total = 0.0
    for j in range(axis.shape[0]):
        total += axis[j, i] * axis[j, i]
    return math.sqrt(total)


@kernel
def largest_shift(kind, n_cells, location, reference, distance):
    """The largest divergence of a codevector from where it was at `reference`."""
    d = location.shape[0]
    x, before = np.empty(d), np.empty((d, 1))
    largest = 0.0
    for i in range(n_cells):
        for j in range(d):
            x[j] = location[j, i]
            before[j, 0] = reference[j, i]
        divergences(kind, x, before, 1, distance)
        largest = max(largest, distance[0])
    return largest


@kernel
def anneal(
    samples,
    labels,
    sample_weight,
    kind,
    temperature,
    stepsize_a,
    stepsize_b,
    begin,
    n,
    distortion,
    check_every,
    tolerance,
    max_steps,
    n_cells,
    location,
    weight,
    label,
    axis,
    reference,
    spread,
    scratch,
):
    """The inner loop of Algorithm 1: samples one after the other at one temperature.

    Stops when the codevectors have moved less than `tolerance` between two checks, or after `max_steps`
    samples at this temperature, or when `samples` are used up. `n` counts the samples at this
    temperature from `begin` + 1 on; that is at least 1, so that the first stepsize does not erase the
    warm start.
    `distortion` is the mean divergence from the nearest codevector over these samples (eq. 1), and
    `spread` the variance of the samples nearest to each cell along each feature, or has no rows.
    `scratch` has room for five rows of cells.

    Returns (samples used, n, distortion, whether the temperature is finished).
    """
    distance, share, rest = scratch[0], scratch[1], scratch[2:]
    for t in range(samples.shape[0]):
        x = samples[t]
        divergences(kind, x, location, n_cells, distance)
        nearest = associate(distance, weight, label, n_cells, labels[t], temperature, EXACT, share)
        if nearest >= 0:
            stepsize = min(1.0, sample_weight[t] / (stepsize_a + stepsize_b * n))
            touched = 0
            for i in range(n_cells):
                touched += share[i] > 0.0
            if SPARSE * touched < n_cells:
                learn(kind, x, share, stepsize, n_cells, location, weight, axis)
            else:
                learn_all(kind, x, share, stepsize, n_cells, location, weight, axis, rest)
            distortion += (distance[nearest] - distortion) / (n - begin)
            gain = min(1.0, stepsize / max(weight[nearest], MIN_WEIGHT))
            for j in range(spread.shape[0]):
                difference = x[j] - location[j, nearest]
                spread[j, nearest] += gain * (difference * difference - spread[j, nearest])
        n += 1
        if n % check_every == 0:
            shift = largest_shift(kind, n_cells, location, reference, distance)
            if shift < tolerance or n >= max_steps:
                return t + 1, n, distortion, True
            for j in range(location.shape[0]):
                for i in range(n_cells):
                    reference[j, i] = location[j, i]
    return samples.shape[0], n, distortion, False

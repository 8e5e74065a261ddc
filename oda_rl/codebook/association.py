# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled kernels: divergences of samples from codevectors, nearest cells, association probabilities.

Arrays that describe a codebook are stored column by column, one entry per cell, with space to grow: the
first `n_cells` entries are in use. So `location` is (n_features, capacity) and `weight` (capacity,),
and every inner loop runs over cells, next to each other in memory. `x` is a sample (n_features,), and
`distance` (capacity,) its divergences from the codevectors, in the units of the divergence.

`kind` selects the divergence: an integer for those of the package, or a pair of first-class functions
`(d(x, mu), phi''(mu))` of one coordinate for user-defined ones; kernels are compiled for both types.

Kernels validate nothing; their callers do. They copy arrays in loops: assigning slices makes numba
compile the text of an error message, which takes longer than everything else.

References
----------
Equations: Mavridis and Baras, "Multi-Resolution Online Deterministic Annealing: A Hierarchical and
Progressive Learning Architecture", unless another paper is named.
"""

import math

import numpy as np
from numba import types
from numba.extending import overload

from oda_rl._jit import LEAN, kernel, lean_kernel, vector_kernel

SQUARED_EUCLIDEAN = 0
GENERALIZED_KL = 1
ITAKURA_SAITO = 2

# A share below exp(-36) of the largest is lost to the rounding of a float64 anyway.
EXACT = 36.0
# From this many features on, squared distances are faster as matrix products, of BLOCK rows at a time.
PRODUCT_FEATURES = 12
BLOCK = 128
# Codevectors of the KL and Itakura-Saito divergences must stay inside the open positive orthant.
MIN_LOCATION = 1e-300


def _add_coordinate(kind, xj, row, n_cells, out):
    """Add the divergence along one coordinate to `out[:n_cells]`."""
    add = _add_own_coordinate if isinstance(kind, tuple) else _add_known_coordinate
    add(kind, xj, row, n_cells, out)


@overload(_add_coordinate, jit_options=LEAN)
def _overload_add_coordinate(kind, xj, row, n_cells, out):
    return _add_known_coordinate if isinstance(kind, types.Integer) else _add_own_coordinate


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
    """phi''(mu) at one coordinate."""
    return (_own_hessian if isinstance(kind, tuple) else _known_hessian)(kind, mu)


@overload(_hessian, jit_options=LEAN)
def _overload_hessian(kind, mu):
    return _known_hessian if isinstance(kind, types.Integer) else _own_hessian


def _known_hessian(kind, mu):
    if kind == SQUARED_EUCLIDEAN:
        return 2.0
    inverse = 1.0 / max(mu, MIN_LOCATION)
    return inverse if kind == GENERALIZED_KL else inverse * inverse


def _own_hessian(kind, mu):
    return kind[1](mu)


def is_euclidean(kind):
    """Whether the divergence is the squared Euclidean distance."""
    return kind == SQUARED_EUCLIDEAN


@overload(is_euclidean, jit_options=LEAN)
def _overload_is_euclidean(kind):
    if isinstance(kind, types.Integer):
        return lambda kind: kind == SQUARED_EUCLIDEAN
    return lambda kind: False


@lean_kernel
def divergences(kind, x, location, first, n_cells, out):
    """Fill `out[:n_cells]` with d(x, mu_i) of the cells from `first` on (Definition 1, Theorem 2)."""
    for i in range(n_cells):
        out[i] = 0.0
    if first == 0:  # without slices, which take time
        for j in range(x.shape[0]):
            _add_coordinate(kind, x[j], location[j], n_cells, out)
    else:
        for j in range(x.shape[0]):
            _add_coordinate(kind, x[j], location[j, first : first + n_cells], n_cells, out)
    if not is_euclidean(kind):  # cancellation may leave negative numbers
        for i in range(n_cells):
            out[i] = max(out[i], 0.0)


@vector_kernel
def add_distances(x, first, last, location, n_cells, out):
    """Add to `out` the squared distances along the coordinates from `first` to `last`."""
    for j in range(first, last):
        row = location[j]
        xj = x[j]
        for i in range(n_cells):
            difference = xj - row[i]
            out[i] += difference * difference


@lean_kernel
def curvature(kind, mu):
    """Diagonal entry of the Hessian of the generator phi at one coordinate (eqs. 8 and 18)."""
    return _hessian(kind, mu)


@vector_kernel
def smallest(numbers, n):
    """The smallest of the first `n` numbers; four at a time, so that comparisons are independent."""
    first, second, third, fourth = np.inf, np.inf, np.inf, np.inf
    i = 0
    while i + 4 <= n:
        first = min(first, numbers[i])
        second = min(second, numbers[i + 1])
        third = min(third, numbers[i + 2])
        fourth = min(fourth, numbers[i + 3])
        i += 4
    while i < n:
        first = min(first, numbers[i])
        i += 1
    return min(min(first, second), min(third, fourth))


@lean_kernel
def index_of_smallest(numbers, n):
    """The index of the smallest of the first `n` numbers, the first of equals: the nearest cell."""
    least = smallest(numbers, n)
    i = 0
    while numbers[i] > least:
        i += 1
    return i


@lean_kernel
def decay(q):
    """exp(-q) for q in [0, 40], to a relative error of 1e-13.

    The 256th power of a short Taylor series: unlike calls of the library's function, a loop over it is
    vectorised.
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

    Only cells whose `label` is `wanted` take part: the indicator s_i of the classifier; without labels
    (None) all do. Without weights (None) all cells count the same (eq. 6). The exponent is taken
    relative to the nearest of these cells, so that the sum is never 0. Cells more than `reach` (at most
    `EXACT`) temperatures further away than the nearest get 0; at a temperature of 0 the nearest gets 1.
    Returns the nearest cell, or -1 if no cell has the label.
    """
    if label is None:
        nearest = index_of_smallest(distance, n_cells)
        least = distance[nearest]
    else:
        nearest = -1
        least = np.inf
        for i in range(n_cells):
            if distance[i] < least and label[i] == wanted:
                least = distance[i]
                nearest = i
    if nearest < 0 or temperature <= 0.0:
        for i in range(n_cells):
            out[i] = 0.0
        if nearest >= 0:
            out[nearest] = 1.0
        return nearest
    limit = reach * temperature
    for i in range(n_cells):
        excess = distance[i] - least
        # Cells of other labels may be nearer, and cells may be far away: clip to the range of `decay`.
        q = min(max(excess / temperature, 0.0), EXACT)
        part = decay(q)
        if weight is not None:
            part *= weight[i]
        if label is None:
            out[i] = part if excess < limit else 0.0
        else:
            out[i] = part if (excess < limit) & (label[i] == wanted) else 0.0
    total = 0.0
    for i in range(n_cells):
        total += out[i]
    scale = 1.0 / total
    for i in range(n_cells):
        out[i] *= scale
    return nearest


@kernel
def all_divergences(kind, samples, location, n_cells, out):
    """Fill `out` (n_samples, n_cells) with d(x, mu_i)."""
    for t in range(samples.shape[0]):
        divergences(kind, samples[t], location, 0, n_cells, out[t])


@kernel
def all_associations(kind, samples, location, weight, n_cells, temperature, out):
    """Fill `out` (n_samples, n_cells) with p(mu_i | x) (eq. 13), without regard to labels."""
    distance = np.empty(n_cells)
    for t in range(samples.shape[0]):
        divergences(kind, samples[t], location, 0, n_cells, distance)
        associate(distance, weight, None, n_cells, 0, temperature, EXACT, out[t])


@kernel
def assign(kind, samples, labels, centred, location, label, n_cells, nearest, closest, second):
    """Find the cell of every sample: the nearest codevector (below Theorem 4), the first of equals.

    `nearest`, `closest` and `second` (n_samples,) get the cell, the divergence from its codevector, and
    that from the second nearest. If `labels` and `label` are given (not None), only cells of a sample's
    own label count. Without labels, squared Euclidean distances are computed in blocks of samples; if
    samples are `centred` and have many features, as matrix products.
    """
    if labels is None and is_euclidean(kind):
        by_products = centred and samples.shape[1] >= PRODUCT_FEATURES
        _assign_in_blocks(samples, by_products, location, n_cells, nearest, closest, second)
        return
    distance = np.empty(n_cells)
    for t in range(samples.shape[0]):
        divergences(kind, samples[t], location, 0, n_cells, distance)
        nearest[t], closest[t], second[t] = 0, np.inf, np.inf
        for i in range(n_cells):
            if labels is not None and label[i] != labels[t]:
                continue
            if distance[i] < closest[t]:
                second[t] = closest[t]
                closest[t] = distance[i]
                nearest[t] = i
            elif distance[i] < second[t]:
                second[t] = distance[i]


@lean_kernel
def _squared_distances(columns, location, n_cells, gap):
    """Fill `gap` (n_cells, BLOCK) for samples with the coordinates `columns` (n_features, BLOCK)."""
    for i in range(n_cells):
        row = gap[i]
        for t in range(BLOCK):
            row[t] = 0.0
        for j in range(columns.shape[0]):
            column, mu = columns[j], location[j, i]
            for t in range(BLOCK):
                difference = column[t] - mu
                row[t] += difference * difference


@lean_kernel
def _nearest_two(gap, n_cells, nearest, best, runner_up):
    """For each sample, find the two smallest of `gap` (n_cells, BLOCK), and the cell of the smallest."""
    for t in range(BLOCK):
        nearest[t], best[t], runner_up[t] = 0, np.inf, np.inf
    for i in range(n_cells):
        row = gap[i]
        for t in range(BLOCK):
            closer = row[t] < best[t]
            runner_up[t] = best[t] if closer else min(runner_up[t], row[t])
            nearest[t] = i if closer else nearest[t]
            best[t] = row[t] if closer else best[t]


@kernel
def _assign_in_blocks(samples, by_products, location, n_cells, nearest, closest, second):
    """`assign` for squared Euclidean distances, of BLOCK samples at a time.

    With `by_products`, cells are compared by |mu|^2 - 2 x mu, which loses digits unless the mean of x is
    near zero; the distance from the cell found is then computed again without that loss.
    """
    d = samples.shape[1]
    columns, gap = np.zeros((d, BLOCK)), np.zeros((n_cells, BLOCK))
    codevectors, norm = location[:, :n_cells].copy(), np.zeros(n_cells)
    cell, best, runner_up = np.empty(BLOCK, dtype=np.int64), np.empty(BLOCK), np.empty(BLOCK)
    for j in range(d):
        for i in range(n_cells):
            norm[i] += codevectors[j, i] * codevectors[j, i]
    for start in range(0, samples.shape[0], BLOCK):
        block = samples[start : start + BLOCK]
        if by_products:
            product = np.dot(block, codevectors)
            for i in range(n_cells):
                for t in range(block.shape[0]):
                    gap[i, t] = norm[i] - 2.0 * product[t, i]
        else:
            for t in range(block.shape[0]):
                for j in range(d):
                    columns[j, t] = block[t, j]
            _squared_distances(columns, location, n_cells, gap)
        _nearest_two(gap, n_cells, cell, best, runner_up)
        for t in range(block.shape[0]):
            exact = best[t]
            if by_products:
                exact = 0.0
                for j in range(d):
                    exact += (block[t, j] - codevectors[j, cell[t]]) ** 2
            nearest[start + t], closest[start + t] = cell[t], exact
            second[start + t] = exact + (runner_up[t] - best[t]) if by_products else runner_up[t]

# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled kernels of a function in a reproducing kernel Hilbert space: a dictionary and its weights.

The function is f_c(x) = sum_j w_jc k(d_j, x), with one dictionary d for all outputs c (eq. 5). The
inverse of the dictionary's Gram matrix is kept beside it, so that projecting the function onto fewer
points needs no system of equations to be solved.
"""

import math
from typing import Any, NamedTuple

from oda_rl._jit import inline_kernel, lean_kernel, vector_kernel

# A point whose kernel function is this near to the span of the others, as a squared distance, adds
# nothing but rounding errors to the inverse: it is expressed by the others instead.
DEPENDENT = 1e-6
# The largest entry of (Gram matrix times its inverse, minus the unit matrix) that is let be.
WORST_RESIDUAL = 1e-4


class Expansion(NamedTuple):
    """A function: room for more points than there are; `size[0]` of them count.

    `points` (p, room), `weights` (room, columns), `inverse` (room, room). The weights of an average, if
    there is one, are the second half of the columns. The rest is room to work in.
    """

    points: Any
    weights: Any
    inverse: Any
    size: Any
    near: Any
    span: Any
    old_points: Any
    old_weights: Any


@vector_kernel
def similarities(points, size, x, bandwidth, near):
    """The Gaussian kernel exp(-|x - d|^2 / (2 bandwidth^2)) of x with all points of the dictionary."""
    scale = -0.5 / (bandwidth * bandwidth)
    for j in range(size):
        near[j] = 0.0
    for i in range(points.shape[0]):
        row = points[i]
        for j in range(size):
            near[j] += (row[j] - x[i]) ** 2
    for j in range(size):
        near[j] = math.exp(scale * near[j])


@vector_kernel
def product(matrix, size, vector, out):
    """A symmetric matrix times a vector: what of it is in use."""
    for j in range(size):
        row = matrix[j]
        total = 0.0
        for m in range(size):
            total += row[m] * vector[m]
        out[j] = total


@vector_kernel
def add_outer(matrix, size, factor, vector):
    """Add factor * vector vector^T to a symmetric matrix."""
    for j in range(size):
        row = matrix[j]
        share = factor * vector[j]
        for m in range(size):
            row[m] += share * vector[m]


@lean_kernel
def values_of(weights, size, near, values):
    """f(x) for each output, from the similarities of x; as many outputs as `values` has entries."""
    for c in range(values.shape[0]):
        values[c] = 0.0
    for j in range(size):
        for c in range(values.shape[0]):
            values[c] += weights[j, c] * near[j]


@inline_kernel
def add(expansion, x, bandwidth, weight, n_weights):
    """Add weight * k(x, .) to the function (eq. 6): a new point, unless the others span it.

    The inverse of the bordered Gram matrix follows from the old one. There must be room. The columns of
    the weights from `n_weights` on, which hold an average, get nothing.
    """
    points, weights, inverse = expansion.points, expansion.weights, expansion.inverse
    near, span = expansion.near, expansion.span
    m = expansion.size[0]
    similarities(points, m, x, bandwidth, near)
    product(inverse, m, near, span)
    distance = 1.0
    for j in range(m):
        distance -= near[j] * span[j]
    if distance < DEPENDENT:
        for j in range(m):
            for c in range(n_weights):
                weights[j, c] += span[j] * weight[c]
        return
    span[m] = -1.0
    for j in range(m + 1):
        inverse[j, m] = 0.0
        inverse[m, j] = 0.0
    add_outer(inverse, m + 1, 1.0 / distance, span)
    for i in range(points.shape[0]):
        points[i, m] = x[i]
    for c in range(weights.shape[1]):
        weights[m, c] = weight[c] if c < n_weights else 0.0
    expansion.size[0] = m + 1


@inline_kernel
def remove(expansion, k):
    """Drop point k, projecting the function onto the span of the others."""
    points, weights, inverse, span = (
        expansion.points,
        expansion.weights,
        expansion.inverse,
        expansion.span,
    )
    last = expansion.size[0] - 1
    own = inverse[k, k]
    for j in range(last + 1):
        span[j] = inverse[k, j]
    for c in range(weights.shape[1]):
        share = weights[k, c] / own
        for j in range(last + 1):
            weights[j, c] -= share * span[j]
    # The last point takes the place of the one that goes.
    span[k] = span[last]
    for i in range(points.shape[0]):
        points[i, k] = points[i, last]
    for c in range(weights.shape[1]):
        weights[k, c] = weights[last, c]
    if k != last:
        corner = inverse[last, last]
        for j in range(last):
            inverse[k, j] = inverse[last, j]
        for j in range(last):
            inverse[j, k] = inverse[k, j]
        inverse[k, k] = corner
    add_outer(inverse, last, -1.0 / own, span)
    expansion.size[0] = last


@inline_kernel
def prune(expansion, budget, most, n_weights):
    """Destructive kernel orthogonal matching pursuit: drop points while the error stays within budget.

    The point dropped is the one without which the best approximation is best; the squared error of
    dropping j is |w_j|^2 / (K^-1)_jj, and errors of one after the other add up, each being orthogonal to
    the span that is left. `budget` is the largest norm of the difference, over all outputs together; of
    more points than `most` some go whatever it costs.
    """
    weights, inverse = expansion.weights, expansion.inverse
    left = budget * budget
    while expansion.size[0] > 0:
        best = 0
        least = math.inf
        for j in range(expansion.size[0]):
            cost = 0.0
            for c in range(n_weights):
                cost += weights[j, c] ** 2
            cost /= inverse[j, j]
            if cost < least:
                least = cost
                best = j
        if least > left and expansion.size[0] <= most:
            return
        left -= least
        remove(expansion, best)


@vector_kernel
def residual(points, inverse, size, bandwidth, row, near):
    """Largest entry of one row of (Gram matrix times its inverse, minus the unit matrix)."""
    scale = -0.5 / (bandwidth * bandwidth)
    for j in range(size):
        distance = 0.0
        for i in range(points.shape[0]):
            distance += (points[i, j] - points[i, row]) ** 2
        near[j] = math.exp(scale * distance)
    worst = 0.0
    for j in range(size):
        total = -1.0 if j == row else 0.0
        for m in range(size):
            total += near[m] * inverse[j, m]
        worst = max(worst, abs(total))
    return worst


@inline_kernel
def rebuild(expansion, old, new, project):
    """Set up the dictionary and its inverse anew, for a bandwidth that changes from `old` to `new`.

    Without `project` every point keeps its weight; with it the new function takes the values of the old
    one at the points. Points that the others span under the new kernel are dropped.
    """
    points, weights, inverse = expansion.points, expansion.weights, expansion.inverse
    old_points, old_weights, near = expansion.old_points, expansion.old_weights, expansion.near
    m, columns = expansion.size[0], weights.shape[1]
    for i in range(points.shape[0]):
        for j in range(m):
            old_points[j, i] = points[i, j]
    for j in range(m):
        if project:
            similarities(points, m, old_points[j], old, near)
            values_of(weights, m, near, old_weights[j])
        else:
            for c in range(columns):
                old_weights[j, c] = weights[j, c]
    expansion.size[0] = 0
    for j in range(m):
        before = expansion.size[0]
        add(expansion, old_points[j], new, old_weights[j], 0 if project else columns)
        if project and expansion.size[0] > before:
            for c in range(columns):
                old_weights[before, c] = old_weights[j, c]
    if project:
        m = expansion.size[0]
        for j in range(m):
            for c in range(columns):
                weights[j, c] = 0.0
            for k in range(m):
                for c in range(columns):
                    weights[j, c] += inverse[j, k] * old_weights[k, c]

# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""A function in a reproducing kernel Hilbert space: a dictionary of points and their weights.

The function is f_c(x) = sum_j w_jc k(d_j, x), with one dictionary d for all outputs c (eq. 5). The
inverse of the dictionary's Gram matrix is kept up to date, so that the function can be projected onto
fewer points without solving a system of equations.

Arguments of the compiled functions, in which m points of a `capacity` are in use:

- points (n_features, capacity), in the units of the samples; weights (capacity, columns);
- inverse (capacity, capacity), of the Gram matrix; similarity (capacity,), a kernel row, in [0, 1];
- x (n_features,) one sample, or (n, n_features) many; bandwidth, of the Gaussian kernel, in the same
  units.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from oda_rl._jit import inline_kernel, lean_kernel, vector_kernel

# A point whose kernel function is within this squared distance of the span of the others would only add
# rounding errors to the inverse: it is expressed by the others instead. The squared distance of point j
# is 1 / (K^-1)_jj. Errors of an inverse that is updated grow with the square of its entries: for one
# tenth of this distance, they would exceed the largest residual between two checks.
DEPENDENT = 1e-5
# The residual (Gram matrix times its inverse, minus the unit matrix) from which on the inverse is wrong
LARGEST_RESIDUAL = 1e-4


class Dictionary(NamedTuple):
    """The arrays of a function, of whose points the first `size[0]` are in use.

    If an average of functions is kept, its weights are the second half of the columns of `weights`. The
    last four are scratch arrays: (capacity,) twice, (capacity, n_features) and (capacity, columns).
    """

    points: Any
    weights: Any
    inverse: Any
    size: Any
    similarity: Any
    span: Any
    old_points: Any
    old_weights: Any

    @classmethod
    def of(cls, capacity: int, points: Any, weights: Any, inverse: Any) -> "Dictionary":
        """Make a dictionary with copies of m points and their arrays; `capacity` is at least m.

        These are points (n_features, m), weights (m, columns) and inverse (m, m).
        """
        (n_features, m), columns = points.shape, weights.shape[1]
        made = cls(
            points=np.zeros((n_features, capacity)),
            weights=np.zeros((capacity, columns)),
            inverse=np.zeros((capacity, capacity)),
            size=np.array([m]),
            similarity=np.zeros(capacity),
            span=np.zeros(capacity),
            old_points=np.zeros((capacity, n_features)),
            old_weights=np.zeros((capacity, columns)),
        )
        made.points[:, :m], made.weights[:m], made.inverse[:m, :m] = points, weights, inverse
        return made


@vector_kernel
def similarities(points, size, x, bandwidth, similarity):
    """Fill `similarity` with the kernel exp(-|x - d|^2 / (2 bandwidth^2)) of x and each point d."""
    scale = -0.5 / (bandwidth * bandwidth)
    for j in range(size):
        similarity[j] = 0.0
    for i in range(points.shape[0]):
        row = points[i]
        for j in range(size):
            difference = row[j] - x[i]
            similarity[j] += difference * difference
    for j in range(size):
        similarity[j] = math.exp(scale * similarity[j])


@vector_kernel
def product(matrix, size, vector, out):
    """Fill `out` with the product of the part in use of a symmetric matrix and a vector."""
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


@vector_kernel
def add_rows(matrix, first, last, size, factors, out):
    """Fill `out` (size,) with the sum of the rows from `first` to `last`, each times its factor."""
    for j in range(size):
        out[j] = 0.0
    for k in range(first, last):
        row = matrix[k]
        for j in range(size):
            out[j] += factors[k] * row[j]


@lean_kernel
def evaluate(x, bandwidth, points, weights, size, first_column, similarity, values):
    """Fill `values` (n, n_outputs) with f(x) for many x, by the weights from `first_column` on.

    Afterwards `similarity` holds the kernel row of the last x.
    """
    for t in range(x.shape[0]):
        similarities(points, size, x[t], bandwidth, similarity)
        for c in range(values.shape[1]):
            values[t, c] = 0.0
        for j in range(size):
            for c in range(values.shape[1]):
                values[t, c] += weights[j, first_column + c] * similarity[j]


@inline_kernel
def add(dictionary, x, bandwidth, weight, n_weights):
    """Add weight * k(x, .) to the function (eq. 6), as a new point unless the others span it.

    The inverse is updated for the bordered Gram matrix. The capacity must suffice. Columns of the
    weights from `n_weights` on, which hold an average, get nothing.
    """
    points, weights, inverse = dictionary.points, dictionary.weights, dictionary.inverse
    similarity, span = dictionary.similarity, dictionary.span
    m = dictionary.size[0]
    similarities(points, m, x, bandwidth, similarity)
    product(inverse, m, similarity, span)
    distance = 1.0
    for j in range(m):
        distance -= similarity[j] * span[j]
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
    dictionary.size[0] = m + 1


@inline_kernel
def prune(dictionary, budget, most, n_weights):
    """Destructive kernel orthogonal matching pursuit: drop points while the error stays within budget.

    The point dropped next is the one whose removal changes the function least. The squared error of
    dropping j is |w_j|^2 / (K^-1)_jj. Successive squared errors add up, as each change is orthogonal to
    the remaining span. `budget` is the largest norm of the total change, over all outputs together.
    While there are more than `most` points, points are dropped at any cost; so are points that others
    span, as new points can make an earlier one dependent.
    """
    points, weights, inverse = dictionary.points, dictionary.weights, dictionary.inverse
    span = dictionary.span
    left = budget * budget
    while dictionary.size[0] > 0:
        k = 0
        least = math.inf
        spanned = -1
        smallest = math.inf
        for j in range(dictionary.size[0]):
            cost = 0.0
            for c in range(n_weights):
                cost += weights[j, c] ** 2
            cost /= inverse[j, j]
            if cost < least:
                least = cost
                k = j
            if inverse[j, j] * DEPENDENT > 1.0 and cost < smallest:
                smallest = cost
                spanned = j
        if least > left and dictionary.size[0] <= most:
            if spanned < 0:
                return
            least = smallest
            k = spanned
        left -= least
        # Drop point k: project the function onto the span of the others.
        last = dictionary.size[0] - 1
        own = inverse[k, k]
        for j in range(last + 1):
            span[j] = inverse[k, j]
        for c in range(weights.shape[1]):
            share = weights[k, c] / own
            for j in range(last + 1):
                weights[j, c] -= share * span[j]
        # Move the last point to its place.
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
        dictionary.size[0] = last


@inline_kernel
def rebuild(dictionary, old, new, project):
    """Rebuild the dictionary and its inverse for a bandwidth that changes from `old` to `new`.

    Without `project` every point keeps its weight; with it the new function has the values of the old
    one at the points. Points that the others span under the new kernel are dropped.
    """
    points, weights, inverse = dictionary.points, dictionary.weights, dictionary.inverse
    old_points, old_weights = dictionary.old_points, dictionary.old_weights
    m, columns = dictionary.size[0], weights.shape[1]
    for i in range(points.shape[0]):
        for j in range(m):
            old_points[j, i] = points[i, j]
    if project:
        evaluate(old_points[:m], old, points, weights, m, 0, dictionary.similarity, old_weights[:m])
    else:
        for j in range(m):
            for c in range(columns):
                old_weights[j, c] = weights[j, c]
    dictionary.size[0] = 0
    for j in range(m):
        before = dictionary.size[0]
        add(dictionary, old_points[j], new, old_weights[j], 0 if project else columns)
        if project and dictionary.size[0] > before:
            for c in range(columns):
                old_weights[before, c] = old_weights[j, c]
    if project:
        m = dictionary.size[0]
        for j in range(m):
            for c in range(columns):
                weights[j, c] = 0.0
            for k in range(m):
                for c in range(columns):
                    weights[j, c] += inverse[j, k] * old_weights[k, c]


@lean_kernel
def residual(dictionary, bandwidth, row):
    """Largest residual in a row of the Gram matrix times its inverse; changes scratch arrays only."""
    m, point, span = dictionary.size[0], dictionary.old_points[0], dictionary.span
    for i in range(point.shape[0]):
        point[i] = dictionary.points[i, row]
    similarities(dictionary.points, m, point, bandwidth, dictionary.similarity)
    product(dictionary.inverse, m, dictionary.similarity, span)
    span[row] -= 1.0
    largest = 0.0
    for j in range(m):
        largest = max(largest, abs(span[j]))
    return largest


@lean_kernel
def is_exact(dictionary, bandwidth, row):
    """Whether the inverse is right in this row, and in that of the point which the others almost span.

    Errors grow with the entries of the inverse, which are largest there. There must be points.
    """
    largest = 0
    for j in range(dictionary.size[0]):
        if dictionary.inverse[j, j] > dictionary.inverse[largest, largest]:
            largest = j
    worst = max(residual(dictionary, bandwidth, row), residual(dictionary, bandwidth, largest))
    return worst < LARGEST_RESIDUAL


@lean_kernel
def factorise(dictionary, bandwidth):
    """Compute the inverse anew from the inverse Z of the Cholesky factor of the Gram matrix, as Z^T Z.

    Its errors are the square root of those of `rebuild`, which adds points to the inverse itself. Every
    point keeps its weight; points that others span are dropped.
    """
    points, weights, inverse = dictionary.points, dictionary.weights, dictionary.inverse
    point, similarity, span = dictionary.old_points[0], dictionary.similarity, dictionary.span
    n = 0
    for j in range(dictionary.size[0]):
        for i in range(points.shape[0]):
            point[i] = points[i, j]
        similarities(points, n, point, bandwidth, similarity)
        product(inverse, n, similarity, span)
        distance = 1.0
        for k in range(n):
            distance -= span[k] * span[k]
        add_rows(inverse, 0, n, n, span, similarity)
        if distance < DEPENDENT:
            for k in range(n):
                for c in range(weights.shape[1]):
                    weights[k, c] += similarity[k] * weights[j, c]
            continue
        scale = 1.0 / math.sqrt(distance)
        for k in range(n):
            inverse[n, k] = -scale * similarity[k]
            inverse[k, n] = 0.0
        inverse[n, n] = scale
        for i in range(points.shape[0]):
            points[i, n] = point[i]
        for c in range(weights.shape[1]):
            weights[n, c] = weights[j, c]
        n += 1
    dictionary.size[0] = n
    for j in range(n):
        for k in range(j, n):
            span[k] = inverse[k, j]
        add_rows(inverse, j, n, j + 1, span, similarity)
        for k in range(j + 1):
            inverse[j, k] = similarity[k]
            inverse[k, j] = similarity[k]

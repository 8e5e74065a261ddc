# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled kernels for a tree of cells: its descent and its tallies.

The arrays of a codebook are laid out as in `codebook.association`. The children of a cell are contiguous
in the arrays of their layer.

Algorithm and equation numbers are those of Mavridis and Baras, "Multi-Resolution Online Deterministic
Annealing: A Hierarchical and Progressive Learning Architecture".
"""

import math

import numpy as np

from oda_rl._jit import kernel, lean_kernel
from oda_rl.codebook.association import MIN_LOCATION, divergences, index_of_smallest


@kernel
def nearest_child(kind, samples, location, first, count, at, closest):
    """Go one layer down the tree (eq. 37): replace the cells `at` of samples by their nearest children.

    `location` (n_features, n_cells) are the codevectors of the next layer; `first` and `count` locate
    the children of each cell there. Samples whose cell has no children get -1; those without a cell
    keep -1. `closest` is filled with the divergences. Of equally near codevectors the first is taken.
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
        divergences(kind, samples[t], location, a, k, distance)
        best = index_of_smallest(distance, k)
        at[t] = a + best
        closest[t] = distance[best]


@kernel
def mixture_log_joint(kind, samples, at, parent, first, count, location, own, share, width, out):
    """Fill `out` with log(pi_c p(x | c)) of samples, by the codevectors that share a region (eq. 35).

    `at` are the cells of samples in a layer. All children of the cell's parent contribute, with their
    probabilities `share`, classes `own`, and the `width` (n_parents,) of their mixture. Rows of samples
    without a cell are not changed. Terms that are equal for all classes are omitted.
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
        divergences(kind, samples[t], location, a, k, distance)
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
    """Add number, weight and weighted sum of samples to their cells `at`."""
    for t in range(samples.shape[0]):
        i = at[t]
        if i >= 0:
            support[i] += 1.0
            mass[i] += weight[t]
            for j in range(samples.shape[1]):
                total[i, j] += weight[t] * samples[t, j]


@lean_kernel
def add_votes(targets, weight, at, tally):
    """Add the weights of samples to the votes for their classes in their cells `at`."""
    for t in range(targets.shape[0]):
        if at[t] >= 0:
            tally[at[t], targets[t]] += weight[t]


@lean_kernel
def add_products(basis, targets, weight, at, tally):
    """Add products of the basis with itself and with the outputs, and squared outputs, to the tallies.

    The basis is (n_samples, q) and the outputs are (n_samples, m); a tally has q q + q m + m numbers.
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

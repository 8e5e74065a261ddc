# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled kernels that split, merge and prune the cells of a codebook.

`cells` are the `BookArrays` of a codebook; the payload of a cell moves along with it. Each kernel
returns the new number of cells. Temperatures and tolerances are in the units of the divergence;
`minimum`, the lower bound of the domain, is in the units of the features.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oda_rl._jit import aligned_zeros, kernel, lean_kernel
from oda_rl.codebook.association import curvature, divergences

# How a payload column behaves when its cell splits or merges.
MEAN = 0
COUNT = 1
IDENTITY = 2
# `merge_ineffective` merges only cells closer than this divergence, in units of the temperature.
NEAR = 0.5


class BookArrays(NamedTuple):
    """The arrays of a codebook, one column per cell, with space to grow.

    `location` and `axis` are (n_features, capacity), `weight` and `label` (capacity,), `payload` is
    (n_columns, capacity) and `payload_kind` (n_columns,): MEAN, COUNT or IDENTITY.
    """

    location: NDArray[np.float64]
    weight: NDArray[np.float64]
    label: NDArray[np.int64]
    axis: NDArray[np.float64]
    payload: NDArray[np.float64]
    payload_kind: NDArray[np.int64]

    @classmethod
    def empty(cls, n_features: int, capacity: int, payload_kind: tuple[int, ...] = ()) -> "BookArrays":
        """Arrays of zeros."""
        return cls(
            aligned_zeros((n_features, capacity)),
            aligned_zeros(capacity),
            np.zeros(capacity, dtype=np.int64),
            aligned_zeros((n_features, capacity)),
            aligned_zeros((len(payload_kind), capacity)),
            np.array(payload_kind, dtype=np.int64),
        )


@lean_kernel
def length_of(axis, i):
    """The length of the axis of cell `i`, which is its critical temperature (Theorem 5)."""
    total = 0.0
    for j in range(axis.shape[0]):
        total += axis[j, i] * axis[j, i]
    return math.sqrt(total)


@lean_kernel
def split(minimum, i, offset, n_cells, cells):
    """Split cell `i` into `i` and `n_cells`, at mu_i + offset and mu_i - offset.

    Both children inherit the payload; counts are halved. If the identity of cell `i` is c, the new cell
    gets the mark -1 - c: it split off from c, and has no number of its own yet. No child moves more than
    nine tenths of the way towards `minimum`, the bound of the divergence's domain. To ensure this, the
    whole offset is shortened, which preserves sums that all samples share (as on the simplex). There
    must be capacity for one more cell.
    """
    location, payload, new = cells.location, cells.payload, n_cells
    cells.weight[i] *= 0.5
    cells.weight[new] = cells.weight[i]
    cells.label[new] = cells.label[i]
    scale = 1.0
    if minimum > -np.inf:
        for j in range(location.shape[0]):
            scale = min(scale, 0.9 * (location[j, i] - minimum) / max(abs(offset[j]), 1e-300))
    for j in range(location.shape[0]):
        step = scale * offset[j]
        location[j, new] = location[j, i] - step
        location[j, i] += step
        cells.axis[j, new] = cells.axis[j, i]
    for c in range(payload.shape[0]):
        if cells.payload_kind[c] == COUNT:
            payload[c, i] *= 0.5
        payload[c, new] = payload[c, i]
        if cells.payload_kind[c] == IDENTITY and payload[c, i] >= 0.0:
            payload[c, new] = -1.0 - payload[c, i]
    return n_cells + 1


@kernel
def split_critical(kind, minimum, temperature, n_more, perturbation, n_cells, cells, met):
    """Split the cells that are critical at `temperature`, hottest first, at most `n_more` of them.

    The critical temperature of a cell is the length of its axis (Theorem 5). A pair starts where theory
    expects it. Write z = phi''^(1/2) (x - mu); the variance of z along the leading direction is the
    critical temperature T_c. Expand the free energy of a symmetric pair at +m and -m to fourth order:
    for a Gaussian cell it is least at m^2 = T_c - T. (For two point masses, m^2 is three times that.) A
    pair that starts there need not grow from a small perturbation, which is very slow just below T_c.

    `perturbation` is the least offset, in standard deviations of the cell. `met` (at least n_cells,)
    gets the critical temperatures of the cells that were split.
    """
    axis, d = cells.axis, cells.location.shape[0]
    offset, critical = np.empty(d), np.empty(n_cells)
    for i in range(n_cells):
        critical[i] = length_of(axis, i)
    before = n_cells
    while n_cells - before < n_more:
        i = np.argmax(critical)
        hottest = critical[i]
        if not hottest > temperature:
            break
        met[n_cells - before] = hottest
        length = max(math.sqrt(hottest - temperature), perturbation * math.sqrt(hottest))
        for j in range(d):
            direction = axis[j, i] / hottest
            offset[j] = length * direction / math.sqrt(curvature(kind, cells.location[j, i]))
        new = n_cells
        n_cells = split(minimum, i, offset, n_cells, cells)
        # The pair accounts for length^2 of the variance along its direction; children keep the rest.
        left = max(0.0, hottest - length * length) / hottest
        for j in range(d):
            axis[j, i] *= left
            axis[j, new] *= left
        critical[i] = 0.0
    return n_cells


@lean_kernel
def remove(i, n_cells, cells):
    """Remove cell `i`; the last cell takes its place."""
    last = n_cells - 1
    cells.weight[i] = cells.weight[last]
    cells.label[i] = cells.label[last]
    for j in range(cells.location.shape[0]):
        cells.location[j, i] = cells.location[j, last]
        cells.axis[j, i] = cells.axis[j, last]
    for c in range(cells.payload.shape[0]):
        cells.payload[c, i] = cells.payload[c, last]
    return last


@lean_kernel
def merge(i, k, n_cells, cells):
    """Merge cell `k` into cell `i`: means are weighted, counts are added.

    The identity is that of the heavier cell, unless only the other has a number (see `split` for marks).
    """
    location, weight, axis, payload = cells.location, cells.weight, cells.axis, cells.payload
    part = weight[k] / (weight[i] + weight[k])
    weight[i] += weight[k]
    for j in range(location.shape[0]):
        location[j, i] += part * (location[j, k] - location[j, i])
    if part > 0.5:
        for j in range(axis.shape[0]):
            axis[j, i] = axis[j, k]
    for c in range(payload.shape[0]):
        if cells.payload_kind[c] == COUNT:
            payload[c, i] += payload[c, k]
        elif cells.payload_kind[c] == IDENTITY:
            named = payload[c, k] >= 0.0
            if named != (payload[c, i] >= 0.0):
                payload[c, i] = max(payload[c, i], payload[c, k])
            elif part > 0.5:
                payload[c, i] = payload[c, k]
        else:
            payload[c, i] += part * (payload[c, k] - payload[c, i])
    return remove(k, n_cells, cells)


@kernel
def merge_close(kind, tolerance, n_cells, cells):
    """Merge cells of one label that are closer than `tolerance` (Algorithm 1: effective codevectors)."""
    location, label = cells.location, cells.label
    distance, x = np.empty(n_cells), np.empty(location.shape[0])
    i = 0
    while i < n_cells - 1:
        for j in range(x.shape[0]):
            x[j] = location[j, i]
        divergences(kind, x, location, 0, n_cells, distance)
        nearest = -1
        for k in range(i + 1, n_cells):
            closer = nearest < 0 or distance[k] < distance[nearest]
            if closer and label[k] == label[i] and distance[k] < tolerance:
                nearest = k
        if nearest >= 0:
            n_cells = merge(i, nearest, n_cells, cells)
        else:
            i += 1
    return n_cells


@kernel
def merge_ineffective(kind, temperature, n_cells, cells):
    """Merge neighbours of one label if a single cell in their place would not split.

    The covariance of two merged cells is the weighted mean of their covariances plus that of the two
    codevectors. Its largest eigenvalue is at most the weighted mean of their critical temperatures plus
    2 p (1 - p) d, with p the share of one cell in the weight. If this bound is below `temperature`, the
    two are one effective codevector (Theorem 5), however slowly they would come together.
    """
    location, label, weight = cells.location, cells.label, cells.weight
    distance, x, critical = np.empty(n_cells), np.empty(location.shape[0]), np.empty(n_cells)
    i = 0
    while i < n_cells - 1:
        for j in range(x.shape[0]):
            x[j] = location[j, i]
        divergences(kind, x, location, 0, n_cells, distance)
        for k in range(i, n_cells):
            critical[k] = length_of(cells.axis, k)
        nearest, lowest = -1, temperature
        for k in range(i + 1, n_cells):
            if label[k] == label[i] and distance[k] < NEAR * temperature:
                part = weight[k] / (weight[i] + weight[k])
                inside = critical[i] + part * (critical[k] - critical[i])
                together = inside + 2.0 * part * (1.0 - part) * distance[k]
                if together < lowest:
                    nearest, lowest = k, together
        if nearest >= 0:
            n_cells = merge(i, nearest, n_cells, cells)
        else:
            i += 1
    return n_cells


@kernel
def prune_idle(min_weight, n_cells, cells):
    """Remove cells with less weight than `min_weight`, lightest first, but keep one of each label.

    The weights are scaled to sum to one again.
    """
    weight, label = cells.weight, cells.label
    while True:
        lightest = -1
        for i in range(n_cells):
            if weight[i] < min_weight and (lightest < 0 or weight[i] < weight[lightest]):
                siblings = 0
                for k in range(n_cells):
                    siblings += label[k] == label[i]
                if siblings > 1:
                    lightest = i
        if lightest < 0:
            break
        n_cells = remove(lightest, n_cells, cells)
    total = 0.0
    for i in range(n_cells):
        total += weight[i]
    for i in range(n_cells):
        weight[i] /= total
    return n_cells

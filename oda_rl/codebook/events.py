# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled kernels: what happens to cells in their life. They split, merge and are pruned.

The arrays are laid out as in `learning`; the payload of a cell goes along with it. Each event
returns the new number of cells.
"""

import numpy as np

from oda_rl._jit import kernel
from oda_rl.codebook.learning import divergences

# How a payload column behaves when its cell splits or merges.
MEAN = 0
COUNT = 1
IDENTITY = 2


@kernel
def split(minimum, i, offset, n_cells, location, weight, label, axis, payload, payload_kind):
    """Split cell `i` into `i` and `n_cells`, at mu_i + offset and mu_i - offset.

    Both children inherit the payload; counts are shared between them. Of an identity c the new cell gets
    the mark -1 - c: it came out of c, and has no number of its own yet. No child goes more than nine
    tenths of the way towards `minimum`, the bound of the divergence's domain: the whole offset is made
    shorter, so that sums which all samples share (as on the simplex) are kept. Capacity for one more
    cell must be there. Returns the new number of cells.
    """
    new = n_cells
    weight[i] *= 0.5
    weight[new] = weight[i]
    label[new] = label[i]
    scale = 1.0
    if minimum > -np.inf:
        for j in range(location.shape[0]):
            scale = min(scale, 0.9 * (location[j, i] - minimum) / max(abs(offset[j]), 1e-300))
    for j in range(location.shape[0]):
        step = scale * offset[j]
        location[j, new] = location[j, i] - step
        location[j, i] += step
        axis[j, new] = axis[j, i]
    for c in range(payload.shape[0]):
        if payload_kind[c] == COUNT:
            payload[c, i] *= 0.5
        payload[c, new] = payload[c, i]
        if payload_kind[c] == IDENTITY and payload[c, i] >= 0.0:
            payload[c, new] = -1.0 - payload[c, i]
    return n_cells + 1


@kernel
def remove(i, n_cells, location, weight, label, axis, payload):
    """Remove cell `i`; the last cell takes its place. Returns the new number of cells."""
    last = n_cells - 1
    weight[i] = weight[last]
    label[i] = label[last]
    for j in range(location.shape[0]):
        location[j, i] = location[j, last]
        axis[j, i] = axis[j, last]
    for c in range(payload.shape[0]):
        payload[c, i] = payload[c, last]
    return last


@kernel
def merge(i, k, n_cells, location, weight, label, axis, payload, payload_kind):
    """Merge cell `k` into cell `i`: weighted means, counts add up. Returns the new number of cells.

    The heavier cell's identity stays, but no mark of a cell without a number prevails over a number.
    """
    part = weight[k] / (weight[i] + weight[k])
    weight[i] += weight[k]
    for j in range(location.shape[0]):
        location[j, i] += part * (location[j, k] - location[j, i])
    if part > 0.5:
        for j in range(axis.shape[0]):
            axis[j, i] = axis[j, k]
    for c in range(payload.shape[0]):
        if payload_kind[c] == COUNT:
            payload[c, i] += payload[c, k]
        elif payload_kind[c] == IDENTITY:
            named = payload[c, k] >= 0.0
            if named != (payload[c, i] >= 0.0):
                payload[c, i] = max(payload[c, i], payload[c, k])
            elif part > 0.5:
                payload[c, i] = payload[c, k]
        else:
            payload[c, i] += part * (payload[c, k] - payload[c, i])
    return remove(k, n_cells, location, weight, label, axis, payload)


@kernel
def merge_close(kind, tolerance, n_cells, location, weight, label, axis, payload, payload_kind):
    """Merge cells of one label that are closer than `tolerance` (Algorithm 1: effective codevectors).

    Returns the new number of cells.
    """
    distance = np.empty(n_cells)
    x = np.empty(location.shape[0])
    i = 0
    while i < n_cells - 1:
        for j in range(x.shape[0]):
            x[j] = location[j, i]
        divergences(kind, x, location, n_cells, distance)
        nearest = -1
        for k in range(i + 1, n_cells):
            closer = nearest < 0 or distance[k] < distance[nearest]
            if closer and label[k] == label[i] and distance[k] < tolerance:
                nearest = k
        if nearest >= 0:
            n_cells = merge(i, nearest, n_cells, location, weight, label, axis, payload, payload_kind)
        else:
            i += 1
    return n_cells


@kernel
def prune_idle(min_weight, n_cells, location, weight, label, axis, payload):
    """Remove cells with less weight than `min_weight`, lightest first, but keep one of each label.

    The weights are scaled to sum to one again. Returns the new number of cells.
    """
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
        n_cells = remove(lightest, n_cells, location, weight, label, axis, payload)
    total = 0.0
    for i in range(n_cells):
        total += weight[i]
    for i in range(n_cells):
        weight[i] /= total
    return n_cells

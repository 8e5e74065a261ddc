# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled features of the baselines, from an observation to phi(x).

Tiles (a uniform grid is one tiling) and the cells of a self-organising map give features of which a few
are 1 and the others 0: their indices tell all. The Fourier basis is dense.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from oda_rl._jit import lean_kernel

# Kinds of features
TILES = 0
MAP = 1
FOURIER = 2

# Cells of the map further from the winner than this many radii stay where they are.
REACH = 3.0


class Encoder(NamedTuple):
    """From an observation to features.

    `source` (n, 2) names the entry of the observation behind each coordinate, or the cosine and the sine
    of an angle; `low` and `inverse` (n,) map it to [0, 1]. Tiles: `scale` and `size` (n,), tiles over
    the range and tiles stored; `offset` (tilings, n) in tiles. Fourier: `size[0]`, the order, and
    `parent` (features, 3). Map: `location` (n, cells) and `lattice` (dimensions, cells).
    """

    source: Any
    low: Any
    inverse: Any
    scale: Any
    size: Any
    offset: Any
    parent: Any
    location: Any
    lattice: Any


class Scratch(NamedTuple):
    """Room for what lives during one step only."""

    u: Any
    index: Any
    feature: Any
    values: Any
    room: Any


@lean_kernel
def to_unit(observation, source, low, inverse, u):
    """Fill `u` with the coordinates in [0, 1]. Returns False if one is not finite."""
    for j in range(u.shape[0]):
        value = np.float64(observation[source[j, 0]])
        if source[j, 1] >= 0:
            # `float` would leave a number of single precision, and its angle, as it is.
            value = math.atan2(np.float64(observation[source[j, 1]]), value)
        if not math.isfinite(value):
            return False
        u[j] = min(max((value - low[j]) * inverse[j], 0.0), 1.0)
    return True


@lean_kernel
def tile_indices(u, source, scale, size, offset, index):
    """Fill `index` with the tile that `u` lies in, for each tiling; angles wrap around."""
    for t in range(offset.shape[0]):
        flat = t
        for j in range(u.shape[0]):
            i = int(u[j] * scale[j] + offset[t, j])
            if i >= size[j]:
                i = i - size[j] if source[j, 1] >= 0 else size[j] - 1
            flat = flat * size[j] + i
        index[t] = flat


@lean_kernel
def best_match(u, source, location, distance):
    """The cell of the map that is nearest to `u`; the first of several. Angles wrap around."""
    n_cells = location.shape[1]
    for i in range(n_cells):
        distance[i] = 0.0
    for j in range(u.shape[0]):
        if source[j, 1] >= 0:
            for i in range(n_cells):
                difference = u[j] - location[j, i]
                difference -= math.floor(difference + 0.5)
                distance[i] += difference * difference
        else:
            for i in range(n_cells):
                difference = u[j] - location[j, i]
                distance[i] += difference * difference
    best = 0
    for i in range(1, n_cells):
        if distance[i] < distance[best]:
            best = i
    return best


@lean_kernel
def move_map(u, winner, rate, radius, source, location, lattice):
    """Draw the winner towards `u`, and its neighbours on the lattice less so."""
    reach = REACH * REACH * radius * radius
    for i in range(location.shape[1]):
        apart = 0.0
        for m in range(lattice.shape[0]):
            step = lattice[m, i] - lattice[m, winner]
            apart += step * step
        if apart > reach:
            continue
        part = rate * math.exp(-0.5 * apart / (radius * radius))
        for j in range(u.shape[0]):
            difference = u[j] - location[j, i]
            if source[j, 1] >= 0:
                difference -= math.floor(difference + 0.5)
                moved = location[j, i] + part * difference
                location[j, i] = moved - math.floor(moved)
            else:
                location[j, i] += part * difference


@lean_kernel
def fourier_features(u, order, parent, room, feature):
    """Fill `feature` with cos(pi c . u), for every vector c of the basis.

    A row of `parent` is another vector of the basis (an earlier one), the coordinate in which this one
    differs, and its number there. exp(i pi c . u) is then that of the other times a power that all
    share: a few multiplications in place of a cosine.
    """
    cosine, sine = room[0], room[1]
    power_cosine, power_sine = room[2], room[3]
    for j in range(u.shape[0]):
        c, s = math.cos(math.pi * u[j]), math.sin(math.pi * u[j])
        first = j * order
        power_cosine[first] = c
        power_sine[first] = s
        for k in range(1, order):
            at = first + k
            power_cosine[at] = power_cosine[at - 1] * c - power_sine[at - 1] * s
            power_sine[at] = power_sine[at - 1] * c + power_cosine[at - 1] * s
    cosine[0] = 1.0
    sine[0] = 0.0
    feature[0] = 1.0
    for f in range(1, parent.shape[0]):
        p = parent[f, 0]
        at = parent[f, 1] * order + parent[f, 2] - 1
        cosine[f] = cosine[p] * power_cosine[at] - sine[p] * power_sine[at]
        sine[f] = sine[p] * power_cosine[at] + cosine[p] * power_sine[at]
        feature[f] = cosine[f]


@lean_kernel
def encode(observation, kind, encoder, scratch):
    """Fill `scratch` with the features of an observation. Returns False if it is not finite."""
    u = scratch.u
    if not to_unit(observation, encoder.source, encoder.low, encoder.inverse, u):
        return False
    if kind == TILES:
        tile_indices(u, encoder.source, encoder.scale, encoder.size, encoder.offset, scratch.index)
    elif kind == MAP:
        scratch.index[0] = best_match(u, encoder.source, encoder.location, scratch.room[0])
    else:
        fourier_features(u, encoder.size[0], encoder.parent, scratch.room, scratch.feature)
    return True


@lean_kernel
def dot(weight, first, feature):
    """The product of `feature` with as many weights from `first` on, in four sums side by side."""
    n = feature.shape[0]
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for f in range(0, n - 3, 4):
        at = first + f
        a += weight[at] * feature[f]
        b += weight[at + 1] * feature[f + 1]
        c += weight[at + 2] * feature[f + 2]
        d += weight[at + 3] * feature[f + 3]
    for f in range(n - n % 4, n):
        a += weight[first + f] * feature[f]
    return a + b + c + d


@lean_kernel
def action_values(kind, weight, index, feature, values):
    """Fill `values` with Q(x, a) = w_a . phi(x).

    The weights of a sparse feature stand together, one for each action; those of a dense action stand
    together, one for each feature.
    """
    n_actions = values.shape[0]
    if kind == FOURIER:
        for a in range(n_actions):
            values[a] = dot(weight, a * feature.shape[0], feature)
        return
    for a in range(n_actions):
        values[a] = 0.0
    for k in range(index.shape[0]):
        first = index[k] * n_actions
        for a in range(n_actions):
            values[a] += weight[first + a]

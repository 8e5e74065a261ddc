# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled code that turns an observation into features: of tiles, a map or the Fourier basis.

Arguments: `u` (n,), the coordinates in [0, 1]; `source` (n, 2) and the other tables, as in `Encoder`.
All arrays are float64, except for `source`, `size` and `parent`, which are int64.
"""

import math
from typing import NamedTuple

from oda_rl._jit import lean_kernel
from oda_rl._structs import Float1, Float2, Int1, Int2

# Kinds of features
TILES, MAP, FOURIER = 0, 1, 2


class Encoder(NamedTuple):
    """The tables that turn an observation into features.

    `source` (n, 2) has for each coordinate the index of its entry in the observation and -1, or for an
    angle the indices of its cosine and sine. `low` and `inverse` (n,) map coordinates to [0, 1]. Tiles:
    `scale` and `size` (n,), tiles over the range and tiles stored; `offset` (tilings, n) in tiles.
    Fourier: `size[0]`, the order, and `parent` (features, 3), see `fourier_features`. Map: `location`
    (n, cells) and `lattice` (dimensions, cells).
    """

    source: Int2
    low: Float1
    inverse: Float1
    scale: Float1
    size: Int1
    offset: Float2
    parent: Int2
    location: Float2
    lattice: Float2


class Scratch(NamedTuple):
    """Scratch arrays: the coordinates, features and `values` (n_actions,) of the next observation.

    `spare` is (1, cells) for the distances of a map, or (4, n) for cosines, sines and their powers of
    the Fourier basis.
    """

    u: Float1
    index: Int1  # type: ignore[assignment]
    feature: Float1
    values: Float1
    spare: Float2


@lean_kernel
def nearest_cell(u, source, location, distance):
    """The index of the map's cell that is nearest to `u`; ties go to the first. Angles wrap around."""
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
def fourier_features(u, order, parent, spare, feature):
    """Fill `feature` with cos(pi c . u), for every vector c of the basis.

    A row of `parent` has the index of an earlier vector of the basis, the only coordinate in which this
    vector differs from it, and this vector's entry there. exp(i pi c . u) is then that of the earlier
    vector times a power that all vectors share: a few multiplications replace a cosine.
    """
    cosine, sine = spare[0], spare[1]
    power_cosine, power_sine = spare[2], spare[3]
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
    u, source = scratch.u, encoder.source
    for j in range(u.shape[0]):
        value = observation[source[j, 0]]
        if source[j, 1] >= 0:
            value = math.atan2(observation[source[j, 1]], value)
        if not math.isfinite(value):
            return False
        u[j] = min(max((value - encoder.low[j]) * encoder.inverse[j], 0.0), 1.0)
    if kind == MAP:
        scratch.index[0] = nearest_cell(u, source, encoder.location, scratch.spare[0])
    elif kind == FOURIER:
        fourier_features(u, encoder.size[0], encoder.parent, scratch.spare, scratch.feature)
    else:
        for t in range(encoder.offset.shape[0]):
            flat = t
            for j in range(u.shape[0]):
                size = encoder.size[j]
                i = int(u[j] * encoder.scale[j] + encoder.offset[t, j])
                if i >= size:
                    i = i - size if source[j, 1] >= 0 else size - 1
                flat = flat * size + i
            scratch.index[t] = flat
    return True

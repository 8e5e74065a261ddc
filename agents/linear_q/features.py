# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""The features of each baseline: their sizes and tables, and the compiled code that reads them.

Tiles (a uniform grid is one tiling) and the cells of a self-organising map give features of which a few
are 1 and the others 0: their indices tell all. The Fourier basis is dense.

Arguments of compiled code: `u` (n,) coordinates in [0, 1]; `source` (n, 2) and the other tables as in
`Encoder`, whose arrays all are float64, but for `source`, `size` and `parent`, int64.
"""

import math
from dataclasses import dataclass, field
from itertools import combinations, product
from math import comb, prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oda_rl._jit import lean_kernel
from oda_rl._structs import Float1, Float2, Int1, Int2
from oda_rl.agents.linear_q.config import (
    FourierConfig,
    LinearConfig,
    SOMConfig,
    TileCodingConfig,
    UniformGridConfig,
)

# Kinds of features
TILES, MAP, FOURIER = 0, 1, 2

# Of sparse features, by the memory that they take; of dense ones, by the time.
MOST_CELLS = 5_000_000
MOST_FUNCTIONS = 20_000
# What is taken if the user does not say
USUAL_BINS, USUAL_CELLS = 12, 700
USUAL_TILES, USUAL_TILE_CELLS = 10, 100_000
USUAL_FUNCTIONS = 1000


class Encoder(NamedTuple):
    """From an observation to features.

    `source` (n, 2) names the entry of the observation behind each coordinate and -1, or the cosine and
    the sine of an angle; `low` and `inverse` (n,) map it to [0, 1]. Tiles: `scale` and `size` (n,),
    tiles over the range and tiles stored; `offset` (tilings, n) in tiles. Fourier: `size[0]`, the order,
    and `parent` (features, 3). Map: `location` (n, cells) and `lattice` (dimensions, cells).
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

    `spare` is (1, cells) for the distances of a map, (4, n) for the powers of the Fourier basis.
    """

    u: Float1
    index: Int1  # type: ignore[assignment]
    feature: Float1
    values: Float1
    spare: Float2


@dataclass
class Features:
    """Tables of the kernels, see `Encoder`, of the kind `TILES`, `MAP` or `FOURIER`.

    `n_active` of the `n_features` are not 0 at a time. `gain` (n_features,) or (1,) are shares of the
    stepsize; `norm` is the sum of their squares, each with its share, or its mean if it varies.
    """

    kind: int
    n_features: int
    n_active: int
    norm: float
    gain: NDArray[np.float64] = field(default_factory=lambda: np.ones(1))
    scale: NDArray[np.float64] = field(default_factory=lambda: np.zeros(1))
    size: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    offset: NDArray[np.float64] = field(default_factory=lambda: np.zeros((1, 1)))
    parent: NDArray[np.int64] = field(default_factory=lambda: np.zeros((1, 3), dtype=np.int64))
    location: NDArray[np.float64] = field(default_factory=lambda: np.zeros((1, 1)))
    lattice: NDArray[np.float64] = field(default_factory=lambda: np.zeros((1, 1)))

    @property
    def is_dense(self) -> bool:
        """Whether all features are active at a time."""
        return self.kind == FOURIER

    @property
    def tables(self) -> tuple[NDArray[Any], ...]:
        """What the kernels read, in their order."""
        return self.scale, self.size, self.offset, self.parent, self.location, self.lattice


def make_features(
    config: LinearConfig,
    periodic: NDArray[np.bool_],
    rng: np.random.Generator,
    counts: NDArray[np.int64],
) -> Features:
    """The features that a configuration asks for.

    `periodic` (n_coordinates,) tells which coordinates are angles; `rng` places the cells of a map;
    `counts` (n_coordinates,), of discrete coordinates, are the bins of a grid, else it is empty.
    Raises a ValueError if there would be too many, or a count is not given for each coordinate.
    """
    if isinstance(config, UniformGridConfig):
        bins = _bins(config, len(periodic), counts)
        return make_tiles(bins, 1, np.ones(len(periodic), dtype=bool), "bins")
    if isinstance(config, TileCodingConfig):
        usual = _usual_tiles(len(periodic), config.tilings)
        tiles = _per_coordinate("tiles", config.tiles, usual, len(periodic))
        return make_tiles(tiles, config.tilings, periodic, "tiles")
    if isinstance(config, SOMConfig):
        return make_map(config.n_cells, len(periodic), rng)
    assert isinstance(config, FourierConfig)
    return make_fourier(config.order, config.coupled, len(periodic))


def count_features(config: LinearConfig, periodic: NDArray[np.bool_], counts: NDArray[np.int64]) -> int:
    """How many features a configuration asks for, none of which is made."""
    n = len(periodic)
    if isinstance(config, UniformGridConfig):
        return prod(_bins(config, n, counts))
    if isinstance(config, TileCodingConfig):
        tiles = _per_coordinate("tiles", config.tiles, _usual_tiles(n, config.tilings), n)
        return config.tilings * prod(_tile_counts(tiles, periodic))
    if isinstance(config, SOMConfig):
        return prod(_sides(config.n_cells, n))
    assert isinstance(config, FourierConfig)
    return _count_functions(config.order, config.coupled, n)[0]


def make_tiles(tiles: tuple[int, ...], tilings: int, wraps: NDArray[np.bool_], name: str) -> Features:
    """Displaced tilings; they reach over the range by a tile, but where a coordinate wraps around."""
    size = np.array(_tile_counts(tiles, wraps))
    cells = tilings * prod(_tile_counts(tiles, wraps))
    _check_size(name, tiles, cells, "cells", MOST_CELLS)
    # Displacements by odd numbers leave no pattern along the diagonal, as equal ones would.
    odd = 2 * np.arange(len(tiles)) + 1
    offset = (np.arange(tilings)[:, None] * odd % tilings) / tilings
    return Features(
        TILES,
        cells,
        tilings,
        float(tilings),
        scale=np.array(tiles, dtype=np.float64),
        size=size.astype(np.int64),
        offset=offset,
    )


def make_map(shape: int | tuple[int, ...], n_coordinates: int, rng: np.random.Generator) -> Features:
    """Cells on a lattice, before it has learned anything."""
    sides = _sides(shape, n_coordinates)
    cells = prod(sides)
    _check_size("n_cells", shape, cells, "cells", MOST_CELLS // max(n_coordinates, 1))
    lattice = np.array(list(product(*(range(n) for n in sides))), dtype=np.float64).T
    if len(sides) == n_coordinates:
        location = (lattice + 0.5) / np.array(sides)[:, None]
    else:
        location = rng.uniform(0.3, 0.7, (n_coordinates, cells))
    return Features(
        MAP,
        cells,
        1,
        1.0,
        location=np.ascontiguousarray(location),
        lattice=np.ascontiguousarray(lattice),
    )


def make_fourier(order: int, coupled: int | None, n_coordinates: int) -> Features:
    """The cosines of pi c . u, c having at most `coupled` numbers from 1 to `order`, the others 0."""
    n, coupled = _count_functions(order, coupled, n_coordinates)
    _check_size("order", order, n, "functions", MOST_FUNCTIONS, "; so does a smaller coupled")
    index: dict[tuple[int, ...], int] = {}
    parent = np.zeros((n, 3), dtype=np.int64)
    length = np.ones(n)
    for k in range(coupled + 1):
        for which in combinations(range(n_coordinates), k):
            for numbers in product(range(1, order + 1), repeat=k):
                vector = np.zeros(n_coordinates, dtype=np.int64)
                vector[list(which)] = numbers
                f = len(index)
                index[tuple(vector.tolist())] = f
                if k:
                    length[f] = np.linalg.norm(vector)
                    vector[which[-1]] = 0
                    parent[f] = index[tuple(vector.tolist())], which[-1], numbers[-1]
    gain = 1.0 / length
    # The square of a cosine is a half, on average.
    norm = 1.0 + 0.5 * float(gain[1:].sum())
    size = np.full(1, order, dtype=np.int64)
    return Features(FOURIER, n, n, norm, gain=gain, size=size, parent=parent)


def _bins(config: UniformGridConfig, n: int, counts: NDArray[np.int64]) -> tuple[int, ...]:
    """The bins of a grid along each coordinate."""
    return _per_coordinate("bins", config.bins, tuple(counts.tolist()) or _usual_bins(n), n)


def _tile_counts(tiles: tuple[int, ...], wraps: NDArray[np.bool_]) -> list[int]:
    """Tiles stored along each coordinate."""
    return [n if wrap else n + 1 for n, wrap in zip(tiles, wraps, strict=True)]


def _count_functions(order: int, coupled: int | None, n_coordinates: int) -> tuple[int, int]:
    """The functions of a Fourier basis, and how many coordinates one of them couples."""
    counts = [comb(n_coordinates, k) * order**k for k in range(n_coordinates + 1)]
    if coupled is None:
        coupled = max(
            (k for k in range(1, n_coordinates + 1) if sum(counts[: k + 1]) <= USUAL_FUNCTIONS),
            default=1,
        )
    coupled = min(coupled, n_coordinates)
    return sum(counts[: coupled + 1]), coupled


def _sides(shape: int | tuple[int, ...], n_coordinates: int) -> tuple[int, ...]:
    """The counts along the sides of a lattice."""
    if not isinstance(shape, int):
        return shape
    _check_size("n_cells", shape, shape, "cells", MOST_CELLS)
    return _even_sides(shape, n_coordinates)


def _even_sides(n_cells: int, n: int) -> tuple[int, ...]:
    """The counts along `n` sides that differ by no more than 1 and give no more than `n_cells`."""
    least = 1
    while (least + 1) ** n <= n_cells:
        least += 1
    sides = [least] * n
    for j in reversed(range(n)):
        if prod(sides) // least * (least + 1) <= n_cells:
            sides[j] += 1
    return tuple(sides)


def _usual_bins(n: int) -> int:
    return next((k for k in range(USUAL_BINS, 2, -1) if k**n <= USUAL_CELLS), 2)


def _usual_tiles(n: int, tilings: int) -> int:
    most = USUAL_TILE_CELLS // tilings
    return next((k for k in range(USUAL_TILES, 2, -1) if (k + 1) ** n <= most), 2)


def _per_coordinate(
    name: str, given: int | tuple[int, ...] | None, usual: int | tuple[int, ...], n: int
) -> tuple[int, ...]:
    """One count for each coordinate: as given, or the usual one."""
    if given is None:
        given = usual
    counts = (given,) * n if isinstance(given, int) else given
    if len(counts) != n:
        raise ValueError(
            f"{name} must be one number, or {n}, one for each coordinate of an observation (an angle "
            f"counts as one, after the others); got {given}."
        )
    return counts


def _check_size(name: str, given: Any, n: int, what: str, most: int, hint: str = "") -> None:
    if n > most:
        raise ValueError(
            f"{name}={given} gives {n:,} {what}; at most {most:,} are possible. Fewer {name} help{hint}."
        )


# -- compiled ----------------------------------------------------------------------------------------


@lean_kernel
def nearest_cell(u, source, location, distance):
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
def fourier_features(u, order, parent, spare, feature):
    """Fill `feature` with cos(pi c . u), for every vector c of the basis.

    A row of `parent` is another vector of the basis (an earlier one), the coordinate in which this one
    differs, and its number there. exp(i pi c . u) is then that of the other times a power that all
    share: a few multiplications in place of a cosine.
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

"""The features of each baseline: their sizes and tables, which the compiled code of `encoding` reads.

Tiles (a uniform grid is one tiling) and the cells of a self-organising map give sparse features: a few
are 1, the others are 0, and the indices of the former represent them. The Fourier basis is dense.
"""

from dataclasses import dataclass, field
from itertools import combinations, product
from math import comb, log10, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl.agents.linear_q.config import (
    FourierConfig,
    LinearConfig,
    SOMConfig,
    TileCodingConfig,
    UniformGridConfig,
)
from oda_rl.agents.linear_q.encoding import FOURIER, MAP, TILES

# Largest numbers of sparse features, limited by memory, and of dense features, limited by time
MOST_CELLS = 5_000_000
MOST_FUNCTIONS = 20_000
# Limits of the defaults: bins per coordinate and cells; tiles per coordinate and in all; functions
USUAL_BINS, USUAL_CELLS = 12, 700
USUAL_TILES, USUAL_TILE_CELLS = 10, 100_000
USUAL_FUNCTIONS = 1000
# Messages list the counts of so many coordinates, and write smaller numbers of features in full.
LISTED, IN_FULL = 8, 10**15


@dataclass
class Features:
    """Tables of the kernels, see `Encoder`, of the kind `TILES`, `MAP` or `FOURIER`.

    `n_active` of the `n_features` are nonzero at a time. `gain` (n_features,) or (1,) are factors of the
    stepsize. `norm` is the sum of gain times squared feature, or its mean if it varies.
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
        """Whether all features are active at the same time."""
        return self.kind == FOURIER

    @property
    def tables(self) -> tuple[NDArray[Any], ...]:
        """The last tables of an `Encoder`, in its order."""
        return self.scale, self.size, self.offset, self.parent, self.location, self.lattice


def make_features(
    config: LinearConfig,
    periodic: NDArray[np.bool_],
    rng: np.random.Generator,
    counts: NDArray[np.int64],
) -> Features:
    """Make the features of a configuration.

    `periodic` (n_coordinates,) marks the angles; `rng` places the cells of a map. `counts`
    (n_coordinates,), the numbers of values of discrete coordinates, are the default bins of a grid; it
    is empty if coordinates are not discrete. Raises a ValueError if there would be too many features, or
    if bins or tiles are not given for each coordinate.
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
    """Count the features of a configuration without making them."""
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
    """Displaced tilings, which extend beyond the range by a tile unless a coordinate wraps around."""
    size = np.array(_tile_counts(tiles, wraps))
    cells = tilings * prod(_tile_counts(tiles, wraps))
    _check_size(name, tiles, cells, "cells", MOST_CELLS)
    # Displacements by odd numbers avoid the pattern along the diagonal that equal ones would leave.
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
    """Cells of a map before learning: a uniform grid if it has a side per coordinate, or random."""
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
    """The cosines of pi c . u; at most `coupled` entries of c are from 1 to `order`, the others 0."""
    n, coupled = _count_functions(order, coupled, n_coordinates)
    _check_size("order", order, n, "functions", MOST_FUNCTIONS, " or coupled")
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
    """The number of functions of a Fourier basis, and of coordinates that one of them can couple."""
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
    """Counts along `n` sides that differ by at most 1, with a product of at most `n_cells`."""
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
    """One count for each coordinate: as given, or the default."""
    if given is None:
        given = usual
    counts = (given,) * n if isinstance(given, int) else given
    if len(counts) != n:
        raise ValueError(
            f"{name} must be one number, or {n}, one for each coordinate of an observation (angles, "
            f"each of which replaces two coordinates, come last); got {given}."
        )
    return counts


def _check_size(name: str, given: Any, n: int, what: str, most: int, hint: str = "") -> None:
    if n <= most:
        return
    number = f"{n:,}" if n < IN_FULL else f"about 10^{log10(n):.0f}"
    if isinstance(given, tuple) and len(given) > LISTED:
        alike, d = len(set(given)) == 1, len(given)
        counts = f"{given[0]} each" if alike else f"from {min(given)} to {max(given)}"
        given = f"{counts} for {d} coordinates"
        if 2**d > most:
            hint += ", or take SOMQ or TwoTimescaleQ, whose cells do not multiply with the coordinates"
    raise ValueError(
        f"{name}={given} gives {number} {what}; at most {most:,} are supported. Reduce {name}{hint}."
    )

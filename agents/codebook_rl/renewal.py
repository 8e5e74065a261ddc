"""Transfer of what cells have learned to a new codebook that was grown in other units."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oda_rl._types import Array
from oda_rl.agents.codebook_rl.arrays import Sizes
from oda_rl.codebook.book import Codebook


class Known(NamedTuple):
    """The previous cells, in their previous units.

    `location` (n_cells, n_observed) and `payload` (n_rows, n_cells) are those of the cells, which
    overlap at `temperature`; at 0 the nearest cell alone is active. `centre` and `scale` (n_observed,)
    are the units. `reach` (2, n_observed) has the lowest and highest coordinates, in these units, to
    which the cells apply; points outside of them are clipped.
    """

    location: Array
    payload: Array
    temperature: float
    centre: NDArray[np.float64]
    scale: NDArray[np.float64]
    reach: Array


def remember(remembered: Array, visited: Array, era: int, rng: np.random.Generator) -> None:
    """Replace some `remembered` observations (m, n_observed) by `visited` ones (n, n_observed).

    `era` counts from 1 the periods since the warm-up. A share of 1 / (era + 1) is replaced, so that the
    warm-up and all periods stay equally represented.
    """
    replaced = rng.permutation(len(remembered))[: len(remembered) // (era + 1)]
    remembered[replaced] = visited[np.linspace(0, len(visited) - 1, len(replaced)).astype(np.int64)]


def carry_over(known: Known, book: Codebook, centre: Array, scale: Array, sizes: Sizes) -> None:
    """Give the cells of `book`, in units of `centre` and `scale`, what is `known` at their locations.

    The functions of linear cells become tangents of the function that all previous cells make together.
    Visits are redistributed, stepsizes are averages, and traces are set to 0.
    """
    n, basis = len(book), sizes.n_basis
    low, high = known.reach
    points = np.clip((book.codevectors * scale + centre - known.centre) / known.scale, low, high)
    distance = ((points[:, None] - known.location) ** 2).sum(axis=2)
    away = distance - distance.min(axis=1, keepdims=True)
    share = (away == 0.0) * 1.0
    if known.temperature > 0.0:
        share = np.exp(-away / known.temperature)
    share /= share.sum(axis=1, keepdims=True)
    kept = sizes.trace_rows.start
    found = known.payload[:kept] @ share.T
    for first in range(0, sizes.n_rows if basis > 1 else 0, basis):
        slopes = slice(first + 1, first + basis)
        told = share * (known.payload[first] + points @ known.payload[slopes])
        value = told.sum(axis=1)
        if known.temperature > 0.0:  # the shares of the cells also depend on the location
            turned = told @ known.location - value[:, None] * (share @ known.location)
            found[slopes] += 2.0 / known.temperature * turned.T
        found[slopes] *= np.minimum(scale / known.scale, high - low)[:, None]
        found[first] = value - (found[slopes] * book.codevectors.T).sum(axis=0)
    found[sizes.n_rows : sizes.n_rows + sizes.n_actions] *= len(known.location) / n
    book.payload[:kept, :n] = found
    book.payload[sizes.trace_rows, :n] = 0.0

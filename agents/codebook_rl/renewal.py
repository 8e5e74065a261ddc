"""What cells have learned, carried over to a codebook that grew anew, in other units."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oda_rl._types import Array
from oda_rl.agents.codebook_rl.arrays import Sizes
from oda_rl.codebook.book import Codebook


class Known(NamedTuple):
    """What was learned in the units of before.

    `location` (n_cells, n_observed) and `payload` (n_rows, n_cells) are those of the cells, which
    overlap at `temperature`, 0 for the nearest alone; `centre` and `scale` (n_observed,) are the units.
    What they say ends at the low and high `reach` (2, n_observed), in these units.
    """

    location: Array
    payload: Array
    temperature: float
    centre: NDArray[np.float64]
    scale: NDArray[np.float64]
    reach: Array


def remember(remembered: Array, visited: Array, era: int, rng: np.random.Generator) -> None:
    """Put some of those `visited` (n, n_observed) in place of some `remembered` (m, n_observed).

    Of the warm-up and of each `era` since, the first, the second and so on, there are equally many.
    """
    replaced = rng.permutation(len(remembered))[: len(remembered) // (era + 1)]
    remembered[replaced] = visited[np.linspace(0, len(visited) - 1, len(replaced)).astype(np.int64)]


def carry_over(known: Known, book: Codebook, centre: Array, scale: Array, sizes: Sizes) -> None:
    """Give the cells of `book`, in units of this `centre` and `scale`, what is `known` where they lie.

    The functions of linear cells become the tangents of what the cells of before said together. Visits
    are shared out anew, stepsizes are averages, traces none.
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
        if known.temperature > 0.0:  # neighbours, too, make a slope
            turned = told @ known.location - value[:, None] * (share @ known.location)
            found[slopes] += 2.0 / known.temperature * turned.T
        found[slopes] *= np.minimum(scale / known.scale, high - low)[:, None]
        found[first] = value - (found[slopes] * book.codevectors.T).sum(axis=0)
    found[sizes.n_rows : sizes.n_rows + sizes.n_actions] *= len(known.location) / n
    book.payload[:kept, :n] = found
    book.payload[sizes.trace_rows, :n] = 0.0

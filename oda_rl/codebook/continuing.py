"""How a stream goes on from the codebook of a fit, at temperature zero."""

import numpy as np

from oda_rl._types import Array, Labels
from oda_rl.codebook.annealer import Annealer
from oda_rl.codebook.bifurcation import seed_axes
from oda_rl.codebook.growth import fill_axes
from oda_rl.codebook.learning import MIN_WEIGHT
from oda_rl.codebook.lloyd import cell_moments


def set_cells(
    annealer: Annealer, codevectors: Array, weights: Array, variances: Array, n_samples: int
) -> None:
    """Set the cells of an annealer whose annealing is done, and its stepsizes.

    Parameters
    ----------
    annealer : Annealer
        With K cells, and with the field `"spread"` in the payload of its codebook.
    codevectors, variances : ndarray of shape (K, n_features)
        In the units of the codebook.
    weights : ndarray of shape (K,)
        Relative weights, of a positive sum.
    n_samples : int
        Stepsizes are those after so many samples: cells are already means over them.
    """
    book, k = annealer.codebook, len(annealer.codebook)
    book.location[:, :k] = codevectors.T
    book["spread"][:] = variances.T
    book.weight[:k] = np.maximum(weights / weights.sum(), MIN_WEIGHT)
    annealer.reference = book.location.copy()
    n = max(1, n_samples)
    annealer.level_length += max(0, n - annealer.n)
    annealer.n = annealer.level_begun = n


def continue_from(annealer: Annealer, samples: Array, weight: Array, nearest: Labels) -> None:
    """Give the cells, whose codevectors are final, the weights, variances and axes of their samples.

    Stepsizes are those after these samples, but at most as many as at one temperature, so that cells can
    still follow slow changes.

    Parameters
    ----------
    annealer : Annealer
        As for `set_cells`.
    samples : ndarray of shape (n_samples, n_features)
        The samples of a fit, in the units of the codebook.
    weight : ndarray of shape (n_samples,)
        Their weights.
    nearest : ndarray of shape (n_samples,), int64
        Their cells.
    """
    book, k = annealer.codebook, len(annealer.codebook)
    mass, spread = np.empty(k), np.empty((book.n_features, k))
    cell_moments(samples, weight, nearest, k, book.location, mass, spread)
    # The axes of soft cells are longer: cells would be moved to where nothing is gained.
    cells = k, book.location, mass * weight.sum(), book.axis
    fill_axes(book.divergence.kind, samples, nearest, weight, np.arange(k), *cells)
    seed_axes(book, annealer.rng)
    n = min(len(samples), annealer.max_samples * k)
    set_cells(annealer, book.codevectors, mass, spread.T, n)

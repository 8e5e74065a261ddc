"""How far outputs lie from predictions, cell by cell, where the samples are at hand."""

import numpy as np

from oda_rl._types import Array

# The errors of all samples count in each cell as those of so many.
BORROWED = 5.0


def noise_of(residuals: Array, weight: Array, share: Array, expected: float) -> Array:
    """Mean squared errors to be expected in the cells, for each output.

    Parameters
    ----------
    residuals : ndarray of shape (n_samples, n_outputs)
        What a fit leaves of its own samples: too little, as these have told the fit.
    weight : ndarray of shape (n_samples,)
        Of the samples.
    share : ndarray of shape (n_samples, n_cells)
        Of the cells in the samples.
    expected : float
        The mean squared error of new samples, summed over outputs, by cross-validation; infinite if it
        is not known.

    Returns
    -------
    ndarray of shape (n_outputs, n_cells)
    """
    squared = residuals**2
    overall = weight @ squared / weight.sum()
    own = share * weight[:, None]
    found = (squared.T @ own + BORROWED * overall[:, None]) / (own.sum(axis=0) + BORROWED)
    left = float(overall.sum())
    more = expected / left if left > 0.0 and np.isfinite(expected) else 1.0
    return np.asarray(max(more, 1.0) * found)

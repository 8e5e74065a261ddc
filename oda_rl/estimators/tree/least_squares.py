"""The local models of a regression tree, by least squares from the sums in the tallies of its cells."""

import numpy as np

from oda_rl._types import Array

# Numbers in the systems of equations that are solved at a time.
BLOCK = 1_000_000


def split_tally(tally: Array, n_basis: int, n_outputs: int) -> tuple[Array, Array, Array]:
    """The sums in the tallies (..., n_tally) of a regressor, as `kernels.add_products` arranges them.

    With q basis functions and m outputs, these are the products of the basis with itself (..., q, q) and
    with the outputs (..., q, m), and the squared outputs (..., m).
    """
    q, m, shape = n_basis, n_outputs, tally.shape[:-1]
    end = q * q + q * m
    products = tally[..., : q * q].reshape(*shape, q, q)
    return products, tally[..., q * q : end].reshape(*shape, q, m), tally[..., end : end + m]


def squared_residuals(tally: Array, theta: Array, n_outputs: int) -> Array:
    """Sums of squared residuals (n_cells, n_outputs) of models `theta` (n_cells, q, n_outputs)."""
    products, moments, squares = split_tally(tally, theta.shape[1], n_outputs)
    left = squares - 2.0 * (theta * moments).sum(axis=1)
    left += (theta * (products @ theta)).sum(axis=1)
    return np.asarray(np.maximum(left, 0.0))


def fit_models(
    tally: Array, n_basis: int, n_outputs: int, ridge: float | None, above: Array | None
) -> tuple[Array, Array]:
    """Fit the models of cells, with slopes shrunk towards those of other models.

    Parameters
    ----------
    tally : ndarray of shape (n_cells, n_tally)
        Sums over the samples of each cell.
    n_basis, n_outputs : int
        A model has q = `n_basis` parameters for each output: a level, and slopes if q > 1.
    ridge : float or None
        Number of further samples that a cell is as if it had, with the slopes `above`; None for q.
    above : ndarray of shape (n_cells, q, n_outputs), or None
        Models with the slopes towards which those of each cell are shrunk; None for slopes of zero.

    Returns
    -------
    theta : ndarray of shape (n_cells, q, n_outputs)
        Models.
    loss : ndarray of shape (n_cells,)
        Sums of squared residuals, over all outputs.
    """
    k, q, m = len(tally), n_basis, n_outputs
    theta, loss, step = np.zeros((k, q, m)), np.zeros(k), max(1, BLOCK // q**2)
    pseudo = float(q) if ridge is None else ridge
    for part in (slice(start, start + step) for start in range(0, k, step)):
        products, moments, _ = split_tally(tally[part], q, m)
        mass = np.maximum(products[:, 0, 0], 1e-300)
        theta[part, 0] = moments[:, 0] / mass[:, None]
        if q > 1:
            before = None if above is None else above[part, 1:]
            _fit_slopes(theta[part], products, moments, mass[:, None, None], pseudo, before)
        loss[part] = squared_residuals(tally[part], theta[part], m).sum(axis=1)
    return theta, loss


def _fit_slopes(
    theta: Array, products: Array, moments: Array, mass: Array, pseudo: float, before: Array | None
) -> None:
    """Set the slopes of models (n_cells, q, n_outputs) whose levels are means, and their levels at zero.

    `mass` is (n_cells, 1, 1); the slopes count like those of `pseudo` samples with the slopes `before`.
    """
    mean = products[:, :1, 1:] / mass
    scatter = mean.transpose(0, 2, 1) * mean
    scatter *= mass
    np.subtract(products[:, 1:, 1:], scatter, out=scatter)  # large, so that it is not copied
    drawn = moments[:, 1:] - mass * (mean.transpose(0, 2, 1) * theta[:, :1])
    trace = np.maximum(np.trace(scatter, axis1=1, axis2=2), 0.0)[:, None, None]
    d = scatter.shape[1]
    strength = pseudo * trace / (d * mass) + 1e-12 * mass
    if before is not None:
        drawn += strength * before
    diagonal = np.arange(d)
    scatter[:, diagonal, diagonal] += strength[:, 0]
    theta[:, 1:] = np.linalg.solve(scatter, drawn)
    theta[:, :1] -= mean @ theta[:, 1:]

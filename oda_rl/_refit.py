"""Local models refitted when the samples are at hand: ridge regression of their mixture."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oda_rl._regression_kernels import associations

Array = NDArray[np.float64]

# Ridges tried by generalised cross-validation, and what a degree of freedom counts there.
RIDGES = np.geomspace(1e-8, 1e3, 34)
CAUTION = 1.3
# Larger systems are solved on so many samples, drawn at random.
MAX_SYSTEM = 2000


class Mixture(NamedTuple):
    """A fitted mixture of local models, and the generalised cross-validation of its squared error."""

    theta: Array  # (n_outputs * q, n_cells)
    score: float


def global_model(inputs: Array, outputs: Array, weight: Array, linear: bool) -> Array:
    """Weighted least squares of a single cell, a little ridge on the slopes: (1 + n_inputs, outputs)."""
    total = weight.sum()
    mean, level = weight @ inputs / total, weight @ outputs / total
    slopes = np.zeros((inputs.shape[1], outputs.shape[1]))
    if linear:
        centred = inputs - mean
        moments = (centred * weight[:, None]).T @ centred
        ridge = 1.0 + 1e-8 * np.trace(moments)
        slopes = np.linalg.solve(
            moments + ridge * np.eye(len(mean)), (centred * weight[:, None]).T @ (outputs - level)
        )
    return np.vstack([level - mean @ slopes, slopes])


def fit_mixture(
    inputs: Array,
    outputs: Array,
    weight: Array,
    codevectors: Array,
    temperature: float,
    linear: bool,
    ridge: float | None = None,
) -> Mixture:
    """Least squares of sum_i p_i(x) f_i(x) with a ridge towards the model of a single cell.

    Parameters
    ----------
    inputs, outputs : ndarray of shape (n_samples, n_inputs) and (n_samples, n_outputs)
        Scaled samples.
    weight : ndarray of shape (n_samples,)
        Their weights, with a mean of about 1.
    codevectors : ndarray of shape (n_cells, n_inputs)
        The cells.
    temperature : float
        At which they overlap; 0 for nearest cells.
    linear : bool
        Whether the local models are linear, or constant.
    ridge : float, optional
        Without, it is chosen by generalised cross-validation.

    Returns
    -------
    Mixture
    """
    k, d = codevectors.shape
    base = global_model(inputs, outputs, weight, linear)
    columns = mixture_columns(inputs, codevectors, temperature, linear)
    root = np.sqrt(weight)[:, None]
    target = root * (outputs - base[0] - inputs @ base[1:])
    solution, score = ridge_regression(root * columns, target, ridge, base.size / outputs.shape[1])
    theta = np.empty((outputs.shape[1], d + 1 if linear else 1, k))
    if linear:
        parts = solution.reshape(k, d + 1, -1)
        slopes = parts[:, 1:] / _width(temperature)
        theta[:, 0] = (base[0] + parts[:, 0] - np.einsum("kdm,kd->km", slopes, codevectors)).T
        theta[:, 1:] = (base[1:] + slopes).transpose(2, 1, 0)
    else:
        theta[:, 0] = (base[0] + solution).T
    return Mixture(theta.reshape(-1, k), score)


def mixture_columns(inputs: Array, codevectors: Array, temperature: float, linear: bool) -> Array:
    """The basis of the mixture: p_i, and for linear models p_i (x - mu_i) over the width of a cell."""
    k, d = codevectors.shape
    share = np.empty((len(inputs), k))
    associations(inputs, np.ascontiguousarray(codevectors.T), k, temperature, share)
    if not linear:
        return share
    columns = np.empty((len(inputs), k, d + 1))
    columns[:, :, 0] = share
    columns[:, :, 1:] = (inputs[:, None, :] - codevectors) / _width(temperature)
    columns[:, :, 1:] *= share[:, :, None]
    return columns.reshape(len(inputs), -1)


def ridge_regression(
    columns: Array, target: Array, ridge: float | None, used: float
) -> tuple[Array, float]:
    """The solution, and its generalised cross-validation; `used` degrees of freedom are gone already.

    By the eigenvectors of the smaller of the two matrices of products.
    """
    n, p = columns.shape
    if p <= n:
        values, vectors = np.linalg.eigh(columns.T @ columns)
        projected = vectors.T @ (columns.T @ target)
    else:
        values, vectors = np.linalg.eigh(columns @ columns.T)
        projected = np.sqrt(np.maximum(values, 0.0))[:, None] * (vectors.T @ target)
    values = np.maximum(values, 0.0)
    energy = (projected**2).sum(axis=1)
    ridges = RIDGES if ridge is None else np.array([max(ridge, RIDGES[0])])
    shrunk = values[:, None] + ridges
    residual = (target**2).sum() - 2.0 * (energy[:, None] / shrunk).sum(axis=0)
    residual += (values[:, None] * energy[:, None] / shrunk**2).sum(axis=0)
    freedom = used + (values[:, None] / shrunk).sum(axis=0)
    left = np.maximum(1.0 - CAUTION * freedom / n, 1e-3)
    scores = np.maximum(residual, 1e-12 * (target**2).sum()) / n / left**2
    best = int(scores.argmin())
    coordinates = projected / shrunk[:, best][:, None]
    if p <= n:
        return vectors @ coordinates, float(scores[best])
    scale = np.where(values > 0.0, 1.0 / np.sqrt(np.maximum(values, 1e-300)), 0.0)
    return columns.T @ (vectors @ (scale[:, None] * coordinates)), float(scores[best])


def second_moments(
    inputs: Array,
    metric: Array,
    weight: Array,
    codevectors: Array,
    temperature: float,
    linear: bool,
    ridge: float,
) -> Array:
    """Inverse second moments of the basis in every cell, of shape (q * q, n_cells): where to go on.

    Inputs are standardised; times `metric` they are in the units of the codevectors.
    """
    k, d = codevectors.shape
    share = np.empty((len(inputs), k))
    associations(inputs * metric, np.ascontiguousarray(codevectors.T), k, temperature, share)
    share *= weight[:, None]
    if not linear:
        return 1.0 / (ridge + share.sum(axis=0))[None, :]
    basis = np.column_stack([np.ones(len(inputs)), inputs])
    moments = np.stack([(basis * share[:, i : i + 1]).T @ basis for i in range(k)])
    inverse = np.linalg.inv(moments + ridge * np.eye(d + 1))
    return np.ascontiguousarray(inverse.reshape(k, -1).T)


def local_slopes(
    inputs: Array,
    outputs: Array,
    weight: Array,
    codevectors: Array,
    temperature: float,
    metric: Array,
) -> tuple[Array, Array]:
    """Slopes of a linear model of every cell on its own (n_cells, n_inputs, n_outputs), cells' weights.

    With a ridge towards the slopes of the whole. Inputs are standardised; times `metric` they are in the
    units of the codevectors.
    """
    k, d = codevectors.shape
    base = global_model(inputs, outputs, weight, True)
    rest = outputs - base[0] - inputs @ base[1:]
    share = np.empty((len(inputs), k))
    associations(inputs * metric, np.ascontiguousarray(codevectors.T), k, temperature, share)
    share *= weight[:, None]
    centres = codevectors / metric
    slopes = np.empty((k, d, outputs.shape[1]))
    ridge = np.diag(np.r_[0.5, np.ones(d)])
    for i in range(k):
        basis = np.column_stack([np.ones(len(inputs)), inputs - centres[i]])
        weighted = (basis * share[:, i : i + 1]).T
        slopes[i] = np.linalg.solve(weighted @ basis + ridge, weighted @ rest)[1:]
    return slopes + base[1:], share.sum(axis=0) / share.sum()


def _width(temperature: float) -> float:
    return float(np.sqrt(temperature)) if temperature > 0.0 else 1.0

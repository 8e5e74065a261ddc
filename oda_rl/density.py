"""The histogram over the cells of a codebook, as a density estimator (Theorem 4)."""

from collections.abc import Callable
from math import lgamma, log, pi

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree

from oda_rl._types import Array, Labels
from oda_rl._validation import CONSTANT, check_at_least, numbers_of

# The least standard deviation of a cell along a feature, relative to the typical one.
RELATIVE_WIDTH = 1e-6
# The weight, in samples, of the variance that is expected of a cell against that of its own samples.
EXPECTED_SAMPLES = 2.0
# Samples in a cell by which the influence of its distance from others on its variance falls by 1/e.
LONELY_SAMPLES = 4.0


def cell_variances(codevectors: Array, spreads: Array, weights: Array, n_samples: float) -> Array:
    """Variances of cells along the features, to be expected of further samples.

    Those of a cell with few samples are too small, and zero for a single sample. So they are averaged
    with an expected variance, which counts like two samples: the mean variance within cells, or for a
    cell of hardly more than a sample, if that is larger, the variance of a uniformly filled ball that
    reaches half of the way to the next codevector. Both are relative to the typical variance along each
    feature. The weight and the distance were chosen by densities of samples left out.

    Parameters
    ----------
    codevectors, spreads : ndarray of shape (n_codevectors, n_features)
        The cells' codevectors, and the variances of their samples about them.
    weights : ndarray of shape (n_codevectors,)
        The cells' probabilities.
    n_samples : float
        The number of samples in all cells.

    Returns
    -------
    ndarray of shape (n_codevectors, n_features)
        Positive numbers. Along a feature that is constant in all cells they are tiny, or one if there
        is only a single sample, which does not show that a feature is constant.
    """
    mean, within = (np.average(x, axis=0, weights=weights) for x in (codevectors, spreads))
    among = np.average((codevectors - mean) ** 2, axis=0, weights=weights)
    rounding = CONSTANT * np.abs(mean)
    constant = within + among <= rounding**2
    typical = np.where(within > RELATIVE_WIDTH**2 * among, within, among)
    typical[constant] = 1.0
    n = n_samples * weights[:, None]
    ball = _half_way(np.where(constant, 0.0, codevectors) / np.sqrt(typical)) / (spreads.shape[1] + 2.0)
    share = np.exp(np.minimum(0.0, 1.0 - n) / LONELY_SAMPLES)
    usual = within / typical
    expected = typical * (usual + share * np.maximum(0.0, ball[:, None] - usual))
    found = (n * spreads + EXPECTED_SAMPLES * expected) / (n + EXPECTED_SAMPLES)
    found = np.maximum(found, RELATIVE_WIDTH**2 * typical)
    least = RELATIVE_WIDTH if n_samples > 1.0 else 1.0
    return np.where(constant, np.maximum(least, rounding) ** 2, found)


def _half_way(points: Array) -> Array:
    """Squared distances (n,) of points (n, n_features) from half of the way to the next one."""
    if len(points) == 1:
        return np.zeros(1)
    return np.asarray(0.25 * cKDTree(points).query(points, k=2)[0][:, 1] ** 2)


def log_volumes(variances: Array) -> Array:
    """Logarithms of the volumes of cells with given variances.

    A cell is taken to be the axis-parallel ellipsoid that has the cell's variances when it is filled
    uniformly: its half axes are sqrt((d + 2) variance). In one dimension this is the interval itself.
    Exact volumes of Voronoi cells are intractable in many dimensions, and infinite at the border.

    Parameters
    ----------
    variances : ndarray of shape (n_codevectors, n_features)
        The positive variance of every cell along every feature, as by `cell_variances`.

    Returns
    -------
    ndarray of shape (n_codevectors,)
        For volumes in the product of the units of the features.
    """
    d = variances.shape[1]
    unit_ball = 0.5 * d * log(pi) - lgamma(0.5 * d + 1.0)
    return unit_ball + 0.5 * np.sum(np.log((d + 2.0) * variances), axis=1)


def box_around(codevectors: Array, spreads: Array, minimum: float = -np.inf) -> Array:
    """The bounding box of the data, of shape (2, n_features): lower and upper ends.

    Cells that are filled uniformly reach sqrt(3) standard deviations to either side. A constant feature,
    which has no density, gets a width of one, so that the density is that of the others; its interval
    does not go below `minimum`, the least value in the domain of the divergence.
    """
    reach = np.sqrt(3.0 * spreads)
    lower, upper = (codevectors - reach).min(axis=0), (codevectors + reach).max(axis=0)
    middle = 0.5 * (lower + upper)
    rounding = CONSTANT * np.abs(middle)
    width = np.maximum(1.0, 2.0 * rounding)  # far from zero, floats are further apart than one
    low, constant = np.maximum(middle - 0.5 * width, minimum), upper - lower <= rounding
    return np.stack([np.where(constant, low, lower), np.where(constant, low + width, upper)])


def cell_volumes(
    box: Array, n_codevectors: int, assign: Callable[[Array], Labels], n_draws: int, seed: int
) -> tuple[Array, Array]:
    """Volumes Vol(S_i) of Voronoi cells inside a box, by Monte Carlo (Theorem 4).

    Parameters
    ----------
    box : ndarray of shape (2, n_features)
        Its lower and upper ends.
    n_codevectors : int
        The number K of cells.
    assign : callable
        Returns the cells (n,) of points of shape (n, n_features).
    n_draws : int
        The number of points drawn uniformly in the box.
    seed : int
        Seed of these draws.

    Returns
    -------
    tuple of two ndarrays of shape (n_codevectors,)
        The volumes, none below that of a single draw, and their relative standard errors
        sqrt((1 - q) / (q n)), with q the fraction of the n draws in the cell.
    """
    lower, upper = box
    points = np.random.default_rng(seed).uniform(lower, upper, (n_draws, len(lower)))
    drawn = np.maximum(1, np.bincount(assign(points), minlength=n_codevectors))
    part = drawn / n_draws
    return part * float(np.prod(upper - lower)), np.sqrt((1.0 - part) / drawn)


def histogram(
    samples: Array,
    box: ArrayLike,
    assign: Callable[[Array], Labels],
    shares: Array,
    n_draws: int,
    seed: int,
) -> tuple[Array, Array]:
    """The histogram over the cells inside a box (Theorems 4, 7 and 8), 0 outside of it.

    Parameters
    ----------
    samples : ndarray of shape (n_samples, n_features)
        Where to evaluate the density.
    box, assign, n_draws, seed
        As for `cell_volumes`.
    shares : ndarray of shape (n_codevectors,) or (n_codevectors, n_classes)
        The probabilities of the cells; a column for each density.

    Returns
    -------
    tuple of ndarrays of shape (n_samples,) or (n_samples, n_classes), and (n_samples,)
        Densities, each with an integral of one, and their relative standard errors due to the draws.

    Raises
    ------
    ValueError
        If the box is not two rows with lower < upper, or `n_draws` is below 1.
    """
    ends = numbers_of(box, "box")
    if ends.shape != (2, samples.shape[1]) or not np.all(ends[0] < ends[1]):
        raise ValueError(
            f"box must be a row of {samples.shape[1]} lower bounds and one of larger upper bounds, "
            f"got {box!r}."
        )
    check_at_least(1, n_draws=n_draws)
    volume, error = cell_volumes(ends, len(shares), assign, n_draws, seed)
    nearest = assign(samples)
    inside = np.all((samples >= ends[0]) & (samples <= ends[1]), axis=1)
    density = (shares.T / volume).T[nearest]
    return np.where(inside, density.T, 0.0).T, error[nearest]


def log_density(
    samples: Array, nearest: Labels, codevectors: Array, variances: Array, weights: Array
) -> Array:
    """Logarithm of the density at every sample: log(p(mu_i) / Vol(S_i)) for the cell it is in.

    A histogram is constant within a cell and zero outside of all. To rank samples outside, the density
    falls off like a Gaussian outside the cell's ellipsoid: its logarithm falls by half of the amount by
    which the squared distance from the codevector, in variances, exceeds d + 2.

    Parameters
    ----------
    samples : ndarray of shape (n_samples, n_features)
        Where to evaluate the density.
    nearest : ndarray of shape (n_samples,)
        Their cells.
    codevectors, variances : ndarray of shape (n_codevectors, n_features)
        The cells' codevectors, and their variances as by `cell_variances`.
    weights : ndarray of shape (n_codevectors,)
        Their probabilities.

    Returns
    -------
    ndarray of shape (n_samples,)
    """
    d = samples.shape[1]
    with np.errstate(divide="ignore"):
        inside = np.log(weights) - log_volumes(variances)
    difference = samples - codevectors[nearest]
    scaled = np.sum(difference**2 / variances[nearest], axis=1)
    return inside[nearest] - 0.5 * np.maximum(0.0, scaled - (d + 2.0))

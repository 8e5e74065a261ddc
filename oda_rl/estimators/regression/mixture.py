# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""The mixture of local models: its predictions, and its fit to all samples.

Arrays of cells and local models in kernels are laid out as in `codebook.learning`; `inputs` are
(n_samples, n_inputs), in the units of the distance.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from oda_rl._jit import kernel
from oda_rl._ridge import MAX_ORDER, Ridge, left_out, solve_dual, solve_in_blocks, solve_primal, tried
from oda_rl._types import Array
from oda_rl.codebook.association import (
    EXACT,
    SQUARED_EUCLIDEAN,
    add_distances,
    all_divergences,
    associate,
)
from oda_rl.codebook.divergences import SMALLEST_SQUARE
from oda_rl.codebook.model_learning import predict_output

# If less than this part of the degrees of freedom is left, local models are not fitted.
LEAST_LEFT = 0.1
# Maximum number of columns in a fit: many more would add little, and the time grows with their cube.
MOST_COLUMNS = 1000
# Maximum number of second moments of all cells together, all of which each sample of a stream changes.
MOST_MOMENTS = 1_000_000
# Number of samples whose columns are computed at a time.
BLOCK = 1024
# Smallest singular value, as a part of the largest, of shares that are inverted.
LEAST_SINGULAR = 0.1
# Least width of cells as a part of their spacing: that of cells that divide an interval. Codevectors are
# the same but for rounding up to this part of the largest squared distance.
LEAST_WIDTH, SAME = 1.0 / 12.0, 1e-18


@kernel
def associate_inputs(inputs, location, n_cells, temperature, out):
    """Fill `out` (samples, cells) with association probabilities along the inputs (eq. 6)."""
    distance = np.empty(n_cells)
    for t in range(inputs.shape[0]):
        distance[:] = 0.0
        add_distances(inputs[t], 0, inputs.shape[1], location, n_cells, distance)
        associate(distance, None, None, n_cells, 0, temperature, EXACT, out[t])


@kernel
def fill_columns(inputs, codevectors, share, width, out):
    """Fill `out` (samples, cells, 1 + inputs) with shares p_i and p_i (x - mu_i) / `width`."""
    for t in range(inputs.shape[0]):
        for i in range(codevectors.shape[0]):
            out[t, i, 0] = share[t, i]
            for j in range(inputs.shape[1]):
                out[t, i, 1 + j] = (inputs[t, j] - codevectors[i, j]) / width * share[t, i]


@kernel
def predict_all(inputs, unscale, location, n_cells, temperature, theta, q, out):
    """Fill `out` (samples, outputs) with the predictions of the mixture; see `model_learning.Models`."""
    distance, share = np.empty(n_cells), np.empty(n_cells)
    basis = np.ones(q)
    for t in range(inputs.shape[0]):
        distance[:] = 0.0
        add_distances(inputs[t], 0, inputs.shape[1], location, n_cells, distance)
        associate(distance, None, None, n_cells, 0, temperature, EXACT, share)
        for j in range(q - 1):
            basis[1 + j] = inputs[t, j] * unscale[j]
        for c in range(out.shape[1]):
            out[t, c] = predict_output(basis, share, n_cells, theta, c)


@kernel
def predict_outputs(
    inputs,
    mean,
    deviation,
    metric,
    low,
    high,
    margin,
    location,
    n_cells,
    temperature,
    theta,
    q,
    out,
):
    """As `predict_all`, with inputs and outputs in the data's units.

    The arrays from `mean` to `high` (n_inputs + n_outputs,) are those of `scaling.Scaling`. Outputs are
    clipped at `margin` times their range beyond it.
    """
    d = inputs.shape[1]
    scaled, unscale = np.empty(inputs.shape), np.empty(d)
    for j in range(d):
        unscale[j] = 1.0 / metric[j]
        for t in range(inputs.shape[0]):
            x = min(max(inputs[t, j], low[j]), high[j])
            scaled[t, j] = (x - mean[j]) / deviation[j] * metric[j]
    predict_all(scaled, unscale, location, n_cells, temperature, theta, q, out)
    for j in range(d, d + out.shape[1]):
        beyond = margin * (high[j] - low[j])
        for t in range(inputs.shape[0]):
            x = out[t, j - d] * deviation[j] + mean[j]
            out[t, j - d] = min(max(x, low[j] - beyond), high[j] + beyond)


def mean_distance(inputs: Array, codevectors: Array, weight: Array) -> float:
    """The mean squared distance of inputs from the nearest codevector."""
    location, k = np.ascontiguousarray(codevectors.T), len(codevectors)
    out = np.empty((len(inputs), k))
    all_divergences(SQUARED_EUCLIDEAN, np.ascontiguousarray(inputs), location, k, out)
    return float(np.average(out.min(axis=1), weights=weight))


def spacing(codevectors: Array) -> float:
    """The median squared distance of codevectors from the nearest other; 0 if all are the same."""
    apart = np.array([((codevectors - one) ** 2).sum(axis=1) for one in codevectors])
    apart[apart <= SAME * apart.max()] = np.inf
    return float(np.nan_to_num(np.median(apart.min(axis=1)), posinf=0.0))


def width_of_cells(inputs: Array, codevectors: Array, weight: Array) -> float:
    """The mean squared distance of inputs from the nearest codevector: the unit of overlaps.

    It is at least a part of their spacing: if the inputs in each cell are equal, any slopes fit them.
    """
    width = mean_distance(inputs, codevectors, weight)
    return max(width, LEAST_WIDTH * spacing(codevectors), 1e-300)


class Mixture(NamedTuple):
    """A fitted mixture, its leverages for samples of ridge trials, and its error by cross-validation."""

    theta: Array  # (n_outputs * q, n_cells)
    leverage: Array  # (n_tried,)
    score: float


class GlobalModel(NamedTuple):
    """The model of a single cell, its leverages for samples of ridge trials, and its error as above."""

    theta: Array  # (1 + n_inputs, n_outputs)
    leverage: Array  # (n_tried,)
    score: float


def global_model(inputs: Array, outputs: Array, weight: Array, linear: bool) -> GlobalModel:
    """Weighted least squares, with a ridge on the slopes chosen by cross-validation."""
    total, (n, d), rows = weight.sum(), inputs.shape, tried(len(inputs))
    mean, level = weight @ inputs / total, weight @ outputs / total
    root = np.sqrt(weight)[:, None]
    target, one = root * (outputs - level), weight[rows] / total
    if not linear:
        score = float(left_out(target[rows][:, :, None], one[:, None])[0])
        return GlobalModel(np.vstack([level, np.zeros((d, outputs.shape[1]))]), one, score)
    centred = root * (inputs - mean)
    unit = max(float((centred**2).sum()) / min(n, d), SMALLEST_SQUARE)
    if d < n:
        products = centred.T @ centred, centred.T @ target
        found = solve_primal(*products, centred[rows], target[rows], None, one, 1.0, unit)
    else:
        found = solve_dual(centred, target, None, weight / total, 1.0, unit)
    slopes = found.solution
    leverage = found.leverage if d < n else found.leverage[rows]
    return GlobalModel(np.vstack([level - mean @ slopes, slopes]), leverage, found.score)


def most_cells(n_basis: int) -> int:
    """Maximum number of cells, at least one, whose models of `n_basis` numbers are fitted together."""
    return max(1, MOST_COLUMNS // n_basis)


def most_learned(n_basis: int) -> int:
    """Maximum number of cells, at least one, whose models of `n_basis` numbers learn from a stream."""
    return max(1, MOST_MOMENTS // n_basis**2)


def fit_mixture(
    inputs: Array,
    outputs: Array,
    weight: Array,
    codevectors: Array,
    temperature: float,
    linear: bool,
    ridge: float | None = None,
    used_leverage: Array | None = None,
) -> Mixture:
    """Least squares of sum_i p_i(x) f_i(x) with a ridge towards the model of a single cell.

    `inputs` (n_samples, n_inputs) and `outputs` (n_samples, n_outputs) are scaled, `weight` has a mean
    of about 1. The cells at `codevectors` (n_cells, n_inputs) overlap at `temperature`, 0 for nearest
    cells; their models are `linear` or constant. A ridge of None is chosen by cross-validation. If some
    inputs were computed from the outputs, `used_leverage` (n_tried,) is the leverage that these have
    already used up, for each sample of the ridge trials.
    """
    k, d = codevectors.shape
    base, before, base_score = global_model(inputs, outputs, weight, linear)
    before = joint_leverage(before, used_leverage)
    root = np.sqrt(weight)[:, None]
    target = root * (outputs - base[0] - inputs @ base[1:])
    n, p, rows = len(inputs), k * (d + 1 if linear else 1), tried(len(inputs))

    def columns_of(part: slice) -> Array:
        return root[part] * mixture_columns(inputs[part], codevectors, temperature, linear)

    known = np.average(before, weights=weight[rows])
    if known >= 1.0 - LEAST_LEFT:  # too few degrees of freedom for local models
        found = Ridge(np.zeros((p, outputs.shape[1])), before, base_score)
    elif p <= min(n, MAX_ORDER):
        found, _ = solve_in_blocks(columns_of, p, target, BLOCK, ridge, before)
    else:
        found = solve_dual(columns_of(rows), target[rows], ridge, before, 1.0 - before)
    parts = found.solution.reshape(k, p // k, -1)
    theta = _models_of(parts, base, codevectors, width_of(temperature))
    return Mixture(theta, found.leverage, found.score)


def joint_leverage(leverage: Array, used: Array | None) -> Array:
    """The leverages (n_tried,) of a model whose inputs may have `used` some up."""
    return leverage if used is None else np.maximum(leverage, used)


def _models_of(parts: Array, base: Array, codevectors: Array, width: float) -> Array:
    """Local models (n_outputs * q, n_cells) about the origin, from those about cells relative to a base.

    `parts` are (n_cells, q, n_outputs), with slopes per `width`; `base` is (1 + n_inputs, n_outputs).
    """
    k, q, m = parts.shape
    theta = np.empty((m, q, k))
    slopes = parts[:, 1:] / width
    theta[:, 0] = (base[0] + parts[:, 0]).T
    if q > 1:
        theta[:, 0] -= np.einsum("kdm,kd->mk", slopes, codevectors)
        theta[:, 1:] = (base[1:] + slopes).transpose(2, 1, 0)
    return theta.reshape(-1, k)


def mixture_columns(inputs: Array, codevectors: Array, temperature: float, linear: bool) -> Array:
    """The basis of the mixture: p_i, and for linear models p_i (x - mu_i) over the width of a cell."""
    k, d = codevectors.shape
    share = np.empty((len(inputs), k))
    associate_inputs(inputs, np.ascontiguousarray(codevectors.T), k, temperature, share)
    if not linear:
        return share
    columns = np.empty((len(inputs), k, d + 1))
    fill_columns(inputs, codevectors, share, width_of(temperature), columns)
    return columns.reshape(len(inputs), -1)


def second_moments(
    inputs: Array,
    metric: Array,
    weight: Array,
    codevectors: Array,
    temperature: float,
    linear: bool,
    ridge: float,
) -> Array:
    """Inverse second moments of the basis in every cell, of shape (q * q, n_cells).

    Recursive least squares continues from them. Inputs are standardised; times `metric` they are in the
    units of the codevectors.
    """
    k, d = codevectors.shape
    share = np.empty((len(inputs), k))
    associate_inputs(inputs * metric, np.ascontiguousarray(codevectors.T), k, temperature, share)
    share *= weight[:, None]
    if not linear:
        return 1.0 / (ridge + share.sum(axis=0))[None, :]
    basis = np.column_stack([np.ones(len(inputs)), inputs])
    if len(inputs) <= d:
        return _second_moments_of_few(basis, share, ridge)
    moments = np.stack([(basis * share[:, i : i + 1]).T @ basis for i in range(k)])
    inverse = np.linalg.inv(moments + ridge * np.eye(d + 1))
    return np.ascontiguousarray(inverse.reshape(k, -1).T)


def _second_moments_of_few(basis: Array, share: Array, ridge: float) -> Array:
    """The same from fewer samples than columns of `basis`: only a system of their number is solved.

    With R = `share`^(1/2) `basis`, (R^T R + r I)^-1 is I / r - R^T (R R^T + r I)^-1 R / r.
    """
    (n, q), k = basis.shape, share.shape[1]
    out = np.empty((q * q, k))
    for i in range(k):
        rows = np.sqrt(share[:, i : i + 1]) * basis
        lower = cholesky(rows @ rows.T + ridge * np.eye(n), lower=True)
        known = solve_triangular(lower, rows, lower=True)
        inverse = known.T @ known / -ridge
        inverse[np.diag_indices(q)] += 1.0 / ridge
        out[:, i] = inverse.ravel()
    return out


def separate(
    codevectors: Array, theta: Array, temperature: float, metric: Array, overlap: float
) -> Array:
    """Models of single cells that describe a mixture near their codevectors, for less overlap.

    Linear models are the tangents of the mixture at the codevectors. Constants are such that they have
    the values of the mixture there, when they overlap.

    Parameters
    ----------
    codevectors : ndarray of shape (n_cells, n_inputs)
        In the units of the distance.
    theta : ndarray of shape (n_outputs, q, n_cells)
        The models: functions of standardised inputs if q is 1 + n_inputs, constants if it is 1.
    temperature : float
        At which the cells overlap in the mixture.
    metric : ndarray of shape (n_inputs,)
        Standardised inputs times this are in the units of the distance.
    overlap : float
        The temperature at which the cells will overlap.

    Returns
    -------
    ndarray of shape (n_outputs, q, n_cells)
    """
    k, location = len(codevectors), np.ascontiguousarray(codevectors.T)
    share, points = np.empty((k, k)), codevectors / metric
    associate_inputs(codevectors, location, k, temperature, share)
    if theta.shape[1] == 1:
        own = np.empty((k, k))
        associate_inputs(codevectors, location, k, overlap, own)
        found: Any = np.linalg.lstsq(own, share @ theta[:, 0].T, LEAST_SINGULAR)[0]
        return np.asarray(found.T[:, None])
    values = theta[:, :1].transpose(0, 2, 1) + np.einsum("kd,mdi->mik", points, theta[:, 1:])
    # The derivative of a share is 2 / T times the share, times its codevector less the mean of all.
    apart = codevectors[None] - (share @ codevectors)[:, None]
    slopes = np.einsum("ki,mdi->mdk", share, theta[:, 1:])
    moving = np.einsum("ki,kid,mik->mdk", share, apart, values, optimize=True)
    slopes += 2.0 / temperature * metric[:, None] * moving
    heights = np.einsum("ki,mik->mk", share, values) - np.einsum("kd,mdk->mk", points, slopes)
    return np.concatenate([heights[:, None], slopes], axis=1)


def width_of(temperature: float) -> float:
    """The divisor of differences from codevectors in `mixture_columns`."""
    return float(np.sqrt(temperature)) if temperature > 0.0 else 1.0

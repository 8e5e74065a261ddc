# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""The mixture of local models: its predictions, and a refit when the samples are at hand.

Arrays of cells and local models in kernels are laid out as in `codebook.learning`; `inputs` are
(n_samples, n_inputs), in the units of the distance.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from oda_rl._jit import kernel
from oda_rl._types import Array
from oda_rl.codebook.association import EXACT, add_distances, associate
from oda_rl.codebook.divergences import SMALLEST_SQUARE
from oda_rl.codebook.model_learning import predict_output

# Ridges tried by generalised cross-validation, and what a degree of freedom counts there.
RIDGES = np.geomspace(1e-8, 1e3, 34)
CAUTION = 1.3
# With less than this part of the degrees of freedom left, a ridge is not considered.
LEAST_LEFT = 0.1
# Columns, or samples where there are more columns, of the largest system that is solved; and columns
# of models that a fit makes, of which many more tell little and take the cube of the time.
LARGEST, MOST_COLUMNS = 2500, 1000
# Samples whose columns are made at a time.
BLOCK = 1024
# Overlaps tried when it is chosen by cross-validation.
SOFTNESSES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)


@kernel
def associate_inputs(inputs, location, n_cells, temperature, out):
    """Fill `out` (samples, cells) with association probabilities along the inputs (eq. 6)."""
    distance = np.empty(n_cells)
    for t in range(inputs.shape[0]):
        distance[:] = 0.0
        add_distances(inputs[t], 0, inputs.shape[1], location, n_cells, distance)
        associate(distance, None, None, n_cells, 0, temperature, EXACT, out[t])


@kernel
def predict_all(inputs, unscale, location, n_cells, temperature, theta, q, out):
    """Fill `out` (samples, outputs) with the predictions of the mixture; see `learning.Models`."""
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
    """As `predict_all`, of inputs in the data's units and with outputs in these.

    Units (n_inputs + n_outputs,) are those of `pilot.Scaling`; outputs lie no more than a part `margin`
    of their range beyond it.
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


def nearest_distances(inputs: Array, codevectors: Array) -> Array:
    """Squared distances (n_samples,) of inputs from the nearest codevector."""
    location, k = np.ascontiguousarray(codevectors.T), len(codevectors)
    out = np.zeros((len(inputs), k))
    for x, row in zip(inputs, out, strict=True):
        add_distances(x, 0, len(x), location, k, row)
    return np.asarray(out.min(axis=1))


class Mixture(NamedTuple):
    """A fitted mixture of local models, and the generalised cross-validation of its squared error."""

    theta: Array  # (n_outputs * q, n_cells)
    score: float


class GlobalModel(NamedTuple):
    """The model of a single cell, its degrees of freedom, and the cross-validation of its error."""

    theta: Array  # (1 + n_inputs, n_outputs)
    used: float
    score: float


def global_model(inputs: Array, outputs: Array, weight: Array, linear: bool) -> GlobalModel:
    """Weighted least squares, with a ridge on the slopes that cross-validation chooses."""
    total, (n, d) = weight.sum(), inputs.shape
    mean, level = weight @ inputs / total, weight @ outputs / total
    root = np.sqrt(weight)[:, None]
    target = root * (outputs - level)
    if not linear:
        score = float((target**2).sum()) / n
        return GlobalModel(np.vstack([level, np.zeros((d, outputs.shape[1]))]), 1.0, score)
    centred = root * (inputs - mean)
    if d < n:
        unit = max(float((centred**2).sum()) / d, SMALLEST_SQUARE)
        energy, products = float((target**2).sum()), (centred.T @ centred, centred.T @ target)
        slopes, score, used = solve_primal(*products, energy, n, None, 1.0, unit)
    else:
        slopes, score, used = _leave_one_out(centred, target)
    return GlobalModel(np.vstack([level - mean @ slopes, slopes]), used, score)


def _leave_one_out(columns: Array, target: Array) -> tuple[Array, float, float]:
    """Ridge regression of centred columns, no fewer than samples: as `solve_primal`.

    The ridge has the least error on samples left out one by one, which are known where generalised
    cross-validation means nothing: towards interpolation.
    """
    values, vectors = np.linalg.eigh(columns @ columns.T)
    told = values > 1e-10 * max(float(values[-1]), SMALLEST_SQUARE)  # all but the mean
    values, vectors = values[told], vectors[:, told]
    inside, squares = vectors.T @ target, vectors**2
    best = np.inf, 0.0
    for ridge in RIDGES * float(values.mean() if len(values) > 0 else 1.0):
        error = vectors @ (inside / (values + ridge)[:, None])
        error /= np.maximum(squares @ (1.0 / (values + ridge)), 1e-300)[:, None]
        best = min(best, (float((error**2).sum()) / len(target), float(ridge)))
    score, ridge = best
    slopes = columns.T @ (vectors @ (inside / (values + ridge)[:, None]))
    return slopes, score, 1.0 + float((values / (values + ridge)).sum())


def most_cells(n_basis: int) -> int:
    """Cells with models of so many numbers that are fitted together to all samples, one at least."""
    return max(1, MOST_COLUMNS // n_basis)


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

    `inputs` (n_samples, n_inputs) and `outputs` (n_samples, n_outputs) are scaled, `weight` has a mean
    of about 1. The cells at `codevectors` (n_cells, n_inputs) overlap at `temperature`, 0 for nearest
    cells; their models are `linear` or constant. A ridge of None is chosen by generalised
    cross-validation.
    """
    k, d = codevectors.shape
    base, used, base_score = global_model(inputs, outputs, weight, linear)
    root = np.sqrt(weight)[:, None]
    target = root * (outputs - base[0] - inputs @ base[1:])
    n, p = len(inputs), k * (d + 1 if linear else 1)
    if 1.0 - CAUTION * used / n <= LEAST_LEFT:  # no more can be told of single cells
        solution, score = np.zeros((p, outputs.shape[1])), base_score
    elif p <= min(n, LARGEST):
        # Block by block, as all columns of many samples might not fit in memory.
        gram, moments = np.zeros((p, p)), np.zeros((p, outputs.shape[1]))
        for start in range(0, n, BLOCK):
            part = slice(start, start + BLOCK)
            columns = root[part] * mixture_columns(inputs[part], codevectors, temperature, linear)
            gram += columns.T @ columns
            moments += columns.T @ target[part]
        solution, score, _ = solve_primal(gram, moments, float((target**2).sum()), n, ridge, used)
    else:
        part = slice(None, None, -(-n // LARGEST))  # samples may be in some order
        columns = root[part] * mixture_columns(inputs[part], codevectors, temperature, linear)
        solution, score, _ = solve_dual(columns, target[part], ridge, used)
    theta = np.empty((outputs.shape[1], d + 1 if linear else 1, k))
    if linear:
        parts = solution.reshape(k, d + 1, -1)
        slopes = parts[:, 1:] / width_of(temperature)
        theta[:, 0] = (base[0] + parts[:, 0] - np.einsum("kdm,kd->km", slopes, codevectors)).T
        theta[:, 1:] = (base[1:] + slopes).transpose(2, 1, 0)
    else:
        theta[:, 0] = (base[0] + solution).T
    return Mixture(theta.reshape(-1, k), score)


def choose_softness(fit: Callable[[float], Mixture]) -> tuple[float, Mixture]:
    """The overlap with the least score, and its mixture: from the middle downhill on `SOFTNESSES`."""
    middle = len(SOFTNESSES) // 2
    found = {i: fit(SOFTNESSES[i]) for i in (middle, middle + 1)}
    step = 1 if found[middle + 1].score < found[middle].score else -1
    best = middle + 1 if step > 0 else middle
    while 0 <= best + step < len(SOFTNESSES):
        found[best + step] = fit(SOFTNESSES[best + step])
        if not found[best + step].score < found[best].score:
            break
        best += step
    return SOFTNESSES[best], found[best]


def mixture_columns(inputs: Array, codevectors: Array, temperature: float, linear: bool) -> Array:
    """The basis of the mixture: p_i, and for linear models p_i (x - mu_i) over the width of a cell."""
    k, d = codevectors.shape
    share = np.empty((len(inputs), k))
    associate_inputs(inputs, np.ascontiguousarray(codevectors.T), k, temperature, share)
    if not linear:
        return share
    columns = np.empty((len(inputs), k, d + 1))
    columns[:, :, 0] = share
    columns[:, :, 1:] = (inputs[:, None, :] - codevectors) / width_of(temperature)
    columns[:, :, 1:] *= share[:, :, None]
    return columns.reshape(len(inputs), -1)


def solve_primal(
    gram: Array,
    moments: Array,
    energy: float,
    n: int,
    ridge: float | None,
    used: float,
    unit: float = 1.0,
) -> tuple[Array, float, float]:
    """Ridge regression from products of columns: solution, cross-validation, degrees of freedom.

    Ridges that are tried are in a `unit`; `used` degrees of freedom are gone.
    """
    values, vectors = np.linalg.eigh(gram)
    projected = vectors.T @ moments
    shrunk, score, freedom = _choose_ridge(values, projected, energy, n, ridge, used, unit)
    return vectors @ (projected / shrunk[:, None]), score, freedom


def solve_dual(
    columns: Array, target: Array, ridge: float | None, used: float
) -> tuple[Array, float, float]:
    """The same where there are more columns than samples."""
    values, vectors = np.linalg.eigh(columns @ columns.T)
    inside = vectors.T @ target
    projected = np.sqrt(np.maximum(values, 0.0))[:, None] * inside
    energy = float((target**2).sum())
    shrunk, score, freedom = _choose_ridge(values, projected, energy, len(target), ridge, used)
    return columns.T @ (vectors @ (inside / shrunk[:, None])), score, freedom


def _choose_ridge(
    values: Array,
    projected: Array,
    energy: float,
    n: int,
    ridge: float | None,
    used: float,
    unit: float = 1.0,
) -> tuple[Array, float, float]:
    """Eigenvalues plus ridge, generalised cross-validation, degrees of freedom."""
    values = np.maximum(values, 0.0)
    power = (projected**2).sum(axis=1)[:, None]
    ridges = RIDGES * unit if ridge is None else np.array([max(ridge, RIDGES[0])])
    shrunk = values[:, None] + ridges
    residual = energy - (power / shrunk).sum(axis=0) * 2.0
    residual += (values[:, None] * power / shrunk**2).sum(axis=0)
    freedom = used + (values[:, None] / shrunk).sum(axis=0)
    left = 1.0 - CAUTION * freedom / n
    scores = np.maximum(residual, 1e-12 * energy) / n / np.maximum(left, LEAST_LEFT) ** 2
    # Towards interpolation both residual and what is left vanish, and their ratio means nothing.
    scores[:-1][left[:-1] <= LEAST_LEFT] = np.inf
    best = int(scores.argmin())
    return shrunk[:, best], float(scores[best]), float(freedom[best])


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
    associate_inputs(inputs * metric, np.ascontiguousarray(codevectors.T), k, temperature, share)
    share *= weight[:, None]
    if not linear:
        return 1.0 / (ridge + share.sum(axis=0))[None, :]
    basis = np.column_stack([np.ones(len(inputs)), inputs])
    moments = np.stack([(basis * share[:, i : i + 1]).T @ basis for i in range(k)])
    inverse = np.linalg.inv(moments + ridge * np.eye(d + 1))
    return np.ascontiguousarray(inverse.reshape(k, -1).T)


def width_of(temperature: float) -> float:
    """By what `mixture_columns` divides differences from codevectors."""
    return float(np.sqrt(temperature)) if temperature > 0.0 else 1.0

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
from oda_rl.codebook.model_learning import predict_output

# Ridges tried by generalised cross-validation, and what a degree of freedom counts there.
RIDGES = np.geomspace(1e-8, 1e3, 34)
CAUTION = 1.3
# With less than this part of the degrees of freedom left, a ridge is not considered.
LEAST_LEFT = 0.1
# Columns, or samples where there are more columns, of the largest system that is solved.
LARGEST = 2500
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

    `inputs` (n_samples, n_inputs) and `outputs` (n_samples, n_outputs) are scaled, `weight` has a mean
    of about 1. The cells at `codevectors` (n_cells, n_inputs) overlap at `temperature`, 0 for nearest
    cells; their models are `linear` or constant. A ridge of None is chosen by generalised
    cross-validation.
    """
    k, d = codevectors.shape
    base = global_model(inputs, outputs, weight, linear)
    root = np.sqrt(weight)[:, None]
    target = root * (outputs - base[0] - inputs @ base[1:])
    used = base.size / outputs.shape[1]
    n, p = len(inputs), k * (d + 1 if linear else 1)
    if p <= min(n, LARGEST):
        # Block by block, as all columns of many samples might not fit in memory.
        gram, moments = np.zeros((p, p)), np.zeros((p, outputs.shape[1]))
        for start in range(0, n, BLOCK):
            part = slice(start, start + BLOCK)
            columns = root[part] * mixture_columns(inputs[part], codevectors, temperature, linear)
            gram += columns.T @ columns
            moments += columns.T @ target[part]
        solution, score = solve_primal(gram, moments, float((target**2).sum()), n, ridge, used)
    else:
        part = slice(0, LARGEST)
        columns = root[part] * mixture_columns(inputs[part], codevectors, temperature, linear)
        solution, score = solve_dual(columns, target[part], ridge, used)
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
    gram: Array, moments: Array, energy: float, n: int, ridge: float | None, used: float
) -> tuple[Array, float]:
    """Ridge regression from products of columns: the solution, and its cross-validation."""
    values, vectors = np.linalg.eigh(gram)
    projected = vectors.T @ moments
    shrunk, score = _choose_ridge(values, projected, energy, n, ridge, used)
    return vectors @ (projected / shrunk[:, None]), score


def solve_dual(columns: Array, target: Array, ridge: float | None, used: float) -> tuple[Array, float]:
    """The same where there are more columns than samples."""
    values, vectors = np.linalg.eigh(columns @ columns.T)
    inside = vectors.T @ target
    projected = np.sqrt(np.maximum(values, 0.0))[:, None] * inside
    shrunk, score = _choose_ridge(values, projected, float((target**2).sum()), len(target), ridge, used)
    return columns.T @ (vectors @ (inside / shrunk[:, None])), score


def _choose_ridge(
    values: Array, projected: Array, energy: float, n: int, ridge: float | None, used: float
) -> tuple[Array, float]:
    """Eigenvalues plus ridge, and generalised cross-validation; `used` degrees of freedom are gone."""
    values = np.maximum(values, 0.0)
    power = (projected**2).sum(axis=1)[:, None]
    ridges = RIDGES if ridge is None else np.array([max(ridge, RIDGES[0])])
    shrunk = values[:, None] + ridges
    residual = energy - (power / shrunk).sum(axis=0) * 2.0
    residual += (values[:, None] * power / shrunk**2).sum(axis=0)
    left = 1.0 - CAUTION * (used + (values[:, None] / shrunk).sum(axis=0)) / n
    scores = np.maximum(residual, 1e-12 * energy) / n / np.maximum(left, LEAST_LEFT) ** 2
    # Towards interpolation both residual and what is left vanish, and their ratio means nothing.
    scores[:-1][left[:-1] <= LEAST_LEFT] = np.inf
    best = int(scores.argmin())
    return shrunk[:, best], float(scores[best])


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

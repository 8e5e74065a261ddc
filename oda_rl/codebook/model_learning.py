# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled kernels: the learning rule of the local models in cells.

A local model is linear in its parameters: with q basis functions (1, or 1 and the inputs) the rows
`c * q + j` of `theta` hold the coefficient of basis function j for output c, and the rows `j * q + k` of
`gain` the inverse of the matrix of second moments of the basis functions, of each cell. `share` holds
association probabilities of the cells.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oda_rl._jit import kernel, lean_kernel, vector_kernel

# Rows of the running figures of local models: the mean squared distance of inputs from the nearest
# cell, which sets how far cells overlap, and the mean squared error of predictions.
INPUT_DISTORTION, ERROR, N_FIGURES = 0, 1, 2
# Stepsize of the first.
FORGETTING = 0.002
# A cell without a sample divides by this.
LEAST_SEEN = 1e-300


class Models(NamedTuple):
    """Local models on the faster timescale, and what they learn from.

    A sample is a row of `n_inputs` scaled inputs and then the scaled outputs. Local models see the
    inputs times `unscale` (n_inputs,) and the `outputs` (n_samples, n_outputs). Their cells overlap by
    association probabilities along the inputs, at a temperature of `softness` times the mean squared
    distance in `figures`. `theta` is (q * n_outputs, capacity), `gain` (q * q, capacity). `seen` is the
    weight of the samples behind them, and `noise` (n_outputs, capacity), or without rows, the mean
    squared errors of predictions in each cell. With `link` they are logits, and the outputs 0 or 1:
    whether a sample is of a class.
    """

    outputs: NDArray[np.float64]
    n_inputs: int
    unscale: NDArray[np.float64]
    theta: NDArray[np.float64]
    gain: NDArray[np.float64]
    seen: NDArray[np.float64]
    noise: NDArray[np.float64]
    softness: float
    figures: NDArray[np.float64]
    link: bool


@vector_kernel
def predict_output(basis, share, n_cells, theta, output):
    """The prediction of one output: sum_i p_i f_i(x)."""
    q = basis.shape[0]
    total = 0.0
    for j in range(q):
        row = theta[output * q + j]
        part = 0.0
        for i in range(n_cells):
            part += share[i] * row[i]
        total += basis[j] * part
    return total


@vector_kernel
def towards(basis, share, weight, n_cells, gain, direction, size):
    """Fill `direction` with P_i phi and `size` with the gains of recursive least squares; update P_i.

    A cell's share is the weight of the sample for it.
    """
    q = basis.shape[0]
    for j in range(q):
        row = direction[j]
        for i in range(n_cells):
            row[i] = 0.0
        for k in range(q):
            entry = gain[j * q + k]
            for i in range(n_cells):
                row[i] += entry[i] * basis[k]
    for i in range(n_cells):
        size[i] = 0.0
    for j in range(q):
        row = direction[j]
        for i in range(n_cells):
            size[i] += basis[j] * row[i]
    for i in range(n_cells):
        part = weight * share[i]
        size[i] = part / (1.0 + part * size[i])
    for j in range(q):
        row = direction[j]
        for k in range(j, q):
            other = direction[k]
            entry = gain[j * q + k]
            mirror = gain[k * q + j]
            for i in range(n_cells):
                updated = entry[i] - size[i] * row[i] * other[i]
                entry[i] = updated
                mirror[i] = updated


@vector_kernel
def correct(error, size, direction, n_cells, theta, output):
    """theta_i <- theta_i + gain * error, for one output."""
    q = direction.shape[0]
    for j in range(q):
        row = theta[output * q + j]
        along = direction[j]
        for i in range(n_cells):
            row[i] += error * size[i] * along[i]


@vector_kernel
def follow_noise(y, scores, share, weight, n_cells, seen, noise):
    """Count a sample in the cells that share it, and average the squared errors there."""
    for i in range(n_cells):
        seen[i] += weight * share[i]
    for c in range(noise.shape[0]):
        row, error = noise[c], y[c] - scores[c]
        for i in range(n_cells):
            row[i] += weight * share[i] / max(seen[i], LEAST_SEEN) * (error * error - row[i])


@lean_kernel
def to_probabilities(scores):
    """Make probabilities of logits, in place."""
    top = scores[0]
    for c in range(scores.shape[0]):
        top = max(top, scores[c])
    total = 0.0
    for c in range(scores.shape[0]):
        scores[c] = math.exp(scores[c] - top)
        total += scores[c]
    for c in range(scores.shape[0]):
        scores[c] /= total


@kernel
def learn_models(y, basis, share, weight, n_cells, theta, gain, direction, size, scores, link):
    """One step of recursive least squares of all cells, driven by the error of their mixture.

    Where p is 0 or 1 this is least squares within every cell (eq. 27 with the inverse second moments as
    the stepsize). Where cells overlap, its fixed point is the least squares of sum_i p_i f_i(x) itself.
    With `link`, the models are logits, and the error that of probabilities; half the second moments
    bound the curvature of the log-likelihood (Böhning, "Multinomial logistic regression algorithm",
    1992), hence twice the step. `scores` (n_outputs,) is scratch. Returns the squared error before it.
    """
    squared = 0.0
    towards(basis, share, weight, n_cells, gain, direction, size)
    for c in range(y.shape[0]):
        scores[c] = predict_output(basis, share, n_cells, theta, c)
    step = 1.0
    if link:
        to_probabilities(scores)
        step = 2.0
    for c in range(y.shape[0]):
        error = y[c] - scores[c]
        squared += error * error
        correct(step * error, size, direction, n_cells, theta, c)
    return squared

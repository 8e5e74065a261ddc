# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled kernels: the learning rule of the local models of cells.

A local model is linear in its parameters, with q basis functions (1, or 1 and the inputs). For each
cell, row `c * q + j` of `theta` holds the coefficient of basis function j for output c. Row `j * q + k`
of `gain` holds entry (j, k) of the inverse of the matrix of second moments of the basis functions.
`share` holds association probabilities of the cells.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oda_rl._jit import kernel, vector_kernel
from oda_rl._statistics import fill_softmax

# Indices of `Models.figures`: the running mean of the squared distance of inputs from the nearest cell,
# which determines how far cells overlap, and the mean squared error of predictions.
INPUT_DISTORTION, ERROR, N_FIGURES = 0, 1, 2
# Constant stepsize of the running mean INPUT_DISTORTION, if cells move.
FORGETTING = 0.002
# Lower bound of a divisor, for cells without samples.
LEAST_SEEN = 1e-300


class Models(NamedTuple):
    """Local models, which learn on the faster timescale, and their data.

    A sample of the codebook is a row of `n_inputs` scaled inputs followed by the scaled outputs. Local
    models learn from the inputs times `unscale` (n_inputs,) and from `outputs` (n_samples, n_outputs).
    They are mixed by association probabilities along the inputs alone, at a temperature of `softness`
    times the mean squared distance in `figures`. `theta` is (q * n_outputs, capacity), `gain` (q * q,
    capacity). `seen` (capacity,) is the weight of the samples of each cell; `noise` (n_outputs,
    capacity), or without rows, the mean squared errors of predictions in each cell. If `link`, local
    models are logits, and an output is 1 if the sample is of that class, else 0. `forgetting` is the
    stepsize of the mean squared distance; if it is 0, cells rest and may overlap a lot, and errors count
    in the nearest cell alone.
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
    forgetting: float


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

    The weight of the sample for a cell is `weight` times the cell's share.
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
    """Add the weight of a sample to `seen` by its shares, and average the squared errors in `noise`."""
    for i in range(n_cells):
        seen[i] += weight * share[i]
    for c in range(noise.shape[0]):
        row, error = noise[c], y[c] - scores[c]
        for i in range(n_cells):
            row[i] += weight * share[i] / max(seen[i], LEAST_SEEN) * (error * error - row[i])


@kernel
def learn_models(y, basis, share, weight, n_cells, theta, gain, direction, size, scores, link):
    """Take one step of recursive least squares in all cells, driven by the error of their mixture.

    If all p are 0 or 1, this is least squares within every cell (eq. 27 with the inverse second moments
    as the stepsize). If cells overlap, its fixed point is the least-squares fit of sum_i p_i f_i(x).
    With `link`, the models are logits, and the error is that of the probabilities. Half the second
    moments bound the curvature of the log-likelihood (Böhning, "Multinomial logistic regression
    algorithm", 1992), hence the step is doubled. `scores` (n_outputs,) gets the predictions before the
    step. Returns their squared error.
    """
    squared = 0.0
    towards(basis, share, weight, n_cells, gain, direction, size)
    for c in range(y.shape[0]):
        scores[c] = predict_output(basis, share, n_cells, theta, c)
    step = 1.0
    if link:
        fill_softmax(scores, scores)
        step = 2.0
    for c in range(y.shape[0]):
        error = y[c] - scores[c]
        squared += error * error
        correct(step * error, size, direction, n_cells, theta, c)
    return squared

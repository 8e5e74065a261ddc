# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled kernels: local models over soft cells, learned while the partition moves (Algorithm 2).

Arrays of cells are laid out as in `codebook.learning`. A sample is a row of `n_inputs` scaled inputs and
then the scaled outputs. A local model is linear in its parameters: with q basis functions (1, or 1 and
the inputs) the rows `c * q + j` of `theta` hold the coefficient of basis function j for output c, and
the rows `j * q + k` of `gain` the inverse of the matrix of second moments of the basis functions, of
each cell.
"""

import numpy as np

from oda_rl._jit import kernel, vector_kernel
from oda_rl.codebook.learning import (
    EXACT,
    MIN_WEIGHT,
    SPARSE,
    SQUARED_EUCLIDEAN,
    associate,
    largest_shift,
    learn,
    learn_all,
)

# Rows of the running figures
INPUT_DISTORTION, ERROR, N_FIGURES = 0, 1, 2
# Of the running mean of the distortion along the inputs, which sets how far cells overlap
FORGETTING = 0.002


@vector_kernel
def input_distances(x, n_inputs, location, n_cells, out):
    """Fill `out[:n_cells]` with squared distances along the inputs alone."""
    for i in range(n_cells):
        out[i] = 0.0
    for j in range(n_inputs):
        row = location[j]
        xj = x[j]
        for i in range(n_cells):
            difference = xj - row[i]
            out[i] += difference * difference


@vector_kernel
def add_output_distances(x, n_inputs, location, n_cells, out):
    """Add the squared distances along the outputs."""
    for j in range(n_inputs, x.shape[0]):
        row = location[j]
        xj = x[j]
        for i in range(n_cells):
            difference = xj - row[i]
            out[i] += difference * difference


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


@kernel
def learn_models(y, basis, share, weight, n_cells, theta, gain, direction, size):
    """One step of recursive least squares of all cells, driven by the error of their mixture.

    Where p is 0 or 1 this is least squares within every cell (eq. 27 with the inverse second moments as
    the stepsize). Where cells overlap, its fixed point is the least squares of sum_i p_i f_i(x) itself.
    Returns the squared error before the step.
    """
    squared = 0.0
    towards(basis, share, weight, n_cells, gain, direction, size)
    for c in range(y.shape[0]):
        error = y[c] - predict_output(basis, share, n_cells, theta, c)
        squared += error * error
        correct(error, size, direction, n_cells, theta, c)
    return squared


@kernel
def gate(distance, ones, no_labels, softness, width, n_cells, share):
    """Association probabilities along the inputs, at the temperature `softness` times `width`."""
    return associate(distance, ones, no_labels, n_cells, 0, softness * width, EXACT, share)


@kernel
def anneal_models(
    samples,
    outputs,
    sample_weight,
    n_inputs,
    unscale,
    temperature,
    stepsize_a,
    stepsize_b,
    begin,
    n,
    distortion,
    check_every,
    tolerance,
    max_steps,
    n_cells,
    location,
    weight,
    label,
    axis,
    reference,
    spread,
    scratch,
    theta,
    gain,
    seen,
    softness,
    figures,
):
    """The loop of `anneal` with local models on the faster timescale (Algorithm 2).

    Cells see the samples as they are; local models see the inputs times `unscale`, and the outputs
    apart. Returns (samples used, n, distortion, whether the temperature is finished).
    """
    kind = SQUARED_EUCLIDEAN
    q = 1 if gain.shape[0] == 1 else n_inputs + 1
    distance, share, rest = scratch[0], scratch[1], scratch[2:]
    ones, no_labels = np.ones(n_cells), np.zeros(n_cells, dtype=np.int64)
    direction, size = np.empty((q, n_cells)), np.empty(n_cells)
    basis = np.ones(q)
    for t in range(samples.shape[0]):
        x = samples[t]
        for j in range(q - 1):
            basis[1 + j] = x[j] * unscale[j]
        input_distances(x, n_inputs, location, n_cells, distance)
        nearest = gate(distance, ones, no_labels, softness, figures[INPUT_DISTORTION], n_cells, share)
        figures[INPUT_DISTORTION] += FORGETTING * (distance[nearest] - figures[INPUT_DISTORTION])
        squared = learn_models(
            outputs[t],
            basis,
            share,
            sample_weight[t],
            n_cells,
            theta,
            gain,
            direction,
            size,
        )
        for i in range(n_cells):
            seen[i] += sample_weight[t] * share[i]
        add_output_distances(x, n_inputs, location, n_cells, distance)
        nearest = associate(distance, weight, label, n_cells, 0, temperature, EXACT, share)
        stepsize = min(1.0, sample_weight[t] / (stepsize_a + stepsize_b * n))
        touched = 0
        for i in range(n_cells):
            touched += share[i] > 0.0
        if SPARSE * touched < n_cells:
            learn(kind, x, share, stepsize, n_cells, location, weight, axis)
        else:
            learn_all(kind, x, share, stepsize, n_cells, location, weight, axis, rest)
        distortion += (distance[nearest] - distortion) / (n - begin)
        figures[ERROR] += (squared - figures[ERROR]) / (n - begin)
        spread_gain = min(1.0, stepsize / max(weight[nearest], MIN_WEIGHT))
        for j in range(spread.shape[0]):
            difference = x[j] - location[j, nearest]
            spread[j, nearest] += spread_gain * (difference * difference - spread[j, nearest])
        n += 1
        if n % check_every == 0:
            shift = largest_shift(kind, n_cells, location, reference, distance)
            if shift < tolerance or n >= max_steps:
                return t + 1, n, distortion, True
            for j in range(location.shape[0]):
                for i in range(n_cells):
                    reference[j, i] = location[j, i]
    return samples.shape[0], n, distortion, False


@kernel
def associations(inputs, location, n_cells, temperature, out):
    """Fill `out` (samples, cells) with association probabilities along the inputs (eq. 6)."""
    distance = np.empty(n_cells)
    ones, no_labels = np.ones(n_cells), np.zeros(n_cells, dtype=np.int64)
    for t in range(inputs.shape[0]):
        input_distances(inputs[t], inputs.shape[1], location, n_cells, distance)
        associate(distance, ones, no_labels, n_cells, 0, temperature, EXACT, out[t])


@kernel
def predict_all(inputs, unscale, location, n_cells, temperature, theta, q, out):
    """Fill `out` (samples, outputs) with the predictions of the mixture; see `anneal_models`."""
    distance, share = np.empty(n_cells), np.empty(n_cells)
    ones, no_labels = np.ones(n_cells), np.zeros(n_cells, dtype=np.int64)
    basis = np.ones(q)
    for t in range(inputs.shape[0]):
        input_distances(inputs[t], inputs.shape[1], location, n_cells, distance)
        associate(distance, ones, no_labels, n_cells, 0, temperature, EXACT, share)
        for j in range(q - 1):
            basis[1 + j] = inputs[t, j] * unscale[j]
        for c in range(out.shape[1]):
            out[t, c] = predict_output(basis, share, n_cells, theta, c)

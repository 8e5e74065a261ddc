# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled kernels: predictions of local models over soft cells.

Arrays of cells and local models are laid out as in `codebook.learning`; `inputs` are (n_samples,
n_inputs), in the units of the distance.
"""

import numpy as np

from oda_rl._jit import kernel
from oda_rl.codebook.association import EXACT, add_distances, associate
from oda_rl.codebook.learning import predict_output


@kernel
def associations(inputs, location, n_cells, temperature, out):
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

# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled kernels: what a codebook of several classes says of a sample.

Equation numbers are those of Mavridis and Baras, "Multi-Resolution Online Deterministic Annealing".
"""

import math

import numpy as np

from oda_rl._jit import kernel

# A share below exp(-700) of the largest is 0 in a float64.
EXACT = 700.0


@kernel
def log_joint(distance, label, log_weight, width, features, out):
    """Fill `out` (n_samples, n_classes) with log(pi_c p(x | c)), but for a constant (eqs. 34 and 35).

    The density of a class is a mixture over its cells i of p(mu_i) exp(-d(x, mu_i) / width_c),
    normalised like a Gaussian of variance width_c / 2 in `features` dimensions. `distance` is
    (n_samples, n_cells).
    """
    n_classes = out.shape[1]
    largest = np.empty(n_classes)
    total = np.empty(n_classes)
    for t in range(distance.shape[0]):
        largest[:] = -np.inf
        total[:] = 0.0
        for i in range(distance.shape[1]):
            c = label[i]
            term = log_weight[i] - distance[t, i] / width[c]
            if term > largest[c]:
                if largest[c] > -np.inf:
                    total[c] *= math.exp(max(largest[c] - term, -EXACT))
                total[c] += 1.0
                largest[c] = term
            elif term > -np.inf:
                total[c] += math.exp(max(term - largest[c], -EXACT))
        for c in range(n_classes):
            if total[c] > 0.0:
                out[t, c] = largest[c] + math.log(total[c]) - 0.5 * features * math.log(width[c])
            else:
                out[t, c] = -np.inf

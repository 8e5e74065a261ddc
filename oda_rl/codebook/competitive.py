# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled kernels of competitive learning: only the nearest codevector moves."""

import numpy as np

from oda_rl._jit import kernel
from oda_rl.codebook.learning import divergences


@kernel
def quantize(kind, samples, sample_weight, stepsize_a, stepsize_b, n_cells, location, count, spread):
    """Stochastic vector quantization (Definition 1 of "ODA for Classification and Clustering").

    The nearest codevector moves to the sample by the stepsize 1 / (a + b v), v the weight of the samples
    that have moved it before, which is `count`. `spread` follows the variances of the cells. Returns the
    sum of weight times divergence from the nearest codevector, as the samples came.
    """
    distance = np.empty(n_cells)
    total = 0.0
    for t in range(samples.shape[0]):
        divergences(kind, samples[t], location, n_cells, distance)
        nearest = 0
        for i in range(n_cells):
            if distance[i] < distance[nearest]:
                nearest = i
        total += sample_weight[t] * distance[nearest]
        stepsize = min(1.0, sample_weight[t] / (stepsize_a + stepsize_b * count[nearest]))
        count[nearest] += sample_weight[t]
        gain = min(1.0, sample_weight[t] / count[nearest])
        for j in range(samples.shape[1]):
            location[j, nearest] += stepsize * (samples[t, j] - location[j, nearest])
            difference = samples[t, j] - location[j, nearest]
            spread[j, nearest] += gain * (difference * difference - spread[j, nearest])
    return total

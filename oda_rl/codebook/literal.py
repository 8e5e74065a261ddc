# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled kernel: the updates of Algorithms 1 to 4 as printed, sample by sample.

Equation and algorithm numbers are those of Mavridis and Baras, "Multi-Resolution Online Deterministic
Annealing"; its misprints are corrected. Arrays are laid out as in `learning`.
"""

import numpy as np

from oda_rl._jit import kernel
from oda_rl.codebook.association import EXACT, associate, divergences, index_of_smallest
from oda_rl.codebook.learning import MIN_WEIGHT, ends_level


@kernel
def learn_as_printed(
    kind,
    samples,
    labels,
    outputs,
    pace,
    over_all,
    rate,
    power,
    n,
    distortion,
    cells,
    n_cells,
    reference,
    theta,
):
    """Present samples at one temperature; returns (samples used, n, distortion, whether it is finished).

    If `over_all`, the association (eq. 13) is normalised over all codevectors, as in Algorithm 4; else
    over those of the sample's class. `outputs` (n_samples, n_outputs) have no columns if there is
    nothing to predict. If `rate` is 0, `theta` has n_outputs rows of constants (Algorithm 3, eq. 28).
    Otherwise it has n_outputs (1 + n_features) rows of linear models; that of the nearest cell takes a
    gradient step of size `rate` / n^`power` on the squared error (Algorithm 2, eq. 27).
    """
    location, weight, label = cells.location, cells.weight, cells.label
    d, m = samples.shape[1], outputs.shape[1]
    distance, share = np.empty(n_cells), np.empty(n_cells)
    for t in range(samples.shape[0]):
        x = samples[t]
        divergences(kind, x, location, 0, n_cells, distance)
        nearest = index_of_smallest(distance, n_cells)
        distortion += (distance[nearest] - distortion) / (n - pace.begin)
        if rate > 0.0:
            beta, q = rate / n**power, 1 + d
            for c in range(m):
                error = theta[c * q, nearest] - outputs[t, c]
                for j in range(d):
                    error += theta[c * q + 1 + j, nearest] * x[j]
                theta[c * q, nearest] -= beta * 2.0 * error
                for j in range(d):
                    theta[c * q + 1 + j, nearest] -= beta * 2.0 * error * x[j]
        if over_all:
            associate(distance, weight, None, n_cells, 0, pace.temperature, EXACT, share)
        else:
            associate(distance, weight, label, n_cells, labels[t], pace.temperature, EXACT, share)
        alpha = min(1.0, 1.0 / (pace.a + pace.b * n))
        for i in range(n_cells):
            own = share[i] if label[i] == labels[t] else 0.0
            rho = weight[i]
            weight[i] = max(rho + alpha * (own - rho), MIN_WEIGHT)
            for j in range(d):
                sigma = location[j, i] * rho
                location[j, i] = (sigma + alpha * (x[j] * own - sigma)) / weight[i]
            if rate <= 0.0:
                for c in range(m):
                    sigma = theta[c, i] * rho
                    theta[c, i] = (sigma + alpha * (outputs[t, c] * own - sigma)) / weight[i]
        n += 1
        at_check = n % pace.check_every == 0
        if at_check and ends_level(kind, pace, n, n_cells, location, reference, distance):
            return t + 1, n, distortion, True
    return samples.shape[0], n, distortion, False

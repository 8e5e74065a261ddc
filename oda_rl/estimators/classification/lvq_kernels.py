# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled kernels: learning vector quantization.

Codevectors are stored as in `oda_rl.codebook.learning`: `location` is (n_features, n_cells), in scaled
features; `label` (n_cells,) are their class numbers and `count` (n_cells,) the weight of the
samples that have moved them. `samples` are (n_samples, n_features), `labels` and `sample_weight`
(n_samples,). `kind` is the divergence, `minimum` the least coordinate in its domain. `location` and
`count` are changed in place.

References
----------
Equation numbers are those of Mavridis and Baras, "Multi-Resolution Online Deterministic Annealing".
Sato and Yamada, "Generalized learning vector quantization", NIPS 1995.
"""

import math

import numpy as np

from oda_rl._jit import kernel
from oda_rl.codebook.association import EXACT, associate, divergences, index_of_smallest

# Largest step of a codevector towards a sample or away from it, relative to their difference.
MAX_STEP = 0.5
# The first stepsize of LVQ1 is 1 / OFFSET; stepsizes fall with the samples of the codevector.
OFFSET = 10.0
# Steepness of the cost of GLVQ where both codevectors are equally near.
STEEPNESS = 2.0
# In annealed LVQ, a codevector with a smaller share in a sample does not move.
LEAST_SHARE = 1e-3


@kernel
def lvq1(kind, minimum, samples, labels, sample_weight, location, label, count):
    """LVQ1: the nearest codevector moves to the sample if its class is right, else away from it.

    The stepsize is 1 / (OFFSET + v), v being the `count` of the codevector. Coordinates that would not
    stay above `minimum` do not move.
    """
    n_cells = location.shape[1]
    distance = np.empty(n_cells)
    for t in range(samples.shape[0]):
        divergences(kind, samples[t], location, 0, n_cells, distance)
        i = index_of_smallest(distance, n_cells)
        step = min(MAX_STEP, sample_weight[t] / (OFFSET + count[i]))
        count[i] += sample_weight[t]
        if label[i] != labels[t]:
            step = -step
        for j in range(samples.shape[1]):
            moved = location[j, i] + step * (samples[t, j] - location[j, i])
            location[j, i] = moved if moved > minimum else location[j, i]


@kernel
def soft_lvq(
    kind,
    minimum,
    samples,
    labels,
    sample_weight,
    temperature,
    repel_only,
    location,
    weight,
    label,
    count,
):
    """Steps for the distortion of eq. 31 at a temperature: attraction by the own class, else repulsion.

    Stepsizes are those of `lvq1` times the association probabilities over all classes (eq. 13), with
    `weight` (n_cells,) as probabilities of the codevectors. The sign of the distortion is that of the
    step. (With the sign in the exponent, too, the most distant codevectors would be repelled most.) With
    `repel_only` codevectors of the sample's class do not move.
    """
    n_cells = location.shape[1]
    distance, share = np.empty(n_cells), np.empty(n_cells)
    for t in range(samples.shape[0]):
        divergences(kind, samples[t], location, 0, n_cells, distance)
        associate(distance, weight, None, n_cells, 0, temperature, EXACT, share)
        for i in range(n_cells):
            own = label[i] == labels[t]
            if share[i] < LEAST_SHARE or (own and repel_only):
                continue
            step = min(MAX_STEP, share[i] * sample_weight[t] / (OFFSET + count[i]))
            if own:
                count[i] += share[i] * sample_weight[t]
            else:
                step = -step
            for j in range(samples.shape[1]):
                moved = location[j, i] + step * (samples[t, j] - location[j, i])
                location[j, i] = moved if moved > minimum else location[j, i]


@kernel
def glvq(kind, samples, labels, sample_weight, step, location, label):
    """GLVQ: one stochastic gradient step per sample.

    The cost is the sigmoid of STEEPNESS times (d+ - d-) / (d+ + d-), with the squared distances d+ from
    the nearest codevector of the own class and d- from that of the others; both move. `step` is in
    units of the running mean of d+ + d-.
    """
    n_cells = location.shape[1]
    distance = np.empty(n_cells)
    typical, n_used = 0.0, 0.0
    for t in range(samples.shape[0]):
        divergences(kind, samples[t], location, 0, n_cells, distance)
        own, other = -1, -1
        for i in range(n_cells):
            if label[i] == labels[t]:
                if own < 0 or distance[i] < distance[own]:
                    own = i
            elif other < 0 or distance[i] < distance[other]:
                other = i
        if own < 0 or other < 0:
            continue
        near, far = distance[own], distance[other]
        both = near + far
        if both <= 0.0:
            continue
        n_used += 1.0
        typical += (both - typical) / n_used
        s = 1.0 / (1.0 + math.exp(-STEEPNESS * ((near - far) / both)))
        slope = 4.0 * s * (1.0 - s) * sample_weight[t]
        toward = min(MAX_STEP, step * slope * far * typical / (both * both))
        away = min(MAX_STEP, step * slope * near * typical / (both * both))
        for j in range(samples.shape[1]):
            location[j, own] += toward * (samples[t, j] - location[j, own])
            location[j, other] -= away * (samples[t, j] - location[j, other])

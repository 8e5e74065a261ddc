# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled kernels of learning vector quantization: LVQ1, its soft form, GLVQ with relevances, GMLVQ.

Codevectors are stored as in `codebook.learning`: `location` is (n_features, n_cells). `scratch` has room
for three rows of as many entries as there are cells or features, whichever are more.

References
----------
Sato and Yamada, "Generalized learning vector quantization", NIPS 1995.
Hammer and Villmann, "Generalized relevance learning vector quantization", Neural Networks 15 (2002).
Schneider, Biehl and Hammer, "Adaptive relevance matrices in learning vector quantization", Neural
Computation 21 (2009).
"""

import math

from oda_rl._jit import kernel, lean_kernel
from oda_rl.codebook.association import EXACT, associate, divergences, index_of_smallest

# No codevector goes more than this part of the way to a sample, or away from it.
MAX_STEP = 0.5


@kernel
def lvq1(kind, samples, labels, sample_weight, a, b, minimum, location, label, count, scratch):
    """LVQ1: the nearest codevector moves to the sample if its class is right, else away from it.

    The stepsize is 1 / (a + b v), v the weight of the samples that have moved it before, which is
    `count`; away from a sample it goes no further than `minimum` allows. Returns the weight of errors.
    """
    distance = scratch[0]
    n_cells = location.shape[1]
    errors = 0.0
    for t in range(samples.shape[0]):
        x = samples[t]
        divergences(kind, x, location, 0, n_cells, distance)
        i = index_of_smallest(distance, n_cells)
        step = min(MAX_STEP, sample_weight[t] / (a + b * count[i]))
        count[i] += sample_weight[t]
        if label[i] != labels[t]:
            errors += sample_weight[t]
            step = -step
        for j in range(x.shape[0]):
            moved = location[j, i] + step * (x[j] - location[j, i])
            location[j, i] = moved if moved > minimum else location[j, i]
    return errors


@kernel
def soft_lvq(
    kind,
    samples,
    labels,
    sample_weight,
    temperature,
    a,
    b,
    minimum,
    repel_only,
    location,
    weight,
    label,
    count,
    scratch,
):
    """The distortion of eq. 31 at a temperature: attraction by the own class, repulsion by others.

    Codevectors take part by their association probabilities over all classes (eq. 13); the sign of the
    distortion is that of the move. (With the sign in the exponent too, a codevector would be repelled
    the more the further away it is.) With `repel_only` those of the own class stay.
    """
    distance, share = scratch[0], scratch[1]
    n_cells = location.shape[1]
    for t in range(samples.shape[0]):
        x = samples[t]
        divergences(kind, x, location, 0, n_cells, distance)
        associate(distance, weight, None, n_cells, 0, temperature, EXACT, share)
        for i in range(n_cells):
            own = label[i] == labels[t]
            if share[i] < 1e-3 or (own and repel_only):
                continue
            step = min(MAX_STEP, share[i] * sample_weight[t] / (a + b * count[i]))
            if own:
                count[i] += share[i] * sample_weight[t]
            else:
                step = -step
            for j in range(x.shape[0]):
                moved = location[j, i] + step * (x[j] - location[j, i])
                location[j, i] = moved if moved > minimum else location[j, i]


@lean_kernel
def closest_two(distance, label, wanted, n_cells):
    """The nearest codevectors of the class `wanted` and of any other; -1 where there is none."""
    own, other = -1, -1
    for i in range(n_cells):
        if label[i] == wanted:
            if own < 0 or distance[i] < distance[own]:
                own = i
        elif other < 0 or distance[i] < distance[other]:
            other = i
    return own, other


@lean_kernel
def relevant_distances(x, relevance, location, distance):
    """Fill `distance` with the squared distances of `x`, weighted by the relevances."""
    for i in range(location.shape[1]):
        distance[i] = 0.0
    for j in range(location.shape[0]):
        for i in range(location.shape[1]):
            difference = x[j] - location[j, i]
            distance[i] += relevance[j] * difference * difference


@lean_kernel
def turned_distances(x, omega, location, distance, scratch):
    """Fill `distance` with |omega (x - mu)|^2; `scratch` has room for a row of cells."""
    n_cells = location.shape[1]
    for i in range(n_cells):
        distance[i] = 0.0
    for r in range(omega.shape[0]):
        for i in range(n_cells):
            scratch[i] = 0.0
        for j in range(omega.shape[1]):
            for i in range(n_cells):
                scratch[i] += omega[r, j] * (x[j] - location[j, i])
        for i in range(n_cells):
            distance[i] += scratch[i] * scratch[i]


@lean_kernel
def normalise(omega):
    """Scale a matrix so that its squares sum to its order."""
    norm = 0.0
    for r in range(omega.shape[0]):
        for j in range(omega.shape[1]):
            norm += omega[r, j] * omega[r, j]
    norm = math.sqrt(omega.shape[0] / norm)
    for r in range(omega.shape[0]):
        for j in range(omega.shape[1]):
            omega[r, j] *= norm


@lean_kernel
def glvq(
    samples, labels, sample_weight, step, steepness, step_relevance, relevance, location, label, scratch
):
    """GLVQ, and GRLVQ where `step_relevance` is positive: one stochastic gradient step per sample.

    The cost is the sigmoid of `steepness` times m = (d+ - d-) / (d+ + d-), with weighted squared
    distances d from the nearest codevectors of the own class and of the others. `step` is in units of
    the mean of d+ + d-, which is followed along. Returns the mean of m as the samples came.
    """
    distance, unit = scratch[0], scratch[1]
    d, n_cells = location.shape
    typical, total, mass = 0.0, 0.0, 0.0
    for t in range(samples.shape[0]):
        relevant_distances(samples[t], relevance, location, distance)
        own, other = closest_two(distance, label, labels[t], n_cells)
        if own < 0 or other < 0:
            continue
        near, far = distance[own], distance[other]
        both = near + far
        if both <= 0.0:
            continue
        mass += 1.0
        typical += (both - typical) / mass
        m = (near - far) / both
        total += m
        s = 1.0 / (1.0 + math.exp(-steepness * m))
        slope = 4.0 * s * (1.0 - s) * sample_weight[t]
        gain = min(MAX_STEP, step * slope * far * typical / (both * both))
        loss = min(MAX_STEP, step * slope * near * typical / (both * both))
        change = 0.0
        for j in range(d):
            toward = samples[t, j] - location[j, own]
            away = samples[t, j] - location[j, other]
            unit[j] = (far * toward * toward - near * away * away) / (both * both)
            location[j, own] += gain * relevance[j] * toward
            location[j, other] -= loss * relevance[j] * away
        if step_relevance > 0.0:
            for j in range(d):
                pull = min(0.5, step_relevance * slope * unit[j] * d)
                relevance[j] = max(1e-9, relevance[j] * (1.0 - pull))
                change += relevance[j]
            for j in range(d):
                relevance[j] *= d / change
    return total / max(mass, 1.0)


@lean_kernel
def gmlvq(samples, labels, sample_weight, step, steepness, step_omega, omega, location, label, scratch):
    """GMLVQ: as `glvq` with d(x, mu) = |omega (x - mu)|^2 and a matrix `omega` that is learned.

    `location` holds the codevectors themselves, `omega` is (n_features, n_features) with squares that
    sum to n_features. Returns the mean of m.
    """
    distance, right, wrong = scratch[0], scratch[1], scratch[2]
    d, n_cells = location.shape
    typical, total, mass = 0.0, 0.0, 0.0
    for t in range(samples.shape[0]):
        turned_distances(samples[t], omega, location, distance, right)
        own, other = closest_two(distance, label, labels[t], n_cells)
        if own < 0 or other < 0:
            continue
        near, far = distance[own], distance[other]
        both = near + far
        if both <= 0.0:
            continue
        mass += 1.0
        typical += (both - typical) / mass
        m = (near - far) / both
        total += m
        s = 1.0 / (1.0 + math.exp(-steepness * m))
        slope = 4.0 * s * (1.0 - s) * sample_weight[t]
        gain = step * slope * far * typical / (both * both)
        loss = step * slope * near * typical / (both * both)
        for r in range(d):
            right[r], wrong[r] = 0.0, 0.0
            for j in range(d):
                right[r] += omega[r, j] * (samples[t, j] - location[j, own])
                wrong[r] += omega[r, j] * (samples[t, j] - location[j, other])
        for j in range(d):
            toward, away = 0.0, 0.0
            for r in range(d):
                toward += omega[r, j] * right[r]
                away += omega[r, j] * wrong[r]
            good = far * (samples[t, j] - location[j, own])
            bad = near * (samples[t, j] - location[j, other])
            location[j, own] += min(MAX_STEP, gain) * toward
            location[j, other] -= min(MAX_STEP, loss) * away
            pull = step_omega * slope * d / (both * both)
            for r in range(d):
                omega[r, j] -= pull * (right[r] * good - wrong[r] * bad)
        normalise(omega)
    return total / max(mass, 1.0)

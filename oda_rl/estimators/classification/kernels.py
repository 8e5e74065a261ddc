# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled kernels: densities of classes from codevectors, and learning vector quantization.

Codevectors are stored as in `oda_rl.codebook.learning`: `location` is (n_features, n_cells), in scaled
features; `label` (n_cells,) are the numbers of their classes and `count` (n_cells,) the weight of the
samples that have moved them. `samples` are (n_samples, n_features), `labels` and `sample_weight`
(n_samples,). `kind` is the divergence, `minimum` the least coordinate in its domain. LVQ changes
`location` and `count` in place.

References
----------
Equation numbers are those of Mavridis and Baras, "Multi-Resolution Online Deterministic Annealing".
Sato and Yamada, "Generalized learning vector quantization", NIPS 1995.
"""

import math

import numpy as np

from oda_rl._jit import kernel
from oda_rl.codebook.association import (
    EXACT,
    _hessian,
    associate,
    divergences,
    index_of_smallest,
)

# A share below exp(-700) of the largest is 0 in a float64.
NO_SHARE = 700.0
# No codevector goes more than this part of the way to a sample, or away from it.
MAX_STEP = 0.5
# First stepsizes of LVQ1 are 1 / OFFSET, and its stepsizes fall with the samples of a codevector.
OFFSET = 10.0
# How steep the cost of GLVQ is where both codevectors are equally near.
STEEPNESS = 2.0
# Shares in a sample below which a codevector does not move in annealed LVQ.
LEAST_SHARE = 1e-3


@kernel
def put_cells(kind, location, weight, spread, start, k, codevectors, weights, spreads):
    """Copy k cells to those of all classes from the number `start` on, with weights that sum to one.

    `spread` (n_features, capacity) are variances in the cells. Returns the mean divergence from the
    codevectors, told from the variances, to second order.
    """
    total, distortion = 0.0, 0.0
    for i in range(k):
        total += weight[i]
    for i in range(k):
        weights[start + i] = weight[i] / total
    for j in range(location.shape[0]):
        for i in range(k):
            codevectors[j, start + i] = location[j, i]
            spreads[j, start + i] = spread[j, i]
            distortion += 0.5 * weight[i] / total * _hessian(kind, location[j, i]) * spread[j, i]
    return distortion


@kernel
def log_joint(distance, label, weight, width, features, out):
    """Fill `out` (n_samples, n_classes) with log(pi_c p(x | c)), but for a constant (eqs. 34 and 35).

    The density of a class is a mixture over its cells i of p(mu_i) exp(-d(x, mu_i) / width_c),
    normalised like a Gaussian of variance width_c / 2 in `features` (a float) dimensions. `distance` is
    (n_samples, n_cells), `weight` (n_cells,) holds p(mu_i), `width` is (n_classes,).
    """
    n_classes = out.shape[1]
    largest = np.empty(n_classes)
    total = np.empty(n_classes)
    log_weight = np.log(weight)
    for t in range(distance.shape[0]):
        largest[:] = -np.inf
        total[:] = 0.0
        for i in range(distance.shape[1]):
            c = label[i]
            term = log_weight[i] - distance[t, i] / width[c]
            if term > largest[c]:
                if largest[c] > -np.inf:
                    total[c] *= math.exp(max(largest[c] - term, -NO_SHARE))
                total[c] += 1.0
                largest[c] = term
            elif term > -np.inf:
                total[c] += math.exp(max(term - largest[c], -NO_SHARE))
        for c in range(n_classes):
            if total[c] > 0.0:
                out[t, c] = largest[c] + math.log(total[c]) - 0.5 * features * math.log(width[c])
            else:
                out[t, c] = -np.inf


@kernel
def loss_and_errors(log_joint, labels, sample_weight, least):
    """Means of -log p(c | x), with probabilities of `least` and more, and of wrong classes.

    `log_joint` is (n_samples, n_classes). Where no class is possible, all are as likely.
    """
    n_classes = log_joint.shape[1]
    loss, wrong, mass = 0.0, 0.0, 0.0
    for t in range(log_joint.shape[0]):
        row, best = log_joint[t], 0
        for c in range(1, n_classes):
            if row[c] > row[best]:
                best = c
        p, total = 1.0 / n_classes, 0.0
        if row[best] > -np.inf:
            for c in range(n_classes):
                total += math.exp(row[c] - row[best])
            p = math.exp(row[labels[t]] - row[best]) / total
        loss -= sample_weight[t] * math.log(max(p, least))
        wrong += sample_weight[t] * (best != labels[t])
        mass += sample_weight[t]
    return loss / mass, wrong / mass


@kernel
def losses_of_widths(
    distance, label, weight, widths, features, labels, sample_weight, least, error, out
):
    """Fill `out` (n_trials,) with the losses of samples for each of the `widths` (n_trials, n_classes).

    `distance`, `label` and `weight` are as for `log_joint`, the rest as for `loss_and_errors`, of which
    an `error` costs so much more.
    """
    joint = np.empty((distance.shape[0], widths.shape[1]))
    for i in range(widths.shape[0]):
        log_joint(distance, label, weight, widths[i], features, joint)
        loss, wrong = loss_and_errors(joint, labels, sample_weight, least)
        out[i] = loss + error * wrong


@kernel
def lvq1(kind, minimum, samples, labels, sample_weight, location, label, count):
    """LVQ1: the nearest codevector moves to the sample if its class is right, else away from it.

    The stepsize is 1 / (OFFSET + v), v the `count` of the codevector. Away from a sample it goes no
    further than `minimum` allows.
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
    """The distortion of eq. 31 at a temperature: attraction by the own class, repulsion by others.

    Codevectors take part by their association probabilities over all classes (eq. 13), with `weight`
    (n_cells,) as their probabilities; the sign of the distortion is that of the move. (With the sign in
    the exponent too, a codevector would be repelled the more the further away it is.) Stepsizes are as
    for `lvq1`, times the association. With `repel_only` those of the own class stay.
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
    units of the mean of d+ + d-, which is followed along.
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


@kernel
def normal_scores(samples, knots, scores, out):
    """Fill `out` (n_samples, n_features) with the scores of the samples among the knots.

    `knots` (n_knots, n_features) are quantiles, rising, with `scores` (n_knots,); between two it is
    interpolated, and where several are equal it is half way between the first and the last of them.
    """
    last = knots.shape[0] - 1
    for j in range(samples.shape[1]):
        column = knots[:, j]
        for t in range(samples.shape[0]):
            x = samples[t, j]
            low = np.searchsorted(column, x)
            high = np.searchsorted(column, x, side="right") - 1
            if low > last:
                out[t, j] = scores[last]
            elif high < 0:
                out[t, j] = scores[0]
            elif low <= high:
                out[t, j] = 0.5 * (scores[low] + scores[high])
            else:
                part = (x - column[high]) / (column[low] - column[high])
                out[t, j] = scores[high] + part * (scores[low] - scores[high])

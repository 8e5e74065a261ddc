# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled kernels: densities of classes from codevectors, for data sets and streams.

Codevectors are stored as in `oda_rl.codebook.learning`: `location` is (n_features, n_cells), in scaled
features; `label` (n_cells,) are their class numbers. `samples` are (n_samples, n_features),
`labels` and `sample_weight` (n_samples,). `kind` is the divergence.

References
----------
Equation numbers are those of Mavridis and Baras, "Multi-Resolution Online Deterministic Annealing".
"""

import math

import numpy as np

from oda_rl._jit import kernel, lean_kernel
from oda_rl._statistics import fill_log_softmax, normal_scores
from oda_rl.codebook.association import (
    EXACT,
    _hessian,
    all_divergences,
    decay,
    smallest,
)
from oda_rl.estimators.feature_scaling import scale_samples
from oda_rl.estimators.regression.mixture import predict_outputs

# A share below exp(-700) of the largest is 0 in a float64.
NO_SHARE = 700.0


@kernel
def put_cells(kind, location, weight, spread, start, k, codevectors, weights, spreads):
    """Copy k cells into the arrays of all classes from index `start` on, with weights that sum to one.

    `spread` (n_features, capacity) are variances in the cells. Returns the mean divergence from the
    codevectors, computed from the variances to second order.
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
def class_widths(k, distortion, mass, counts, features, least, single):
    """Widths of mixtures from the sums of divergences `distortion` (n_classes,) in their `k` cells.

    A width is twice the distortion per degree of freedom. Fills `single` (n_classes,) with that of each
    class by itself, at least `least` times the width of all classes together, which is returned. `mass`
    and `counts` (n_classes,) are the weights and the numbers of samples.
    """
    total, free = 0.0, 0.0
    for c in range(len(k)):
        total += distortion[c]
        single[c] = mass[c] * max(counts[c] - k[c], 0.25 * counts[c]) / max(counts[c], 1.0)
        free += single[c]
    shared = 2.0 * total / max(free * features, 1e-300)
    known = shared > 1e-200
    for c in range(len(k)):
        own = 2.0 * distortion[c] / max(single[c] * features, 1e-300)
        single[c] = max(own, least * shared) if known else 1.0
    return shared if known else 1.0


@kernel
def mix_widths(shared, single, own, factor, out):
    """Fill `out` (n_classes,) with `factor` times a geometric mean of the widths of `class_widths`.

    `own` in [0, 1] is the exponent of the class's own width, 1 - `own` that of the width of all classes.
    """
    for c in range(len(single)):
        out[c] = factor * (shared ** (1.0 - own) * single[c] ** own)


@kernel
def weigh_cells(live, labels, mass, counts, least, own, factor, weights, widths):
    """Fill `weights` (n_cells,) and `widths` (n_classes,) of `live` cells; see `book.LiveCells`.

    Returns the width of all classes; arguments are as for `class_widths` and `mix_widths`.
    """
    total, summed = 0.0, np.empty(len(mass))
    for c in range(len(mass)):
        total += mass[c]
        summed[c] = mass[c] * live.distortion[c]
    for i in range(len(weights)):
        weights[i] = live.shares[i] * (mass[labels[i]] / total)
    features = float(live.location.shape[0])
    shared = class_widths(live.k, summed, mass, counts, features, least, live.single)
    mix_widths(shared, live.single, own, factor, widths)
    return shared


@kernel
def joint_of(kind, samples, shift, matrix, location, label, weight, width, out):
    """Fill `out` (n_samples, n_classes) with `log_joint` of samples, after a scaling of these."""
    distance, scaled = np.empty((samples.shape[0], len(weight))), np.empty(samples.shape)
    scale_samples(samples, shift, matrix, scaled)
    all_divergences(kind, scaled, location, len(weight), distance)
    log_joint(distance, label, weight, width, float(samples.shape[1]), out)


@kernel
def add_effects(feature, knots, values, d, scores):
    """Fill the columns of `scores` (n_samples, d + n_effects) from `d` on with effects of the others.

    The other arguments are the fields of `Effects`.
    """
    last = knots.shape[0] - 1
    for k in range(len(feature)):
        column = knots[:, k]
        for t in range(scores.shape[0]):
            x = scores[t, feature[k]]
            above = np.searchsorted(column, x, side="right")
            if above == 0 or above > last:
                scores[t, d + k] = values[min(above, last), k]
            else:
                part = (x - column[above - 1]) / (column[above] - column[above - 1])
                rise = values[above, k] - values[above - 1, k]
                scores[t, d + k] = values[above - 1, k] + part * rise


@kernel
def logit_log_proba(samples, ranks, effects, units, cells, out):
    """Fill `out` (n_samples, n_classes) with log-probabilities of local logits.

    `ranks` are arguments of `normal_scores`, `units` and `cells` of `predict_outputs`; `effects` are the
    fields of `Effects`, of the scores.
    """
    d = samples.shape[1]
    scores = np.empty((samples.shape[0], d + len(effects[0])))
    normal_scores(samples, *ranks, scores)
    add_effects(*effects, d, scores)
    predict_outputs(scores, *units, 1.0, *cells, out)
    fill_log_softmax(out, -np.inf, out)


@kernel
def most_likely(kind, samples, shift, matrix, location, label, weight, width, local, out):
    """Fill `out` (n_samples,) with the classes of the largest `log_joint`, the first in a tie.

    Samples are scaled by `shift` and `matrix`. If there are local logits, `local` are the raw samples,
    the least log-probability by densities, the weights of the log-probabilities by densities and by
    logits, and the fields of `logit_view.LogitArrays`. Else it is None.
    """
    joint = np.zeros((samples.shape[0], len(width)))
    if local is None:
        joint_of(kind, samples, shift, matrix, location, label, weight, width, joint)
    else:
        raw, floor, density, part, ranks, effects, units, cells = local
        if density > 0.0:
            joint_of(kind, samples, shift, matrix, location, label, weight, width, joint)
            fill_log_softmax(joint, floor, joint)
        logits = np.empty(joint.shape)
        logit_log_proba(raw, ranks, effects, units, cells, logits)
        for t in range(len(joint)):
            for c in range(len(width)):
                joint[t, c] = density * joint[t, c] + part * logits[t, c]
    for t in range(len(joint)):
        best = 0
        for c in range(1, len(width)):
            if joint[t, c] > joint[t, best]:
                best = c
        out[t] = best


@lean_kernel
def exponential_sum(distance, log_weight, inverse, part):
    """The least q of all q_i = distance_i * inverse - log_weight_i, and sum_i exp(q - q_i).

    Arrays are (n_cells,); `part` is scratch. If no q_i is finite, the sum is 0.
    """
    n = len(distance)
    for i in range(n):
        part[i] = distance[i] * inverse - log_weight[i]
    least = smallest(part, n)
    if not least < np.inf:
        return least, 0.0
    for i in range(n):
        part[i] = decay(min(part[i] - least, EXACT))
    total = 0.0
    for i in range(n):
        total += part[i]
    return least, total


@kernel
def log_joint(distance, label, weight, width, features, out):
    """Fill `out` (n_samples, n_classes) with log(pi_c p(x | c)), up to a constant (eqs. 34 and 35).

    The density of a class is a mixture over its cells i of p(mu_i) exp(-d(x, mu_i) / width_c),
    normalised like a Gaussian of variance width_c / 2 in `features` (a float) dimensions. `distance` is
    (n_samples, n_cells), `weight` (n_cells,) holds p(mu_i), `width` is (n_classes,).
    """
    n_cells = distance.shape[1]
    # Cells of one class are usually adjacent; each run of them is one loop.
    ends, n_runs = np.empty(n_cells, dtype=np.int64), 0
    for i in range(n_cells):
        if i + 1 == n_cells or label[i + 1] != label[i]:
            ends[n_runs] = i + 1
            n_runs += 1
    log_weight, part = np.log(weight), np.empty(n_cells)
    largest, total = np.empty(out.shape[1]), np.empty(out.shape[1])
    for t in range(distance.shape[0]):
        largest[:], total[:] = -np.inf, 0.0
        start = 0
        for run in range(n_runs):
            stop, c = ends[run], label[start]
            least, summed = exponential_sum(
                distance[t, start:stop], log_weight[start:stop], 1.0 / width[c], part
            )
            if -least > largest[c]:
                total[c] *= math.exp(max(largest[c] + least, -NO_SHARE))
                largest[c] = -least
                total[c] += summed
            elif summed > 0.0:
                total[c] += summed * math.exp(max(-least - largest[c], -NO_SHARE))
            start = stop
        for c in range(len(total)):
            if total[c] > 0.0:
                out[t, c] = largest[c] + math.log(total[c]) - 0.5 * features * math.log(width[c])
            else:
                out[t, c] = -np.inf


@kernel
def loss_and_errors(log_joint, labels, sample_weight, least):
    """The mean of -log p(c | x), with p clipped at `least`, and the error rate.

    `log_joint` is (n_samples, n_classes). If no class is possible, all are equally likely.
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
    """Fill `out` (n_trials,) with the loss of samples for each row of `widths` (n_trials, n_classes).

    The loss is that of `loss_and_errors` plus `error` times the error rate. `distance`, `label` and
    `weight` are as for `log_joint`, the rest as for `loss_and_errors`.
    """
    joint = np.empty((distance.shape[0], widths.shape[1]))
    for i in range(widths.shape[0]):
        log_joint(distance, label, weight, widths[i], features, joint)
        loss, wrong = loss_and_errors(joint, labels, sample_weight, least)
        out[i] = loss + error * wrong

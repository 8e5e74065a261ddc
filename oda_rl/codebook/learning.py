# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled kernels: the learning rule of cells, and the inner loop at one temperature.

Arrays are laid out as in `association`. `location`, `axis` and `reference` are (n_features, capacity),
`weight` and `label` (capacity,); `share` holds association probabilities (eq. 13).

References
----------
Equation numbers are those of Mavridis and Baras, "Multi-Resolution Online Deterministic Annealing: A
Hierarchical and Progressive Learning Architecture".
"""

import math
from typing import NamedTuple

import numpy as np

from oda_rl._jit import kernel, lean_kernel, vector_kernel
from oda_rl.codebook.association import (
    EXACT,
    MIN_LOCATION,
    _hessian,
    add_distances,
    associate,
    divergences,
)
from oda_rl.codebook.model_learning import (
    ERROR,
    INPUT_DISTORTION,
    follow_noise,
    learn_models,
)

# Weights of cells without samples decay geometrically; this is their lower bound.
MIN_WEIGHT = 1e-12
# If fewer than one in SPARSE cells has a share, the learning rule updates those cells one by one.
SPARSE = 4


class Pace(NamedTuple):
    """Settings of the learning rule at one temperature.

    The temperature is in the units of the divergence; stepsizes are 1 / (a + b n). `begin` is the value
    of n before the first sample of the temperature; `most` is an upper bound of a + b n. Every
    `check_every` samples, codevectors are compared with those at the last check. The temperature is
    finished if all have moved by a divergence of less than `tolerance`, or if n has reached `max_steps`.
    """

    temperature: float
    a: float
    b: float
    begin: int
    check_every: int
    tolerance: float
    max_steps: int
    most: float


@lean_kernel
def learn(kind, x, share, stepsize, n_cells, location, weight, axis):
    """Take one step of the learning rule (eq. 12).

    The location moves by a p_i / rho_i' (x - mu_i), with a the stepsize and rho_i' the new weight. This
    is eq. 12 written for mu = sigma / rho: a cell without a share does not move, and its weight falls by
    the same factor as all others. `axis` follows the leading eigenvector of phi'' C_i, and its length
    the eigenvalue, the critical temperature of the cell (Theorem 5).
    """
    for i in range(n_cells):
        weight[i] *= 1.0 - stepsize
    for i in range(n_cells):
        if share[i] == 0.0:
            continue
        weight[i] += stepsize * share[i]
        gain = stepsize * share[i] / max(weight[i], MIN_WEIGHT)
        length = 0.0
        projection = 0.0
        for j in range(x.shape[0]):
            difference = math.sqrt(_hessian(kind, location[j, i])) * (x[j] - location[j, i])
            length += axis[j, i] * axis[j, i]
            projection += axis[j, i] * difference
        # The mean moves at the same time; (1 - gain) makes the pair exact for the sample covariance.
        projection *= (1.0 - gain) / max(math.sqrt(length), MIN_LOCATION)
        for j in range(x.shape[0]):
            difference = x[j] - location[j, i]
            scaled = math.sqrt(_hessian(kind, location[j, i])) * difference
            axis[j, i] += gain * (projection * scaled - axis[j, i])
            location[j, i] += gain * difference
    for i in range(n_cells):
        weight[i] = max(weight[i], MIN_WEIGHT)


@lean_kernel
def learn_all(kind, x, share, stepsize, n_cells, location, weight, axis, scratch):
    """Take the same step as `learn`, coordinate by coordinate: faster if most cells have a share.

    `scratch` is (3, capacity).
    """
    gain, length, projection = scratch[0], scratch[1], scratch[2]
    for i in range(n_cells):
        raised = weight[i] * (1.0 - stepsize) + stepsize * share[i]
        gain[i] = stepsize * share[i] / max(raised, MIN_WEIGHT)
        weight[i] = max(raised, MIN_WEIGHT)
        length[i] = 0.0
        projection[i] = 0.0
    for j in range(x.shape[0]):
        xj, row, along = x[j], location[j], axis[j]
        for i in range(n_cells):
            difference = math.sqrt(_hessian(kind, row[i])) * (xj - row[i])
            length[i] += along[i] * along[i]
            projection[i] += along[i] * difference
    for i in range(n_cells):
        projection[i] *= (1.0 - gain[i]) / max(math.sqrt(length[i]), MIN_LOCATION)
    for j in range(x.shape[0]):
        xj, row, along = x[j], location[j], axis[j]
        for i in range(n_cells):
            difference = xj - row[i]
            scaled = math.sqrt(_hessian(kind, row[i])) * difference
            along[i] += gain[i] * (projection[i] * scaled - along[i])
            row[i] += gain[i] * difference


@kernel
def ends_level(kind, pace, n, n_cells, location, reference, distance):
    """Whether the temperature is finished, as defined by `pace`; otherwise `reference` is updated."""
    d = location.shape[0]
    x, before = np.empty(d), np.empty((d, 1))
    largest = 0.0
    for i in range(n_cells):
        for j in range(d):
            x[j] = location[j, i]
            before[j, 0] = reference[j, i]
        divergences(kind, x, before, 0, 1, distance)
        largest = max(largest, distance[0])
    if largest < pace.tolerance or n >= pace.max_steps:
        return True
    for j in range(d):
        for i in range(n_cells):
            reference[j, i] = location[j, i]
    return False


@vector_kernel
def follow_phase(distance, share, weight, nearest, n_cells, pace, n, phase):
    """Update the two averages of `phase`.

    The sum over all cells in eq. 13 is computed from the share of the nearest one.
    """
    expected = 0.0
    for i in range(n_cells):
        expected += share[i] * distance[i]
    log_sum = math.log(weight[nearest] / share[nearest]) - distance[nearest] / pace.temperature
    phase[0] += (expected - phase[0]) / (n - pace.begin)
    phase[1] += (log_sum - phase[1]) / (n - pace.begin)


@kernel
def anneal(
    samples,
    labels,
    sample_weight,
    kind,
    pace,
    n,
    distortion,
    n_cells,
    cells,
    reference,
    spread,
    models,
    phase,
):
    """Run the inner loop of Algorithm 1: learn from samples one by one at one temperature.

    `samples` is (n_samples, n_features), C-contiguous, with `labels` and `sample_weight` (n_samples,).
    Stops as defined by `pace`, or when the samples are used up. `n` is at least 1, so that the first
    stepsize does not erase the warm start. `distortion` is the mean divergence from the nearest
    codevector over the samples of this temperature (eq. 1). `spread` (n_features, capacity) is the
    variance of the samples nearest to each cell along each feature, or has no rows. If `models` is not
    None, the local models of the cells learn from each sample before the cells do (Algorithm 2).

    Returns (samples used, n, distortion, whether the temperature is finished).
    """
    location, weight, label, axis = cells.location, cells.weight, cells.label, cells.axis
    scratch = np.empty((5, weight.shape[0]))
    distance, share, products = scratch[0], scratch[1], scratch[2:]
    if models is not None:
        q = 1 if models.gain.shape[0] == 1 else models.n_inputs + 1
        direction, size, basis = np.empty((q, n_cells)), np.empty(n_cells), np.ones(q)
        scores = np.empty(models.outputs.shape[1])
    for t in range(samples.shape[0]):
        x = samples[t]
        if models is not None:
            for j in range(q - 1):
                basis[1 + j] = x[j] * models.unscale[j]
            for i in range(n_cells):
                distance[i] = 0.0
            add_distances(x, 0, models.n_inputs, location, n_cells, distance)
            figures = models.figures
            gate = models.softness * figures[INPUT_DISTORTION]
            nearest = associate(distance, None, None, n_cells, 0, gate, EXACT, share)
            error = distance[nearest] - figures[INPUT_DISTORTION]
            figures[INPUT_DISTORTION] += models.forgetting * error
            squared = learn_models(
                models.outputs[t],
                basis,
                share,
                sample_weight[t],
                n_cells,
                models.theta,
                models.gain,
                direction,
                size,
                scores,
                models.link,
            )
            figures[ERROR] += (squared - figures[ERROR]) / (n - pace.begin)
            for i in range(n_cells if models.forgetting == 0.0 else 0):
                share[i] = 1.0 if i == nearest else 0.0
            follow_noise(
                models.outputs[t], scores, share, sample_weight[t], n_cells, models.seen, models.noise
            )
            add_distances(x, models.n_inputs, x.shape[0], location, n_cells, distance)
        else:
            divergences(kind, x, location, 0, n_cells, distance)
        nearest = associate(distance, weight, label, n_cells, labels[t], pace.temperature, EXACT, share)
        if nearest >= 0:
            # A sample of weight m > 1 counts as m at once; even the first must not erase the past.
            mass = sample_weight[t]
            stepsize = mass / (min(pace.most, pace.a + pace.b * n) + max(mass - 1.0, 0.0))
            if phase is not None and pace.temperature > 0.0:
                follow_phase(distance, share, weight, nearest, n_cells, pace, n, phase)
            touched = 0
            for i in range(n_cells):
                touched += share[i] > 0.0
            if SPARSE * touched < n_cells:
                learn(kind, x, share, stepsize, n_cells, location, weight, axis)
            else:
                learn_all(kind, x, share, stepsize, n_cells, location, weight, axis, products)
            distortion += (distance[nearest] - distortion) / (n - pace.begin)
            gain = min(1.0, stepsize / max(weight[nearest], MIN_WEIGHT))
            for j in range(spread.shape[0]):
                difference = x[j] - location[j, nearest]
                spread[j, nearest] += gain * (difference * difference - spread[j, nearest])
        n += 1
        at_check = n % pace.check_every == 0
        if at_check and ends_level(kind, pace, n, n_cells, location, reference, distance):
            return t + 1, n, distortion, True
    return samples.shape[0], n, distortion, False

"""Compiled kernels: divergences, associations, the learning rule, the codebook's events.

Arrays that describe a codebook are stored column by column, one entry per cell, with room to grow: the
first `n_cells` entries are in use. So `location` is (n_features, capacity) and `payload` is (n_columns,
capacity), and every inner loop runs over cells, next to each other in memory.

Kernels validate nothing. The classes that call them do.

References
----------
Equation numbers are those of Mavridis and Baras, "Multi-Resolution Online Deterministic Annealing: A
Hierarchical and Progressive Learning Architecture", unless another paper is named.
"""

import math

import numpy as np

from oda_rl._jit import kernel

SQUARED_EUCLIDEAN = 0
GENERALIZED_KL = 1

# A share below exp(-36) of the largest is lost in a float64 anyway.
EXACT = 36.0
# Weights decay geometrically where no sample falls; they must stay positive numbers.
MIN_WEIGHT = 1e-12
# Codevectors of the KL divergence must stay inside the open positive orthant.
MIN_LOCATION = 1e-300

# How a payload column behaves when its cell splits or merges.
MEAN = 0
COUNT = 1


@kernel
def divergences(kind, x, location, n_cells, out):
    """Fill `out[:n_cells]` with d(x, mu_i) (Definition 1 and the examples after Theorem 2)."""
    out[:n_cells] = 0.0
    if kind == SQUARED_EUCLIDEAN:
        for j in range(x.shape[0]):
            xj = x[j]
            row = location[j]
            for i in range(n_cells):
                difference = xj - row[i]
                out[i] += difference * difference
    else:
        for j in range(x.shape[0]):
            xj = x[j]
            row = location[j]
            # x log x tends to 0 with x
            own = xj * math.log(xj) - xj if xj > 0.0 else 0.0
            for i in range(n_cells):
                mu = max(row[i], MIN_LOCATION)
                out[i] += own + mu - xj * math.log(mu)


@kernel
def curvature(kind, mu):
    """Diagonal entry of the Hessian of the generator phi at one coordinate (eqs. 8 and 18)."""
    if kind == SQUARED_EUCLIDEAN:
        return 2.0
    return 1.0 / max(mu, MIN_LOCATION)


@kernel
def associate(distance, weight, label, n_cells, wanted, temperature, reach, out):
    """Fill `out[:n_cells]` with the association probabilities p(mu_i | x) (eq. 13).

    Only cells whose label is `wanted` take part: the indicator s_i of the classifier. The exponent is
    taken relative to the nearest of them, so that the sum is never 0. Cells more than `reach`
    temperatures further away than the nearest get nothing. Returns the nearest cell, or -1 where no
    cell has the label.
    """
    nearest = -1
    smallest = np.inf
    for i in range(n_cells):
        if label[i] == wanted and distance[i] < smallest:
            smallest = distance[i]
            nearest = i
    out[:n_cells] = 0.0
    if nearest < 0:
        return nearest
    if temperature <= 0.0:
        out[nearest] = 1.0
        return nearest
    limit = reach * temperature
    total = 0.0
    for i in range(n_cells):
        excess = distance[i] - smallest
        if excess < limit and label[i] == wanted:
            out[i] = weight[i] * math.exp(-excess / temperature)
            total += out[i]
    for i in range(n_cells):
        out[i] /= total
    return nearest


@kernel
def learn(kind, x, share, stepsize, n_cells, location, weight, axis):
    """One step of the learning rule (eq. 12), all cells from the same state.

    The location moves by a p_i / rho_i' (x - mu_i), which is eq. 12 written for mu = sigma / rho: a cell
    without a share keeps its place and loses weight by the same factor as all the others. `axis`
    follows the leading eigenvector of phi'' C_i with its eigenvalue as its length: the critical
    temperature of the cell (Theorem 5).
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
            scale = math.sqrt(curvature(kind, location[j, i]))
            length += axis[j, i] * axis[j, i]
            projection += axis[j, i] * scale * (x[j] - location[j, i])
        projection /= max(math.sqrt(length), MIN_LOCATION)
        # The mean moves at the same time; (1 - gain) makes the pair exact for the sample covariance.
        projection *= 1.0 - gain
        for j in range(x.shape[0]):
            scale = math.sqrt(curvature(kind, location[j, i]))
            difference = x[j] - location[j, i]
            axis[j, i] += gain * (projection * scale * difference - axis[j, i])
            location[j, i] += gain * difference
    for i in range(n_cells):
        weight[i] = max(weight[i], MIN_WEIGHT)


@kernel
def critical_temperature(axis, i):
    """The temperature below which cell `i` splits: the length of its axis (eq. 18)."""
    total = 0.0
    for j in range(axis.shape[0]):
        total += axis[j, i] * axis[j, i]
    return math.sqrt(total)


@kernel
def split(kind, i, offset, n_cells, location, weight, label, axis, payload, payload_kind):
    """Split cell `i` into `i` and `n_cells`, at mu_i + offset and mu_i - offset.

    Both children inherit the payload; counts are shared between them. Capacity for one more cell must
    be there. Returns the new number of cells.
    """
    new = n_cells
    weight[i] *= 0.5
    weight[new] = weight[i]
    label[new] = label[i]
    for j in range(location.shape[0]):
        step = offset[j]
        if kind == GENERALIZED_KL:  # stay positive on both sides
            step = math.copysign(min(abs(step), 0.5 * location[j, i]), step)
        location[j, new] = location[j, i] - step
        location[j, i] += step
        axis[j, new] = axis[j, i]
    for c in range(payload.shape[0]):
        if payload_kind[c] == COUNT:
            payload[c, i] *= 0.5
        payload[c, new] = payload[c, i]
    return n_cells + 1


@kernel
def remove(i, n_cells, location, weight, label, axis, payload):
    """Remove cell `i`; the last cell takes its place. Returns the new number of cells."""
    last = n_cells - 1
    weight[i] = weight[last]
    label[i] = label[last]
    for j in range(location.shape[0]):
        location[j, i] = location[j, last]
        axis[j, i] = axis[j, last]
    for c in range(payload.shape[0]):
        payload[c, i] = payload[c, last]
    return last


@kernel
def merge(i, k, n_cells, location, weight, label, axis, payload, payload_kind):
    """Merge cell `k` into cell `i`: weighted means, counts add up. Returns the new number of cells."""
    part = weight[k] / (weight[i] + weight[k])
    weight[i] += weight[k]
    for j in range(location.shape[0]):
        location[j, i] += part * (location[j, k] - location[j, i])
    if part > 0.5:
        axis[:, i] = axis[:, k]
    for c in range(payload.shape[0]):
        if payload_kind[c] == COUNT:
            payload[c, i] += payload[c, k]
        else:
            payload[c, i] += part * (payload[c, k] - payload[c, i])
    return remove(k, n_cells, location, weight, label, axis, payload)


@kernel
def merge_close(kind, tolerance, n_cells, location, weight, label, axis, payload, payload_kind):
    """Merge cells of one label that are closer than `tolerance` (Algorithm 1: effective codevectors).

    Returns the new number of cells.
    """
    distance = np.empty(n_cells)
    i = 0
    while i < n_cells - 1:
        divergences(kind, location[:, i].copy(), location, n_cells, distance)
        nearest = -1
        for k in range(i + 1, n_cells):
            closer = nearest < 0 or distance[k] < distance[nearest]
            if closer and label[k] == label[i] and distance[k] < tolerance:
                nearest = k
        if nearest >= 0:
            n_cells = merge(i, nearest, n_cells, location, weight, label, axis, payload, payload_kind)
        else:
            i += 1
    return n_cells


@kernel
def prune_idle(min_weight, n_cells, location, weight, label, axis, payload):
    """Remove cells with less weight than `min_weight`, lightest first, but keep one of each label.

    The weights are scaled to sum to one again. Returns the new number of cells.
    """
    while True:
        lightest = -1
        for i in range(n_cells):
            if weight[i] < min_weight and (lightest < 0 or weight[i] < weight[lightest]):
                siblings = 0
                for k in range(n_cells):
                    siblings += label[k] == label[i]
                if siblings > 1:
                    lightest = i
        if lightest < 0:
            break
        n_cells = remove(lightest, n_cells, location, weight, label, axis, payload)
    total = 0.0
    for i in range(n_cells):
        total += weight[i]
    for i in range(n_cells):
        weight[i] /= total
    return n_cells


@kernel
def largest_shift(kind, n_cells, location, reference, distance):
    """The largest divergence of a codevector from where it was at `reference`."""
    largest = 0.0
    for i in range(n_cells):
        divergences(kind, location[:, i].copy(), reference[:, i : i + 1], 1, distance)
        largest = max(largest, distance[0])
    return largest


@kernel
def anneal(
    samples,
    labels,
    sample_weight,
    kind,
    temperature,
    stepsize_a,
    stepsize_b,
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
    distance,
    share,
):
    """The inner loop of Algorithm 1: samples one after the other at one temperature.

    Stops when the codevectors have moved less than `tolerance` between two checks, or after `max_steps`
    samples at this temperature, or when `samples` are used up. `n` counts the samples at this
    temperature and starts from 1, so that the first stepsize does not erase the warm start.
    `distortion` is the mean divergence from the nearest codevector over these samples (eq. 1).

    Returns (samples used, n, distortion, whether the temperature is finished).
    """
    for t in range(samples.shape[0]):
        x = samples[t]
        divergences(kind, x, location, n_cells, distance)
        nearest = associate(distance, weight, label, n_cells, labels[t], temperature, EXACT, share)
        if nearest >= 0:
            stepsize = min(1.0, sample_weight[t] / (stepsize_a + stepsize_b * n))
            learn(kind, x, share, stepsize, n_cells, location, weight, axis)
            distortion += (distance[nearest] - distortion) / n
        n += 1
        if n % check_every == 0:
            shift = largest_shift(kind, n_cells, location, reference, distance)
            if shift < tolerance or n >= max_steps:
                return t + 1, n, distortion, True
            reference[:, :n_cells] = location[:, :n_cells]
    return samples.shape[0], n, distortion, False

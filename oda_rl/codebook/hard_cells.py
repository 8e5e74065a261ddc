# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled kernels for data that are all at hand: associations, cells, the limit of temperature zero.

The arrays of a codebook are laid out as in `learning`: `location` is (n_features, capacity).
`nearest`, `closest` and `second` have one entry per sample: its cell, the divergence from that cell's
codevector, and from the next best one.

Equation numbers are those of Mavridis and Baras, "Multi-Resolution Online Deterministic Annealing".
"""

import numpy as np

from oda_rl._jit import kernel
from oda_rl.codebook.learning import EXACT, associate, divergences, is_euclidean

# From so many features on, squared distances are cheaper as matrix products, of so many rows at a time.
PRODUCT_FEATURES = 12
BLOCK = 128


@kernel
def all_divergences(kind, samples, location, n_cells, out):
    """Fill `out` (n_samples, n_cells) with d(x, mu_i)."""
    for t in range(samples.shape[0]):
        divergences(kind, samples[t], location, n_cells, out[t])


@kernel
def all_associations(kind, samples, location, weight, label, n_cells, temperature, out):
    """Fill `out` (n_samples, n_cells) with p(mu_i | x) (eq. 13), for cells of label 0."""
    distance = np.empty(n_cells)
    for t in range(samples.shape[0]):
        divergences(kind, samples[t], location, n_cells, distance)
        associate(distance, weight, label, n_cells, 0, temperature, EXACT, out[t])


@kernel
def assign(kind, samples, location, n_cells, nearest, closest, second):
    """Find the cell of every sample: the nearest codevector, the first of equals (below Theorem 4)."""
    distance = np.empty(n_cells)
    for t in range(samples.shape[0]):
        divergences(kind, samples[t], location, n_cells, distance)
        best, runner_up, cell = np.inf, np.inf, 0
        for i in range(n_cells):
            if distance[i] < best:
                runner_up = best
                best = distance[i]
                cell = i
            elif distance[i] < runner_up:
                runner_up = distance[i]
        nearest[t] = cell
        closest[t] = best
        second[t] = runner_up


@kernel
def number_cells(kind, lowest, rows, start, stop, scale, location, n_cells, ids, distance, found):
    """Divide the rows from `start` to `stop` by `scale`, and find the numbers `ids` of their cells.

    `found` gets them from its beginning on; `distance` has room for all cells. Returns the first row
    with a coordinate that is not finite or below `lowest`, or `stop`.
    """
    for t in range(start, stop):
        x = rows[t]
        for j in range(x.shape[0]):
            x[j] /= scale[j]
            if not lowest <= x[j] < np.inf:
                return t
        divergences(kind, x, location, n_cells, distance)
        nearest = 0
        for i in range(1, n_cells):
            if distance[i] < distance[nearest]:
                nearest = i
        found[t - start] = ids[nearest]
    return stop


@kernel
def assign_by_products(samples, location, n_cells, nearest, closest, second):
    """`assign` for squared Euclidean distances, written as |x|^2 - 2 x mu + |mu|^2.

    The samples' mean must be near zero, or the difference of large numbers loses digits; the distances
    returned are computed anew for the cell that was found.
    """
    codevectors = location[:, :n_cells].copy()
    norm = np.zeros(n_cells)
    for j in range(codevectors.shape[0]):
        for i in range(n_cells):
            norm[i] += codevectors[j, i] * codevectors[j, i]
    for start in range(0, samples.shape[0], BLOCK):
        block = samples[start : start + BLOCK]
        product = np.dot(block, codevectors)
        for t in range(block.shape[0]):
            row = product[t]
            for i in range(n_cells):
                row[i] = norm[i] - 2.0 * row[i]
            best, runner_up, cell = np.inf, np.inf, 0
            for i in range(n_cells):
                if row[i] < best:
                    runner_up = best
                    best = row[i]
                    cell = i
                elif row[i] < runner_up:
                    runner_up = row[i]
            exact = 0.0
            for j in range(block.shape[1]):
                exact += (block[t, j] - codevectors[j, cell]) ** 2
            nearest[start + t] = cell
            closest[start + t] = exact
            second[start + t] = exact + (runner_up - best)


@kernel
def assign_all(kind, samples, location, n_cells, nearest, closest, second):
    """Whichever of the two is faster."""
    if is_euclidean(kind) and samples.shape[1] >= PRODUCT_FEATURES:
        assign_by_products(samples, location, n_cells, nearest, closest, second)
    else:
        assign(kind, samples, location, n_cells, nearest, closest, second)


@kernel
def distortion(sample_weight, closest):
    """The mean divergence of the samples from their codevectors (eq. 1)."""
    total = 0.0
    mass = 0.0
    for t in range(closest.shape[0]):
        total += sample_weight[t] * closest[t]
        mass += sample_weight[t]
    return total / mass


@kernel
def move_to_means(samples, sample_weight, nearest, closest, n_cells, location, mass):
    """Move every codevector to the mean of its cell (eq. 10 for hard cells); `mass` gets their weights.

    The codevector of an empty cell goes to the sample that is represented worst.
    """
    mean = np.zeros((n_cells, samples.shape[1]))
    mass[:n_cells] = 0.0
    for t in range(samples.shape[0]):
        mass[nearest[t]] += sample_weight[t]
        row = mean[nearest[t]]
        for j in range(samples.shape[1]):
            row[j] += sample_weight[t] * samples[t, j]
    for i in range(n_cells):
        if mass[i] > 0.0:
            for j in range(samples.shape[1]):
                location[j, i] = mean[i, j] / mass[i]
        else:
            worst = 0
            for t in range(samples.shape[0]):
                if sample_weight[t] * closest[t] > sample_weight[worst] * closest[worst]:
                    worst = t
            closest[worst] = 0.0
            for j in range(samples.shape[1]):
                location[j, i] += 0.999 * (samples[worst, j] - location[j, i])


@kernel
def cell_moments(samples, sample_weight, nearest, n_cells, location, mass, spread):
    """Fill `mass` with the cells' shares of the weight, `spread` with the variances about codevectors.

    `spread` is (n_features, n_cells); a cell without samples gets zeros.
    """
    mass[:n_cells] = 0.0
    spread[:, :n_cells] = 0.0
    total = 0.0
    for t in range(samples.shape[0]):
        i = nearest[t]
        mass[i] += sample_weight[t]
        total += sample_weight[t]
        for j in range(samples.shape[1]):
            spread[j, i] += sample_weight[t] * (samples[t, j] - location[j, i]) ** 2
    for i in range(n_cells):
        if mass[i] > 0.0:
            for j in range(samples.shape[1]):
                spread[j, i] /= mass[i]
        mass[i] /= total


@kernel
def quench(
    kind,
    samples,
    sample_weight,
    n_cells,
    location,
    tolerance,
    max_iter,
    nearest,
    closest,
    second,
    mass,
):
    """The limit of temperature zero with the samples at hand: cells and means in turn, K fixed.

    Ends when a turn lowers the distortion by less than `tolerance` of it, or after `max_iter` turns. The
    arrays of the samples then belong to the codevectors as they stand. Returns (distortion, turns).
    """
    assign_all(kind, samples, location, n_cells, nearest, closest, second)
    best = distortion(sample_weight, closest)
    for turn in range(max_iter):
        move_to_means(samples, sample_weight, nearest, closest, n_cells, location, mass)
        assign_all(kind, samples, location, n_cells, nearest, closest, second)
        value = distortion(sample_weight, closest)
        if not best - value > tolerance * best:
            return value, turn + 1
        best = value
    return best, max_iter


@kernel
def relocate(samples, sample_weight, nearest, closest, second, n_cells, location, n_moves, draws):
    """Move the most dispensable codevectors into the cells with the most distortion.

    Without its codevector, the samples of a cell go to their second best: what the distortion gains by
    that is what the cell is worth. It moves to a sample of the receiving cell, drawn by its share of
    that cell's distortion with one of `draws` (uniform in [0, 1)). Returns the moves made.
    """
    worth = np.zeros(n_cells)
    error = np.zeros(n_cells)
    for t in range(samples.shape[0]):
        i = nearest[t]
        worth[i] += sample_weight[t] * (second[t] - closest[t])
        error[i] += sample_weight[t] * closest[t]
    made = 0
    for move in range(n_moves):
        giver = np.argmin(worth)
        error[giver] = -1.0
        taker = np.argmax(error)
        if not worth[giver] < error[taker]:
            break
        threshold = draws[move] * error[taker]
        worth[giver] = np.inf
        worth[taker] = np.inf
        error[taker] = -1.0
        chosen = -1
        for t in range(samples.shape[0]):
            if nearest[t] == taker and sample_weight[t] * closest[t] > 0.0:
                chosen = t
                threshold -= sample_weight[t] * closest[t]
                if threshold < 0.0:
                    break
        if chosen < 0:
            break
        # Just short of the sample, which may lie on the border of the divergence's domain.
        for j in range(samples.shape[1]):
            location[j, giver] = location[j, taker] + 0.999 * (samples[chosen, j] - location[j, taker])
        made += 1
    return made

# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""The cells that are active for an observation: nearby branches, association probabilities, averages.

A branch is a region between planes. The search is best-first: it descends to the region that contains
the observation, and then repeatedly to the region with the smallest lower bound of its distance, which
is the distance from a plane that separates it from the observation. So at a border the regions on both
sides are found. Without a tree there is a single branch.

Association probabilities leave out the weights rho: with them, the most visited cells would also
determine the values near their neighbours. `distance`, `share` (n_places,) and the columns of `q` stand
for cells; loops over them are vectorised.
"""

from oda_rl._jit import inline_kernel, lean_kernel, pasted_kernel, vector_kernel
from oda_rl.agents.codebook_rl.state import (
    DISTANCES,
    N_LABELS,
    PLANES,
    SEARCHES,
    SOFTNESS,
    TEMPERATURE,
    WIDTH,
    open_branches,
    open_memory,
    open_numbers,
    open_planes,
    open_scratch,
    open_units,
)
from oda_rl.codebook.association import add_distances, associate, smallest

# Cells with less than exp(-REACH) times the share of the nearest cell are not active.
REACH = 8.0


@pasted_kernel
def fall(q):
    """exp(-q) for q in [0, 8], to a relative error of 1e-10.

    It is the 16th power of a short Taylor series, so that loops over it are vectorised. They take a
    fifth of the time of loops over the library's function.
    """
    y = q * (1.0 / 16.0)
    s = 1.0 / 362880.0 - y * (1.0 / 3628800.0)
    s = 1.0 / 40320.0 - y * s
    s = 1.0 / 5040.0 - y * s
    s = 1.0 / 720.0 - y * s
    s = 1.0 / 120.0 - y * s
    s = 1.0 / 24.0 - y * s
    s = 1.0 / 6.0 - y * s
    s = 0.5 - y * s
    s = 1.0 - y * s
    s = 1.0 - y * s
    s *= s
    s *= s
    s *= s
    return s * s


@vector_kernel
def shares_of_all(distance, n_cells, temperature, share):
    """Fill `share` with the association probabilities p(mu_i | z) at a temperature above 0 (eq. 6)."""
    nearest = smallest(distance, n_cells)
    inverse = 1.0 / temperature
    total = 0.0
    for i in range(n_cells):
        away = (distance[i] - nearest) * inverse
        part = fall(min(away, REACH)) * (1.0 if away <= REACH else 0.0)
        share[i] = part
        total += part
    inverse = 1.0 / total
    for i in range(n_cells):
        share[i] *= inverse


@vector_kernel
def four_dots(share, a, b, c, d, n):
    """The dot products of `share` with a, b, c and d, computed in one pass over `share`."""
    first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        first += share[i] * a[i]
        second += share[i] * b[i]
        third += share[i] * c[i]
        fourth += share[i] * d[i]
    return first, second, third, fourth


@vector_kernel
def dot(a, b, n):
    """Sum of the first n products."""
    total = 0.0
    for i in range(n):
        total += a[i] * b[i]
    return total


@inline_kernel
def average_rows(share, only, q, first, last, n, sums):
    """Fill `sums` with averages of the rows of `q` from `first` to `last`, weighted by `n` shares.

    If `only` is not below 0, that cell alone is active, and `sums` gets its entries.
    """
    if only >= 0:
        for r in range(first, last):
            sums[r] = q[r, only]
        return
    r = first
    while r + 4 <= last:
        sums[r], sums[r + 1], sums[r + 2], sums[r + 3] = four_dots(
            share, q[r], q[r + 1], q[r + 2], q[r + 3], n
        )
        r += 4
    while r < last:
        sums[r] = dot(share, q[r], n)
        r += 1


@vector_kernel
def leverage(distance, share, only, n_cells, temperature, linear):
    """Sum of squares of the features: p_i and, for `linear` cells, p_i (z - mu_i) / sqrt(T)."""
    per_distance = 1.0 / temperature if linear else 0.0
    if only >= 0:
        return 1.0 + distance[only] * per_distance
    total = 0.0
    for i in range(n_cells):
        total += share[i] * share[i] * (1.0 + distance[i] * per_distance)
    return total


@inline_kernel
def value_temperature(settings):
    """The temperature at which cells overlap for Q; if softness is 0, the annealing temperature."""
    softness = settings[SOFTNESS]
    return settings[TEMPERATURE] * (softness if softness > 0.0 else 1.0)


@inline_kernel
def find_shares_by_label(state, n_found, temperature):
    """Fill `scratch.share` with the association probabilities among the cells of each label."""
    numbers, branches, scratch = open_numbers(state), open_branches(state), open_scratch(state)
    width = numbers.counters[WIDTH]
    n = n_found * width
    for p in range(n):
        scratch.label[p] = branches.label[scratch.found[p // width], p % width]
        scratch.weight[p] = 1.0
        scratch.share[p] = 0.0
    for wanted in range(numbers.counters[N_LABELS]):
        distance, weight, label = scratch.distance, scratch.weight, scratch.label
        associate(distance, weight, label, n, wanted, temperature, REACH, scratch.step)
        for p in range(n):
            scratch.share[p] += scratch.step[p]


# -- branches ----------------------------------------------------------------------------------------


@lean_kernel
def route(location, n_cells, normal, offset, child, branch):
    """Fill `branch` with the branch in whose region each codevector lies.

    `location` is (n_features, capacity); `normal`, `offset` and `child` are those of `Planes`.
    """
    for i in range(n_cells):
        node = 0 if child.shape[0] > 0 else -1
        while node >= 0:
            above = -offset[node]
            for j in range(normal.shape[1]):
                above += normal[node, j] * location[j, i]
            node = child[node, 1 if above > 0.0 else 0]
        branch[i] = ~node


@inline_kernel
def recall(state, env):
    """Fill `scratch.z` with the stored location of an environment."""
    memory, scratch = open_memory(state), open_scratch(state)
    for j in range(scratch.z.shape[0]):
        scratch.z[j] = memory.z[env, j]


@lean_kernel
def measure(state, n_found, n_coordinates):
    """Find the squared distances of `scratch.z` from the cells of the branches found.

    Distances are taken along the first `n_coordinates` of a location.
    """
    counters, branches, scratch = open_numbers(state).counters, open_branches(state), open_scratch(state)
    width = counters[WIDTH]
    for k in range(n_found):
        branch = scratch.found[k]
        away = scratch.distance[k * width : (k + 1) * width]
        for i in range(width):
            away[i] = 0.0
        add_distances(scratch.z, 0, n_coordinates, branches.location[branch], width, away)
        scratch.tally[DISTANCES] += branches.size[branch]


@lean_kernel
def find_near(state, n_coordinates):
    """Find the branches near `scratch.z`, nearest first, and the distances of their cells.

    The search ends when `scratch.found` is full, or when all other regions are so much farther away than
    the nearest cell found that their cells can neither be active nor be moved. Distances are taken along
    `n_coordinates`; planes may have fewer coordinates. Returns the number of branches.
    """
    numbers, branches = open_numbers(state), open_branches(state)
    planes, scratch = open_planes(state), open_scratch(state)
    settings, width, tally = numbers.settings, numbers.counters[WIDTH], scratch.tally
    reach = REACH * max(settings[SOFTNESS], 1.0) * settings[TEMPERATURE]
    node = 0 if planes.child.shape[0] > 0 else -1
    bound, nearest = 0.0, 1e300
    n_waiting, n_found = 0, 0
    counts = open_units(state).counts
    if counts.shape[0] > 0:  # a table: the number of the state determines its branch
        number = 0
        for j in range(counts.shape[0]):
            number = number * counts[j] + int(scratch.z[j])
        node = ~(number // width)
    while True:
        # Descend to a branch; queue the other children, with a lower bound of their squared distance.
        while node >= 0:
            above = -planes.offset[node]
            for j in range(planes.normal.shape[1]):
                above += planes.normal[node, j] * scratch.z[j]
            side = 1 if above > 0.0 else 0
            scratch.key[n_waiting] = max(bound, above * above)
            scratch.node[n_waiting] = planes.child[node, 1 - side]
            n_waiting += 1
            node = planes.child[node, side]
            tally[PLANES] += 1
        branch = ~node
        away = scratch.distance[n_found * width : (n_found + 1) * width]
        for i in range(width):
            away[i] = 0.0
        add_distances(scratch.z, 0, n_coordinates, branches.location[branch], width, away)
        tally[DISTANCES] += branches.size[branch]
        scratch.found[n_found] = branch
        n_found += 1
        if n_found == scratch.found.shape[0] or n_waiting == 0:
            break
        nearest = min(nearest, smallest(away, width))
        least = 0
        for i in range(1, n_waiting):
            if scratch.key[i] < scratch.key[least]:
                least = i
        bound, node = scratch.key[least], scratch.node[least]
        if bound > nearest + reach:
            break
        n_waiting -= 1
        scratch.key[least], scratch.node[least] = scratch.key[n_waiting], scratch.node[n_waiting]
    tally[SEARCHES] += 1
    return n_found

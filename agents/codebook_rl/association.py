# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""The cells that are active for an observation: nearby branches, association probabilities, values.

A branch is a region between planes. The search is best-first: it descends to the region that contains
the observation, and then repeatedly to the region with the smallest lower bound of its distance, which
is the distance from a plane that separates it from the observation. So at a border the regions on both
sides are found. Without a tree there is a single branch.

Association probabilities leave out the weights rho: with them, the most visited cells would also
determine the values near their neighbours. `distance`, `share` (n_places,) and the columns of `q` stand
for cells; loops over them are vectorised.
"""

import math

from oda_rl._jit import inline_kernel, lean_kernel, pasted_kernel, vector_kernel
from oda_rl.agents import bounds
from oda_rl.agents.action_choice import index_of_largest
from oda_rl.agents.codebook_rl import state as names
from oda_rl.agents.codebook_rl.rules.traces import read_block
from oda_rl.agents.codebook_rl.state import (
    open_branches,
    open_memory,
    open_numbers,
    open_planes,
    open_scratch,
    open_units,
)
from oda_rl.codebook.association import add_distances, associate, index_of_smallest, smallest

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


@inline_kernel
def value_of_rows(sums, base, n_basis, z):
    """The linear function of z with the coefficients in `sums`, from `base` on."""
    value = sums[base]
    for j in range(n_basis - 1):
        value += sums[base + 1 + j] * z[j]
    return value


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
    softness = settings[names.SOFTNESS]
    return settings[names.TEMPERATURE] * (softness if softness > 0.0 else 1.0)


@inline_kernel
def find_shares_by_label(state, n_found, temperature):
    """Fill `scratch.share` with the association probabilities among the cells of each label."""
    numbers, branches, scratch = open_numbers(state), open_branches(state), open_scratch(state)
    width = numbers.counters[names.WIDTH]
    n = n_found * width
    for p in range(n):
        scratch.label[p] = branches.label[scratch.found[p // width], p % width]
        scratch.weight[p] = 1.0
        scratch.share[p] = 0.0
    for wanted in range(numbers.counters[names.N_LABELS]):
        distance, weight, label = scratch.distance, scratch.weight, scratch.label
        associate(distance, weight, label, n, wanted, temperature, REACH, scratch.step)
        for p in range(n):
            scratch.share[p] += scratch.step[p]


# -- branches ----------------------------------------------------------------------------------------


@inline_kernel
def scale_observation(state, observation):
    """Fill `scratch.z` with the observation in scaled units, limited by `bounds.keep_inside`.

    Returns False if a coordinate is not finite or, in a table of states, not one of its values.
    """
    units, scratch = open_units(state), open_scratch(state)
    finite = True
    for j in range(units.centre.shape[0]):
        finite &= math.isfinite(observation[j])
        z = (observation[j] - units.centre[j]) / units.scale[j]
        if units.counts.shape[0] > 0:
            finite &= 0.0 <= z < units.counts[j] and z == math.floor(z)
        else:
            z = bounds.keep_inside(z, units.lowest[j], units.highest[j])
        scratch.z[j] = z
    return finite


@inline_kernel
def recall(state, env):
    """Fill `scratch.z` with the stored location of an environment."""
    memory, scratch = open_memory(state), open_scratch(state)
    for j in range(scratch.z.shape[0]):
        scratch.z[j] = memory.z[env, j]


@lean_kernel
def find_near(state, n_coordinates):
    """Find the branches near `scratch.z`, nearest first, and the distances of their cells.

    The search ends when `scratch.found` is full, or when all other regions are so much farther away than
    the nearest cell found that their cells can neither be active nor be moved. Distances are taken along
    `n_coordinates`; planes may have fewer coordinates. Returns the number of branches.
    """
    numbers, branches = open_numbers(state), open_branches(state)
    planes, scratch = open_planes(state), open_scratch(state)
    settings, width, tally = numbers.settings, numbers.counters[names.WIDTH], scratch.tally
    reach = REACH * max(settings[names.SOFTNESS], 1.0) * settings[names.TEMPERATURE]
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
            tally[names.PLANES] += 1
        branch = ~node
        away = scratch.distance[n_found * width : (n_found + 1) * width]
        for i in range(width):
            away[i] = 0.0
        add_distances(scratch.z, 0, n_coordinates, branches.location[branch], width, away)
        tally[names.DISTANCES] += branches.size[branch]
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
    tally[names.SEARCHES] += 1
    return n_found


# -- the active cells --------------------------------------------------------------------------------


@inline_kernel
def activate_cells(state, n_found):
    """Find the active cells for `scratch.z`, and fill `scratch.values` with Q of every action.

    Returns the place of the active cell if there is only one (softness 0), else -1.
    """
    numbers, scratch = open_numbers(state), open_scratch(state)
    counters, share = numbers.counters, scratch.share
    width, n_basis = counters[names.WIDTH], counters[names.N_BASIS]
    temperature = numbers.settings[names.SOFTNESS] * numbers.settings[names.TEMPERATURE]
    only = -1
    if counters[names.N_LABELS] > 1:
        find_shares_by_label(state, n_found, temperature)
    elif temperature > 0.0:
        shares_of_all(scratch.distance, n_found * width, temperature, share)
    else:
        only = index_of_smallest(scratch.distance, n_found * width)
        share[only] = 1.0
    n_rows, n_added = scratch.sums.shape[0], 0
    for k in range(n_found):
        own = only - k * width if only >= 0 else -1
        if only < 0 or 0 <= own < width:
            part = share[k * width : (k + 1) * width]
            sums = scratch.sums if n_added == 0 else scratch.parts
            average_rows(part, own, read_block(state, k), 0, n_rows, width, sums)
            for r in range(n_rows if n_added > 0 else 0):
                scratch.sums[r] += scratch.parts[r]
            n_added += 1
    for a in range(scratch.values.shape[0]):
        scratch.values[a] = value_of_rows(scratch.sums, a * n_basis, n_basis, scratch.z)
    return only


@inline_kernel
def remember(state, env, n_found, only):
    """Store what the next step learns from: the location, and the cells active for the action."""
    numbers, memory, scratch = open_numbers(state), open_memory(state), open_scratch(state)
    counters, width, kept = numbers.counters, numbers.counters[names.WIDTH], memory.share[env]
    for j in range(scratch.z.shape[0]):
        memory.z[env, j] = scratch.z[j]
    for k in range(n_found):
        memory.found[env, k] = scratch.found[k]
    memory.n_found[env] = n_found
    memory.only[env] = only
    if only >= 0:
        kept[only] = 1.0
    else:
        for p in range(n_found * width):
            kept[p] = scratch.share[p]
        if counters[names.N_LABELS] > 1:
            for p in range(n_found * width):
                if scratch.label[p] != memory.action[env]:
                    kept[p] = 0.0
    temperature = value_temperature(numbers.settings)
    memory.norm[env] = leverage(
        scratch.distance, kept, only, n_found * width, temperature, counters[names.N_BASIS] > 1
    )


@lean_kernel
def evaluate_numbered(state, observations, actions, values):
    """Fill `actions` (n, 1) with the greedy actions, and `values` (n, n_actions) with all Q values.

    With an actor, `values` has its preferences, and one more column with the state value.
    `observations` are (n, n_observed), float64. Ties go to the first action. Returns False for an
    observation that is not valid.
    """
    scratch, n_basis = open_scratch(state), open_numbers(state).counters[names.N_BASIS]
    for t in range(observations.shape[0]):
        if not scale_observation(state, observations[t]):
            return False
        activate_cells(state, find_near(state, observations.shape[1]))
        n_actions = scratch.values.shape[0]
        for a in range(n_actions):
            values[t, a] = scratch.values[a]
        if values.shape[1] > n_actions:
            values[t, n_actions] = value_of_rows(scratch.sums, n_actions * n_basis, n_basis, scratch.z)
        actions[t, 0] = index_of_largest(scratch.values)
    return True

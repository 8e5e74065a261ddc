# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled search: which branches are near an observation, and how far their cells are.

A branch is a region between planes. The search goes down to the region that holds the observation, then
to the region of which the nearest plane on the way is nearest, and so on (best first): these distances
from planes are lower bounds of the distances from regions. So at a border both sides are found. Without
a tree there is one branch, and it is found at once.
"""

from oda_rl._jit import inline_kernel, lean_kernel
from oda_rl.agents.codebook_rl.association import REACH
from oda_rl.agents.codebook_rl.state import (
    DISTANCES,
    PLANES,
    SEARCHES,
    SOFTNESS,
    TEMPERATURE,
    WIDTH,
    open_branches,
    open_numbers,
    open_planes,
    open_scratch,
)
from oda_rl.codebook.association import add_distances, smallest


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


@lean_kernel
def measure(state, n_found, n_coordinates):
    """Find the squared distances of `scratch.z` from the cells of the branches found.

    Those along the first `n_coordinates` of a location count.
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


@inline_kernel
def find_near(state, n_coordinates):
    """Find the branches near `scratch.z`, nearest first, and the distances of their cells.

    The search ends when `scratch.found` is full, or when no other region comes near enough to the
    nearest cell found for its cells to be active or to be moved. The planes may know fewer than the
    `n_coordinates` along which distances are taken. Returns the number of branches.
    """
    numbers, branches = open_numbers(state), open_branches(state)
    planes, scratch = open_planes(state), open_scratch(state)
    settings, width, tally = numbers.settings, numbers.counters[WIDTH], scratch.tally
    reach = REACH * max(settings[SOFTNESS], 1.0) * settings[TEMPERATURE]
    node = 0 if planes.child.shape[0] > 0 else -1
    bound, nearest = 0.0, 1e300
    n_waiting, n_found = 0, 0
    while True:
        # Down to a branch; what is passed waits, with its least squared distance.
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

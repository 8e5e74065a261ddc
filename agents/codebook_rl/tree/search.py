# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled search: which branches are near an observation, and how far their cells are.

A branch is a region between planes. The search goes down to the region that holds the observation, then
to the region of which the nearest plane on the way is nearest, and so on (best first): these distances
from planes are lower bounds of the distances from regions. So at a border both sides are found.
"""

from oda_rl._jit import inline_kernel, lean_kernel
from oda_rl.agents.codebook_rl.association import REACH, add_distances, smallest
from oda_rl.agents.codebook_rl.tree.layout import DISTANCES, PLANES, SEARCHES, WIDTH


@lean_kernel
def height(z, normal, offset, node):
    """How far `z` is from the plane of a node; positive on side 1."""
    above = -offset[node]
    for j in range(normal.shape[1]):
        above += normal[node, j] * z[j]
    return above


@lean_kernel
def route(location, n_cells, normal, offset, child, branch):
    """Fill `branch` with the branch in whose region each codevector lies."""
    for i in range(n_cells):
        node = 0 if child.shape[0] > 0 else -1
        while node >= 0:
            above = -offset[node]
            for j in range(normal.shape[1]):
                above += normal[node, j] * location[j, i]
            node = child[node, 1 if above > 0.0 else 0]
        branch[i] = ~node


@lean_kernel
def descend(z, node, bound, normal, offset, child, n_waiting, key, waiting, tally):
    """Go down from `node` to a branch; what is passed waits, with its least squared distance.

    Returns the branch, and how many nodes and branches are waiting.
    """
    while node >= 0:
        above = height(z, normal, offset, node)
        side = 1 if above > 0.0 else 0
        key[n_waiting] = max(bound, above * above)
        waiting[n_waiting] = child[node, 1 - side]
        n_waiting += 1
        node = child[node, side]
        tally[PLANES] += 1
    return ~node, n_waiting


@inline_kernel
def find_near(z, n_coordinates, reach, planes, blocks, near, distance):
    """Find the branches near `z`, nearest first, and the squared distances of their cells.

    Those along the first `n_coordinates` of a location count; the planes may know fewer. The search ends
    when `near.now` is full, or when no other region comes within `reach` of the nearest cell found.
    `distance` holds the branches' cells one after the other, `WIDTH` for each. Returns the number of
    branches.
    """
    tally = near.tally
    node = 0 if planes.child.shape[0] > 0 else -1
    bound, nearest = 0.0, 1e300
    n_waiting, n_found = 0, 0
    while True:
        branch, n_waiting = descend(
            z,
            node,
            bound,
            planes.normal,
            planes.offset,
            planes.child,
            n_waiting,
            near.key,
            near.node,
            tally,
        )
        first = n_found * WIDTH
        away = distance[first : first + WIDTH]
        for i in range(WIDTH):
            away[i] = 0.0
        add_distances(z, 0, n_coordinates, blocks.location[branch], WIDTH, away)
        nearest = min(nearest, smallest(away, WIDTH))
        near.now[n_found] = branch
        tally[DISTANCES] += blocks.size[branch]
        n_found += 1
        if n_found == near.now.shape[0] or n_waiting == 0:
            break
        least = 0
        for i in range(1, n_waiting):
            if near.key[i] < near.key[least]:
                least = i
        bound, node = near.key[least], near.node[least]
        if bound > nearest + reach:
            break
        n_waiting -= 1
        near.key[least], near.node[least] = near.key[n_waiting], near.node[n_waiting]
    tally[SEARCHES] += 1
    return n_found


@lean_kernel
def value_reach(softness, temperature):
    """How much further than the nearest cell a cell may be and still speak, or be moved."""
    return REACH * max(softness, 1.0) * temperature

"""The search finds the regions that are nearest, and a few of them hold the cells that are nearest."""

import numpy as np
import pytest

from oda_rl.agents.codebook_rl.tree.layout import (
    DISTANCES,
    N_TALLY,
    NOWHERE,
    PLANES,
    WIDTH,
    Blocks,
    Near,
)
from oda_rl.agents.codebook_rl.tree.partition import BranchTree
from oda_rl.agents.codebook_rl.tree.search import find_near
from oda_rl.codebook.book import Codebook


def make(n_cells, near_branches, seed=0, d=3):
    rng = np.random.default_rng(seed)
    book, tree = Codebook(d), BranchTree(d)
    for point in rng.uniform(-1.0, 1.0, (n_cells, d)):
        book.add(point)
    tree.renew(book)
    n = tree.n_branches
    size = np.bincount(book.labels)
    location = np.full((n, d, WIDTH), NOWHERE)
    for g in range(n):
        location[g, :, : size[g]] = book.codevectors[book.labels == g].T
    blocks = Blocks(size, location, np.zeros((n, WIDTH)), location, location)
    indices = np.zeros((1, near_branches), dtype=np.int64)
    near = Near(
        now=indices[0].copy(),
        kept=indices,
        n_kept=np.zeros(1, dtype=np.int64),
        tally=np.zeros(N_TALLY, dtype=np.int64),
        key=np.zeros(n_cells),
        node=np.zeros(n_cells, dtype=np.int64),
        sums=np.zeros(1),
        weight=np.zeros(near_branches * WIDTH),
        density=np.zeros(near_branches * WIDTH),
        label=np.zeros(near_branches * WIDTH, dtype=np.int64),
    )
    return book, tree, blocks, near


def bounds(tree, z):
    """For each branch, the largest squared distance of `z` from a plane that shuts it off."""
    found = np.zeros(tree.n_branches)

    def go(node, bound):
        if node < 0:
            found[~node] = bound
            return
        above = tree.planes.normal[node] @ z - tree.planes.offset[node]
        for side in (0, 1):
            shut_off = (above > 0.0) != bool(side)
            go(tree.planes.child[node, side], max(bound, above**2) if shut_off else bound)

    go(0 if len(tree.planes.offset) else -1, 0.0)
    return found


@pytest.mark.parametrize("reach", [0.0, 0.02, 1e9])
@pytest.mark.parametrize(("n_cells", "near_branches"), [(10, 3), (300, 1), (300, 4), (300, 40)])
def test_against_a_slow_twin(n_cells, near_branches, reach):
    book, tree, blocks, near = make(n_cells, near_branches)
    distance = np.zeros(near_branches * WIDTH)
    for z in np.random.default_rng(1).uniform(-1.2, 1.2, (50, 3)):
        n = find_near(z, 3, reach, tree.planes, blocks, near, distance)
        bound, found = bounds(tree, z), near.now[:n]
        # regions behind the same plane are equally near, whichever comes first
        np.testing.assert_allclose(bound[found], np.sort(bound)[:n])
        assert len(set(found.tolist())) == n
        nearest = np.inf
        for k, g in enumerate(found):
            assert bound[g] <= nearest + reach
            cells = book.codevectors[book.labels == g]
            away = ((cells - z) ** 2).sum(axis=1)
            nearest = min(nearest, away.min())
            places = distance[k * WIDTH : (k + 1) * WIDTH]
            np.testing.assert_allclose(places[: len(cells)], away)
            assert (places[len(cells) :] > 1e100).all()
        rest = np.sort(bound)[n:]
        assert n == near_branches or len(rest) == 0 or rest[0] > nearest + reach


def test_the_cells_that_count_are_among_those_found():
    """With room enough, no cell within reach of the nearest is missed: the planes are true bounds."""
    book, tree, blocks, near = make(400, 60)
    distance = np.zeros(60 * WIDTH)
    for z in np.random.default_rng(2).uniform(-1.0, 1.0, (100, 3)):
        n = find_near(z, 3, 0.01, tree.planes, blocks, near, distance)
        d = ((book.codevectors - z) ** 2).sum(axis=1)
        assert set(book.labels[d <= d.min() + 0.01]) <= set(near.now[:n].tolist())


def test_a_search_costs_little():
    """It is counted, and grows with the logarithm of the number of cells."""
    costs = []
    for n_cells in (1_000, 8_000):
        _, tree, blocks, near = make(n_cells, 3)
        distance = np.zeros(3 * WIDTH)
        for z in np.random.default_rng(3).uniform(-1.0, 1.0, (100, 3)):
            near.tally[:] = 0
            n = find_near(z, 3, 1e9, tree.planes, blocks, near, distance)
            assert near.tally[DISTANCES] == blocks.size[near.now[:n]].sum() <= 3 * WIDTH
            assert tree.depth // 2 <= near.tally[PLANES] <= 3 * tree.depth
            costs.append(near.tally[DISTANCES] + near.tally[PLANES])
    assert np.mean(costs[100:]) < np.mean(costs[:100]) + 3 * np.log2(8.0) + 3

"""The search finds the regions that are nearest, and a few of them hold the cells that are nearest."""

import numpy as np
import pytest
from tree_learners import depth_of

from oda_rl.agents.codebook_rl import state as names
from oda_rl.agents.codebook_rl.arrays import Sizes, Table, make_memory, make_numbers, make_scratch
from oda_rl.agents.codebook_rl.association import REACH, find_near
from oda_rl.agents.codebook_rl.branches import BranchStorage, BranchTree
from oda_rl.agents.codebook_rl.state import BRANCH_WIDTH, DISTANCES, PLANES
from oda_rl.codebook.book import Codebook


class Search:
    """A search among points drawn at random, without an agent."""

    def __init__(self, n_cells, near_branches, reach, seed=0, d=3):
        rng = np.random.default_rng(seed)
        sizes = Sizes(d, 0, 1, 1, 1, n_cells, False, False, near_branches)
        self.book, self.tree = Codebook(d, payload=sizes.payload), BranchTree(d)
        for point in rng.uniform(-1.0, 1.0, (n_cells, d)):
            self.book.add(point)
        self.tree.renew(self.book)
        storage, numbers = BranchStorage(sizes, self.book, self.tree.branch), make_numbers()
        numbers.counters[names.WIDTH] = storage.width
        numbers.settings[names.TEMPERATURE] = reach / REACH
        units = names.Units(*[np.zeros(1) for _ in names.Units._fields])._replace(
            commands=np.zeros((1, 1)),
            **dict.fromkeys(("options", "counts"), np.empty(0, dtype=np.int64)),
            visited=np.empty((0, d)),
        )
        self.scratch, self.branches = make_scratch(sizes), storage.branches
        self.table = Table(
            sizes,
            self.scratch,
            numbers,
            units,
            storage.branches,
            self.tree.planes,
            storage.ledger,
            make_memory(sizes),
        )

    def __call__(self, z):
        """The branches found, in their order; the distances are in `scratch`."""
        self.scratch.z[:] = z
        return self.scratch.found[: find_near(self.table.learning, len(z))].copy()


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
    search = Search(n_cells, near_branches, reach)
    book, tree = search.book, search.tree
    for z in np.random.default_rng(1).uniform(-1.2, 1.2, (50, 3)):
        bound, found = bounds(tree, z), search(z)
        n = len(found)
        # regions behind the same plane are equally near, whichever comes first
        np.testing.assert_allclose(bound[found], np.sort(bound)[:n])
        assert len(set(found.tolist())) == n
        nearest = np.inf
        for k, g in enumerate(found):
            assert bound[g] <= nearest + reach
            cells = book.codevectors[tree.branch == g]
            away = ((cells - z) ** 2).sum(axis=1)
            nearest = min(nearest, away.min())
            places = search.scratch.distance[k * BRANCH_WIDTH : (k + 1) * BRANCH_WIDTH]
            np.testing.assert_allclose(places[: len(cells)], away)
            assert (places[len(cells) :] > 1e100).all()
        rest = np.sort(bound)[n:]
        assert n == near_branches or len(rest) == 0 or rest[0] > nearest + reach


def test_the_cells_that_count_are_among_those_found():
    """With room enough, no cell within reach of the nearest is missed: the planes are true bounds."""
    search = Search(400, 60, 0.01)
    for z in np.random.default_rng(2).uniform(-1.0, 1.0, (100, 3)):
        d = ((search.book.codevectors - z) ** 2).sum(axis=1)
        assert set(search.tree.branch[d <= d.min() + 0.01]) <= set(search(z).tolist())


def test_a_search_costs_little():
    """It is counted, and grows with the logarithm of the number of cells."""
    costs = []
    for n_cells in (1_000, 8_000):
        search = Search(n_cells, 3, 1e9)
        tally, depth = search.scratch.tally, depth_of(search.tree)
        for z in np.random.default_rng(3).uniform(-1.0, 1.0, (100, 3)):
            tally[:] = 0
            found = search(z)
            assert tally[DISTANCES] == search.branches.size[found].sum() <= 3 * BRANCH_WIDTH
            assert depth // 2 <= tally[PLANES] <= 3 * depth
            costs.append(tally[DISTANCES] + tally[PLANES])
    assert np.mean(costs[100:]) < np.mean(costs[:100]) + 3 * np.log2(8.0) + 3

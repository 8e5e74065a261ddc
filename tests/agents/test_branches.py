"""The branches of a codebook: few cells each, in regions that stay."""

import numpy as np
import pytest
from tree_learners import depth_of

from oda_rl.agents.codebook_rl.branches import BranchTree
from oda_rl.agents.codebook_rl.state import BRANCH_WIDTH
from oda_rl.codebook.book import Codebook


def make_book(n_cells=200, n_features=3, seed=0):
    rng = np.random.default_rng(seed)
    book = Codebook(n_features, payload={"number": (1, "mean")})
    for i, point in enumerate(rng.normal(size=(n_cells, n_features))):
        book.add(point, 1.0 / n_cells)
        book["number"][0, i] = i
    return book


def region_of(tree, point):
    """Down the tree, as a person would read it."""
    normal, offset, child = tree.planes
    node = 0 if len(offset) else -1
    while node >= 0:
        node = child[node, int(normal[node] @ point[: normal.shape[1]] > offset[node])]
    return ~node


def check(tree, book):
    sizes = np.bincount(tree.branch)
    assert len(sizes) == tree.n_branches == len(tree.planes.offset) + 1
    assert sizes.min() >= 1
    assert sizes.max() <= BRANCH_WIDTH
    assert (np.diff(tree.branch) >= 0).all(), "the cells of a branch stand together"


@pytest.mark.parametrize("n_cells", [1, BRANCH_WIDTH, BRANCH_WIDTH + 1, 500])
def test_branches_are_small_and_each_cell_lies_in_its_own(n_cells):
    book, tree = make_book(n_cells), BranchTree(3)
    before = book.codevectors
    tree.renew(book)
    check(tree, book)
    assert [region_of(tree, point) for point in book.codevectors] == tree.branch.tolist()
    np.testing.assert_array_equal(tree.route(book), tree.branch)
    for number, point in zip(book["number"][0], book.codevectors, strict=True):
        np.testing.assert_array_equal(point, before[int(number)], "the payload goes along")


def test_a_full_region_bifurcates_along_its_leading_axis():
    rng = np.random.default_rng(1)
    book, tree = Codebook(2), BranchTree(2)
    for along, across in zip(np.linspace(-1.0, 1.0, 20), rng.uniform(-0.1, 0.1, 20), strict=True):
        book.add([across + 3.0, along])
    tree.renew(book)
    np.testing.assert_array_equal(np.bincount(tree.branch), [10, 10])
    np.testing.assert_allclose(np.abs(tree.planes.normal), [[0.0, 1.0]], atol=0.1)
    assert depth_of(tree) == 1


def test_depth_grows_with_the_logarithm():
    book, tree = make_book(1000), BranchTree(3)
    tree.renew(book)
    assert np.log2(1000 / BRANCH_WIDTH) <= depth_of(tree) <= 1 + np.log2(1000 / (BRANCH_WIDTH / 2))


def test_borders_stay_when_regions_divide():
    book, tree = make_book(100), BranchTree(3)
    tree.renew(book)
    old = {tuple(row) for row in np.column_stack([tree.planes.normal, tree.planes.offset])}
    tree.renew(book)
    assert {tuple(row) for row in np.column_stack([tree.planes.normal, tree.planes.offset])} == old
    for _ in range(100):
        book.split(0, np.array([0.01, 0.02, 0.0]))
    tree.renew(book)
    check(tree, book)
    new = {tuple(row) for row in np.column_stack([tree.planes.normal, tree.planes.offset])}
    assert old < new


def test_regions_without_cells_are_given_up():
    book, tree = make_book(200), BranchTree(3)
    tree.renew(book)
    gone = 0
    while gone < len(book):
        if book.location[0, gone] > 0.0:
            book.remove(gone)
        else:
            gone += 1
    left = len(book)
    assert 50 < left < 150
    tree.renew(book)
    check(tree, book)
    while len(book) > BRANCH_WIDTH // 2:
        book.remove(0)
    tree.renew(book)
    check(tree, book)
    assert tree.n_branches == 1


def test_codevectors_that_coincide_are_divided_all_the_same():
    book, tree = Codebook(2), BranchTree(2)
    for _ in range(50):
        book.add([1.0, 2.0])
    for _ in range(3):
        tree.renew(book)
        check(tree, book)


def test_planes_do_not_ask_for_actions():
    """The last coordinate is an action; each region has cells for all of them."""
    book, tree = make_book(300), BranchTree(2)
    tree.renew(book)
    check(tree, book)
    assert tree.planes.normal.shape[1] == 2
    np.testing.assert_array_equal(tree.route(book), tree.branch)


def test_state():
    book, tree = make_book(100), BranchTree(3)
    tree.renew(book)
    other = BranchTree(3)
    other.set_state(tree.get_state())
    np.testing.assert_array_equal(other.route(book), tree.branch)

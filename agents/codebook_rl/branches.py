"""The cells of a codebook by branch: regions between planes with a few cells each, or a single one."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl._jit import aligned_zeros, lean_kernel
from oda_rl._types import Array
from oda_rl.agents.codebook_rl.arrays import Sizes
from oda_rl.agents.codebook_rl.rules import traces
from oda_rl.agents.codebook_rl.state import BRANCH_WIDTH, NOWHERE, Branches, Ledger, Planes
from oda_rl.codebook.book import Codebook


@lean_kernel
def route(location: Any, n_cells: int, normal: Any, offset: Any, child: Any, branch: Any) -> None:
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


class BranchTree:
    """Divides the space of observations into branches of at most `BRANCH_WIDTH` cells.

    Annealing starts with a flat codebook as the root. When a region has more cells than a branch holds,
    the region bifurcates: a plane across the leading axis of its codevectors, along which a cell
    bifurcates too (Theorem 5), divides it into two regions with half of the cells each. The border is
    fixed from then on, and both regions may bifurcate further. A region that has lost its cells is
    removed, and a subtree left with only a few cells becomes a single region again. So the tree adapts
    to where the agent goes.

    Parameters
    ----------
    n_observed : int
        Coordinates of an observation. Planes have no others: if continuous actions are part of a
        location, a branch has cells for all actions.

    Attributes
    ----------
    planes : Planes
        The inner nodes; as many as there are branches, less one.
    branch : ndarray of shape (n_cells,)
        The branch of each cell, as of the last `renew`.
    n_branches : int
        Leaves of the tree.

    Notes
    -----
    This is tree-structured progressive partitioning (Algorithm 5 of Mavridis and Baras,
    "Multi-Resolution Online Deterministic Annealing") with K_max = `BRANCH_WIDTH` as the criterion by
    which a node splits, and with three differences that agents need:

    - In the paper, a node's codevectors become its children, each a codebook that starts with one
      codevector. Here the children keep the cells. What has been learned is kept, and there are always
      enough active cells near an observation.
    - In the paper, every node has its own temperature. Here all cool together, because the temperature
      determines how far the aggregate states overlap, which must be equal on both sides of a border.
    - In the paper, an observation moves the cells of its own leaf. Here it moves the cells of the few
      regions nearest to it, so that borders do not show in the codebook.

    A search tree over the codevectors of a flat codebook, rebuilt at every bifurcation, would find the
    same cells, but building it takes time, and the agent would have no persistent regions.
    """

    def __init__(self, n_observed: int) -> None:
        self.planes = Planes(
            normal=np.zeros((0, n_observed)),
            offset=np.zeros(0),
            child=np.zeros((0, 2), dtype=np.int64),
        )
        self.branch = np.zeros(1, dtype=np.int64)

    @property
    def n_branches(self) -> int:
        """Leaves of the tree."""
        return len(self.planes.offset) + 1

    def route(self, book: Codebook) -> NDArray[np.int64]:
        """The branch in whose region each codevector lies, of shape (n_cells,)."""
        branch = np.zeros(len(book), dtype=np.int64)
        route(book.location, len(book), *self.planes, branch)
        return branch

    def renew(self, book: Codebook) -> None:
        """Adapt to a codebook that has changed: divide overfull regions, remove empty ones.

        Parameters
        ----------
        book : Codebook
            Its cells are reordered by branch.
        """
        growth = _Growth(self.planes, self.route(book), book.location[: self.planes.normal.shape[1]])
        self.planes = growth.planes
        sizes = [len(cells) for cells in growth.branches]
        book.reorder(np.concatenate(growth.branches))
        self.branch = np.repeat(np.arange(len(sizes)), sizes)

    def get_state(self) -> dict[str, NDArray[Any]]:
        """Return the planes and the branches of the cells as arrays."""
        planes = {name: array.copy() for name, array in self.planes._asdict().items()}
        return {**planes, "branch": self.branch.copy()}

    def set_state(self, state: dict[str, NDArray[Any]]) -> None:
        """Take over what `get_state` returned."""
        self.planes = Planes(**{name: np.ascontiguousarray(state[name]) for name in Planes._fields})
        self.branch = state["branch"].copy()


class _Growth:
    """Builds a new tree from the root, with the planes of the old one that still divide cells.

    `branch` (n_cells,) is the branch of each cell in the old tree, `location` (n_observed, capacity) has
    the coordinates of the codevectors that belong to observations.
    """

    def __init__(self, old: Planes, branch: NDArray[np.int64], location: Array) -> None:
        self.old, self.location = old, location
        self.branches: list[NDArray[np.int64]] = []
        self.normal: list[Array] = []
        self.offset: list[float] = []
        self.child: list[list[int]] = []
        order = np.argsort(branch, kind="stable")
        ends = np.cumsum(np.bincount(branch, minlength=len(old.offset) + 1))
        self.old_branches = np.split(order, ends[:-1])
        self._carry_on(0 if len(old.offset) else -1, self._cells_of())

    @property
    def planes(self) -> Planes:
        """The new planes."""
        return Planes(
            normal=np.array(self.normal).reshape(-1, self.old.normal.shape[1]),
            offset=np.array(self.offset),
            child=np.array(self.child, dtype=np.int64).reshape(-1, 2),
        )

    def _cells_of(self) -> dict[int, NDArray[np.int64]]:
        """The cells below each node and in each branch (as ~branch) of the old tree."""
        cells = {~g: members for g, members in enumerate(self.old_branches)}
        for node in range(len(self.old.offset) - 1, -1, -1):  # children come after their node
            low, high = (int(child) for child in self.old.child[node])
            cells[node] = np.concatenate([cells[low], cells[high]])
        return cells

    def _carry_on(self, node: int, cells: dict[int, NDArray[np.int64]]) -> int:
        """Carry an old node over to the new tree; returns its new index, or ~branch."""
        if node < 0 or len(cells[node]) <= BRANCH_WIDTH // 2:
            return self._grow(cells[node])
        low, high = (int(child) for child in self.old.child[node])
        if len(cells[low]) == 0 or len(cells[high]) == 0:
            return self._carry_on(low if len(cells[low]) else high, cells)
        new = self._add(self.old.normal[node], float(self.old.offset[node]))
        self.child[new] = [self._carry_on(low, cells), self._carry_on(high, cells)]
        return new

    def _grow(self, cells: NDArray[np.int64]) -> int:
        """Add a region with these cells, divided until all parts fit; returns its index, or ~branch."""
        if len(cells) <= BRANCH_WIDTH:
            self.branches.append(cells)
            return -len(self.branches)
        points = self.location[:, cells]
        points = points - points.mean(axis=1, keepdims=True)
        axis = np.linalg.eigh(points @ points.T)[1][:, -1]
        along = axis @ self.location[:, cells]
        order, half = np.argsort(along, kind="stable"), len(cells) // 2
        middle = 0.5 * float(along[order[half - 1]] + along[order[half]])
        new = self._add(axis, middle)
        self.child[new] = [self._grow(cells[order[:half]]), self._grow(cells[order[half:]])]
        return new

    def _add(self, normal: Array, offset: float) -> int:
        self.normal.append(normal)
        self.offset.append(offset)
        self.child.append([0, 0])
        return len(self.offset) - 1


class BranchStorage:
    """The cells of a codebook as compiled code uses them during one annealing level.

    With a tree there is a block of `BRANCH_WIDTH` places for each branch, those in use first, so that
    the cells of a branch are contiguous in memory. Without a tree all cells are one branch, and its
    arrays are those of the codebook.

    `branch` (n_cells,) is the branch of each cell of the book, in ascending order; None without a tree.
    Compiled code works on `branches` and `ledger`; `width` is the number of places in a branch.
    """

    def __init__(self, sizes: Sizes, book: Codebook, branch: NDArray[np.int64] | None = None) -> None:
        self.sizes = sizes
        self.branch = branch
        self.width = len(book) if branch is None else BRANCH_WIDTH
        if branch is None:
            self.bind(book)
        else:
            self.branches = self._make_blocks(book, branch)
        self.ledger = self._open_ledger()

    def bind(self, book: Codebook) -> None:
        """Without a tree, use the arrays of `book`, which may be a copy of the previous book."""
        if self.branch is None:
            self.branches = Branches(
                size=np.array([len(book)]),
                number=np.arange(book.capacity)[None],
                location=book.location[None],
                weight=book.weight[None],
                label=book.label[None],
                axis=book.axis[None],
                payload=book.payload[None],
            )

    def _make_blocks(self, book: Codebook, branch: NDArray[np.int64]) -> Branches:
        size = np.bincount(branch)
        n = len(size)
        self._place = np.arange(len(book)) - np.repeat(np.cumsum(size) - size, size)

        def spread(column: NDArray[Any], empty: float = 0.0) -> NDArray[Any]:
            """Spread (rows, n_cells) or (n_cells,) over blocks, with the branch as first axis."""
            block: NDArray[Any] = aligned_zeros((n, *column.shape[:-1], BRANCH_WIDTH))
            block = block.view(column.dtype)
            block[:] = empty
            block[branch, ..., self._place] = column.T
            return block

        k = len(book)
        return Branches(
            size=size,
            number=spread(np.arange(k)),
            location=spread(book.location[:, :k], NOWHERE),
            weight=spread(book.weight[:k]),
            label=spread(book.label[:k]),
            axis=spread(book.axis[:, :k]),
            payload=spread(book.payload[:, :k]),
        )

    def _open_ledger(self) -> Ledger:
        """Make a ledger in which nothing is owed, and the branches with traces are alive."""
        sizes, n_envs, n = self.sizes, self.sizes.n_envs, len(self.branches.size)
        rows = self.branches.payload[:, sizes.trace_rows, : self.width]
        alive = np.ascontiguousarray(rows.reshape(n, n_envs, -1).any(axis=2).T)
        living = np.argsort(~alive, axis=1, kind="stable")
        return Ledger(
            owed=np.zeros(n_envs),
            paid=np.zeros((n_envs, n)),
            alive=alive,
            living=living,
            n_living=alive.sum(axis=1),
        )

    def unload(self, book: Codebook, with_traces: bool = True) -> None:
        """Write the cells back to the codebook they came from, without changing the storage.

        With `with_traces`, steps along traces that are still owed are made in the codebook.
        """
        if self.branch is None:
            return
        n, place = len(book), (self.branch, ..., self._place)
        payload = self.branches.payload.copy()
        if with_traces:
            traces.pay_all(payload, self.ledger, self.sizes)
        book.location[:, :n] = self.branches.location[place].T
        book.weight[:n] = self.branches.weight[place]
        book.axis[:, :n] = self.branches.axis[place].T
        book.payload[:, :n] = payload[place].T

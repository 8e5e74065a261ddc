"""The cells of a codebook by branch: regions between planes, each with a few cells, or one for all."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl._jit import aligned_zeros
from oda_rl.agents.codebook_rl.arrays import Sizes
from oda_rl.agents.codebook_rl.association import route
from oda_rl.agents.codebook_rl.rules import traces
from oda_rl.agents.codebook_rl.state import BRANCH_WIDTH, NOWHERE, Branches, Ledger, Planes
from oda_rl.codebook.book import Codebook

Array = NDArray[np.float64]


class BranchTree:
    """Divides the space of observations into branches of at most `BRANCH_WIDTH` cells.

    The root is annealed flat. When the annealing has made more cells in a region than a branch holds,
    the region bifurcates: a plane across the leading axis of its codevectors, along which a cell
    bifurcates too (Theorem 5), divides it into two with half of the cells each. The two are nodes of the
    tree from then on, with a fixed border, and so on in each. A region that has lost its cells is given
    up, and one with hardly any is made whole again: the tree follows the agent to where it goes.

    Parameters
    ----------
    n_observed : int
        Coordinates of an observation. The planes know no others: where continuous actions are part of a
        location, a branch has cells for all actions.

    Attributes
    ----------
    planes : Planes
        The inner nodes; as many as there are branches, less one.
    branch : ndarray of shape (n_cells,)
        The branch of each cell, after `renew`.
    n_branches : int
        Leaves of the tree.

    Notes
    -----
    This is tree-structured progressive partitioning (Algorithm 5 of Mavridis and Baras,
    "Multi-Resolution Online Deterministic Annealing") with K_max = `BRANCH_WIDTH` as the criterion by
    which a node splits, and with three choices that an agent asks for:

    - There a node's codevectors become its children, each a codebook that starts with one codevector.
      Here the children keep the cells. What has been learned stays, and there are always enough cells
      near an observation that share in it.
    - There every node has a temperature of its own. Here all cool together, as the temperature is the
      measure of how far the aggregate states overlap, which must be the same on both sides of a border.
    - There an observation moves the cells of its own leaf. Here it moves those of the few regions that
      are nearest to it, so that a border leaves no trace in the codebook.

    A search tree over the codevectors of a flat codebook, made anew at every bifurcation, would find the
    same cells, but it would cost the making; and the agent would have no regions to keep.
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

    @property
    def depth(self) -> int:
        """Planes on the longest way from the root to a branch."""
        depths = np.zeros(len(self.planes.offset), dtype=np.int64)
        for node, children in enumerate(self.planes.child):  # a node comes before its children
            for child in children[children >= 0]:
                depths[child] = depths[node] + 1
        return int(depths.max()) + 1 if len(depths) else 0

    def route(self, book: Codebook) -> NDArray[np.int64]:
        """The branch in whose region each codevector lies, of shape (n_cells,)."""
        branch = np.zeros(len(book), dtype=np.int64)
        route(book.location, len(book), *self.planes, branch)
        return branch

    def renew(self, book: Codebook) -> None:
        """Follow a codebook that has changed: divide full regions, give up those that are empty.

        Parameters
        ----------
        book : Codebook
            Its cells are put in the order of their branches.
        """
        growth = _Growth(self.planes, self.route(book), book.location[: self.planes.normal.shape[1]])
        self.planes = growth.planes
        sizes = [len(cells) for cells in growth.branches]
        book.reorder(np.concatenate(growth.branches))
        self.branch = np.repeat(np.arange(len(sizes)), sizes)

    def get_state(self) -> dict[str, NDArray[Any]]:
        """The planes and the branches of the cells as arrays."""
        planes = {name: array.copy() for name, array in self.planes._asdict().items()}
        return {**planes, "branch": self.branch.copy()}

    def set_state(self, state: dict[str, NDArray[Any]]) -> None:
        """Take over what `get_state` returned."""
        self.planes = Planes(**{name: np.ascontiguousarray(state[name]) for name in Planes._fields})
        self.branch = state["branch"].copy()


class _Growth:
    """The tree anew, from the root, with the planes of the old one where they still divide something.

    `branch` (n_cells,) tells where in the old tree each cell lies, `location` (n_observed, capacity) are
    the codevectors, as far as planes know them.
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
        """Make an old node anew; returns its new index, or ~branch."""
        if node < 0 or len(cells[node]) <= BRANCH_WIDTH // 2:
            return self._grow(cells[node])
        low, high = (int(child) for child in self.old.child[node])
        if len(cells[low]) == 0 or len(cells[high]) == 0:
            return self._carry_on(low if len(cells[low]) else high, cells)
        new = self._add(self.old.normal[node], float(self.old.offset[node]))
        self.child[new] = [self._carry_on(low, cells), self._carry_on(high, cells)]
        return new

    def _grow(self, cells: NDArray[np.int64]) -> int:
        """A region with these cells: a branch, or divided until each part is one."""
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
    """The cells of a codebook as compiled code has them, between two temperatures.

    With a tree there is a block for each branch, of `BRANCH_WIDTH` places, those in use first: so the
    cells of a branch lie side by side in memory, whatever the number of branches. Without one all cells
    are one branch, and its arrays are those of the codebook.

    The cells of the book stand in the order of their branches, `branch` (n_cells,), None without a tree.
    Compiled code works on `branches` and `ledger`; `width` are the places of a branch.
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
        """Without a tree, take the arrays of `book`, which may be a copy of the one before."""
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
            """What a cell has, of shape (rows, n_cells) or (n_cells,), with the branch in front."""
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
        """Nothing is owed; alive are the branches with traces."""
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
        """Write the cells back to the codebook they came from; nothing changes here.

        With `with_traces`, steps along traces that have yet to be made are made in the codebook.
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

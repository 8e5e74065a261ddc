"""The arrays that the compiled step of the agent on a tree works on, besides those of every agent."""

import numpy as np
from numpy.typing import NDArray

from oda_rl.agents.codebook_rl.sizes import Sizes
from oda_rl.agents.codebook_rl.tree.layout import N_TALLY, NOWHERE, WIDTH, Blocks, Ledger, Near, Planes
from oda_rl.agents.codebook_rl.tree.search import find_near, value_reach
from oda_rl.agents.codebook_rl.tree.values import settle_all
from oda_rl.codebook.book import Codebook


class BranchStorage:
    """The cells of a codebook, a block for each branch, between two temperatures.

    A block is a codebook of `WIDTH` places, those in use first; so the cells of a branch lie side by
    side in memory, whatever the number of branches.

    Parameters
    ----------
    sizes : Sizes
        How large the arrays are.

    Attributes
    ----------
    blocks, ledger : Blocks, Ledger
        Made anew by `load`.
    near : Near
        Lives as long as this.
    """

    blocks: Blocks
    ledger: Ledger

    def __init__(self, sizes: Sizes) -> None:
        n_envs, near_branches = sizes.n_envs, sizes.near_branches
        places = near_branches * WIDTH
        n_rows = sizes.n_actions * sizes.n_basis
        self.near = Near(
            now=np.zeros(near_branches, dtype=np.int64),
            kept=np.zeros((n_envs, near_branches), dtype=np.int64),
            n_kept=np.zeros(n_envs, dtype=np.int64),
            tally=np.zeros(N_TALLY, dtype=np.int64),
            key=np.zeros(sizes.max_cells),
            node=np.zeros(sizes.max_cells, dtype=np.int64),
            sums=np.zeros(n_rows),
            weight=np.zeros(places),
            density=np.zeros(places),
            label=np.zeros(places, dtype=np.int64),
        )
        self._sizes = sizes

    def load(self, book: Codebook) -> None:
        """Take over the cells of a codebook, which stand in the order of their branches."""
        sizes, branch = self._sizes, book.labels
        size = np.bincount(branch)
        n = len(size)
        place = np.arange(len(book)) - np.repeat(np.cumsum(size) - size, size)
        location = np.full((n, book.n_features, WIDTH), NOWHERE)
        location[branch, :, place] = book.codevectors
        weight = np.zeros((n, WIDTH))
        weight[branch, place] = book.weights
        axis = np.zeros((n, book.n_features, WIDTH))
        axis[branch, :, place] = book.axis[:, : len(book)].T
        payload = np.zeros((n, len(book.payload), WIDTH))
        payload[branch, :, place] = book.payload[:, : len(book)].T
        self.blocks = Blocks(size, location, weight, axis, payload)
        self._where = branch, place
        n_envs = sizes.n_envs
        traces = payload[:, sizes.trace_rows].reshape(n, n_envs, -1)
        alive = np.ascontiguousarray(traces.any(axis=2).T)
        living = np.zeros((n_envs, n), dtype=np.int64)
        for env in range(n_envs):
            found = np.flatnonzero(alive[env])
            living[env, : len(found)] = found
        self.ledger = Ledger(
            owed=np.zeros(n_envs),
            paid=np.zeros((n_envs, n)),
            alive=alive,
            living=living,
            n_living=alive.sum(axis=1),
        )

    def find_near(
        self, z: NDArray[np.float64], softness: float, temperature: float, planes: Planes
    ) -> NDArray[np.int64]:
        """The branches near an observation in scaled units; this search is not counted."""
        near = self.near._replace(now=self.near.now.copy(), tally=self.near.tally.copy())
        distance = np.zeros(len(near.now) * WIDTH)
        reach = value_reach(softness, temperature)
        n = find_near(z, self._sizes.n_observed, reach, planes, self.blocks, near, distance)
        return near.now[:n]

    def unload(self, book: Codebook) -> None:
        """Write the cells back to the codebook they came from; nothing changes here.

        Steps along traces that have yet to be made are made in the codebook.
        """
        n, (branch, place) = len(book), self._where
        blocks, sizes, ledger = self.blocks, self._sizes, self.ledger
        payload = blocks.payload.copy()
        settle_all(
            payload,
            sizes.n_actions,
            sizes.n_basis,
            ledger.owed,
            ledger.paid,
            ledger.living,
            ledger.n_living,
        )
        book.location[:, :n] = blocks.location[branch, :, place].T
        book.weight[:n] = blocks.weight[branch, place]
        book.axis[:, :n] = blocks.axis[branch, :, place].T
        book.payload[:, :n] = payload[branch, :, place].T

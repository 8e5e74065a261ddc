"""The two-timescale learner on a tree."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from oda_rl.agents.actions import ActionCodec
from oda_rl.agents.codebook_rl.learner import TwoTimescaleLearner
from oda_rl.agents.codebook_rl.slow_timescale import SlowTimescale
from oda_rl.agents.codebook_rl.tree import kernels, reading
from oda_rl.agents.codebook_rl.tree.layout import DISTANCES, PLANES, SEARCHES
from oda_rl.agents.codebook_rl.tree.partition import BranchTree
from oda_rl.agents.codebook_rl.tree.slow import TreeSlowTimescale
from oda_rl.agents.codebook_rl.tree.storage import BranchStorage
from oda_rl.agents.config import TwoTimescaleConfig
from oda_rl.codebook.book import Codebook


class TreeLearner(TwoTimescaleLearner):
    """A `TwoTimescaleLearner` that looks at the branches near an observation only.

    All that a step does (the value of a state, the choice of an action, Q(lambda) with its traces, the
    learning rule of the annealer) it does with the cells of the `near_branches` nearest branches; the
    other cells have no share that counts. Only the weights of cells and the frequencies of visits decay
    everywhere, at the steps of the slow timescale.

    Parameters
    ----------
    n_observed, actions, n_envs, low, high, config, seed
        As for `TwoTimescaleLearner`.

    Attributes
    ----------
    codebook : Codebook
        The cells, in scaled units, in the order of their branches, which are their labels. It is brought
        up to date when it is asked for; changes of it come to nothing.
    """

    slow: TreeSlowTimescale
    compiled: ClassVar[Any] = kernels
    reading: ClassVar[Any] = reading
    slow_timescale: ClassVar[type[SlowTimescale]] = TreeSlowTimescale

    def __init__(
        self,
        n_observed: int,
        actions: ActionCodec,
        n_envs: int,
        low: NDArray[Any],
        high: NDArray[Any],
        config: TwoTimescaleConfig,
        seed: int | None = None,
    ) -> None:
        super().__init__(n_observed, actions, n_envs, low, high, config, seed)
        self._storage = BranchStorage(self.sizes)
        self._stored = False

    # -- looking ---------------------------------------------------------------------------------

    @property
    def tree(self) -> BranchTree:
        """The branches: regions of the space of observations."""
        return self.slow.tree

    @property
    def codebook(self) -> Codebook:
        """The cells, in scaled units."""
        if self._stored:
            self._storage.unload(self.slow.codebook)
        return self.slow.codebook

    @property
    def n_cells(self) -> int:
        """Codevectors in use."""
        return self.slow.codebook.n_cells

    @property
    def n_parameters(self) -> int:
        """Numbers stored to act, the planes between branches (with two indices each) included."""
        normal, offset, child = self.tree.planes
        return super().n_parameters + normal.size + offset.size + child.size

    def find_heard(self, observation: NDArray[Any]) -> NDArray[np.bool_]:
        """Which cells are asked for what they say of an observation: those of the nearest branches.

        Parameters
        ----------
        observation : ndarray of shape (n_observed,)
            In the environment's own units.

        Returns
        -------
        ndarray of shape (n_cells,), bool
        """
        z = (np.asarray(observation, dtype=np.float64) - self.scale.centre) / self.scale.scale
        found = self._storage.find_near(z, self.config.softness, self.temperature, self.tree.planes)
        return np.isin(self.slow.codebook.labels, found)

    @property
    def n_distances(self) -> float:
        """Distances to cells, and comparisons with planes, that a look at an observation has cost.

        The mean since the cells changed last; before anything has been looked at, the number of cells.
        """
        tally = self._storage.near.tally
        if tally[SEARCHES] == 0:
            return float(self.n_cells)
        return float((tally[PLANES] + tally[DISTANCES]) / tally[SEARCHES])

    def figures(self) -> dict[str, float]:
        """What an SB3 algorithm logs of itself."""
        tree = {"oda/n_branches": self.tree.n_branches, "oda/n_distances": self.n_distances}
        return {**super().figures(), **tree}

    # -- phases ----------------------------------------------------------------------------------

    def _finish_level(self) -> None:
        self._storage.unload(self.slow.codebook)
        self._stored = False
        super()._finish_level()

    def _begin_level(self) -> None:
        self._storage.load(self.slow.codebook)
        self._stored = True
        super()._begin_level()
        self._storage.near.tally[:] = 0

    def _collect(self) -> None:
        storage = self._storage
        self._gather(self.tree.planes, storage.blocks, storage.ledger, storage.near)

    # -- storing ---------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """All that has been learned, as a dict of arrays, plain values, and dicts of them."""
        if self._stored:
            self._storage.unload(self.slow.codebook)
        return super().get_state()

    def set_state(self, config: dict[str, Any]) -> None:
        """Go on from `get_state`; the number of environments may be another one."""
        if self._stored:
            self._storage.unload(self.slow.codebook)
        self._stored = False
        super().set_state(config)

"""The slow timescale on a tree: the annealer's codebook, divided into branches."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl.agents.codebook_rl.sizes import Sizes
from oda_rl.agents.codebook_rl.slow_timescale import Arrays, SlowTimescale
from oda_rl.agents.codebook_rl.tree.partition import BranchTree
from oda_rl.agents.config import TwoTimescaleConfig


class TreeSlowTimescale(SlowTimescale):
    """A `SlowTimescale` whose cells stand in the order of their branches, which are their labels.

    Parameters
    ----------
    sizes, config, rng
        As for `SlowTimescale`.

    Attributes
    ----------
    tree : BranchTree
        The branches.
    """

    def __init__(self, sizes: Sizes, config: TwoTimescaleConfig, rng: np.random.Generator) -> None:
        super().__init__(sizes, config, rng)
        self.tree = BranchTree(sizes.n_observed)

    def begin(self, points: NDArray[np.float64]) -> None:
        """Begin with one cell, in one branch."""
        super().begin(points)
        self.tree = BranchTree(self._sizes.n_observed)

    def end_level(self, n: int, distortion: float) -> None:
        """Merge, prune, cool and split as without a tree, across borders; then renew the branches."""
        self.codebook.label[: len(self.codebook)] = 0
        super().end_level(n, distortion)
        self.tree.renew(self.codebook)

    def get_state(self, n: int) -> tuple[dict[str, Any], Arrays]:
        """The state without a tree, and the planes."""
        config, arrays = super().get_state(n)
        planes = {f"tree/{name}": array for name, array in self.tree.get_state().items()}
        return config, {**arrays, **planes}

    def set_state(self, config: dict[str, Any], arrays: Arrays, grown: bool) -> None:
        """Go on from `get_state`."""
        super().set_state(config, arrays, grown)
        self.tree.set_state(
            {
                name.removeprefix("tree/"): array
                for name, array in arrays.items()
                if name.startswith("tree/")
            }
        )

"""Monitoring of the TD errors of the cells during training."""

import numpy as np
from numpy.typing import NDArray

from oda_rl.agents.codebook_rl.state import N_FIGURES

Array = NDArray[np.float64]


class TDErrorMonitor:
    """Running means of the absolute TD error in every cell, appended to a learner's running figures.

    The learner uses `figures` in place of its own array (N_FIGURES,). The compiled step updates the
    means if the array is this long; what is learned is the same either way.
    """

    def __init__(self, figures: Array, capacity: int) -> None:
        self.figures = np.zeros(N_FIGURES + 2 * capacity)
        self.figures[:N_FIGURES] = figures

    def means(self, n_cells: int) -> Array:
        """The means, of shape (n_cells,); NaN for a cell without a recorded error."""
        sums, weights = self._halves
        found = np.full(n_cells, np.nan)
        np.divide(sums[:n_cells], weights[:n_cells], out=found, where=weights[:n_cells] > 0.0)
        return found

    def follow(self, before: Array, after: Array) -> None:
        """Follow a change of the codebook: every cell takes over the error of the nearest former cell.

        Parameters
        ----------
        before, after : ndarray of shape (n_cells, n_features)
            The codevectors; children of a split lie near their parent.
        """
        halves = self._halves
        kept = [np.zeros(len(after)) for _ in halves]
        if len(before) and len(after):
            nearest = ((after[:, None] - before) ** 2).sum(axis=2).argmin(axis=1)
            kept = [half[nearest] for half in halves]
        for half, values in zip(halves, kept, strict=True):
            half[:] = 0.0
            half[: len(after)] = values

    @property
    def _halves(self) -> tuple[Array, Array]:
        behind = self.figures[N_FIGURES:]
        return behind[: len(behind) // 2], behind[len(behind) // 2 :]

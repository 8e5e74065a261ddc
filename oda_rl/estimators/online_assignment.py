# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Fast cell assignment of single samples by a fitted partition, without scikit-learn's checks."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl._jit import kernel
from oda_rl._types import Array
from oda_rl.codebook.association import all_associations, divergences, index_of_smallest
from oda_rl.codebook.identities import Birth, Identities
from oda_rl.estimators.partition import ODAPartition


@kernel
def number_cells(kind, lowest, rows, start, stop, scale, location, n_cells, ids, distance, found):
    """Divide the rows from `start` to `stop` by `scale`, and find the numbers `ids` of their cells.

    The numbers are written to `found` from index 0 on; `distance` is a scratch array (capacity,).
    Returns the first row with a coordinate that is not finite or below `lowest`, or `stop`.
    """
    for t in range(start, stop):
        x = rows[t]
        for j in range(x.shape[0]):
            x[j] /= scale[j]
            if not lowest <= x[j] < np.inf:
                return t
        divergences(kind, x, location, 0, n_cells, distance)
        found[t - start] = ids[index_of_smallest(distance, n_cells)]
    return stop


class CellFinder:
    """Finds the cells of samples, by persistent cell numbers, and can continue learning.

    The `partition` must be fitted. `learn` trains it, and `publish` updates its fitted attributes.
    `ids` (n_cells,) are the numbers of the present cells.

    >>> X = np.array([[0.0], [1.0], [10.0], [11.0]])
    >>> cells = CellFinder(ODAPartition(2, random_state=0).fit(X))
    >>> low, high = cells.find(np.array([[0.2], [10.7]]), 0, 2).tolist()
    >>> cells.codevectors[[list(cells.ids).index(low), list(cells.ids).index(high)]].tolist()
    [[0.5], [10.5]]
    """

    def __init__(self, partition: ODAPartition) -> None:
        self.partition = partition
        run = partition._run
        divergence = run.settings.divergence
        self._kind = divergence.kind
        # The smallest number allowed: `lowest <= x` is false for -inf and NaN, too.
        lowest = max(divergence.minimum, -np.finfo(float).max)
        self._lowest = np.nextafter(lowest, np.inf) if divergence.open_minimum else lowest
        n_features = partition.codevectors_.shape[1]
        self._scale = np.ones(n_features) if partition.scale_ is None else partition.scale_
        # The published codevectors: after `fit`, the annealing may continue from other ones.
        self._location = np.ascontiguousarray(partition._scaled(partition.codevectors_).T)
        self._use(len(partition.codevectors_), partition.cell_ids_)
        self._found = np.empty(1, dtype=np.int64)
        self._stale = False
        self._resumed = False

    @property
    def n_cells(self) -> int:
        """Number of present cells."""
        return len(self.ids)

    @property
    def codevectors(self) -> Array:
        """The codevectors in the units of the samples, of shape (n_cells, n_features)."""
        return (self._location[:, : self.n_cells] * self._scale[:, None]).T

    @property
    def births(self) -> list[Birth]:
        """Cells that have split off since the partition was fitted or loaded."""
        return self._identities.births

    def allow(self, n_ids: int) -> None:
        """Allow cell numbers below `n_ids`; does not lower the limit."""
        self._identities.limit = max(self._identities.limit, n_ids)

    def find(self, rows: Array, start: int, stop: int) -> NDArray[np.int64]:
        """The cell numbers of the rows from `start` to `stop`, in an array reused by the next call.

        These rows of `rows` (n, n_features), C-contiguous float64, are divided by the scale in place.
        Raises a ValueError for a row that is not finite or outside the domain of the divergence.
        """
        if len(self._found) < stop - start:
            self._found = np.empty(stop - start, dtype=np.int64)
        found = self._found
        reached = number_cells(
            self._kind,
            self._lowest,
            rows,
            start,
            stop,
            self._scale,
            self._location,
            self._n_cells,
            self.ids,
            self._distance,
            found,
        )
        if reached < stop:
            sample = rows[reached : reached + 1]
            self.partition._run.settings.divergence.check(sample, "the sample")
            raise ValueError(
                f"the sample must be finite and within the supported range, got {sample[0]}."
            )
        return found[: stop - start]

    def associate(self, rows: Array, softness: float) -> Array:
        """Association probabilities (eq. 6) of the cells at `softness` times the present temperature.

        For rows (n, n_features) the result has shape (n, n_cells). With a softness of 0 the nearest cell
        has probability one.
        """
        annealer = self.partition._run.annealer if self._resumed else None
        present = self.partition.temperature_ if annealer is None else annealer.temperature
        temperature = softness * present if softness > 0.0 else 0.0
        result = np.empty((len(rows), self.n_cells))
        every = np.ones(self.n_cells)
        scaled = np.ascontiguousarray(rows / self._scale)
        all_associations(self._kind, scaled, self._location, every, self.n_cells, temperature, result)
        return result

    def learn(self, scaled: Array) -> None:
        """Learn from rows that `find` has scaled, in their order."""
        run = self.partition._run
        if not self._resumed:
            run.resume(self.partition._settings(begin=False))
            self._resumed = True
        run.observe(scaled, np.ones(len(scaled)))
        self._stale = True
        if run.annealer is None:
            self._location = np.ascontiguousarray(run.codebook()[0].T)
            self._use(1, run.cell_ids)
        else:
            self._location = run.annealer.codebook.location
            self._use(len(run.annealer.codebook), run.cell_ids)

    def publish(self) -> None:
        """Update the fitted attributes of the partition."""
        if self._stale:
            self.partition._show_stream()
            self._stale = False

    @property
    def _identities(self) -> Identities:
        identities: Any = self.partition._run.identities
        return identities

    def _use(self, n_cells: int, ids: NDArray[np.int64]) -> None:
        self._n_cells = n_cells
        self.ids = ids
        self._distance = np.empty(n_cells)

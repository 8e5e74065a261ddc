"""Permanent numbers of cells in a growing codebook, and which cell each one split off from."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oda_rl._schema import Sizes, expect
from oda_rl.codebook.book import Codebook

# The field of the payload for them; see `oda_rl.codebook.events` for splits and mergers.
FIELD = {"identity": (1, "identity")}

# The schema of `Identities.get_state`.
IDENTITIES = {"limit": "count in [1, inf)", "next": "count", "living": ["count"], "free": ["count"]}


def are_numbered(run: Any, sizes: Sizes) -> None:
    """A rule: cells have whole numbers below the limit, or the marks of cells that have just split."""
    if run["codebook"] is not None:
        numbers, limit = run["codebook"]["payload"][-1], run["identities"]["limit"]
        own = np.maximum(numbers, -1.0 - numbers)
        right = np.all((own == np.round(own)) & (own < limit))
        expect(right, "codebook/payload", f"has the numbers {own}", f"integers below {limit}")


class Birth(NamedTuple):
    """The number of a new cell, and that of the cell from which it split off."""

    cell: int
    parent: int


class Identities:
    """Give every cell of a codebook a number that stays with it, whatever its index in the arrays.

    When a cell splits, one child keeps its number and the other gets a new one. When two merge, the
    heavier keeps its own. Numbers are below `limit`, which must be at least the largest number of cells
    at a time. Unused numbers are given first, then those of removed cells, in the order of removal.

    `births` are in chronological order; a number occurs again if it is given to another cell after the
    first one is removed.

    >>> book = Codebook(1, payload=FIELD)
    >>> _ = book.add([0.0])
    >>> identities = Identities(limit=4)
    >>> identities.restart(book)
    >>> _ = book.split(0, [1.0])
    >>> identities.update(book)
    >>> identities.of(book), identities.births
    (array([0, 1]), [Birth(cell=1, parent=0)])
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.births: list[Birth] = []
        self._next = 0
        self._living: list[int] = []
        self._free: list[int] = []

    @property
    def n_given(self) -> int:
        """All numbers given so far are below this."""
        return self._next

    def restart(self, book: Codebook) -> None:
        """Number the cells from 0 in their present order, and clear all records."""
        k = len(book)
        book["identity"][0] = np.arange(k)
        self.limit = max(self.limit, k)
        self.births.clear()
        self._next, self._living, self._free = k, list(range(k)), []

    def update(self, book: Codebook) -> None:
        """Give numbers to cells that split off since the last call; release those of removed cells."""
        row = book["identity"][0]
        if sorted(row.tolist()) == self._living:
            return
        kept = set(row[row >= 0].astype(int).tolist())
        gone = [number for number in self._living if number not in kept]
        newborn = []
        for i in np.flatnonzero(row < 0):
            parent = int(-1 - row[i])
            if parent in gone:  # the parent was removed: this child takes its number
                gone.remove(parent)
                row[i] = parent
            else:
                newborn.append((i, parent))
        for i, parent in newborn:
            number = self._take(gone)
            row[i] = number
            self.births.append(Birth(number, parent))
        self._free += gone
        self._living = sorted(row.astype(int).tolist())

    def of(self, book: Codebook) -> NDArray[np.int64]:
        """The numbers of the cells, of shape (n_cells,); for a cell without one yet, its parent's."""
        row = book["identity"][0]
        return np.maximum(row, -1.0 - row).astype(np.int64)  # see `events.split` for marks

    def _take(self, gone: list[int]) -> int:
        if self._next < self.limit:
            self._next += 1
            return self._next - 1
        for numbers in (self._free, gone):
            if numbers:
                return numbers.pop(0)
        raise ValueError(
            f"a codebook whose cells are numbered below {self.limit} cannot have more cells."
        )

    def get_state(self) -> dict[str, Any]:
        """Plain values, without the births."""
        return {"limit": self.limit, "next": self._next, "living": self._living, "free": self._free}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore what `get_state` returned."""
        self.births.clear()
        self.limit, self._next = int(state["limit"]), int(state["next"])
        self._living, self._free = list(state["living"]), list(state["free"])

"""The codebook: codevectors with a payload, and what happens to them in their life."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oda_rl.codebook import events
from oda_rl.codebook.divergences import Divergence, get_divergence

KINDS = {"mean": events.MEAN, "count": events.COUNT, "identity": events.IDENTITY}


class Column(NamedTuple):
    """A field of the payload: `size` numbers per cell.

    `kind` says what becomes of them when cells split or merge. A `"mean"` (a value, a local model) is
    inherited by both children, and averaged by weight when cells merge. A `"count"` (visits, an
    eligibility trace) is shared between the children and added up. An `"identity"`, a number from 0,
    stays with one child, and with the heavier of two cells that merge; see `oda_rl.codebook.identities`.
    """

    size: int
    kind: str


class Codebook:
    """K codevectors, each with a weight, a label and a payload.

    The arrays are stored column by column with room to grow, as the compiled kernels want them; the
    properties show the part in use in the usual shapes.

    Parameters
    ----------
    n_features : int
        Dimension of the codevectors.
    payload : mapping of str to (size, kind), default={}
        The fields of the payload, as for `Column`.
    divergence : str or Divergence, default="squared_euclidean"
        Measures the distance between codevectors when they merge, and keeps splits in its domain.
    capacity : int, default=16
        Cells to make room for at first; more is made when it is needed.

    Attributes
    ----------
    n_cells : int
        The number K of cells in use.
    location, weight, label, axis, payload : ndarray
        The storage: (n_features, capacity), (capacity,), (capacity,), (n_features, capacity) and
        (n_columns, capacity). Adding cells beyond the capacity replaces these arrays.
        `axis` points along the leading eigenvector of the cell's covariance (times the generator's
        Hessian); its length is the cell's critical temperature.

    Examples
    --------
    >>> book = Codebook(2, payload={"q": (3, "mean"), "visits": (1, "count")})
    >>> book.add([0.0, 0.0])
    0
    >>> book["q"][:] = 1.5
    >>> book["visits"][:] = 10
    >>> book.split(0, offset=[0.1, 0.0])
    1
    >>> book.codevectors
    array([[ 0.1,  0. ],
           [-0.1,  0. ]])
    >>> book["q"].shape, book["visits"]
    ((3, 2), array([[5., 5.]]))
    """

    def __init__(
        self,
        n_features: int,
        payload: Mapping[str, tuple[int, str]] | None = None,
        divergence: str | Divergence = "squared_euclidean",
        capacity: int = 16,
    ) -> None:
        if n_features < 1:
            raise ValueError(f"n_features must be at least 1, got {n_features}.")
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, got {capacity}.")
        self.divergence = get_divergence(divergence)
        self.fields: dict[str, Column] = {}
        self._rows: dict[str, slice] = {}
        kinds: list[int] = []
        for name, (size, kind) in (payload or {}).items():
            if kind not in KINDS:
                raise ValueError(
                    f"payload field {name!r}: kind must be one of {sorted(KINDS)}, got {kind!r}."
                )
            self.fields[name] = Column(size, kind)
            self._rows[name] = slice(len(kinds), len(kinds) + size)
            kinds += [KINDS[kind]] * size
        self.payload_kind = np.array(kinds, dtype=np.int64)
        self.n_features = n_features
        self.n_cells = 0
        self.location = np.zeros((n_features, capacity))
        self.weight = np.zeros(capacity)
        self.label = np.zeros(capacity, dtype=np.int64)
        self.axis = np.zeros((n_features, capacity))
        self.payload = np.zeros((len(kinds), capacity))

    # -- looking ---------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.n_cells

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        """The payload field `name` of all cells: a writable view of shape (size, n_cells)."""
        try:
            rows = self._rows[name]
        except KeyError:
            raise KeyError(
                f"the payload has no field {name!r}; its fields are {list(self.fields)}"
            ) from None
        return self.payload[rows, : self.n_cells]

    def rows(self, name: str) -> slice:
        """The rows of `payload` that hold the field `name`."""
        return self._rows[name]

    @property
    def capacity(self) -> int:
        """Cells that fit without making room."""
        return self.weight.shape[0]

    @property
    def codevectors(self) -> NDArray[np.float64]:
        """The locations mu, a copy of shape (n_cells, n_features)."""
        return self.location[:, : self.n_cells].T.copy()

    @property
    def weights(self) -> NDArray[np.float64]:
        """The probabilities rho of the cells, a copy of shape (n_cells,)."""
        return self.weight[: self.n_cells].copy()

    @property
    def labels(self) -> NDArray[np.int64]:
        """The labels, a copy of shape (n_cells,)."""
        return self.label[: self.n_cells].copy()

    @property
    def critical_temperatures(self) -> NDArray[np.float64]:
        """Estimated temperature below which each cell splits, of shape (n_cells,) (Theorem 5)."""
        return np.linalg.norm(self.axis[:, : self.n_cells], axis=0)

    # -- events ----------------------------------------------------------------------------------

    def reserve(self, capacity: int) -> None:
        """Make room for at least `capacity` cells. Views taken before are detached."""
        if capacity <= self.capacity:
            return
        room = max(capacity, 2 * self.capacity) - self.capacity
        for name in ("location", "weight", "label", "axis", "payload"):
            array = getattr(self, name)
            padding = [(0, 0)] * (array.ndim - 1) + [(0, room)]
            setattr(self, name, np.pad(array, padding))

    def add(self, location: ArrayLike, weight: float = 1.0, label: int = 0) -> int:
        """Append a cell with an empty payload.

        Parameters
        ----------
        location : array-like of shape (n_features,)
            Its codevector.
        weight : float, default=1
            Its probability; those of the others are left alone.
        label : int, default=0
            Its label.

        Returns
        -------
        int
            The index of the new cell.
        """
        point = np.asarray(location, dtype=np.float64)
        if point.shape != (self.n_features,):
            raise ValueError(f"location must have shape ({self.n_features},), got {point.shape}.")
        self.divergence.check(point[None, :], "location")
        self.reserve(self.n_cells + 1)
        i = self.n_cells
        self.location[:, i] = point
        self.weight[i] = weight
        self.label[i] = label
        self.axis[:, i] = 0.0
        self.payload[:, i] = 0.0
        self.n_cells += 1
        return i

    def split(self, i: int, offset: ArrayLike) -> int:
        """Split cell `i` into two at mu_i + offset and mu_i - offset, which share its weight.

        Parameters
        ----------
        i : int
            The cell; it stays where it is in the arrays and moves by `offset`.
        offset : array-like of shape (n_features,)
            Half of the way between the children.

        Returns
        -------
        int
            The index of the new cell, the last.
        """
        self._check_index(i)
        self.reserve(self.n_cells + 1)
        step = np.ascontiguousarray(offset, dtype=np.float64)
        if step.shape != (self.n_features,):
            raise ValueError(f"offset must have shape ({self.n_features},), got {step.shape}.")
        self.n_cells = events.split(self.divergence.minimum, i, step, self.n_cells, self.arrays)
        return self.n_cells - 1

    def merge(self, i: int, k: int) -> None:
        """Merge cell `k` into cell `i`; the last cell moves to the place of `k`."""
        self._check_index(i)
        self._check_index(k)
        if i == k:
            raise ValueError(f"a cell cannot be merged with itself (i = k = {i}).")
        self.n_cells = events.merge(i, k, self.n_cells, self.arrays)

    def remove(self, i: int) -> None:
        """Prune cell `i`; the last cell moves to its place. The other weights are left alone."""
        self._check_index(i)
        self.n_cells = events.remove(i, self.n_cells, self.arrays)

    def reorder(self, order: NDArray[np.int64]) -> None:
        """Put the cells in another order: cell `order[i]` comes to place i.

        Parameters
        ----------
        order : ndarray of shape (n_cells,)
            A permutation of the cells.

        Raises
        ------
        ValueError
            If it is none.
        """
        if not np.array_equal(np.sort(order), np.arange(self.n_cells)):
            raise ValueError(f"order must be a permutation of the {self.n_cells} cells.")
        for array in self.arrays[:-1]:
            array[..., : self.n_cells] = array[..., order]

    def merge_close(self, tolerance: float) -> int:
        """Merge cells of one label closer than `tolerance`, and return how many went."""
        before = self.n_cells
        self.n_cells = events.merge_close(self.divergence.kind, tolerance, before, self.arrays)
        return before - self.n_cells

    def prune_idle(self, min_weight: float) -> int:
        """Prune cells lighter than `min_weight`, all but one of each label; return how many went.

        The weights then sum to one again.
        """
        before = self.n_cells
        self.n_cells = events.prune_idle(min_weight, before, self.arrays)
        return before - self.n_cells

    def split_critical(
        self, temperature: float, max_cells: int, perturbation: float
    ) -> NDArray[np.float64]:
        """Split the cells that are critical at `temperature`, hottest first, up to `max_cells`.

        Parameters
        ----------
        temperature : float
            The temperature that comes next, in the units of the divergence.
        max_cells : int
            Cells that there may be then.
        perturbation : float
            Least offset of the children, in standard deviations of the cell.

        Returns
        -------
        ndarray of shape (n_splits,)
            The critical temperatures of the cells that have split.
        """
        before, met = self.n_cells, np.empty(self.n_cells)
        room = min(max_cells - before, before)
        self.reserve(before + max(0, room))
        divergence = self.divergence
        self.n_cells = events.split_critical(
            divergence.kind,
            divergence.minimum,
            temperature,
            room,
            perturbation,
            before,
            self.arrays,
            met,
        )
        return met[: self.n_cells - before]

    def merge_surplus(self, max_cells: int) -> int:
        """Merge the closest cells of one label until `max_cells` are left; return how many went."""
        surplus = max(0, self.n_cells - max_cells)
        for _ in range(surplus):
            distance = self.divergence(self.codevectors, self.codevectors)
            distance[self.labels[:, None] != self.labels[None, :]] = np.inf
            np.fill_diagonal(distance, np.inf)
            i, k = divmod(int(distance.argmin()), self.n_cells)
            self.merge(min(i, k), max(i, k))
        return surplus

    def insert_column(self, name: str, place: int) -> None:
        """Give the payload field `name`, which must be the last, one more number per cell: zeros."""
        rows = self._rows[name]
        if rows.stop != len(self.payload_kind):
            raise ValueError(f"the field {name!r} must be the last of the payload.")
        field = self.fields[name]
        self.payload = np.insert(self.payload, rows.start + place, 0.0, axis=0)
        self.payload_kind = np.append(self.payload_kind, KINDS[field.kind])
        self.fields[name] = Column(field.size + 1, field.kind)
        self._rows[name] = slice(rows.start, rows.stop + 1)

    # -- storing ---------------------------------------------------------------------------------

    def get_state(self) -> dict[str, NDArray[Any]]:
        """The cells in use as a dictionary of arrays: all that `set_state` needs."""
        k = self.n_cells
        return {
            "location": self.location[:, :k].copy(),
            "weight": self.weight[:k].copy(),
            "label": self.label[:k].copy(),
            "axis": self.axis[:, :k].copy(),
            "payload": self.payload[:, :k].copy(),
        }

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take over cells from `get_state`.

        Raises
        ------
        ValueError
            If an array is missing or does not fit this codebook.
        """
        k = len(state["weight"]) if "weight" in state else 0
        for name in ("location", "weight", "label", "axis", "payload"):
            own = getattr(self, name)
            if name not in state or state[name].shape != (*own.shape[:-1], k):
                found = state[name].shape if name in state else "nothing"
                raise ValueError(
                    f"the stored array {name!r} does not fit this codebook: expected shape "
                    f"{(*own.shape[:-1], k)}, got {found}."
                )
        self.reserve(k)
        for name in ("location", "weight", "label", "axis", "payload"):
            getattr(self, name)[..., :k] = state[name]
        self.n_cells = k

    @property
    def arrays(self) -> events.BookArrays:
        """All arrays, as compiled kernels take them."""
        return events.BookArrays(
            self.location, self.weight, self.label, self.axis, self.payload, self.payload_kind
        )

    def _check_index(self, i: int) -> None:
        if not 0 <= i < self.n_cells:
            raise IndexError(f"there is no cell {i}: the codebook has {self.n_cells} cells.")

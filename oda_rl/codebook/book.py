"""The codebook: codevectors with a payload, and operations that add, split, merge and prune them."""

from collections.abc import Callable, Mapping
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oda_rl._types import Array
from oda_rl._validation import check_at_least, check_non_negative
from oda_rl.codebook import events
from oda_rl.codebook.divergences import Divergence, get_divergence

# The schema of `Codebook.get_state`: n features, K cells, `labels` labels, P rows of the payload.
BOOK = {
    "location": "float[n, K]",
    "weight": "float[K] in [0, inf)",
    "label": "int[K] in [0, labels)",
    "axis": "float[n, K]",
    "payload": "float[P, K]",
}
KINDS = {"mean": events.MEAN, "count": events.COUNT, "identity": events.IDENTITY}


class Column(NamedTuple):
    """A field of the payload: `size` numbers per cell.

    `kind` determines what happens to them when cells split or merge. A `"mean"` (a value, a local model)
    is inherited by both children, and averaged by weight when cells merge. A `"count"` (visits, an
    eligibility trace) is halved for the children, and added up when cells merge. An `"identity"`, an int
    from 0, stays with one child and with the heavier of merged cells; see `oda_rl.codebook.identities`.
    """

    size: int
    kind: str


class Codebook:
    """K codevectors, each with a weight, a label and a payload.

    Arrays are stored column by column with space to grow, as the compiled kernels need them; the
    properties return the part in use in the usual shapes.

    Parameters
    ----------
    n_features : int
        Dimension of the codevectors.
    payload : mapping of str to (size, kind), default={}
        The fields of the payload, as for `Column`.
    divergence : str or Divergence, default="squared_euclidean"
        Measures the distance between codevectors when they merge, and keeps splits in its domain.
    capacity : int, default=16
        Initial capacity in cells; the arrays grow when needed.

    Attributes
    ----------
    n_cells : int
        The number K of cells in use.
    arrays : BookArrays
        The storage, an argument of compiled kernels. Adding cells beyond the capacity replaces it.
    location, weight, label, axis, payload : ndarray
        Its parts: (n_features, capacity), (capacity,), (capacity,), (n_features, capacity) and
        (n_columns, capacity).
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
        check_at_least(1, n_features=n_features, capacity=capacity)
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
        self.n_features = n_features
        self.n_cells = 0
        self._set_arrays(events.BookArrays.empty(n_features, capacity, tuple(kinds)))

    def _set_arrays(self, arrays: events.BookArrays) -> None:
        self.arrays = arrays
        self.location, self.weight, self.label, self.axis, self.payload, self.payload_kind = arrays

    def __getstate__(self) -> dict[str, Any]:
        # joblib would store an array twice if there are two references to it.
        names = events.BookArrays._fields
        return {name: value for name, value in vars(self).items() if name not in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._set_arrays(self.arrays)

    # -- contents --------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.n_cells

    def __getitem__(self, name: str) -> Array:
        """The payload field `name` of all cells: a writable view of shape (size, n_cells)."""
        try:
            rows = self._rows[name]
        except KeyError:
            raise KeyError(
                f"the payload has no field {name!r}; its fields are {list(self.fields)}"
            ) from None
        return self.payload[rows, : self.n_cells]

    def rows(self, name: str) -> slice:
        """The rows of `payload` that hold the field `name`; none if there is no such field."""
        return self._rows.get(name, slice(0, 0))

    @property
    def capacity(self) -> int:
        """The number of cells that fit in the arrays."""
        return self.weight.shape[0]

    @property
    def codevectors(self) -> Array:
        """The locations mu, a copy of shape (n_cells, n_features)."""
        return self.location[:, : self.n_cells].T.copy()

    @property
    def weights(self) -> Array:
        """The probabilities rho of the cells, a copy of shape (n_cells,)."""
        return self.weight[: self.n_cells].copy()

    @property
    def labels(self) -> NDArray[np.int64]:
        """The labels, a copy of shape (n_cells,)."""
        return self.label[: self.n_cells].copy()

    @property
    def critical_temperatures(self) -> Array:
        """Estimated temperature below which each cell splits, of shape (n_cells,) (Theorem 5)."""
        return np.linalg.norm(self.axis[:, : self.n_cells], axis=0)

    # -- events ----------------------------------------------------------------------------------

    def reserve(self, capacity: int) -> None:
        """Make space for at least `capacity` cells. Views taken before may become detached."""
        if capacity <= self.capacity:
            return
        more = max(capacity, 2 * self.capacity) - self.capacity
        padded = [np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, more)]) for array in self._columns]
        self._set_arrays(events.BookArrays._make([*padded, self.payload_kind]))

    def add(self, location: ArrayLike, weight: float = 1.0, label: int = 0) -> int:
        """Append a cell at `location` (n_features,) with an empty payload, and return its index.

        The weights of the other cells do not change.
        """
        point = np.asarray(location, dtype=np.float64)
        if point.shape != (self.n_features,):
            raise ValueError(f"location must have shape ({self.n_features},), got {point.shape}.")
        self.divergence.check(point[None, :], "location")
        check_non_negative(weight=weight)
        check_at_least(0, label=label)
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

        Cell `i` stays where it is in the arrays; returns the index of the new one, the last.
        """
        self._check_index(i)
        self.reserve(self.n_cells + 1)
        step = np.ascontiguousarray(offset, dtype=np.float64)
        if step.shape != (self.n_features,) or not np.isfinite(step).all():
            raise ValueError(f"offset must be {self.n_features} finite numbers, got {offset!r}.")
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
        """Prune cell `i`; the last cell moves to its place. The other weights do not change."""
        self._check_index(i)
        self.n_cells = events.remove(i, self.n_cells, self.arrays)

    def reorder(self, order: NDArray[np.int64]) -> None:
        """Reorder the cells: cell `order[i]` moves to place i; `order` is a permutation."""
        if not np.array_equal(np.sort(order), np.arange(self.n_cells)):
            raise ValueError(f"order must be a permutation of range({self.n_cells}), got {order!r}.")
        for array in self._columns:
            array[..., : self.n_cells] = array[..., order]

    def merge_close(self, tolerance: float) -> int:
        """Merge cells of one label closer than `tolerance`; returns the number of mergers."""
        check_non_negative(tolerance=tolerance)
        return self._shrink(events.merge_close, self.divergence.kind, float(tolerance))

    def merge_ineffective(self, temperature: float) -> int:
        """Merge neighbours that are one effective codevector at `temperature`; returns the mergers."""
        check_non_negative(temperature=temperature)
        return self._shrink(events.merge_ineffective, self.divergence.kind, float(temperature))

    def prune_idle(self, min_weight: float) -> int:
        """Prune cells lighter than `min_weight`, but keep one of each label; returns how many.

        The weights then sum to one again.
        """
        check_non_negative(min_weight=min_weight)
        return self._shrink(events.prune_idle, float(min_weight))

    def _shrink(self, kernel: Callable[..., int], *arguments: Any) -> int:
        """Call a kernel that removes cells; returns how many."""
        before, self.n_cells = self.n_cells, kernel(*arguments, self.n_cells, self.arrays)
        return before - self.n_cells

    def split_critical(self, temperature: float, max_cells: int, perturbation: float) -> Array:
        """Split the cells that are critical at `temperature`, hottest first, up to `max_cells`.

        Parameters
        ----------
        temperature : float
            The next temperature, in the units of the divergence.
        max_cells : int
            The largest number of cells afterwards.
        perturbation : float
            Least offset of the children, in standard deviations of the cell.

        Returns
        -------
        ndarray of shape (n_splits,)
            The critical temperatures of the cells that were split.
        """
        check_non_negative(temperature=temperature, perturbation=perturbation)
        before, met = self.n_cells, np.empty(self.n_cells)
        n_more = min(max_cells - before, before)
        self.reserve(before + max(0, n_more))
        own = self.divergence.kind, self.divergence.minimum, float(temperature)
        self.n_cells = events.split_critical(*own, n_more, float(perturbation), before, self.arrays, met)
        return met[: self.n_cells - before]

    def merge_surplus(self, max_cells: int) -> int:
        """Merge the closest cells of one label until `max_cells` are left; returns the mergers."""
        surplus = max(0, self.n_cells - max_cells)
        for _ in range(surplus):
            i, k = divmod(int(self.pair_distances().argmin()), self.n_cells)
            self.merge(min(i, k), max(i, k))
        return surplus

    def pair_distances(self) -> Array:
        """Divergences (n_cells, n_cells) between cells of one label; infinite for all other pairs."""
        distance = self.divergence(self.codevectors, self.codevectors)
        distance[self.labels[:, None] != self.labels[None, :]] = np.inf
        np.fill_diagonal(distance, np.inf)
        return distance

    def insert_column(self, name: str, place: int) -> None:
        """Insert a row of zeros at index `place` of the payload field `name`, which must be the last."""
        rows = self._rows[name]
        if rows.stop != len(self.payload_kind):
            raise ValueError(f"the field {name!r} must be the last of the payload.")
        field = self.fields[name]
        payload = np.insert(self.payload, rows.start + place, 0.0, axis=0)
        kinds = np.append(self.payload_kind, KINDS[field.kind])
        self._set_arrays(self.arrays._replace(payload=payload, payload_kind=kinds))
        self.fields[name] = Column(field.size + 1, field.kind)
        self._rows[name] = slice(rows.start, rows.stop + 1)

    def with_fields(self, payload: Mapping[str, tuple[int, str]]) -> "Codebook":
        """A copy whose cells have the fields `payload`; those that are new are zero."""
        made = Codebook(self.n_features, payload, self.divergence, capacity=self.n_cells)
        made.set_state(self.get_state() | {"payload": np.zeros((len(made.payload), self.n_cells))})
        for name in made.fields.keys() & self.fields.keys():
            made[name][:] = self[name]
        return made

    # -- storing ---------------------------------------------------------------------------------

    def get_state(self) -> dict[str, NDArray[Any]]:
        """The cells in use as a dictionary of arrays, for `set_state`."""
        k, names = self.n_cells, events.BookArrays._fields
        return {n: array[..., :k].copy() for n, array in zip(names, self._columns, strict=False)}

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore cells from `get_state`.

        Raises
        ------
        ValueError
            If an array does not fit this codebook, or there are no cells, or none has weight.
        """
        k = len(state["weight"])
        if k == 0 or not state["weight"].sum() > 0.0:
            raise ValueError("a stored codebook must have at least one cell with a positive weight.")
        self.divergence.check(state["location"].T, "the stored codebook")
        for name, own in zip(events.BookArrays._fields, self._columns, strict=False):
            shape, found = (*own.shape[:-1], k), state[name].shape
            if found != shape:
                raise ValueError(
                    f"the stored array {name!r} does not fit this codebook: it must have shape "
                    f"{shape}, got {found}."
                )
        self.reserve(k)
        for name, own in zip(events.BookArrays._fields, self._columns, strict=False):
            own[..., :k] = state[name]
        self.n_cells = k

    @property
    def _columns(self) -> tuple[NDArray[Any], ...]:
        """The arrays with one column per cell."""
        return self.arrays[:-1]

    def _check_index(self, i: int) -> None:
        if not isinstance(i, Integral) or not 0 <= i < self.n_cells:
            raise IndexError(f"there is no cell {i}: the codebook has {self.n_cells} cells.")

"""The cells of one layer of a tree, as arrays with an entry for each cell, and how they get children."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oda_rl._types import Array, Labels
from oda_rl.codebook.divergences import SMALLEST_SQUARE, Divergence
from oda_rl.codebook.events import BookArrays
from oda_rl.estimators.tree import kernels
from oda_rl.estimators.tree.least_squares import squared_residuals
from oda_rl.estimators.tree.settings import Layer

# Largest relative difference between means of equal samples, due to rounding.
SAME = 1e-9
# Least width of a mixture, for equal samples, which would have none.
LEAST_WIDTH = 1e-200
# The arrays of `Cells` with one row per cell.
NAMES = (
    *("parent", "first", "count", "label", "own", "closed"),
    *("mass", "support", "loss", "predicted_loss", "share", "width", "temperature"),
    *("total", "tally", "model"),
)
# Schemas of these arrays for K cells with f features; T and M are the sizes of tallies and models.
_POSITIVE = dict.fromkeys(("mass", "support", "loss", "width", "temperature"), "float[K] in [0, inf)")
CELLS = {
    **dict.fromkeys(("parent", "first", "count"), "count[K]"),
    **dict.fromkeys(("label", "own"), "int[K] in [0, C)"),
    **_POSITIVE,
    "predicted_loss": "float[K] in [0, inf)",
    "closed": "bool[K]",
    "share": "float[K] in [0, 1]",
    "location": "float[f, K]",
    "total": "float[K, d]",
    "tally": "float[K, T]",
    "model": "float[K, M]",
}


class Cell(NamedTuple):
    """Position of a cell: its layer (0 is the root), and its number in the layer."""

    layer: int
    number: int


class Cells:
    """The cells of one layer. The children of a cell are contiguous in the layer below.

    - `location` (n_features, n_cells): scaled codevectors in the resolution of the layer.
    - `parent`, `first` and `count`: the cell above; the first child in the layer below; the number of
      children.
    - `mass` and `support`: weight and number of the samples in the cell.
    - `total` (n_cells, n_raw): the weighted sum of these samples in the data's units; divided by `mass`
      it is the codevector in these units.
    - `tally` (n_cells, n_tally): sums kept by the task; `loss`: the sum of the samples' errors by
      the cell alone; `predicted_loss`: that of the predictions if the tree ended here, which may be
      drawn towards the cells above.
    - `label`: the class predicted by the cell; `model` (n_cells, n_model): its local model.
    - `own` and `share`: the class of the codevector, and its probability among those of its region.
    - `width` and `temperature`: the width of the mixture of the children, and the last temperature of
      their annealing; 0 without children.
    - `closed`: whether the cell must not be split, because its children would all be of one class, or
      no better.
    """

    def __init__(self, n_features: int, n_raw: int, n_tally: int, n_model: int) -> None:
        self.location = np.empty((n_features, 0))
        self.parent, self.first, self.count, self.label, self.own = (
            np.empty(0, dtype=np.int64) for _ in range(5)
        )
        self.mass, self.support, self.loss, self.predicted_loss = (np.empty(0) for _ in range(4))
        self.share, self.width, self.temperature = (np.empty(0) for _ in range(3))
        self.total = np.empty((0, n_raw))
        self.tally = np.empty((0, n_tally))
        self.model = np.empty((0, n_model))
        self.closed = np.empty(0, dtype=np.bool_)

    def __len__(self) -> int:
        return len(self.parent)

    @property
    def mean_loss(self) -> float:
        """The mean error of all samples in the cells."""
        return float(self.loss.sum() / max(self.mass.sum(), 1e-300))

    @property
    def fields(self) -> dict[str, NDArray[Any]]:
        """The arrays with one row per cell, by name."""
        return {name: getattr(self, name) for name in NAMES}

    def append(self, location: Array, **fields: NDArray[Any]) -> None:
        """Add cells with the values in `fields`, and zeros elsewhere."""
        before, k = len(self), location.shape[1]
        whole = location if before == 0 else np.concatenate([self.location, location], axis=1)
        self.location = np.ascontiguousarray(whole)
        for name, array in self.fields.items():
            own = fields.get(name)
            added = np.zeros((k, *array.shape[1:]), array.dtype) if own is None else own
            setattr(self, name, added if before == 0 else np.concatenate([array, added]))

    def take(self, chosen: NDArray[np.bool_]) -> "Cells":
        """Copy some of the cells."""
        part = Cells(len(self.location), self.total.shape[1], self.tally.shape[1], self.model.shape[1])
        rows = {name: array[chosen] for name, array in self.fields.items()}
        part.append(self.location[:, chosen], **rows)
        return part

    def add(self, at: Labels, samples: Array, weight: Array) -> None:
        """Add samples to their cells `at`; -1 stands for none."""
        kernels.add_samples(samples, weight, at, self.support, self.mass, self.total)

    @property
    def is_leaf(self) -> NDArray[np.bool_]:
        """Whether each cell has no children."""
        return self.count == 0


def rounding(location: Array) -> float:
    """Largest difference, due to rounding, between codevectors (n_features, n) of equal samples."""
    return SAME * float(np.abs(location).max())


class Region(NamedTuple):
    """The codevectors that were found for the samples of one cell.

    `location` is (n_features, K); `own` (K,) are the classes and `share` (K,) the probabilities; `width`
    is that of their mixture. `temperature` is the last one, and `n_seen` the number of presentations.
    """

    location: Array
    own: Labels
    share: Array
    width: float
    temperature: float
    n_seen: int

    @classmethod
    def of(cls, cells: BookArrays, k: int, within: float, n_inputs: int, n: int, *end: Any) -> "Region":
        """Make a region of the first `k` cells, learned from `n` samples.

        `within` is the sum of the divergences from the nearest codevectors. The width of the mixture is
        twice `within` per degree of freedom and input, but at least what rounding errors cause for equal
        samples. `end` holds `temperature` and `n_seen`.
        """
        mass = cells.weight[:k]
        total = mass.sum()
        free = max(n - k, 0.25 * n) / n
        location = cells.location[:n_inputs, :k]
        least = max(rounding(location) ** 2, LEAST_WIDTH)
        width = max(2.0 * within / (total * free * n_inputs), least)
        return cls(location, cells.label[:k], mass / total, width, *end)


class Children(NamedTuple):
    """Cells that are, or may become, the children of the cells of a layer.

    `first` and `n_children` (n_parents,) locate the children of each cell of the layer in `cells`;
    `width` and `temperature` (n_parents,) are as in `Cells`.
    """

    cells: Cells
    first: Labels
    n_children: Labels
    width: Array
    temperature: Array

    def log_joint(self, divergence: Divergence, scaled: Array, at: Labels, n_classes: int) -> Array:
        """log(pi_c p(x | c)) by all codevectors that share the region of a sample's cell (eq. 35).

        `scaled` (n_samples, n_features) are samples in the resolution of the cells; `at` (n_samples,)
        are their cells, or -1. Returns (n_samples, n_classes), with zeros for samples without a cell.
        """
        cells, out = self.cells, np.zeros((len(at), n_classes))
        kernels.mixture_log_joint(
            divergence.kind,
            scaled,
            at,
            cells.parent,
            self.first,
            self.n_children,
            cells.location,
            cells.own,
            cells.share,
            self.width,
            out,
        )
        return out


def children_of(
    empty: Cells,
    divergence: Divergence,
    n_parents: int,
    chosen: Labels,
    regions: Sequence[Region],
    at: Labels,
    scaled: Array,
) -> tuple[Children, Labels, Array]:
    """Make the children of cells from the codevectors of their regions that are nearest to a sample.

    Of equal codevectors of several classes, which result from equal samples, all are kept: their shares
    show which class is likelier. Of the `n_parents` cells of a layer, the `chosen` have `regions`; the
    children are put into the `empty` layer. Returns the children, the child of each sample, and the
    divergence from it.
    """
    n = n_parents
    counts = np.array([region.location.shape[1] for region in regions])
    location = np.ascontiguousarray(np.concatenate([region.location for region in regions], axis=1))
    own = np.concatenate([region.own for region in regions])
    share = np.concatenate([region.share for region in regions])
    parent = np.repeat(chosen, counts)
    count = np.bincount(parent, minlength=n)
    child, closest = at.copy(), np.zeros(len(at))
    first = np.cumsum(count) - count
    kernels.nearest_child(divergence.kind, scaled, location, first, count, child, closest)
    used = np.zeros(len(parent) + 1, dtype=np.bool_)  # the last entry is for -1, samples without child
    used[child] = True
    used = used[:-1]
    if not used.all():
        used |= _coincide_with_used(used, location, parent, own)
    if not used.all():
        child = np.where(child >= 0, (np.cumsum(used) - 1)[child], -1)
        location, parent, own, share = location[:, used], parent[used], own[used], share[used]
        count = np.bincount(parent, minlength=n)
        first = np.cumsum(count) - count
        share = share / np.maximum(np.bincount(parent, share, n), 1e-300)[parent]
    empty.append(location, parent=parent, own=own, share=share)
    width, temperature = np.zeros(n), np.zeros(n)
    width[chosen] = [region.width for region in regions]
    temperature[chosen] = [region.temperature for region in regions]
    return Children(empty, first, count, width, temperature), child, closest


def _coincide_with_used(
    used: NDArray[np.bool_], location: Array, parent: Labels, own: Labels
) -> NDArray[np.bool_]:
    """Which unused codevectors (n_features, n) coincide with a used one of another class."""
    found, same = np.zeros_like(used), rounding(location)
    for i in np.flatnonzero(~used):
        others = used & (parent == parent[i]) & (own != own[i])
        apart = np.abs(location[:, others] - location[:, i : i + 1])
        found[i] = (apart <= same).all(axis=0).any()
    return found


def squared_errors(cells: Cells, n_outputs: int) -> Array:
    """Expected mean squared errors (n_cells, n_outputs) on new samples, from tallies and local models.

    The noise is the residual sum of squares of a cell per degree of freedom; a model with q parameters
    that was fitted to n samples adds q / n of it.
    """
    m, n = n_outputs, np.maximum(cells.mass, 1e-300)[:, None]
    q = cells.model.shape[1] // m
    left = squared_residuals(cells.tally, cells.model.reshape(-1, q, m), m)
    return np.asarray(left / np.maximum(n - q, 0.25 * n) * (1.0 + np.minimum(q / n, 1.0)))


def worth_splitting(cells: Cells, layer: Layer, unit: float) -> NDArray[np.bool_]:
    """Which leaves have enough samples, and errors larger than rounding errors in this `unit`."""
    enough = cells.support >= max(2.0, float(layer.min_support or 1))
    erring = cells.loss > max(1e-12 * unit, SMALLEST_SQUARE) * cells.mass
    return np.asarray(cells.is_leaf & ~cells.closed & enough & erring)

"""The cells of one layer of a tree, as arrays with an entry for each cell."""

from copy import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oda_rl._types import Array, Labels
from oda_rl.codebook.divergences import SMALLEST_SQUARE, Divergence
from oda_rl.estimators.tree import kernels
from oda_rl.estimators.tree.settings import Layer

# The arrays of `Cells` with one row per cell.
NAMES = (
    *("parent", "first", "count", "label", "own", "closed"),
    *("mass", "support", "loss", "share", "width", "temperature", "total", "tally", "model"),
)
# Schemas of these arrays for K cells with f features; T and M are the sizes of tallies and models.
_POSITIVE = dict.fromkeys(("mass", "support", "loss", "width", "temperature"), "float[K] in [0, inf)")
CELLS = {
    **dict.fromkeys(("parent", "first", "count"), "count[K]"),
    **dict.fromkeys(("label", "own"), "int[K] in [0, C)"),
    **_POSITIVE,
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
    - `tally` (n_cells, n_tally): sums kept by the task; `loss`: the sum of the samples' errors.
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
        self.mass, self.support, self.loss, self.share, self.width, self.temperature = (
            np.empty(0) for _ in range(6)
        )
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

    def append(self, location: Array, parent: Labels, **fields: NDArray[Any]) -> slice:
        """Add cells with the values in `fields`, and zeros elsewhere; return their numbers."""
        before, k = len(self), location.shape[1]
        fields["parent"] = parent
        whole = location if before == 0 else np.concatenate([self.location, location], axis=1)
        self.location = np.ascontiguousarray(whole)
        for name in NAMES:
            array = getattr(self, name)
            own = fields.get(name)
            added = np.zeros((k, *array.shape[1:]), array.dtype) if own is None else own
            setattr(self, name, added if before == 0 else np.concatenate([array, added]))
        return slice(before, before + k)

    def take(self, chosen: NDArray[np.bool_]) -> "Cells":
        """Copy some of the cells."""
        part = Cells(len(self.location), self.total.shape[1], self.tally.shape[1], self.model.shape[1])
        rows = {name: getattr(self, name)[chosen] for name in NAMES}
        part.append(self.location[:, chosen], rows.pop("parent"), **rows)
        return part

    def copied(self) -> "Cells":
        """Copy all cells."""
        other = copy(self)
        for name, array in vars(self).items():
            setattr(other, name, array.copy())
        return other

    def add(self, at: Labels, samples: Array, weight: Array) -> None:
        """Add samples to their cells `at`; -1 stands for none."""
        kernels.add_samples(samples, weight, at, self.support, self.mass, self.total)

    @property
    def is_leaf(self) -> NDArray[np.bool_]:
        """Whether each cell has no children."""
        return self.count == 0


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


def squared_errors(cells: Cells, n_outputs: int) -> Array:
    """Expected mean squared errors (n_cells, n_outputs) on new samples, from tallies and local models.

    The noise is the residual sum of squares of a cell per degree of freedom; a model with q parameters
    that was fitted to n samples adds q / n of it.
    """
    m, n = n_outputs, np.maximum(cells.mass, 1e-300)[:, None]
    q = cells.model.shape[1] // m
    products = cells.tally[:, : q * q].reshape(-1, q, q)
    moments = cells.tally[:, q * q : q * q + q * m].reshape(-1, q, m)
    theta = cells.model.reshape(-1, q, m)
    left = cells.tally[:, q * q + q * m : q * q + q * m + m] - 2.0 * (theta * moments).sum(axis=1)
    left += (theta * (products @ theta)).sum(axis=1)
    return np.asarray(
        np.maximum(left, 0.0) / np.maximum(n - q, 0.25 * n) * (1.0 + np.minimum(q / n, 1.0))
    )


def worth_splitting(cells: Cells, layer: Layer, unit: float) -> NDArray[np.bool_]:
    """Which leaves have enough samples, and errors larger than rounding errors in this `unit`."""
    enough = cells.support >= max(2.0, float(layer.min_support or 1))
    erring = cells.loss > max(1e-12 * unit, SMALLEST_SQUARE) * cells.mass
    return np.asarray(cells.is_leaf & ~cells.closed & enough & erring)

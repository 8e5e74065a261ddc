"""A tree of cells: arrays for every layer, and the way down."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oda_rl.codebook.divergences import Divergence
from oda_rl.estimators.tree import kernels
from oda_rl.estimators.tree.features import Features

Array = NDArray[np.float64]
Labels = NDArray[np.int64]


# The arrays of `Cells` with one row for each.
NAMES = (
    *("parent", "first", "count", "label", "own", "closed"),
    *("mass", "support", "loss", "share", "width", "temperature", "total", "tally", "model"),
)


class Cell(NamedTuple):
    """Where a cell is: its layer (0 is the root), and its number there."""

    layer: int
    number: int


class Cells:
    """The cells of one layer. Children of a cell stand next to each other in the layer below.

    Parameters
    ----------
    n_features : int
        Of the resolution in which the codevectors of this layer are.
    n_raw : int
        Features of the data.
    n_tally : int
        Numbers that the task adds up in each cell.
    n_model : int
        Numbers of a cell's local model.

    Attributes
    ----------
    location : ndarray of shape (n_features, n_cells)
        Codevectors, scaled.
    parent, first, count : ndarray of shape (n_cells,), int64
        The cell above; the first of the children in the layer below, and how many there are.
    mass, support : ndarray of shape (n_cells,)
        Weight, and number, of the samples in the cell.
    total : ndarray of shape (n_cells, n_raw)
        Weighted sum of these samples as they came: over `mass`, the codevector in the data's units.
    tally : ndarray of shape (n_cells, n_tally)
        What the task has added up.
    loss : ndarray of shape (n_cells,)
        Sum of the errors of the samples.
    label : ndarray of shape (n_cells,), int64
        The class that the cell stands for.
    model : ndarray of shape (n_cells, n_model)
        Its local model.
    own, share : ndarray of shape (n_cells,)
        The class of the codevector, and its probability among those that share a region.
    width, temperature : ndarray of shape (n_cells,)
        Of the mixture that the children form, and of the end of their annealing; 0 without children.
    closed : ndarray of shape (n_cells,), bool
        Cells that are not to be split: the children would all be of one class, or no better.
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

    def append(self, location: Array, parent: Labels, **fields: NDArray[Any]) -> slice:
        """Add cells, with `fields` set and the rest zero; returns their numbers."""
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
        """A copy of some of the cells."""
        part = Cells(len(self.location), self.total.shape[1], self.tally.shape[1], self.model.shape[1])
        rows = {name: getattr(self, name)[chosen] for name in NAMES}
        part.append(self.location[:, chosen], rows.pop("parent"), **rows)
        return part

    def add(self, at: Labels, samples: Array, weight: Array) -> None:
        """Add samples to the cells in which they are; those in none have -1."""
        kernels.add_samples(samples, weight, at, self.support, self.mass, self.total)

    @property
    def is_leaf(self) -> NDArray[np.bool_]:
        """Whether cells have no children."""
        return self.count == 0


class Data(NamedTuple):
    """Samples as they came, with their targets and weights."""

    samples: Array
    targets: NDArray[Any]
    weight: Array

    def take(self, rows: Any) -> "Data":
        """Some of the samples."""
        return Data(*(part[rows] for part in self))

    def joined(self, other: "Data") -> "Data":
        """These samples, and then others."""
        return Data(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))


class Brood(NamedTuple):
    """Cells that may become the children of those of a layer.

    `first` and `n_children` (n_parents,) say where among `cells` the children of each cell of the layer
    stand; `width` and `temperature` (n_parents,) are as in `Cells`.
    """

    cells: Cells
    first: Labels
    n_children: Labels
    width: Array
    temperature: Array


class Tree:
    """Layers of cells, from the root down, and the resolutions in which they are.

    Parameters
    ----------
    features : Features
        The resolutions.
    divergence : Divergence
        By which the nearest codevector is found.
    n_tally, n_model : int
        As for `Cells`.
    """

    def __init__(
        self, features: Features, divergence: Divergence, n_tally: int, n_model: list[int]
    ) -> None:
        self.features = features
        self.divergence = divergence
        self.n_tally, self.n_model = n_tally, n_model
        self.layers = [self.new_cells(0)]
        self._places: tuple[list[int], list[Labels]] | None = None

    def new_cells(self, layer: int) -> Cells:
        """An empty layer of the kind that stands at that depth; the root is as the first below it."""
        above = max(0, layer - 1)
        n_features = self.features.n_features(above)
        model = self.n_model[self.features.place(above)]
        return Cells(n_features, self.features.n_raw, self.n_tally, model)

    def brood(self, layer: int) -> Brood:
        """The cells of a layer, as the children of those above."""
        above = self.layers[layer - 1]
        return Brood(self.layers[layer], above.first, above.count, above.width, above.temperature)

    def adopt(self, depth: int, brood: Brood, parents: Labels) -> Labels:
        """Make the children of some cells of a layer part of the tree.

        Returns
        -------
        ndarray of shape (n_brood,), int64
            Where the brood's cells now are in the next layer, -1 for those that are not.
        """
        moved = np.full(len(brood.cells) + 1, -1)  # one more, so that -1 stays -1
        if len(parents) == 0:
            return moved
        taken = np.zeros(len(self.layers[depth]), dtype=np.bool_)
        taken[parents] = True
        chosen = taken[brood.cells.parent]
        above = self.layers[depth]
        part = brood.cells if chosen.all() else brood.cells.take(chosen)
        start = 0
        if len(self.layers) == depth + 1:
            self.layers.append(part)
        else:
            rows = {name: getattr(part, name) for name in NAMES}
            start = self.layers[depth + 1].append(part.location, rows.pop("parent"), **rows).start
        moved[:-1][chosen] = start + np.arange(len(part))
        above.first[parents] = moved[brood.first[parents]]
        above.count[parents] = brood.n_children[parents]
        above.width[parents] = brood.width[parents]
        above.temperature[parents] = brood.temperature[parents]
        return moved

    @property
    def n_leaves(self) -> int:
        """Cells without children."""
        return int(sum(cells.is_leaf.sum() for cells in self.layers))

    @property
    def n_cells(self) -> int:
        """Cells of all layers but the root."""
        return sum(len(cells) for cells in self.layers[1:])

    @property
    def depth(self) -> int:
        """Layers below the root."""
        return max((i for i, cells in enumerate(self.layers) if len(cells) > 0), default=0)

    def leaf_places(self) -> list[Labels]:
        """Where leaves stand among all, by their names; of other cells, the first leaf below them.

        Returns
        -------
        list of ndarray of shape (n_cells,), int64
            Of every layer.
        """
        sizes = [len(cells) for cells in self.layers]  # change with every split
        if self._places is None or self._places[0] != sizes:
            self._places = sizes, self._find_leaf_places()
        return self._places[1]

    def _find_leaf_places(self) -> list[Labels]:
        below = [cells.is_leaf.astype(np.int64) for cells in self.layers]
        for depth in range(len(self.layers) - 1, 0, -1):
            np.add.at(below[depth - 1], self.layers[depth].parent, below[depth])
        places = [np.zeros(1, dtype=np.int64)]
        for depth in range(1, len(self.layers)):
            parent, first = self.layers[depth].parent, self.layers[depth - 1].first
            before = np.cumsum(below[depth]) - below[depth]
            places.append(places[-1][parent] + before - before[first[parent]])
        return places

    def leaves(self) -> list[Cell]:
        """The leaves, in the order of their names."""
        found = [
            (int(place[k]), Cell(i, int(k)))
            for i, (cells, place) in enumerate(zip(self.layers, self.leaf_places(), strict=True))
            for k in np.flatnonzero(cells.is_leaf)
        ]
        return [cell for _, cell in sorted(found)]

    def children(self, cell: Cell) -> list[Cell]:
        """The cells into which a cell is split."""
        cells = self.layers[cell.layer]
        first, count = cells.first[cell.number], cells.count[cell.number]
        return [Cell(cell.layer + 1, int(k)) for k in range(first, first + count)]

    def path(self, cell: Cell) -> list[Cell]:
        """From the root to a cell."""
        found = [cell]
        while found[-1].layer > 0:
            at = found[-1]
            found.append(Cell(at.layer - 1, int(self.layers[at.layer].parent[at.number])))
        return found[::-1]

    def numbers(self, cell: Cell) -> tuple[int, ...]:
        """The numbers of the children that lead from the root to a cell: its name in the papers."""
        path = self.path(cell)
        return tuple(
            below.number - int(self.layers[above.layer].first[above.number])
            for above, below in pairwise(path)
        )

    def descend(self, layer: int, scaled: Array, at: Labels, closest: Array) -> None:
        """From cells `at` of a layer to the nearest of their children, in place; -1 without children."""
        above, below = self.layers[layer], self.layers[layer + 1]
        kernels.nearest_child(
            self.divergence.kind, scaled, below.location, above.first, above.count, at, closest
        )

    def walk(self, samples: Array) -> Iterator[tuple[int, Array, Labels, Labels, Array]]:
        """Take samples down, layer by layer, as far as any of them goes.

        Yields
        ------
        layer : int
            From 1 on.
        scaled : ndarray of shape (n, n_features)
            Those of the samples that have come so far, in the resolution of the layer.
        rows : ndarray of shape (n,), int64
            Which they are.
        at : ndarray of shape (n,), int64
            Their cells.
        closest : ndarray of shape (n,)
            Divergences from the codevectors of these.
        """
        rows = np.arange(len(samples))
        at = np.zeros(len(samples), dtype=np.int64)
        for layer, cells in enumerate(self.layers[:-1]):
            on = cells.count[at] > 0
            if not on.all():
                rows, at = rows[on], at[on]
            if len(rows) == 0:
                return
            part = samples if len(rows) == len(samples) else samples[rows]
            scaled = self.features(layer, part)
            closest = np.empty(len(rows))
            self.descend(layer, scaled, at, closest)
            yield layer + 1, scaled, rows, at.copy(), closest

    def find(self, samples: Array) -> tuple[Labels, Labels]:
        """The leaves of samples: their layers, and their numbers there (eq. 37)."""
        layers = np.zeros(len(samples), dtype=np.int64)
        numbers = np.zeros(len(samples), dtype=np.int64)
        for layer, _, rows, at, _ in self.walk(samples):
            layers[rows] = layer
            numbers[rows] = at
        return layers, numbers

    def codevectors(self, cell: Cell) -> Array:
        """The codevector of a cell in the data's units: the mean of the samples in it."""
        cells = self.layers[cell.layer]
        mass = cells.mass[cell.number]
        return np.asarray(cells.total[cell.number] / mass if mass > 0.0 else cells.total[cell.number])

"""A tree of cells: its layers, the names of cells, and the descent of samples."""

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl._schema import Sizes, expect
from oda_rl._types import Array, Labels
from oda_rl.codebook.divergences import Divergence
from oda_rl.estimators.targets import make_place
from oda_rl.estimators.tree import kernels
from oda_rl.estimators.tree.cells import NAMES, Cell, Cells, Children
from oda_rl.estimators.tree.features import Features


def are_a_tree(layers: Any, sizes: Sizes) -> None:
    """A rule: there is one root, and every other cell is among the children of exactly one cell."""
    expect(len(layers[0]["parent"]) == 1, "0/parent", "has several roots", "one root")
    for i, (above, below) in enumerate(pairwise([*layers, {"parent": np.empty(0, dtype=np.int64)}])):
        parents = np.flatnonzero(above["count"])
        first, count = above["first"][parents], above["count"][parents]
        order = np.argsort(first, kind="stable")
        ends = np.cumsum(count[order])
        right = np.array_equal(first[order], ends - count[order]) and ends[-1:].sum() == len(
            below["parent"]
        )
        expect(right, f"{i}/first", "does not match count", "consecutive children of each cell")
        right = np.array_equal(below["parent"], np.repeat(parents[order], count[order]))
        expect(right, f"{i + 1}/parent", "does not match the layer above", "the parent of each cell")
        within = np.all(above["first"] <= len(below["parent"]))
        expect(within, f"{i}/first", "is out of range", "the number of a cell of the layer below")


class Tree:
    """Layers of cells, from the root down, and their resolutions.

    Parameters
    ----------
    features : Features
        The resolutions.
    divergence : Divergence
        Determines the nearest codevector.
    n_tally, n_model : int and list of int
        As for `Cells`; `n_model` has an entry for each resolution.
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
        """An empty layer with the sizes of that depth; the root has the resolution of layer 1."""
        above = max(0, layer - 1)
        n_features = self.features.n_features(above)
        model = self.n_model[self.features.place(above)]
        return Cells(n_features, self.features.n_raw, self.n_tally, model)

    def below(self, layer: int) -> Children:
        """The cells of a layer, as the children of those above."""
        above = self.layers[layer - 1]
        return Children(self.layers[layer], above.first, above.count, above.width, above.temperature)

    def append_children(self, depth: int, found: Children, parents: Labels) -> Labels:
        """Add the children of the cells `parents` of a layer to the tree.

        Returns the number in the next layer of each of the cells found, or -1 if it was not added.
        """
        moved = np.full(len(found.cells) + 1, -1)  # one more, so that the index -1 gives -1
        if len(parents) == 0:
            return moved
        taken = np.zeros(len(self.layers[depth]), dtype=np.bool_)
        taken[parents] = True
        chosen = taken[found.cells.parent]
        above = self.layers[depth]
        part = found.cells if chosen.all() else found.cells.take(chosen)
        if len(self.layers) == depth + 1:
            self.layers.append(self.new_cells(depth + 1))
        below = self.layers[depth + 1]
        moved[:-1][chosen] = len(below) + np.arange(len(part))
        below.append(part.location, **part.fields)
        above.first[parents] = moved[found.first[parents]]
        above.count[parents] = found.n_children[parents]
        above.width[parents] = found.width[parents]
        above.temperature[parents] = found.temperature[parents]
        return moved

    def prune(self, cut: Sequence[NDArray[np.bool_]]) -> None:
        """Make the cells in `cut` of each layer leaves, by removing everything below them."""
        gone, above = np.zeros(1, dtype=np.bool_), self.layers[0]
        places = np.zeros(1, dtype=np.int64)  # new numbers of the cells of the layer above
        for depth, cells in enumerate(self.layers):
            ended = gone | cut[depth]
            cells.count[ended], cells.closed[ended] = 0, True
            self.layers[depth] = kept = cells.take(~gone)
            kept.parent, places = places[kept.parent], np.cumsum(~gone) - 1
            if depth > 0:  # children may be in another order than their parents
                above.first = np.where(above.count > 0, places[above.first], 0)
            above = kept
            if depth + 1 < len(self.layers):
                gone = ended[self.layers[depth + 1].parent]
        while len(self.layers) > 1 and len(self.layers[-1]) == 0:
            self.layers.pop()
        self._places = None

    @property
    def n_leaves(self) -> int:
        """Number of cells without children."""
        return int(sum(cells.is_leaf.sum() for cells in self.layers))

    @property
    def n_cells(self) -> int:
        """Number of cells in all layers, without the root."""
        return sum(len(cells) for cells in self.layers[1:])

    @property
    def depth(self) -> int:
        """Number of layers below the root that have cells."""
        return max((i for i, cells in enumerate(self.layers) if len(cells) > 0), default=0)

    def insert_class(self, place: int) -> None:
        """Insert a new class with the number `place` in tallies and labels."""
        self.n_tally += 1
        for cells in self.layers:
            cells.tally = np.insert(cells.tally, place, 0.0, axis=1)
            cells.label = make_place(cells.label, place)
            cells.own = make_place(cells.own, place)

    def frozen(self) -> "Tree":
        """An independent copy, which does not change when this tree learns."""
        other = Tree(self.features, self.divergence, self.n_tally, self.n_model)
        other.layers = deepcopy(self.layers)
        return other

    def with_classes(self, places: list[int]) -> "Tree":
        """Insert new classes with these numbers, in ascending order; returns the tree itself."""
        for place in places:
            self.insert_class(place)
        return self

    def get_state(self) -> list[dict[str, Any]]:
        """Return the arrays of all layers, for a model file."""
        return [{"location": cells.location, **cells.fields} for cells in self.layers]

    def set_state(self, state: list[dict[str, Any]]) -> None:
        """Take over layers from `get_state`."""
        self.layers = [self.new_cells(layer) for layer in range(len(state))]
        for cells, arrays in zip(self.layers, state, strict=True):
            for name in ("location", *NAMES):
                setattr(cells, name, np.array(arrays[name], order="C"))

    def of_state(self, state: list[dict[str, Any]]) -> "Tree":
        """Make another tree with the same features and sizes, and layers from `get_state`."""
        other = Tree(self.features, self.divergence, self.n_tally, self.n_model)
        other.set_state(state)
        return other

    # -- places and names ------------------------------------------------------------------------

    def leaf_places(self) -> list[Labels]:
        """Layer by layer, the index of each leaf in the order of names; else of the first leaf below."""
        sizes = [len(cells) for cells in self.layers]  # a cache key, since every split changes them
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
        """The children of a cell."""
        cells = self.layers[cell.layer]
        first, count = cells.first[cell.number], cells.count[cell.number]
        return [Cell(cell.layer + 1, int(k)) for k in range(first, first + count)]

    def path(self, cell: Cell) -> list[Cell]:
        """The cells from the root to a cell."""
        found = [cell]
        while found[-1].layer > 0:
            at = found[-1]
            found.append(Cell(at.layer - 1, int(self.layers[at.layer].parent[at.number])))
        return found[::-1]

    def numbers(self, cell: Cell) -> tuple[int, ...]:
        """The child numbers that lead from the root to a cell, which are its name in the papers."""
        path = self.path(cell)
        return tuple(
            below.number - int(self.layers[above.layer].first[above.number])
            for above, below in pairwise(path)
        )

    def name(self, cell: Cell) -> str:
        """The name of a cell: "0" for the root, "0.2" for its third child (section V-A)."""
        return ".".join(str(number) for number in (0, *self.numbers(cell)))

    def cell(self, name: Any) -> Cell:
        """The cell with a given name.

        Parameters
        ----------
        name : str, Cell or sequence of int
            A name such as "0.2.1", or the numbers after the root.

        Returns
        -------
        Cell

        Raises
        ------
        ValueError
            If there is no such cell; the message names the last existing cell on its path.
        """
        if isinstance(name, Cell):
            known = 0 <= name.layer < len(self.layers) and 0 <= name.number < len(
                self.layers[name.layer]
            )
            numbers = self.numbers(name) if known else None
        elif isinstance(name, str):
            parts = name.split(".")
            valid = parts[0] == "0" and all(part.isdigit() for part in parts)
            numbers = tuple(int(part) for part in parts[1:]) if valid else None
        else:
            numbers = tuple(map(int, name)) if isinstance(name, Iterable) else None
        if numbers is None:
            raise ValueError(f"cell must be a name such as '0' or '0.2.1', got {name!r}.")
        cell = Cell(0, 0)
        for number in numbers:
            children = self.children(cell)
            if not 0 <= number < len(children):
                raise ValueError(
                    f"there is no cell {name!r}: {self.name(cell)} has {len(children)} children."
                )
            cell = children[number]
        return cell

    def leaves_below(self, cell: Cell) -> list[Cell]:
        """The leaves below a cell, or the cell itself if it is a leaf."""
        children = self.children(cell)
        return sorted(leaf for child in children for leaf in self.leaves_below(child)) or [cell]

    # -- descent of samples ----------------------------------------------------------------------

    def descend(self, layer: int, scaled: Array, at: Labels, closest: Array) -> None:
        """Replace the cells `at` of a layer by their nearest children, in place; -1 without children."""
        above, below = self.layers[layer], self.layers[layer + 1]
        kernels.nearest_child(
            self.divergence.kind, scaled, below.location, above.first, above.count, at, closest
        )

    def walk(self, samples: Array) -> Iterator[tuple[int, Array, Labels, Labels, Array]]:
        """Move samples down layer by layer, as long as any of them has a child to go to.

        Yields
        ------
        layer : int
            From 1 on.
        scaled : ndarray of shape (n, n_features)
            The samples that reach the layer, in its resolution.
        rows : ndarray of shape (n,), int64
            Their row indices.
        at : ndarray of shape (n,), int64
            Their cells.
        closest : ndarray of shape (n,)
            Divergences from the codevectors of these cells.
        """
        rows, at = np.arange(len(samples)), np.zeros(len(samples), dtype=np.int64)
        scaled = self.features(0, samples)
        for layer, cells in enumerate(self.layers[:-1]):
            on = cells.count[at] > 0
            if not on.all():
                rows, at, scaled = rows[on], at[on], scaled[on]
            if len(rows) == 0:
                return
            if layer > 0 and not self.features.same(layer, layer - 1):
                scaled = self.features.some(layer, samples, rows)
            closest = np.empty(len(rows))
            self.descend(layer, scaled, at, closest)
            yield layer + 1, scaled, rows, at.copy(), closest

    def find(self, samples: Array) -> tuple[Labels, Labels]:
        """The leaves of samples (eq. 37), as their layers and their numbers in these."""
        layers = np.zeros(len(samples), dtype=np.int64)
        numbers = np.zeros(len(samples), dtype=np.int64)
        for layer, _, rows, at, _ in self.walk(samples):
            layers[rows] = layer
            numbers[rows] = at
        return layers, numbers

    def distances(self, samples: Array) -> Array:
        """Divergences of samples from the codevectors of their leaves."""
        out = self.divergence(self.features(0, samples), self.layers[0].location.T)[:, 0]
        for _, _, rows, _, closest in self.walk(samples):
            out[rows] = closest
        return out

    def leaf_numbers(self, samples: Array) -> Labels:
        """The indices of the leaves of samples among all leaves, in the order of names."""
        layers, numbers = self.find(samples)
        result = np.empty(len(samples), dtype=np.int64)
        for layer, places in enumerate(self.leaf_places()):
            inside = layers == layer
            result[inside] = places[numbers[inside]]
        return result

    def rows_inside(self, cell: Cell, samples: Array) -> Labels:
        """The rows of the samples that pass through a cell."""
        if cell.layer == 0:
            return np.arange(len(samples))
        for layer, _, rows, at, _ in self.walk(samples):
            if layer == cell.layer:
                return rows[at == cell.number]
        return np.empty(0, dtype=np.int64)

    def of_leaves(self, name: str) -> NDArray[Any]:
        """The array `name` of `Cells` for all leaves, in the order of their names."""
        found = np.concatenate([getattr(cells, name)[cells.is_leaf] for cells in self.layers])
        pairs = zip(self.leaf_places(), self.layers, strict=True)
        order = np.concatenate([places[cells.is_leaf] for places, cells in pairs])
        return np.asarray(found[np.argsort(order)])

    def codevectors(self, cell: Cell) -> Array:
        """The codevector of a cell in the data's units: the mean of the samples in it."""
        cells = self.layers[cell.layer]
        mass = cells.mass[cell.number]
        return np.asarray(cells.total[cell.number] / mass if mass > 0.0 else cells.total[cell.number])

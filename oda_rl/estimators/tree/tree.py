"""A tree of cells: its layers, the names of cells, and the way down."""

from collections.abc import Iterator, Sequence
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
    """The root is alone; every other cell is a child of one cell, among the children of that one."""
    expect(len(layers[0]["parent"]) == 1, "0/parent", "are several", "one root")
    for i, (above, below) in enumerate(pairwise([*layers, {"parent": np.empty(0, dtype=np.int64)}])):
        parents = np.flatnonzero(above["count"])
        first, count = above["first"][parents], above["count"][parents]
        order = np.argsort(first, kind="stable")
        ends = np.cumsum(count[order])
        right = np.array_equal(first[order], ends - count[order]) and ends[-1:].sum() == len(
            below["parent"]
        )
        expect(right, f"{i}/first", "and count are not", "the children of each cell one after the other")
        right = np.array_equal(below["parent"], np.repeat(parents[order], count[order]))
        expect(right, f"{i + 1}/parent", "is not", "the cell whose children they are among")
        within = np.all(above["first"] <= len(below["parent"]))
        expect(within, f"{i}/first", "is beyond", "a cell of the layer below")


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

    def below(self, layer: int) -> Children:
        """The cells of a layer, as the children of those above."""
        above = self.layers[layer - 1]
        return Children(self.layers[layer], above.first, above.count, above.width, above.temperature)

    def adopt(self, depth: int, found: Children, parents: Labels) -> Labels:
        """Make the children of some cells of a layer part of the tree.

        Returns where those cells now are in the next layer, -1 for those that are not.
        """
        moved = np.full(len(found.cells) + 1, -1)  # one more, so that -1 stays -1
        if len(parents) == 0:
            return moved
        taken = np.zeros(len(self.layers[depth]), dtype=np.bool_)
        taken[parents] = True
        chosen = taken[found.cells.parent]
        above = self.layers[depth]
        part = found.cells if chosen.all() else found.cells.take(chosen)
        start = 0
        if len(self.layers) == depth + 1:
            self.layers.append(part)
        else:
            rows = {name: getattr(part, name) for name in NAMES}
            start = self.layers[depth + 1].append(part.location, rows.pop("parent"), **rows).start
        moved[:-1][chosen] = start + np.arange(len(part))
        above.first[parents] = moved[found.first[parents]]
        above.count[parents] = found.n_children[parents]
        above.width[parents] = found.width[parents]
        above.temperature[parents] = found.temperature[parents]
        return moved

    def prune(self, cut: Sequence[NDArray[np.bool_]]) -> None:
        """Make leaves of some cells of each layer: what is below them goes."""
        gone = np.zeros(1, dtype=np.bool_)
        places = np.zeros(1, dtype=np.int64)  # where the cells of the layer above now are
        for depth, cells in enumerate(self.layers):
            ended = gone | cut[depth]
            cells.count[ended], cells.closed[ended] = 0, True
            parent = cells.parent[~gone]
            self.layers[depth] = kept = cells.take(~gone)
            kept.parent = places[parent]
            kept.first = np.where(kept.count > 0, np.cumsum(kept.count) - kept.count, 0)
            places = np.cumsum(~gone) - 1
            if depth + 1 < len(self.layers):
                gone = ended[self.layers[depth + 1].parent]
        while len(self.layers) > 1 and len(self.layers[-1]) == 0:
            self.layers.pop()
        self._places = None

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

    def insert_class(self, place: int) -> None:
        """Let the tallies be of one class more, which gets the number `place`."""
        self.n_tally += 1
        for cells in self.layers:
            cells.tally = np.insert(cells.tally, place, 0.0, axis=1)
            cells.label = make_place(cells.label, place)
            cells.own = make_place(cells.own, place)

    def frozen(self) -> "Tree":
        """A copy that stays as it is, whatever this one learns."""
        return self.of_state([vars(cells.copied()) for cells in self.layers])

    def with_classes(self, places: list[int]) -> "Tree":
        """This copy, with new classes at these places among all, in rising order."""
        for place in places:
            self.insert_class(place)
        return self

    def get_state(self) -> list[dict[str, Any]]:
        """The arrays of all layers, for a model file."""
        return [{name: getattr(cells, name) for name in ("location", *NAMES)} for cells in self.layers]

    def set_state(self, state: list[dict[str, Any]]) -> None:
        """Take over layers from `get_state`."""
        self.layers = [self.new_cells(layer) for layer in range(len(state))]
        for cells, arrays in zip(self.layers, state, strict=True):
            for name in ("location", *NAMES):
                setattr(cells, name, np.ascontiguousarray(arrays[name]))

    def of_state(self, state: list[dict[str, Any]]) -> "Tree":
        """Another tree of this kind, with layers from `get_state`."""
        other = Tree(self.features, self.divergence, self.n_tally, self.n_model)
        other.set_state(state)
        return other

    # -- places and names ------------------------------------------------------------------------

    def leaf_places(self) -> list[Labels]:
        """Layer by layer, where leaves stand among all by name; of other cells, the first leaf below."""
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

    def name(self, cell: Cell) -> str:
        """The name of a cell: "0" for the root, "0.2" for its third child (section V-A)."""
        return ".".join(str(number) for number in (0, *self.numbers(cell)))

    def cell(self, name: Any) -> Cell:
        """The cell of a name.

        Parameters
        ----------
        name : str, Cell or sequence of int
            Such as "0.2.1", or the numbers after the root.

        Returns
        -------
        Cell

        Raises
        ------
        ValueError
            If there is none; the message has the last cell on the way.
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
            numbers = tuple(int(number) for number in name)
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
        """The leaves below a cell, itself if it is one."""
        children = self.children(cell)
        return sorted(leaf for child in children for leaf in self.leaves_below(child)) or [cell]

    # -- the way down ----------------------------------------------------------------------------

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
            scaled = self.features.some(layer, samples, rows)
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

    def distances(self, samples: Array) -> Array:
        """Divergences of samples from the codevectors of their leaves."""
        out = self.divergence(self.features(0, samples), self.layers[0].location.T)[:, 0]
        for _, _, rows, _, closest in self.walk(samples):
            out[rows] = closest
        return out

    def leaf_numbers(self, samples: Array) -> Labels:
        """Where the leaves of samples are among all leaves, in the order of their names."""
        layers, numbers = self.find(samples)
        result = np.empty(len(samples), dtype=np.int64)
        for layer, places in enumerate(self.leaf_places()):
            inside = layers == layer
            result[inside] = places[numbers[inside]]
        return result

    def rows_inside(self, cell: Cell, samples: Array) -> Labels:
        """The rows of the samples that come through a cell."""
        if cell.layer == 0:
            return np.arange(len(samples))
        for layer, _, rows, at, _ in self.walk(samples):
            if layer == cell.layer:
                return rows[at == cell.number]
        return np.empty(0, dtype=np.int64)

    def of_leaves(self, name: str) -> NDArray[Any]:
        """One of the arrays of `Cells`, of all leaves in the order of their names."""
        found = np.concatenate([getattr(cells, name)[cells.is_leaf] for cells in self.layers])
        pairs = zip(self.leaf_places(), self.layers, strict=True)
        order = np.concatenate([places[cells.is_leaf] for places, cells in pairs])
        return np.asarray(found[np.argsort(order)])

    def codevectors(self, cell: Cell) -> Array:
        """The codevector of a cell in the data's units: the mean of the samples in it."""
        cells = self.layers[cell.layer]
        mass = cells.mass[cell.number]
        return np.asarray(cells.total[cell.number] / mass if mass > 0.0 else cells.total[cell.number])

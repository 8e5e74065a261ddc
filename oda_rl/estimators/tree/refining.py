"""Refining a region of a tree: its leaves are split further, and splits that do not pay are pruned."""

from collections.abc import Sequence
from copy import deepcopy
from typing import NamedTuple

import numpy as np

from oda_rl._types import Array, Labels
from oda_rl.estimators.targets import Data
from oda_rl.estimators.tree.cells import Cell
from oda_rl.estimators.tree.features import Features
from oda_rl.estimators.tree.growth import Growth
from oda_rl.estimators.tree.predicted import count_errors
from oda_rl.estimators.tree.pruning import Cuts, choose, cuts
from oda_rl.estimators.tree.settings import Layer
from oda_rl.estimators.tree.tasks import Prior
from oda_rl.estimators.tree.tree import Tree


class Refinement(NamedTuple):
    """The result of `refine`: a region's error per sample before and after, splits, leaves gained."""

    error_before: float
    error: float
    n_splits: int
    n_leaves_gained: int


class Limits(NamedTuple):
    """What is refined, and how far: see `Refining.refine`."""

    cell: Cell
    target_error: float
    layer: Layer
    max_splits: int


class Refining(Growth):
    """A `Growth` whose leaves can be split further."""

    def refine(self, data: Data, limits: Limits) -> Refinement:
        """Repeatedly split the leaf with the largest error below a cell; prune what does not pay.

        Splitting ends when the error per weight is at most `target_error`, or after `max_splits`.
        Samples outside the cell are ignored; `layer` has the limits of each split. What has grown is
        pruned as in `fit`, by trees that are refined without a part of the samples in the cell.
        """
        cell, tree = limits.cell, self.tree
        data = data.take(tree.rows_inside(cell, data.samples))
        before, n_leaves, n_splits = self.error(cell), tree.n_leaves, len(self.history)
        n_parts = self.settings.validation
        if n_parts is None or not self.prunes_after_growth:
            self._split_worst(data, limits)
        else:
            region = _Region(self, tree.features.remembering(data.samples), limits)
            price = choose(region, [], data, n_parts, least_part=1).price
            self._split_worst(data, limits)
            self._prune(_new_cuts(tree, limits.layer, price, region.fixed))
        splits, leaves = len(self.history) - n_splits, tree.n_leaves - n_leaves
        return Refinement(before, self.error(cell), splits, leaves)

    def error(self, cell: Cell) -> float:
        """The error per weight of the predictions for the training samples in a cell."""
        leaves = self.tree.leaves_below(cell)
        mass = sum(float(self.tree.layers[leaf.layer].mass[leaf.number]) for leaf in leaves)
        return sum(self._loss(leaf) for leaf in leaves) / mass if mass > 0.0 else 0.0

    def _split_worst(self, data: Data, limits: Limits) -> None:
        """Split the leaves with the largest errors, as far as the limits allow."""
        n_splits, unsplittable = 0, set[Cell]()
        while n_splits < limits.max_splits and self.error(limits.cell) > limits.target_error:
            losses = {leaf: self._loss(leaf) for leaf in self.tree.leaves_below(limits.cell)}
            # a cell that is right alone errs only by those above
            open_ = [one for one in losses if one not in unsplittable and self._loss(one, "loss") > 0.0]
            if not open_:
                return
            worst = max(open_, key=losses.__getitem__)
            if self._split_further(worst, data, limits.layer):
                n_splits += 1
            else:
                unsplittable.add(worst)

    def _loss(self, leaf: Cell, name: str = "predicted_loss") -> float:
        return float(getattr(self.tree.layers[leaf.layer], name)[leaf.number])

    def _split_further(self, leaf: Cell, data: Data, layer: Layer) -> bool:
        """Split one leaf by its samples, with more and more codevectors until that helps."""
        own = data.take(self.tree.rows_inside(leaf, data.samples))
        n, k = len(own.weight), int(layer.max_codevectors or 2)
        cells = self.tree.layers[leaf.layer]
        scaled = self.tree.features(leaf.layer, own.samples)
        at, chosen = np.full(n, leaf.number), np.array([leaf.number])
        while n >= max(2, int(layer.min_support or 1)) and cells.count[leaf.number] == 0:
            limits = layer._replace(max_codevectors=k)
            self.grow_layer(leaf.layer, limits, at, scaled, own, chosen, samples_per_codevector=1)
            if k >= n:
                break
            k *= 2
        if cells.count[leaf.number] == 0:
            return False
        count_errors(self.task, self.tree, own, first=leaf.layer + 1)
        return True


class _Region(Refining):
    """A region of another tree, to be refined by some of its samples (see `pruning.choose`)."""

    rescales = False

    def __init__(self, other: Refining, features: Features, limits: Limits) -> None:
        vars(self).update(vars(other))
        self.limits, self.history = limits, []
        self.task, self.tree = deepcopy(other.task), other.tree.frozen()
        self.task.smoothings, self.tree.features = (other.task.smoothing,), features
        self.fixed = [~cells.is_leaf for cells in self.tree.layers]

    def without_cells(self, features: Features, rng: np.random.Generator) -> "_Region":
        """The same region, from which `grow` removes the samples."""
        return _Region(self, features, self.limits)

    def grow(self, layers: Sequence[Layer], data: Data) -> None:
        """Learn the cells of the region from these samples alone, and split its leaves further."""
        tree, task, (top, number) = self.tree, self.task, self.limits.cell
        inside = np.arange(len(tree.layers[top])) == number
        for cells in tree.layers[top:]:
            inside = inside if cells is tree.layers[top] else inside[cells.parent]
            for name in ("mass", "support", "loss", "predicted_loss", "total", "tally"):
                getattr(cells, name)[inside] = 0.0
        if top == 0:
            at = self.add_to_root(data, tree.features(0, data.samples))
            task.conclude(tree.layers[0], None)
        for depth, scaled, rows, at, closest in tree.walk(data.samples):
            if depth >= top:
                self._learn(depth, scaled, at, data.take(rows), closest)
        count_errors(task, tree, data)
        self._split_worst(data, self.limits)

    def _learn(self, depth: int, scaled: Array, at: Labels, data: Data, closest: Array) -> None:
        """Add samples to empty cells of a layer, and conclude those that got any."""
        tree, cells, above = self.tree, self.tree.layers[depth], self.tree.layers[depth - 1]
        self.add(cells, at, scaled, data, closest)
        used = np.zeros(len(cells), dtype=np.bool_)
        used[at] = True
        part = cells.take(used)
        self.task.conclude(part, Prior(above.tally, above.model))
        cells.label[used], cells.model[used], cells.loss[used] = part.label, part.model, part.loss
        self.task.count_errors(tree.divergence, tree.below(depth), scaled, at, data)

    def cuts(self, layers: Sequence[Layer], price: float) -> Cuts:
        """As for a whole tree, but only what was split since the region was made."""
        return _new_cuts(self.tree, self.limits.layer, price, self.fixed)


def _new_cuts(tree: Tree, layer: Layer, price: float, fixed: Cuts) -> Cuts:
    """As `cuts`, without the cells of each layer that were split before: those `fixed`."""
    found = cuts(tree, [layer] * len(tree.layers), price)
    for cut, before in zip(found, fixed, strict=False):
        cut[: len(before)] &= ~before
    return found

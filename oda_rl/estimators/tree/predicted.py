"""What the cells of a tree predict, and the errors of these predictions.

Predictions may be drawn towards those of the cells above (see `Outputs` and `Classes`), so that their
errors differ from those of the cells alone, by which a tree grows and is pruned.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from oda_rl._types import Array, Labels
from oda_rl.estimators.targets import Data
from oda_rl.estimators.tree.cells import Cell
from oda_rl.estimators.tree.least_squares import squared_residuals
from oda_rl.estimators.tree.tasks import Outputs, Partition, last_of
from oda_rl.estimators.tree.tree import Tree


def outputs_at(task: Outputs, tree: Tree, cells: Sequence[Cell]) -> Array:
    """Predictions (n_cells, n_outputs) at the codevectors of cells, if the tree ended at these cells.

    A codevector, the mean of the samples in a cell, need not be in the cell itself if the resolution is
    not affine.
    """
    codevectors = np.stack([tree.codevectors(cell) for cell in cells])
    return last_of(task.predict_by_layer(tree, codevectors, _ways_to(tree, codevectors, cells)))


def _ways_to(
    tree: Tree, samples: Array, cells: Sequence[Cell]
) -> Iterator[tuple[int, Array, Labels, Labels, None]]:
    """Lead each sample down to one of the cells, layer by layer, as `Tree.walk` does to the nearest."""
    paths = [tree.path(cell) for cell in cells]
    for layer in range(1, max(len(path) for path in paths)):
        rows = np.array([i for i, path in enumerate(paths) if len(path) > layer])
        at = np.array([path[layer].number for path in paths if len(path) > layer])
        yield layer, tree.features.some(layer - 1, samples, rows), rows, at, None


def count_errors(task: Partition, tree: Tree, data: Data, first: int = 0) -> None:
    """Set `predicted_loss` of the cells that these samples pass through, from the layer `first` on.

    The samples must be all those of these cells.
    """
    if not task.prunes_after_growth:
        recount_errors(task, tree)
        return
    steps = task.predict_by_layer(tree, data.samples)
    for depth, (cells, (rows, at, predicted)) in enumerate(zip(tree.layers, steps, strict=False)):
        if depth < first:
            continue
        inside, losses = np.unique(at), task.sample_losses(predicted, data.take(rows))
        cells.predicted_loss[inside] = np.bincount(at, losses, len(cells))[inside]


def recount_errors(task: Partition, tree: Tree) -> None:
    """Set `predicted_loss` of all cells without samples: from the tallies of outputs, else to `loss`.

    Where the resolution changes, linear models above a cell are left out: their errors on its samples
    cannot be computed from its tally.
    """
    above = np.empty((0, 0, 0))
    for depth, cells in enumerate(tree.layers):
        cells.predicted_loss[:] = cells.loss
        if not isinstance(task, Outputs) or task.smoothing == 0.0:
            continue
        theta = cells.model.reshape(len(cells), -1, task.n_outputs)
        if depth > 0 and (not task.linear or tree.features.same(depth - 1, max(0, depth - 2))):
            before = above[cells.parent]
            theta = before + task.own_part(cells.mass)[:, None, None] * (theta - before)
            cells.predicted_loss[:] = squared_residuals(cells.tally, theta, task.n_outputs).sum(axis=1)
        above = theta

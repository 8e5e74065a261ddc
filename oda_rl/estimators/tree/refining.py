"""Annealing one region of a tree further, until its error is as low as wanted."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oda_rl.estimators.tree.layers import Layer
from oda_rl.estimators.tree.learned import Learned
from oda_rl.estimators.tree.tree import Cell, Data

Array = NDArray[np.float64]
Labels = NDArray[np.int64]


class Refinement(NamedTuple):
    """What became of a region: its error per sample before and after, splits, and leaves gained."""

    error_before: float
    error: float
    n_splits: int
    n_leaves_gained: int


def inside(learned: Learned, cell: Cell, samples: Array) -> Labels:
    """The rows of the samples that come through a cell."""
    if cell.layer == 0:
        return np.arange(len(samples))
    for layer, _, rows, at, _ in learned.tree.walk(samples):
        if layer == cell.layer:
            return rows[at == cell.number]
    return np.empty(0, dtype=np.int64)


def below(learned: Learned, cell: Cell) -> list[Cell]:
    """The leaves below a cell, itself if it is one."""
    found, open_ = [], [cell]
    while open_:
        at = open_.pop()
        children = learned.tree.children(at)
        open_ += children
        if not children:
            found.append(at)
    return sorted(found)


def error_of(learned: Learned, cell: Cell) -> float:
    """The error per weight of the samples that were learned from, in the leaves below a cell."""
    layers = learned.tree.layers
    leaves = below(learned, cell)
    mass = sum(float(layers[leaf.layer].mass[leaf.number]) for leaf in leaves)
    loss = sum(float(layers[leaf.layer].loss[leaf.number]) for leaf in leaves)
    return loss / mass if mass > 0.0 else 0.0


def refine(
    learned: Learned, cell: Cell, data: Data, target_error: float, layer: Layer, max_splits: int
) -> Refinement:
    """Split the leaf with the largest error below a cell, again and again.

    Parameters
    ----------
    learned : Learned
        Changed in place.
    cell : Cell
        The root of the region.
    data : Data
        Samples; those that do not come through the cell are left out.
    target_error : float
        Error per weight at which to stop.
    layer : Layer
        Limits of each split.
    max_splits : int
        Splits, at most.

    Returns
    -------
    Refinement
    """
    data = data.take(inside(learned, cell, data.samples))
    before, n_leaves, splits = error_of(learned, cell), learned.tree.n_leaves, 0
    hopeless: set[Cell] = set()
    while splits < max_splits and error_of(learned, cell) > target_error:
        layers = learned.tree.layers
        open_ = [
            leaf
            for leaf in below(learned, cell)
            if leaf not in hopeless and layers[leaf.layer].loss[leaf.number] > 0.0
        ]
        if not open_:
            break
        worst = max(open_, key=lambda leaf: float(layers[leaf.layer].loss[leaf.number]))
        if _split(learned, worst, data, layer):
            splits += 1
        else:
            hopeless.add(worst)
    return Refinement(before, error_of(learned, cell), splits, learned.tree.n_leaves - n_leaves)


def _split(learned: Learned, leaf: Cell, data: Data, layer: Layer) -> bool:
    """Split one leaf by its samples, with more codevectors where few do not help."""
    own = data.take(inside(learned, leaf, data.samples))
    n, room = len(own.weight), int(layer.max_codevectors or 2)
    cells, grower = learned.tree.layers[leaf.layer], learned.grower
    usual = grower.samples_per_codevector
    scaled = learned.tree.features(leaf.layer, own.samples)
    at, number = np.full(n, leaf.number), np.array([leaf.number])
    grower.samples_per_codevector = 1
    while n >= max(2, int(layer.min_support or 1)) and cells.count[leaf.number] == 0:
        limits = layer._replace(max_codevectors=room)
        grower.grow_layer(leaf.layer, limits, at, scaled, own, only=number)
        if room >= n:
            break
        room *= 2
    grower.samples_per_codevector = usual
    if cells.count[leaf.number] == 0:
        return False
    learned.sprouting.buds.pop(leaf, None)  # of a stream
    return True

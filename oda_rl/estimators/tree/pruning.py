"""Pruning a tree that was grown too far: splits that do not pay for their leaves are taken back."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from oda_rl._types import Array
from oda_rl.estimators.targets import Data
from oda_rl.estimators.tree.settings import Layer
from oda_rl.estimators.tree.tree import Tree

if TYPE_CHECKING:
    from oda_rl.estimators.tree.growth import Growth

Cuts = list[NDArray[np.bool_]]
# Prices of a leaf that are compared, in errors of the root.
PRICES = np.concatenate([[0.0], 2.0 ** np.arange(-14.0, -2.0)])
# One is paid where it saves so many standard errors: a leaf that makes no difference to trees of some
# of the samples may make one to that of all.
SURE = 1.0


def cuts(tree: Tree, layers: Sequence[Layer], price: float) -> Cuts:
    """Which cells of each layer are better leaves, where a leaf has a `price` in errors of the root.

    The subtrees with the least errors and prices in all. (Breiman, Friedman, Olshen and Stone,
    "Classification and Regression Trees", 1984, section 3.3.)
    """
    unit = price * float(tree.layers[0].loss[0])
    found: Cuts = []
    loss, leaves = np.empty(0), np.empty(0)  # of the subtrees below the cells of the next layer
    for depth in reversed(range(len(tree.layers))):
        cells = tree.layers[depth]
        own, one = cells.loss.astype(float), np.ones(len(cells))
        if depth + 1 == len(tree.layers):
            found.append(np.zeros(len(cells), dtype=np.bool_))
            loss, leaves = own, one
            continue
        parent = tree.layers[depth + 1].parent
        below, number = (np.bincount(parent, part, len(cells)) for part in (loss, leaves))
        least = np.maximum(unit * (number - 1.0), float(layers[depth].min_improvement or 0.0) * own)
        cut = (cells.count > 0) & (own - below <= least)
        keep = (cells.count > 0) & ~cut
        loss, leaves = np.where(keep, below, own), np.where(keep, number, one)
        found.append(cut)
    return found[::-1]


def find_price(
    growth: "Growth", layers: Sequence[Layer], data: Data, n_parts: int
) -> tuple[float, float]:
    """The price of a leaf and the smoothing with the least errors on samples left out.

    One part of `n_parts` is left out at a time. Of equally good prices the middle one, as the highest
    that leaves the trees of some samples as they are may cut that of all to its root; none where none
    is clearly better.
    """
    rng = np.random.default_rng(growth.entropy)
    # Parts have equally many of each class: else those that most are of are fewer where it counts.
    n = len(data.weight)
    part, kinds = np.empty(n, dtype=np.int64), data.targets if growth.task.by_labels else np.zeros(n)
    part[np.lexsort((rng.uniform(size=n), kinds))] = np.arange(n) % n_parts
    smoothings = growth.task.smoothings
    losses, spread = np.zeros((2, len(smoothings), len(PRICES)))
    for i in range(n_parts):
        rest, left_out = np.flatnonzero(part != i), np.flatnonzero(part == i)
        features, samples = growth.tree.features.of_rows(rest)
        grown = growth.another(features, rng)
        grown.grow(layers, data.take(rest)._replace(samples=samples))
        grown.tree.features, samples = growth.tree.features.of_rows(left_out)
        tested = data.take(left_out)._replace(samples=samples)
        for j, grown.task.smoothing in enumerate(smoothings):
            own, squares = _losses(grown, layers, tested)
            losses[j] += own
            spread[j] += squares
    if not growth.task.by_labels:
        best = int(losses.min(axis=1).argmin())
        return float(PRICES[_cheapest(losses[best], spread[best], 0.0)]), smoothings[best]
    # Errors are counted: McNemar's test, corrected as by Edwards. Small trees come before smooth ones.
    price = _cheapest(losses[0], spread[0], 1.0)
    return float(PRICES[price]), smoothings[int(losses[:, price].argmin())]


def _cheapest(own: Array, spread: Array, single: float) -> int:
    """Which price is paid, by losses (n_prices,) and the squares of what they differ from the first."""
    worth = own[0] - own > SURE * np.sqrt(spread) + single
    if not worth.any():
        return 0
    own = np.where(worth, own, np.inf)
    least = np.flatnonzero(own == own.min())
    return int(least[len(least) // 2])


def _losses(growth: "Growth", layers: Sequence[Layer], data: Data) -> tuple[Array, Array]:
    """Losses (n_prices,) of samples in all, by the trees that the prices leave of one.

    And the sums of squared differences from those of the first.
    """
    tree, task = growth.tree, growth.task
    steps = [
        (rows, at, task.sample_losses(predicted, data.take(rows)))
        for rows, at, predicted in task.along(tree, data.samples)
    ]
    n = len(data.weight)
    losses = np.zeros((len(PRICES), n))
    for loss, price in zip(losses, PRICES, strict=True):
        cut, ended = cuts(tree, layers, price), np.zeros(n, dtype=np.bool_)
        for depth, (rows, at, own) in enumerate(steps):
            loss[rows] = np.where(ended[rows], loss[rows], own)
            ended[rows] |= cut[depth][at]
    return losses.sum(axis=1), ((losses - losses[0]) ** 2).sum(axis=1)

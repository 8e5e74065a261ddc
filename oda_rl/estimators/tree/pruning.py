"""Pruning of a tree that was grown too far: removes splits that do not pay for their leaves."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from oda_rl._types import Array
from oda_rl.estimators.classification.book import probabilities
from oda_rl.estimators.targets import Data
from oda_rl.estimators.tree.settings import Layer
from oda_rl.estimators.tree.tree import Tree

if TYPE_CHECKING:
    from oda_rl.estimators.tree.growth import Growth

Cuts = list[NDArray[np.bool_]]
# Trees grown from a part of the samples, each with the samples left out and its cuts at each price.
LeftOut = Sequence[tuple["Growth", Data, list[Cuts]]]
# Prices of a leaf that are compared, in units of the root's error.
PRICES = np.concatenate([[0.0], 2.0 ** np.arange(-14.0, -2.0)])
# A price above 0 is chosen only if it lowers the loss by this many standard errors: a leaf without
# effect in trees of a part of the samples may matter in the tree of all. For classes, more smoothing
# than the least must help as clearly.
PRICE_Z = 1.0


def cuts(tree: Tree, layers: Sequence[Layer], price: float) -> Cuts:
    """Which cells of each layer should become leaves, if a leaf costs `price` times the root's error.

    Keeps the subtree with the least sum of errors and prices. (Breiman, Friedman, Olshen and Stone,
    "Classification and Regression Trees", 1984, section 3.3.)
    """
    unit = price * float(tree.layers[0].loss[0])
    found: Cuts = []
    loss, leaves = np.empty(0), np.empty(0)  # of the subtrees at the cells of the next layer
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
    """Choose the price of a leaf and the smoothing by cross-validation with `n_parts` parts.

    The price is 0 unless another is clearly better. Of equally good prices the middle one is chosen,
    since the highest that does not change the trees of a part of the samples may cut the tree of all
    samples to its root. For outputs, the smoothing with the least errors is chosen; for classes, the
    least smoothing whose probabilities are not clearly worse than the best, since the number of errors
    is too small to decide. With fewer than two parts, both are 0.
    """
    if n_parts < 2:
        return 0.0, 0.0
    left_out = [
        (grown, data, [grown.cuts(layers, price) for price in PRICES])
        for grown, data in _leave_out(growth, layers, data, n_parts)
    ]
    smoothings, task = growth.task.smoothings, growth.task
    if task.by_labels:
        # Errors are counts: McNemar's test with the correction of Edwards. The price is chosen first,
        # without smoothing.
        cheapest = _cheapest(*_compare(left_out, task.sample_losses, 0.0), 1.0)
        chosen = [(grown, data, [cut[cheapest]]) for grown, data, cut in left_out]
        scores = [_losses(chosen, _brier, smoothing)[0] for smoothing in smoothings]
        smoothing = smoothings[least_as_good(np.array(scores))] if len(smoothings) > 1 else 0.0
        return float(PRICES[cheapest]), smoothing
    pairs = [_compare(left_out, task.sample_losses, one) for one in smoothings]
    best = int(np.argmin([own.min() for own, _ in pairs]))
    return float(PRICES[_cheapest(*pairs[best], 0.0)]), smoothings[best]


def _leave_out(
    growth: "Growth", layers: Sequence[Layer], data: Data, n_parts: int
) -> Iterator[tuple["Growth", Data]]:
    """Yield trees grown from all parts but one, with cached features of that part, and its samples."""
    rng = np.random.default_rng(growth.entropy)
    # Stratify the parts by class: else a class with more samples in a part has fewer to learn it from.
    n = len(data.weight)
    part, kinds = np.empty(n, dtype=np.int64), data.targets if growth.task.by_labels else np.zeros(n)
    part[np.lexsort((rng.uniform(size=n), kinds))] = np.arange(n) % n_parts
    for i in range(n_parts):
        rest, left_out = np.flatnonzero(part != i), np.flatnonzero(part == i)
        features, samples = growth.tree.features.of_rows(rest)
        grown = growth.without_cells(features, rng)
        grown.grow(layers, data.take(rest)._replace(samples=samples))
        grown.tree.features, samples = growth.tree.features.of_rows(left_out)
        yield grown, data.take(left_out)._replace(samples=samples)


def _cheapest(own: Array, spread: Array, single: float) -> int:
    """The index of the best price, from losses (n_prices,) and squared differences from the first."""
    worth = own[0] - own > PRICE_Z * np.sqrt(spread) + single
    if not worth.any():
        return 0
    own = np.where(worth, own, np.inf)
    least = np.flatnonzero(own == own.min())
    return int(least[len(least) // 2])


def least_as_good(scores: Array) -> int:
    """The first row of losses (n, n_samples) that is not clearly worse than the best row."""
    more = scores - scores[scores.sum(axis=1).argmin()]
    n = scores.shape[1]
    return int(np.flatnonzero(more.sum(axis=1) <= PRICE_Z * np.sqrt(n) * more.std(axis=1))[0])


def _brier(log_joint: Array, data: Data) -> Array:
    """Weighted Brier scores: squared differences of the probabilities from the true classes."""
    wrong = probabilities(log_joint)
    wrong[np.arange(len(wrong)), data.targets] -= 1.0
    return np.asarray(data.weight * (wrong**2).sum(axis=1))


def _compare(left_out: LeftOut, *how: Any) -> tuple[Array, Array]:
    """Total losses (n_prices,), and sums of squared differences from the losses of the first price."""
    losses = _losses(left_out, *how)
    return losses.sum(axis=1), ((losses - losses[0]) ** 2).sum(axis=1)


def _losses(left_out: LeftOut, loss_of: Callable[[Array, Data], Array], smoothing: float) -> Array:
    """Losses (n_prices, n_samples) of samples left out, by trees pruned at each price, and smoothed."""
    parts = []
    for grown, data, pruned in left_out:
        grown.task.smoothing = smoothing
        steps = [
            (rows, at, loss_of(predicted, data.take(rows)))
            for rows, at, predicted in grown.task.predict_by_layer(grown.tree, data.samples)
        ]
        n = len(data.weight)
        losses = np.zeros((len(pruned), n))
        for loss, cut in zip(losses, pruned, strict=True):
            ended = np.zeros(n, dtype=np.bool_)
            for depth, (rows, at, own) in enumerate(steps):
                loss[rows] = np.where(ended[rows], loss[rows], own)
                ended[rows] |= cut[depth][at]
        parts.append(losses)
    return np.concatenate(parts, axis=1)

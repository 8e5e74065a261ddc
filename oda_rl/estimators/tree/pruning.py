"""What samples left out decide: how far a tree is grown and pruned, and how sure its predictions are."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oda_rl._replicates import replicates
from oda_rl._types import Array
from oda_rl.estimators.classification.book import probabilities
from oda_rl.estimators.classification.validation import LEAST, POWERS, best_power
from oda_rl.estimators.targets import Data
from oda_rl.estimators.tree.features import Features
from oda_rl.estimators.tree.settings import Layer
from oda_rl.estimators.tree.tasks import Partition
from oda_rl.estimators.tree.tree import Tree

if TYPE_CHECKING:
    from oda_rl.estimators.tree.growth import Growth

# Least number of samples in each part of the validation. With fewer than FEW samples, the smoothing is
# at least that of few, since these cannot show how uncertain probabilities are.
LEAST_PART, FEW = 20, 300
# With fewer samples per feature than this, those left out do not determine the scales either.
SAMPLES_PER_FEATURE = 3
Cuts = list[NDArray[np.bool_]]
# Trees grown from a part of the samples, each with the samples left out, its cuts at each price, and the
# steps of the samples' walk down, which do not depend on smoothing and power.
LeftOut = Sequence[tuple["Growth", Data, list[Cuts], list[Any]]]
# Prices of a leaf that are compared, in units of the root's error.
PRICES = np.concatenate([[0.0], 2.0 ** np.arange(-14.0, -2.0)])
# A price above 0 is chosen only if it lowers the loss by this many standard errors: a leaf without
# effect in trees of a part of the samples may matter in the tree of all. For classes, more smoothing
# than the least must help as clearly.
PRICE_Z = 1.0


class Part(NamedTuple):
    """A tree without cells for all samples but those of one part; the features and samples of that."""

    empty: "Growth"
    known: Data
    others: Features
    unknown: Data


class Choice(NamedTuple):
    """Limits of layers, the price of a leaf, and `smoothing` and `power` of the task."""

    layers: Sequence[Layer]
    price: float = 0.0
    smoothing: float = 0.0
    power: float = 1.0


class Judged(NamedTuple):
    """A choice, and the Brier scores (n_samples,) of the samples left out."""

    choice: Choice
    losses: Array


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


def choose(
    growth: "Growth", layers: Sequence[Layer], data: Data, n_parts: int, least_part: int = LEAST_PART
) -> Choice:
    """Choose how to grow and prune a tree by cross-validation with at most `n_parts` parts.

    The price is 0 unless another is clearly better. Of equally good prices the middle one is chosen,
    since the highest that does not change the trees of a part of the samples may cut the tree of all
    samples to its root. For outputs, the smoothing with the least errors is chosen; for classes, see
    `_choose_for_classes`. With less than two parts of `least_part` samples nothing is tried.
    """
    task, n = growth.task, len(data.weight)
    least, n_parts = task.smoothing_of_few if n < FEW else 0.0, min(n_parts, n // least_part)
    if n_parts < 2:
        return Choice(layers, smoothing=least)
    parts = list(_leave_out(growth, data, n_parts))
    if task.by_labels:
        return _choose_for_classes(task, layers, parts, least, len(np.unique(data.targets)))
    left_out = _grow(layers, parts)
    pairs = [_compare(left_out, task.sample_losses, one) for one in task.smoothings]
    best = int(np.argmin([own.min() for own, _ in pairs]))
    return Choice(layers, float(PRICES[_cheapest(*pairs[best], 0.0)]), task.smoothings[best])


def _choose_for_classes(
    task: Partition, layers: Sequence[Layer], parts: Sequence[Part], least: float, n_classes: int
) -> Choice:
    """As `choose`, with a smoothing of at least `least`.

    If splits do not pay, or probabilities are uncertain, regions may have too many codevectors: then two
    and one for each class are tried, and taken if the Brier score is clearly better.
    """
    judged = [_judge(task, layers, parts, least)]
    usual = judged[0].choice
    if len(task.smoothings) > 1 and (usual.price > 0.0 or usual.smoothing > task.smoothing_of_few):
        given = [int(one.max_codevectors or 1) for one in layers]
        for k in (2 * n_classes, n_classes):
            if k < max(given):
                pairs = zip(layers, given, strict=True)
                fewer = [one._replace(max_codevectors=min(k, own)) for one, own in pairs]
                judged.append(_judge(task, fewer, parts, least))
    losses = np.array([one.losses for one in judged])
    spread = ((losses - losses[0]) ** 2).sum(axis=1)
    return judged[_cheapest(losses.sum(axis=1), spread, 0.0)].choice


def _judge(task: Partition, layers: Sequence[Layer], parts: Sequence[Part], least: float) -> Judged:
    """Choose price and smoothing of a classifier's tree with these limits.

    Errors are counts: McNemar's test with the correction of Edwards. The price is chosen first, without
    smoothing; then the least smoothing whose probabilities are not clearly worse than the best, since
    the number of errors is too small to decide; then the power of the probabilities.
    """
    left_out = _grow(layers, parts)
    cheapest = _cheapest(*_compare(left_out, task.sample_losses, 0.0), 1.0)
    chosen = [(grown, data, [cut[cheapest]], ways) for grown, data, cut, ways in left_out]
    scores = np.array([_losses(chosen, _brier, one)[0] for one in task.smoothings])
    smoothing = max(task.smoothings[least_as_good(scores)], least)
    power = _find_power(chosen, smoothing) if len(task.smoothings) > 1 else 1.0
    choice = Choice(layers, float(PRICES[cheapest]), smoothing, power)
    return Judged(choice, _losses(chosen, _brier, smoothing, power)[0])


def _find_power(left_out: LeftOut, smoothing: float) -> float:
    """The power with the least log loss, as `validation.find_power`, for the regions of all layers.

    Powers are tried in descending order until the loss rises.
    """
    losses: list[float] = []
    for power in POWERS:
        losses.append(float(_losses(left_out, _log_loss, smoothing, power).sum()))
        if losses[-1] > min(losses):
            break
    return best_power(losses)


def _leave_out(growth: "Growth", data: Data, n_parts: int) -> Iterator[Part]:
    """Yield the samples of all parts but one, and those of that part, with their features cached.

    Classes determine how features are scaled. If features are many, this draws samples towards their own
    classes; so those left out must not take part in it.
    """
    task, settings, features = growth.task, growth.settings, growth.tree.features
    rng, n = np.random.default_rng(growth.entropy), len(data.weight)
    # Stratify the parts by class: else a class with more samples in a part has fewer to learn it from.
    kinds, same = data.targets if task.by_labels else np.zeros(n), replicates(data.samples)
    kinds = kinds if same is None else kinds[same.first]
    part = np.empty(len(kinds), dtype=np.int64)
    part[np.lexsort((rng.uniform(size=len(kinds)), kinds))] = np.arange(len(kinds)) % n_parts
    part = part if same is None else part[same.place]
    many = SAMPLES_PER_FEATURE * max(features.n_features(i) for i in range(len(features))) > n
    for i in range(n_parts):
        rest, left_out = np.flatnonzero(part != i), np.flatnonzero(part == i)
        known, unknown, scalings = data.take(rest), data.take(left_out), None
        if growth.rescales and task.by_labels and settings.scale is not None and many:
            divergence = settings.annealing.divergence
            scalings = features.scalings_of(rest, *known[1:], settings.scale, divergence)
        own, samples = features.of_rows(rest, scalings)
        empty, known = growth.without_cells(own, rng), known._replace(samples=samples)
        others, samples = features.of_rows(left_out, scalings)
        yield Part(empty, known, others, unknown._replace(samples=samples))


def _grow(layers: Sequence[Layer], parts: Sequence[Part]) -> LeftOut:
    """Trees grown from all parts but one, with their cuts at each price."""
    found = []
    for empty, known, others, unknown in parts:
        grown = empty.without_cells(empty.tree.features, np.random.default_rng())
        grown.entropy = empty.entropy  # the same random orders whatever the limits
        grown.grow(layers, known)
        grown.tree.features = others
        ways = list(grown.tree.walk(unknown.samples))
        found.append((grown, unknown, [grown.cuts(layers, price) for price in PRICES], ways))
    return found


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


def _log_loss(log_joint: Array, data: Data) -> Array:
    """Weighted -log p of the true classes, with p no less than LEAST."""
    true = probabilities(log_joint)[np.arange(len(log_joint)), data.targets]
    return np.asarray(-data.weight * np.log(np.maximum(true, LEAST)))


def _compare(left_out: LeftOut, *how: Any) -> tuple[Array, Array]:
    """Total losses (n_prices,), and sums of squared differences from the losses of the first price."""
    losses = _losses(left_out, *how)
    return losses.sum(axis=1), ((losses - losses[0]) ** 2).sum(axis=1)


def _losses(
    left_out: LeftOut,
    loss_of: Callable[[Array, Data], Array],
    smoothing: float,
    power: float = 1.0,
) -> Array:
    """Losses (n_prices, n_samples) of samples left out, by trees pruned at each price, and smoothed."""
    parts = []
    for grown, data, pruned, ways in left_out:
        grown.task.smoothing, grown.task.power = smoothing, power
        steps = [
            (rows, at, loss_of(predicted, data.take(rows)))
            for rows, at, predicted in grown.task.predict_by_layer(grown.tree, data.samples, ways)
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

"""Growing a tree from samples at hand: layer by layer, the cells of a layer side by side."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from oda_rl.codebook.events import BookArrays
from oda_rl.codebook.growth import GrowthRule, grow
from oda_rl.codebook.schedule import LAST_TEMPERATURE
from oda_rl.estimators.settings import Settings
from oda_rl.estimators.tree import kernels
from oda_rl.estimators.tree.layers import Layer
from oda_rl.estimators.tree.tasks import Partition
from oda_rl.estimators.tree.tree import Brood, Cell, Cells, Data, Tree

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

# Passes over the samples of a region, each in an order of its own, before these orders come again.
PASSES = 2
# No more codevectors than one for so many samples, and no fewer samples between two looks.
SAMPLES_PER_CODEVECTOR = 3
MIN_LEVEL_SAMPLES = 30
UNLIMITED = 2**62
# The least width of a mixture: samples that are all the same have none.
LEAST_WIDTH = 1e-200


class GrowthPoint(NamedTuple):
    """One cell that was split: a record of `MultiResolutionODA.history_`.

    `path` are the numbers of the children that lead to it from the root; `n_children` it has got, at
    `temperature`, from `n_samples` of its own that were presented `n_samples_seen` times; the sum of
    their errors fell from `loss_before` to `loss`. `n_leaves` the tree has had since then, whose growing
    had taken `seconds`.
    """

    path: tuple[int, ...]
    n_children: int
    temperature: float
    n_samples: int
    n_samples_seen: int
    loss_before: float
    loss: float
    n_leaves: int
    seconds: float


class Region(NamedTuple):
    """The codevectors that were found for the samples of one cell."""

    location: Array
    own: Labels
    share: Array
    width: float
    temperature: float
    n_seen: int


class Sprout(NamedTuple):
    """All that is needed to anneal the children of a cell."""

    samples: Array
    labels: Labels
    weight: Array
    n_inputs: int
    by_labels: bool
    room: int
    order: Labels


def anneal_region(settings: Settings, layer: Layer, sprout: Sprout) -> Region:
    """Anneal the children of one cell (Algorithm 1, or 4 where samples have labels)."""
    samples, labels, weight = sprout.samples, sprout.labels, sprout.weight
    n, d = samples.shape
    room = max(int((np.bincount(labels) > 0).sum()), sprout.room)
    cells = BookArrays.empty(d, room + 2)
    rule = GrowthRule(
        t_max=0.0 if isinstance(settings.t_max, str) else float(settings.t_max),
        t_min=-LAST_TEMPERATURE if layer.t_min in (None, "auto") else float(layer.t_min),
        cooling=float(settings.cooling.factor),
        by_lambda=settings.cooling.parameter == "lambda",
        a=float(settings.stepsize.a),
        b=float(settings.stepsize.b),
        max_codevectors=room,
        max_samples=int(UNLIMITED if layer.max_samples is None else layer.max_samples),
        samples_per_cell=int(settings.samples_per_cell),
        min_samples=MIN_LEVEL_SAMPLES,
        tol_converge=float(settings.tol_converge),
        tol_merge=float(settings.tol_merge),
        min_weight=float(settings.min_weight),
        perturbation=float(settings.perturbation),
        n_inputs=sprout.n_inputs,
        by_labels=sprout.by_labels,
        min_improvement=float(layer.min_improvement or 0.0),
    )
    divergence = settings.divergence
    k, temperature, seen, _, within = grow(
        divergence.kind, divergence.minimum, samples, labels, weight, sprout.order, rule, cells
    )
    return region_of(cells, k, within, sprout.n_inputs, temperature, seen, n)


def region_of(
    cells: BookArrays,
    k: int,
    within: float,
    n_inputs: int,
    temperature: float,
    n_seen: int,
    n_samples: int,
) -> Region:
    """Codevectors with the width of their mixture: twice the divergence `within` cells per freedom."""
    mass = cells.weight[:k]
    total = mass.sum()
    free = max(n_samples - k, 0.25 * n_samples) / n_samples
    width = max(2.0 * within / (total * free * n_inputs), LEAST_WIDTH)
    location, label = cells.location[:n_inputs, :k], cells.label[:k]
    return Region(location, label, mass / total, width, temperature, n_seen)


class Grower:
    """Grows the layers of a tree, one after the other.

    Parameters
    ----------
    tree : Tree
        Changed in place.
    task : Partition, Classes or Outputs
        What is learned.
    settings : Settings
        Of the annealing.
    entropy : int
        Seeds the orders of the samples of all regions: how many grow at a time makes no difference.
    n_jobs : int or None, default=None
        Threads that anneal regions; kernels do not hold Python's lock.
    max_leaves : int or None, default=None
        Leaves, at most.
    """

    def __init__(
        self,
        tree: Tree,
        task: Partition,
        settings: Settings,
        entropy: int,
        n_jobs: int | None = None,
        max_leaves: int | None = None,
    ) -> None:
        self.tree, self.task, self.settings = tree, task, settings
        self.entropy, self.n_jobs, self.max_leaves = entropy, n_jobs, max_leaves
        self.n_leaves = tree.n_leaves
        self.n_seen = 0
        self.samples_per_codevector = SAMPLES_PER_CODEVECTOR
        self.history: list[GrowthPoint] = []
        self._start = time.perf_counter()

    def plant(self, data: Data) -> None:
        """The root, with all samples in it."""
        tree = self.tree
        scaled = tree.features(0, data.samples)
        root = tree.layers[0]
        root.append((data.weight @ scaled / data.weight.sum())[:, None], np.zeros(1, dtype=np.int64))
        at, closest = np.zeros(len(scaled), dtype=np.int64), np.empty(len(scaled))
        first, one = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64)
        kernels.nearest_child(tree.divergence.kind, scaled, root.location, first, one, at, closest)
        self.task.add(root, at, scaled, data.targets, data.weight, closest)
        root.add(at, data.samples, data.weight)
        self.task.settle(root, first, None)
        self.n_leaves = 1

    def grow(self, layers: Sequence[Layer], data: Data) -> None:
        """All layers below the root."""
        at, rows = np.zeros(len(data.samples), dtype=np.int64), np.arange(len(data.samples))
        everything, scaled = data.samples, self.tree.features(0, data.samples)
        for depth, layer in enumerate(layers):
            if depth > 0 and not self.tree.features.same(depth, depth - 1):
                scaled = self.tree.features(depth, everything)[rows]
            at = self.grow_layer(depth, layer, at, scaled, data)
            inside = np.flatnonzero(at >= 0)
            if len(inside) == 0 or depth + 1 == len(layers):
                return
            if len(inside) < len(at):
                at, rows = at[inside], rows[inside]
                scaled, data = scaled[inside], data.take(inside)

    def grow_layer(
        self,
        depth: int,
        layer: Layer,
        at: Labels,
        scaled: Array,
        data: Data,
        only: Labels | None = None,
    ) -> Labels:
        """Split the cells of a layer that are worth it, or `only` some.

        `at` are the cells of the layer in which the samples are, which are `scaled` in its resolution.

        Returns
        -------
        ndarray of shape (n_samples,), int64
            The cells of the next layer in which the samples now are, -1 where there are none.
        """
        worth = np.flatnonzero(worth_splitting(self.tree.layers[depth], layer))
        chosen = worth if only is None else only
        if len(chosen) == 0:
            return np.full(len(at), -1)
        seed = np.random.SeedSequence(self.entropy, spawn_key=(depth, int(chosen[0])))
        rng, sprouts = np.random.default_rng(seed), []
        for rows in _groups(at, chosen):
            samples, labels = self.task.annealed(scaled[rows], data.targets[rows])
            order = np.concatenate([rng.permutation(len(samples)) for _ in range(PASSES)])
            weight, n_inputs = data.weight[rows], scaled.shape[1]
            room = min(int(layer.max_codevectors or 1), len(labels) // self.samples_per_codevector)
            sprouts.append(Sprout(samples, labels, weight, n_inputs, self.task.by_labels, room, order))
        if self.n_jobs in (None, 1) or len(sprouts) == 1:
            regions = [anneal_region(self.settings, layer, sprout) for sprout in sprouts]
        else:
            regions = Parallel(n_jobs=self.n_jobs, prefer="threads")(
                delayed(anneal_region)(self.settings, layer, sprout) for sprout in sprouts
            )
        return self.split(depth, chosen, regions, layer, at, scaled, data)

    def split(
        self,
        depth: int,
        chosen: Labels,
        regions: Sequence[Region],
        layer: Layer,
        at: Labels,
        scaled: Array,
        data: Data,
    ) -> Labels:
        """Give cells of a layer their children, unless these are of one class or no better.

        Parameters
        ----------
        depth : int
            The layer.
        chosen : ndarray of shape (n_chosen,), int64
            Numbers of leaves, rising.
        regions : sequence of Region
            The codevectors of their children.
        layer : Layer
            The limits.
        at : ndarray of shape (n_samples,), int64
            The cells of the layer in which samples are.
        scaled : ndarray of shape (n_samples, n_features)
            The samples in the resolution of the children.
        data : Data
            The samples as they came.

        Returns
        -------
        ndarray of shape (n_samples,), int64
            As for `grow_layer`.
        """
        tree, task, cells = self.tree, self.task, self.tree.layers[depth]
        self.n_seen += sum(region.n_seen for region in regions)
        brood, child, closest = _brood(tree, depth, chosen, regions, at, scaled)
        block = brood.cells
        task.add(block, child, scaled, data.targets, data.weight, closest)
        block.add(child, data.samples, data.weight)
        prior = task.prior(block, len(cells))
        task.settle(block, np.arange(len(block)), prior)
        task.count_errors(tree.divergence, brood, scaled, child, data.targets, data.weight)
        before = task.losses(tree, depth, at, scaled, data, prior)[chosen]
        after = np.bincount(block.parent, block.loss, len(cells)).astype(float)[chosen]
        good = (brood.n_children[chosen] > 1) & ~task.all_one(brood, chosen)
        good &= after <= before * (1.0 - float(layer.min_improvement or 0.0))
        cells.closed[chosen[~good]] = True
        good &= self._within_limit(before, brood.n_children[chosen] - 1, good)
        moved = tree.adopt(depth, brood, chosen[good])
        self._remember(depth, chosen, regions, before, after, good)
        return np.where(child >= 0, moved[child], -1)

    def _within_limit(self, before: Array, added: Labels, good: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Those that `max_leaves` has room for, cells with the largest errors first."""
        if self.max_leaves is None:
            return good
        chosen, room = np.zeros(len(good), dtype=np.bool_), self.max_leaves - self.n_leaves
        for i in np.argsort(-before, kind="stable"):
            if good[i] and added[i] <= room:
                chosen[i] = True
                room -= int(added[i])
        return chosen

    def _remember(
        self,
        depth: int,
        chosen: Labels,
        regions: Sequence[Region],
        before: Array,
        after: Array,
        good: NDArray[np.bool_],
    ) -> None:
        cells, seconds = self.tree.layers[depth], time.perf_counter() - self._start
        for i in np.flatnonzero(good).tolist():
            number, region = int(chosen[i]), regions[i]
            k = int(cells.count[number])
            self.n_leaves += k - 1
            self.history.append(
                GrowthPoint(
                    self.tree.numbers(Cell(depth, number)),
                    k,
                    region.temperature,
                    int(cells.support[number]),
                    region.n_seen,
                    float(before[i]),
                    float(after[i]),
                    self.n_leaves,
                    seconds,
                )
            )


def worth_splitting(cells: Cells, layer: Layer) -> NDArray[np.bool_]:
    """Leaves with errors, and with enough samples."""
    enough = cells.support >= max(2.0, float(layer.min_support or 1))
    return np.asarray(cells.is_leaf & ~cells.closed & enough & (cells.loss > 1e-12 * cells.mass))


def _brood(
    tree: Tree, depth: int, chosen: Labels, regions: Sequence[Region], at: Labels, scaled: Array
) -> tuple[Brood, Labels, Array]:
    """Children of cells, but those that are nearest to no sample; the samples' children; how near."""
    n = len(tree.layers[depth])
    counts = np.array([region.location.shape[1] for region in regions])
    location = np.ascontiguousarray(np.concatenate([region.location for region in regions], axis=1))
    own = np.concatenate([region.own for region in regions])
    share = np.concatenate([region.share for region in regions])
    parent = np.repeat(chosen, counts)
    count = np.bincount(parent, minlength=n)
    child, closest = at.copy(), np.zeros(len(at))
    first = np.cumsum(count) - count
    kernels.nearest_child(tree.divergence.kind, scaled, location, first, count, child, closest)
    used = np.zeros(len(parent) + 1, dtype=np.bool_)  # one more, for samples without a child: -1
    used[child] = True
    used = used[:-1]
    if not used.all():
        child = np.where(child >= 0, (np.cumsum(used) - 1)[child], -1)
        location, parent, own, share = location[:, used], parent[used], own[used], share[used]
        count = np.bincount(parent, minlength=n)
        first = np.cumsum(count) - count
        share = share / np.maximum(np.bincount(parent, share, n), 1e-300)[parent]
    block = tree.new_cells(depth + 1)
    block.append(location, parent, own=own, share=share)
    width, temperature = np.zeros(n), np.zeros(n)
    width[chosen] = [region.width for region in regions]
    temperature[chosen] = [region.temperature for region in regions]
    return Brood(block, first, count, width, temperature), child, closest


def _groups(at: Labels, cells: Labels) -> list[Any]:
    """The rows in each of the cells."""
    if len(cells) == 1 and len(at) > 0 and at[0] == cells[0] and (at == cells[0]).all():
        return [slice(None)]
    order = np.argsort(at, kind="stable")
    inside = at[order]
    begin, end = np.searchsorted(inside, cells), np.searchsorted(inside, cells, side="right")
    return [order[a:b] for a, b in zip(begin, end, strict=True)]

"""Growing a tree from all samples: layer by layer, with the cells of a layer in parallel."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from oda_rl._types import Array, Labels
from oda_rl.codebook.events import BookArrays
from oda_rl.codebook.growth import GrowthRule, grow
from oda_rl.codebook.schedule import LAST_TEMPERATURE
from oda_rl.estimators.progress import report
from oda_rl.estimators.settings import Settings
from oda_rl.estimators.targets import Data
from oda_rl.estimators.tree.cells import Cell, Cells, Region, children_of, worth_splitting
from oda_rl.estimators.tree.features import Features
from oda_rl.estimators.tree.pruning import Choice, Cuts, choose, cuts
from oda_rl.estimators.tree.settings import Layer, TreeSettings
from oda_rl.estimators.tree.tasks import Classes, Outputs, Partition
from oda_rl.estimators.tree.tree import Tree

# Passes over the samples of a region, each in another random order; further passes repeat these orders.
PASSES = 2
# Least number of samples per codevector of a region, and least number of samples between two checks.
SAMPLES_PER_CODEVECTOR = 3
MIN_REGION_CHECK_INTERVAL = 30
UNLIMITED = 2**62


class GrowthPoint(NamedTuple):
    """One cell that was split: a record of `MultiResolutionODA.history_`.

    `path` has the numbers of the children that lead to the cell from the root. The cell has `n_samples`
    samples and got `n_children`; their annealing ended at `temperature`, after `n_samples_seen`
    presentations of samples. The sum of errors fell from `loss_before` to `loss`. The tree then had
    `n_leaves`, after `seconds` of growing.
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


def anneal_region(settings: Settings, rule: GrowthRule, data: Data, order: Labels) -> Region:
    """Anneal the children of one cell (Algorithm 1, or 4 if samples have labels).

    The samples are presented repeatedly in the given `order`.
    """
    samples, labels, weight = data
    k = max(int((np.bincount(labels) > 0).sum()), rule.max_codevectors)
    rule, cells = rule._replace(max_codevectors=k), BookArrays.empty(samples.shape[1], k + 2)
    kind, minimum = settings.divergence.kind, settings.divergence.minimum
    k, temperature, seen, _, within = grow(kind, minimum, samples, labels, weight, order, rule, cells)
    return Region.of(cells, k, within, rule.n_inputs, len(weight), temperature, seen)


def rule_for(settings: Settings, layer: Layer, n_inputs: int, by_labels: bool) -> GrowthRule:
    """The parameters by which the regions of a layer grow."""
    return GrowthRule(
        t_max=0.0 if isinstance(settings.t_max, str) else float(settings.t_max),
        t_min=-LAST_TEMPERATURE if layer.t_min in (None, "auto") else float(layer.t_min or 0.0),
        cooling=float(settings.cooling.factor),
        by_lambda=settings.cooling.parameter == "lambda",
        a=float(settings.stepsize.a),
        b=float(settings.stepsize.b),
        max_codevectors=int(layer.max_codevectors or 1),
        max_samples=UNLIMITED if layer.max_samples is None else int(layer.max_samples),
        samples_per_cell=int(settings.samples_per_cell),
        min_samples=MIN_REGION_CHECK_INTERVAL,
        tol_converge=float(settings.tol_converge),
        tol_merge=float(settings.tol_merge),
        min_weight=float(settings.min_weight),
        perturbation=float(settings.perturbation),
        n_inputs=n_inputs,
        by_labels=by_labels,
        min_improvement=float(layer.min_improvement or 0.0),
    )


def task_for(
    settings: TreeSettings, n_features: Sequence[int], n_classes: int, n_outputs: int
) -> Partition:
    """Make the task for a tree with these settings and sizes."""
    if settings.kind == "classifier":
        return Classes(n_classes, settings.rule)
    if settings.kind == "clusterer":
        return Partition()
    weight = settings.output_weight / np.sqrt(n_outputs)
    return Outputs(n_outputs, settings.linear, weight, settings.ridge, max(n_features))


class Growth:
    """A growing tree for targets with `sizes`: numbers of classes and of outputs.

    `rng` seeds the sample orders of all regions, so that the result does not depend on how many regions
    grow at a time.
    """

    rescales = True  # whether trees without some samples may have scales of their own

    def __init__(
        self,
        settings: TreeSettings,
        features: Features,
        sizes: tuple[int, int],
        rng: np.random.Generator,
    ) -> None:
        self.settings, self._sizes = settings, sizes
        n_features = [features.n_features(i) for i in range(len(features))]
        self.task = task_for(settings, n_features, *sizes)
        n_model = [self.task.n_model(n) for n in n_features]
        self.tree = Tree(features, settings.annealing.divergence, self.task.n_tally, n_model)
        self.entropy = int(rng.integers(2**62))
        self.n_leaves, self.n_seen = 0, 0
        self.history: list[GrowthPoint] = []
        self._start = time.perf_counter()

    def create_root(self, data: Data) -> None:
        """Create the root at the mean of the samples, without adding these to it."""
        mean = data.weight @ self.tree.features(0, data.samples) / data.weight.sum()
        self.tree.layers[0].append(mean[:, None])
        self.n_leaves = 1

    def add_to_root(self, data: Data, scaled: Array) -> Labels:
        """Add samples to the root; return its number, 0, for each of them."""
        at = np.zeros(len(scaled), dtype=np.int64)
        root = self.tree.layers[0].location.T
        self.add(self.tree.layers[0], at, scaled, data, self.tree.divergence(scaled, root)[:, 0])
        return at

    def add(self, cells: Cells, at: Labels, scaled: Array, data: Data, closest: Array) -> None:
        """Add samples to their cells `at`; `closest` are their divergences from the codevectors."""
        self.task.add(cells, at, scaled, data, closest)
        cells.add(at, data.samples, data.weight)

    def without_cells(self, features: Features, rng: np.random.Generator) -> "Growth":
        """A tree without cells, with the same settings and targets as this one, in `features`."""
        return Growth(self.settings, features, self._sizes, rng)

    def fit(self, layers: Sequence[Layer], data: Data) -> None:
        """Grow the root and the layers below it from samples; then prune splits that do not pay.

        How far is chosen before, on samples left out.
        """
        choice, prunes = Choice(layers), bool(layers) and self.prunes_after_growth
        if prunes and self.settings.validation is not None:
            choice = choose(self, layers, data, self.settings.validation)
            self.task.smoothing, self.task.power = choice.smoothing, choice.power
        self.grow(choice.layers, data)
        if not prunes:
            return
        self._prune(self.cuts(choice.layers, choice.price))

    def cuts(self, layers: Sequence[Layer], price: float) -> Cuts:
        """Which cells of each layer should become leaves at this price of a leaf; see `pruning.cuts`."""
        return cuts(self.tree, layers, price)

    def _prune(self, cut: Cuts) -> None:
        """Make these cells leaves, and drop the records of what was split there and below."""
        self.history = [point for point in self.history if not self._is_below(point.path, cut)]
        self.tree.prune(cut)
        self.n_leaves = 1
        for i, point in enumerate(self.history):
            self.n_leaves += point.n_children - 1
            self.history[i] = point._replace(n_leaves=self.n_leaves)

    @property
    def prunes_after_growth(self) -> bool:
        """Whether splits that do not help are kept until the splits below them are known."""
        return self.task.prunes_after_growth and self.settings.max_leaves is None

    def _is_below(self, path: tuple[int, ...], cut: Sequence[NDArray[np.bool_]]) -> bool:
        """Whether the cell with this `path` is cut, or is below a cell that is."""
        number, ended = 0, bool(cut[0][0])
        for depth, child in enumerate(path):
            number = int(self.tree.layers[depth].first[number]) + child
            ended |= bool(cut[depth + 1][number])
        return ended

    def grow(self, layers: Sequence[Layer], data: Data) -> None:
        """Grow the root and the layers below it from samples, as far as the limits allow."""
        everything, scaled = data.samples, self.tree.features(0, data.samples)
        self.create_root(data)
        at, rows = self.add_to_root(data, scaled), np.arange(len(everything))
        self.task.conclude(self.tree.layers[0], None)
        for depth, layer in enumerate(layers):
            if depth > 0 and not self.tree.features.same(depth, depth - 1):
                scaled = self.tree.features(depth, everything)[rows]
            at = self.grow_layer(depth, layer, at, scaled, data, keep_unhelpful=self.prunes_after_growth)
            report(f"layer {depth + 1}, {self.n_leaves} leaves, {self.n_seen:,} samples")
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
        chosen: Labels | None = None,
        samples_per_codevector: int = SAMPLES_PER_CODEVECTOR,
        keep_unhelpful: bool = False,
    ) -> Labels:
        """Split the cells of a layer that are worth it, or those `chosen`.

        `at` are the cells of the samples in this layer, and `scaled` the samples in its resolution.
        Returns the cells of the samples in the next layer, or -1.
        """
        if chosen is None:
            # The errors of classes and of standardised outputs have the unit 1.
            unit = self.tree.layers[0].mean_loss if self.settings.kind == "clusterer" else 1.0
            chosen = np.flatnonzero(worth_splitting(self.tree.layers[depth], layer, unit))
        if len(chosen) == 0:
            return np.full(len(at), -1)
        seed = np.random.SeedSequence(self.entropy, spawn_key=(depth, int(chosen[0])))
        rng, regions = np.random.default_rng(seed), []
        rule = rule_for(self.settings.annealing, layer, scaled.shape[1], self.task.by_labels)
        for rows in _groups(at, chosen):
            samples, labels = self.task.annealed(scaled[rows], data.targets[rows])
            order = np.concatenate([rng.permutation(len(samples)) for _ in range(PASSES)])
            k = min(rule.max_codevectors, len(labels) // samples_per_codevector)
            own = Data(samples, labels, data.weight[rows])
            regions.append((self.settings.annealing, rule._replace(max_codevectors=k), own, order))
        threads = Parallel(n_jobs=self.settings.n_jobs, prefer="threads")
        found = threads(delayed(anneal_region)(*region) for region in regions)
        return self.split(depth, chosen, found, layer, at, scaled, data, keep_unhelpful)

    def split(
        self,
        depth: int,
        chosen: Labels,
        regions: Sequence[Region],
        layer: Layer,
        at: Labels,
        scaled: Array,
        data: Data,
        keep_unhelpful: bool = False,
    ) -> Labels:
        """Give cells of a layer their children, unless these are all of one class or do not help.

        With `keep_unhelpful` such children are accepted, too, since those below them may be better.

        `chosen` (n_chosen,) are the numbers of leaves in ascending order, and `regions` the codevectors
        of their children; the other arguments and the result are as for `grow_layer`.
        """
        tree, task, cells = self.tree, self.task, self.tree.layers[depth]
        self.n_seen += sum(region.n_seen for region in regions)
        below = tree.new_cells(depth + 1)
        found = children_of(below, tree.divergence, len(cells), chosen, regions, at, scaled)
        children, child, closest = found
        self.add(children.cells, child, scaled, data, closest)
        prior = task.prior(children.cells, len(cells))
        task.conclude(children.cells, prior)
        task.count_errors(tree.divergence, children, scaled, child, data)
        before = task.losses(tree, depth, at, scaled, data, prior)[chosen]
        losses = np.bincount(children.cells.parent, children.cells.loss, len(cells))
        after = losses.astype(float)[chosen]
        good = children.n_children[chosen] > 1
        if not keep_unhelpful:
            good &= ~task.of_one_class(children, chosen)
            good &= after <= before * (1.0 - float(layer.min_improvement or 0.0))
        cells.closed[chosen[~good]] = True
        good &= self._within_limit(before, children.n_children[chosen] - 1, good)
        moved = tree.append_children(depth, children, chosen[good])
        for i in np.flatnonzero(good).tolist():
            cell = Cell(depth, int(chosen[i]))
            self._record_split(cell, regions[i], float(before[i]), float(after[i]))
        return np.where(child >= 0, moved[child], -1)

    def _within_limit(self, before: Array, added: Labels, good: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which of the good splits `max_leaves` allows, cells with the largest errors first."""
        if self.settings.max_leaves is None:
            return good
        chosen, left = np.zeros(len(good), dtype=np.bool_), self.settings.max_leaves - self.n_leaves
        for i in np.argsort(-before, kind="stable"):
            if good[i] and added[i] <= left:
                chosen[i] = True
                left -= int(added[i])
        return chosen

    def _record_split(self, cell: Cell, region: Region, before: float, after: float) -> None:
        cells, seconds = self.tree.layers[cell.layer], time.perf_counter() - self._start
        k, n = int(cells.count[cell.number]), int(cells.support[cell.number])
        self.n_leaves += k - 1
        path, end = self.tree.numbers(cell), (before, after, self.n_leaves, seconds)
        self.history.append(GrowthPoint(path, k, region.temperature, n, region.n_seen, *end))


def _groups(at: Labels, cells: Labels) -> list[Any]:
    """The rows of samples in each of the cells."""
    if len(cells) == 1 and len(at) > 0 and at[0] == cells[0] and (at == cells[0]).all():
        return [slice(None)]
    order = np.argsort(at, kind="stable")
    inside = at[order]
    begin, end = np.searchsorted(inside, cells), np.searchsorted(inside, cells, side="right")
    return [order[a:b] for a, b in zip(begin, end, strict=True)]

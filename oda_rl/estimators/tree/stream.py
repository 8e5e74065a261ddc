"""A tree that grows with a stream: every sample goes to its leaf, and trains what grows there."""

from itertools import count

import numpy as np
from numpy.typing import NDArray

from oda_rl.codebook.annealer import Annealer
from oda_rl.codebook.book import Codebook
from oda_rl.codebook.events import BookArrays
from oda_rl.codebook.growth import begin, to_means
from oda_rl.codebook.schedule import FIRST_TEMPERATURE, LAST_TEMPERATURE
from oda_rl.estimators.settings import Settings
from oda_rl.estimators.tree.growth import Grower, Region, region_of
from oda_rl.estimators.tree.layers import Layer
from oda_rl.estimators.tree.tasks import Partition, Prior
from oda_rl.estimators.tree.tree import Cell, Data, Tree

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

# Samples that a growing cell keeps, for each codevector that it may get, and no fewer than that many.
KEPT_PER_CODEVECTOR, MIN_KEPT = 20, 100


class Bud:
    """The children that grow in one leaf: their annealer, and the latest samples of the leaf.

    Until there are enough samples that differ there is no annealer. The latest samples decide in the
    end whether the children are better than the leaf, and are what the children begin with. If they are
    not, the next try is made with twice as many samples.

    Parameters
    ----------
    layer : Layer
        The limits.
    data : Data
        The samples to begin with.
    """

    def __init__(self, layer: Layer, data: Data) -> None:
        self.layer = layer
        self.data = data
        self.annealer: Annealer | None = None
        self.n_seen, self.n_received, self.try_at = 0, 0, 0
        self.look_at = self.interval

    @property
    def interval(self) -> int:
        """Samples between two looks at what has grown."""
        return max(10, int(self.layer.min_support or 1))

    @property
    def n_kept(self) -> int:
        """Samples that are kept."""
        return max(MIN_KEPT, KEPT_PER_CODEVECTOR * int(self.layer.max_codevectors or 1))

    @property
    def finished(self) -> bool:
        """Whether the annealing is done."""
        limit = self.layer.max_samples
        spent = limit is not None and self.n_seen >= limit
        return self.annealer is not None and (self.annealer.done or spent)

    def keep(self, data: Data) -> None:
        """Take the latest samples in; the oldest go."""
        self.n_received += len(data.weight)
        self.look_at -= len(data.weight)
        joined = self.data.joined(data)
        self.data = (
            joined if len(joined.weight) <= self.n_kept else joined.take(slice(-self.n_kept, None))
        )


class Sprouting:
    """Buds in the leaves of a tree.

    Parameters
    ----------
    tree : Tree
        With a root; changed in place.
    task : Partition, Classes or Outputs
        What is learned.
    settings : Settings
        Of the annealers.
    layers : list of Layer
        The limits.
    grower : Grower
        Splits the cells whose buds have finished.
    """

    def __init__(
        self,
        tree: Tree,
        task: Partition,
        settings: Settings,
        layers: list[Layer],
        grower: Grower,
    ) -> None:
        self.tree, self.task, self.settings = tree, task, settings
        self.layers, self.grower = layers, grower
        self.buds: dict[Cell, Bud] = {}

    def observe(self, data: Data) -> None:
        """Learn from samples in their order."""
        tree = self.tree
        at = np.zeros(len(data.weight), dtype=np.int64)
        scaled = tree.features(0, data.samples)
        closest = tree.divergence(scaled, tree.layers[0].location.T)[:, 0]
        self._add(0, at, scaled, data, closest)
        for depth in count():
            going = self._feed(depth, at, data)
            if len(going) == 0:
                break
            at, data = at[going], data.take(going)
            scaled = tree.features(depth, data.samples)
            closest = np.empty(len(at))
            tree.descend(depth, scaled, at, closest)
            self._add(depth + 1, at, scaled, data, closest)

    def settle(self) -> None:
        """Find what all cells stand for, from the root down, after they have learned."""
        for depth, cells in enumerate(self.tree.layers):
            above = self.tree.layers[depth - 1]
            prior = Prior(above.tally, above.model) if depth > 0 else None
            self.task.settle(cells, np.arange(len(cells)), prior)

    def _add(self, depth: int, at: Labels, scaled: Array, data: Data, closest: Array) -> None:
        cells = self.tree.layers[depth]
        self.task.add(cells, at, scaled, data.targets, data.weight, closest)
        cells.add(at, data.samples, data.weight)

    def _feed(self, depth: int, at: Labels, data: Data) -> Labels:
        """Give samples to the buds of their leaves; returns the rows of those that go further down."""
        cells = self.tree.layers[depth]
        going = [np.flatnonzero(cells.count[at] > 0)]
        # Leaves of the last layer only count their samples.
        leaves = at[cells.count[at] == 0] if depth < len(self.layers) else at[:0]
        for number in np.unique(leaves):
            rows = np.flatnonzero(at == number)
            used = self._grow(Cell(depth, int(number)), data.take(rows))
            going.append(rows[used:])
        return np.sort(np.concatenate(going))

    def _grow(self, cell: Cell, data: Data) -> int:
        """Train the bud of a leaf; returns how many samples it used before the leaf was split."""
        n = len(data.weight)
        if cell not in self.buds:
            first = data.take(slice(0, 0))
            self.buds[cell] = Bud(self.layers[cell.layer], first)
        bud = self.buds[cell]
        used = 0
        while used < n:
            part = data.take(slice(used, used + bud.look_at))
            used += len(part.weight)
            bud.keep(part)
            if bud.annealer is not None:
                self._anneal(bud, cell.layer, part)
            if bud.look_at > 0:
                break
            bud.look_at = bud.interval
            if bud.annealer is None and bud.n_received >= bud.try_at:
                self._begin(bud, cell)
            elif bud.finished and self._bloom(bud, cell):
                return used
            elif bud.annealer is not None:
                self._admit(bud, cell.layer)
        return used

    def _begin(self, bud: Bud, cell: Cell) -> None:
        """Begin to anneal, if the samples that are kept differ."""
        samples, labels, weight = self._seen_by(bud, cell.layer)
        n_labels = int(labels.max()) + 1
        if self.task.by_labels and len(np.unique(labels)) == 1:
            return
        d = samples.shape[1]
        cells = BookArrays.empty(d, n_labels)
        k, critical = begin(self.tree.divergence.kind, samples, labels, weight, cells)
        if not critical > 0.0:
            return
        book = Codebook(d, {}, self.tree.divergence)
        for i in range(k):
            book.add(cells.location[:, i], float(cells.weight[i]), int(cells.label[i]))
            book.axis[:, i] = cells.axis[:, i]
        # Seeded by the name of the cell, since leaves are trained in no fixed order.
        seed = np.random.default_rng([self.grower.entropy, *self.tree.numbers(cell)])
        bud.annealer = self.annealer_for(book, critical, bud.layer, seed)
        self._observe(bud, samples, labels, weight)

    def annealer_for(
        self, book: Codebook, critical: float, layer: Layer, seed: np.random.Generator
    ) -> Annealer:
        """An annealer for a codebook that has just begun, in data with a critical temperature."""
        settings = self.settings
        automatic = isinstance(settings.t_max, str)
        t_max = FIRST_TEMPERATURE * critical if automatic else float(settings.t_max)
        t_min = LAST_TEMPERATURE * t_max if layer.t_min in (None, "auto") else float(layer.t_min)
        return Annealer(
            book,
            t_max=max(t_max, t_min),
            t_min=t_min,
            cooling=settings.cooling,
            stepsize=settings.stepsize,
            max_codevectors=max(int(layer.max_codevectors or 1), len(book)),
            tol_converge=settings.tol_converge,
            tol_merge=settings.tol_merge,
            min_weight=settings.min_weight,
            perturbation=settings.perturbation,
            bifurcation="critical",
            check_every=max(1, settings.samples_per_cell // 2),
            max_samples=settings.samples_per_cell,
            memory=settings.samples_per_cell // 10,
            min_samples=30,
            harden=False,
            seed=seed,
        )

    def _seen_by(self, bud: Bud, depth: int) -> tuple[Array, Labels, Array]:
        samples, labels = self.task.annealed(
            self.tree.features(depth, bud.data.samples), bud.data.targets
        )
        return np.ascontiguousarray(samples), labels, bud.data.weight

    def _anneal(self, bud: Bud, depth: int, part: Data) -> None:
        samples, labels = self.task.annealed(self.tree.features(depth, part.samples), part.targets)
        self._observe(bud, np.ascontiguousarray(samples), labels, part.weight)

    def _observe(self, bud: Bud, samples: Array, labels: Labels, weight: Array) -> None:
        """One step of Algorithm 1 or 4 for every sample."""
        assert bud.annealer is not None
        bud.annealer.observe(samples, labels, weight, until_done=True)
        bud.n_seen += len(weight)

    def _admit(self, bud: Bud, depth: int) -> None:
        """Give classes that are new to the leaf a codevector."""
        annealer = bud.annealer
        if annealer is None or not self.task.by_labels or annealer.done:
            return
        book = annealer.codebook
        samples, labels, _ = self._seen_by(bud, depth)
        for label in np.setdiff1d(labels, book.labels):
            mean = samples[labels == label].mean(axis=0)
            book.add(mean, 1.0 / (1.0 + len(book)), int(label))
            annealer.reference = book.location.copy()
            annealer.max_codevectors = max(annealer.max_codevectors, len(book))

    def _bloom(self, bud: Bud, cell: Cell) -> bool:
        """Make a bud's codevectors the children of its leaf, if that pays; else begin anew later."""
        annealer = bud.annealer
        assert annealer is not None
        region = self._region(bud, cell)
        depth, number = cell
        scaled = self.tree.features(depth, bud.data.samples)
        at = np.full(len(scaled), number)
        child = self.grower.split(depth, np.array([number]), [region], bud.layer, at, scaled, bud.data)
        cells = self.tree.layers[depth]
        if cells.count[number] == 0:
            cells.closed[number] = False
            bud.annealer, bud.n_seen, bud.try_at = None, 0, 2 * bud.n_received
            return False
        del self.buds[cell]
        if depth + 1 < len(self.layers):
            for grandchild in np.unique(child):
                bud_below = Bud(self.layers[depth + 1], bud.data.take(child == grandchild))
                self.buds[Cell(depth + 1, int(grandchild))] = bud_below
        return True

    def _region(self, bud: Bud, cell: Cell) -> Region:
        samples, labels, weight = self._seen_by(bud, cell.layer)
        assert bud.annealer is not None
        book = bud.annealer.codebook
        present = np.isin(book.labels, labels)
        k = int(present.sum())
        cells = BookArrays.empty(book.n_features, k)
        cells.location[:] = book.codevectors[present].T
        cells.label[:] = book.labels[present]
        within = to_means(self.tree.divergence.kind, samples, labels, weight, k, cells)
        return region_of(
            cells,
            k,
            float(within),
            self.tree.features.n_features(cell.layer),
            bud.annealer.temperature,
            bud.n_seen,
            len(labels),
        )

    def insert_class(self, place: int) -> None:
        """Know a new class, which is at this place among all."""
        for cells in self.tree.layers:
            cells.tally = np.insert(cells.tally, place, 0.0, axis=1)
            cells.label += cells.label >= place
            cells.own += cells.own >= place
        self.tree.n_tally += 1
        for bud in self.buds.values():
            targets = bud.data.targets
            bud.data = bud.data._replace(targets=targets + (targets >= place))
            if bud.annealer is not None:
                labels = bud.annealer.codebook.label
                labels += labels >= place

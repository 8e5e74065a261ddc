"""The state that a `MultiResolutionODA` keeps between calls: a tree that can learn from a stream."""

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl._schema import Rules, Schema, Sized, Sizes, expect
from oda_rl._types import Array, Labels
from oda_rl.estimators.targets import Data, data_schema
from oda_rl.estimators.tree.candidates import CANDIDATE, Candidate
from oda_rl.estimators.tree.cells import CELLS, Cell
from oda_rl.estimators.tree.features import FEATURES
from oda_rl.estimators.tree.growth import GrowthPoint, task_for
from oda_rl.estimators.tree.predicted import count_errors, recount_errors
from oda_rl.estimators.tree.refining import Limits, Refinement, Refining
from oda_rl.estimators.tree.settings import Layer, TreeSettings
from oda_rl.estimators.tree.tasks import ALL, Classes, Outputs, Prior
from oda_rl.estimators.tree.tree import are_a_tree


def layers_schema(settings: TreeSettings, n: list[int], n_layers: int, sizes: Sizes) -> Schema:
    """Schema of `Tree.get_state` for `n_layers`, with the numbers of features `n` of resolutions."""
    task = task_for(settings, n, sizes["C"], sizes["m"])
    sizes["T"] = task.n_tally
    above = [n[min(max(0, i - 1), len(n) - 1)] for i in range(n_layers)]
    cells = Rules(CELLS, task.tally_is_sound)
    return Rules(tuple(Sized(cells, f=f, M=task.n_model(f)) for f in above), are_a_tree)


def session_schema(settings: TreeSettings) -> Schema:
    """Schema of `TreeSession.get_state`, with d features, C classes and m outputs."""

    def layers(around: Any, sizes: Sizes) -> Schema:
        return layers_schema(settings, around["features"]["n_features"], len(around["layers"]), sizes)

    def candidates_are_leaves(session: Any, sizes: Sizes) -> None:
        n, cells = session["features"]["n_features"], session["layers"]
        more = sizes["m"] if settings.kind == "regressor" else 0
        for i, ((layer, number), own) in enumerate(session["candidates"]):
            leaf = layer < min(len(cells), len(settings.layers)) and number < len(cells[layer]["count"])
            right = leaf and cells[layer]["count"][number] == 0
            expect(right, f"candidates/{i}/0", f"is {(layer, number)}", "a leaf above the last layer")
            if "annealer" in own:
                found = len(own["annealer"]["book"]["location"])
                wanted = n[min(layer, len(n) - 1)] + more
                place = f"candidates/{i}/1/annealer/book/location"
                expect(found == wanted, place, f"has {found} features", f"{wanted} features")

    number, path = "float in [0, inf)", ["count"]
    point = (path, "count", number, "count", "count", number, number, "count", number)
    entries = {
        "features": FEATURES,
        "layers": layers,
        "entropy": f"int in [0, {2**62}]",
        "smoothing": number,
        "power": "float in (0, 1]",
        "n_seen": "count",
        "history": [point],
        "candidates": [(("count", "count"), CANDIDATE | {"data": data_schema(settings.kind)})],
    }
    if settings.kind == "regressor":
        entries["bounds"] = Rules("float[2, m] in [-inf, inf]", _are_in_order)
    return Rules(entries, candidates_are_leaves)


def _are_in_order(bounds: Any, sizes: Sizes) -> None:
    """A rule: the least outputs are not above the largest."""
    expect(
        np.all(bounds[0] <= bounds[1]),
        "",
        "has minima above maxima",
        "the smallest and the largest outputs",
    )


class TreeSession(Refining):
    """A tree that also learns from a stream, with a candidate split in every leaf that may grow."""

    def __init__(self, *own: Any) -> None:
        super().__init__(*own)
        self.candidates: dict[Cell, Candidate] = {}
        self._concluded = True
        # cells that have been concluded since the last sample was added
        self._current: set[Cell] = set()

    def fit(self, layers: Sequence[Layer], data: Data) -> None:
        """As `Growth.fit`; then count the errors of the predictions for these samples."""
        super().fit(layers, data)
        count_errors(self.task, self.tree, data)

    # -- a stream --------------------------------------------------------------------------------

    def observe(self, data: Data) -> None:
        """Learn from samples in order: each goes down to its leaf and trains the candidate there."""
        tree, self._concluded = self.tree, False
        self._current.clear()
        scaled = tree.features(0, data.samples)
        at = self.add_to_root(data, scaled)
        for depth in count():
            going = self._train(depth, at, data)
            if len(going) == 0:
                break
            at, data, scaled, closest = at[going], data.take(going), scaled[going], np.empty(len(going))
            if depth > 0 and not tree.features.same(depth, depth - 1):
                scaled = tree.features(depth, data.samples)
            tree.descend(depth, scaled, at, closest)
            self.add(tree.layers[depth + 1], at, scaled, data, closest)

    def conclude(self) -> None:
        """Update classes, models and errors of all cells from the root down, if samples were added."""
        if self._concluded:
            return
        for layer in range(len(self.tree.layers)):
            self._conclude_in(layer)
        recount_errors(self.task, self.tree)
        self._concluded = True

    def predict(self, samples: Array) -> NDArray[Any]:
        """Predict as the task does. For a single sample only the cells on its way are concluded."""
        if len(samples) > 1:
            self.conclude()
        if self._concluded:
            return self.task.predict(self.tree, samples)
        self._conclude_one(Cell(0, 0))
        return self.task.predict(self.tree, samples, self._way_down(samples))

    def _way_down(self, sample: Array) -> Iterator[Any]:
        for step in self.tree.walk(sample):
            layer, _, _, at, _ = step
            self._conclude_one(Cell(layer, int(at[0])))
            yield step

    def _conclude_one(self, cell: Cell) -> None:
        if cell not in self._current:
            self._conclude_in(cell.layer, np.array([cell.number]))
            self._current.add(cell)

    def _conclude_in(self, layer: int, which: Labels | slice = ALL) -> None:
        above = self.tree.layers[layer - 1] if layer > 0 else None
        prior = None if above is None else Prior(above.tally, above.model)
        self.task.conclude(self.tree.layers[layer], prior, which)

    def insert_class(self, place: int) -> None:
        """Insert a new class with the number `place`."""
        assert isinstance(self.task, Classes)
        self.task.n_classes += 1
        self.task.n_tally += 1
        self.tree.insert_class(place)
        for candidate in self.candidates.values():
            candidate.insert_class(place)

    def _train(self, depth: int, at: Labels, data: Data) -> Labels:
        """Train the candidates of the leaves; return the rows of samples that go on to a next layer."""
        cells, layers = self.tree.layers[depth], self.settings.layers
        going = [np.flatnonzero(cells.count[at] > 0)]
        # Leaves of the last layer have no candidates.
        leaves = at[cells.count[at] == 0] if depth < len(layers) else at[:0]
        for number in np.unique(leaves):
            rows, cell = np.flatnonzero(at == number), Cell(depth, int(number))
            if cell not in self.candidates:
                self.candidates[cell] = Candidate(layers[depth], data.take(slice(0, 0)))
            used = self._train_one(self.candidates[cell], cell, data.take(rows))
            going.append(rows[used:])
        return np.sort(np.concatenate(going))

    def _train_one(self, candidate: Candidate, cell: Cell, data: Data) -> int:
        """Train the candidate of a leaf; return how many samples were used before the leaf was split."""
        used, by_labels = 0, self.task.by_labels
        while used < len(data.weight):
            part = data.take(slice(used, used + candidate.check_in))
            used += len(part.weight)
            candidate.keep(part)
            if candidate.annealer is not None:
                candidate.learn(self._annealed(cell.layer, part))
            if candidate.check_in > 0:
                break
            candidate.check_in = candidate.interval
            if candidate.annealer is None and candidate.n_received >= candidate.try_at:
                kept = self._annealed(cell.layer, candidate.data)
                if not (by_labels and len(np.unique(kept.targets)) == 1):
                    # Seeded by the path of the cell, since leaves are trained in no fixed order.
                    rng = np.random.default_rng([self.entropy, *self.tree.numbers(cell)])
                    candidate.begin(self.settings.annealing, kept, rng)
            elif candidate.finished and self._take_children(candidate, cell):
                return used
            elif by_labels and candidate.annealer is not None:
                candidate.add_labels(self._annealed(cell.layer, candidate.data))
        return used

    def _annealed(self, depth: int, data: Data) -> Data:
        """Samples to anneal in the leaves of a layer, with labels as targets."""
        scaled = self.tree.features(depth, data.samples)
        samples, labels = self.task.annealed(scaled, data.targets)
        return Data(np.ascontiguousarray(samples), labels, data.weight)

    def _take_children(self, candidate: Candidate, cell: Cell) -> bool:
        """Make a candidate's codevectors the children of its leaf if that helps, else reset it."""
        depth, number = cell
        data, layers = candidate.data, self.settings.layers
        region = candidate.region(self._annealed(depth, data), self.tree.features.n_features(depth))
        scaled = self.tree.features(depth, data.samples)
        at = np.full(len(scaled), number)
        child = self.split(depth, np.array([number]), [region], candidate.layer, at, scaled, data)
        cells = self.tree.layers[depth]
        if cells.count[number] == 0:
            cells.closed[number] = False
            candidate.discard()
            return False
        del self.candidates[cell]
        if depth + 1 < len(layers):
            for below in np.unique(child):
                own = Candidate(layers[depth + 1], data.take(child == below))
                self.candidates[Cell(depth + 1, int(below))] = own
        return True

    def refine(self, data: Data, limits: Limits) -> Refinement:
        """As `Refining.refine`; candidates of leaves that were split are dropped."""
        found = super().refine(data, limits)
        count = [cells.count for cells in self.tree.layers]
        self.candidates = {
            cell: own for cell, own in self.candidates.items() if count[cell.layer][cell.number] == 0
        }
        return found

    # -- storing ---------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """Return the state as plain values and arrays, for a model file."""
        bounds = {"bounds": self.task.bounds} if isinstance(self.task, Outputs) else {}
        return bounds | {
            "features": self.tree.features.get_state(),
            "layers": self.tree.get_state(),
            "entropy": self.entropy,
            "smoothing": self.task.smoothing,
            "power": self.task.power,
            "n_seen": self.n_seen,
            "history": [list(point) for point in self.history],
            "candidates": [[list(cell), own.get_state()] for cell, own in self.candidates.items()],
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore the state that `get_state` returned, in a new session with its features."""
        self.tree.set_state(state["layers"])
        self.n_leaves = self.tree.n_leaves
        self.entropy, self.n_seen = state["entropy"], state["n_seen"]
        self.task.smoothing = float(state["smoothing"])
        self.task.power = float(state["power"])
        if isinstance(self.task, Outputs):
            self.task.bounds[:] = state["bounds"]
        self.history = [GrowthPoint(tuple(point[0]), *point[1:]) for point in state["history"]]
        for place, own in state["candidates"]:
            cell, annealing = Cell(*place), self.settings.annealing
            layer = self.settings.layers[cell.layer]
            self.candidates[cell] = Candidate.restored(layer, annealing, own)

"""Candidate splits of a tree that learns from a stream: children that are annealed inside a leaf."""

from typing import Any

import numpy as np

from oda_rl._schema import Sized
from oda_rl.codebook.annealer import Annealer
from oda_rl.codebook.annealer_state import ANNEALER
from oda_rl.codebook.book import BOOK, Codebook
from oda_rl.codebook.events import BookArrays
from oda_rl.codebook.growth import begin, to_means
from oda_rl.estimators.settings import Settings
from oda_rl.estimators.targets import Data, make_place
from oda_rl.estimators.tree.cells import Region
from oda_rl.estimators.tree.growth import MIN_REGION_CHECK_INTERVAL
from oda_rl.estimators.tree.settings import Layer

# Number of samples that a candidate keeps for each codevector allowed, and least number in all.
KEPT_PER_CODEVECTOR, MIN_KEPT = 20, 100
# Least number of samples between two checks.
MIN_INTERVAL = 10
# Attributes that are stored unchanged.
COUNTERS = ("n_seen", "n_received", "try_at", "check_in")
# Schema of `Candidate.get_state` without its entry "data", which depends on the type of the targets.
CANDIDATE = {
    **dict.fromkeys(("n_seen", "n_received", "try_at"), "count"),
    "check_in": "count in [1, inf)",
    "annealer?": {
        "book": Sized(BOOK, P=0, labels="C"),
        "state": ANNEALER,
        "max_codevectors": "count in [1, inf)",
        "t_min": "float in (0, inf)",
    },
}


class Candidate:
    """The children that are annealed in one leaf: their annealer, and the latest samples of the leaf.

    There is no annealer until enough samples differ. The latest samples, which are `data` at first, show
    in the end whether the children are better than the leaf. If so, they become the first samples of the
    children; if not, the next attempt is made after twice as many samples.

    "Samples to anneal" are those of the leaf in its resolution, with labels as targets.
    """

    def __init__(self, layer: Layer, data: Data) -> None:
        self.layer = layer
        self.data = data
        self.annealer: Annealer | None = None
        self.n_seen, self.n_received, self.try_at = 0, 0, 0
        self.check_in = self.interval

    @property
    def interval(self) -> int:
        """Number of samples between two checks."""
        return max(MIN_INTERVAL, int(self.layer.min_support or 1))

    @property
    def finished(self) -> bool:
        """Whether the annealing is done."""
        limit = self.layer.max_samples
        spent = limit is not None and self.n_seen >= limit
        return self.annealer is not None and (self.annealer.done or spent)

    def keep(self, data: Data) -> None:
        """Add the latest samples, and drop the oldest."""
        self.n_received += len(data.weight)
        self.check_in -= len(data.weight)
        n = max(MIN_KEPT, KEPT_PER_CODEVECTOR * int(self.layer.max_codevectors or 1))
        joined = self.data.joined(data)
        self.data = joined if len(joined.weight) <= n else joined.take(slice(-n, None))

    def begin(self, settings: Settings, data: Data, rng: np.random.Generator) -> None:
        """Make the annealer and train it with the samples to anneal, unless these are all equal."""
        samples, labels, weight = data
        divergence = settings.divergence
        cells = BookArrays.empty(samples.shape[1], int(labels.max()) + 1)
        k, critical = begin(divergence.kind, samples, labels, weight, cells)
        if not critical > 0.0:
            return
        book = Codebook(samples.shape[1], {}, divergence)
        for i in range(k):
            book.add(cells.location[:, i], float(cells.weight[i]), int(cells.label[i]))
            book.axis[:, i] = cells.axis[:, i]
        self.annealer = self._annealer(settings, book, critical, rng)
        self.learn(data)

    def _annealer(
        self, settings: Settings, book: Codebook, critical: float, rng: np.random.Generator
    ) -> Annealer:
        """Make an annealer for an initial codebook; `critical` is the data's critical temperature."""
        t_max, t_min = settings.t_max, self.layer.t_min or "auto"
        if not isinstance(t_max, str) and not isinstance(t_min, str):
            t_max = max(t_max, t_min)
        k = max(int(self.layer.max_codevectors or 1), len(book))
        own = settings._replace(max_codevectors=k, t_max=t_max, t_min=t_min, finish=False)
        return own.annealer(book, critical, MIN_REGION_CHECK_INTERVAL, rng)

    def learn(self, data: Data) -> None:
        """Make one step of Algorithm 1 or 4 for every sample to anneal."""
        assert self.annealer is not None
        self.annealer.observe(*data, until_done=True)
        self.n_seen += len(data.weight)

    def add_labels(self, data: Data) -> None:
        """Add a codevector for each label that is new among the samples to anneal."""
        annealer = self.annealer
        if annealer is None or annealer.done:
            return
        book = annealer.codebook
        for label in np.setdiff1d(data.targets, book.labels):
            mean = data.samples[data.targets == label].mean(axis=0)
            book.add(mean, 1.0 / (1.0 + len(book)), int(label))
            annealer.reference = book.location.copy()
            annealer.max_codevectors = max(annealer.max_codevectors, len(book))

    def region(self, data: Data, n_inputs: int) -> Region:
        """The codevectors of the labels among the samples to anneal, at temperature zero."""
        assert self.annealer is not None
        book, temperature = self.annealer.codebook, self.annealer.temperature
        present = np.isin(book.labels, data.targets)
        k = int(present.sum())
        cells = BookArrays.empty(book.n_features, k)
        cells.location[:] = book.codevectors[present].T
        cells.label[:] = book.labels[present]
        within = to_means(book.divergence.kind, *data, k, cells)
        n = len(data.weight)
        return Region.of(cells, k, float(within), n_inputs, n, temperature, self.n_seen)

    def discard(self) -> None:
        """Discard the children; the next attempt waits for twice as many samples as received so far."""
        self.annealer, self.n_seen, self.try_at = None, 0, 2 * self.n_received

    def insert_class(self, place: int) -> None:
        """Renumber the classes after a new class got the number `place`."""
        self.data = self.data._replace(targets=make_place(self.data.targets, place))
        if self.annealer is not None:
            labels = self.annealer.codebook.label
            labels[:] = make_place(labels, place)

    def get_state(self) -> dict[str, Any]:
        """Return the state as plain values and arrays, for a model file."""
        state: dict[str, Any] = {name: getattr(self, name) for name in COUNTERS}
        state["data"] = self.data._asdict()
        if self.annealer is not None:
            state["annealer"] = {
                "state": self.annealer.get_state(),
                "book": self.annealer.codebook.get_state(),
                "max_codevectors": self.annealer.max_codevectors,
                "t_min": self.annealer.t_min,
            }
        return state

    @classmethod
    def restored(cls, layer: Layer, settings: Settings, state: dict[str, Any]) -> "Candidate":
        """Make a candidate from what `get_state` returned."""
        candidate = cls(layer, Data(**state["data"]))
        for name in COUNTERS:
            setattr(candidate, name, state[name])
        found: dict[str, Any] | None = state.get("annealer")
        if found is not None:
            arrays = found["book"]
            book = Codebook(len(arrays["location"]), {}, settings.divergence)
            book.set_state(arrays)
            annealer = candidate._annealer(settings, book, 1.0, np.random.default_rng())
            book.set_state(arrays)  # again: the annealer has replaced axes of length zero by random ones
            annealer.set_state(found["state"])
            annealer.max_codevectors, annealer.t_min = found["max_codevectors"], found["t_min"]
            candidate.annealer = annealer
        return candidate

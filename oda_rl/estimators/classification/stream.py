"""Classes learned from a stream: one annealer for each, in features whose scaling is learned along."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oda_rl.estimators.classification.book import Cells, ClassBook, book_of, with_votes
from oda_rl.estimators.classification.moves import cells_of, move
from oda_rl.estimators.classification.path import Choice, min_level_samples
from oda_rl.estimators.classification.stream_tuning import repel, tune
from oda_rl.estimators.feature_scaling import NO_SCALING, Moments, Scaling
from oda_rl.estimators.session import Run, Settings

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

# A class begins to anneal after so many of its samples, as a part of `n_warmup`.
CLASS_WARMUP = 0.2
# Codevectors per class that "auto" stands for, and in all.
AUTO_PER_CLASS, AUTO_MAX = 40, 400


class Mode(NamedTuple):
    """How classes share codevectors and features: parameters of the classifier."""

    mode: str
    scale: str | None
    max_codevectors: int | str
    fine_tune: str | None

    def room(self, n_classes: int) -> int:
        """K_max for so many classes."""
        if isinstance(self.max_codevectors, str):
            return max(n_classes, min(AUTO_PER_CLASS * n_classes, AUTO_MAX))
        return max(self.max_codevectors, n_classes)


class Stream:
    """What an `ODAClassifier` keeps between its calls.

    Parameters
    ----------
    settings : Settings
        Of the annealers.
    mode : Mode
        Of the classifier.
    n_features : int
        Dimension.
    rng : Generator
        Of everything drawn at random.
    """

    def __init__(
        self, settings: Settings, mode: Mode, n_features: int, rng: np.random.Generator
    ) -> None:
        self.settings, self.mode, self.rng = settings, mode, rng
        self.n_features = n_features
        self.moments = Moments(n_features)
        self.scaling: Scaling = NO_SCALING
        self.runs: list[Run] = []
        self.mass, self.counts = np.empty(0), np.empty(0)
        self.choice = Choice()
        self.turned = False
        self.n_seen = 0
        self.n_measured = 0
        self.rescale_at = settings.n_warmup
        self.waiting = np.empty((0, n_features)), np.empty(0, dtype=np.int64), np.empty(0)
        self.fixed: ClassBook | None = None

    @property
    def shared(self) -> bool:
        """Whether all classes have one partition."""
        return self.mode.mode == "majority"

    @property
    def n_classes(self) -> int:
        """Classes known."""
        return len(self.counts)

    @property
    def is_warm(self) -> bool:
        """Whether the annealing has begun."""
        return self.rescale_at > self.settings.n_warmup

    def resume(self, settings: Settings, mode: Mode) -> None:
        """Take over parameters that have changed."""
        self.settings, self.mode = settings, mode
        self._share_room()

    # -- classes ---------------------------------------------------------------------------------

    def insert_classes(self, places: list[int]) -> None:
        """Know new classes, which are at these places among all, in rising order."""
        for place in places:
            self.mass, self.counts = (np.insert(array, place, 0.0) for array in (self.mass, self.counts))
            self.moments.insert(place)
            samples, labels, weight = self.waiting
            self.waiting = samples, labels + (labels >= place), weight
            if not self.shared:
                self.runs.insert(place, self.new_run())
            for run in self.runs if self.shared else []:
                if run.annealer is not None:
                    run.annealer.codebook.insert_column("votes", place)
        if self.shared:
            if not self.runs:
                self.runs.append(self.new_run())
            self.runs[0].payload = {"votes": (self.n_classes, "count")}
        if places:
            self.fixed = None
            self._share_room()

    def new_run(self) -> Run:
        """A run that has seen nothing."""
        run = Run(self.own_settings(), self.n_features, self.rng)
        run.min_samples = min_level_samples(run.settings)
        return run

    def own_settings(self) -> Settings:
        """Settings of one annealer."""
        n_classes = max(1, self.n_classes)
        room = self.mode.room(n_classes)
        share = room if self.shared else max(1, room // n_classes)
        warm = self.settings.n_warmup
        if not self.shared:
            warm = min(warm, max(2, int(CLASS_WARMUP * warm)))
        return self.settings._replace(max_codevectors=share, n_warmup=warm, finish=True)

    def _share_room(self) -> None:
        """Divide K_max among the classes; those with more than their share give it back where needed."""
        own = self.own_settings()
        sizes = [1 if run.annealer is None else len(run.annealer.codebook) for run in self.runs]
        over = sum(sizes) > self.mode.room(self.n_classes)
        for run in self.runs:
            run.resume(own)
            if run.annealer is None:
                continue
            book = run.annealer.codebook
            run.annealer.max_codevectors = max(own.max_codevectors, 0 if over else len(book))
            if over and len(book) > own.max_codevectors:
                book.merge_surplus(own.max_codevectors)
                run.annealer.reference = book.location.copy()

    # -- learning --------------------------------------------------------------------------------

    def observe(self, samples: Array, labels: Labels, weight: Array) -> None:
        """Learn from samples in their order."""
        self.n_seen += len(samples)
        self.fixed = None
        while len(samples) > 0:
            room = self.rescale_at - self.n_measured
            piece = samples[:room], labels[:room], weight[:room]
            samples, labels, weight = samples[room:], labels[room:], weight[room:]
            self._measure(*piece)
            if self.is_warm:
                self._learn(*piece)
            else:
                self.waiting = tuple(  # type: ignore[assignment]
                    np.concatenate(pair) for pair in zip(self.waiting, piece, strict=True)
                )
            if self.n_measured == self.rescale_at:
                self.rescale_at *= 2
                self._rescale()

    def _measure(self, samples: Array, labels: Labels, weight: Array) -> None:
        if not self.turned:
            self.moments.observe(samples, labels, weight)
        self.n_measured += len(samples)
        for c, w in zip(labels, weight, strict=True):
            self.counts[c] += 1.0
            self.mass[c] += w

    def _learn(self, samples: Array, labels: Labels, weight: Array) -> None:
        scaled = self.scaling(samples)
        if self.shared or self.mode.mode == "lvq":
            self._learn_one_by_one(scaled, labels, weight)
            return
        if self.mode.fine_tune is not None:
            done = 0
            while done < len(scaled) and not self.annealed:
                rows = slice(done, done + 1)
                self.runs[labels[done]].observe(scaled[rows], weight[rows])
                done += 1
            tune(self, scaled[done:], labels[done:], weight[done:])
            return
        for c in np.unique(labels):
            own = np.flatnonzero(labels == c)
            self.runs[c].observe(np.ascontiguousarray(scaled[own]), weight[own])

    def _learn_one_by_one(self, samples: Array, labels: Labels, weight: Array) -> None:
        for t in range(len(samples)):
            rows = slice(t, t + 1)
            run = self.runs[0 if self.shared else labels[t]]
            run.observe(samples[rows], weight[rows])
            if not self.shared:
                repel(self, samples[rows], labels[rows], weight[rows])
            elif run.annealer is not None:
                # Votes belong to cells that split and merge: they are a field of the payload.
                book = run.annealer.codebook
                distance = self.settings.divergence(samples[rows], book.codevectors)
                book["votes"][labels[t], int(distance.argmin())] += weight[t]

    # -- scaling ---------------------------------------------------------------------------------

    def _rescale(self) -> None:
        """Take the moments of the features anew; codevectors stay where they are in the data."""
        plain = len(self.scaling.matrix) == 0 and len(self.waiting[0]) == 0
        if self.turned or plain:  # that was found to be best, by a fit
            return
        old = self.scaling
        self.scaling = self.moments.scaling(self.mode.scale, self.settings.divergence)
        if len(self.waiting[0]) > 0:
            waiting = self.waiting
            self.waiting = tuple(part[:0] for part in waiting)  # type: ignore[assignment]
            self._learn(*waiting)
        elif self.mode.scale is not None:
            for run in self.runs:
                move(run, old, self.scaling)

    def turn(self, omega: Array) -> None:
        """Take relevances on: from now on features are scaled as they are with `omega` after that."""
        old = self.scaling
        self.scaling = old.turned(omega)
        self.turned = True
        for run in self.runs:
            move(run, old, self.scaling)

    # -- after a fit -----------------------------------------------------------------------------

    def take_over(self, runs: list[Run], n_samples: int) -> None:
        """Go on from runs over samples at hand."""
        self.runs = runs
        self.n_seen = sum(run.n_seen for run in runs)
        self.n_measured = n_samples
        self.rescale_at = 2 * max(n_samples, self.settings.n_warmup)

    def set_book(self, book: ClassBook, votes: Array | None) -> None:
        """Take over a final codebook; the runs' codebooks follow."""
        for c, run in enumerate(self.runs):
            assert run.annealer is not None
            own = slice(None) if self.shared else book.labels == c
            cells = run.annealer.codebook
            k = len(cells)
            cells.location[:, :k] = book.codevectors[own].T
            cells["spread"][:] = book.spreads[own].T
            weights = book.weights[own]
            cells.weight[:k] = np.maximum(weights / weights.sum(), 1e-12)
            if votes is not None:
                cells["votes"][:] = votes
            run.annealer.reference = cells.location.copy()
            run.annealer.harden = True
        self.fixed = book

    # -- what has been learned -------------------------------------------------------------------

    @property
    def annealed(self) -> bool:
        """Whether the annealing of all classes is done."""
        return all(run.annealer is not None and run.annealer.done for run in self.runs)

    @property
    def temperature(self) -> float:
        """The lowest temperature of a class; infinite before any anneals."""
        return min((r.annealer.temperature for r in self.runs if r.annealer), default=np.inf)

    def relevances(self) -> Array:
        """How much a standard deviation of every feature counts in the distance; they sum to one."""
        _, total = self.moments.variances()
        matrix = self.scaling.matrix if len(self.scaling.matrix) > 0 else np.eye(len(total))
        own = total * (matrix**2).sum(axis=1)
        return own / own.sum() if own.sum() > 0.0 else np.full(len(own), 1.0 / len(own))

    def book(self) -> ClassBook:
        """The codebook as it stands."""
        if self.fixed is None:
            self.fixed = self._book()
        return self.fixed

    def _book(self) -> ClassBook:
        if not self.is_warm:
            self.scaling = self.moments.scaling(self.mode.scale, self.settings.divergence)
            return self._first_book()
        mass = np.array([self.mass.sum()]) if self.shared else self.mass
        cells = [self._cells(run, m) for run, m in zip(self.runs, mass, strict=True)]
        if self.shared:
            annealer = self.runs[0].annealer
            if annealer is None:
                return self._first_book()
            counts = np.array([self.counts.sum()])
            widths = np.repeat(book_of(cells, mass, counts).widths, self.n_classes)
            return with_votes(cells[0], annealer.codebook["votes"].T.copy(), self.choice.factor * widths)
        return book_of(cells, mass, self.counts, self.choice.own, self.choice.factor)

    def _first_book(self) -> ClassBook:
        """Before a stream has warmed up there are the means of the classes, or of all."""
        scaled = self.scaling(self.moments.mean)
        within, _ = self.moments.variances()
        matrix = self.scaling.matrix if len(self.scaling.matrix) > 0 else np.eye(self.n_features)
        spread = np.diag(matrix.T @ within @ matrix)
        seen = self.counts > 0.0
        cells = [
            cells_of(
                scaled[c : c + seen[c]],
                np.ones(int(seen[c])),
                spread[None],
                self.mass[c],
                self.settings.divergence,
            )
            for c in range(self.n_classes)
        ]
        return book_of(cells, self.mass, self.counts)

    def _cells(self, run: Run, mass: float) -> Cells:
        if run.annealer is None and len(run.buffer) == 0:
            empty = np.empty((0, self.n_features))
            return Cells(empty, np.empty(0), 0.0, empty, np.empty(0, dtype=np.int64))
        codevectors, shares, spreads = run.codebook()
        return cells_of(codevectors, shares, spreads, mass, self.settings.divergence)

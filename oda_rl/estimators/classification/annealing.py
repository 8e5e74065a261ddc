"""Annealing of a data set with classes: one annealer per class, all with the same temperatures."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oda_rl._types import Array, Labels
from oda_rl._validation import plain
from oda_rl.codebook.divergences import Divergence
from oda_rl.codebook.schedule import first_and_last_temperature
from oda_rl.estimators.classification.book import (
    Cells,
    ClassBook,
    book_of,
    hard_cells,
    with_votes,
)
from oda_rl.estimators.classification.fine_tuning import check_variant
from oda_rl.estimators.session import Run
from oda_rl.estimators.settings import Settings

if TYPE_CHECKING:
    from oda_rl.estimators.classification.session import ClassSession

# `max_codevectors="auto"`: codevectors per class, and the maximum of all classes together.
AUTO_PER_CLASS, AUTO_MAX = 40, 400
# Candidate widths (own, factor): the exponent of the class's own width in a geometric mean with the
# width of all classes together, and the factor by which that mean is multiplied.
WIDTHS = ((0.0, 1.0), (0.0, 2.0), (0.0, 4.0), (0.5, 1.0), (1.0, 1.0), (1.0, 2.0))
# At least so many samples per codevector.
SAMPLES_PER_CODEVECTOR = 3
# Minimum number of samples between two tests for convergence, by `bifurcation`, however few the cells.
MIN_LEVEL_SAMPLES = {"critical": 30, "perturb": 1000}


class ClassSettings(NamedTuple):
    """Settings of the annealers and of the classifier."""

    annealing: Settings
    mode: str
    scale: str | None
    max_codevectors: int | str
    fine_tune: str | None
    local_model: str | None

    @classmethod
    def of(cls, estimator: Any) -> "ClassSettings":
        """The settings of an estimator; raises a ValueError if its parameters exclude each other."""
        k = plain(estimator.max_codevectors)
        annealing = Settings.of(estimator, max_codevectors=1 if k == "auto" else k)
        check_variant(estimator.fine_tune, annealing.divergence, "fine_tune")
        if estimator.fine_tune is not None and estimator.mode == "majority":
            raise ValueError(
                "fine_tune must be None with mode='majority', as its codevectors have no fixed "
                f"class, got {estimator.fine_tune!r}."
            )
        own = estimator.mode, estimator.scale, k, estimator.fine_tune, estimator.local_model
        return cls(annealing, *own)

    @property
    def shared(self) -> bool:
        """Whether all classes share one partition."""
        return self.mode == "majority"

    def capacity(self, n_classes: int) -> int:
        """K_max for `n_classes` classes."""
        if isinstance(self.max_codevectors, str):
            return max(n_classes, min(AUTO_PER_CLASS * n_classes, AUTO_MAX))
        return max(self.max_codevectors, n_classes)


class ClassPoint(NamedTuple):
    """What was learned at one temperature: a record of `ODAClassifier.history_`.

    `loss` is the mean of -log p(c | x) over held-out samples at this temperature, with p no less than
    0.02 (NaN without validation). `codevectors` are in the units of the data, `labels` their classes:
    with `mode="majority"` that of most votes in those of the present cells that are nearest to each.
    `n_samples_seen` and `seconds` count from the beginning of the annealing of all samples.
    """

    temperature: float
    n_codevectors: int
    loss: float
    n_samples_seen: int
    seconds: float
    codevectors: Array
    labels: NDArray[Any]


class ClassData(NamedTuple):
    """Scaled samples with classes; `shared` if the classes share one partition (majority vote).

    `spare` is the number of features divided by the number of those that count (`Moments.kept`). Widths
    are measured per feature, over all features, and must therefore be multiplied by it.
    """

    samples: Array
    labels: Labels
    weight: Array
    n_classes: int
    shared: bool
    spare: float = 1.0

    @property
    def widths(self) -> list[tuple[float, float]]:
        """The pairs (own, factor) to try with `book`.

        Classes have no widths of their own if they share a partition or if some features hardly count.
        """
        return [
            (a, b * self.spare) for a, b in WIDTHS if a == 0.0 or not (self.shared or self.spare > 1.0)
        ]

    def take(self, rows: Labels) -> "ClassData":
        """The samples in `rows`."""
        samples = np.ascontiguousarray(self.samples[rows])
        return self._replace(samples=samples, labels=self.labels[rows], weight=self.weight[rows])

    def parts(self) -> list["ClassData"]:
        """The groups of samples that are annealed together: the classes, or all samples if `shared`."""
        if self.shared:
            return [self]
        return [self.take(np.flatnonzero(self.labels == c)) for c in range(self.n_classes)]

    def hard_cells(self, found: Sequence[Array], settings: Settings, turns: int) -> list[Cells]:
        """Harden the codevectors of each part by at most `turns` Lloyd iterations (temperature zero)."""
        return [
            hard_cells(c, part.samples, part.weight, settings.divergence, turns)
            for c, part in zip(found, self.parts(), strict=True)
        ]

    def book(self, cells: Sequence[Cells], own: float, factor: float) -> ClassBook:
        """The codebook of all cells, with weights and widths from these samples; see `book_of`."""
        if self.shared:
            mass, counts = np.array([self.weight.sum()]), np.array([float(len(self.weight))])
            one = book_of(cells, mass, counts, factor=factor)
            return with_votes(one, self.votes(cells[0]).T.copy())
        mass = np.bincount(self.labels, self.weight, self.n_classes).astype(float)
        counts = np.bincount(self.labels, minlength=self.n_classes).astype(float)
        return book_of(cells, mass, counts, own, factor)

    def votes(self, cells: Cells) -> Array:
        """The weight of the samples of each class in each cell, of shape (n_classes, n_cells)."""
        votes = np.zeros((self.n_classes, len(cells.codevectors)))
        np.add.at(votes, (self.labels, cells.nearest), self.weight)
        return votes


def capacities(counts: Sequence[int], max_codevectors: int) -> list[int]:
    """Divide K_max among parts with `counts` samples: at least one each, and no more than they allow."""
    wanted = [max(1, n // SAMPLES_PER_CODEVECTOR) for n in counts]
    shares = [1] * len(wanted)
    left = max_codevectors - len(wanted)
    while left > 0:
        open_ = [c for c, want in enumerate(wanted) if shares[c] < want]
        if not open_:
            break
        step = max(1, left // len(open_))
        for c in open_:
            taken = min(step, wanted[c] - shares[c], left)
            shares[c] += taken
            left -= taken
    return shares


def capacities_of_stream(sizes: Sequence[int], max_codevectors: int) -> list[int]:
    """Divide K_max among parts of a stream that have `sizes` cells.

    Shares are equal, except that a part keeps the cells that it has, unless they all exceed K_max.
    """
    shares, left = list(sizes), max_codevectors
    if sum(sizes) > max_codevectors:
        return [max(1, max_codevectors // len(sizes))] * len(sizes)
    others = list(range(len(sizes)))
    while any(sizes[c] > left // len(others) for c in others):
        each = left // len(others)
        left -= sum(sizes[c] for c in others if sizes[c] > each)
        others = [c for c in others if sizes[c] <= each]
    for c in others:
        shares[c] = left // len(others)
    return shares


def anneal(
    data: ClassData,
    settings: Settings,
    rng: np.random.Generator,
    level: int | None = None,
    payload: Mapping[str, tuple[int, str]] | None = None,
) -> list[Run]:
    """Anneal each part separately, with the same temperatures, down to that of `level`, if given."""
    parts = data.parts()
    capacity = capacities([len(part.weight) for part in parts], settings.max_codevectors)
    divergence = settings.divergence
    critical = max(divergence.moments(p.samples, p.weight)[0] for p in parts)
    first, last = first_and_last_temperature(settings.t_max, settings.t_min, critical)
    temperature = first
    for _ in range(0 if level is None else level):
        temperature = max(settings.cooling(temperature), last)
    last = last if level is None else max(last, 0.999 * temperature)
    runs = []
    for part, k in zip(parts, capacity, strict=True):
        own = settings._replace(max_codevectors=k, t_max=first, t_min=last, finish=False)
        run = new_run(own, part.samples.shape[1], rng)
        run.payload = dict(payload or {})
        run.fit(part.samples, part.weight / part.weight.mean())
        runs.append(run)
    return runs


def new_run(settings: Settings, n_features: int, rng: np.random.Generator) -> Run:
    """A run without samples, with fewer of them between two tests for convergence than a partition."""
    run = Run(settings, n_features, rng)
    run.min_samples = MIN_LEVEL_SAMPLES[settings.bifurcation]
    return run


def codebooks(runs: Sequence[Run], level: int | None = None) -> list[Array]:
    """The codevectors of each part at the end of annealing level `level`, or of its last level."""
    last = [len(run.path) - 1 for run in runs]
    return [
        run.path[end if level is None else min(level, end)][2]
        for run, end in zip(runs, last, strict=True)
    ]


def temperature_of(runs: Sequence[Run], level: int) -> float:
    """The lowest temperature of the parts at annealing level `level`."""
    return min(run.history[min(level, len(run.history) - 1)].temperature for run in runs)


def history(session: "ClassSession", classes: NDArray[Any]) -> list[ClassPoint]:
    """One record per temperature, of all classes together."""
    paths = [(c, run.history) for c, run in enumerate(session.runs) if run.history]
    losses, scaling = session.choice.losses, session.scaling
    records = []
    for level in range(max((len(points) for _, points in paths), default=0)):
        points = [(c, points[min(level, len(points) - 1)]) for c, points in paths]
        codevectors = np.concatenate([p.codevectors for _, p in points])
        if session.settings.shared:
            numbers = majority_labels(codevectors, session.book(), session.divergence)
        else:
            numbers = np.repeat([c for c, _ in points], [len(p.codevectors) for _, p in points])
        records.append(
            ClassPoint(
                min(p.temperature for _, p in points),
                len(codevectors),
                losses[level] if level < len(losses) else float("nan"),
                sum(p.n_samples_seen for _, p in points),
                sum(p.seconds for _, p in points),
                scaling.back(codevectors),
                classes[numbers],
            )
        )
    return records


def majority_labels(codevectors: Array, book: ClassBook, divergence: Divergence) -> Labels:
    """Class numbers of codevectors (n, n_features) of an earlier temperature of a shared partition.

    The votes of samples are known for the cells of the present codebook alone. These vote for the
    nearest of the codevectors; one without votes gets the class of the cell that is nearest to it.
    """
    votes = np.zeros((len(codevectors), book.votes.shape[1]))
    nearest = divergence(book.codevectors, codevectors).argmin(axis=1)
    np.add.at(votes, nearest, book.weights[:, None] * book.votes)
    nearest_cell = divergence(codevectors, book.codevectors).argmin(axis=1)
    found = np.where(votes.any(axis=1), votes.argmax(axis=1), book.labels[nearest_cell])
    return np.asarray(found)

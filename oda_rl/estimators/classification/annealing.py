"""Annealing the classes of data at hand, each by itself, through the same temperatures; its settings."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oda_rl._types import Array, Labels
from oda_rl.codebook.schedule import first_and_last_temperature
from oda_rl.estimators.classification.book import (
    Cells,
    ClassBook,
    book_of,
    hard_cells,
    voting_book,
)
from oda_rl.estimators.classification.fine_tuning import check_variant
from oda_rl.estimators.feature_scaling import Scaling
from oda_rl.estimators.session import Run
from oda_rl.estimators.settings import Settings

# Codevectors per class that "auto" stands for, and in all.
AUTO_PER_CLASS, AUTO_MAX = 40, 400
# Widths that are tried: how much of its own a class has, and how many times wider than measured.
WIDTHS = ((0.0, 1.0), (0.0, 2.0), (0.0, 4.0), (0.5, 1.0), (1.0, 1.0), (1.0, 2.0))
# No more codevectors than one for so many samples.
SAMPLES_PER_CODEVECTOR = 3
# Samples presented between two tests for convergence, however few the cells.
MIN_LEVEL_SAMPLES = {"critical": 30, "perturb": 1000}


class ClassSettings(NamedTuple):
    """Settings of the annealers, and how classes share codevectors and features."""

    annealing: Settings
    mode: str
    scale: str | None
    max_codevectors: int | str
    fine_tune: str | None
    local_model: str | None

    @classmethod
    def of(cls, estimator: Any) -> "ClassSettings":
        """Those of an estimator; raises a ValueError for what its parameters cannot be together."""
        k = estimator.max_codevectors
        annealing = Settings.of(estimator, max_codevectors=1 if k == "auto" else k)
        check_variant(estimator.fine_tune, annealing.divergence, "fine_tune")
        if estimator.fine_tune is not None and estimator.mode == "majority":
            raise ValueError("fine_tune needs codevectors of one class each, not mode='majority'.")
        own = estimator.mode, estimator.scale, k, estimator.fine_tune, estimator.local_model
        return cls(annealing, *own)

    @property
    def shared(self) -> bool:
        """Whether all classes have one partition."""
        return self.mode == "majority"

    def capacity(self, n_classes: int) -> int:
        """K_max for so many classes."""
        if isinstance(self.max_codevectors, str):
            return max(n_classes, min(AUTO_PER_CLASS * n_classes, AUTO_MAX))
        return max(self.max_codevectors, n_classes)


class ClassPoint(NamedTuple):
    """What was learned at one temperature: a record of `ODAClassifier.history_`.

    `loss` is the mean of -log p(c | x) over samples left out, at this temperature (NaN if none were),
    with p no less than 0.02;
    `codevectors` are in the units of the data, `labels` their classes; `n_samples_seen` samples have
    been presented and `seconds` spent since the annealing of all samples began.
    """

    temperature: float
    n_codevectors: int
    loss: float
    n_samples_seen: int
    seconds: float
    codevectors: Array
    labels: NDArray[Any]


class ClassData(NamedTuple):
    """Scaled samples with classes; `shared` if the classes have one partition (majority vote).

    Of `spare` times as many features as count for anything: widths are of all of them.
    """

    samples: Array
    labels: Labels
    weight: Array
    n_classes: int
    shared: bool
    spare: float = 1.0

    @property
    def widths(self) -> list[tuple[float, float]]:
        """Those of `WIDTHS` that may be tried, as `book` takes them."""
        return [
            (a, b * self.spare) for a, b in WIDTHS if a == 0.0 or not (self.shared or self.spare > 1.0)
        ]

    def take(self, rows: Labels) -> "ClassData":
        """Some of the samples."""
        samples = np.ascontiguousarray(self.samples[rows])
        return self._replace(samples=samples, labels=self.labels[rows], weight=self.weight[rows])

    def parts(self) -> list["ClassData"]:
        """The samples that are annealed together: class by class, or all."""
        if self.shared:
            return [self]
        return [self.take(np.flatnonzero(self.labels == c)) for c in range(self.n_classes)]

    def hard_cells(self, found: Sequence[Array], settings: Settings, turns: int) -> list[Cells]:
        """Take the codevectors of the parts towards temperature zero."""
        return [
            hard_cells(c, part.samples, part.weight, settings.divergence, turns)
            for c, part in zip(found, self.parts(), strict=True)
        ]

    def book(self, cells: Sequence[Cells], own: float, factor: float) -> ClassBook:
        """All cells together, with the weights and widths that these samples give them."""
        if self.shared:
            return voting_book(cells[0], self.labels, self.weight, self.n_classes, factor)
        mass = np.bincount(self.labels, self.weight, self.n_classes).astype(float)
        counts = np.bincount(self.labels, minlength=self.n_classes).astype(float)
        return book_of(cells, mass, counts, own, factor)

    def votes(self, cells: Cells) -> Array:
        """The weight of every class in the cells, of shape (n_classes, n_cells)."""
        votes = np.zeros((self.n_classes, len(cells.codevectors)))
        np.add.at(votes, (self.labels, cells.nearest), self.weight)
        return votes


def capacities(counts: Sequence[int], max_codevectors: int) -> list[int]:
    """Shares of K_max, no more than there are samples for, and at least one for each part."""
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


def anneal(
    data: ClassData,
    settings: Settings,
    rng: np.random.Generator,
    level: int | None = None,
    payload: Mapping[str, tuple[int, str]] | None = None,
) -> list[Run]:
    """Anneal every part by itself, all through the same temperatures, down to that of `level`."""
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
        run = Run(own, part.samples.shape[1], rng)
        run.payload = dict(payload or {})
        run.min_samples = min_level_samples(own)
        run.fit(part.samples, part.weight / part.weight.mean())
        runs.append(run)
    return runs


def min_level_samples(settings: Settings) -> int:
    """Samples of a class at a temperature, no fewer: a density needs less care than a partition."""
    return MIN_LEVEL_SAMPLES[settings.bifurcation]


def codebooks(runs: Sequence[Run], level: int | None = None) -> list[Array]:
    """The parts' codevectors at the end of a temperature, or of their last."""
    last = [len(run.path) - 1 for run in runs]
    return [
        run.path[end if level is None else min(level, end)][2]
        for run, end in zip(runs, last, strict=True)
    ]


def temperature_of(runs: Sequence[Run], level: int) -> float:
    """The lowest of the parts at the end of a level."""
    return min(run.history[min(level, len(run.history) - 1)].temperature for run in runs)


def history(
    runs: Sequence[Run], losses: Sequence[float], scaling: Scaling, classes: NDArray[Any]
) -> list[ClassPoint]:
    """One record per temperature, of all classes together; partitions they share have their first."""
    paths = [(c, run.history) for c, run in enumerate(runs) if run.history]
    records = []
    for level in range(max((len(points) for _, points in paths), default=0)):
        points = [(c, points[min(level, len(points) - 1)]) for c, points in paths]
        numbers = np.repeat([c for c, _ in points], [len(p.codevectors) for _, p in points])
        codevectors = np.concatenate([p.codevectors for _, p in points])
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

"""Annealing the classes of data at hand, choosing the temperature to stop at, fine-tuning."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

from oda_rl._types import Array, Labels
from oda_rl.codebook.schedule import first_and_last_temperature
from oda_rl.estimators.classification.book import (
    Cells,
    ClassBook,
    book_of,
    hard_cells,
    log_loss,
    log_probabilities,
    voting_book,
)
from oda_rl.estimators.classification.fine_tuning import anneal_lvq, fine_tune
from oda_rl.estimators.classification.pooling import LeftOut, fit_logits
from oda_rl.estimators.feature_scaling import Scaling
from oda_rl.estimators.progress import begin_stage
from oda_rl.estimators.session import Run
from oda_rl.estimators.settings import Settings
from oda_rl.estimators.targets import Data

# No more codevectors than one for so many samples.
SAMPLES_PER_CODEVECTOR = 3
# Samples presented between two tests for convergence, however few the cells.
MIN_LEVEL_SAMPLES = {"critical": 30, "perturb": 1000}
# Turns towards temperature zero: for a trial, and at the end.
TRIAL_TURNS, LAST_TURNS = 5, 100
# Widths that are tried: how much of its own a class has, and how many times wider than measured.
WIDTHS = ((0.0, 1.0), (0.0, 2.0), (0.0, 4.0), (0.5, 1.0), (1.0, 1.0), (1.0, 2.0))
# Levels are tried when there are so many times the codevectors of the last that was.
GROWTH = 1.15
# A level that loses no more than this above the least is as good.
TOLERANCE = 1e-3
# The final cells contradict their validation with so many times its loss.
CONTRADICTION = 2.0
# Parts of the validation: of so many samples at most, and of more.
FOLDS, FEW_SAMPLES, MORE_FOLDS = 3, 2000, 5


class Choice(NamedTuple):
    """The level to stop at, and the widths, that did best on samples left out; the losses of levels."""

    level: int = 10**9
    own: float = 0.0
    factor: float = 1.0
    losses: tuple[float, ...] = ()


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
    """Scaled samples with classes; `shared` if the classes have one partition (majority vote)."""

    samples: Array
    labels: Labels
    weight: Array
    n_classes: int
    shared: bool

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


def fit_classes(session: Any, data: Data, n_classes: int, estimator: Any) -> None:
    """Learn classes from samples at hand; the session, a new `ClassSession`, goes on from there.

    The targets of `data` are numbers of classes, its weights have a mean of one. Of the `estimator`,
    `validation` and `n_passes` are read.
    """
    settings = session.settings
    scaled = session.begin(data, n_classes)
    samples, labels, weight = scaled
    own = ClassData(samples, labels, weight, n_classes, settings.shared)
    annealing = settings.annealing._replace(max_codevectors=settings.capacity(n_classes))
    validation, left_out = estimator.validation, None
    if validation is not None and n_classes > 1:
        auto = FOLDS if len(data.weight) <= FEW_SAMPLES else MORE_FOLDS
        folds = auto if validation == "auto" else int(validation)
        session.choice, left_out = choose(own, settings, folds, session.rng, estimator)
    if settings.local_model is not None and n_classes > 1:
        begin_stage("local logits")
        session.local = fit_logits(data, left_out, settings, session.rng)
    begin_stage("all samples")
    choice = session.choice
    level = choice.level if choice.losses else None
    session.take_over(anneal(own, annealing, session.rng, level, session.runs[0].payload))
    choice, cells = _confirmed(own, session.runs, choice, annealing)
    session.choice = choice
    book = own.book(cells, choice.own, choice.factor)
    if settings.shared:
        session.set_book(book, own.votes(cells[0]))
        return
    if left_out is None or left_out.tuning_helps:
        passes = session.temperature, estimator.n_passes, session.rng
        tuned = _tuned(settings, book, scaled, *passes)
    else:
        tuned = book.codevectors
    if tuned is not book.codevectors:
        found = [tuned[book.labels == c] for c in range(n_classes)]
        cells = own.hard_cells(found, annealing, 0)
        book = own.book(cells, choice.own, choice.factor)
    session.set_book(book, None)


def _confirmed(
    data: ClassData, runs: Sequence[Run], choice: Choice, settings: Settings
) -> tuple[Choice, list[Cells]]:
    """The cells of the last temperature, if they do as well as its validation said.

    A class may end with other cells than where samples were left out, and their widths then mean
    something else. Where the loss contradicts the validation, it is the best widths and temperature.
    """
    cells = data.hard_cells(codebooks(runs), settings, LAST_TURNS)
    if not choice.losses:
        return choice, cells
    wanted = CONTRADICTION * min(choice.losses) + TOLERANCE

    def loss(cells: Sequence[Cells], own: float, factor: float) -> float:
        joint = _log_joint(data.book(cells, own, factor), data.samples, settings)
        return log_loss(joint, data.labels, data.weight)

    found = loss(cells, choice.own, choice.factor)
    if found <= wanted:
        return choice, cells
    best = found, choice, cells
    for level in reversed(range(max(len(run.path) for run in runs))):
        cells = data.hard_cells(codebooks(runs, level), settings, LAST_TURNS)
        for own, factor in WIDTHS:
            if own > 0.0 and data.shared:
                continue
            found = loss(cells, own, factor)
            if found < best[0]:
                best = found, choice._replace(own=own, factor=factor), cells
        if best[0] <= wanted:
            break
    return best[1:]


def _tuned(
    settings: Any,
    book: ClassBook,
    scaled: Data,
    temperature: float,
    n_passes: int,
    rng: np.random.Generator,
) -> Array:
    """The codevectors after annealed LVQ and fine-tuning, as the settings of the classifier have it."""
    codevectors, divergence = book.codevectors, settings.annealing.divergence
    labels, passes = book.labels, (n_passes, rng)
    if settings.mode == "lvq":
        metric = divergence, temperature
        codevectors = anneal_lvq(codevectors, labels, book.weights, scaled, *metric, *passes)
    if settings.fine_tune is not None:
        variant = settings.fine_tune
        codevectors = fine_tune(variant, codevectors, labels, scaled, divergence, *passes)
    return codevectors


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


def choose(
    data: ClassData, settings: Any, n_folds: int, rng: np.random.Generator, estimator: Any
) -> tuple[Choice, LeftOut | None]:
    """Find the level and the widths with the least loss on samples left out, by cross-validation.

    `settings` are those of the classifier, `estimator`. Returns what the chosen ones say of the samples
    left out, too; None where there are too few.
    """
    annealing = settings.annealing._replace(max_codevectors=settings.capacity(data.n_classes))
    smallest = int(np.bincount(data.labels, minlength=data.n_classes).min())
    n_folds = min(n_folds, smallest)
    if n_folds < 2:
        return Choice(), None
    parts = StratifiedKFold(n_folds, shuffle=True, random_state=int(rng.integers(2**31)))
    folds = list(parts.split(data.samples, data.labels))
    learned = [data.take(train) for train, _ in folds]
    runs = []
    for i, own in enumerate(learned):
        begin_stage(f"without part {i + 1} of {n_folds}")
        runs.append(anneal(own, annealing, rng))
    trials = list(zip(runs, learned, [test for _, test in folds], strict=True))
    choice = _best([_losses(found, own, data.take(test), annealing) for found, own, test in trials])
    log_proba, won = np.empty((len(data.labels), data.n_classes)), 0.0
    tuning = not settings.shared and (settings.mode == "lvq" or settings.fine_tune is not None)
    for found, own, test in trials:
        cells = own.hard_cells(codebooks(found, choice.level), annealing, TRIAL_TURNS)
        book = own.book(cells, choice.own, choice.factor)
        log_proba[test] = log_probabilities(_log_joint(book, data.samples[test], annealing))
        if tuning:
            temperature = _temperature(found, choice.level)
            passes = temperature, estimator.n_passes, rng
            moved = _tuned(settings, book, Data(own.samples, own.labels, own.weight), *passes)
            own_parts = [moved[book.labels == c] for c in range(data.n_classes)]
            tuned = own.book(own.hard_cells(own_parts, annealing, 0), choice.own, choice.factor)
            rest = data.take(test)
            won += _errors(book, rest, annealing, estimator.rule)
            won -= _errors(tuned, rest, annealing, estimator.rule)
    return choice, LeftOut(folds, log_proba, won >= 0.0)


def _log_joint(book: ClassBook, samples: Array, settings: Settings) -> Array:
    return book.log_joint(settings.divergence(samples, book.codevectors))


def _errors(book: ClassBook, data: ClassData, settings: Settings, rule: str) -> float:
    """The weight of the samples that a codebook classifies wrongly."""
    distance = settings.divergence(data.samples, book.codevectors)
    nearest = rule == "nearest"
    found = (book.nearest_proba if nearest else book.log_joint)(distance).argmax(axis=1)
    return float(data.weight[found != data.labels].sum())


def _temperature(runs: Sequence[Run], level: int) -> float:
    """The lowest of the parts at the end of a level."""
    return min(run.history[min(level, len(run.history) - 1)].temperature for run in runs)


def _losses(runs: Sequence[Run], data: ClassData, test: ClassData, settings: Settings) -> Array:
    """Losses of shape (n_levels, n_widths)."""
    n_levels = max(len(run.path) for run in runs)
    losses = np.full((n_levels, len(WIDTHS)), np.inf)
    before = 0
    for level in range(n_levels):
        found = codebooks(runs, level)
        k = sum(len(part) for part in found)
        if k < GROWTH * before and level < n_levels - 1:
            losses[level] = losses[level - 1]
            continue
        before = k
        cells = data.hard_cells(found, settings, TRIAL_TURNS)
        distance = settings.divergence(test.samples, np.concatenate([c.codevectors for c in cells]))
        for i, (own, factor) in enumerate(WIDTHS):
            if own > 0.0 and data.shared:
                continue
            joint = data.book(cells, own, factor).log_joint(distance)
            losses[level, i] = log_loss(joint, test.labels, test.weight)
    return losses


def _best(tables: Sequence[Array]) -> Choice:
    n_levels = max(len(table) for table in tables)
    padded = [np.concatenate([t, np.repeat(t[-1:], n_levels - len(t), axis=0)]) for t in tables]
    mean = np.mean(padded, axis=0)
    by_level = mean.min(axis=1)
    level = int(np.flatnonzero(by_level <= by_level.min() + TOLERANCE)[0])
    losses = tuple(float(value) for value in by_level)
    return Choice(level, *WIDTHS[int(mean[level].argmin())], losses)


def history(
    runs: Sequence[Run], losses: Sequence[float], scaling: Scaling, classes: NDArray[Any]
) -> list[ClassPoint]:
    """One record per temperature, of all classes together; partitions they share have their first."""
    paths = [(c, run.history) for c, run in enumerate(runs) if run.history]
    records = []
    for level in range(max((len(points) for _, points in paths), default=0)):
        points = [(c, points[min(level, len(points) - 1)]) for c, points in paths]
        numbers = np.repeat([c for c, _ in points], [p.n_codevectors for _, p in points])
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

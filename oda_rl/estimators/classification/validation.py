"""Choices by cross-validation: where to stop, widths, fine-tuning, weights of logits, calibration."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from oda_rl._replicates import EqualRows
from oda_rl._types import Array, Labels
from oda_rl.estimators.classification.annealing import ClassData, anneal, codebooks, temperature_of
from oda_rl.estimators.classification.book import (
    ClassBook,
    log_loss,
    log_probabilities,
    loss_with_errors,
)
from oda_rl.estimators.classification.fine_tuning import anneal_lvq, fine_tune
from oda_rl.estimators.classification.local_logits import (
    LocalLogits,
    LogitTrial,
)
from oda_rl.estimators.classification.logit_trials import Split, choose_logits
from oda_rl.estimators.feature_scaling import Moments, Scaling
from oda_rl.estimators.progress import begin_stage
from oda_rl.estimators.session import Run
from oda_rl.estimators.settings import Settings
from oda_rl.estimators.targets import Data

if TYPE_CHECKING:
    from oda_rl.estimators.classification.session import ClassSession

# Maximum number of Lloyd iterations in a trial.
TRIAL_TURNS = 5
# A level is tried if it has so many times the codevectors of the one tried before, or if it is the last.
GROWTH = 1.15
# The first level with a loss within this of the least is chosen.
TOLERANCE = 1e-3
# Weights of the log-probabilities of densities and of local logits that are tried.
DENSITY_WEIGHTS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 2.0, 4.0)
LOGITS_WEIGHTS = (0.25, 0.5, 0.75, 1.0, 1.25)
# Local logits are kept if they lower the loss, including errors, by more than this part.
WORTHWHILE = 0.02
# Powers that are tried; the fraction by which a power other than 1 must lower the log loss; and the
# least probability in that loss, which bounds the cost of an outlier.
POWERS = (1.0, 0.7, 0.5, 0.35, 0.25, 0.15, 0.1, 0.07, 0.05, 0.03, 0.02, 0.01)
CLEARLY, LEAST = 0.05, 1e-4


class Choice(NamedTuple):
    """The level to stop at and the widths that do best on held-out samples, and the losses of levels.

    Widths (`own`, `factor`) are as in `annealing.WIDTHS`. Probabilities by densities alone are raised to
    a `power`: see `find_power`.
    """

    level: int = 10**9
    own: float = 0.0
    factor: float = 1.0
    losses: tuple[float, ...] = ()
    power: float = 1.0


class LeftOut(NamedTuple):
    """Folds, and log(pi_c p(x | c)) of the samples that each of them holds out, (n_samples, n_classes).

    `codebooks` are those of each fold, part by part (see `ClassData`), in scaled features.
    `tuning_helps` if fine-tuned codevectors make no more errors on held-out samples than others.
    """

    folds: list[Split]
    log_joint: Array
    codebooks: list[list[Array]]
    tuning_helps: bool


def choose(
    data: ClassData,
    settings: Any,
    n_folds: int,
    rng: np.random.Generator,
    estimator: Any,
    copies: EqualRows | None,
) -> tuple[Choice, LeftOut | None]:
    """Choose the level and the widths with the least loss on held-out samples, by cross-validation.

    `settings` are those of the classifier, `estimator`; `copies` are held out together. Also returns
    the results of the choice on held-out samples, or None if the smallest class has fewer than two
    samples that differ.
    """
    annealing = settings.annealing._replace(max_codevectors=settings.capacity(data.n_classes))
    folds = _folds(data, n_folds, rng, copies)
    if len(folds) == 0:
        return Choice(factor=data.spare), None
    learned = [data.take(train) for train, _ in folds]
    runs = []
    for i, own in enumerate(learned):
        begin_stage(f"without part {i + 1} of {len(folds)}")
        runs.append(anneal(own, annealing, rng))
    trials = list(zip(runs, learned, [test for _, test in folds], strict=True))
    choice = _best(
        data.widths, [_losses(found, own, data.take(test), annealing) for found, own, test in trials]
    )
    log_joint, won = np.empty((len(data.labels), data.n_classes)), 0.0
    for found, own, test in trials:
        cells = own.hard_cells(codebooks(found, choice.level), annealing, TRIAL_TURNS)
        book = own.book(cells, choice.own, choice.factor)
        log_joint[test] = log_joint_of(book, data.samples[test], annealing)
        passes = temperature_of(found, choice.level), estimator.n_passes, rng
        tuned = tuned_book(settings, book, own, choice, *passes)
        if tuned is not book:
            rest = data.take(test)
            won += _errors(book, rest, annealing, estimator.rule)
            won -= _errors(tuned, rest, annealing, estimator.rule)
    return choice, LeftOut(folds, log_joint, [codebooks(run, choice.level) for run in runs], won >= 0.0)


def _folds(
    data: ClassData, n_folds: int, rng: np.random.Generator, copies: EqualRows | None
) -> list[Split]:
    """Folds of all classes that do not divide copies; none if a class has less than two rows."""
    labels = data.labels if copies is None else data.labels[copies.first]
    n_folds = min(n_folds, int(np.bincount(labels, minlength=data.n_classes).min()))
    if n_folds < 2:
        return []
    how: dict[str, Any] = {"shuffle": True, "random_state": int(rng.integers(2**31))}
    if copies is None:
        return list(StratifiedKFold(n_folds, **how).split(data.samples, labels))
    parts = StratifiedGroupKFold(n_folds, **how)  # all copies have the same class: each fold has all
    return list(parts.split(data.samples, data.labels, copies.place))


def tuned_book(
    settings: Any,
    book: ClassBook,
    data: ClassData,
    choice: Choice,
    temperature: float,
    n_passes: int,
    rng: np.random.Generator,
) -> ClassBook:
    """The codebook after annealed LVQ and fine-tuning, if the classifier's settings ask for them."""
    if settings.mode != "lvq" and settings.fine_tune is None:
        return book
    codevectors, labels = book.codevectors, book.labels
    own, divergence = Data(*data[:3]), settings.annealing.divergence
    if settings.mode == "lvq":
        how = divergence, temperature, n_passes, rng
        codevectors = anneal_lvq(codevectors, labels, book.weights, own, *how)
    if settings.fine_tune is not None:
        codevectors = fine_tune(settings.fine_tune, codevectors, labels, own, divergence, n_passes, rng)
    parts = [codevectors[labels == c] for c in range(data.n_classes)]
    return data.book(data.hard_cells(parts, settings.annealing, 0), choice.own, choice.factor)


def log_joint_of(book: ClassBook, samples: Array, settings: Settings) -> Array:
    """log p(x, c) of scaled samples, of shape (n_samples, n_classes)."""
    return book.log_joint(settings.divergence(samples, book.codevectors))


def _errors(book: ClassBook, data: ClassData, settings: Settings, rule: str) -> float:
    """The weight of the samples that a codebook classifies wrongly."""
    distance = settings.divergence(data.samples, book.codevectors)
    nearest = rule == "nearest"
    found = (book.nearest_proba if nearest else book.log_joint)(distance).argmax(axis=1)
    return float(data.weight[found != data.labels].sum())


def _losses(runs: Sequence[Run], data: ClassData, test: ClassData, settings: Settings) -> Array:
    """Losses of the `test` samples, of shape (n_levels, n_widths)."""
    n_levels = max(len(run.path) for run in runs)
    losses = np.full((n_levels, len(data.widths)), np.inf)
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
        for i, (own, factor) in enumerate(data.widths):
            joint = data.book(cells, own, factor).log_joint(distance)
            losses[level, i] = log_loss(joint, test.labels, test.weight)
    return losses


def _best(widths: Sequence[tuple[float, float]], tables: Sequence[Array]) -> Choice:
    n_levels = max(len(table) for table in tables)
    padded = [np.concatenate([t, np.repeat(t[-1:], n_levels - len(t), axis=0)]) for t in tables]
    mean = np.mean(padded, axis=0)
    by_level = mean.min(axis=1)
    level = int(np.flatnonzero(by_level <= by_level.min() + TOLERANCE)[0])
    losses = tuple(float(value) for value in by_level)
    return Choice(level, *widths[int(mean[level].argmin())], losses)


def fit_logits(
    data: Data,
    left_out: LeftOut | None,
    settings: Any,
    rng: np.random.Generator,
    kept: NDArray[np.bool_] | None,
) -> tuple[LocalLogits | None, Array]:
    """Fit local logits to raw samples, with cells, penalty and weights chosen on held-out samples.

    Returns the logits, None if they do not help, and their log-probabilities (n_samples, n_classes) of
    held-out samples. `settings` are those of the classifier; several cells only use the features that
    are `kept`. Without held-out samples `local_model="linear"` has the default number of cells, and
    others have no logits.
    """
    n_classes = int(data.targets.max()) + 1
    local = LocalLogits(settings.annealing, data.samples.shape[1], n_classes, rng)
    alone = settings.local_model == "linear"
    if left_out is None:
        if alone:
            local.fit(data, LogitTrial(kept=kept))
        return local if alone else None, np.empty((0, n_classes))
    densities = log_probabilities(left_out.log_joint)
    weights = [
        (a, b)
        for a in ((0.0,) if alone else DENSITY_WEIGHTS)
        for b in ((1.0,) if alone else LOGITS_WEIGHTS)
    ]

    def mixed(log_proba: Array, rows: Labels) -> tuple[float, tuple[float, float]]:
        """The least loss of densities and logits together, and their weights."""
        density, own = densities[rows], data.take(rows)
        return min((loss_with_errors(a * density + b * log_proba, own), (a, b)) for a, b in weights)

    log_proba, chosen = choose_logits(
        local, data, left_out.folds, kept, lambda log_proba, rows: mixed(log_proba, rows)[0]
    )
    loss, (local.density, local.logits) = mixed(log_proba, np.arange(len(log_proba)))
    if not alone and loss > (1.0 - WORTHWHILE) * loss_with_errors(densities, data):
        return None, log_proba
    local.fit(data, *chosen)
    return local, log_proba


def calibrate(
    session: "ClassSession",
    data: Data,
    left_out: LeftOut,
    scalings: Sequence[Scaling],
    spare: float,
    by_logits: Array | None,
) -> Array:
    """Calibrate the probabilities of a session on held-out samples.

    `data` are raw samples, `scalings` those of `scalings_of`, `by_logits` the log-probabilities by local
    logits, if there are any. Returns the calibrated log-probabilities (n_samples, n_classes), which are
    not normalised.
    """
    joint, local = joint_of_left_out(session, data, left_out, scalings, spare), session.local
    if local is None or by_logits is None:
        session.choice = session.choice._replace(power=find_power(joint, data))
        return session.choice.power * joint
    mixed = local.density * log_probabilities(joint) + local.logits * by_logits
    power = find_power(mixed, data)
    local.density, local.logits = power * local.density, power * local.logits
    return power * mixed


def find_power(log_joint: Array, data: Data) -> float:
    """The power with the least log loss on held-out samples; 1 unless another is clearly better.

    The errors of a density in each of many features multiply, so that log-probabilities of classes
    differ too much. `log_joint` (n_samples, n_classes) need not be normalised. No decision changes.
    """
    return best_power([log_loss(power * log_joint, *data[1:], least=LEAST) for power in POWERS])


def best_power(losses: Sequence[float]) -> float:
    """The power with the least of the losses of the first powers; 1 unless it is clearly better."""
    best = int(np.argmin(losses))
    return POWERS[best] if losses[best] < (1.0 - CLEARLY) * losses[0] else 1.0


def joint_of_left_out(
    session: "ClassSession", data: Data, left_out: LeftOut, scalings: Sequence[Scaling], spare: float
) -> Array:
    """log(pi_c p(x | c)) (n_samples, n_classes) of raw samples, held out of the feature scaling, too.

    `scalings` are those of `scalings_of`, `spare` is as for `ClassData`.
    """
    settings = session.settings
    if len(session.scaling.matrix) == 0:
        return left_out.log_joint
    out = np.empty_like(left_out.log_joint)
    for (train, test), found, scaling in zip(left_out.folds, left_out.codebooks, scalings, strict=True):
        rest = data.take(train)
        placed = [scaling(session.scaling.back(codevectors)) for codevectors in found]
        scaled = ClassData(scaling(rest.samples), *rest[1:], session.n_classes, settings.shared, spare)
        cells = scaled.hard_cells(placed, settings.annealing, TRIAL_TURNS)
        book = scaled.book(cells, session.choice.own, session.choice.factor)
        out[test] = log_joint_of(book, scaling(data.samples[test]), settings.annealing)
    return out


def scalings_of(session: "ClassSession", data: Data, folds: Sequence[Split]) -> list[Scaling]:
    """For each fold, the scaling of features learned from the samples outside of it alone.

    If samples are few, a scaling that was learned with the classes of all of them draws the held-out
    samples towards their own classes. `data` are raw samples.
    """
    if len(session.scaling.matrix) == 0:
        return [session.scaling] * len(folds)
    found = []
    for train, _ in folds:
        own = Moments(session.n_features)
        own.kept = session.moments.kept
        for c in range(session.n_classes):
            own.insert(c)
        own.observe(*data.take(train))
        found.append(own.scaling(session.settings.scale, session.divergence))
    return found

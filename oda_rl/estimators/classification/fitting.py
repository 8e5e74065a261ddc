"""Fitting a classifier to a data set: annealing, validation, fine-tuning, and a final check."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from oda_rl._types import Array
from oda_rl.estimators.classification.annealing import ClassData, anneal, codebooks
from oda_rl.estimators.classification.book import Cells, log_loss
from oda_rl.estimators.classification.judging import (
    PATIENCE,
    begin_mixing,
    fitted_error,
    limit_memory,
)
from oda_rl.estimators.classification.local_logits import LogitAnnealer
from oda_rl.estimators.classification.neighbors import choose_neighbors
from oda_rl.estimators.classification.session import ClassSession
from oda_rl.estimators.classification.validation import (
    TOLERANCE,
    Choice,
    LeftOut,
    calibrate,
    choose,
    fit_logits,
    log_joint_of,
    scalings_of,
    tuned_book,
)
from oda_rl.estimators.copies import few_with_copies, without_copies
from oda_rl.estimators.drift import LATEST, RENEWAL
from oda_rl.estimators.progress import begin_stage
from oda_rl.estimators.session import Run
from oda_rl.estimators.settings import Settings
from oda_rl.estimators.stream_weights import weights_of_classes
from oda_rl.estimators.targets import Data

# Maximum number of Lloyd iterations at the end.
LAST_TURNS = 100
# The final cells contradict the validation if their loss exceeds so many times that of the validation.
CONTRADICTION = 2.0
# Numbers of samples of a stream, since learning began, at which a fit of all of them is tried, unless a
# class has less than FEWEST samples. One in LATEST samples, the last, are left out for the trial.
FIT_AT, FEWEST = (256, 512, 1024, 2048), 5
# Number of folds for up to FEW_SAMPLES samples, and for more.
FOLDS, FEW_SAMPLES, MORE_FOLDS = 3, 2000, 5


def fit_classes(
    session: ClassSession, data: Data, n_classes: int, estimator: Any, stores: bool = False
) -> None:
    """Fit a new `ClassSession` to a data set; it can learn from a stream afterwards.

    The targets of `data` are class numbers, its weights have a mean of one. Of the `estimator`, the
    parameters `validation`, `n_passes` and `rule` are used. The session may have neighbors if it
    `stores` samples.
    """
    settings, every = session.settings, data
    data = without_copies(data)
    samples, labels, weight = session.begin(data, n_classes)
    session.weights = weights_of_classes(every, session.counts)
    spare = session.n_features / session.moments.n_kept
    own = ClassData(samples, labels, weight, n_classes, settings.shared, spare)
    annealing = settings.annealing._replace(max_codevectors=settings.capacity(n_classes))
    left_out = _validate(session, data, own, estimator, stores)
    begin_stage("all samples")
    choice = session.choice
    level = choice.level if choice.losses else None
    session.runs = anneal(own, annealing, session.rng, level, session.runs[0].payload)
    session.n_seen = sum(run.n_seen for run in session.runs)
    choice, cells = confirm(own, session.runs, choice, annealing)
    session.choice = choice
    book = own.book(cells, choice.own, choice.factor)
    if left_out is None or left_out.tuning_helps:
        passes = session.temperature, estimator.n_passes, session.rng
        book = tuned_book(settings, book, own, choice, *passes)
    session.set_book(book, own.votes(cells[0]) if settings.shared else None)
    if estimator.forgetting is not None:
        session.n_fitted = len(data.weight)
        run = None if session.local is None else session.local.run
        # The models of cells are fitted together: only their logits go on in a stream, until it changes.
        if run is not None and isinstance(run.annealer, LogitAnnealer):
            run.annealer.rests = run.annealer.done = True


# -- a stream -----------------------------------------------------------------------------------------


def fit_of_stream(session: ClassSession, data: Data, losses: Array, estimator: Any) -> ClassSession:
    """A session that is fitted to all samples of a stream so far, or this one if that is not better.

    A fit of all but the latest must classify these clearly better than the present session did when they
    came: `losses` are 1 for samples of the stream that were classified wrongly, else 0. Samples left out
    at random would not do, as successive samples may be alike.
    """
    data = data.take(np.flatnonzero(data.weight > 0.0))
    n, k = len(data.weight), len(data.weight) // LATEST
    first, latest = data.take(slice(0, n - k)), data.take(slice(n - k, n))
    few = np.bincount(first.targets, minlength=session.n_classes).min() < FEWEST or len(losses) < k
    changes = session.following.memory > 0.0  # cells lag behind: the first samples are of no use
    if few or not session.is_warm or changes or n < RENEWAL * session.n_fitted:
        return session
    known = float(losses[-k:].mean())
    deviation = np.sqrt(known * (1.0 - known) / k)
    if known - deviation <= fitted_error(_fitted(session, first, estimator), latest, estimator.rule):
        return session
    found = _fitted(session, data, estimator)
    found.n_seen = session.n_seen
    return found


def _fitted(session: ClassSession, data: Data, estimator: Any) -> ClassSession:
    """A new session like this one, fitted to samples of positive weight."""
    new = ClassSession(session.settings, session.n_features, session.rng)
    weight = data.weight / data.weight.mean()
    fit_classes(new, data._replace(weight=weight), session.n_classes, estimator)
    return new


def restarted(session: ClassSession, recent: Data, rule: str) -> ClassSession:
    """A session like this one that has learned from the recent samples of a stream alone."""
    new = ClassSession(session.settings, session.n_features, session.rng)
    if rule == "bayes":
        begin_mixing(new, PATIENCE)  # the stream may change again
    new.insert_classes(list(range(session.n_classes)))
    new.observe(recent)
    limit_memory(new, session.following.memory)  # slow changes continue
    new.n_seen = session.n_seen
    return new


# -- the parts of a fit -------------------------------------------------------------------------------


def _validate(
    session: ClassSession, data: Data, scaled: ClassData, estimator: Any, stores: bool
) -> LeftOut | None:
    """Make the choices of a session that need held-out samples; return results on these, None without.

    `data` are raw samples, `scaled` the same samples in scaled features.
    """
    settings, validation = session.settings, estimator.validation
    session.choice, left_out, by_logits = Choice(factor=scaled.spare), None, None
    if scaled.n_classes == 1:
        return None
    if validation is not None:
        auto = FOLDS if len(data.weight) <= FEW_SAMPLES else MORE_FOLDS
        folds = auto if validation == "auto" else int(validation)
        session.choice, left_out = choose(
            scaled, settings, folds, session.rng, estimator, few_with_copies(data)
        )
    if settings.local_model is not None:
        begin_stage("local logits")
        own = settings, session.rng, session.moments.kept
        session.local, by_logits = fit_logits(data, left_out, *own)
    if left_out is not None:
        scalings = scalings_of(session, data, left_out.folds)
        log_proba = calibrate(session, data, left_out, scalings, scaled.spare, by_logits)
        if stores and estimator.rule == "bayes" and session.divergence.is_euclidean:
            begin_stage("neighbors")
            held_out = left_out.folds, scalings, log_proba
            session.neighbors = choose_neighbors(data, session.scaling, *held_out)
    return left_out


def confirm(
    data: ClassData, runs: Sequence[Run], choice: Choice, settings: Settings
) -> tuple[Choice, list[Cells]]:
    """The choice and the cells of the last temperature, unless their loss contradicts the validation.

    A class may end with other cells than in the folds of the validation, and the chosen widths may then
    be wrong for them. In that case all widths are tried at ever higher temperatures until the loss
    agrees with the validation, and the best choice and its cells are returned.
    """
    cells = data.hard_cells(codebooks(runs), settings, LAST_TURNS)
    if not choice.losses:
        return choice, cells
    wanted = CONTRADICTION * min(choice.losses) + TOLERANCE

    def loss(cells: Sequence[Cells], own: float, factor: float) -> float:
        joint = log_joint_of(data.book(cells, own, factor), data.samples, settings)
        return log_loss(joint, data.labels, data.weight)

    found = loss(cells, choice.own, choice.factor)
    if found <= wanted:
        return choice, cells
    best = found, choice, cells
    for level in reversed(range(max(len(run.path) for run in runs))):
        cells = data.hard_cells(codebooks(runs, level), settings, LAST_TURNS)
        for own, factor in data.widths:
            found = loss(cells, own, factor)
            if found < best[0]:
                best = found, choice._replace(own=own, factor=factor), cells
        if best[0] <= wanted:
            break
    return best[1:]

"""Fitting a classifier to a data set: annealing, validation, fine-tuning, and a final check."""

from collections.abc import Sequence
from typing import Any

from oda_rl.estimators.classification.annealing import ClassData, anneal, codebooks
from oda_rl.estimators.classification.book import Cells, log_loss
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
from oda_rl.estimators.progress import begin_stage
from oda_rl.estimators.session import Run
from oda_rl.estimators.settings import Settings
from oda_rl.estimators.stream_weights import weights_of_classes
from oda_rl.estimators.targets import Data

# Maximum number of Lloyd iterations at the end.
LAST_TURNS = 100
# The final cells contradict the validation if their loss exceeds so many times that of the validation.
CONTRADICTION = 2.0
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

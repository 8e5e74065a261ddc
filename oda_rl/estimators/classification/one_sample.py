"""One sample at a time, in a single call of compiled code."""

from typing import TYPE_CHECKING, Any

import numpy as np

from oda_rl._types import Array
from oda_rl.estimators.classification.one_sample_kernel import Decided, Measured, learn_one
from oda_rl.estimators.one_sample import Prepared, make_room
from oda_rl.estimators.session import Run
from oda_rl.estimators.targets import are_plain

# Kinds of classes that need no checks.
KINDS = "biuU"
# More samples than these are learned sooner together.
FEW = 16

if TYPE_CHECKING:
    from oda_rl.estimators.classification.estimator import ODAClassifier
    from oda_rl.estimators.classification.session import ClassSession


class PreparedClass(Prepared):
    """The arrays that a sample of a class changes, as a table for `learn_one`."""

    def __init__(self, session: "ClassSession", run: Run, n_rows: int) -> None:
        book, self.live = session.live_book()
        self.scaling, moments = session.scaling, session.moments
        known = Measured(
            *(self.scaling.shift, self.scaling.matrix),
            *(moments.count, moments.mean, moments.scatter, moments.bounds),
            *(session.mass, session.counts),
        )
        decided = Decided(book.labels, book.weights, book.widths)
        super().__init__(run, n_rows, known, self.live, decided)

    def serves(self, session: "ClassSession", run: Run, n_rows: int) -> bool:
        """Whether the table may be used again, with as many rows."""
        return (
            session.fixed is not None
            and self.live is session.live
            and self.scaling is session.scaling
            and self.holds(run, n_rows)
        )


def learn_few(estimator: "ODAClassifier", X: Any, y: Any) -> int:
    """Have an estimator learn, one by one, from a few samples that need no more checks.

    `X` is to be plain and (n_samples, n_features), `y` an array with classes of the known ones and of
    their kind, and parameters as they were. Returns from how many, the first, it has learned.
    """
    told = estimator.__dict__
    session = told.get("_session")
    if session is None or estimator.verbose or estimator.class_weight is not None:
        return 0
    classes = estimator.classes_
    if (
        type(y) is not np.ndarray
        or y.ndim != 1
        or len(y) > FEW
        or (kind := y.dtype.kind) not in KINDS
        or kind != classes.dtype.kind
        or not are_plain(estimator, session.divergence, X, len(y))
        or estimator._settings(begin=False) is not session.settings
    ):
        return 0
    if told.get("_numbered") is not classes:
        estimator._numbered = classes
        estimator._number_of = {c: i for i, c in enumerate(classes.tolist())}
    numbers = [estimator._number_of.get(c) for c in y.tolist()]
    if None in numbers:
        return 0
    done, row = 0, X
    for number in numbers:
        if len(numbers) > 1:
            row = X[done : done + 1]
        session = estimator._session  # another, if it has begun anew
        if not estimator._watched_one(row, number, observe_one, session, row, number):
            break
        done += 1
    if done == 0:
        return 0
    session = estimator._session
    estimator.n_samples_seen_ = session.n_seen
    if session.fixed is None:
        estimator._count()
    book = told.get("_book")  # which changes in place
    if "codevectors_" in told or (book is not None and book is not session.fixed):
        estimator._tell_later()
    return done


def _is_plain(session: "ClassSession", run: Run) -> bool:
    """Whether one more sample of a run's class changes nothing but densities."""
    return (
        run.annealer is not None
        and not run.annealer.is_measuring
        and session.settings.mode == "conditional"
        and session.settings.fine_tune is None
        and session.local is None
        and session.n_measured + 1 < session.rescale_at
    )


def observe_one(session: "ClassSession", sample: Array, number: int) -> bool:
    """Learn from one sample (1, n_features) of a class with this number.

    Returns whether it was, which is so once its class has warmed up, where only densities are learned
    and features are not scaled anew. The codebook of all classes is brought up to date in place.
    """
    run = session.runs[number]
    annealer = run.annealer
    if annealer is None or not _is_plain(session, run):
        return False
    run.start_clock()
    _learn(session, run, sample, number)
    session.n_seen += 1
    session.n_measured += 1
    run.stop_clock()
    return True


def _learn(session: "ClassSession", run: Run, sample: Array, number: int) -> None:
    """Learn one sample; end a temperature if it is time."""
    n_rows, ready = make_room(run, sample), session.prepared.get(number)
    if ready is None or not ready.serves(session, run, n_rows):
        ready = session.prepared[number] = PreparedClass(session, run, n_rows)
    annealer, choice = run.annealer, session.choice
    assert annealer is not None
    codebook = annealer.codebook
    used, annealer.n, annealer.distortion, has_ended, session.shared_width = learn_one(
        ready.table,
        codebook.divergence.kind,
        sample,
        number,
        run.buffer,
        run.buffer_weight,
        run.n_seen,
        *ready.pace,
        annealer.n,
        annealer.distortion,
        codebook.n_cells,
        choice.own,
        choice.factor,
    )
    run.n_seen += 1
    annealer.n_samples_seen += used
    if has_ended:
        run.end_level(ready.rows[used:], ready.row_weight[used:])
        session.fixed = None

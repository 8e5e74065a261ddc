"""One sample at a time, in a single call of compiled code."""

from typing import TYPE_CHECKING, Any

import numpy as np

from oda_rl._structs import slots
from oda_rl._types import Array
from oda_rl.estimators.classification.one_sample_kernel import (
    Decided,
    Measured,
    OwnCells,
    learn_one,
)
from oda_rl.estimators.session import REHEARSALS, REHEARSED
from oda_rl.estimators.targets import is_one_sample

# The weight of a sample that has none of its own, and kinds of classes that need no checks.
ONE = np.ones(1)
KINDS = "biuU"

if TYPE_CHECKING:
    from oda_rl.estimators.classification.estimator import ODAClassifier
    from oda_rl.estimators.classification.session import ClassSession
    from oda_rl.estimators.session import Run


class Prepared:
    """The arrays that a sample of a class changes, as a table for `learn_one`.

    It `holds` as long as none of those that others replace has been replaced.
    """

    def __init__(self, session: "ClassSession", run: "Run", n_rows: int) -> None:
        (book, self.live), annealer = session.live_book(), run.annealer
        assert annealer is not None
        self.scaling, self.reference = session.scaling, annealer.reference
        self.rows, self.cells = np.empty((n_rows, session.n_features)), annealer.codebook.arrays
        moments, codebook = session.moments, annealer.codebook
        self._groups = (  # the table has their addresses: they must live as long
            Measured(
                *(self.scaling.shift, self.scaling.matrix),
                *(moments.count, moments.mean, moments.scatter, moments.bounds),
                *(session.mass, session.counts, self.rows, np.empty(n_rows)),
            ),
            OwnCells(
                *self.cells[:4],
                self.reference,
                codebook.payload[codebook.rows("spread")],
                annealer.phase,
            ),
            self.live,
            Decided(book.labels, book.weights, book.widths),
        )
        self.row_weight = self._groups[0].row_weight
        self.pace = annealer.pace(annealer.level_length)
        self.table = np.concatenate([slots(group) for group in self._groups])

    def holds(self, session: "ClassSession", run: "Run", n_rows: int) -> bool:
        """Whether the table may be used again, with as many rows."""
        annealer: Any = run.annealer
        return (
            session.fixed is not None
            and self.live is session.live
            and self.scaling is session.scaling
            and self.reference is annealer.reference
            and self.cells is annealer.codebook.arrays
            and len(self.rows) == n_rows
        )


def learn_one_sample(estimator: "ODAClassifier", X: Any, y: Any) -> bool:
    """Have an estimator learn from a single sample that needs no more checks.

    `X` is to be plain and (1, n_features), `y` an array with one class of the known ones and of their
    kind, and parameters as they were. Returns whether it was done; if not, nothing has changed.
    """
    told = estimator.__dict__
    session = told.get("_session")
    if session is None or estimator.verbose or estimator.class_weight is not None:
        return False
    classes = estimator.classes_
    if (
        type(y) is not np.ndarray
        or y.shape != (1,)
        or (kind := y.dtype.kind) not in KINDS
        or kind != classes.dtype.kind
        or not is_one_sample(estimator, session.divergence, X)
        or estimator._settings(begin=False) is not session.settings
    ):
        return False
    if told.get("_numbered") is not classes:
        estimator._numbered = classes
        estimator._number_of = {c: i for i, c in enumerate(classes.tolist())}
    number = estimator._number_of.get(y.item())
    if number is None:
        return False
    watch = None if estimator.forgetting is None else estimator._watch
    if watch is not None:
        watch.begin(estimator)
    if not observe_one(session, X, number):
        return False
    if watch is not None:
        watch.latest.add_one(X, number, 1.0)
        watch.learned(1, estimator)
    estimator.n_samples_seen_ = session.n_seen
    if session.fixed is None:
        estimator._count()
    book = told.get("_book")  # which changes in place
    if "codevectors_" in told or (book is not None and book is not session.fixed):
        estimator._tell_later()
    return True


def _is_plain(session: "ClassSession", run: "Run") -> bool:
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
    again = not annealer.done and run.rehearses
    run.start_clock()
    if again and len(run.buffer) < REHEARSED:  # what is at the front makes space
        run.buffer = np.concatenate([sample, run.buffer])
        run.buffer_weight = np.concatenate([ONE, run.buffer_weight])
    _learn(session, run, sample, number, again)
    session.n_seen += 1
    session.n_measured += 1
    run.stop_clock()
    return True


def _learn(session: "ClassSession", run: "Run", sample: Array, number: int, again: bool) -> None:
    """Learn one sample, and `again` some of before; end a temperature if it is time."""
    n_rows = 1 + REHEARSALS if again else 1
    ready = session.prepared.get(number)
    if ready is None or not ready.holds(session, run, n_rows):
        ready = session.prepared[number] = Prepared(session, run, n_rows)
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

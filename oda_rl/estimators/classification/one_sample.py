"""One sample at a time, in a single call of compiled code."""

from typing import TYPE_CHECKING, Any

import numpy as np

from oda_rl._types import Array, Labels
from oda_rl.estimators.classification.book import RELATIVE_WIDTH
from oda_rl.estimators.classification.kernels import learn_one
from oda_rl.estimators.session import GOLDEN, REHEARSALS, REHEARSED
from oda_rl.estimators.targets import is_one_sample

# The weight of a sample that has none of its own.
ONE = np.ones(1)

if TYPE_CHECKING:
    from oda_rl.estimators.classification.estimator import ODAClassifier
    from oda_rl.estimators.classification.session import ClassSession
    from oda_rl.estimators.session import Run


def learn_one_sample(estimator: "ODAClassifier", X: Any, y: Any) -> bool:
    """Have an estimator learn from a single sample that needs no more checks.

    `X` is to be plain and (1, n_features), `y` an array with one class of the known ones and of their
    kind, and parameters as they were. Returns whether it was done; if not, nothing has changed.
    """
    session = estimator.__dict__.get("_session")
    if session is None or estimator.verbose or estimator.class_weight is not None:
        return False
    classes = estimator.classes_
    if (
        type(y) is not np.ndarray
        or y.shape != (1,)
        or y.dtype.kind not in "biuU"
        or y.dtype.kind != classes.dtype.kind
        or not is_one_sample(estimator, estimator._divergence, X)
        or estimator._settings(begin=False) is not session.settings
    ):
        return False
    if estimator.__dict__.get("_numbered") is not classes:
        estimator._numbered = classes
        estimator._number_of = {c: i for i, c in enumerate(classes.tolist())}
    number = estimator._number_of.get(y.item())
    if number is None:
        return False
    label = np.array([number])
    watch = None if estimator.forgetting is None else estimator._watch
    if watch is not None:
        watch.begin(estimator)
    if not observe_one(session, X, label, ONE):
        return False
    if watch is not None:
        watch.latest.add_one(X, label, ONE)
        watch.learned(1, estimator)
    estimator.n_samples_seen_ = session.n_seen
    if session.fixed is None:
        estimator._count()
    told = estimator.__dict__
    if "codevectors_" in told or told.get("_book") is not session.fixed:  # it changes in place
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


def observe_one(session: "ClassSession", sample: Array, label: Labels, weight: Array) -> bool:
    """Learn from one sample (1, n_features), the number of its class (1,) and its weight (1,).

    Returns whether it was, which is so once its class has warmed up, where only densities are learned
    and features are not scaled anew. The codebook of all classes is brought up to date in place.
    """
    run = session.runs[label.item()]
    annealer = run.annealer
    if annealer is None or not _is_plain(session, run):
        return False
    again = not annealer.done and run.rehearses
    run.start_clock()
    if again and len(run.buffer) < REHEARSED:  # what is at the front makes space
        run.buffer = np.concatenate([sample, run.buffer])
        run.buffer_weight = np.concatenate([weight, run.buffer_weight])
    _learn(session, run, sample, label, weight, again)
    session.n_seen += 1
    session.n_measured += 1
    run.stop_clock()
    return True


def _learn(
    session: "ClassSession", run: "Run", sample: Array, label: Labels, weight: Array, again: bool
) -> None:
    """Learn one sample, and `again` some of before; end a temperature if it is time."""
    (book, live), annealer = session.live_book(), run.annealer
    assert annealer is not None
    cells, moments, choice = annealer.codebook, session.moments, session.choice
    n_rows = 1 + REHEARSALS if again else 1
    rows, row_weight = np.empty((n_rows, sample.shape[1])), np.empty(n_rows)
    used, annealer.n, annealer.distortion, has_ended, session.shared_width = learn_one(
        cells.divergence.kind,
        sample,
        session.scaling.shift,
        session.scaling.matrix,
        label,
        weight,
        (run.buffer, run.buffer_weight, REHEARSALS * run.n_seen, GOLDEN),
        rows,
        row_weight,
        (moments.count, moments.mean, moments.scatter, moments.bounds),
        session.mass,
        session.counts,
        annealer.pace(annealer.level_length),
        annealer.n,
        annealer.distortion,
        cells.n_cells,
        cells.arrays,
        annealer.reference,
        cells.payload[cells.rows("spread")],
        annealer.phase,
        live,
        book.labels,
        RELATIVE_WIDTH,
        choice.own,
        choice.factor,
        book.weights,
        book.widths,
    )
    run.n_seen += 1
    annealer.n_samples_seen += used
    if has_ended:
        run.end_level(rows[used:], row_weight[used:])
        session.fixed = None

# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Fast path for a few samples of a stream: they are learned in a single call of compiled code."""

from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from oda_rl._jit import kernel
from oda_rl._structs import Float1, Float2, Int1, count_slots, make_opener
from oda_rl._types import Array, Labels
from oda_rl.estimators.classification.book import RELATIVE_WIDTH, LiveCells
from oda_rl.estimators.classification.judging import learns_at_once
from oda_rl.estimators.classification.kernels import put_cells, weigh_cells
from oda_rl.estimators.feature_scaling import add_moments, scale_samples
from oda_rl.estimators.one_sample import (
    OTHERS,
    Prepared,
    gather_rows,
    is_growing,
    learn_rows,
    make_room,
    open_cells,
)
from oda_rl.estimators.session import Run
from oda_rl.estimators.targets import are_plain

# Dtype kinds of classes that need no checks.
KINDS = "biuU"
# More samples than this are learned faster on the usual path.
FEW = 16

if TYPE_CHECKING:
    from oda_rl.estimators.classification.estimator import ODAClassifier
    from oda_rl.estimators.classification.session import ClassSession


class Measured(NamedTuple):
    """Arrays of all classes: those of `Scaling` and `Moments`, and weights and numbers of samples.

    With d features and C classes they are (d,), (d, d), (C,), (C, d), (d, d), (2, d), (C,) and (C,).
    """

    shift: Float1
    matrix: Float2
    count: Float1  # type: ignore[assignment]
    mean: Float2
    scatter: Float2
    bounds: Float2
    mass: Float1
    counts: Float1


class Decided(NamedTuple):
    """Parts of the `ClassBook` of all classes."""

    labels: Int1
    weights: Float1
    widths: Float1


# The groups of arrays in a table, after `OwnCells`
GROUPS = (Measured, LiveCells, Decided)
open_measured, open_live, open_decided = (
    make_opener(group, OTHERS + count_slots(*GROUPS[:place])) for place, group in enumerate(GROUPS)
)


@kernel
def learn_in_order(tables, kind, samples, numbers, own, factor):
    """Learn from samples (n, n_features) with class `numbers` (n,), one after the other.

    The classes must have begun to anneal; the `tables` (n_classes, n_slots) hold the arrays of
    `OwnCells` and `GROUPS` for each of them. A sample, of weight one, is added to the moments of the
    features, scaled, and learned with rehearsed samples as in `Run.observe`. Stops after a sample that
    ends a temperature or a check of its class. Finally updates the codebook of all classes, with `own`
    and `factor` as for `weigh_cells`. Returns (number of samples learned, whether the last one ended a
    temperature or a check, the width of all classes).
    """
    known, live = open_measured(tables[numbers[0]]), open_live(tables[numbers[0]])
    book, moments = (
        open_decided(tables[numbers[0]]),
        (known.count, known.mean, known.scatter, known.bounds),
    )
    one, touched = np.ones(1), np.zeros(len(live.k), dtype=np.bool_)
    done, has_ended = 0, False
    while done < len(numbers) and not has_ended:
        c, sample = numbers[done], samples[done : done + 1]
        cells, touched[c] = open_cells(tables[c]), True
        add_moments(sample, numbers[done : done + 1], one, *moments)
        known.counts[c] += 1.0
        known.mass[c] += 1.0
        scale_samples(sample, known.shift, known.matrix, cells.rows)
        gather_rows(cells)
        has_ended = learn_rows(cells, kind, None)
        done += 1
    place = live.location, live.shares, live.spreads
    for c in range(len(touched)):
        if touched[c]:
            cells = open_cells(tables[c])
            live.distortion[c] = put_cells(
                kind, cells.location, cells.weight, cells.spread, live.first[c], live.k[c], *place
            )
    decided = known.mass, known.counts, RELATIVE_WIDTH, own, factor
    shared = weigh_cells(live, book.labels, *decided, book.weights, book.widths)
    return done, has_ended, shared


class PreparedClass(Prepared):
    """The arrays that change when a sample of a class is learned, as a table for `learn_in_order`."""

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
        """Whether the table is still valid, and for `n_rows` rows."""
        return (
            session.fixed is not None
            and self.live is session.live
            and self.scaling is session.scaling
            and self.holds(run, n_rows)
        )


class PreparedClasses:
    """A `PreparedClass` for each class number, and the tables of all of them."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Discard all tables."""
        self._classes: dict[int, PreparedClass] = {}
        self.tables = np.empty((0, 0), dtype=np.int64)

    def of(self, session: "ClassSession", number: int, n_rows: int) -> PreparedClass:
        """The `PreparedClass` of a class, for `n_rows` rows; its table is also a row of `tables`."""
        run, ready = session.runs[number], self._classes.get(number)
        if ready is None or not ready.serves(session, run, n_rows):
            ready = self._classes[number] = PreparedClass(session, run, n_rows)
            if len(self.tables) != len(session.runs):
                self.tables = np.zeros((len(session.runs), len(ready.table)), dtype=np.int64)
            self.tables[number] = ready.table
        return ready


def learn_few(estimator: "ODAClassifier", X: Any, y: Any) -> int:
    """Let an estimator learn from a few samples, if they need no more checks.

    For that, `X` must be plain and (n_samples, n_features), `y` an array of known classes of the same
    dtype kind, and parameters unchanged. Returns how many samples, the first ones, were learned.
    """
    numbers = _plain_numbers(estimator, X, y)
    if numbers is None:
        return 0
    done, n, left = 0, len(numbers), len(numbers)
    while done < n:
        if n > 1:
            left = n - done if estimator.forgetting is None else min(n - done, estimator._watch.left)
        own = (X, numbers) if left == n else (X[done : done + left], numbers[done : done + left])
        # the session is another one after a restart
        used = estimator._watched_few(*own, observe_few, estimator._session, *own)
        if used == 0:
            break
        done += used
    if done == 0:
        return 0
    attributes, session = estimator.__dict__, estimator._session
    estimator.n_samples_seen_ = session.n_seen
    if session.fixed is None:
        estimator._set_counts()
    book = attributes.get("_book")  # which changes in place
    if "codevectors_" in attributes or (book is not None and book is not session.fixed):
        estimator._clear_lazy_attributes()
    return done


def _plain_numbers(estimator: "ODAClassifier", X: Any, y: Any) -> Labels | None:
    """Class numbers of samples that need no more checks; None if they do."""
    attributes = estimator.__dict__
    session = attributes.get("_session")
    if session is None or estimator.verbose or estimator.class_weight is not None:
        return None
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
        return None
    if attributes.get("_numbered") is not classes:
        estimator._numbered = classes
        estimator._number_of = {c: i for i, c in enumerate(classes.tolist())}
    numbers = [estimator._number_of.get(c) for c in y.tolist()]
    return None if None in numbers else np.array(numbers)


def observe_few(session: "ClassSession", samples: Array, numbers: Labels) -> int:
    """Learn from the first of samples (n, n_features) with these class numbers; return how many.

    Stops before a class that has not warmed up, and before features are rescaled; learns none unless
    only densities are to be learned. Updates the codebook of all classes in place.
    """
    known, begun = numbers.tolist(), perf_counter()
    n = _count_plain(session, known)
    if n == 0:
        return 0
    if n < len(known):
        samples, numbers, known = samples[:n], numbers[:n], known[:n]
    prepared, choice, ready = session.prepared, session.choice, []
    for c in known if n == 1 else set(known):
        run = session.runs[c]
        own = prepared.of(session, c, make_room(run, samples))
        own.begin(run)
        ready.append((c, run, own))
    state = prepared.tables, session.divergence.kind, samples, numbers, choice.own, choice.factor
    done, has_ended, session.shared_width = learn_in_order(*state)
    session.n_seen += done
    session.n_measured += done
    part = (perf_counter() - begun) / done
    for c, run, own in ready:
        run.seconds += part if n == 1 else part * known[:done].count(c)
        own.end(run, has_ended and c == known[done - 1])
    if has_ended:
        session.fixed = None
    return done


def _count_plain(session: "ClassSession", numbers: list[int]) -> int:
    """How many of the first samples, with these class numbers, change nothing but densities.

    A class that still gathers samples for rehearsal takes one at a time.
    """
    settings = session.settings
    if settings.mode != "conditional" or settings.fine_tune is not None:
        return 0
    if learns_at_once(session):
        return 0
    n, left = len(numbers), session.rescale_at - 1 - session.n_measured
    for i, c in enumerate(numbers):
        run = session.runs[c]
        if i == left or run.annealer is None or run.annealer.is_measuring:
            return i
        if n > 1 and is_growing(run):
            return max(i, 1)
    return n

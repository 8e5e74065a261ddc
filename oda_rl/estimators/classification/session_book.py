"""The current codebook of all classes in a stream."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from oda_rl._structs import Float1, Float2, Int1
from oda_rl._types import Array
from oda_rl.estimators.classification.book import RELATIVE_WIDTH, ClassBook, with_votes
from oda_rl.estimators.classification.kernels import put_cells, weigh_cells
from oda_rl.estimators.feature_scaling import Scaling
from oda_rl.estimators.session import Run

if TYPE_CHECKING:
    from oda_rl.estimators.classification.session import ClassSession

# Locations (n_features, capacity), weights (capacity,) and variances of cells, and their number.
Cells = tuple[Array, Array, Array, int]


class LiveCells(NamedTuple):
    """The cells of all classes, one class after the other: a copy that follows the classes' codebooks.

    `location` and `spreads` are (n_features, n_cells), `shares` (n_cells,) sum to one in each class.
    Class c has `k[c]` cells from index `first[c]` on, with a mean divergence of `distortion[c]`; by
    itself it would have a width of `single[c]`.
    """

    location: Float2
    shares: Float1
    spreads: Float2
    k: Int1
    first: Int1
    distortion: Float1
    single: Float1


def book_of_session(session: "ClassSession") -> ClassBook:
    """The codebook of a session, with weights and widths from the samples so far."""
    shared, choice = session.settings.shared, session.choice
    if not session.is_warm:
        session.scaling = session.moments.scaling(session.settings.scale, session.divergence)
    if not session.is_warm or (shared and session.runs[0].annealer is None):
        return _book(session, _first_cells(session), session.mass, session.counts)
    cells = [_cells(run) for run in session.runs]
    if not shared:
        return _book(session, cells, session.mass, session.counts, choice.own, choice.factor)
    assert session.runs[0].annealer is not None
    mass, counts = np.array([session.mass.sum()]), np.array([session.counts.sum()])
    votes = session.runs[0].annealer.codebook["votes"].T.copy()
    return with_votes(_book(session, cells, mass, counts, factor=choice.factor), votes)


def _book(
    session: "ClassSession",
    cells: list[Cells],
    mass: Array,
    counts: Array,
    own: float = 0.0,
    factor: float = 1.0,
) -> ClassBook:
    """Make a codebook, as `book_of` does, from cells of all classes or of one partition."""
    k = np.array([part[-1] for part in cells])
    n, d = int(k.sum()), session.n_features
    live = LiveCells(
        np.empty((d, n)),
        np.empty(n),
        np.empty((d, n)),
        k,
        np.cumsum(k) - k,
        np.zeros(len(k)),
        np.empty(len(k)),
    )
    for c, part in enumerate(cells):
        place = live.location, live.shares, live.spreads
        start, kind = int(live.first[c]), session.divergence.kind
        live.distortion[c] = put_cells(kind, *part[:-1], start, part[-1], *place)
    labels, weights, widths = np.repeat(np.arange(len(k)), k), np.empty(n), np.empty(len(k))
    decided = mass, counts, RELATIVE_WIDTH, own, factor
    session.shared_width = weigh_cells(live, labels, *decided, weights, widths)
    session.live = live
    return ClassBook(live.location.T, labels, weights, widths, live.spreads.T)


def _first_cells(session: "ClassSession") -> list[Cells]:
    """One cell per class, its mean, for a stream that has not warmed up."""
    scaled = session.scaling(session.moments.mean)
    within, _ = session.moments.variances()
    spread = np.diag(session.matrix.T @ within @ session.matrix)[:, None].copy()
    means = [np.ascontiguousarray(mean[:, None]) for mean in scaled]
    return [(m, np.ones(1), spread, int(n > 0.0)) for m, n in zip(means, session.counts, strict=True)]


def _cells(run: Run) -> Cells:
    if run.annealer is not None:
        book = run.annealer.codebook
        return book.location, book.weight, book.payload[book.rows("spread")], len(book)
    if len(run.buffer) == 0:
        none = np.empty((run.buffer.shape[1], 0))
        return none, np.empty(0), none, 0
    found = (np.ascontiguousarray(part.T) for part in run.codebook())
    return *found, 1  # type: ignore[return-value]


def move(run: Run, old: Scaling, new: Scaling) -> None:
    """Convert the state of a run from one scaling of the features to another."""
    step = old.inverse @ new.matrix
    run.path = [(d, s, new(old.back(points)), *soft) for d, s, points, *soft in run.path]
    if len(run.buffer) > 0:
        run.buffer = new(old.back(run.buffer))
    if run.annealer is None:
        return
    book = run.annealer.codebook
    k = len(book)
    book.location[:, :k] = new(old.back(book.location[:, :k].T)).T
    run.annealer.reference = book.location.copy()
    length = np.maximum(book.critical_temperatures, 1e-300)
    axis = step.T @ book.axis[:, :k]
    # The axis is an eigenvector times its eigenvalue, a variance.
    book.axis[:, :k] = axis * (np.linalg.norm(axis, axis=0) / length)
    book["spread"][:] = (step.T**2) @ book["spread"]

"""The codebook of classes as it stands in a stream."""

from typing import TYPE_CHECKING

import numpy as np

from oda_rl._types import Array
from oda_rl.estimators.classification.book import (
    ERROR,
    FLOOR,
    ClassBook,
    mix_widths,
    width_parts,
    with_votes,
)
from oda_rl.estimators.classification.kernels import losses_of_widths, put_cells
from oda_rl.estimators.session import Run
from oda_rl.estimators.targets import Data

if TYPE_CHECKING:
    from oda_rl.estimators.classification.session import ClassSession

# Locations (n_features, capacity), weights (capacity,) and variances of cells, and how many they are.
Cells = tuple[Array, Array, Array, int]
# Widths that a stream tries, as a fit does; the first hold until samples have told. The losses of so
# many of the latest decide.
WIDTHS = ((0.0, 2.0), (0.0, 1.0), (0.0, 4.0), (0.0, 8.0), (1.0, 2.0))
REMEMBERED = 1000


def book_of_session(session: "ClassSession") -> ClassBook:
    """The cells of all classes, with weights and widths by what has been seen of them."""
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
    """As `book_of` has them: the cells of all classes, or of one partition."""
    k = np.array([part[-1] for part in cells])
    n, d = int(k.sum()), session.n_features
    codevectors, spreads, weights = np.empty((d, n)), np.empty((d, n)), np.empty(n)
    distortion, start = np.zeros(len(k)), 0
    for c, part in enumerate(cells):
        all_cells = codevectors, weights, spreads
        distortion[c] = put_cells(session.divergence.kind, *part[:-1], start, part[-1], *all_cells)
        start += part[-1]
    labels = np.repeat(np.arange(len(k)), k)
    weights *= (mass / mass.sum())[labels]
    session.width_parts = width_parts(k, mass * distortion, mass, counts, d)
    widths = factor * mix_widths(*session.width_parts, own)
    return ClassBook(codevectors.T, labels, weights, widths, spreads.T)


def choose_widths(session: "ClassSession", distance: Array, data: Data) -> None:
    """Take the widths that would have cost least on samples that had not been learned from.

    `distance` are the divergences of the next ones. What a fit has chosen by samples left out stays.
    """
    if session.choice.losses or session.settings.shared or session.local or len(distance) == 0:
        return
    if session.width_parts is None:
        book_of_session(session)
    assert session.width_parts is not None
    book, losses = session.book(), np.empty(len(WIDTHS))
    widths = np.array([factor * mix_widths(*session.width_parts, own) for own, factor in WIDTHS])
    cells = distance, book.labels, book.weights, widths, float(session.n_features)
    losses_of_widths(*cells, data.targets, data.weight, FLOOR, ERROR, losses)
    n = len(distance)
    session.n_tried += n
    rate = n / max(n, min(session.n_tried, REMEMBERED))
    session.trial_losses += rate * (losses - session.trial_losses)
    own, factor = WIDTHS[int(session.trial_losses.argmin())]
    session.choice = session.choice._replace(own=own, factor=factor)
    session.fixed = None


def _first_cells(session: "ClassSession") -> list[Cells]:
    """Before a stream has warmed up there are the means of the classes."""
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

"""The codebook of classes as it stands in a stream."""

from typing import TYPE_CHECKING

import numpy as np

from oda_rl.estimators.classification.book import Cells, ClassBook, book_of, cells_of, with_votes
from oda_rl.estimators.session import Run

if TYPE_CHECKING:
    from oda_rl.estimators.classification.session import ClassSession


def book_of_session(session: "ClassSession") -> ClassBook:
    """The cells of all classes, with weights and widths by what has been seen of them."""
    shared = session.settings.shared
    if not session.is_warm:
        session.scaling = session.moments.scaling(session.settings.scale, session.divergence)
    if not session.is_warm or (shared and session.runs[0].annealer is None):
        return _first_book(session)
    mass = np.array([session.mass.sum()]) if shared else session.mass
    cells = [_cells(session, run, m) for run, m in zip(session.runs, mass, strict=True)]
    choice = session.choice
    if not shared:
        return book_of(cells, mass, session.counts, choice.own, choice.factor)
    assert session.runs[0].annealer is not None
    counts = np.array([session.counts.sum()])
    widths = np.repeat(book_of(cells, mass, counts).widths, session.n_classes)
    votes = session.runs[0].annealer.codebook["votes"].T.copy()
    return with_votes(cells[0], votes, choice.factor * widths)


def _first_book(session: "ClassSession") -> ClassBook:
    """Before a stream has warmed up there are the means of the classes."""
    scaled = session.scaling(session.moments.mean)
    within, _ = session.moments.variances()
    spread = np.diag(session.matrix.T @ within @ session.matrix)[None]
    cells = []
    for c, count in enumerate(session.counts):
        own = slice(c, c + int(count > 0.0))
        means, mass = scaled[own], session.mass[c]
        cells.append(cells_of(means, np.ones(len(means)), spread, mass, session.divergence))
    return book_of(cells, session.mass, session.counts)


def _cells(session: "ClassSession", run: Run, mass: float) -> Cells:
    if run.annealer is None and len(run.buffer) == 0:
        empty = np.empty((0, session.n_features))
        return Cells(empty, np.empty(0), 0.0, empty, np.empty(0, dtype=np.int64))
    codevectors, shares, spreads = run.codebook()
    return cells_of(codevectors, shares, spreads, mass, session.divergence)

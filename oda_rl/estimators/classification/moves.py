"""What a run over one class tells, and how it is moved to other features."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oda_rl.codebook.divergences import Divergence
from oda_rl.estimators.classification.book import Cells
from oda_rl.estimators.feature_scaling import Scaling
from oda_rl.estimators.session import Run

Array = NDArray[np.float64]
Labels = NDArray[np.int64]


class ClassPoint(NamedTuple):
    """What was learned at one temperature: a record of `ODAClassifier.history_`.

    `loss` is the mean of -log p(c | x) over samples left out, at this temperature (NaN if none were),
    with p no less than 0.02;
    `codevectors` are in the units of the data, `labels` their classes; `n_samples_seen` samples have
    been presented and `seconds` spent since the annealing of all samples began.
    """

    temperature: float
    n_codevectors: int
    loss: float
    n_samples_seen: int
    seconds: float
    codevectors: Array
    labels: NDArray[Any]


def history(stream: Any, classes: NDArray[Any]) -> list[ClassPoint]:
    """One record per temperature, of all classes together; partitions they share have their first."""
    runs = [(c, run.history) for c, run in enumerate(stream.runs) if run.history]
    losses = stream.choice.losses
    records = []
    for level in range(max((len(points) for _, points in runs), default=0)):
        points = [(c, points[min(level, len(points) - 1)]) for c, points in runs]
        numbers = np.repeat([c for c, _ in points], [p.n_codevectors for _, p in points])
        codevectors = np.concatenate([p.codevectors for _, p in points])
        records.append(
            ClassPoint(
                min(p.temperature for _, p in points),
                len(codevectors),
                losses[level] if level < len(losses) else float("nan"),
                sum(p.n_samples_seen for _, p in points),
                sum(p.seconds for _, p in points),
                stream.scaling.back(codevectors),
                classes[numbers],
            )
        )
    return records


def cells_of(
    codevectors: Array, shares: Array, spreads: Array, mass: float, divergence: Divergence
) -> Cells:
    """Cells whose distortion is told from their variances, to second order."""
    spreads = np.broadcast_to(spreads, codevectors.shape)
    if divergence.name == "squared_euclidean" or len(codevectors) == 0:
        own = spreads.sum(axis=1)
    else:
        scale = np.array([divergence.scale(mu) for mu in codevectors])
        own = 0.5 * (scale**2 * spreads).sum(axis=1)
    return Cells(codevectors, shares, mass * float(shares @ own), spreads, np.empty(0, dtype=np.int64))


def move(run: Run, old: Scaling, new: Scaling) -> None:
    """Express what a run has learned in other scaled features; it stays where it is in the data."""
    step = old.inverse @ new.matrix
    run.path = [(d, s, new(old.back(points))) for d, s, points in run.path]
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

"""The fit of an `ODAClassifier`: scaling, the temperature to stop at, annealing, fine-tuning."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl.estimators.classification.book import Cells, ClassBook
from oda_rl.estimators.classification.path import LAST_TURNS, Choice, Data, anneal, choose, codebooks
from oda_rl.estimators.classification.stream import Stream
from oda_rl.estimators.fine_tuning import anneal_lvq, fine_tune

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

# Parts of the validation: of so many samples at most, and of more.
FOLDS, FEW_SAMPLES, MORE_FOLDS = 3, 2000, 5


def fit_classes(
    stream: Stream, samples: Array, labels: Labels, weight: Array, n_classes: int, estimator: Any
) -> None:
    """Learn classes from samples at hand; the stream goes on from there."""
    mode = stream.mode
    stream.insert_classes(list(range(n_classes)))
    stream.moments.observe(samples, labels, weight)
    stream.mass = np.bincount(labels, weight, n_classes).astype(float)
    stream.counts = np.bincount(labels, minlength=n_classes).astype(float)
    divergence = stream.settings.divergence
    stream.scaling = stream.moments.scaling_for(mode.scale, divergence, samples, labels, stream.rng)
    data = Data(stream.scaling(samples), labels, weight, n_classes, stream.shared)
    settings = stream.settings._replace(max_codevectors=mode.room(n_classes))
    validation = estimator.validation
    stream.choice = Choice()
    if validation is not None and n_classes > 1:
        auto = FOLDS if len(samples) <= FEW_SAMPLES else MORE_FOLDS
        folds = auto if validation == "auto" else int(validation)
        stream.choice = choose(data, settings, folds, stream.rng)
    level = stream.choice.level if stream.choice.losses else None
    runs = anneal(data, settings, stream.rng, level, stream.runs[0].payload)
    stream.take_over(runs, len(samples))
    cells = data.settle(codebooks(runs, 10**9), settings, LAST_TURNS)
    book = data.book(cells, stream.choice.own, stream.choice.factor)
    if not stream.shared:
        book, data = _tuned(stream, book, data, estimator)
    stream.set_book(book, data.votes(cells[0]) if stream.shared else None)


def _tuned(stream: Stream, book: ClassBook, data: Data, estimator: Any) -> tuple[ClassBook, Data]:
    """The codebook after annealed LVQ and fine-tuning, and the data in the features of its metric."""
    codevectors, passes = book.codevectors, estimator.n_passes
    divergence = stream.settings.divergence
    examples = data.samples, data.labels, data.weight
    if stream.mode.mode == "lvq":
        codevectors = anneal_lvq(
            codevectors,
            book.labels,
            book.weights,
            *examples,
            divergence,
            stream.temperature,
            passes,
            stream.rng,
        )
    if stream.mode.fine_tune is not None:
        variant = stream.mode.fine_tune
        codevectors, omega = fine_tune(
            variant, codevectors, book.labels, *examples, divergence, passes, stream.rng
        )
        if omega is not None:
            stream.turn(omega)
            codevectors = codevectors @ omega.T
            data = data._replace(samples=np.ascontiguousarray(data.samples @ omega.T))
    if codevectors is book.codevectors:
        return book, data
    found = [codevectors[book.labels == c] for c in range(data.n_classes)]
    cells: list[Cells] = data.settle(found, stream.settings, 0)
    return data.book(cells, stream.choice.own, stream.choice.factor), data

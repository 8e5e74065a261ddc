"""Learning vector quantization in a stream of classes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl.estimators import lvq_kernels
from oda_rl.estimators.fine_tuning import LVQ1_OFFSET, STEEPNESS, STEP, scratch_for

Array = NDArray[np.float64]
Labels = NDArray[np.int64]


def stacked(stream: Any) -> tuple[Array, Labels, Array, Array]:
    """Locations, classes, weights and ages of all codevectors that anneal."""
    books = [(c, run.annealer.codebook) for c, run in enumerate(stream.runs) if run.annealer]
    location = np.ascontiguousarray(
        np.concatenate([book.location[:, : len(book)] for _, book in books], axis=1)
    )
    labels = np.repeat([c for c, _ in books], [len(book) for _, book in books]).astype(np.int64)
    share = np.concatenate([book.weights * stream.mass[c] for c, book in books])
    return location, labels, share / stream.mass.sum(), share


def unstack(stream: Any, location: Array) -> None:
    """Put locations that `stacked` has joined back into the codebooks of the classes."""
    start = 0
    for run in stream.runs:
        if run.annealer is not None:
            book = run.annealer.codebook
            book.location[:, : len(book)] = location[:, start : start + len(book)]
            start += len(book)


def repel(stream: Any, samples: Array, labels: Labels, weight: Array) -> None:
    """The part of eq. 31 that moves codevectors of other classes away."""
    annealers = [run.annealer for run in stream.runs if run.annealer is not None]
    if not annealers:
        return
    location, own, share, age = stacked(stream)
    temperature = min(0.0 if a.done and a.harden else a.temperature for a in annealers)
    divergence = stream.settings.divergence
    lvq_kernels.soft_lvq(
        divergence.kind,
        samples,
        labels,
        weight,
        temperature,
        LVQ1_OFFSET,
        1.0,
        divergence.minimum,
        True,
        location,
        share,
        own,
        age,
        scratch_for(location),
    )
    unstack(stream, location)


def tune(stream: Any, samples: Array, labels: Labels, weight: Array) -> None:
    """Fine-tune in a stream whose annealing is done; relevances stay as `fit` has left them."""
    if len(samples) == 0:
        return
    location, own, _, age = stacked(stream)
    scratch = scratch_for(location)
    divergence = stream.settings.divergence
    if stream.mode.fine_tune == "lvq1":
        kind, least = divergence.kind, divergence.minimum
        lvq_kernels.lvq1(
            kind, samples, labels, weight, LVQ1_OFFSET, 1.0, least, location, own, age, scratch
        )
    else:
        relevance = np.ones(stream.n_features)
        for t in range(len(samples)):
            rows = slice(t, t + 1)
            step = STEP / (1.0 + (stream.n_measured - len(samples) + t) / (100.0 * len(own)))
            part = samples[rows], labels[rows], weight[rows]
            lvq_kernels.glvq(*part, step, STEEPNESS, 0.0, relevance, location, own, scratch)
    unstack(stream, location)

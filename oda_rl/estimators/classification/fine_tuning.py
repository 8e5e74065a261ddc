"""Learning vector quantization of labelled codevectors: LVQ1, GLVQ and annealed LVQ."""

from typing import Any

import numpy as np

from oda_rl._types import Array, Labels
from oda_rl.codebook.divergences import Divergence
from oda_rl.estimators.classification import lvq_kernels as kernels
from oda_rl.estimators.classification.book import ClassBook
from oda_rl.estimators.targets import Data

VARIANTS = ("lvq1", "glvq")
# First stepsize of GLVQ; that of LVQ1 depends on the weight of the samples that moved the codevector.
STEP = 0.05
# Factor of the temperature from pass to pass in annealed LVQ.
COOLING = 0.7


def check_variant(variant: str | None, divergence: Divergence, name: str) -> None:
    """Raise a ValueError for a variant that does not exist for this divergence."""
    if variant == "glvq" and not divergence.is_euclidean:
        raise ValueError(
            f"{name}={variant!r} needs divergence='squared_euclidean', got {divergence.name!r}; "
            "'lvq1' takes any."
        )


def learn(
    variant: str,
    divergence: Divergence,
    data: Data,
    step: float,
    location: Array,
    label: Labels,
    count: Array,
) -> None:
    """Move codevectors by samples in their order: by LVQ1, or with squared Euclidean distances by GLVQ.

    `location` (n_features, n_cells) is changed in place. So is, by LVQ1, `count` (n_cells,), the weight
    of the samples that have moved the codevectors. `label` (n_cells,) are the classes; `step` is the
    stepsize of GLVQ.
    """
    if variant == "lvq1":
        kernels.lvq1(divergence.kind, divergence.minimum, *data, location, label, count)
    else:
        kernels.glvq(divergence.kind, *data, step, location, label)


def fine_tune(
    variant: str,
    codevectors: Array,
    label: Labels,
    data: Data,
    divergence: Divergence,
    n_passes: int,
    rng: np.random.Generator,
) -> Array:
    """Move codevectors (n_cells, n_features) as `learn` does, in several passes; return the new ones.

    The weights of the samples have a mean of one; `rng` shuffles the samples for each pass.
    """
    location, count = np.ascontiguousarray(codevectors.T), np.zeros(len(codevectors))
    for n in range(n_passes):
        part = data.take(rng.permutation(len(data.weight)))
        learn(variant, divergence, part, STEP * (1.0 - n / n_passes), location, label, count)
    return np.ascontiguousarray(location.T)


def anneal_lvq(
    codevectors: Array,
    label: Labels,
    weights: Array,
    data: Data,
    divergence: Divergence,
    temperature: float,
    n_passes: int,
    rng: np.random.Generator,
) -> Array:
    """Minimise the distortion of eq. 31, lowering the temperature from pass to pass.

    `weights` (n_cells,) are the probabilities of the codevectors; all else is as for `fine_tune`.
    """
    location, count = np.ascontiguousarray(codevectors.T), np.zeros(len(codevectors))
    kind, minimum = divergence.kind, divergence.minimum
    for n in range(n_passes):
        part = data.take(rng.permutation(len(data.weight)))
        level = temperature * COOLING**n
        kernels.soft_lvq(kind, minimum, *part, level, False, location, weights, label, count)
    return np.ascontiguousarray(location.T)


def repel(session: Any, data: Data) -> None:
    """Move codevectors of other classes away from samples of a stream: the repulsion in eq. 31."""
    annealers = [run.annealer for run in session.runs if run.annealer is not None]
    if not annealers:
        return
    location, label, count = _joined(session)
    temperature = min(0.0 if a.done and a.harden else a.temperature for a in annealers)
    kind, minimum = session.divergence.kind, session.divergence.minimum
    weight = count / session.mass.sum()
    kernels.soft_lvq(kind, minimum, *data, temperature, True, location, weight, label, count)
    _put_back(session, location)


def tune(session: Any, data: Data) -> None:
    """Fine-tune on samples of a stream after the annealing; `session.n_measured` must include them."""
    n = len(data.weight)
    if n == 0:
        return
    location, label, count = _joined(session)
    variant, divergence = session.settings.fine_tune, session.divergence
    if variant == "lvq1":
        learn(variant, divergence, data, STEP, location, label, count)
    else:
        for t in range(n):
            step = STEP / (1.0 + (session.n_measured - n + t) / (100.0 * len(label)))
            learn(variant, divergence, data.take(slice(t, t + 1)), step, location, label, count)
    _put_back(session, location)


def _joined(session: Any) -> tuple[Array, Labels, Array]:
    """Join the codebooks of all classes that anneal: locations, class numbers, weights in samples."""
    books = [(c, run.annealer.codebook) for c, run in enumerate(session.runs) if run.annealer]
    location = np.concatenate([book.location[:, : len(book)] for _, book in books], axis=1)
    label = np.repeat([c for c, _ in books], [len(book) for _, book in books]).astype(np.int64)
    count = np.concatenate([book.weights * session.mass[c] for c, book in books])
    return np.ascontiguousarray(location), label, count


def _put_back(session: Any, location: Array) -> None:
    """Write locations from `_joined` back to the codebooks of the classes."""
    start = 0
    for run in session.runs:
        if run.annealer is not None:
            book = run.annealer.codebook
            book.location[:, : len(book)] = location[:, start : start + len(book)]
            start += len(book)


def tuned_codevectors(
    settings: Any,
    book: ClassBook,
    scaled: Data,
    temperature: float,
    n_passes: int,
    rng: np.random.Generator,
) -> Array:
    """The codevectors after annealed LVQ and fine-tuning, if the classifier's settings ask for them."""
    codevectors, divergence = book.codevectors, settings.annealing.divergence
    labels, passes = book.labels, (n_passes, rng)
    if settings.mode == "lvq":
        metric = divergence, temperature
        codevectors = anneal_lvq(codevectors, labels, book.weights, scaled, *metric, *passes)
    if settings.fine_tune is not None:
        variant = settings.fine_tune
        codevectors = fine_tune(variant, codevectors, labels, scaled, divergence, *passes)
    return codevectors

# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Learning vector quantization of labelled codevectors: LVQ1, GLVQ and annealed LVQ.

In kernels, codevectors are stored as in `oda_rl.codebook.learning`: `location` is (n_features, n_cells),
in scaled features; `label` (n_cells,) are their class numbers and `count` (n_cells,) the weight of the
samples that have moved them. `samples` are (n_samples, n_features), `labels` and `sample_weight`
(n_samples,). `kind` is the divergence, `minimum` the least coordinate in its domain. `location` and
`count` are changed in place.

References
----------
Equation numbers are those of Mavridis and Baras, "Multi-Resolution Online Deterministic Annealing".
Sato and Yamada, "Generalized learning vector quantization", NIPS 1995.
"""

import math
from typing import Any

import numpy as np

from oda_rl._jit import kernel
from oda_rl._types import Array, Labels
from oda_rl.codebook.association import EXACT, associate, divergences, index_of_smallest
from oda_rl.codebook.divergences import Divergence
from oda_rl.estimators.targets import Data

VARIANTS = ("lvq1", "glvq")
# First stepsize of GLVQ; that of LVQ1 depends on the weight of the samples that moved the codevector.
STEP = 0.05
# Factor of the temperature from pass to pass in annealed LVQ.
COOLING = 0.7
# Largest step of a codevector towards a sample or away from it, relative to their difference.
MAX_STEP = 0.5
# The first stepsize of LVQ1 is 1 / OFFSET; stepsizes fall with the samples of the codevector.
OFFSET = 10.0
# Steepness of the cost of GLVQ where both codevectors are equally near.
STEEPNESS = 2.0
# In annealed LVQ, a codevector with a smaller share in a sample does not move.
LEAST_SHARE = 1e-3


@kernel
def lvq1(kind, minimum, samples, labels, sample_weight, location, label, count):
    """LVQ1: the nearest codevector moves to the sample if its class is right, else away from it.

    The stepsize is 1 / (OFFSET + v), v being the `count` of the codevector. Coordinates that would not
    stay above `minimum` do not move.
    """
    n_cells = location.shape[1]
    distance = np.empty(n_cells)
    for t in range(samples.shape[0]):
        divergences(kind, samples[t], location, 0, n_cells, distance)
        i = index_of_smallest(distance, n_cells)
        step = min(MAX_STEP, sample_weight[t] / (OFFSET + count[i]))
        count[i] += sample_weight[t]
        if label[i] != labels[t]:
            step = -step
        for j in range(samples.shape[1]):
            moved = location[j, i] + step * (samples[t, j] - location[j, i])
            location[j, i] = moved if moved > minimum else location[j, i]


@kernel
def soft_lvq(
    kind,
    minimum,
    samples,
    labels,
    sample_weight,
    temperature,
    repel_only,
    location,
    weight,
    label,
    count,
):
    """Steps for the distortion of eq. 31 at a temperature: attraction by the own class, else repulsion.

    Stepsizes are those of `lvq1` times the association probabilities over all classes (eq. 13), with
    `weight` (n_cells,) as probabilities of the codevectors. The sign of the distortion is that of the
    step. (With the sign in the exponent, too, the most distant codevectors would be repelled most.) With
    `repel_only` codevectors of the sample's class do not move.
    """
    n_cells = location.shape[1]
    distance, share = np.empty(n_cells), np.empty(n_cells)
    for t in range(samples.shape[0]):
        divergences(kind, samples[t], location, 0, n_cells, distance)
        associate(distance, weight, None, n_cells, 0, temperature, EXACT, share)
        for i in range(n_cells):
            own = label[i] == labels[t]
            if share[i] < LEAST_SHARE or (own and repel_only):
                continue
            step = min(MAX_STEP, share[i] * sample_weight[t] / (OFFSET + count[i]))
            if own:
                count[i] += share[i] * sample_weight[t]
            else:
                step = -step
            for j in range(samples.shape[1]):
                moved = location[j, i] + step * (samples[t, j] - location[j, i])
                location[j, i] = moved if moved > minimum else location[j, i]


@kernel
def glvq(kind, samples, labels, sample_weight, step, location, label):
    """GLVQ: one stochastic gradient step per sample.

    The cost is the sigmoid of STEEPNESS times (d+ - d-) / (d+ + d-), with the squared distances d+ from
    the nearest codevector of the own class and d- from that of the others; both move. `step` is in
    units of the running mean of d+ + d-.
    """
    n_cells = location.shape[1]
    distance = np.empty(n_cells)
    typical, n_used = 0.0, 0.0
    for t in range(samples.shape[0]):
        divergences(kind, samples[t], location, 0, n_cells, distance)
        own, other = -1, -1
        for i in range(n_cells):
            if label[i] == labels[t]:
                if own < 0 or distance[i] < distance[own]:
                    own = i
            elif other < 0 or distance[i] < distance[other]:
                other = i
        if own < 0 or other < 0:
            continue
        near, far = distance[own], distance[other]
        both = near + far
        if both <= 0.0:
            continue
        n_used += 1.0
        typical += (both - typical) / n_used
        s = 1.0 / (1.0 + math.exp(-STEEPNESS * ((near - far) / both)))
        slope = 4.0 * s * (1.0 - s) * sample_weight[t]
        toward = min(MAX_STEP, step * slope * far * typical / (both * both))
        away = min(MAX_STEP, step * slope * near * typical / (both * both))
        for j in range(samples.shape[1]):
            location[j, own] += toward * (samples[t, j] - location[j, own])
            location[j, other] -= away * (samples[t, j] - location[j, other])


def check_variant(variant: str | None, divergence: Divergence, name: str) -> None:
    """Raise a ValueError for a variant that does not exist for this divergence."""
    if variant == "glvq" and not divergence.is_euclidean:
        raise ValueError(
            f"{name}={variant!r} needs divergence='squared_euclidean', got {divergence.name!r}; "
            "'lvq1' supports all divergences."
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
        lvq1(divergence.kind, divergence.minimum, *data, location, label, count)
    else:
        glvq(divergence.kind, *data, step, location, label)


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
        soft_lvq(kind, minimum, *part, level, False, location, weights, label, count)
    return np.ascontiguousarray(location.T)


def repel(session: Any, data: Data) -> None:
    """Move codevectors of other classes away from samples of a stream: the repulsion in eq. 31."""
    annealers = [run.annealer for run in session.runs if run.annealer is not None]
    if not annealers:
        return
    location, label, weight = _joined(session)
    count = weight * session.mass[label]
    temperature = min(0.0 if a.done and a.harden else a.temperature for a in annealers)
    kind, minimum = session.divergence.kind, session.divergence.minimum
    share = count / session.mass.sum()
    soft_lvq(kind, minimum, *data, temperature, True, location, share, label, count)
    _put_back(session, location)


def tune(session: Any, data: Data, mass: Array) -> None:
    """Fine-tune on samples of a stream after the annealing; `session.n_measured` must include them.

    Each sample first adds its `mass` (n_samples,) to that of its class in the session. The steps of LVQ1
    depend on the weight of all samples of a class so far, of which each codevector has its share.
    """
    n = len(data.weight)
    if n == 0:
        return
    location, label, weight = _joined(session)
    variant, divergence = session.settings.fine_tune, session.divergence
    for t in range(n):
        session.mass[data.targets[t]] += mass[t]
        step = STEP / (1.0 + (session.n_measured - n + t) / (100.0 * len(label)))
        one, count = data.take(slice(t, t + 1)), weight * session.mass[label]
        learn(variant, divergence, one, step, location, label, count)
    _put_back(session, location)


def _joined(session: Any) -> tuple[Array, Labels, Array]:
    """Join the codebooks of all classes that anneal: locations, class numbers, weights in the class."""
    books = [(c, run.annealer.codebook) for c, run in enumerate(session.runs) if run.annealer]
    location = np.concatenate([book.location[:, : len(book)] for _, book in books], axis=1)
    label = np.repeat([c for c, _ in books], [len(book) for _, book in books]).astype(np.int64)
    weight = np.concatenate([book.weights for _, book in books])
    return np.ascontiguousarray(location), label, weight


def _put_back(session: Any, location: Array) -> None:
    """Write locations from `_joined` back to the codebooks of the classes."""
    start = 0
    for run in session.runs:
        if run.annealer is not None:
            book = run.annealer.codebook
            book.location[:, : len(book)] = location[:, start : start + len(book)]
            start += len(book)

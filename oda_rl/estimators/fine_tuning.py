"""Learning vector quantization of data at hand: LVQ1, GLVQ, GRLVQ, GMLVQ and annealed LVQ."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oda_rl.codebook.divergences import Divergence
from oda_rl.estimators import lvq_kernels

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

VARIANTS = ("lvq1", "glvq", "grlvq", "gmlvq")
# Stepsizes: first offsets of LVQ1's, in samples per codevector; those of GLVQ and of its relevances.
LVQ1_OFFSET = 10.0
STEP, STEP_RELEVANCE, STEEPNESS = 0.05, 0.005, 2.0
# Annealed LVQ: what the temperature is multiplied by from pass to pass.
SOFT_COOLING = 0.7


class Tuned(NamedTuple):
    """Codevectors (K, d) and, for relevances, omega (d, d) with d(x, mu) = |omega (x - mu)|^2."""

    codevectors: Array
    omega: Array | None = None


def check_variant(variant: str | None, divergence: Divergence, name: str, none: bool = True) -> None:
    """Raise a ValueError for a variant that does not exist, or not for this divergence."""
    if variant is None and none:
        return
    if variant not in VARIANTS:
        known = (None, *VARIANTS) if none else VARIANTS
        raise ValueError(f"{name} must be one of {known}, got {variant!r}.")
    if variant != "lvq1" and divergence.name != "squared_euclidean":
        raise ValueError(
            f"{name}={variant!r} needs divergence='squared_euclidean', got {divergence.name!r}; "
            "'lvq1' takes any."
        )


def scratch_for(location: Array) -> Array:
    """Room for the kernels."""
    return np.empty((3, max(location.shape)))


def fine_tune(
    variant: str,
    codevectors: Array,
    codevector_labels: Labels,
    samples: Array,
    labels: Labels,
    weight: Array,
    divergence: Divergence,
    n_passes: int,
    rng: np.random.Generator,
) -> Tuned:
    """Move codevectors towards samples of their class and away from others, in several passes.

    Parameters
    ----------
    variant : {"lvq1", "glvq", "grlvq", "gmlvq"}
        The rule.
    codevectors, codevector_labels : ndarray of shape (K, d) and (K,)
        Where to start; not changed.
    samples, labels, weight : ndarray of shape (n, d), (n,) and (n,)
        What to learn from; weights of mean one.
    divergence : Divergence
        Of LVQ1; the others need the squared Euclidean distance.
    n_passes : int
        Passes, each in a new order.
    rng : Generator
        Orders the samples.

    Returns
    -------
    Tuned
    """
    location = np.ascontiguousarray(codevectors.T)
    scratch = scratch_for(location)
    d = location.shape[0]
    count, relevance, omega = np.zeros(location.shape[1]), np.ones(d), np.eye(d)
    for n in range(n_passes):
        order = rng.permutation(len(samples))
        part = samples[order], labels[order], weight[order]
        fall = 1.0 - n / n_passes
        step, slow = STEP * fall, STEP_RELEVANCE * fall
        if variant == "lvq1":
            minimum = divergence.minimum
            kind = divergence.kind
            lvq_kernels.lvq1(
                kind, *part, LVQ1_OFFSET, 1.0, minimum, location, codevector_labels, count, scratch
            )
        elif variant == "gmlvq":
            lvq_kernels.gmlvq(*part, step, STEEPNESS, slow, omega, location, codevector_labels, scratch)
        else:
            slow = slow if variant == "grlvq" else 0.0
            lvq_kernels.glvq(
                *part, step, STEEPNESS, slow, relevance, location, codevector_labels, scratch
            )
    tuned = np.ascontiguousarray(location.T)
    if variant == "grlvq":
        return Tuned(tuned, np.diag(np.sqrt(relevance)))
    return Tuned(tuned, omega if variant == "gmlvq" else None)


def anneal_lvq(
    codevectors: Array,
    codevector_labels: Labels,
    codevector_weights: Array,
    samples: Array,
    labels: Labels,
    weight: Array,
    divergence: Divergence,
    temperature: float,
    n_passes: int,
    rng: np.random.Generator,
) -> Array:
    """Minimise the distortion of eq. 31 while the temperature falls pass by pass; as `fine_tune`."""
    location = np.ascontiguousarray(codevectors.T)
    scratch, count = scratch_for(location), np.zeros(location.shape[1])
    for n in range(n_passes):
        order = rng.permutation(len(samples))
        lvq_kernels.soft_lvq(
            divergence.kind,
            samples[order],
            labels[order],
            weight[order],
            temperature * SOFT_COOLING**n,
            LVQ1_OFFSET,
            1.0,
            divergence.minimum,
            False,
            location,
            codevector_weights,
            codevector_labels,
            count,
            scratch,
        )
    return np.ascontiguousarray(location.T)

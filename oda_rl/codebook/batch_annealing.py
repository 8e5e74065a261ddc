"""Batch deterministic annealing, in NumPy: the algorithm behind `DeterministicAnnealing`."""

import time

import numpy as np
from numpy.typing import NDArray

from oda_rl.codebook.divergences import Divergence
from oda_rl.codebook.schedule import Cooling
from oda_rl.estimators.session import PathPoint, critical_temperature, first_and_last_temperature

Array = NDArray[np.float64]


def associations(
    samples: Array, divergence: Divergence, codevectors: Array, masses: Array, temperature: float
) -> Array:
    """p(mu_i | x) of all samples, (n_samples, n_codevectors), in log space."""
    exponent = np.log(masses) - divergence(samples, codevectors) / temperature
    exponent -= exponent.max(axis=1, keepdims=True)
    share = np.exp(exponent)
    return share / share.sum(axis=1, keepdims=True)


def settle(
    samples: Array,
    weight: Array,
    divergence: Divergence,
    codevectors: Array,
    masses: Array,
    temperature: float,
    tolerance: float,
    max_iter: int,
) -> tuple[Array, Array, Array, int]:
    """Associations and means in turn, until no codevector moves by more than `tolerance`.

    Returns codevectors, masses, the last associations times the weights, and the turns.
    """
    turn = 0
    standing = False
    while turn < max_iter and not standing:
        turn += 1
        share = associations(samples, divergence, codevectors, masses, temperature)
        share *= weight[:, None]
        masses = share.sum(axis=0)
        alive = masses > 0.0
        share, masses = share[:, alive], masses[alive]
        moved = share.T @ samples / masses[:, None]
        standing = np.diagonal(divergence(moved, codevectors[alive])).max() <= tolerance
        codevectors = moved
    return codevectors, masses, share, turn


def split_critical(
    samples: Array,
    divergence: Divergence,
    codevectors: Array,
    masses: Array,
    share: Array,
    temperature: float,
    room: int,
    perturbation: float,
) -> tuple[Array, Array, tuple[float, ...]]:
    """Split the cells that are critical at `temperature`, hottest first, while there is room."""
    found = [critical_temperature(divergence, samples, column) for column in share.T]
    order = sorted(range(len(found)), key=lambda i: -found[i][0])
    chosen = [i for i in order if found[i][0] > temperature][: max(0, room)]
    codevectors, masses = codevectors.copy(), masses.copy()
    for i in chosen:
        critical, _, axis, _ = found[i]
        length = max(np.sqrt(critical - temperature), perturbation * np.sqrt(critical))
        offset = length * axis / critical / divergence.scale(codevectors[i])
        room_left = np.min((codevectors[i] - divergence.minimum) / np.maximum(np.abs(offset), 1e-300))
        offset *= min(1.0, 0.9 * float(room_left))
        codevectors = np.vstack([codevectors, codevectors[i] - offset])
        codevectors[i] += offset
        masses[i] *= 0.5
        masses = np.append(masses, masses[i])
    return codevectors, masses, tuple(found[i][0] for i in chosen)


def merge_close(
    divergence: Divergence, codevectors: Array, masses: Array, tolerance: float
) -> tuple[Array, Array]:
    """Merge codevectors closer than `tolerance` into their mean."""
    i = 0
    while i < len(codevectors) - 1:
        distance = divergence(codevectors[i][None, :], codevectors[i + 1 :])[0]
        k = i + 1 + int(distance.argmin())
        if distance[k - i - 1] >= tolerance:
            i += 1
            continue
        mass = masses[i] + masses[k]
        codevectors[i] += masses[k] / mass * (codevectors[k] - codevectors[i])
        masses[i] = mass
        codevectors, masses = np.delete(codevectors, k, axis=0), np.delete(masses, k)
    return codevectors, masses


def anneal_batch(
    samples: Array,
    weight: Array,
    divergence: Divergence,
    t_max: float | str,
    t_min: float | str,
    cooling: Cooling,
    max_codevectors: int,
    tol_converge: float,
    tol_merge: float,
    perturbation: float,
    max_iter: int,
) -> tuple[Array, list[PathPoint]]:
    """All temperatures from `t_max` to `t_min`; returns the codevectors and one record per temperature.

    `weight` sums to one; the other parameters are those of `DeterministicAnnealing`.
    """
    begun = time.perf_counter()
    critical, mean, _, _ = critical_temperature(divergence, samples, weight)
    codevectors, masses = mean[None, :], np.ones(1)
    temperature, last = (
        first_and_last_temperature(t_max, t_min, critical) if critical > 0.0 else (1.0, 1.0)
    )
    if last > temperature:
        raise ValueError(f"t_min <= t_max is needed, got t_min={last}, t_max={temperature}.")
    history: list[PathPoint] = []
    seen = 0
    while True:
        codevectors, masses, share, turns = settle(
            samples,
            weight,
            divergence,
            codevectors,
            masses,
            temperature,
            tol_converge * temperature,
            max_iter,
        )
        seen += turns * len(samples)
        n_before = len(codevectors)
        codevectors, masses = merge_close(divergence, codevectors, masses, tol_merge * temperature)
        distance = divergence(samples, codevectors)
        cooled = cooling(temperature)
        split: tuple[float, ...] = ()
        point = codevectors.copy()
        if cooled >= last and len(codevectors) < max_codevectors:
            if len(codevectors) < n_before:
                share = associations(samples, divergence, codevectors, masses, temperature)
                share *= weight[:, None]
            codevectors, masses, split = split_critical(
                samples,
                divergence,
                codevectors,
                masses,
                share,
                cooled,
                max_codevectors - len(codevectors),
                perturbation,
            )
        history.append(
            PathPoint(
                temperature,
                len(point),
                float(weight @ distance.min(axis=1)),
                seen,
                time.perf_counter() - begun,
                split,
                point,
            )
        )
        if cooled < last:
            return point, history
        temperature = cooled

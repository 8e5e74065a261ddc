"""Batch deterministic annealing, in NumPy: the algorithm behind `DeterministicAnnealing`."""

import time

import numpy as np

from oda_rl._types import Array
from oda_rl.codebook.book import Codebook
from oda_rl.codebook.divergences import SMALLEST_SQUARE, Divergence
from oda_rl.codebook.schedule import Cooling, PathPoint, first_and_last_temperature


def associations(samples: Array, book: Codebook, temperature: float) -> Array:
    """p(mu_i | x) of all samples (eq. 13), of shape (n_samples, n_codevectors), in log space."""
    exponent = np.log(book.weights) - book.divergence(samples, book.codevectors) / temperature
    exponent -= exponent.max(axis=1, keepdims=True)
    share = np.exp(exponent)
    return share / share.sum(axis=1, keepdims=True)


def converge(
    samples: Array, weight: Array, book: Codebook, temperature: float, tolerance: float, max_iter: int
) -> tuple[Array, int]:
    """Associations and means in turn, until no codevector moves by more than `tolerance`.

    The weights of the samples sum to one. The book is changed in place, cells without samples are
    removed. Returns the last associations times the weights (n_samples, n_codevectors), and the turns.
    """
    turns, standing = 0, False
    while turns < max_iter and not standing:
        turns += 1
        share = associations(samples, book, temperature) * weight[:, None]
        gone = np.flatnonzero(share.sum(axis=0) <= 0.0)
        if len(gone) > 0:
            for i in gone[::-1].tolist():
                book.remove(i)
            share = associations(samples, book, temperature) * weight[:, None]
        masses, k = share.sum(axis=0), len(book)
        moved = share.T @ samples / masses[:, None]
        standing = np.diagonal(book.divergence(moved, book.codevectors)).max() <= tolerance
        book.location[:, :k], book.weight[:k] = moved.T, masses
    return share, turns


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
    """All temperatures from `t_max` to `t_min`; parameters as for `DeterministicAnnealing`.

    The weights of the samples sum to one. Returns the codevectors at the last temperature, and one
    record per temperature.
    """
    begun = time.perf_counter()
    critical, mean, _, _ = divergence.moments(samples, weight)
    book = Codebook(samples.shape[1], divergence=divergence)
    book.add(mean)
    temperature, last = first_and_last_temperature(t_max, t_min, critical)
    if last > temperature:
        raise ValueError(f"t_min <= t_max is needed, got t_min={last}, t_max={temperature}.")
    history: list[PathPoint] = []
    seen = 0
    while True:
        tolerance = tol_converge * temperature
        share, turns = converge(samples, weight, book, temperature, tolerance, max_iter)
        seen += turns * len(samples)
        if book.merge_close(tol_merge * temperature) > 0:
            share = associations(samples, book, temperature) * weight[:, None]
        codevectors, met, cooled = book.codevectors, np.empty(0), cooling(temperature)
        distortion = float(weight @ divergence(samples, codevectors).min(axis=1))
        if cooled >= last and len(book) < max_codevectors:
            for i, column in enumerate(share.T):
                if column.sum() > SMALLEST_SQUARE:  # a cell that no sample belongs to does not split
                    book.axis[:, i] = divergence.moments(samples, column)[2]
            met = book.split_critical(cooled, max_codevectors, perturbation)
        split = tuple(met.tolist())
        seconds = time.perf_counter() - begun
        expected = float(np.sum(share * divergence(samples, codevectors)))
        part = share / weight[:, None]
        entropy = -float(np.sum(share * np.log(np.where(part > 0.0, part, 1.0))))
        history.append(
            PathPoint(
                *(temperature, len(codevectors), distortion, seen, seconds, split, codevectors),
                *(expected, entropy),
            )
        )
        if cooled < last:
            return codevectors, history
        temperature = cooled

"""Batch deterministic annealing, in NumPy: the algorithm behind `DeterministicAnnealing`."""

import time
from typing import Any, ClassVar

import numpy as np

from oda_rl._types import Array
from oda_rl.codebook.annealer import Annealer
from oda_rl.codebook.book import Codebook
from oda_rl.codebook.divergences import SMALLEST_SQUARE
from oda_rl.codebook.schedule import PathPoint


def associations(samples: Array, book: Codebook, temperature: float) -> Array:
    """p(mu_i | x) of all samples (eq. 13), of shape (n_samples, n_codevectors), in log space."""
    exponent = np.log(book.weights) - book.divergence(samples, book.codevectors) / temperature
    exponent -= exponent.max(axis=1, keepdims=True)
    share = np.exp(exponent)
    return share / share.sum(axis=1, keepdims=True)


def converge(
    samples: Array, weight: Array, book: Codebook, temperature: float, tolerance: float, max_iter: int
) -> tuple[Array, int]:
    """Update associations and means in turn, until no codevector moves by more than `tolerance`.

    The weights of the samples must sum to one. The book is changed in place; cells without samples are
    removed. Returns the last associations times the weights (n_samples, n_codevectors), and the number
    of iterations.
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


class BatchAnnealer(Annealer):
    """An `Annealer` that processes all samples at once: one call of `observe` is one temperature.

    Having reached `max_codevectors`, it goes on to the last temperature. The weights of the samples must
    sum to one; `max_iter` is the largest number of iterations at one temperature.
    """

    ends_when_full: ClassVar[bool] = False
    max_iter: int = 100

    def run(self, samples: Array, weight: Array) -> list[PathPoint]:
        """Anneal; returns a record of each temperature, of which the last has the final codevectors."""
        begun = time.perf_counter()
        path: list[PathPoint] = []

        def record() -> bool:
            path.append(self._record(samples, weight, time.perf_counter() - begun))
            return False

        self.at_level_end = record
        while not self.done:
            self.observe(samples, None, weight)
        return [
            point._replace(critical_temperatures=level.critical_temperatures)
            for point, level in zip(path, self.history, strict=True)
        ]

    def _advance(
        self, samples: Array, targets: Any, labels: Any, sample_weight: Array, *_: Any
    ) -> tuple[int, bool]:
        tolerance, own = self.tol_converge * self.temperature, (self.codebook, self.temperature)
        self._share, turns = converge(samples, sample_weight, *own, tolerance, self.max_iter)
        self.n_samples_seen += (turns - 1) * len(samples)  # `observe` counts those of the last iteration
        return len(samples), True

    def _record(self, samples: Array, weight: Array, seconds: float) -> PathPoint:
        """The record of this temperature without its splits; also computes the axes of the cells."""
        book, divergence = self.codebook, self.codebook.divergence
        share, distance = self._share, divergence(samples, book.codevectors)
        if share.shape[1] > len(book):  # some have merged
            share = associations(samples, book, self.temperature) * weight[:, None]
        for i, column in enumerate(share.T if len(book) < self.max_codevectors else ()):
            if column.sum() > SMALLEST_SQUARE:  # a cell without samples does not split
                book.axis[:, i] = divergence.moments(samples, column)[2]
        part = share / weight[:, None]
        entropy = -float(np.sum(share * np.log(np.where(part > 0.0, part, 1.0))))
        distortion = float(weight @ distance.min(axis=1))
        return PathPoint(
            *(self.temperature, len(book), distortion, self.n_samples_seen, seconds, ()),
            *(book.codevectors, float(np.sum(share * distance)), entropy),
        )

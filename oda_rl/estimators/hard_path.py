"""What `fit` does at the end of each temperature: equilibrium, and codebooks at temperature zero."""

import time
from typing import Any

import numpy as np

from oda_rl._types import Array
from oda_rl.codebook.lloyd import Quench
from oda_rl.codebook.settling import measure_phase, settle

# Codebooks along the path are quenched on this number of samples per codevector, with a minimum in all.
PATH_SAMPLES = 200
MIN_PATH_SAMPLES = 20_000
# Up to this many numbers, samples are kept after a fit, and results that need them are computed lazily.
KEPT_NUMBERS = 1_000_000
# Largest number of turns towards equilibrium at a temperature; above `MANY_CELLS` cells it decreases.
# Twins need more turns, since they have to separate first; children of critical cells are put where
# theory expects them.
MOST_TURNS = {"critical": 20, "perturb": 40, "literal": 40}
MANY_CELLS = 12
# Equilibrium is reached when no codevector moves by more than this part of the temperature.
SETTLED = 1e-5
# Samples per codevector in such a turn; for few codevectors, samples times codevectors.
SETTLE_SAMPLES, SETTLE_WORK = 100, 40_000


class HardPath:
    """Computes the hard codebooks for the path of a run, from samples in the units of its codebook.

    If there are many samples, a random part of them is used. `run` is an
    `oda_rl.estimators.session.Run` that has begun to anneal.
    """

    def __init__(self, run: Any, samples: Array, weight: Array) -> None:
        self._run = run
        self._samples, self._weight = samples, weight
        n = max(MIN_PATH_SAMPLES, PATH_SAMPLES * run.settings.max_codevectors)
        chosen = slice(None) if len(samples) <= n else run.rng.choice(len(samples), n, replace=False)
        if run.only_effective:  # in random order, so that any first part is a random sample
            chosen = run.rng.permutation(len(samples))[:n]
            self._seed = int(run.rng.integers(2**63))
        divergence = run.settings.divergence
        self._part = samples[chosen], weight[chosen]
        self._quench = Quench(*self._part, divergence, run.rng)
        self._best: dict[int, tuple[Array, float]] = {}
        # Otherwise the hard codebooks of the path are computed on first use, with the same result.
        eager = run.settings.target_distortion is not None or self._part[0].size > KEPT_NUMBERS
        self._lazy = run.only_effective and not eager
        self._waiting: dict[int, Array] = {}
        self._settled: tuple[Any, ...] = (0.0, 0, [])

    @property
    def _soft(self) -> Array:
        assert self._run.annealer is not None
        return self._run.annealer.codebook.codevectors

    def settle(self, temperature: float) -> bool:
        """Take the cells to their equilibrium at a temperature; return whether they have reached it.

        The number of turns falls with the number of cells, down to none: if K is large, all cells are
        nearly critical all the time. If nothing has split since the last call at this temperature, the
        equilibrium found then is restored.
        """
        annealer = self._run.annealer
        assert annealer is not None
        book, k = annealer.codebook, len(annealer.codebook)
        known = (book.location[:, :k], book.weight[:k], book.axis[:, :k])
        if self._settled[:2] == (temperature, k):
            for array, value in zip(known, self._settled[2], strict=True):
                array[:] = value
            return True
        most = MOST_TURNS[annealer.bifurcation]
        turns = int(most * min(1.0, MANY_CELLS / k) ** 3)
        if turns == 0:
            return False
        spent = settle(
            book.divergence.kind,
            *self._sample(k),
            temperature,
            SETTLED * temperature,
            turns,
            book.n_cells,
            book.arrays,
        )
        self._settled = temperature, k, [array.copy() for array in known]
        return bool(spent < turns)

    def _sample(self, k: int) -> tuple[Array, Array]:
        n = max(SETTLE_WORK // k, SETTLE_SAMPLES * k)
        samples, weight = self._part
        return samples[:n], weight[:n]

    def _measure(self) -> None:
        annealer = self._run.annealer
        assert annealer is not None
        book = annealer.codebook
        kind, temperature = book.divergence.kind, annealer.temperature
        samples, weight = self._sample(len(book))
        annealer.phase[:] = measure_phase(kind, samples, weight, temperature, book.n_cells, book.arrays)

    def end_level(self) -> bool:
        """Record the codebook of this temperature; return whether the target distortion is reached."""
        soft, run = self._soft, self._run
        if run.only_effective:
            self._measure()
        if not run.settings.finish:
            codevectors, distortion = soft, self._quench.distortion(soft)
        elif self._lazy:
            self._waiting.setdefault(len(soft), soft)
            codevectors, distortion = soft, np.nan
        else:
            codevectors, distortion = self._hard(soft)
        run.remember(distortion, codevectors)
        return bool(run.is_good(distortion))

    def _hard(self, soft: Array) -> tuple[Array, float]:
        """The first codebook of the path with as many cells, at temperature zero; and its distortion."""
        k = len(soft)
        if k not in self._best:
            if self._lazy:
                self._quench.rng = np.random.default_rng([self._seed, k])
            self._best[k] = self._quench(self._waiting.get(k, soft))
        return self._best[k]

    @property
    def waits(self) -> bool:
        """Whether there are codebooks of the path still to be taken to temperature zero."""
        return len(self._waiting) > 0

    def complete(self, path: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """The records of the path with codebooks at temperature zero, and that time added to theirs."""
        begun, found = time.perf_counter(), []
        for _, seconds, soft, *phase in path:
            codevectors, distortion = self._hard(soft)
            found.append((distortion, seconds + time.perf_counter() - begun, codevectors, *phase))
        return found

    def final(self) -> Array:
        """Return the final codevectors; release all samples that `complete` does not need."""
        run, codevectors = self._run, self._soft
        if run.settings.finish:
            codevectors = self._hard(codevectors)[0]
            if len(self._samples) > self._quench.n_samples:
                quench = Quench(self._samples, self._weight, run.settings.divergence, run.rng, 0)
                codevectors = quench(codevectors)[0]
        del self._samples, self._weight, self._part
        return codevectors

"""The end of each temperature of a fit: equilibrium by all samples, codebooks at temperature zero."""

import time
from typing import Any

import numpy as np

from oda_rl._types import Array
from oda_rl.codebook.lloyd import Quench
from oda_rl.codebook.settling import measure_phase, settle

# Codebooks along the path are quenched on so many samples per codevector, and no fewer than that many.
PATH_SAMPLES = 200
MIN_PATH_SAMPLES = 20_000
# Samples of so many numbers are kept after a fit, until somebody asks for what is found by them.
KEPT_NUMBERS = 1_000_000
# Turns towards equilibrium at a temperature, at most: so many, but with more than `MANY_CELLS` fewer.
# Twins begin where they have to separate from, critical cells split to where theory expects them.
MOST_TURNS = {"critical": 20, "perturb": 40, "literal": 40}
MANY_CELLS = 12
# It has come when no codevector moves by more than this part of the temperature.
SETTLED = 1e-5
# Samples that such a turn takes, per codevector; and of few codevectors samples times codevectors.
SETTLE_SAMPLES, SETTLE_WORK = 100, 40_000


class HardPath:
    """Hard codebooks for the path of a run, from the samples at hand, in the units of its codebook.

    Of many samples a part serves. `run` is the `oda_rl.estimators.session.Run` that has begun to anneal.
    """

    def __init__(self, run: Any, samples: Array, weight: Array) -> None:
        self._run = run
        self._samples, self._weight = samples, weight
        n = max(MIN_PATH_SAMPLES, PATH_SAMPLES * run.settings.max_codevectors)
        chosen = slice(None) if len(samples) <= n else run.rng.choice(len(samples), n, replace=False)
        if run.only_effective:  # in random order: the first so many are then as good as any
            chosen = run.rng.permutation(len(samples))[:n]
            self._seed = int(run.rng.integers(2**63))
        divergence = run.settings.divergence
        self._part = samples[chosen], weight[chosen]
        self._quench = Quench(*self._part, divergence, run.rng)
        self._best: dict[int, tuple[Array, float]] = {}
        # Hard codebooks of the path are found when they are asked for: what comes out is then the same.
        eager = run.settings.target_distortion is not None or self._part[0].size > KEPT_NUMBERS
        self._lazy = run.only_effective and not eager
        self._waiting: dict[int, Array] = {}
        self._settled: tuple[Any, ...] = (0.0, 0, [])

    @property
    def _soft(self) -> Array:
        assert self._run.annealer is not None
        return self._run.annealer.codebook.codevectors

    def settle(self, temperature: float) -> bool:
        """Take the cells to their equilibrium at a temperature; returns whether they are there.

        The more cells, the fewer turns, down to none: where K is large, all of them are nearly critical
        all the time. Where nothing has split since, the equilibrium is known.
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
        """Remember the codebook of this temperature; returns whether the target has been reached."""
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
        """At temperature zero the first codebook of the path with as many cells; and its distortion."""
        k = len(soft)
        if k not in self._best:
            if self._lazy:
                self._quench.rng = np.random.default_rng([self._seed, k])
            self._best[k] = self._quench(self._waiting.get(k, soft))
        return self._best[k]

    @property
    def waits(self) -> bool:
        """Whether codebooks of the path have not been taken to temperature zero."""
        return len(self._waiting) > 0

    def complete(self, path: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """The records of the path with all codebooks at temperature zero, and the seconds of that."""
        begun, found = time.perf_counter(), []
        for _, seconds, soft, *phase in path:
            codevectors, distortion = self._hard(soft)
            found.append((distortion, seconds + time.perf_counter() - begun, codevectors, *phase))
        return found

    def final(self) -> Array:
        """The final codevectors; of the samples only those stay that `complete` needs."""
        run, codevectors = self._run, self._soft
        if run.settings.finish:
            codevectors = self._hard(codevectors)[0]
            if len(self._samples) > self._quench.n_samples:
                quench = Quench(self._samples, self._weight, run.settings.divergence, run.rng, 0)
                codevectors = quench(codevectors)[0]
        del self._samples, self._weight, self._part
        return codevectors

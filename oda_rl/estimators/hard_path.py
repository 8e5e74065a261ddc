"""The end of each temperature of a fit: equilibrium by all samples, codebooks at temperature zero."""

from typing import Any

from oda_rl._types import Array
from oda_rl.codebook.lloyd import Quench
from oda_rl.codebook.settling import measure_phase, settle

# Codebooks along the path are quenched on so many samples per codevector, and no fewer than that many.
PATH_SAMPLES = 200
MIN_PATH_SAMPLES = 20_000
# Turns towards equilibrium at a temperature, at most: so many, but with more than `MANY_CELLS` fewer.
MOST_TURNS, MANY_CELLS = 40, 12
# It has come when no codevector moves by more than this part of the temperature.
SETTLED = 1e-6
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
        divergence = run.settings.divergence
        self._part = samples[chosen], weight[chosen]
        self._quench = Quench(*self._part, divergence, run.rng)
        self._best: dict[int, tuple[Array, float]] = {}
        self._settled: tuple[Any, ...] = (0.0, 0, [])

    @property
    def _soft(self) -> Array:
        assert self._run.annealer is not None
        return self._run.annealer.codebook.codevectors

    def settle(self, temperature: float) -> None:
        """Take the cells to their equilibrium at a temperature.

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
            return
        turns = int(MOST_TURNS * min(1.0, MANY_CELLS / k) ** 3)
        if turns == 0:
            return
        settle(
            book.divergence.kind,
            *self._sample(k),
            temperature,
            SETTLED * temperature,
            turns,
            book.n_cells,
            book.arrays,
        )
        self._settled = temperature, k, [array.copy() for array in known]

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
        soft = self._soft
        if self._run.only_effective:
            self._measure()
        if not self._run.settings.finish:
            codevectors, distortion = soft, self._quench.distortion(soft)
        else:
            if len(soft) not in self._best:
                self._best[len(soft)] = self._quench(soft)
            codevectors, distortion = self._best[len(soft)]
        self._run.remember(distortion, codevectors)
        return self._run.is_good(distortion)

    def final(self) -> Array:
        """The final codevectors."""
        run, soft = self._run, self._soft
        if not run.settings.finish:
            return soft
        start = self._best[len(soft)][0] if len(soft) in self._best else self._quench(soft)[0]
        if len(self._samples) > self._quench.n_samples:
            quench = Quench(self._samples, self._weight, run.settings.divergence, run.rng, 0)
            return quench(start)[0]
        return start

"""One run of progressive partitioning: what `ODAPartition` keeps between its calls."""

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oda_rl._validation import check_at_least, check_non_negative
from oda_rl.codebook.annealer import Annealer, PathPoint
from oda_rl.codebook.book import Codebook
from oda_rl.codebook.divergences import Divergence, get_divergence
from oda_rl.codebook.identities import FIELD, Identities
from oda_rl.codebook.lloyd import Quench
from oda_rl.codebook.schedule import Cooling, Stepsize, first_and_last_temperature

Array = NDArray[np.float64]

# Codebooks along the path are quenched on so many samples per codevector, and no fewer than that many.
PATH_SAMPLES = 200
MIN_PATH_SAMPLES = 20_000
# Samples presented between two looks, however few the cells. Whether a pair grows can be told from a
# random walk only after many; a covariance is averaged over all temperatures of a single cell.
MIN_LEVEL_SAMPLES = {"critical": 200, "perturb": 4000}
MIN_ORDER = 200


class Settings(NamedTuple):
    """The parameters of `ODAPartition`, checked and ready for use."""

    max_codevectors: int
    t_max: float | str
    t_min: float | str
    cooling: Cooling
    stepsize: Stepsize
    bifurcation: str
    divergence: Divergence
    finish: bool
    target_distortion: float | None
    max_samples: int | None
    samples_per_cell: int
    tol_converge: float
    tol_merge: float
    min_weight: float
    perturbation: float
    n_warmup: int

    @classmethod
    def of(cls, estimator: Any) -> "Settings":
        """The settings of an estimator; raises a ValueError for one out of its range."""
        values = {name: getattr(estimator, name) for name in cls._fields}
        settings = cls(**values)._replace(
            cooling=Cooling(estimator.cooling, estimator.schedule),
            stepsize=Stepsize(*estimator.stepsize),
            divergence=get_divergence(estimator.divergence),
        )
        settings._check()
        return settings

    def _check(self) -> None:
        # The annealer checks the others itself.
        check_at_least(1, max_codevectors=self.max_codevectors, n_warmup=self.n_warmup)
        check_at_least(2, samples_per_cell=self.samples_per_cell)
        if self.max_samples is not None:
            check_at_least(1, max_samples=self.max_samples)
        if self.target_distortion is not None:
            check_non_negative(target_distortion=self.target_distortion)
        check_temperatures(t_max=self.t_max, t_min=self.t_min)


def check_temperatures(**values: float | str) -> None:
    """Raise a ValueError for a temperature that is neither positive nor "auto"."""
    for name, value in values.items():
        if not (value == "auto" or (not isinstance(value, str) and 0.0 < value < np.inf)):
            raise ValueError(f"{name} must be a positive number or 'auto', got {value!r}.")


class Run:
    """The annealer, the path so far, and the samples that a stream begins with."""

    # What goes along with the cells, and who moves them: for estimators with local models.
    payload: Mapping[str, tuple[int, str]] = {}
    annealer_type: type[Annealer] = Annealer

    def __init__(self, settings: Settings, n_features: int, rng: np.random.Generator) -> None:
        self.settings = settings
        self.rng = rng
        self.annealer: Annealer | None = None
        self.path: list[tuple[float, float, Array]] = []
        self.seconds = 0.0
        self.n_seen = 0
        self.n_dropped = 0
        self.min_samples = MIN_LEVEL_SAMPLES.get(settings.bifurcation, 1)
        self.payload: dict[str, tuple[int, str]] = {}  # fields of the cells, besides their variances
        self.identities: Identities | None = None
        self.buffer = np.empty((0, n_features))
        self.buffer_weight = np.empty(0)
        self._clock = time.perf_counter()

    @property
    def history(self) -> list[PathPoint]:
        """One record per finished temperature."""
        levels = [] if self.annealer is None else self.annealer.history
        return [
            PathPoint(
                level.temperature,
                level.n_codevectors,
                distortion,
                self.n_dropped + level.n_samples_seen,
                seconds,
                level.critical_temperatures,
                codevectors,
            )
            for level, (distortion, seconds, codevectors) in zip(levels, self.path, strict=True)
        ]

    @property
    def cell_ids(self) -> NDArray[np.int64]:
        """The numbers of the cells that stay with them, in the order of `codebook()`."""
        if self.annealer is None or self.identities is None:
            return np.zeros(1, dtype=np.int64)
        return self.identities.of(self.annealer.codebook)

    def keep_identities(self) -> None:
        """Let the cells have numbers that stay with them; to be called before anything is learned."""
        self.payload = {**self.payload, **FIELD}
        self.identities = Identities(self.settings.max_codevectors)

    def codebook(self) -> tuple[Array, Array, Array]:
        """Codevectors, weights and variances as the stream has left them."""
        if self.annealer is None:
            _, mean, _, variances = self.settings.divergence.moments(self.buffer, self.buffer_weight)
            return mean[None, :], np.ones(1), variances[None, :]
        book = self.annealer.codebook
        weights = book.weights
        return book.codevectors, weights / weights.sum(), book["spread"].T.copy()

    # -- all samples at hand ---------------------------------------------------------------------

    def fit(self, samples: Array, weight: Array) -> Array:
        """Anneal over the samples, pass after pass; returns the final codevectors."""
        self._clock = time.perf_counter()
        annealer = self.begin(samples, weight)
        path = _BatchPath(self, samples, weight)
        annealer.at_level_end = path.end_level
        limit = np.inf if self.settings.max_samples is None else self.settings.max_samples
        while not annealer.done and self.n_seen < limit:
            order = self._passes(len(samples))[: int(min(limit - self.n_seen, 2**62))]
            annealer.observe(samples[order], None, weight[order], until_done=True)
            self.n_seen = annealer.n_samples_seen
        annealer.at_level_end = None
        codevectors = path.last_word()
        if annealer.done and self.settings.finish:
            annealer.codebook.location[:, : len(codevectors)] = codevectors.T
        if self.identities is not None:  # what came out of whom matters from here on
            self.identities.restart(annealer.codebook)
        self._stop_clock()
        return codevectors

    def _passes(self, n: int) -> NDArray[np.int64]:
        # Few samples: several passes at once, as each call has its cost.
        passes = -(-MIN_ORDER // n)
        return np.concatenate([self.rng.permutation(n) for _ in range(passes)])

    # -- a stream --------------------------------------------------------------------------------

    def observe(self, samples: Array, weight: Array) -> None:
        """Learn from the next samples of a stream."""
        self._clock = time.perf_counter()
        self.n_seen += len(samples)
        if self.annealer is None:
            samples, weight = self._warm_up(samples, weight)
        if self.annealer is not None:
            self.annealer.at_level_end = self._end_stream_level
            self.annealer.observe(samples, None, weight)
            self.annealer.at_level_end = None
        self._stop_clock()

    def resume(self, settings: Settings) -> None:
        """Take over settings that have changed; annealing goes on where they now allow it."""
        self.settings = settings
        if self.identities is not None:
            self.identities.limit = max(self.identities.limit, settings.max_codevectors)
        annealer = self.annealer
        if annealer is None:
            return
        annealer.max_codevectors = settings.max_codevectors
        annealer.cooling = settings.cooling
        annealer.harden = settings.finish
        if settings.t_min != "auto":
            annealer.t_min = float(settings.t_min)
        room = len(annealer.codebook) < settings.max_codevectors
        if annealer.done and room and settings.cooling(annealer.temperature) >= annealer.t_min:
            target = settings.target_distortion
            annealer.done = target is not None and annealer.distortion <= target

    def _warm_up(self, samples: Array, weight: Array) -> tuple[Array, Array]:
        """Gather the first samples; once there are enough, begin and return all that wait."""
        wanted = self.settings.n_warmup
        while len(samples) > 0 and self.annealer is None:
            taken = wanted - len(self.buffer)
            self.buffer = np.concatenate([self.buffer, samples[:taken]])
            self.buffer_weight = np.concatenate([self.buffer_weight, weight[:taken]])
            samples, weight = samples[taken:], weight[taken:]
            if len(self.buffer) < wanted:
                break
            if self.settings.divergence.moments(self.buffer, self.buffer_weight)[0] > 0.0:
                self.begin(self.buffer, self.buffer_weight)
                samples = np.concatenate([self.buffer, samples])
                weight = np.concatenate([self.buffer_weight, weight])
                self._drop(len(self.buffer))
            elif wanted > 1:  # all the same so far: one of them stands for all
                self._drop(len(self.buffer) - 1)
                self.n_dropped += wanted - 1
            else:
                self.begin(self.buffer, self.buffer_weight)
        return samples, weight

    def _drop(self, n: int) -> None:
        self.buffer, self.buffer_weight = self.buffer[n:], self.buffer_weight[n:]

    def _end_stream_level(self) -> bool:
        assert self.annealer is not None
        distortion = self.annealer.distortion
        self._remember(distortion, self.annealer.codebook.codevectors)
        target = self.settings.target_distortion
        return target is not None and distortion <= target

    # -- both ------------------------------------------------------------------------------------

    def begin(self, samples: Array, weight: Array) -> Annealer:
        """One cell at the mean, with the leading direction of the data as its axis."""
        settings = self.settings
        d = samples.shape[1]
        critical, mean, axis, variances = settings.divergence.moments(samples, weight)
        book = Codebook(d, {"spread": (d, "mean"), **self.payload}, settings.divergence)
        book.add(mean)
        book.axis[:, 0] = axis
        book["spread"][:, 0] = variances
        t_max, t_min = first_and_last_temperature(settings.t_max, settings.t_min, critical)
        self.annealer = self.annealer_type(
            book,
            t_max=t_max,
            t_min=t_min,
            cooling=settings.cooling,
            stepsize=settings.stepsize,
            max_codevectors=settings.max_codevectors,
            tol_converge=settings.tol_converge,
            tol_merge=settings.tol_merge,
            min_weight=settings.min_weight,
            perturbation=settings.perturbation,
            bifurcation=settings.bifurcation,
            check_every=max(1, settings.samples_per_cell // 2),
            max_samples=settings.samples_per_cell,
            # The averages behind critical temperatures gain from memory, but twins come together or
            # separate in the time that passes while stepsizes start anew.
            memory=settings.samples_per_cell // 10 if settings.bifurcation == "critical" else 0,
            min_samples=self.min_samples,
            harden=settings.finish,
            seed=self.rng,
        )
        if self.identities is not None:
            self.identities.restart(book)
            self.annealer.identities = self.identities
        return self.annealer

    def _remember(self, distortion: float, codevectors: Array) -> None:
        seconds = self.seconds + time.perf_counter() - self._clock
        self.path.append((distortion, seconds, codevectors))

    def _stop_clock(self) -> None:
        self.seconds += time.perf_counter() - self._clock


class _BatchPath:
    """Hard codebooks for the path, from the samples at hand."""

    def __init__(self, run: Run, samples: Array, weight: Array) -> None:
        self._run = run
        self._samples, self._weight = samples, weight
        n = max(MIN_PATH_SAMPLES, PATH_SAMPLES * run.settings.max_codevectors)
        chosen = slice(None) if len(samples) <= n else run.rng.choice(len(samples), n, replace=False)
        divergence = run.settings.divergence
        self._quench = Quench(samples[chosen], weight[chosen], divergence, run.rng)
        self._best: dict[int, tuple[Array, float]] = {}

    def end_level(self) -> bool:
        """Remember the codebook of this temperature; returns whether the target has been reached."""
        assert self._run.annealer is not None
        soft = self._run.annealer.codebook.codevectors
        if not self._run.settings.finish:
            codevectors, distortion = soft, self._quench.distortion(soft)
        else:
            if len(soft) not in self._best:
                self._best[len(soft)] = self._quench(soft)
            codevectors, distortion = self._best[len(soft)]
        self._run._remember(distortion, codevectors)
        target = self._run.settings.target_distortion
        return target is not None and distortion <= target

    def last_word(self) -> Array:
        """The final codevectors."""
        run = self._run
        assert run.annealer is not None
        soft = run.annealer.codebook.codevectors
        if not run.settings.finish:
            return soft
        start = self._best[len(soft)][0] if len(soft) in self._best else self._quench(soft)[0]
        if len(self._samples) > self._quench.n_samples:
            quench = Quench(self._samples, self._weight, run.settings.divergence, run.rng, 0)
            return quench(start)[0]
        return start

"""The state that `ODAPartition` keeps between calls: the annealer, the path so far, some samples."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl._types import Array
from oda_rl.codebook.annealer import Annealer
from oda_rl.codebook.book import Codebook
from oda_rl.codebook.identities import FIELD, Identities
from oda_rl.codebook.schedule import PathPoint
from oda_rl.estimators.hard_path import HardPath
from oda_rl.estimators.progress import report
from oda_rl.estimators.settings import Settings

# Least number of samples between two checks, however few the cells. Many are needed to distinguish the
# growth of a pair from a random walk; the covariance of a single cell is averaged over temperatures.
MIN_CHECK_INTERVAL = {"critical": 200, "perturb": 4000, "literal": 4000}
MIN_ORDER = 200
# While a stream is annealed, REHEARSALS of the latest REHEARSED samples are presented again with each.
REHEARSALS, REHEARSED = 9, 200
# Samples that are rehearsed in one piece, to limit the memory for copies: a call may have millions.
REHEARSED_AT_ONCE = 1000
GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)
CAPACITY = 16  # of a codebook at first, at most


class Run:
    """The annealer, the path so far, and the samples that a stream begins with."""

    annealer_type: type[Annealer] = Annealer
    least_warmup = 1

    def __init__(self, settings: Settings, n_features: int, rng: np.random.Generator) -> None:
        self.settings = settings
        self.rng = rng
        self.annealer: Annealer | None = None
        self._path: list[tuple[Any, ...]] = []
        self._hard: HardPath | None = None  # until its hard codebooks are computed
        self.seconds = 0.0
        self.n_seen = 0
        self.n_dropped = 0
        self.min_samples = MIN_CHECK_INTERVAL.get(settings.bifurcation, 1)
        self.payload: dict[str, tuple[int, str]] = {}  # fields of the cells in addition to variances
        self.identities: Identities | None = None
        self.only_effective = False
        self.first: Array | None = None  # initial codevectors
        self.prepared: Any = None  # table of addresses for the fast path of single samples
        self.buffer = np.empty((0, n_features))
        self.buffer_weight = np.empty(0)
        self._clock = time.perf_counter()

    @property
    def path(self) -> list[tuple[Any, ...]]:
        """The records of `remember`, one for each finished temperature."""
        self._complete()
        return self._path

    @path.setter
    def path(self, records: list[tuple[Any, ...]]) -> None:
        self._path, self._hard = records, None

    def _complete(self) -> None:
        """Take the codebooks of the path to temperature zero, if that was postponed."""
        if self._hard is not None:
            self._path = self._hard.complete(self._path)
            self._hard = None

    def __getstate__(self) -> dict[str, Any]:
        self._complete()  # drops the samples, so that they are not pickled
        return vars(self) | {"prepared": None}

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
                *own,
            )
            for level, (distortion, seconds, *own) in zip(levels, self.path, strict=True)
        ]

    @property
    def cell_ids(self) -> NDArray[np.int64]:
        """The persistent numbers of the cells, in the order of `codebook()`."""
        if self.annealer is None or self.identities is None:
            return np.zeros(1, dtype=np.int64)
        return self.identities.of(self.annealer.codebook)

    def keep_identities(self) -> None:
        """Give the cells persistent numbers; must be called before anything is learned."""
        self.payload = {**self.payload, **FIELD}
        self.identities = Identities(self.settings.max_codevectors)

    def codebook(self) -> tuple[Array, Array, Array]:
        """The present codevectors, weights and variances of a stream."""
        if self.annealer is None:
            _, mean, _, variances = self.settings.divergence.moments(self.buffer, self.buffer_weight)
            return mean[None, :], np.ones(1), variances[None, :]
        book = self.annealer.codebook
        weights = book.weights
        return book.codevectors, weights / weights.sum(), book["spread"].T.copy()

    # -- fitting all samples ---------------------------------------------------------------------

    def fit(self, samples: Array, weight: Array) -> Array:
        """Anneal over the samples, pass after pass; return the final codevectors."""
        self._clock = time.perf_counter()
        annealer = self.begin(samples, weight)
        path = HardPath(self, samples, weight)
        annealer.settle = path.settle if self.only_effective else None
        self.anneal(samples, None, weight, path.end_level)
        annealer.settle = None
        codevectors = path.final()
        self._hard = path if path.waits else None
        if annealer.done and self.settings.finish:
            annealer.codebook.location[:, : len(codevectors)] = codevectors.T
        if self.identities is not None:  # births are recorded from here on
            self.identities.restart(annealer.codebook)
        self.stop_clock()
        return codevectors

    def anneal(
        self, samples: Array, targets: Array | None, weight: Array, at_level_end: Callable[[], bool]
    ) -> None:
        """Present the samples, pass after pass, until the annealing is done or `max_samples` reached."""
        annealer, n = self.annealer, len(samples)
        assert annealer is not None
        limit = 2**62 if self.settings.max_samples is None else self.settings.max_samples
        while not annealer.done and self.n_seen < limit:
            # With few samples, present several passes at once, because each call has an overhead.
            passes = [self.rng.permutation(n) for _ in range(-(-MIN_ORDER // n))]
            order = np.concatenate(passes)[: limit - self.n_seen]
            own = None if targets is None else targets[order]
            self._present(samples[order], own, weight[order], at_level_end, until_done=True)
            self.n_seen = annealer.n_samples_seen

    # -- a stream --------------------------------------------------------------------------------

    def observe(self, samples: Array, weight: Array) -> None:
        """Learn from the next samples of a stream."""
        self.start_clock()
        self.n_seen += len(samples)
        if self.annealer is None:
            samples, weight = self._warm_up(samples, weight)
        if self.annealer is not None:
            while self.rehearses and not self.annealer.done and len(samples) > 0:
                samples, weight = self._rehearse(samples, weight)
            if len(samples) > 0:
                self._present(*self._in_units(samples), weight, self._end_stream_level)
        self.stop_clock()

    @property
    def rehearses(self) -> bool:
        """Whether some of the latest samples are presented again while a stream is annealed."""
        return self.settings.rehearse and self.settings.bifurcation != "literal"

    def _rehearse(self, samples: Array, weight: Array) -> tuple[Array, Array]:
        """Learn from the next samples, and with each of them again from some of the latest.

        Returns the samples left after `REHEARSED_AT_ONCE` of them, or when the annealing is done.
        """
        assert self.annealer is not None
        n, before = min(len(samples), REHEARSED_AT_ONCE), len(self.buffer)
        first = self.n_seen - len(samples)
        known = np.concatenate([self.buffer, samples[:n]])
        mass = np.concatenate([self.buffer_weight, weight[:n]])
        place = before + np.arange(n)[:, None]
        # Ages from evenly spread numbers in [0, 1), which do not depend on how the stream is cut.
        count = REHEARSALS * (first + np.arange(n)[:, None]) + np.arange(REHEARSALS)
        ages = (count * GOLDEN) % 1.0 * np.minimum(place + 1, REHEARSED)
        order = np.hstack([place, place - ages.astype(np.int64)]).ravel()
        seen = self.annealer.n_samples_seen
        parts = self._in_units(known[order])
        self._present(*parts, mass[order], self._end_stream_level, until_done=True)
        if not self.annealer.done:
            self.buffer, self.buffer_weight = known[-REHEARSED:], mass[-REHEARSED:]
            return samples[n:], weight[n:]
        self.buffer, self.buffer_weight = known[:0], mass[:0]
        used = -(-(self.annealer.n_samples_seen - seen) // (1 + REHEARSALS))
        return samples[used:], weight[used:]

    def end_level(self, rows: Array, weight: Array, targets: Array | None = None) -> None:
        """End a temperature of a stream; learn from the rows left, unless the annealing is done."""
        assert self.annealer is not None
        self.annealer.at_level_end = self._end_stream_level
        self.annealer.end_level()
        self.annealer.at_level_end = None
        if not self.annealer.done:
            self._present(rows, targets, weight, self._end_stream_level, until_done=True)
        if self.annealer.done and len(self.buffer) > 0:
            self.buffer, self.buffer_weight = self.buffer[:0], self.buffer_weight[:0]

    def resume(self, settings: Settings) -> None:
        """Take over changed settings; annealing continues if it was done and they now allow more."""
        if settings is not self.settings:
            self.prepared = None
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
        more = len(annealer.codebook) < settings.max_codevectors
        if annealer.done and more and settings.cooling(annealer.temperature) >= annealer.t_min:
            target = settings.target_distortion
            annealer.done = target is not None and annealer.distortion <= target

    def _warm_up(self, samples: Array, weight: Array) -> tuple[Array, Array]:
        """Gather the first samples; once enough of them differ, begin and return all to be learned."""
        wanted = max(self.least_warmup, self.settings.n_warmup)
        while len(samples) > 0:
            taken = wanted - len(self.buffer)
            self.buffer = np.concatenate([self.buffer, samples[:taken]])
            self.buffer_weight = np.concatenate([self.buffer_weight, weight[:taken]])
            samples, weight = samples[taken:], weight[taken:]
            if len(self.buffer) < wanted:
                break
            first, mass = self.buffer, self.buffer_weight
            if wanted == 1 or self.settings.divergence.moments(first, mass)[0] > 0.0:
                self._start(first, mass)
                self.buffer, self.buffer_weight = first[:0], mass[:0]
                return np.concatenate([first, samples]), np.concatenate([mass, weight])
            # All samples so far are equal: keep one of them.
            self.buffer, self.buffer_weight = first[-1:], mass[-1:]
            self.n_dropped += wanted - 1
        return samples, weight

    def _start(self, samples: Array, weight: Array) -> None:
        """Begin with the first samples of a stream."""
        self.begin(samples, weight)

    def _in_units(self, samples: Array) -> tuple[Array, Array | None]:
        """Samples of a stream in the units of the annealer, and the targets of local models."""
        return samples, None

    def _end_stream_level(self) -> bool:
        assert self.annealer is not None
        distortion = self.annealer.distortion
        self.remember(distortion, self.annealer.codebook.codevectors)
        return self.is_good(distortion)

    # -- both ------------------------------------------------------------------------------------

    def begin(self, samples: Array, weight: Array, without: str | None = None) -> Annealer:
        """Make an annealer with one cell at the mean, or cells at `first`, with the data's main axis.

        Of the payload, the cells do not have the field `without`.
        """
        divergence, d = self.settings.divergence, samples.shape[1]
        critical, mean, axis, variances = divergence.moments(samples, weight)
        fields = {"spread": (d, "mean"), **self.payload}
        fields = {name: field for name, field in fields.items() if name != without}
        book = Codebook(d, fields, divergence, min(CAPACITY, self.settings.max_codevectors))
        book.add(mean)
        book.axis[:, 0] = axis
        if self.first is not None:
            book.remove(0)
            for codevector in self.first:
                book.axis[:, book.add(codevector, 1.0 / len(self.first))] = axis
        book["spread"][:] = variances[:, None]
        own = self.min_samples, self.rng, self.annealer_type
        self.annealer = self.settings.annealer(book, critical, *own)
        self.annealer.only_effective = self.only_effective
        if self.identities is not None:
            self.identities.restart(book)
            self.annealer.identities = self.identities
        return self.annealer

    def is_good(self, distortion: float) -> bool:
        """Whether the target distortion has been reached."""
        target = self.settings.target_distortion
        return target is not None and distortion <= target

    def remember(self, distortion: float, codevectors: Array) -> None:
        """Keep a record of a finished temperature."""
        seconds = self.seconds + time.perf_counter() - self._clock
        assert self.annealer is not None
        seen = self.annealer.n_samples_seen
        report(f"T = {self.annealer.temperature:.3g}, K = {len(codevectors)}, {seen:,} samples")
        expected = float(self.annealer.phase[0])
        self._path.append((distortion, seconds, codevectors, expected, self.annealer.entropy))

    def _present(
        self,
        samples: Array,
        targets: Array | None,
        weight: Array,
        at_level_end: Callable[[], bool],
        until_done: bool = False,
    ) -> None:
        assert self.annealer is not None
        self.annealer.at_level_end = at_level_end
        self.annealer.observe(samples, None, weight, until_done, targets)
        self.annealer.at_level_end = None

    def start_clock(self) -> None:
        """Start measuring time."""
        self._clock = time.perf_counter()

    def stop_clock(self) -> None:
        """Add the time since `start_clock` to `seconds`."""
        self.seconds += time.perf_counter() - self._clock

    # -- storing ---------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """Return all but the settings as nested plain values and arrays, for a model file."""
        annealer, identities = self.annealer, self.identities
        return {
            "seconds": self.seconds,
            "n_seen": self.n_seen,
            "n_dropped": self.n_dropped,
            "rng": self.rng.bit_generator.state,
            "path": [list(point) for point in self.path],
            "buffer": self.buffer,
            "buffer_weight": self.buffer_weight,
            "codebook": None if annealer is None else annealer.codebook.get_state(),
            "annealer": None if annealer is None else annealer.get_state(),
            "identities": None if identities is None else identities.get_state(),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore the state that `get_state` returned, in a new run."""
        for name in ("seconds", "n_seen", "n_dropped", "buffer", "buffer_weight"):
            setattr(self, name, state[name])
        self.path = [tuple(point) for point in state["path"]]
        if state["annealer"] is not None:
            location = state["codebook"]["location"]
            annealer = self.begin(location.T, np.ones(location.shape[1]))
            annealer.codebook.set_state(state["codebook"])
            annealer.set_state(state["annealer"])
        if self.identities is not None:
            self.identities.set_state(state["identities"])
        self.rng.bit_generator.state = state["rng"]

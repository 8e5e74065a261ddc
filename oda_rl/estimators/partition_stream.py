"""How a partition learns from a stream, and when it publishes its fitted attributes."""

from typing import Any

import numpy as np

from oda_rl._statistics import is_clear
from oda_rl._types import Array
from oda_rl._validation import check_scale
from oda_rl.codebook.continuing import continue_from
from oda_rl.estimators.base import StreamEstimator
from oda_rl.estimators.clusters import ClustersMixin
from oda_rl.estimators.codebook_estimator import CodebookEstimator, PartitionJudge
from oda_rl.estimators.drift import LATEST, RENEWAL, Forgetful, are_advancing, restoring_state
from oda_rl.estimators.feature_scaling import scale_by
from oda_rl.estimators.one_sample import observe_one
from oda_rl.estimators.session import Run
from oda_rl.estimators.settings import Settings
from oda_rl.estimators.targets import Data

# Numbers of samples of a stream, since learning began, at which a fit of all of them is tried. With less
# than PER_CELL samples for each cell allowed there is none: the variances of cells would mean little.
FIT_AT, PER_CELL = (256, 1024, 2048), 10
# Stands for the missing target of a single sample
NO_TARGET = np.zeros(1, dtype=np.int64)


class StreamPartition(ClustersMixin, Forgetful, CodebookEstimator, StreamEstimator):
    """An `ODAPartition` that learns from a stream; fitted attributes are computed at first access."""

    init: Any
    bifurcation: str
    verbose: int
    temperature_: float
    converged_: bool
    _run: Run
    _relearn_at = FIT_AT
    _early: Run | None = None  # the last early fit, when learning has begun again

    _lazy_attributes = (
        *("codevectors_", "weights_", "spreads_", "n_codevectors_"),
        *("cell_ids_", "codevector_labels_", *ClustersMixin._lazy_attributes),
    )

    # -- learning --------------------------------------------------------------------------------

    def _begin(self, settings: Settings, n_features: int, rng: np.random.Generator) -> None:
        """Start a new run, with the given scale and with persistent cell numbers."""
        self._run, self._counted = self._new_run(settings, n_features, rng), (0, 1)
        scale = self._given_scale
        self._use_scale(None if scale is None else check_scale(scale, n_features))

    def _new_run(self, settings: Settings, n_features: int, rng: np.random.Generator) -> Run:
        run = Run(settings, n_features, rng)
        run.keep_identities()
        run.only_effective = self.bifurcation != "literal"
        return run

    def _use_scale(self, scale: Array | None) -> None:
        self.scale_ = scale
        if self.init is not None:
            self._run.first = self._scaled(self._check_init(self.init, self.n_features_in_))

    def _learn(self, data: Data) -> None:
        if isinstance(self.scale, str) and self._run.annealer is None:
            self._choose_scale(data)
        self._run.observe(self._scaled(data.samples), data.weight)
        self._changed()

    def _observe_one(self, run: Run, X: Array, y: Any) -> bool:
        return self._watched_few(X, NO_TARGET, observe_one, run, self._scaled(X)) > 0

    def _judge(self) -> PartitionJudge | None:
        # No copy is needed: `codevectors_` is never changed in place.
        return PartitionJudge(self.codevectors_) if self._run.path else None

    def _losses(self, judge: PartitionJudge, data: Data) -> Array:
        """Divergences d from the nearest codevector, as d / (d + m), with m their initial mean."""
        found, unit = self._assign(data.samples, judge.codevectors)[1], self._run.path[0][0]
        return np.asarray(found / np.maximum(found + unit, 1e-300))

    def _fitted_loss(self, data: Data) -> float:
        """The mean loss by mean divergences: the unit of `_losses` would take the whole path."""
        mean = np.average(data.samples, axis=0, weights=data.weight)
        found = float(self._assign(data.samples)[1].mean())
        return found / max(found + float(self._assign(data.samples, mean[None])[1].mean()), 1e-300)

    def _restart(self, recent: Data) -> None:
        seen = self._run.n_seen
        self._begin(self._settings(begin=False), self.n_features_in_, self._run.rng)
        self._learn(recent)
        self._run.n_seen = self.n_samples_seen_ = seen
        self._n_repeated = seen - len(recent.weight)

    def _relearn(self, recent: Data, halved: bool) -> None:
        """Take over a fit of these samples, if it is better or if others were given up."""
        run, early, state = self._run, self._early, self._run.rng.bit_generator.state
        self._early = None
        if halved or (self._may_be_fitted(len(recent.weight)) and self._gains(recent)):
            self._take_over(*self._fitted(recent, run.settings), recent, early or run)
            return
        run.rng.bit_generator.state = state  # as if it had not been tried
        if early is not None and run.annealer is not None:
            self._number(run, run.codebook()[0], early)
            self._changed()

    def _n_waiting(self) -> int:
        n = max(self.n_warmup, PER_CELL * self.max_codevectors)
        return n if n <= FIT_AT[-1] else 0

    def _fit_early(self, recent: Data) -> bool:
        """Fit all samples of the stream so far, with as many cells as they suffice for."""
        run, n = self._run, len(recent.weight)
        if not self._has_usual_settings or are_advancing(recent.samples):
            return False
        if isinstance(self.scale, str):
            self._use_scale(scale_by(str(self.scale), recent.samples, recent.weight))
        few = min(run.settings.max_codevectors, n // PER_CELL)
        with restoring_state(run.rng):
            found, codevectors = self._fitted(recent, run.settings._replace(max_codevectors=few))
        found.resume(run.settings)
        self._take_over(found, codevectors, recent, run)
        return True

    def _begin_again(self, recent: Data) -> None:
        self._early, self._n_repeated = self._run, self._run.n_seen - len(recent.weight)
        self._begin(self._settings(begin=False), self.n_features_in_, self._run.rng)
        self._run.n_seen = self._n_repeated

    def _take_over(self, found: Run, codevectors: Array, recent: Data, old: Run) -> None:
        """Let a fit of the samples of a stream, with these codevectors, go on in the place of a run."""
        assert found.annealer is not None
        self._counted = self._count_clusters(found.annealer, len(recent.weight))
        self._follow(found, self._scaled(recent.samples), recent.weight, codevectors, old)
        self._run = found
        self._n_repeated = found.n_seen - len(recent.weight)
        self._changed()

    @property
    def _has_usual_settings(self) -> bool:
        """Whether the parameters allow that a stream is fitted."""
        settings = self._run.settings
        return settings.finish and settings.max_samples is None and self._run.rehearses

    def _may_be_fitted(self, n: int) -> bool:
        """Whether n samples suffice for a fit, and the parameters allow it."""
        run, watch = self._run, self._watch
        known = RENEWAL * watch.fitted if watch.begun == 0 else 0.0
        enough = n >= max(PER_CELL * run.settings.max_codevectors, known)
        return enough and self._has_usual_settings and run.annealer is not None

    def _gains(self, recent: Data) -> bool:
        """Whether the latest samples are clearly nearer to the codevectors of a fit of all others.

        They are compared with how near they were to those of the stream when they came. If samples
        advance, it is of no use: cells of a fit hardly move.
        """
        n, losses = len(recent.weight), self._watch.losses[-(len(recent.weight) // LATEST) :]
        if len(losses) == 0 or are_advancing(recent.samples):
            return False
        latest = recent.take(slice(n - len(losses), n))
        return is_clear(losses - self._losses_of_fit(recent.take(slice(0, n - n // LATEST)), latest))

    def _is_outdated_before(self, half: int, recent: Data) -> bool:
        """Whether a fit has codevectors clearly nearer to the latest samples without the first half."""
        n = len(recent.weight)
        k = n // LATEST
        latest, others = recent.take(slice(n - k, n)), recent.take(slice(0, n - k))
        later = others.take(slice(half, n - k))
        few = not self._may_be_fitted(n - half) or not (later.weight > 0.0).any()
        if few or are_advancing(recent.samples):
            return False
        with restoring_state(self._run.rng):
            gains = self._losses_of_fit(others, latest) - self._losses_of_fit(later, latest)
        return is_clear(gains)

    def _losses_of_fit(self, data: Data, latest: Data) -> Array:
        """Losses of the latest samples by the codevectors of a fit of other samples."""
        codevectors = self._fitted(data, self._run.settings)[1]
        return self._losses(PartitionJudge(self._unscaled(codevectors)), latest)

    def _fitted(self, data: Data, settings: Settings) -> tuple[Run, Array]:
        """A new run like the present one with these settings, fitted to samples; its codevectors."""
        run = self._new_run(settings, self.n_features_in_, self._run.rng)
        run.first = self._run.first
        return run, run.fit(self._scaled(data.samples), data.weight / data.weight.mean())

    def _follow(self, found: Run, samples: Array, weight: Array, codevectors: Array, old: Run) -> None:
        """Let a fit to scaled samples, with these codevectors, go on in the place of an old run.

        Its cells go on as after a fit (see `continue_from`).
        """
        annealer = found.annealer
        assert annealer is not None
        nearest = self._divergence(samples, annealer.codebook.codevectors).argmin(axis=1)
        continue_from(annealer, samples, weight, nearest)
        if old.annealer is not None:
            self._number(found, codevectors, old)
        found.n_seen, found.n_dropped = self._run.n_seen, old.n_dropped
        found.seconds += old.seconds

    def _number(self, found: Run, codevectors: Array, old: Run) -> None:
        """Number the cells of a run, which have these codevectors, after those of an old run.

        Each comes from the old cell that it is in: the nearest to that codevector has its number, and
        the others have split off from it.
        """
        annealer = found.annealer
        assert annealer is not None
        assert old.identities is not None
        book = annealer.codebook
        apart = self._divergence(codevectors, old.codebook()[0])
        number, distance = old.cell_ids[apart.argmin(axis=1)], apart.min(axis=1)
        book["identity"][0] = -1.0 - number
        for one in np.unique(number):
            book["identity"][0, np.where(number == one, distance, np.inf).argmin()] = one
        found.identities = annealer.identities = old.identities
        old.identities.update(book)

    def _choose_scale(self, data: Data) -> None:
        """Find the scale of a stream, if these samples complete its warm-up."""
        run, n = self._run, self._run.settings.n_warmup
        samples = np.concatenate([run.buffer, data.samples])[:n]
        if len(samples) == n:
            weight = np.concatenate([run.buffer_weight, data.weight])[:n]
            self._use_scale(scale_by(str(self.scale), samples, weight))
            run.buffer = self._scaled(run.buffer)

    # -- what has been learned -------------------------------------------------------------------

    def _clear_lazy_attributes(self) -> None:
        super()._clear_lazy_attributes()
        self._forget_samples()
        self._shapes = self._asked = None

    def _set_lazy_attributes(self) -> None:
        if "_run" in self.__dict__ and "codevectors_" not in self.__dict__:
            self._show_stream()
        super()._set_lazy_attributes()

    def _show_stream(self) -> None:
        """Publish what the run has learned from a stream."""
        codevectors, self.weights_, variances = self._run.codebook()
        self.codevectors_ = self._unscaled(codevectors)
        self.spreads_ = variances if self.scale_ is None else variances * self.scale_**2
        self._publish()
        annealer = self._run.annealer
        if annealer is not None and len(annealer.history) != self._counted[0]:
            self._counted = self._count_clusters(annealer, self._n_distinct)
        self.n_clusters_ = self._counted[1]

    def _located(self) -> tuple[Array, int]:
        annealer = self._run.annealer
        if annealer is None or "codevectors_" in self.__dict__:
            return super()._located()
        return annealer.codebook.location, annealer.codebook.n_cells

    def _publish(self) -> None:
        self.n_codevectors_ = len(self.codevectors_)
        self.cell_ids_ = self._run.cell_ids
        self.codevector_labels_ = np.zeros(self.n_codevectors_, dtype=np.int64)
        self._set_counts()

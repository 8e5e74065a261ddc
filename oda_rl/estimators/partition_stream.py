"""How a partition learns from a stream, and when it publishes its fitted attributes."""

from typing import Any

import numpy as np

from oda_rl._types import Array
from oda_rl._validation import check_scale
from oda_rl.estimators.base import StreamEstimator
from oda_rl.estimators.clusters import ClustersMixin
from oda_rl.estimators.codebook_estimator import CodebookEstimator, PartitionJudge
from oda_rl.estimators.drift import Forgetful
from oda_rl.estimators.feature_scaling import scale_by
from oda_rl.estimators.one_sample import observe_one
from oda_rl.estimators.session import Run
from oda_rl.estimators.settings import Settings
from oda_rl.estimators.targets import Data

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
    _counted: tuple[int, int]  # number of finished temperatures, and of clusters found from them

    _lazy_attributes = (
        *("codevectors_", "weights_", "spreads_", "n_codevectors_"),
        *("cell_ids_", "codevector_labels_", *ClustersMixin._lazy_attributes),
    )

    # -- learning --------------------------------------------------------------------------------

    def _begin(self, settings: Settings, n_features: int, rng: np.random.Generator) -> None:
        """Start a new run, with the given scale and with persistent cell numbers."""
        self._run, self._counted = Run(settings, n_features, rng), (0, 1)
        self._run.keep_identities()
        self._run.only_effective = self.bifurcation != "literal"
        scale = self._given_scale
        self._use_scale(None if scale is None else check_scale(scale, n_features))

    def _use_scale(self, scale: Array | None) -> None:
        self.scale_ = scale
        if self.init is not None:
            self._run.first = self._scaled(self._check_init(self.init, self.n_features_in_))

    def _learn(self, data: Data) -> None:
        if isinstance(self.scale, str) and self._run.annealer is None:
            self._choose_scale(data)
        self._run.observe(self._scaled(data.samples), data.weight)
        self._count()
        self._clear_lazy_attributes()

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
        levels = len(self._run.path)
        if levels != self._counted[0]:  # only after a new temperature, not with every sample
            found = self._count_clusters(self.n_samples_seen_) if levels > 0 else 1
            self._counted = levels, found
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
        self._count()

    def _count(self) -> None:
        annealer = self._run.annealer
        self.n_samples_seen_ = self._run.n_seen
        self.temperature_ = np.inf if annealer is None else annealer.temperature
        self.converged_ = annealer is not None and annealer.done

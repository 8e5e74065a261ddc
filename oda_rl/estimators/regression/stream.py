"""How a regressor learns from a stream, is fitted to it, and reacts to a change."""

from typing import Any

import numpy as np

from oda_rl._statistics import is_clear
from oda_rl._types import Array
from oda_rl.estimators.copies import without_copies
from oda_rl.estimators.drift import (
    LATEST,
    MOST_FEATURES,
    RENEWAL,
    Forgetful,
    are_advancing,
    bounded_losses,
    restoring_state,
)
from oda_rl.estimators.one_sample import observe_one
from oda_rl.estimators.regression.base import CodebookRegressor
from oda_rl.estimators.regression.fitting import errors_of_models
from oda_rl.estimators.regression.one_sample import PreparedOutputs, row_of
from oda_rl.estimators.regression.predictor import Predictor
from oda_rl.estimators.regression.scaling import range_without_wild
from oda_rl.estimators.regression.session import RegressionRun
from oda_rl.estimators.settings import Settings
from oda_rl.estimators.targets import Data

# Numbers of samples of a stream, since learning began, at which all of them are fitted if they are twice
# as many as in the fit before. After a change it is asked whether the first half came before its end.
FIT_AT = (256, 512, 1024, 1536, 2048, 4096)
# Number of runs of successive samples in the later half, each of which is left out once for that.
FOLDS = 4


class StreamRegressor(Forgetful, CodebookRegressor):
    """An `ODARegressor` that learns from a stream."""

    n_warmup: int
    n_features_in_: int
    _run: RegressionRun
    _flat: bool

    @property
    def _relearn_at(self) -> tuple[int, ...]:
        return FIT_AT if self.n_features_in_ <= MOST_FEATURES else FIT_AT[:-1]

    def _observe_one(self, run: RegressionRun, X: Array, y: Any) -> bool:
        row = row_of(run, self._flat, X, y)
        if row is None:
            return False
        outputs = row[:, run.n_inputs :]
        return self._watched_few(X, outputs, observe_one, run, row, PreparedOutputs) > 0

    def _learn(self, data: Data) -> None:
        self._run.observe(np.hstack(data[:2]), data.weight)
        self._changed()

    def _is_outdated_before(self, half: int, recent: Data) -> bool:
        return is_outdated_before(half, self._run, recent)

    def _relearn(self, recent: Data, halved: bool) -> None:
        run, settings = self._run, self._annealing()
        if halved:
            self._run = _fitted_again(run, settings, recent)
        else:
            self._run = fit_of_stream(run, settings, recent, self._watch.losses)
        self._changed()

    def _n_waiting(self) -> int:
        return self.n_warmup

    def _fit_early(self, recent: Data) -> bool:
        found = early_fit(self._run, self._annealing(), recent)
        if found is None:
            return False
        self._run = found
        self._changed()
        return True

    def _begin_again(self, recent: Data) -> None:
        old = self._run
        self._run = old.untrained(old.models)
        self._run.resume(self._annealing())
        self._run.n_seen = old.n_seen - len(recent.weight)

    def _judge(self) -> Predictor | None:
        return None if self._run.annealer is None else self._run.predictor.frozen()

    def _losses(self, judge: Predictor, data: Data) -> Array:
        """Losses e / (1 + e), with squared errors e in variances of the outputs."""
        deviation = judge.scaling.deviation[-data.targets.shape[1] :]
        return bounded_losses((judge.outputs(data.samples) - data.targets) / deviation)

    def _restart(self, recent: Data) -> None:
        self._begin_again(recent)
        self._learn(recent)


def fit_of_stream(run: RegressionRun, settings: Settings, data: Data, losses: Array) -> RegressionRun:
    """A run like this one of a stream, with these settings, that is fitted to all its samples so far.

    It is the run itself if its cells would not rest after a fit, or if it is of a fit to many of them.
    If inputs advance, a fit of all but the latest samples must predict these better than the run did
    when they came: `losses` are those of the run, as by `bounded_losses`.
    """
    few = len(without_copies(data).weight) < RENEWAL * run.n_fitted or not (data.weight > 0.0).any()
    if run.annealer is None or not run.will_rest or few:
        return run
    latest = losses[-(len(data.weight) // LATEST) :]
    if are_advancing(data.samples) and not _predicts_better(run, settings, data, latest):
        return run
    return _fitted_again(run, settings, data)


def is_outdated_before(half: int, run: RegressionRun, data: Data) -> bool:
    """Whether local models of the cells are clearly better if they are not fitted to the first half.

    They predict samples of the later half that are left out. Each of FOLDS runs of successive samples
    is left out once.
    """
    used = np.flatnonzero(data.weight > 0.0)
    later = used[used >= half]
    if (
        len(later) < 2 * FOLDS
        or run.annealer is None
        or not run.will_rest
        or are_advancing(data.samples)
    ):
        return False
    gains = np.empty(0)
    for out in np.array_split(later, FOLDS):
        both, new = (
            _refitted_losses(run, data.take(np.setdiff1d(some, out)), data.take(out))
            for some in (used, later)
        )
        gains = np.append(gains, both - new)
    return is_clear(gains)


def _refitted_losses(run: RegressionRun, data: Data, latest: Data) -> Array:
    """Losses of the run's cells on the latest samples, if their models are fitted to other samples."""
    rows, others = (np.hstack([some.samples, some.targets]) for some in (data, latest))
    return bounded_losses(errors_of_models(run, rows, data.weight / data.weight.mean(), others))


def early_fit(run: RegressionRun, settings: Settings, data: Data) -> RegressionRun | None:
    """A fit of all samples of a stream so far, which waits for more; None if there should be none."""
    few = len(data.weight) < RENEWAL * run.n_fitted or not (data.weight > 0.0).any()
    if few or not run.will_rest or are_advancing(data.samples):
        return None
    with restoring_state(run.rng):
        found = _fitted(run, settings, data)
    found.n_seen = run.n_seen
    return found


def _fitted_again(run: RegressionRun, settings: Settings, data: Data) -> RegressionRun:
    """A run like this one of a stream, fitted to samples of it, which goes on in its place."""
    other = _fitted(run, settings, data)
    other.n_seen, other.seconds = run.n_seen, run.seconds + other.seconds
    return other


def _fitted(run: RegressionRun, settings: Settings, data: Data) -> RegressionRun:
    """A new run like this one of a stream, fitted to samples.

    As in a stream without a fit, inputs are clipped only if there are outliers; and a kernel machine is
    tried only if there is one already.
    """
    other, data = run.untrained(run.models), without_copies(data)
    other.settings = settings
    weight = data.weight / data.weight.mean()
    other.fit(np.hstack([data.samples, data.targets]), weight, kernel=run.kernel is not None)
    assert other.scaling is not None
    other.scaling = other.scaling.bounded(*range_without_wild(data.samples, weight))
    return other


def _predicts_better(run: RegressionRun, settings: Settings, data: Data, losses: Array) -> bool:
    """Whether a fit of all but the latest samples has less than these losses of the run on the last."""
    assert run.scaling is not None
    n = len(data.weight)
    first, latest = data.take(slice(0, n - n // LATEST)), data.take(slice(n - len(losses), n))
    if len(losses) == 0 or not (first.weight > 0.0).any():
        return False
    with restoring_state(run.rng):
        fitted = _fitted(run, settings, first)
    errors = (fitted.predict(latest.samples) - latest.targets) / run.scaling.deviation[run.n_inputs :]
    return float(bounded_losses(errors).mean()) < float(losses.mean())

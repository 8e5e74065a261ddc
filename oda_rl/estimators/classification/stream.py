"""How a classifier learns from a stream, is fitted to it, and reacts to a change."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from oda_rl._types import Array
from oda_rl.estimators.classification.annealing import ClassSettings
from oda_rl.estimators.classification.base import CodebookClassifier
from oda_rl.estimators.classification.fitting import fit_classes
from oda_rl.estimators.classification.judging import (
    PATIENCE,
    ClassJudge,
    begin_mixing,
    fitted_error,
    judge_piece,
    limit_memory,
)
from oda_rl.estimators.classification.one_sample import learn_few
from oda_rl.estimators.classification.session import ClassSession
from oda_rl.estimators.drift import LATEST, MOST_FEATURES, RENEWAL, Forgetful, restoring_state
from oda_rl.estimators.targets import Data

# Numbers of samples of a stream, since learning began, at which a fit of all of them is tried, unless a
# class has less than FEWEST samples. One in LATEST samples, the last, are left out for the trial; one in
# LATEST_OF_MANY in the last trial, which is not made if samples have more than MOST_FEATURES features.
FIT_AT, FEWEST = (256, 512, 1024, 2048, 4096), 5
LATEST_OF_MANY = 8


class StreamClassifier(Forgetful, CodebookClassifier):
    """An `ODAClassifier` that learns from a stream."""

    n_warmup: int
    n_features_in_: int
    _session: ClassSession

    @property
    def _relearn_at(self) -> tuple[int, ...]:
        return FIT_AT if self.n_features_in_ <= MOST_FEATURES else FIT_AT[:-1]

    def _begin(self, settings: ClassSettings, n_features: int, rng: np.random.Generator) -> None:
        """Begin to learn from a stream."""
        self._session = ClassSession(settings, n_features, rng)
        if self.rule == "bayes" and self.forgetting is not None:
            # after a change the stream may change again
            begin_mixing(self._session, PATIENCE if self._watch.drifts else 0)

    def _learn(self, data: Data) -> None:
        self._session.observe(data)
        self._changed()

    def _learn_few(self, X: ArrayLike, y: ArrayLike) -> int:
        return learn_few(self, X, y)

    def _judge(self) -> ClassJudge | None:
        return ClassJudge.of(self._session) if self._session.is_warm else None

    def _losses(self, judge: ClassJudge, data: Data) -> Array:
        """Whether samples are classified wrongly (0 or 1); those of unknown classes are left out."""
        return judge_piece(self._session, judge, data, self.rule, len(self._watch.drifts))

    def _fitted_loss(self, data: Data) -> float:
        return fitted_error(self._session, data, self.rule)

    def _adapts_by_itself(self) -> bool:
        return self._session.following.is_quick

    def _restart(self, recent: Data) -> None:
        memory = self._session.following.memory
        self._begin_again(recent)
        self._learn(recent)
        limit_memory(self._session, memory)  # slow changes continue

    def _relearn(self, recent: Data, halved: bool) -> None:
        self._session = fit_of_stream(self._session, recent, self._watch.losses, self)
        self._changed()

    def _n_waiting(self) -> int:
        return self.n_warmup

    def _fit_early(self, recent: Data) -> bool:
        found = early_fit(self._session, recent, self)
        if found is None:
            return False
        self._session = found
        self._changed()
        return True

    def _begin_again(self, recent: Data) -> None:
        old = self._session
        self._begin(old.settings, old.n_features, old.rng)
        self._session.insert_classes(list(range(old.n_classes)))
        self._session.n_seen = old.n_seen - len(recent.weight)


def fit_of_stream(session: ClassSession, data: Data, losses: Array, estimator: Any) -> ClassSession:
    """A session that is fitted to all samples of a stream so far, or this one if that is not better.

    A fit of all but the latest must classify these better than the present session did when they came:
    `losses` are 1 for samples of the stream that were classified wrongly, else 0. Samples left out at
    random would not do, as successive samples may be alike. If there are few it must be clearly better.
    If there are many this fit is kept, and learns the latest as the samples of a stream.
    """
    data = data.take(np.flatnonzero(data.weight > 0.0))
    n = len(data.weight)
    is_large = n >= FIT_AT[-1]
    k = n // (LATEST_OF_MANY if is_large else LATEST)
    first, latest = data.take(slice(0, n - k)), data.take(slice(n - k, n))
    few = np.bincount(first.targets, minlength=session.n_classes).min() < FEWEST or len(losses) < k
    changes = session.following.memory > 0.0  # cells lag behind: the first samples are of no use
    if few or not session.is_warm or changes or n < RENEWAL * session.n_fitted:
        return session
    known = float(losses[-k:].mean())
    margin = 0.0 if is_large else np.sqrt(known * (1.0 - known) / k)
    found = _fitted(session, first, estimator)
    if known - margin <= fitted_error(found, latest, estimator.rule):
        return session
    if is_large:
        found.observe(latest)
    else:
        found = _fitted(session, data, estimator)
    found.n_seen = session.n_seen
    return found


def early_fit(session: ClassSession, data: Data, estimator: Any) -> ClassSession | None:
    """A fit of all samples of a stream so far, which waits for more; None if a class has too few.

    There is none either if cells have followed slow changes of the stream, which will go on.
    """
    data = data.take(np.flatnonzero(data.weight > 0.0))
    few = np.bincount(data.targets, minlength=session.n_classes).min() < FEWEST
    if few or session.following.memory > 0.0 or len(data.weight) < RENEWAL * session.n_fitted:
        return None
    with restoring_state(session.rng):
        found = _fitted(session, data, estimator)
    found.n_seen = session.n_seen
    return found


def _fitted(session: ClassSession, data: Data, estimator: Any) -> ClassSession:
    """A new session like this one, fitted to samples of positive weight."""
    new = ClassSession(session.settings, session.n_features, session.rng)
    weight = data.weight / data.weight.mean()
    fit_classes(new, data._replace(weight=weight), session.n_classes, estimator)
    return new

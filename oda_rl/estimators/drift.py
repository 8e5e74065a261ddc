"""Concept drift: if losses on a stream rise, learning restarts from the latest samples."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from oda_rl._archive import compressed, decompressed
from oda_rl._jit import kernel
from oda_rl._ridge import learning
from oda_rl._schema import Schema, maybe
from oda_rl._statistics import variances
from oda_rl._types import Array
from oda_rl.estimators.progress import report
from oda_rl.estimators.stream_weights import WeightsMixin
from oda_rl.estimators.targets import Data, Latest, data_schema

# Number of samples in a piece of a stream, and in each of the pieces of the first EARLY_SAMPLES samples
# after learning began. All samples of a piece are judged by the model from before it.
PIECE_SAMPLES, EARLY_PIECE_SAMPLES, EARLY_SAMPLES = 128, 32, 1024
# Losses kept, least number of losses on either side of a cut, and distance between the cuts tried.
LONGEST, SHORTEST, STEP = 5000, 25, 5
# Largest probability of a false alarm when the windows of an unchanging stream are compared.
CONFIDENCE = 1e-4
# Numbers of samples since learning began at which trees learn from all of them once more: one step per
# sample is not enough. Other estimators have numbers of their own.
RELEARN_AT = (128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)
# Estimators that are fitted to a stream keep a fitted model unless there are so many times its samples.
RENEWAL = 2.0
# Trees are regrown after a fit once there are, with its samples, more than so many times as many.
REGROWTH = 1.5
# One in LATEST samples, the last, judge fits of those before; they advance if ADVANCED are beyond these.
LATEST, ADVANCED = 4, 0.125
# Number of losses that stand for the samples of a fit, and the most of its samples that are predicted.
EXPECTED = 1000
TINY = 1e-300  # least variance of outputs, for a division
# Loss d / (d + d) of clusterers without cells, with d the mean divergence from the mean
UNDIVIDED = 0.5
# Attributes of a `Watch` that are stored without conversion.
STORED = ("count", "fitted", "begun", "waiting", "losses")
# Latest samples kept for a restart. Until the last of RELEARN_AT, all since the beginning are kept.
RECENT = 1024


class DriftPoint(NamedTuple):
    """A change of the stream: a record of `drifts_`.

    Learning restarted after `n_samples_seen` samples, those of a `fit` among them, because the mean loss
    of predictions had risen from `before` to `after`. The loss is 1 for a wrong class; e / (1 + e) for a
    squared error e in units of the output variance; d / (d + m) for a divergence d, with m the mean
    divergence at the beginning. Right after a `fit`, `before` is the middle between the losses on its
    samples and those of a prediction that does not use their features.
    """

    n_samples_seen: int
    before: float
    after: float


@kernel
def find_cut(losses: Array) -> tuple[int, float, float]:
    """Find where to cut a window of losses in [0, 1] into two with different means.

    This is the test of ADWIN with the variance of the window, at cuts STEP apart. Returns the cut with
    the clearest difference, and the means before and after it; the cut is 0 if there is no difference.
    (Bifet and Gavaldà, "Learning from time-changing data with adaptive windowing", SIAM Data Mining
    2007, section 3.2.)
    """
    n, total, squares = len(losses), 0.0, 0.0
    for loss in losses:
        total += loss
    mean = total / n if n > 0 else 0.0
    for loss in losses:
        squares += (loss - mean) * (loss - mean)
    sure = math.log(2.0 * max(n, 1) / CONFIDENCE)
    spread = 2.0 * squares / max(n, 1) * sure
    left, cut, largest, found = 0.0, 0, 0.0, (0.0, 0.0)
    for start in range(0, n - SHORTEST + 1, STEP):
        if start >= SHORTEST:
            inverse = 1.0 / start + 1.0 / (n - start)  # 2 / (harmonic mean of the two lengths)
            before, after = left / start, (total - left) / (n - start)
            excess = abs(after - before) - math.sqrt(spread * inverse) - 2.0 / 3.0 * inverse * sure
            if excess > largest:
                cut, largest, found = start, excess, (before, after)
        for i in range(start, min(n, start + STEP)):
            left += losses[i]
    return cut, found[0], found[1]


def bounded_losses(errors: Array) -> Array:
    """Losses e / (1 + e) (n,) of errors (n, m) in standard deviations; e are the mean squared errors."""
    squared = (errors**2).mean(axis=1)
    return np.asarray(squared / (1.0 + squared))


def loss_of_mean(data: Data) -> float:
    """The mean of the `bounded_losses` of a prediction of the mean outputs."""
    outputs, weight = data.targets, data.weight
    mean = np.average(outputs, axis=0, weights=weight)
    errors = (outputs - mean) / np.sqrt(np.maximum(variances(outputs, weight), TINY))
    return float(bounded_losses(errors).mean())


def loss_of_largest_class(data: Data) -> float:
    """The part of the samples that a prediction of the most frequent class gets wrong."""
    return float((data.targets != np.bincount(data.targets, data.weight).argmax()).mean())


def are_advancing(samples: Array) -> bool:
    """Whether many of the latest samples, and hence of those to come, are beyond all before."""
    first, latest = np.split(samples, [len(samples) - len(samples) // LATEST])
    beyond = (latest < first.min(axis=0)) | (latest > first.max(axis=0))
    return bool((beyond.mean(axis=0) >= ADVANCED).any())


class Forgetful(WeightsMixin):
    """An estimator that watches its stream: provides `drifts_` for the parameter `forgetting`.

    A judge is a copy of the model from before a piece of the stream, which predicts the samples of the
    piece. It has a method `get_state` and, if there are classes, `with_classes`.
    """

    forgetting: str | None
    _watch: "Watch"
    _relearn_at: tuple[int, ...] = ()  # numbers of samples since learning began

    @property
    def drifts_(self) -> list[DriftPoint]:
        """Changes of the stream at which learning restarted."""
        return self._watch.drifts

    def _judge(self) -> Any:
        """A copy of the present model; None if it cannot make useful predictions yet."""
        raise NotImplementedError

    def _losses(self, judge: Any, data: Data) -> Array:
        """Losses in [0, 1] of a judge on samples; uninformative samples may be left out."""
        raise NotImplementedError

    def _learn(self, data: Data) -> None:
        """Learn from the next samples."""
        raise NotImplementedError

    def _fitted_loss(self, data: Data) -> float:
        """The mean loss on samples of a fit, without a change to the model."""
        return float(self._losses(self._judge(), data).mean())

    def _expect_no_change(self, data: Data, blind: float) -> None:
        """Begin to watch a stream that follows a fit to these samples.

        `blind` is their mean loss by a prediction that does not use the samples' features.
        """
        if self.forgetting is None:
            return
        n = len(data.weight)
        some = data if n <= EXPECTED else data.take(np.arange(EXPECTED) * n // EXPECTED)
        self._watch.expect(n, self._fitted_loss(some), blind)

    def _adapts_by_itself(self) -> bool:
        """Whether the estimator soon forgets what came before a change, without a restart."""
        return False

    def _restart(self, recent: Data) -> None:
        """Forget everything, and learn from these samples."""
        raise NotImplementedError

    def _relearn(self, recent: Data) -> None:
        """Learn once more from all samples since learning began, when they are `_relearn_at`."""
        raise NotImplementedError

    def _watched_few(
        self: Any, samples: Array, targets: Any, learn: Callable[..., int], *what: Any
    ) -> int:
        """Fast path of `_watched`: let `learn(*what)` learn from the first samples, if it can.

        The samples (n, n_features) have weight one and are all in one piece of the stream. Returns the
        number of samples learned, as `learn` does; 0 means that nothing has changed.
        """
        if self.forgetting is None:
            return learn(*what)
        watch = self._watch
        watch.begin(self)
        n = learn(*what)
        if n > 0:
            watch.latest.add_few(samples[:n], targets[:n])
            watch.learned(n, self)
        return n

    def _watched(self: Any, data: Data) -> None:
        """Learn from the next samples; if the stream is watched, restart where it has changed."""
        with learning():  # at the end of a warm-up there are small systems to solve
            if self.forgetting is None:
                self._learn(data._replace(weight=self._relative(data.weight)))
            else:
                self._watch.learn(data, self)


class Watch:
    """Change detector: keeps the losses and the latest samples of a stream.

    `drifts` are the changes so far. The stream is judged in pieces, each by a copy of the model from the
    beginning of the piece, so that the result does not depend on how the stream is cut into chunks.
    """

    def __init__(self) -> None:
        self.count = self.begun = 0  # samples of the stream: so far; when learning began (in a fit: < 0)
        self.fitted = 0  # samples of a fit before the stream
        self.losses = np.empty(0)
        self.drifts: list[DriftPoint] = []
        self.judge: Any = None
        self.waiting = 0  # samples of the current piece so far
        self.latest = Latest(RECENT)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"losses": compressed(self.losses)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state | {"losses": decompressed(state["losses"])})

    @property
    def left(self) -> int:
        """Number of samples to the end of the current piece."""
        is_early = self.begun >= 0 and self.count - self.waiting - self.begun < EARLY_SAMPLES
        return (EARLY_PIECE_SAMPLES if is_early else PIECE_SAMPLES) - self.waiting

    def expect(self, n: int, fitted: float, blind: float) -> None:
        """Begin with losses that stand for the n samples of a fit.

        A model has smaller losses on the samples that it was fitted to (`fitted`, their mean) than on
        others. So the middle between it and the mean loss of a prediction without features (`blind`) is
        taken: a stream has changed since the fit if its losses are clearly above it.
        """
        self.fitted = n
        self.losses = np.full(min(n, EXPECTED), 0.5 * (fitted + blind))

    def learn(self, data: Data, learner: Forgetful) -> None:
        """Learn from the next samples, and restart where the stream has changed."""
        start, n = 0, len(data.weight)
        while start < n:
            self.begin(learner)
            stop = min(n, start + self.left)
            piece = data if (start, stop) == (0, n) else data.take(slice(start, stop))
            learner._learn(piece._replace(weight=learner._relative(piece.weight)))
            self.latest.add(piece)
            self.learned(stop - start, learner)
            start = stop

    def begin(self, learner: Forgetful) -> None:
        """Prepare for the next samples: make a judge if a new piece begins with them."""
        if self.waiting == 0:
            self.judge = learner._judge()

    def learned(self, n: int, learner: Forgetful) -> None:
        """Register n samples as learned, which are in `latest`; at the end of a piece, judge it."""
        left = self.left - n
        self.count += n
        self.waiting += n
        if left > 0:
            return
        if self.judge is not None:
            piece = self.latest.last(self.waiting, learner._weights_seen.mean)
            losses = learner._losses(self.judge, piece)
            self.losses = np.concatenate([self.losses, losses])[-LONGEST:]
        start, self.judge, self.waiting = self.count - self.waiting, None, 0
        if learner._relearn_at:
            self._relearn(learner, start)
        if self.count % PIECE_SAMPLES == 0:
            self._compare(learner)

    def _relearn(self, learner: Forgetful, start: int) -> None:
        before, since = max(start - self.begun, -REGROWTH * self.begun), self.count - self.begun
        if any(before < at <= since for at in learner._relearn_at):
            with learning():  # not around each single sample, which would take twice as long
                learner._relearn(self.latest.last(since, learner._weights_seen.mean))
        self.latest.n = self._n_latest(learner._relearn_at)

    def _n_latest(self, relearn_at: tuple[int, ...]) -> int:
        """The number of latest samples to keep: all, until they have been learned from once more."""
        gathers = len(relearn_at) > 0 and self.count - self.begun < relearn_at[-1]
        return relearn_at[-1] if gathers else RECENT

    def insert_classes(self, places: list[int]) -> None:
        """Insert new classes at these numbers, in ascending order."""
        self.latest.insert_classes(places)
        if self.judge is not None and places:
            self.judge = self.judge.with_classes(places)

    def _compare(self, learner: Forgetful) -> None:
        cut, before, after = find_cut(self.losses)
        if cut == 0:
            return
        self.losses = self.losses[cut:]
        if after <= before or learner._adapts_by_itself():  # an improvement, or no restart needed
            return
        seen = self.fitted + self.count
        self.drifts.append(DriftPoint(seen, before, after))
        report(
            f"drift after {seen:,} samples, learning starts again: loss rose from {before:.3g} "
            f"to {after:.3g}"
        )
        # The change may be up to STEP samples after the cut. Even one sample from before the change
        # would make the new codebook span the data of both sides.
        with learning():
            recent = self.latest.last(max(1, min(self.count, len(self.losses) - STEP)))
            learner._restart(recent._replace(weight=learner._begin_weights(recent.weight)))
            learner._count_weights()
        self.losses, self.begun = self.losses[:0], self.count

    def get_state(self) -> dict[str, Any]:
        """Return the state as plain values and arrays, for a model file."""
        recent = self.latest.last(self.latest.n)
        return {
            **{name: getattr(self, name) for name in STORED},
            "drifts": [list(point) for point in self.drifts],
            "recent": None if recent is None else recent._asdict(),
            "judge": None if self.judge is None else self.judge.get_state(),
        }

    @classmethod
    def restored(
        cls, state: dict[str, Any], judge: Callable[[Any], Any], relearn_at: tuple[int, ...] = ()
    ) -> "Watch":
        """Make a watch from a state; `judge` restores its judge, `relearn_at` is that of the learner."""
        watch = cls()
        for name in STORED:
            setattr(watch, name, state[name])
        watch.drifts = [DriftPoint(*point) for point in state["drifts"]]
        watch.judge = None if state["judge"] is None else judge(state["judge"])
        if state["recent"] is not None:
            recent = Data(**state["recent"])
            watch.latest.n = max(watch._n_latest(relearn_at), len(recent.weight))
            watch.latest.add(recent)
        return watch


def watch_schema(kind: str, judge: Schema) -> Schema:
    """Schema of `Watch.get_state` for a "classifier", "regressor" or "clusterer" with this judge."""
    return {
        "count": "count",
        "fitted": "count",
        "begun": f"int in [{-max(RELEARN_AT)}, inf)",
        "waiting": f"count in [0, {PIECE_SAMPLES - 1}]",
        "losses": "float[losses] in [0, 1]",
        "drifts": [("count", "float in [0, 1]", "float in [0, 1]")],
        "recent": maybe(data_schema(kind, "recent")),
        "judge": maybe(judge),
    }

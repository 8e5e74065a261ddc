"""Concept drift: if losses on a stream rise, learning restarts from the latest samples."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from oda_rl._jit import kernel
from oda_rl._ridge import learning
from oda_rl._statistics import variances
from oda_rl._types import Array
from oda_rl.estimators.stream_weights import WeightsMixin
from oda_rl.estimators.targets import Data

if TYPE_CHECKING:
    from oda_rl.estimators.stream_watch import Watch

# Losses kept, least number of losses on either side of a cut, and distance between the cuts tried.
LONGEST, SHORTEST, STEP = 5000, 25, 5
# Largest probability of a false alarm when the windows of an unchanging stream are compared.
CONFIDENCE = 1e-4
# Number of samples, a power of two, at which a stream is first fitted while an estimator waits for more;
# it is fitted again at each doubling.
EARLY_AT = 32
# Numbers of samples since learning began at which trees learn from all of them once more: one step per
# sample is not enough. Other estimators have numbers of their own.
RELEARN_AT = (128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)
# Estimators that are fitted to a stream keep a fitted model unless there are so many times its samples.
RENEWAL = 2.0
# With more features, models are not fitted to a stream at the last of their numbers of samples.
MOST_FEATURES = 128
# Trees are regrown after a fit once there are, with its samples, more than so many times as many.
REGROWTH = 1.5
# One in LATEST samples, the last, judge fits of those before; they advance if ADVANCED are beyond these,
# and so many would be by chance with a probability of at most BY_CHANCE.
LATEST, ADVANCED, BY_CHANCE = 4, 0.125, 0.01
# Number of losses that stand for the samples of a fit, and the most of its samples that are predicted.
EXPECTED = 1000
TINY = 1e-300  # least variance of outputs, for a division
# Loss d / (d + d) of clusterers without cells, with d the mean divergence from the mean
UNDIVIDED = 0.5


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
    """Whether many of the latest samples, and hence of those to come, are beyond all before.

    In a random order the i smallest and k - i largest values of a feature are among the latest with a
    probability of about LATEST^-k, for each of the k + 1 possible i.
    """
    first, latest = np.split(samples, [len(samples) - len(samples) // LATEST])
    beyond = ((latest < first.min(axis=0)) | (latest > first.max(axis=0))).sum(axis=0)
    k = np.arange(len(latest) + 1)
    is_rare = samples.shape[1] * (k + 1.0) * float(LATEST) ** -k <= BY_CHANCE
    return bool(((beyond >= ADVANCED * len(latest)) & is_rare[beyond]).any())


@contextmanager
def restoring_state(rng: np.random.Generator) -> Iterator[None]:
    """Draw from a generator inside, and let it continue as if it had not been used."""
    state = rng.bit_generator.state
    try:
        yield
    finally:
        rng.bit_generator.state = state


class Forgetful(WeightsMixin):
    """An estimator that watches its stream: provides `drifts_` for the parameter `forgetting`.

    A judge is a copy of the model from before a piece of the stream, which predicts the samples of the
    piece. It has a method `get_state` and, if there are classes, `with_classes`.
    """

    forgetting: str | None
    _watch: "Watch"

    @property
    def _relearn_at(self) -> tuple[int, ...]:
        """Numbers of samples, since learning began, at which `_relearn` is called."""
        return ()

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

    def _is_outdated_before(self, half: int, recent: Data) -> bool:
        """Whether the first `half` of the samples since a change came before its end, and misleads."""
        return False

    def _relearn(self, recent: Data, halved: bool) -> None:
        """Learn once more from all samples since learning began, when they are `_relearn_at`.

        They are `halved` if the first half of them was outdated, and has just been given up.
        """
        raise NotImplementedError

    def _n_waiting(self) -> int:
        """Number of samples of a stream before which it may be fitted early; 0 if it is not."""
        return 0

    def _fit_early(self, recent: Data) -> bool:
        """Let a fit of all samples so far predict until learning begins again; return if it does."""
        return False

    def _begin_again(self, recent: Data) -> None:
        """Forget everything, to learn from these samples as if there had been no early fit."""
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

"""Streams that change: when samples cost more than they did, learning begins anew from the latest."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from oda_rl._archive import compressed, decompressed
from oda_rl._jit import kernel
from oda_rl._schema import Schema, maybe
from oda_rl._types import Array
from oda_rl.estimators.progress import tell
from oda_rl.estimators.targets import Data, Latest, data_schema

# Windows are compared after so many samples. These are judged together, or where learning began of late,
# fewer: by what had been learned before all of them.
PIECE, SHORT, EARLY = 128, 32, 1024
# Losses that are kept, and on either side of a cut at least; cuts are tried at every so many.
LONGEST, SHORTEST, STEP = 5000, 25, 5
# How often, at most, windows of a stream that does not change may be taken for different.
CONFIDENCE = 1e-4
# So many samples after learning began, they are gone over again where one step each is too few.
AGAIN = (128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)
# Samples that are kept to begin anew from; where they are gone over, all until that ends.
RECENT = 1024


class DriftPoint(NamedTuple):
    """A change of the stream: a record of `drifts_`.

    After `n_samples_seen` samples learning began anew, as the mean loss of predictions had risen from
    `before` to `after`: wrong classes, squared errors e as e / (1 + e) in variances of the outputs, or
    divergences d as d / (d + m), m the mean of the first.
    """

    n_samples_seen: int
    before: float
    after: float


@kernel
def find_cut(losses: Array) -> tuple[int, float, float]:
    """Where a window of losses in [0, 1] falls into two of different means, and the means.

    The test of ADWIN with the variance of the window, at cuts STEP apart; the cut is that with the
    clearest difference, or 0 if there is none. (Bifet and Gavaldà, "Learning from time-changing data
    with adaptive windowing", SIAM Data Mining 2007, section 3.2.)
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
            inverse = 1.0 / start + 1.0 / (n - start)  # twice that of the harmonic mean
            before, after = left / start, (total - left) / (n - start)
            excess = abs(after - before) - math.sqrt(spread * inverse) - 2.0 / 3.0 * inverse * sure
            if excess > largest:
                cut, largest, found = start, excess, (before, after)
        for i in range(start, min(n, start + STEP)):
            left += losses[i]
    return cut, found[0], found[1]


class Judge(Protocol):
    """What had been learned before a piece of a stream, as a copy."""

    def with_classes(self, places: list[int]) -> Any:
        """The same, with new classes at these places among all, in rising order."""

    def get_state(self) -> dict[str, Any]:
        """All of it as plain values and arrays, for a model file."""


class Learner(Protocol):
    """An estimator that learns from a stream, as a `Watch` sees it.

    So many samples after it began, in `_again`, it learns from all of them once more.
    """

    _again: tuple[int, ...]

    def _judge(self) -> Judge | None:
        """A copy of what predicts now; None while predictions mean nothing yet."""

    def _losses(self, judge: Any, data: Data) -> Array:
        """Losses in [0, 1] of samples by a judge; those that tell nothing may be left out."""

    def _learn(self, data: Data) -> None:
        """Learn from the next samples."""

    def _forgets_itself(self) -> bool:
        """Whether what was before a change is soon forgotten as it is."""

    def _begin_anew(self, recent: Data) -> None:
        """Forget all, and learn from these."""

    def _go_over(self, recent: Data) -> None:
        """Learn from these, which are all since learning began, once more."""


class Watch:
    """The losses and the latest samples of a stream.

    `drifts` are the changes so far. Samples are judged piece by piece, by a copy of what was known
    at the beginning of the piece, so that it makes no difference how the stream is cut.
    """

    def __init__(self) -> None:
        self.count = self.begun = 0
        self.losses = np.empty(0)
        self.drifts: list[DriftPoint] = []
        self.judge: Any = None
        self.waiting = 0  # samples of the piece that has begun
        self.latest = Latest(RECENT)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"losses": compressed(self.losses)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state | {"losses": decompressed(state["losses"])})

    @property
    def left(self) -> int:
        """Samples up to the end of the piece."""
        return (SHORT if self.count - self.waiting - self.begun < EARLY else PIECE) - self.waiting

    def learn(self, data: Data, learner: Learner) -> None:
        """Learn from the next samples, and begin anew where the stream has changed."""
        start, n = 0, len(data.weight)
        while start < n:
            self.begin(learner)
            stop = min(n, start + self.left)
            piece = data if (start, stop) == (0, n) else data.take(slice(start, stop))
            learner._learn(piece)
            self.latest.add(piece)
            self.learned(stop - start, learner)
            start = stop

    def begin(self, learner: Learner) -> None:
        """Before samples are learned from: have a judge if a piece begins with them."""
        if self.waiting == 0:
            self.judge = learner._judge()

    def learned(self, n: int, learner: Learner) -> None:
        """After so many samples of a piece, which `latest` has, were learned from: judge them all."""
        left = self.left - n
        self.count += n
        self.waiting += n
        if left > 0:
            return
        if self.judge is not None:
            losses = learner._losses(self.judge, self.latest.last(self.waiting))
            self.losses = np.concatenate([self.losses, losses])[-LONGEST:]
        self.judge, self.waiting = None, 0
        if learner._again:
            self._go_over(learner)
        if self.count % PIECE == 0:
            self._compare(learner)

    def _go_over(self, learner: Learner) -> None:
        since, last = self.count - self.begun, learner._again[-1]
        if since in learner._again:
            learner._go_over(self.latest.last(since))
        self.latest.n = last if since < last else RECENT

    def insert_classes(self, places: list[int]) -> None:
        """Know new classes, which are at these places among all, in rising order."""
        self.latest.insert_classes(places)
        if self.judge is not None and places:
            self.judge = self.judge.with_classes(places)

    def _compare(self, learner: Learner) -> None:
        cut, before, after = find_cut(self.losses)
        if cut == 0:
            return
        self.losses = self.losses[cut:]
        if after <= before or learner._forgets_itself():  # it has learned, or will soon have
            return
        self.drifts.append(DriftPoint(self.count, before, after))
        tell(f"begins anew after {self.count:,} samples: losses rose from {before:.3g} to {after:.3g}")
        # the change may have come up to a step after the cut; one sample of before it, and
        # a codebook over both would begin
        learner._begin_anew(self.latest.last(max(1, len(self.losses) - STEP)))
        self.losses, self.begun = self.losses[:0], self.count

    def get_state(self) -> dict[str, Any]:
        """All of this as plain values and arrays, for a model file."""
        recent = self.latest.last(self.latest.n)
        return {
            "count": self.count,
            "begun": self.begun,
            "waiting": self.waiting,
            "losses": self.losses,
            "drifts": [list(point) for point in self.drifts],
            "recent": None if recent is None else recent._asdict(),
            "judge": None if self.judge is None else self.judge.get_state(),
        }

    @classmethod
    def restored(cls, state: dict[str, Any], judge: Callable[[Any], Any]) -> "Watch":
        """A watch from what `get_state` gave; `judge` makes one of its last part."""
        watch = cls()
        for name in ("count", "begun", "waiting", "losses"):
            setattr(watch, name, state[name])
        watch.drifts = [DriftPoint(*point) for point in state["drifts"]]
        watch.judge = None if state["judge"] is None else judge(state["judge"])
        if state["recent"] is not None:
            recent = Data(**state["recent"])
            watch.latest.n = max(RECENT, len(recent.weight))
            watch.latest.add(recent)
        return watch


def watch_schema(kind: str, judge: Schema) -> Schema:
    """What `Watch.get_state` gives, of a classifier, regressor or clusterer with such a judge."""
    return {
        "count": "count",
        "begun": f"int in [{-max(AGAIN)}, inf)",
        "waiting": f"count in [0, {PIECE - 1}]",
        "losses": "float[losses] in [0, 1]",
        "drifts": [("count", "float in [0, 1]", "float in [0, 1]")],
        "recent": maybe(data_schema(kind, "recent")),
        "judge": maybe(judge),
    }


class Forgetful:
    """An estimator that watches its stream: `drifts_`, and a parameter `forgetting`; a `Learner`."""

    forgetting: str | None
    _watch: Watch
    _again: tuple[int, ...] = ()  # those that rehearse need no more

    @property
    def drifts_(self) -> list[DriftPoint]:
        """Changes of the stream at which learning began anew."""
        return self._watch.drifts

    def _forgets_itself(self) -> bool:
        return False

    def _watched_few(
        self: Any, samples: Array, targets: Any, learn: Callable[..., int], *what: Any
    ) -> int:
        """Have `learn(*what)` learn from the first of samples of weight one, if it can.

        As `_watched` of samples (n, n_features) that are all of one piece of the stream. Returns what
        `learn` does: from how many samples it has learned; if from none, it has changed nothing.
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
        """Learn from the next samples, and begin anew where the stream has changed, if it is watched."""
        if self.forgetting is None:
            self._learn(data)
        else:
            self._watch.learn(data, self)

"""Streams that change: when samples cost more than they did, learning begins anew from the latest."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from oda_rl._schema import Schema
from oda_rl._types import Array
from oda_rl.estimators.progress import tell
from oda_rl.estimators.targets import Data, data_schema, make_place

# Windows are compared after so many samples.
PIECE = 128
# Losses that are kept, and on either side of a cut at least; cuts are tried at every so many.
LONGEST, SHORTEST, STEP = 5000, 25, 5
# How often, at most, windows of a stream that does not change may be taken for different.
CONFIDENCE = 1e-4
# Samples that are kept to begin anew from.
RECENT = 1000


class DriftPoint(NamedTuple):
    """A change of the stream: a record of `drifts_`.

    After `n_samples_seen` samples learning began anew, as the mean loss of predictions had risen from
    `before` to `after`: wrong classes, squared errors e as e / (1 + e) in variances of the outputs, or
    divergences d as d / (d + m), m the mean of the first.
    """

    n_samples_seen: int
    before: float
    after: float


def find_cut(losses: Array) -> tuple[int, float, float]:
    """Where a window of losses in [0, 1] falls into two of different means, and the means.

    The test of ADWIN with the variance of the window, at cuts STEP apart; the cut is that with the
    clearest difference, or 0 if there is none. (Bifet and Gavaldà, "Learning from time-changing data
    with adaptive windowing", SIAM Data Mining 2007, section 3.2.)
    """
    n = len(losses)
    cuts = np.arange(SHORTEST, n - SHORTEST + 1, STEP)
    if len(cuts) == 0:
        return 0, 0.0, 0.0
    total = np.cumsum(losses)
    before, after = total[cuts - 1] / cuts, (total[-1] - total[cuts - 1]) / (n - cuts)
    harmonic = 1.0 / (1.0 / cuts + 1.0 / (n - cuts))
    sure = np.log(2.0 * n / CONFIDENCE)
    bound = np.sqrt(2.0 / harmonic * losses.var() * sure) + 2.0 / (3.0 * harmonic) * sure
    excess = np.abs(after - before) - bound
    best = int(excess.argmax())
    if excess[best] <= 0.0:
        return 0, 0.0, 0.0
    return int(cuts[best]), float(before[best]), float(after[best])


class Watch:
    """The losses and the latest samples of a stream.

    `drifts` are the changes so far.
    """

    def __init__(self) -> None:
        self.count = 0
        self.losses = np.empty(0)
        self.drifts: list[DriftPoint] = []
        self._latest: list[Data] = []  # in pieces, which are joined now and then

    @property
    def recent(self) -> Data | None:
        """The latest samples."""
        if len(self._latest) > 1:
            self._latest = [Data.of(self._latest).take(slice(-RECENT, None))]
        return self._latest[0] if self._latest else None

    def learn(
        self,
        data: Data,
        learn: Callable[[Data], None],
        loss: Callable[[Data], Array],
        begin_anew: Callable[[Data], None],
    ) -> None:
        """Learn from the next samples, and begin anew where the stream has changed.

        `loss` gives the losses (n,) in [0, 1] of samples that have not been learned from, or none while
        predictions mean nothing yet. Windows are compared at the same samples whatever the chunks, but
        a sample's loss is that of the model at the beginning of its chunk.
        """
        start, n = 0, len(data.weight)
        while start < n:
            stop = min(n, start + PIECE - self.count % PIECE)
            piece = data if (start, stop) == (0, n) else data.take(slice(start, stop))
            self.losses = np.concatenate([self.losses, loss(piece)])[-LONGEST:]
            learn(piece)
            self._latest.append(piece)
            self.count += stop - start
            if self.count % PIECE == 0:
                self._compare(self.recent, begin_anew)
            start = stop

    def insert_classes(self, places: list[int]) -> None:
        """Know new classes, which are at these places among all, in rising order."""
        recent = self.recent if places else None
        for place in places:
            if recent is not None:
                recent = recent._replace(targets=make_place(recent.targets, place))
                self._latest = [recent]

    def _compare(self, recent: Data | None, begin_anew: Callable[[Data], None]) -> None:
        cut, before, after = find_cut(self.losses)
        if cut == 0:
            return
        self.losses = self.losses[cut:]
        if after <= before:  # it has learned
            return
        assert recent is not None
        self.drifts.append(DriftPoint(self.count, before, after))
        tell(f"begins anew after {self.count:,} samples: losses rose from {before:.3g} to {after:.3g}")
        # the change may have come up to a step after the cut; one sample of before it, and
        # a codebook over both would begin
        begin_anew(recent.take(slice(STEP - len(self.losses), None)))
        self.losses = self.losses[:0]

    def get_state(self) -> dict[str, Any]:
        """All of this as plain values and arrays, for a model file."""
        return {
            "count": self.count,
            "losses": self.losses,
            "drifts": [list(point) for point in self.drifts],
            "recent": [] if (recent := self.recent) is None else [recent._asdict()],
        }

    @classmethod
    def restored(cls, state: dict[str, Any]) -> "Watch":
        """A watch from what `get_state` gave."""
        watch = cls()
        watch.count, watch.losses = state["count"], state["losses"]
        watch.drifts = [DriftPoint(*point) for point in state["drifts"]]
        watch._latest = [Data(**recent) for recent in state["recent"]]
        return watch


def watch_schema(kind: str) -> Schema:
    """What `Watch.get_state` gives, of a classifier, regressor or clusterer."""
    return {
        "count": "count",
        "losses": "float[losses] in [0, 1]",
        "drifts": [("count", "float in [0, 1]", "float in [0, 1]")],
        "recent": [data_schema(kind, "recent")],
    }


class Forgetful:
    """An estimator that watches its stream: `drifts_`, and a parameter `forgetting`."""

    forgetting: str | None
    _watch: Watch

    @property
    def drifts_(self) -> list[DriftPoint]:
        """Changes of the stream at which learning began anew."""
        return self._watch.drifts

    def _watched(self, data: Data) -> None:
        """Learn from the next samples, and begin anew where the stream has changed, if it is watched."""
        if self.forgetting is None:
            self._learn(data)
        else:
            self._watch.learn(data, self._learn, self._losses, self._begin_anew)

    def _learn(self, data: Data) -> None:
        raise NotImplementedError

    def _losses(self, data: Data) -> Array:
        raise NotImplementedError

    def _begin_anew(self, recent: Data) -> None:
        raise NotImplementedError

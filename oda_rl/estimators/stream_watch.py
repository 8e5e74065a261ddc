"""A watch of a stream: judges it in pieces, and finds when to fit it and when it has changed."""

from collections.abc import Callable
from typing import Any

import numpy as np

from oda_rl._archive import compressed, decompressed
from oda_rl._ridge import learning
from oda_rl._schema import Schema, maybe
from oda_rl.estimators.drift import (
    EARLY_AT,
    EXPECTED,
    LONGEST,
    REGROWTH,
    RELEARN_AT,
    STEP,
    DriftPoint,
    Forgetful,
    find_cut,
)
from oda_rl.estimators.progress import report, silence
from oda_rl.estimators.targets import Data, Latest, data_schema

# Number of samples in a piece of a stream, and in each of the pieces of the first EARLY_SAMPLES samples
# after learning began. All samples of a piece are judged by the model from before it.
PIECE_SAMPLES, EARLY_PIECE_SAMPLES, EARLY_SAMPLES = 128, 32, 1024
# Attributes of a `Watch` that are stored without conversion.
STORED = ("count", "fitted", "begun", "waiting", "losses")
# Latest samples kept for a restart. Until the last of RELEARN_AT, all since the beginning are kept.
RECENT = 1024


def _piece_from(start: int) -> int:
    """The number of samples in the piece of a stream that begins `start` samples after learning did."""
    return EARLY_PIECE_SAMPLES if start < EARLY_SAMPLES else PIECE_SAMPLES


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
        self.early = False  # whether the present model is an early fit
        self.latest = Latest(RECENT)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"losses": compressed(self.losses)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state | {"losses": decompressed(state["losses"])})

    @property
    def left(self) -> int:
        """Number of samples to the end of the current piece."""
        # Long pieces must end where losses are compared.
        begun = -(-self.begun // PIECE_SAMPLES) * PIECE_SAMPLES
        start = self.count - self.waiting - begun
        return (PIECE_SAMPLES if self.begun < 0 else _piece_from(start)) - self.waiting

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
            self._add_losses(self.latest.last(self.waiting, learner._weights_seen.mean), learner)
        start, self.judge, self.waiting = self.count - self.waiting, None, 0
        if learner._relearn_at:
            self._relearn(learner, start)
        if self.count % PIECE_SAMPLES == 0:
            self._compare(learner)

    def _add_losses(self, piece: Data, learner: Forgetful) -> None:
        losses = learner._losses(self.judge, piece)
        self.losses = np.concatenate([self.losses, losses])[-LONGEST:]

    def _relearn(self, learner: Forgetful, start: int) -> None:
        before, since = max(start - self.begun, -REGROWTH * self.begun), self.count - self.begun
        is_due = any(before < at <= since for at in learner._relearn_at)
        is_fresh = self.begun > 0 or self.begun == self.fitted == 0
        waits = is_fresh and since < learner._n_waiting()
        doubled = since >= EARLY_AT and since.bit_length() > int(before).bit_length()
        if is_due or (doubled and (waits or self.early)):
            with learning():  # not around each single sample, which would take twice as long
                recent = self.latest.last(since, learner._weights_seen.mean)
                if waits or not is_due:
                    self._fit_early(recent, learner)
                elif self.early:
                    self._begin_again(recent, learner)
                if is_due and not self.early:
                    self._relearn_later(recent, learner)
        self.early = self.early and since < learner._relearn_at[-1]
        self.latest.n = self._n_latest(learner._relearn_at)

    def _relearn_later(self, recent: Data, learner: Forgetful) -> None:
        """Let samples be learned once more: after a slow change only those that came after its end."""
        half = len(recent.weight) // 2
        halved = len(self.drifts) > 0 and learner._is_outdated_before(half, recent)
        if halved:
            recent = recent.take(slice(half, None))
            self.begun = self.count - len(recent.weight)
        learner._relearn(recent, halved)

    def _fit_early(self, recent: Data, learner: Forgetful) -> None:
        with silence():  # its temperatures are not those of the stream
            self.early = learner._fit_early(recent) or self.early

    def _begin_again(self, recent: Data, learner: Forgetful) -> None:
        """Let all samples of the stream be learned once more, as if there had been no early fit."""
        learner._begin_again(recent)
        self.losses, self.early, start = self.losses[:0], False, 0
        while start < len(recent.weight):
            piece = recent.take(slice(start, start + _piece_from(start)))
            self.judge = learner._judge()
            learner._learn(piece)
            if self.judge is not None:
                self._add_losses(piece, learner)
            start += len(piece.weight)
        self.judge = None

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
            recent = recent._replace(weight=learner._begin_weights(recent.weight))
            learner._restart(recent)
            learner._count_weights()
            n = len(recent.weight)
            self.losses, self.begun, self.early = self.losses[:0], self.count - n, False
            if n < learner._n_waiting():
                self._fit_early(recent, learner)

    def get_state(self) -> dict[str, Any]:
        """Return the state as plain values and arrays, for a model file."""
        recent = self.latest.last(self.latest.n)
        return {
            **{name: getattr(self, name) for name in STORED},
            "drifts": [list(point) for point in self.drifts],
            "recent": None if recent is None else recent._asdict(),
            "judge": None if self.judge is None else self.judge.get_state(),
            **({"early": True} if self.early else {}),
        }

    @classmethod
    def restored(
        cls, state: dict[str, Any], judge: Callable[[Any], Any], relearn_at: tuple[int, ...] = ()
    ) -> "Watch":
        """Make a watch from a state; `judge` restores its judge, `relearn_at` is that of the learner."""
        watch = cls()
        for name in STORED:
            setattr(watch, name, state[name])
        watch.early = state.get("early", False)
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
        "early?": "bool",
        "losses": "float[losses] in [0, 1]",
        "drifts": [("count", "float in [0, 1]", "float in [0, 1]")],
        "recent": maybe(data_schema(kind, "recent")),
        "judge": maybe(judge),
    }

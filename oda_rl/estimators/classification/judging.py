"""Evaluation of the samples of a stream by the codebook from before any of them was learned."""

from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from oda_rl._effects import count_stored
from oda_rl._schema import Schema, Sizes, maybe
from oda_rl._types import Array, Labels
from oda_rl.codebook.annealer import Annealer
from oda_rl.codebook.divergences import Divergence
from oda_rl.estimators.classification.book import (
    FLOOR,
    ClassBook,
    book_schema,
    log_loss,
    log_probabilities,
)
from oda_rl.estimators.classification.kernels import losses_of_widths, mix_widths
from oda_rl.estimators.classification.logit_view import LogitView
from oda_rl.estimators.feature_scaling import SCALING, Scaling
from oda_rl.estimators.regression.predictor import predictor_schema
from oda_rl.estimators.stream_watch import watch_schema
from oda_rl.estimators.targets import Data, make_place

if TYPE_CHECKING:
    from oda_rl.estimators.classification.session import ClassSession

# Candidate widths (own, factor) of a stream, as in `annealing`; the first is used initially.
WIDTHS = ((0.0, 2.0), (0.0, 1.0), (0.0, 4.0), (0.0, 8.0), (1.0, 2.0))
# Candidate weights of the log-probabilities of densities and of logits; the first are used initially.
MIXTURES = ((1.0, 0.0), (0.5, 0.5), (0.25, 1.0), (0.0, 1.0))
# Logits must lower the loss by this part; those that have not after PATIENCE samples are dropped.
WORTHWHILE, PATIENCE = 0.02, 2000
# Schema of a stored `Mixing`.
MIXING = {"n": "count", "wait": "count", "losses": f"float[{len(MIXTURES)}] in [0, inf)"}
# Candidates are compared by losses averaged over about the latest REMEMBERED samples. WRONG is the
# weight of the error rate in them: more than in a fit, since the judging cells were fewer.
REMEMBERED, WRONG = 1000, 10.0
# A class counts as known after so many of its samples. Losses with which widths are chosen must be those
# of as many of its samples, too: without any, a width that never predicts a rare class is the best.
KNOWN = 20
# Cells that anneal are judged if the stream has changed so often, and once their number has not changed
# for so many samples per cell.
RESTLESS, UNCHANGED = 2, 2.0


class ClassJudge(NamedTuple):
    """A copy of the classifier from before the samples that it judges.

    `counts` (n_classes,) are the samples of each class at that time; `shared` and `single` (n_classes,)
    are the widths of which candidates are mixed (see `kernels.mix_widths`).
    """

    book: ClassBook
    scaling: Scaling
    counts: Array
    shared: float
    single: Array
    local: LogitView | None = None

    @classmethod
    def of(cls, session: "ClassSession") -> "ClassJudge":
        """A copy of the current state of a session that has warmed up."""
        found, live = session.live_book()
        parts: Any = (part.copy(order="A") for part in found)
        book = ClassBook(*parts)
        own = session.shared_width, live.single.copy()
        view = None if session.local is None else session.local.view
        local = None if view is None else view.frozen()
        return cls(book, session.scaling, session.counts.copy(), *own, local)

    def with_classes(self, places: list[int]) -> "ClassJudge":
        """A copy with new classes, whose numbers among all classes are `places`, in ascending order."""
        book, counts, single = self.book, self.counts, self.single
        for place in places:
            labels, counts = make_place(book.labels, place), np.insert(counts, place, 0.0)
            if len(book.votes) > 0:  # a shared partition has one width for all classes
                votes = np.insert(book.votes, place, 0.0, axis=1)
                widths = np.append(book.widths, book.widths[0])
            else:
                votes, widths = book.votes, np.insert(book.widths, place, 1.0)
                single = np.insert(single, place, 1.0)
            book = book._replace(labels=labels, widths=widths, votes=votes)
        # local logits restart
        return self._replace(book=book, counts=counts, single=single, local=None)

    def distance(self, divergence: Divergence, scaled: Array) -> Array:
        """The divergences (n_samples, n_cells) of samples in scaled features."""
        return divergence.between(scaled, self.book.codevectors)

    def errors(self, data: Data, distance: Array, rule: str, session: "ClassSession") -> Array:
        """1 for each sample whose class is not the predicted one, else 0; as for `classes`."""
        return (self.classes(data.samples, distance, rule, session) != data.targets).astype(np.float64)

    def classes(self, samples: Array, distance: Array, rule: str, session: "ClassSession") -> Labels:
        """Predicted class numbers of raw samples, by `rule`; `distance` are their divergences.

        Neighbors are those of the `session`, as they do not learn from a stream.
        """
        if rule == "nearest":
            return np.asarray(self.book.labels[distance.argmin(axis=1)])
        view = self.local if self.local is not None and self.local.logits > 0.0 else None
        joint = mixed(session, self.book.log_joint(distance), view, samples)
        return np.asarray(joint.argmax(axis=1))

    def get_state(self) -> dict[str, Any]:
        """Return the state as plain values and arrays, for a model file."""
        parts = {"book": self.book._asdict(), "scaling": self.scaling._asdict()}
        local = None if self.local is None else self.local.get_state()
        return self._asdict() | parts | {"local": local}

    @classmethod
    def restored(cls, state: dict[str, Any]) -> "ClassJudge":
        """A judge with the state that `get_state` returned."""
        parts = {"book": ClassBook(**state["book"]), "scaling": Scaling(**state["scaling"])}
        local = None if state["local"] is None else LogitView.restored(state["local"])
        return cls(**(state | parts | {"local": local}))


def mixed(session: "ClassSession", joint: Array, view: LogitView | None, samples: Array) -> Array:
    """log(pi_c p(x | c)) of raw samples, with logits of the view and neighbors of the session."""
    joint = session.choice.power * joint if view is None else view.mixed(joint, samples)
    return joint if session.neighbors is None else session.neighbors.mixed(joint, samples)


def judge_schema(shared: bool) -> Schema:
    """Schema of `ClassJudge.get_state`; `shared` if the classes share one partition."""
    return {
        "book": book_schema(shared, "judged"),
        "scaling": SCALING,
        "counts": "float[C] in [0, inf)",
        "shared": "float in (0, inf)",
        "single": "float[1] in (0, inf)" if shared else "float[C] in (0, inf)",
        "local": maybe(_logits_schema),
    }


def class_watch_schema(around: Any, sizes: Sizes) -> Schema:
    """Schema of the `Watch` in a classifier's file; `around` is the dictionary with its parameters."""
    return watch_schema("classifier", judge_schema(around["parameters"]["mode"] == "majority"))


def _logits_schema(around: Any, sizes: Sizes) -> Schema:
    inputs = sizes["d"] + count_stored(around["local"]["predictor"])
    sizes |= {"m": sizes["C"], "i": inputs, "q": inputs + 1}
    number = "float in [0, inf)"
    knots = {"knots": "float[ranks, d]", "predictor": predictor_schema(True, "i")}
    return {**knots, "density": number, "logits": number}


class Mixing:
    """The mean losses of MIXTURES after `n` samples.

    Logits are used after `wait` samples.
    """

    def __init__(self, wait: int = 0) -> None:
        self.n, self.wait, self.losses = 0, wait, np.zeros(len(MIXTURES))

    @property
    def best(self) -> tuple[float, float]:
        """The weights with the least loss, or those of densities alone unless it is clearly less."""
        least = int(self.losses.argmin())
        clear = self.n >= self.wait and self.losses[least] < (1.0 - WORTHWHILE) * self.losses[0]
        return MIXTURES[least if clear else 0]

    def judge(self, joint: Array, logits: Array, data: Data) -> None:
        """Add samples with log(pi_c p(x | c)) and log-probabilities by logits, both (n, n_classes)."""
        density, n = log_probabilities(joint), len(data.weight)
        found = [log_loss(a * density + b * logits, *data[1:], WRONG) for a, b in MIXTURES]
        self.n += n
        self.losses += n / max(n, min(self.n, REMEMBERED)) * (np.array(found) - self.losses)


def judge_piece(
    session: "ClassSession", judge: ClassJudge, data: Data, rule: str, n_drifts: int
) -> Array:
    """Judge a piece of a stream: 1 for each sample of a known class that is classified wrongly, else 0.

    Also adapts the widths, the memory of cells, and the local logits of the session to the piece. The
    stream has changed `n_drifts` times so far.
    """
    known = data.take(judge.counts[data.targets] >= KNOWN)
    scaled = judge.scaling(known.samples)
    distance = judge.distance(session.divergence, scaled)
    choose_widths(session, judge, distance, known)
    follow(session, judge, scaled, distance, known, n_drifts >= RESTLESS)
    mix_logits(session, judge, distance, known, data)
    if session.following.is_quick:
        session.neighbors = None
    return judge.errors(known, distance, rule, session)


def fitted_error(session: "ClassSession", data: Data, rule: str) -> float:
    """The part of samples of a fit that is classified wrongly."""
    judge = ClassJudge.of(session)
    distance = judge.distance(session.divergence, judge.scaling(data.samples))
    return float(judge.errors(data, distance, rule, session).mean())


def choose_widths(session: "ClassSession", judge: ClassJudge, distance: Array, data: Data) -> None:
    """Choose the widths with the least loss on judged samples, which had not been learned.

    `distance` are the divergences of the samples. Losses are averaged over so many samples that about
    KNOWN of them are of the rarest class; until there are so many, the first widths are used. The trial
    begins anew when a class appears. Widths that a fit has chosen are kept.
    """
    alone = session.local is not None and session.mixing is None
    if session.choice.losses or session.settings.shared or alone or len(distance) == 0:
        return
    counts, n = session.counts, len(distance)
    needed = KNOWN * counts.sum() / counts[counts > 0.0].min()
    if np.any((counts > 0.0) & (judge.counts < KNOWN)):
        session.n_tried, session.trial_losses = 0, np.zeros(len(WIDTHS))
    else:
        session.n_tried += n
        rate = n / max(n, min(session.n_tried, max(REMEMBERED, needed)))
        losses = _losses_of_widths(judge, distance, data, float(session.n_features))
        session.trial_losses += rate * (losses - session.trial_losses)
    best = int(session.trial_losses.argmin()) if session.n_tried >= needed else 0
    own, factor = WIDTHS[best]
    if (own, factor) != (session.choice.own, session.choice.factor):
        session.choice = session.choice._replace(own=own, factor=factor)
        session.fixed = None


def _losses_of_widths(judge: ClassJudge, distance: Array, data: Data, n_features: float) -> Array:
    """Losses of WIDTHS on samples whose `distance` from the judge's codevectors is given."""
    losses, widths = np.empty(len(WIDTHS)), np.empty((len(WIDTHS), len(judge.single)))
    for (own, factor), row in zip(WIDTHS, widths, strict=True):
        mix_widths(judge.shared, judge.single, own, factor, row)
    cells = distance, judge.book.labels, judge.book.weights, widths, n_features
    losses_of_widths(*cells, data.targets, data.weight, FLOOR, WRONG, losses)
    return losses


def follow(
    session: "ClassSession",
    judge: ClassJudge,
    scaled: Array,
    distance: Array,
    data: Data,
    is_restless: bool,
) -> None:
    """Adapt the memory of the cells of all classes to judged samples.

    As long as the memory is unlimited, classes that anneal do not count, since cells that have just
    split move in one direction, too. (A limit from before a change of the stream is adapted at once.)
    But those of a restless stream do if they have had all their cells for a while; and they stop
    annealing if it changes quickly, as it might last forever.
    """
    book, following, targets = judge.book, session.following, data.targets
    if session.settings.shared:
        return
    if following.memory == 0.0:
        is_judged = has_all_cells if is_restless and session.n_fitted == 0 else attrgetter("done")
        annealers = [run.annealer for run in session.runs]
        rows = np.array([a is not None and is_judged(a) for a in annealers])[targets]
        scaled, distance, targets = scaled[rows], distance[rows], targets[rows]
    if len(targets) == 0:
        return
    location = np.ascontiguousarray(book.codevectors.T)
    clear = following.judge(scaled, targets, distance, location, book.labels)
    following.decide(clear, float(session.counts.sum()) / len(book.labels))
    limit_memory(session, following.memory)
    for run in session.runs if is_restless and following.is_quick else ():
        if run.annealer is not None and not run.annealer.done and has_all_cells(run.annealer):
            run.annealer.done = True
            session.prepared.clear()  # the tables are of an annealing


def has_all_cells(annealer: Annealer) -> bool:
    """Whether the annealing is done, or has had as many cells as there may be for a while."""
    if annealer.done or len(annealer.codebook) < annealer.max_codevectors:
        return annealer.done
    changed = [level.n_samples_seen for level in annealer.history if level.n_splits or level.n_merges]
    return annealer.n_samples_seen - max(changed, default=0) >= UNCHANGED * len(annealer.codebook)


def limit_memory(session: "ClassSession", memory: float) -> None:
    """Limit the memory of the cells of all classes to so many samples per cell; 0 is no limit."""
    session.following.memory = memory
    for run in session.runs:
        if run.annealer is not None and run.annealer.remembered != memory:
            run.annealer.remembered = memory
            session.prepared.clear()  # the tables contain the old one


def learns_at_once(session: "ClassSession") -> bool:
    """Whether logits learn from each sample as it comes, and not from whole pieces of a stream."""
    return session.local is not None and session.mixing is None and session.n_fitted == 0


def begin_mixing(session: "ClassSession", wait: int = 0) -> None:
    """Start to try local logits with the densities of a stream, if settings allow it; see `Mixing`."""
    settings = session.settings
    if (settings.local_model, settings.mode, settings.fine_tune) == ("auto", "conditional", None):
        session.local, session.mixing = session.new_local(), Mixing(wait)
        session.local.density, session.local.logits = session.mixing.best


def mix_logits(
    session: "ClassSession", judge: ClassJudge, distance: Array, data: Data, every: Data
) -> None:
    """Choose the weights that did best on judged samples; then learn logits from the piece, `every`.

    `data` are the samples of the piece whose classes are known, `distance` their divergences from the
    judge's codevectors. Logits that have not helped are dropped. Those of a fit keep their weights until
    the stream changes quickly: then widths are tried as without a fit, too.
    """
    local, mixing, is_quick = session.local, session.mixing, session.following.is_quick
    if local is None or learns_at_once(session):
        return
    if mixing is None:
        if is_quick and session.settings.local_model == "linear":
            session.local, session.n_fitted = session.new_local(), 0  # they do not rest, and follow
        elif is_quick:
            session.local, session.choice = None, session.choice._replace(losses=(), power=1.0)
        else:
            local.observe(every)
        return
    if judge.local is not None and len(distance) > 0:
        mixing.judge(judge.book.log_joint(distance), judge.local.log_proba(data.samples), data)
        local.density, local.logits = mixing.best
    # logits forget too slowly for a stream that changes quickly
    if is_quick or (local.logits == 0.0 and mixing.n >= PATIENCE):
        session.local = session.mixing = None
    else:
        local.observe(every)

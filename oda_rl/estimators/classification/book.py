"""The codebook of all classes, in scaled features, and its class probabilities."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from oda_rl._schema import Either, Rules, Schema, some
from oda_rl._statistics import is_clear, log_softmax
from oda_rl._structs import Float1, Float2, Int1
from oda_rl._types import Array, Labels
from oda_rl.codebook.divergences import Divergence
from oda_rl.codebook.lloyd import cell_moments, quench
from oda_rl.estimators.classification import kernels
from oda_rl.estimators.feature_scaling import NO_SCALING, Scaling
from oda_rl.estimators.session import Run
from oda_rl.estimators.targets import Data

if TYPE_CHECKING:
    from oda_rl.estimators.classification.logit_view import LogitView
    from oda_rl.estimators.classification.session import ClassSession

NO_VOTES: Array = np.empty((0, 0))
# Up to so many samples are scaled inside the kernel, more of them by a matrix product.
FEW = 16
# Least width of a class, relative to that of all classes: a class of equal samples has a width of zero.
RELATIVE_WIDTH = 1e-6
# Least probability in a log loss, so that no outlier determines it alone.
FLOOR = 0.02
# Weight of the error rate next to the log loss, which alone would prefer confidence to accuracy.
ERROR = 3.0
# Logarithm of the least probability by densities when they are mixed with other probabilities.
LOG_LEAST = float(np.log(1e-6))
# Locations (n_features, capacity), weights (capacity,) and variances of cells, and their number.
RunCells = tuple[Array, Array, Array, int]


class ClassBook(NamedTuple):
    """K codevectors in scaled features, with weights that sum to one over all classes.

    `codevectors` are (K, d), `labels` (K,) their class numbers, `weights` (K,) their probabilities,
    `widths` (n_classes,) those of the classes' mixtures, `spreads` (K, d) the variances in the cells. If
    classes share one partition, `votes` (K, n_classes) are their shares of each cell, and all widths are
    equal.
    """

    codevectors: Array
    labels: Labels
    weights: Array
    widths: Array
    spreads: Array
    votes: Array = NO_VOTES

    def log_joint(self, distance: Array) -> Array:
        """log(pi_c p(x | c)) of every sample and class, from the divergences (eq. 35)."""
        d = float(self.codevectors.shape[1])
        if len(self.votes) == 0:
            out = np.empty((len(distance), len(self.widths)))
            kernels.log_joint(distance, self.labels, self.weights, self.widths, d, out)
            return out
        with np.errstate(divide="ignore", under="ignore"):
            cells = np.log(self.weights) - distance / self.widths[0]
            top = cells.max(axis=1, keepdims=True)
            joint = top + np.log(np.exp(cells - top) @ self.votes)
        return np.asarray(joint - 0.5 * d * np.log(self.widths[0]))

    def most_likely(
        self,
        samples: Array,
        scaling: Scaling,
        divergence: Divergence,
        view: "LogitView | None" = None,
    ) -> Labels:
        """The class numbers (n_samples,) of raw samples: those with the largest `log_joint`.

        Classes must have codebooks of their own. With a `view` of local logits, their log-probabilities
        are mixed with those of densities.
        """
        logits: Any = None
        if view is not None:
            logits = (samples, LOG_LEAST, view.density, view.logits, *view.arrays)
        if len(samples) > FEW:
            samples, scaling = scaling(samples), NO_SCALING
        out = np.empty(len(samples), dtype=np.int64)
        location = np.ascontiguousarray(self.codevectors.T)
        cells = location, self.labels, self.weights, self.widths
        kernels.most_likely(divergence.kind, samples, scaling.shift, scaling.matrix, *cells, logits, out)
        return out

    def nearest_proba(self, distance: Array) -> Array:
        """Class shares of the nearest cell, or one for the class of the nearest codevector (eq. 36)."""
        nearest = distance.argmin(axis=1)
        if len(self.votes) > 0:
            return np.asarray(self.votes[nearest])
        return np.asarray(np.eye(len(self.widths))[self.labels[nearest]])


def book_schema(shared: bool, cells: str = "B") -> Schema:
    """Schema of a stored `ClassBook`; `cells` names its size, `shared` is as for `judge_schema`."""
    votes = f"float[{cells}, C] in [0, inf)" if shared else "float[0, 0]"
    return {
        "codevectors": f"float[{cells}, d]",
        "labels": Rules(f"int[{cells}] in [0, C)", some),
        "weights": f"float[{cells}] in [0, 1]",
        "widths": "float[C] in (0, inf)",
        "spreads": f"float[{cells}, d] in [0, inf)",
        "votes": Either("float[0, 0]", votes),
    }


@np.errstate(under="ignore")
def probabilities(log_joint: Array) -> Array:
    """Normalise the rows to probabilities; these are equal if no class is possible."""
    top = log_joint.max(axis=1, keepdims=True)
    if np.isfinite(top).all():  # the usual case, in half the time
        shares = np.exp(log_joint - top)
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))
    shares = np.exp(log_joint - np.where(np.isfinite(top), top, 0.0))
    total = shares.sum(axis=1, keepdims=True)
    return np.where(total > 0.0, shares / np.where(total > 0.0, total, 1.0), 1.0 / shares.shape[1])


def allow_for_unseen(shares: Array, n_seen: int) -> Array:
    """Mix probabilities (n, n_classes) with equal ones, so that none is zero after `n_seen` samples.

    All classes but one together have at least 1 / (n_seen + 2), Laplace's rule of succession for what
    has not been seen yet. The order of the classes stays.
    """
    n_classes = shares.shape[1]
    if n_classes == 1:
        return shares
    part = n_classes / ((n_classes - 1.0) * (n_seen + 2.0))
    return np.asarray((1.0 - part) * shares + part / n_classes)


def log_probabilities(log_joint: Array) -> Array:
    """Logarithms of `probabilities` that are clipped at exp(`LOG_LEAST`)."""
    return log_softmax(log_joint, LOG_LEAST)


def log_loss(
    log_joint: Array, labels: Labels, weight: Array, error: float = 0.0, least: float = FLOOR
) -> float:
    """Mean of -log p(c | x), with p clipped at `least`, plus `error` times the error rate."""
    loss, wrong = kernels.loss_and_errors(log_joint, labels, weight, least)
    return float(loss + error * wrong)


def loss_with_errors(log_proba: Array, data: Data) -> float:
    """`log_loss` of the samples of `data`, including their errors."""
    return log_loss(log_proba, data.targets, data.weight, ERROR)


def is_significant(before: Array, after: Array, data: Data, z: float) -> bool:
    """Whether log-probabilities `after` have a log loss that is less by `z` standard errors."""
    known = np.arange(len(data.weight)), data.targets
    gain = np.maximum(after[known], LOG_LEAST) - np.maximum(before[known], LOG_LEAST)
    gain *= data.weight / data.weight.mean()
    return is_clear(gain, z)


class Cells(NamedTuple):
    """Cells of one class or partition, with the sum of weighted divergences as `distortion`.

    `shares` (K,) are those of the cells in the weight, `spreads` (K, d) variances, and `nearest`
    (n_samples,) the cells of the samples.
    """

    codevectors: Array
    shares: Array
    distortion: float
    spreads: Array
    nearest: Labels


def hard_cells(
    codevectors: Array, samples: Array, weight: Array, divergence: Divergence, turns: int
) -> Cells:
    """Harden the codevectors of one class by at most `turns` Lloyd iterations (temperature zero)."""
    n, k = len(samples), len(codevectors)
    location = np.ascontiguousarray(codevectors.T)
    nearest, closest, second = np.empty(n, dtype=np.int64), np.empty(n), np.empty(n)
    mass, spread = np.empty(k), np.empty_like(location)
    kind, found = divergence.kind, (nearest, closest, second)
    quench(kind, samples, None, weight, True, 1e-4, turns, k, location, None, *found)
    cell_moments(samples, weight, nearest, k, location, mass, spread)
    return Cells(location.T.copy(), mass, float(weight @ closest), spread.T.copy(), nearest)


def book_of(
    cells: Sequence[Cells], mass: Array, counts: Array, own: float = 0.0, factor: float = 1.0
) -> ClassBook:
    """The codebook of all classes, with `factor` times the widths that are measured in their cells.

    `cells` has one entry for each class, possibly without codevectors; `mass` and `counts` (n_classes,)
    are the weights and numbers of samples of the classes; `own` is as for `widths_of`.
    """
    parts = [c.codevectors for c in cells]
    codevectors = np.ascontiguousarray(np.concatenate(parts))
    labels = np.repeat(np.arange(len(parts)), [len(part) for part in parts]).astype(np.int64)
    priors = mass / mass.sum()
    weights = np.concatenate([prior * c.shares for prior, c in zip(priors, cells, strict=True)])
    found = np.array([len(part) for part in parts]), np.array([c.distortion for c in cells])
    widths = factor * widths_of(*found, mass, counts, codevectors.shape[1], own)
    spreads = np.concatenate([c.spreads for c in cells])
    return ClassBook(codevectors, labels, weights, widths, spreads)


def with_votes(book: ClassBook, votes: Array) -> ClassBook:
    """Add class shares to a codebook with one width; `votes` (K, n_classes) are the class weights."""
    mixed = votes + half_vote(votes.sum(axis=0, keepdims=True), votes.sum())
    shares = mixed / mixed.sum(axis=1, keepdims=True)
    widths = np.repeat(book.widths, votes.shape[1])
    return book._replace(labels=shares.argmax(axis=1).astype(np.int64), widths=widths, votes=shares)


def half_vote(prior: Array, total: Any) -> Array:
    """Half a vote, divided among the classes like `prior` (n, n_classes), whose rows sum to `total`."""
    return np.asarray(0.5 * (prior + 1e-12) / (total + 1e-12 * prior.shape[1]))


def with_half_vote(votes: Array, prior: Array) -> Array:
    """Add half a vote to `votes` (n, n_classes) of cells, divided like those of parents (`prior`)."""
    return np.asarray(votes + half_vote(prior, prior.sum(axis=1, keepdims=True)))


def widths_of(
    k: Labels, distortion: Array, mass: Array, counts: Array, features: int, own: float
) -> Array:
    """Widths (n_classes,) of the classes' mixtures; see `kernels.class_widths` and `mix_widths`."""
    single, out = np.empty((2, len(k)))
    each = distortion, mass, counts
    shared = kernels.class_widths(k, *each, float(features), RELATIVE_WIDTH, single)
    kernels.mix_widths(shared, single, own, 1.0, out)
    return out


# -- the codebook of a stream -------------------------------------------------------------------------


class LiveCells(NamedTuple):
    """The cells of all classes, one class after the other: a copy that follows the classes' codebooks.

    `location` and `spreads` are (n_features, n_cells), `shares` (n_cells,) sum to one in each class.
    Class c has `k[c]` cells from index `first[c]` on, with a mean divergence of `distortion[c]`; by
    itself it would have a width of `single[c]`.
    """

    location: Float2
    shares: Float1
    spreads: Float2
    k: Int1
    first: Int1
    distortion: Float1
    single: Float1


def book_of_session(session: "ClassSession") -> ClassBook:
    """The codebook of a session, with weights and widths from the samples so far."""
    shared, choice = session.settings.shared, session.choice
    if not session.is_warm:
        session.scaling = session.moments.scaling(session.settings.scale, session.divergence)
    if not session.is_warm or (shared and session.runs[0].annealer is None):
        return _book_of_cells(session, _first_cells(session), session.mass, session.counts)
    cells = [_cells_of(run) for run in session.runs]
    if not shared:
        return _book_of_cells(session, cells, session.mass, session.counts, choice.own, choice.factor)
    assert session.runs[0].annealer is not None
    mass, counts = np.array([session.mass.sum()]), np.array([session.counts.sum()])
    votes = session.runs[0].annealer.codebook["votes"].T.copy()
    return with_votes(_book_of_cells(session, cells, mass, counts, factor=choice.factor), votes)


def _book_of_cells(
    session: "ClassSession",
    cells: list[RunCells],
    mass: Array,
    counts: Array,
    own: float = 0.0,
    factor: float = 1.0,
) -> ClassBook:
    """Make a codebook, as `book_of` does, from cells of all classes or of one partition."""
    k = np.array([part[-1] for part in cells])
    n, d = int(k.sum()), session.n_features
    live = LiveCells(
        np.empty((d, n)),
        np.empty(n),
        np.empty((d, n)),
        k,
        np.cumsum(k) - k,
        np.zeros(len(k)),
        np.empty(len(k)),
    )
    for c, part in enumerate(cells):
        place = live.location, live.shares, live.spreads
        start, kind = int(live.first[c]), session.divergence.kind
        live.distortion[c] = kernels.put_cells(kind, *part[:-1], start, part[-1], *place)
    labels, weights, widths = np.repeat(np.arange(len(k)), k), np.empty(n), np.empty(len(k))
    decided = mass, counts, RELATIVE_WIDTH, own, factor
    session.shared_width = kernels.weigh_cells(live, labels, *decided, weights, widths)
    session.live = live
    return ClassBook(live.location.T, labels, weights, widths, live.spreads.T)


def _first_cells(session: "ClassSession") -> list[RunCells]:
    """One cell per class, its mean, for a stream that has not warmed up."""
    scaled = session.scaling(session.moments.mean)
    within, _ = session.moments.variances()
    spread = np.diag(session.matrix.T @ within @ session.matrix)[:, None].copy()
    means = [np.ascontiguousarray(mean[:, None]) for mean in scaled]
    return [(m, np.ones(1), spread, int(n > 0.0)) for m, n in zip(means, session.counts, strict=True)]


def _cells_of(run: Run) -> RunCells:
    if run.annealer is not None:
        book = run.annealer.codebook
        return book.location, book.weight, book.payload[book.rows("spread")], len(book)
    if len(run.buffer) == 0:
        none = np.empty((run.buffer.shape[1], 0))
        return none, np.empty(0), none, 0
    found = (np.ascontiguousarray(part.T) for part in run.codebook())
    return *found, 1  # type: ignore[return-value]


def move(run: Run, old: Scaling, new: Scaling) -> None:
    """Convert the state of a run from one scaling of the features to another."""
    step = old.inverse @ new.matrix
    run.path = [(d, s, new(old.back(points)), *soft) for d, s, points, *soft in run.path]
    if len(run.buffer) > 0:
        run.buffer = new(old.back(run.buffer))
    if run.annealer is None:
        return
    book = run.annealer.codebook
    k = len(book)
    book.location[:, :k] = new(old.back(book.location[:, :k].T)).T
    run.annealer.reference = book.location.copy()
    length = np.maximum(book.critical_temperatures, 1e-300)
    axis = step.T @ book.axis[:, :k]
    # The axis is an eigenvector times its eigenvalue, a variance.
    book.axis[:, :k] = axis * (np.linalg.norm(axis, axis=0) / length)
    book["spread"][:] = (step.T**2) @ book["spread"]

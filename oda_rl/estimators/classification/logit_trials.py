"""How many cells local logits have, and how strong their penalty is: trials on samples left out."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from oda_rl._statistics import Ranks
from oda_rl._types import Array, Labels
from oda_rl.estimators.classification.local_logits import (
    PENALTIES,
    USUAL,
    LocalLogits,
    LogitRun,
    LogitTrial,
    of_all_classes,
)
from oda_rl.estimators.classification.logistic import Logits, fit_logistic
from oda_rl.estimators.targets import Data

# Cells that are tried, the fewest first; more than usual where their second moments have no more numbers
# in all and per sample, and cells so many samples each; they must lower the loss by such a part.
CELLS, NUMBERS, PER_SAMPLE, PER_CELL, WORTHWHILE = (1, USUAL, 40, 100, 250, 600), 25_000, 15, 10, 0.01
# Parts of the distance of cells that they overlap by
OVERLAPS = (1.0, 0.5)
# Trials go on with as many folds as leave so many samples out; each learns from so many at most.
ENOUGH, LARGEST_TRIAL = 1000, 4000

Split = tuple[Labels, Labels]


class Chosen(NamedTuple):
    """The best trial, its cells, and logits of some of the samples: what `LocalLogits.fit` takes."""

    trial: LogitTrial
    run: LogitRun
    begin: Logits | None


class _Fold:
    """Logits of cells, of samples as a run takes them, and what they say of those that were left out."""

    def __init__(self, run: LogitRun, data: Data, train: Labels, test: Labels) -> None:
        rows = np.random.default_rng(len(train)).permutation(train)[:LARGEST_TRIAL]
        learned = data.take(rows)
        self.test, self._n_classes = test, run.n_outputs
        self._learned = run.basis(learned.samples), learned.targets, learned.weight
        self._tested = run.basis(data.samples[test])
        self.logits: Logits | None = None

    def log_proba(self, penalty: float) -> Array:
        """Log-probabilities (n_test, n_classes) of the samples left out; begins where the last ended."""
        self.logits = fit_logistic(*self._learned, penalty, self.logits)
        found = of_all_classes(self.logits.of, self.logits(self._tested), self._n_classes)
        return np.asarray(log_softmax(found, axis=1))


def choose_logits(
    local: LocalLogits,
    data: Data,
    folds: Sequence[Split],
    kept: NDArray[np.bool_] | None,
    loss_of: Callable[[Array, Labels], float],
) -> tuple[Array, Chosen]:
    """The trial that does best on samples that folds leave out.

    More cells, and weaker penalties, are tried as long as they do better by `loss_of`, which takes
    log-probabilities (n, n_classes) of some of the samples, and their rows. Several cells see the
    features that are `kept`. Returns the log-probabilities (n_samples, n_classes) of all samples, too.
    """
    some = local.some(data)
    local.ranks = Ranks.of(some.samples, weight=some.weight)
    placed = data._replace(samples=local.side_by_side(data))
    n, n_kept = len(data.weight), local.n_features if kept is None else int(kept.sum())
    tried, least, best, best_run = folds[: -(-ENOUGH * len(folds) // n)], np.inf, LogitTrial(), None
    parts: list[_Fold] = []
    told: list[Array] = []
    for cells in _cells_to_try(n, n_kept + 1, local.n_classes):
        one, before = LogitTrial(cells, best.penalty, kept if cells > 1 else None), least
        run = local.run_over(some, one)
        for overlap in OVERLAPS if cells > USUAL else OVERLAPS[:1]:
            run.overlap(overlap)
            own = [_Fold(run, placed, *fold) for fold in tried]
            loss, penalty, found = _best_penalty(own, one, loss_of)
            if best_run is None or loss < (1.0 - WORTHWHILE * (best.cells < cells > USUAL)) * least:
                least, best, best_run = loss, one._replace(penalty=penalty, overlap=overlap), run
                parts, told = own, found
        if cells > 1 and least == before:
            break
    assert best_run is not None
    best_run.overlap(best.overlap)
    for fold in folds[len(parts) :]:
        parts.append(_Fold(best_run, placed, *fold))
        told.append(parts[-1].log_proba(best.penalty))
    log_proba = np.empty((n, local.n_classes))
    for part, own_told in zip(parts, told, strict=True):
        log_proba[part.test] = own_told
    return log_proba, Chosen(best, best_run, parts[-1].logits)


def _cells_to_try(n: int, q: int, n_classes: int) -> list[int]:
    most = min(NUMBERS, PER_SAMPLE * n) // (q * max(q, n_classes))
    return [cells for cells in CELLS if cells <= max(USUAL, min(most, n // PER_CELL))]


def _best_penalty(
    parts: Sequence[_Fold], trial: LogitTrial, loss_of: Callable[[Array, Labels], float]
) -> tuple[float, float, list[Array]]:
    """The least loss, its penalty, from that of the trial on, and log-probabilities fold by fold.

    A single cell has the penalty of the trial.
    """
    rows, least, best = np.concatenate([part.test for part in parts]), np.inf, trial.penalty
    told: list[Array] = []
    for penalty in PENALTIES[PENALTIES.index(trial.penalty) :]:
        found = [part.log_proba(penalty) for part in parts]
        loss = loss_of(np.concatenate(found), rows)
        if loss >= least:
            break
        least, best, told = loss, penalty, found
        if trial.cells == 1:
            break
    return least, best, told

"""Choice of the number of cells and the penalty of local logits by trials on held-out samples."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oda_rl._statistics import Ranks, log_softmax
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

# Numbers of cells that are tried, in this order. More than USUAL are tried only if their second moments
# have at most NUMBERS numbers, and PER_SAMPLE for each sample, and if there are PER_CELL samples for
# each cell. They must lower the loss by the part WORTHWHILE.
CELLS, NUMBERS, PER_SAMPLE, PER_CELL, WORTHWHILE = (1, USUAL, 40, 100, 250, 600), 25_000, 15, 10, 0.01
# Overlaps (see `LogitTrial`) that are tried with more than USUAL cells; others have the first.
OVERLAPS = (1.0, 0.5)
# Trials use as many folds as are needed to hold out ENOUGH samples; each learns from at most
# LARGEST_TRIAL samples.
ENOUGH, LARGEST_TRIAL = 1000, 4000

Split = tuple[Labels, Labels]


class Chosen(NamedTuple):
    """The best trial, its cells, and logits fitted to some samples: arguments of `LocalLogits.fit`."""

    trial: LogitTrial
    run: LogitRun
    begin: Logits | None


class _Fold:
    """Logits that are fitted to the `train` rows and evaluated on the `test` rows of a run's samples."""

    def __init__(self, run: LogitRun, data: Data, train: Labels, test: Labels) -> None:
        rows = np.random.default_rng(len(train)).permutation(train)[:LARGEST_TRIAL]
        learned = data.take(rows)
        self.test, self._n_classes = test, run.n_outputs
        self._learned = run.basis(learned.samples), learned.targets, learned.weight
        self._tested = run.basis(data.samples[test])
        self.logits: Logits | None = None

    def log_proba(self, penalty: float) -> Array:
        """Log-probabilities (n_test, n_classes) of test rows; the fit starts at the previous logits."""
        self.logits = fit_logistic(*self._learned, penalty, self.logits)
        found = of_all_classes(self.logits.of, self.logits(self._tested), self._n_classes)
        return log_softmax(found)


def choose_logits(
    local: LocalLogits,
    data: Data,
    folds: Sequence[Split],
    kept: NDArray[np.bool_] | None,
    loss_of: Callable[[Array, Labels], float],
) -> tuple[Array, Chosen]:
    """Choose the trial that does best on the held-out samples of `folds`.

    More cells and weaker penalties are tried as long as they lower `loss_of`, a function of
    log-probabilities (n, n_classes) of some samples and of their rows. Several cells only use the
    features that are `kept`. Also returns the log-probabilities (n_samples, n_classes) of all samples.
    """
    some = local.some(data)
    local.ranks = Ranks.of(some.samples, weight=some.weight)
    placed = data._replace(samples=local.side_by_side(data))
    n, n_kept = len(data.weight), local.n_features if kept is None else int(kept.sum())
    tried, least, best, best_run = folds[: -(-ENOUGH * len(folds) // n)], np.inf, LogitTrial(), None
    parts: list[_Fold] = []
    log_probas: list[Array] = []
    for cells in _cells_to_try(n, n_kept + 1, local.n_classes):
        one, before = LogitTrial(cells, best.penalty, kept if cells > 1 else None), least
        run = local.run_over(some, one)
        for overlap in OVERLAPS if cells > USUAL else OVERLAPS[:1]:
            run.overlap(overlap)
            own = [_Fold(run, placed, *fold) for fold in tried]
            loss, penalty, found = _best_penalty(own, one, loss_of)
            if best_run is None or loss < (1.0 - WORTHWHILE * (best.cells < cells > USUAL)) * least:
                least, best, best_run = loss, one._replace(penalty=penalty, overlap=overlap), run
                parts, log_probas = own, found
        if cells > 1 and least == before:
            break
    assert best_run is not None
    best_run.overlap(best.overlap)
    for fold in folds[len(parts) :]:
        parts.append(_Fold(best_run, placed, *fold))
        log_probas.append(parts[-1].log_proba(best.penalty))
    log_proba = np.empty((n, local.n_classes))
    for part, held_out in zip(parts, log_probas, strict=True):
        log_proba[part.test] = held_out
    return log_proba, Chosen(best, best_run, parts[-1].logits)


def _cells_to_try(n: int, q: int, n_classes: int) -> list[int]:
    most = min(NUMBERS, PER_SAMPLE * n) // (q * max(q, n_classes))
    return [cells for cells in CELLS if cells <= max(USUAL, min(most, n // PER_CELL))]


def _best_penalty(
    parts: Sequence[_Fold], trial: LogitTrial, loss_of: Callable[[Array, Labels], float]
) -> tuple[float, float, list[Array]]:
    """The least loss, its penalty, and its log-probabilities for each fold.

    Penalties become weaker, from that of the trial on; a single cell only has that of the trial.
    """
    rows, least, best = np.concatenate([part.test for part in parts]), np.inf, trial.penalty
    log_probas: list[Array] = []
    for penalty in PENALTIES[PENALTIES.index(trial.penalty) :]:
        found = [part.log_proba(penalty) for part in parts]
        loss = loss_of(np.concatenate(found), rows)
        if loss >= least:
            break
        least, best, log_probas = loss, penalty, found
        if trial.cells == 1:
            break
    return least, best, log_probas

"""Choice of the number of cells and the penalty of local logits by trials on held-out samples."""

from collections.abc import Callable, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oda_rl._effects import Effects
from oda_rl._statistics import Ranks, log_softmax
from oda_rl._types import Array, Labels
from oda_rl.estimators.classification.book import is_significant
from oda_rl.estimators.classification.local_logits import (
    ANNEALED,
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
# Effects of features must lower the loss to the part BENT, and the log loss by Z standard errors.
BENT, Z = 0.98, 1.0
# Trials use as many folds as are needed to hold out ENOUGH samples, or first FEW; each learns from at
# most LARGEST_TRIAL samples.
ENOUGH, FEW, LARGEST_TRIAL = 1000, 300, 4000

Split = tuple[Labels, Labels]


class Chosen(NamedTuple):
    """The best trial, its cells, and logits fitted to some samples: arguments of `LocalLogits.fit`."""

    trial: LogitTrial
    run: LogitRun
    begin: Logits | None


def _learned_rows(train: Labels) -> Labels:
    """Those of the `train` rows from which a trial learns."""
    return np.random.default_rng(len(train)).permutation(train)[:LARGEST_TRIAL]


class _Fold:
    """Logits that are fitted to the `train` rows and evaluated on the `test` rows of a run's samples."""

    def __init__(self, run: LogitRun, data: Data, train: Labels, test: Labels) -> None:
        learned = data.take(_learned_rows(train))
        self.test, self._n_classes = test, run.n_outputs
        self._learned = run.basis(learned.samples), learned.targets, learned.weight
        self._tested = run.basis(data.samples[test])
        self.logits: Logits | None = None

    def log_proba(self, penalty: float) -> Array:
        """Log-probabilities (n_test, n_classes) of test rows; the fit starts at the previous logits."""
        self.logits = fit_logistic(*self._learned, penalty, self.logits)
        found = of_all_classes(self.logits.of, self.logits(self._tested), self._n_classes)
        return log_softmax(found)


class _Found(NamedTuple):
    """The best of some trials: its loss, and its cells, logits and log-probabilities in some folds."""

    loss: float
    trial: LogitTrial
    runs: list[LogitRun]
    parts: list[_Fold]
    log_probas: list[Array]


@dataclass
class _Trials:
    """Trials of a classifier on the folds of `data`, which is `placed` by ranks; cells are of `some`.

    `kept` and `loss_of` are those of `choose_logits`.
    """

    local: LocalLogits
    data: Data
    some: Data
    placed: Data
    folds: Sequence[Split]
    kept: NDArray[np.bool_] | None
    loss_of: Callable[[Array, Labels], float]

    @classmethod
    def of(cls, local: LocalLogits, data: Data, *others: Any) -> "_Trials":
        """Trials of samples that are given as they are."""
        some = local.some(data)
        local.ranks = Ranks.of(some.samples, weight=some.weight)
        return cls(local, data, some, data._replace(samples=local.side_by_side(data)), *others)

    def runs(self, trial: LogitTrial, folds: range) -> list[LogitRun]:
        """The cells of a trial for each of some folds, which here have the same cells."""
        return [self.local.run_over(self.some, trial)] * len(folds)

    def further_runs(self, found: _Found, folds: range) -> list[LogitRun]:
        """The cells of a trial for more folds."""
        return [found.runs[0]] * len(folds)

    def chosen(self, found: _Found) -> Chosen:
        """The cells and logits with which the fit to all samples begins."""
        found.runs[0].overlap(found.trial.overlap)
        return Chosen(found.trial, found.runs[0], found.parts[-1].logits)

    def n_folds(self, enough: int) -> int:
        """The number of folds needed to hold out `enough` samples."""
        return min(len(self.folds), -(-enough * len(self.folds) // len(self.data.weight)))

    def best(self, n_folds: int, most: int = max(CELLS)) -> _Found:
        """The best penalty, overlap and number of cells, at `most` so many, on the first folds."""
        n, local, found = len(self.data.weight), self.local, None
        n_kept = local.n_features if self.kept is None else int(self.kept.sum())
        for cells in _cells_to_try(n, n_kept + 1, local.n_classes, most):
            penalty, before = PENALTIES[0] if found is None else found.trial.penalty, found
            one = LogitTrial(cells, penalty, self.kept if cells > 1 else None)
            runs = self.runs(one, range(n_folds))
            for overlap in OVERLAPS if cells > USUAL else OVERLAPS[:1]:
                parts = self._parts(runs, overlap, range(n_folds))
                loss, penalty, log_probas = _best_penalty(parts, one, self.loss_of)
                part = 1.0 if found is None else 1.0 - WORTHWHILE * (found.trial.cells < cells > USUAL)
                if found is None or loss < part * found.loss:
                    trial = one._replace(penalty=penalty, overlap=overlap)
                    found = _Found(loss, trial, runs, parts, log_probas)
            if cells > 1 and found is before:
                break
        assert found is not None
        return found

    def extended(self, found: _Found, n_folds: int) -> _Found:
        """The same trial on more folds, the first `n_folds`."""
        folds = range(len(found.parts), n_folds)
        further = self.further_runs(found, folds)
        own = self._parts(further, found.trial.overlap, folds)
        parts, runs = found.parts + own, found.runs + further
        log_probas = found.log_probas + [part.log_proba(found.trial.penalty) for part in own]
        return found._replace(
            loss=self.loss_on(log_probas), runs=runs, parts=parts, log_probas=log_probas
        )

    def loss_on(self, log_probas: Sequence[Array]) -> float:
        """The loss of log-probabilities in the first folds."""
        rows = np.concatenate([test for _, test in self.folds[: len(log_probas)]])
        return self.loss_of(np.concatenate(log_probas), rows)

    def is_significant(self, before: _Found, after: _Found) -> bool:
        """Whether the log loss of logits is less by `Z` standard errors, in the folds of both."""
        rows = np.concatenate([test for _, test in self.folds[: len(before.parts)]])
        first, later = (np.concatenate(found.log_probas) for found in (before, after))
        return is_significant(first, later, self.data.take(rows), Z)

    def _parts(self, runs: Sequence[LogitRun], overlap: float, folds: range) -> list[_Fold]:
        for run in runs:
            run.overlap(overlap)
        return [_Fold(run, self.placed, *self.folds[i]) for run, i in zip(runs, folds, strict=True)]


@dataclass
class _BentTrials(_Trials):
    """The same with effects of features; in a fold, these and cells are of the samples not in it."""

    effects: Effects  # of all samples

    def __post_init__(self) -> None:
        self._known: dict[int, tuple[Data, Effects | None]] = {}
        # The random numbers of what follows do not depend on whether there were such trials.
        self._aside = copy(self.local)
        self._aside.rng = deepcopy(self.local.rng)

    def _without(self, fold: int) -> tuple[Data, Effects | None]:
        if fold not in self._known:
            data = self.data.take(_learned_rows(self.folds[fold][0]))
            self._known[fold] = data, self.local.effects_of(data)
        return self._known[fold]

    def runs(self, trial: LogitTrial, folds: range) -> list[LogitRun]:
        """The cells of a trial for each of some folds."""
        own = [self._without(i) for i in folds]
        return [self._aside.run_over(data, trial._replace(effects=bends)) for data, bends in own]

    def further_runs(self, found: _Found, folds: range) -> list[LogitRun]:
        """The cells of a trial for more folds."""
        return self.runs(found.trial, folds)

    def chosen(self, found: _Found) -> Chosen:
        """The cells with effects of all samples; logits begin anew."""
        trial = found.trial._replace(effects=self.effects)
        return Chosen(trial, self.local.run_over(self.some, trial), None)


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
    features that are `kept`. Effects of features are tried if a sum of them is clearly better than a
    plane: first on few held-out samples, and only if they help there, on as many as the others. Also
    returns the log-probabilities (n_samples, n_classes) of all samples.
    """
    trials = _Trials.of(local, data, folds, kept, loss_of)
    n = trials.n_folds(ENOUGH)
    best = trials.best(n)
    effects = local.effects_of(trials.some)
    if effects is not None:
        bent = _BentTrials(**vars(trials), effects=effects)
        few = trials.n_folds(FEW)
        other = bent.best(few, min(ANNEALED, max(USUAL, best.trial.cells)))
        if other.loss < trials.loss_on(best.log_probas[:few]):
            other = bent.extended(other, n)
            if other.loss < BENT * best.loss and trials.is_significant(best, other):
                trials, best = bent, other
    best = trials.extended(best, len(folds))
    log_proba = np.empty((len(data.weight), local.n_classes))
    for part, held_out in zip(best.parts, best.log_probas, strict=True):
        log_proba[part.test] = held_out
    return log_proba, trials.chosen(best)


def _cells_to_try(n: int, q: int, n_classes: int, most: int) -> list[int]:
    known = min(NUMBERS, PER_SAMPLE * n) // (q * max(q, n_classes))
    return [cells for cells in CELLS if cells <= min(most, max(USUAL, min(known, n // PER_CELL)))]


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

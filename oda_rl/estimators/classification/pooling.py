"""Densities and local logits together: what each counts, by samples left out."""

from typing import Any, NamedTuple

import numpy as np

from oda_rl._types import Array
from oda_rl.estimators.classification.book import log_loss
from oda_rl.estimators.classification.local_logits import TRIALS, LocalLogits, Split
from oda_rl.estimators.targets import Data

# Weights of the log-probabilities of densities and of local logits that are tried.
DENSITY_WEIGHTS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 2.0, 4.0)
LOGITS_WEIGHTS = (0.25, 0.5, 0.75, 1.0, 1.25)
# Local logits are kept where they lower loss and errors by more than this part, an error counting so
# much: the loss alone would prefer what is sure of itself to what is right.
WORTHWHILE, ERROR = 0.02, 3.0


class LeftOut(NamedTuple):
    """Folds, and the log-probabilities (n_samples, n_classes) of the samples that each left out.

    `tuning_helps` if fine-tuned codevectors make no more errors there.
    """

    folds: list[Split]
    log_proba: Array
    tuning_helps: bool


def fit_logits(
    data: Data, left_out: LeftOut | None, settings: Any, rng: np.random.Generator
) -> LocalLogits | None:
    """Local logits of raw samples, with the cells, the penalty and the weight that do best.

    None where they do not help; `settings` are those of the classifier. Without samples left out there
    are as many cells as may be.
    """
    n_classes = int(data.targets.max()) + 1
    local = LocalLogits(settings.annealing, data.samples.shape[1], n_classes, rng)
    alone = settings.local_model == "linear"
    if left_out is None:
        if alone:
            local.fit(data, *TRIALS[1])
        return local if alone else None
    best, wanted = (np.inf, 0.0, 1.0, *TRIALS[1]), np.inf
    if not alone:
        wanted = (1.0 - WORTHWHILE) * _loss_and_errors(left_out.log_proba, data)
    for cells, penalty, log_proba in local.left_out(data, left_out.folds):
        for a in (0.0,) if alone else DENSITY_WEIGHTS:
            for b in (1.0,) if alone else LOGITS_WEIGHTS:
                mixed = a * left_out.log_proba + b * log_proba
                best = min(best, (_loss_and_errors(mixed, data), a, b, cells, penalty))
    if best[0] > wanted:
        return None
    local.fit(data, *best[3:])
    local.density, local.logits = best[1:3]
    return local


def _loss_and_errors(log_proba: Array, data: Data) -> float:
    return log_loss(log_proba, data.targets, data.weight, ERROR)

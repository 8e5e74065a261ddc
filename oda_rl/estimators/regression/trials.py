"""How a fit finds what its cells shall see: relevances of the pilot or none, ranks, effects."""

from typing import TYPE_CHECKING, Any

import numpy as np

from oda_rl._effects import Effects
from oda_rl._statistics import have_tails
from oda_rl._types import Array
from oda_rl.estimators.regression.pilot import are_cut, range_seen

if TYPE_CHECKING:
    from oda_rl.estimators.regression.session import RegressionRun
    from oda_rl.estimators.regression.settings import ModelSettings

# Effects, and the leverages of the samples that they were found with.
Offer = tuple[Effects, Array] | None
# The relevances of the pilot go where cells without them have so much less error; ranks, effects come.
CLEARLY = 0.9
# Of fewer samples than ENOUGH, effects come only where cells with them have so much less error on
# samples left out, too: formulas know too little of how outputs have told of the effects.
LESS, ENOUGH = 0.97, 500
# With more samples than this the relevances of the pilot are not doubted: the trial costs most there.
MANY = 1000
# With fewer samples than this for a parameter of a cell, samples left out tell whether the pilot helps.
FEW_SAMPLES = 3
# Parts of the samples that are left out, one at a time, where few samples are to tell of a pilot.
FOLDS = 3


def fit_best(run: "RegressionRun", samples: Array, weight: Array) -> Array:
    """Fit a run to raw inputs and outputs; returns the final codevectors.

    Where cross-validation says that cells do better without the relevances of the pilot, these go; where
    it says so, effects of features are offered, and inputs with long tails are mapped to a normal by
    their ranks, or count as far out as they are: the few that lie there may tell most of a plane.
    """
    inputs, left_out, offered = samples[:, : run.n_features], 0.0, None
    judged = run.settings.finish and run.own is None
    piloted = run.models.pilot_rounds > 0
    few = judged and piloted and FOLDS < len(samples) < FEW_SAMPLES * run.n_basis
    if few:
        run.models, left_out = pilot_or_not(run, samples, weight)
    codevectors, score = run.fit_once(samples, weight, least=left_out)

    def wins(models: "ModelSettings", clearly: float, effects: Offer = None, **seen: Any) -> bool:
        nonlocal codevectors, score
        other = run.another(models)
        if effects is not None:
            other.offer(*effects)
        others, its_score = other.fit_once(samples, weight, **seen)
        if not its_score < clearly * score:
            return False
        codevectors, score = others, its_score
        vars(run).update(vars(other))
        return True

    if not judged or not np.isfinite(score):
        return codevectors
    models = best = run.models
    if not few and models.pilot_rounds > 0 and inputs.shape[1] > 1 and len(samples) <= MANY:
        flat = models._replace(pilot_rounds=0)
        best = flat if wins(flat, CLEARLY) else models
    effects = effects_for(run, samples, weight, best) if piloted else None
    if effects is not None and wins(best, CLEARLY, effects):
        offered = effects
        wins(models, 1.0, effects)  # more inputs leave more to the chance of the pilots
    if have_tails(inputs, weight):
        wins(models, CLEARLY, offered, ranked=True)
        if are_cut(inputs, weight):
            before = run.rng.bit_generator.state
            if not wins(models, CLEARLY, offered, range_of=range_seen):
                run.rng.bit_generator.state = before  # as if it had not been tried
    return codevectors


def effects_for(run: "RegressionRun", samples: Array, weight: Array, models: "ModelSettings") -> Offer:
    """Effects that cells with these models may be better with, or None."""
    d = run.n_features
    if d == 1:  # along a single feature cells are all that there is
        return None
    effects = Effects.of(samples[:, :d], samples[:, d:], weight)
    if effects is None or len(samples) >= ENOUGH:
        return effects
    without, bent = errors_left_out(run, samples, weight, [(models, False), (models, True)])
    return effects if bent < LESS * without else None


def pilot_or_not(run: "RegressionRun", samples: Array, weight: Array) -> tuple["ModelSettings", float]:
    """The models that err less on samples left out, with relevances of the pilot or without.

    Cross-validation by formula knows nothing of relevances that were learned from the same samples.
    Returns the mean squared error, in variances and summed over outputs, too.
    """
    trials = [(run.models, False), (run.models._replace(pilot_rounds=0), False)]
    errors = errors_left_out(run, samples, weight, trials)
    best = int(errors.argmin())
    return trials[best][0], float(errors[best])


def errors_left_out(
    run: "RegressionRun", samples: Array, weight: Array, trials: "list[tuple[ModelSettings, bool]]"
) -> Array:
    """Mean squared errors of models, with effects or without, on parts of the samples left out."""
    d, errors = run.n_features, np.zeros(len(trials))
    part = run.rng.permutation(len(samples)) % FOLDS
    for i in range(FOLDS):
        rest, out = part != i, samples[part == i]
        for j, (models, bent) in enumerate(trials):
            other = run.another(models)
            effects = Effects.of(samples[rest, :d], samples[rest, d:], weight[rest]) if bent else None
            if effects is not None:
                other.offer(*effects)
            other.fit_once(samples[rest], weight[rest])
            assert other.scaling is not None
            off = (other.predict(out[:, :d]) - out[:, d:]) / other.scaling.deviation[-run.n_outputs :]
            errors[j] += weight[part == i] @ (off**2).sum(axis=1)
    return errors / weight.sum()

"""Choice of the inputs of a fit by cross-validation: with relevances of the pilot, ranks, effects."""

from typing import TYPE_CHECKING, Any

import numpy as np

from oda_rl._effects import Effects
from oda_rl._statistics import have_tails
from oda_rl._types import Array
from oda_rl.estimators.regression.pilot import are_cut, range_seen

if TYPE_CHECKING:
    from oda_rl.estimators.regression.session import RegressionRun
    from oda_rl.estimators.regression.settings import ModelSettings

# Effects, and the leverages of the samples in their fit.
Offer = tuple[Effects, Array] | None
# A fit without relevances of the pilot, or with ranks or effects, must lower the error to this part.
CLEARLY = 0.9
# With fewer samples than ENOUGH, effects must also lower the error on held-out samples to this part:
# the leave-one-out formula accounts too little for effects that were learned from the same outputs.
LESS, ENOUGH = 0.97, 500
# With more samples than this, no fit without relevances of the pilot is tried: it would take too long.
MANY = 1000
# With fewer samples than this per parameter of a cell, held-out samples decide on the pilot.
FEW_SAMPLES = 3
# Number of folds of `errors_left_out`.
FOLDS = 3


def fit_best(run: "RegressionRun", samples: Array, weight: Array) -> Array:
    """Fit a run to raw inputs and outputs; return the final codevectors.

    If cross-validation favours it, relevances of the pilot are not used, effects of features become
    further inputs, and inputs with long tails are mapped to a normal distribution by their ranks, or are
    not clipped: the few that lie far out may determine most of a plane.
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
        wins(models, 1.0, effects)  # with more inputs, pilots vary more
    if have_tails(inputs, weight):
        wins(models, CLEARLY, offered, ranked=True)
        if are_cut(inputs, weight):
            before = run.rng.bit_generator.state
            if not wins(models, CLEARLY, offered, range_of=range_seen):
                run.rng.bit_generator.state = before  # as if it had not been tried
    return codevectors


def effects_for(run: "RegressionRun", samples: Array, weight: Array, models: "ModelSettings") -> Offer:
    """Effects that may improve cells with these models, or None."""
    d = run.n_features
    if d == 1:  # effects of a single feature add nothing to cells
        return None
    effects = Effects.of(samples[:, :d], samples[:, d:], weight)
    if effects is None or len(samples) >= ENOUGH:
        return effects
    without, bent = errors_left_out(run, samples, weight, [(models, False), (models, True)])
    return effects if bent < LESS * without else None


def pilot_or_not(run: "RegressionRun", samples: Array, weight: Array) -> tuple["ModelSettings", float]:
    """The models with the smaller error on held-out samples, with relevances of the pilot or without.

    The leave-one-out formula does not account for relevances that were learned from the same samples.
    Also returns the mean squared error, in variances and summed over outputs.
    """
    trials = [(run.models, False), (run.models._replace(pilot_rounds=0), False)]
    errors = errors_left_out(run, samples, weight, trials)
    best = int(errors.argmin())
    return trials[best][0], float(errors[best])


def errors_left_out(
    run: "RegressionRun", samples: Array, weight: Array, trials: "list[tuple[ModelSettings, bool]]"
) -> Array:
    """Mean squared errors of `trials`, models and whether to use effects, on held-out samples."""
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

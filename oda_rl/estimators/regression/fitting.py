"""Fitting a regressor to a data set: choice of inputs by cross-validation, final models, errors."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from oda_rl._effects import Effects
from oda_rl._statistics import have_tails
from oda_rl._types import Array
from oda_rl.codebook.model_learning import INPUT_DISTORTION
from oda_rl.estimators.progress import begin_stage
from oda_rl.estimators.regression import mixture
from oda_rl.estimators.regression.local_models import (
    LEAST_SHARE,
    MEMORY,
    RIDGE,
    ModelAnnealer,
    ModelSettings,
)
from oda_rl.estimators.regression.overlap import FROM_MIDDLE, Descent, choose_softness
from oda_rl.estimators.regression.pilot import learn_pilot
from oda_rl.estimators.regression.scaling import (
    RangeOf,
    Scaling,
    are_cut,
    range_seen,
    usual_range,
)

if TYPE_CHECKING:
    from oda_rl.estimators.regression.session import RegressionRun

# Effects, and the leverages of the samples in their fit.
FittedEffects = tuple[Effects, Array]
# A fit without relevances of the pilot, or with ranks or effects, must lower the error to this part.
CLEARLY = 0.9
# With fewer samples than ENOUGH, effects must also lower the error on held-out samples to this part:
# the leave-one-out formula accounts too little for effects that were learned from the same outputs.
LESS, ENOUGH = 0.97, 500
# With more samples than this, no fit without relevances of the pilot is tried: it would take too long.
MANY = 1000
# With fewer samples than this per parameter of a cell, held-out samples decide on the pilot.
FEW_SAMPLES = 3
# Number of folds of `held_out_errors`.
FOLDS = 3
# Models with more parameters are not trained while the cells of a fit move: a step costs their square.
TRAINED = 64
# Passes over the samples for user-defined models.
OWN_EPOCHS = 10
# The mean squared error of all samples counts in each cell like this many samples.
BORROWED = 5.0


def fit_best(run: "RegressionRun", samples: Array, weight: Array) -> None:
    """Fit a run to raw inputs and outputs.

    If cross-validation favours it, relevances of the pilot are not used, effects of features become
    further inputs, and inputs with long tails are mapped to a normal distribution by their ranks, or are
    not clipped: the few that lie far out may determine most of a plane.
    """
    inputs, held_out, chosen = samples[:, : run.n_features], 0.0, None
    judged = run.settings.finish and run.own is None
    piloted = run.models.pilot_rounds > 0
    few = judged and piloted and FOLDS < len(samples) < FEW_SAMPLES * run.n_basis
    if few:
        run.models, held_out = pilot_or_not(run, samples, weight)
    score = fit_once(run, samples, weight, least=held_out)

    def improves(
        models: ModelSettings,
        clearly: float,
        effects: FittedEffects | None = None,
        is_confirmed: Callable[[], bool] = lambda: True,
        **how: Any,
    ) -> bool:
        """Fit with other models and effects; keep this fit, and return True, if it is clearly better."""
        nonlocal score
        other = run.untrained(models, effects)
        how = {"descent": Descent.beside(run.softness, clearly * score)} | how
        other_score = fit_once(other, samples, weight, **how)
        if not (other_score < clearly * score and is_confirmed()):
            return False
        score = other_score
        vars(run).update(vars(other))
        return True

    if not judged or not np.isfinite(score):
        return
    models = best = run.models
    if not few and models.pilot_rounds > 0 and inputs.shape[1] > 1 and len(samples) <= MANY:
        flat = models._replace(pilot_rounds=0)
        best = flat if improves(flat, CLEARLY) else models
    effects = effects_of(run, samples, weight) if piloted else None
    if effects is not None and improves(
        best, CLEARLY, effects, lambda: effects_help(run, samples, weight, best)
    ):
        chosen = effects
        improves(models, 1.0, effects)  # with more inputs, pilots vary more
    if have_tails(inputs, weight):
        # between ranks distances are others, and so is the best overlap
        improves(models, CLEARLY, chosen, ranked=True, descent=FROM_MIDDLE)
        if are_cut(inputs, weight):
            before = run.rng.bit_generator.state
            if not improves(models, CLEARLY, chosen, range_of=range_seen):
                run.rng.bit_generator.state = before  # as if it had not been tried


def effects_of(run: "RegressionRun", samples: Array, weight: Array) -> FittedEffects | None:
    """Effects of features that may improve the cells of a run, or None."""
    d = run.n_features  # effects of a single feature add nothing to cells
    return Effects.of(samples[:, :d], samples[:, d:], weight) if d > 1 else None


def effects_help(run: "RegressionRun", samples: Array, weight: Array, models: ModelSettings) -> bool:
    """Whether effects lower the errors of these models on held-out samples, too, if samples are few."""
    if len(samples) >= ENOUGH:
        return True
    without, bent = held_out_errors(run, samples, weight, [(models, False), (models, True)])
    return bool(bent < LESS * without)


def pilot_or_not(run: "RegressionRun", samples: Array, weight: Array) -> tuple[ModelSettings, float]:
    """The models with the smaller error on held-out samples, with relevances of the pilot or without.

    The leave-one-out formula does not account for relevances that were learned from the same samples.
    Also returns the mean squared error, in variances and summed over outputs.
    """
    trials = [(run.models, False), (run.models._replace(pilot_rounds=0), False)]
    errors = held_out_errors(run, samples, weight, trials)
    best = int(errors.argmin())
    return trials[best][0], float(errors[best])


def held_out_errors(
    run: "RegressionRun", samples: Array, weight: Array, trials: list[tuple[ModelSettings, bool]]
) -> Array:
    """Mean squared errors of `trials`, models and whether to use effects, on held-out samples."""
    d, errors = run.n_features, np.zeros(len(trials))
    part = run.rng.permutation(len(samples)) % FOLDS
    for i in range(FOLDS):
        rest, out = part != i, samples[part == i]
        for j, (models, bent) in enumerate(trials):
            effects = Effects.of(samples[rest, :d], samples[rest, d:], weight[rest]) if bent else None
            other = run.untrained(models, effects)
            fit_once(other, samples[rest], weight[rest])
            assert other.scaling is not None
            off = (other.predict(out[:, :d]) - out[:, d:]) / other.scaling.deviation[-run.n_outputs :]
            errors[j] += weight[part == i] @ (off**2).sum(axis=1)
    return errors / weight.sum()


def fit_once(
    run: "RegressionRun",
    samples: Array,
    weight: Array,
    ranked: bool = False,
    range_of: RangeOf = usual_range,
    least: float = 0.0,
    descent: Descent = FROM_MIDDLE,
) -> float:
    """Fit an untrained run once; return the cross-validated error.

    Inputs are `ranked` or not, and bounded by `range_of`; new samples have an error of at least `least`.
    Overlaps are tried by this `descent`. The error is infinite unless built-in models are fitted to all
    samples at the end.
    """
    d, score, samples, models = run.n_inputs, np.inf, run.insert_effects(samples), run.models
    scaling = Scaling.of(samples, weight, d, models.output_weight, range_of, ranked).widening(d)
    run.scaling = scaling
    standard = scaling.with_outputs(samples, d)
    followed = standard[:, d:]
    for i in range(models.pilot_rounds):
        begin_stage(f"pilot {i + 1} of {models.pilot_rounds}")
        own = run.settings, standard, weight, scaling.metric, d, followed if i > 0 else None, run.rng
        followed, scaling.metric[:d] = learn_pilot(*own)
    scaled = np.column_stack([standard[:, :d], followed]) * scaling.metric
    begin_stage("cells")
    trained = run.n_basis <= TRAINED or not run.settings.finish
    codevectors = run.anneal_cells(scaled, weight, standard[:, d:] if trained else None)
    if not trained:
        run.unexplained = [np.inf] * len(run.unexplained)
    run.figures[INPUT_DISTORTION] = mixture.width_of_cells(scaled[:, :d], codevectors[:, :d], weight)
    if run.settings.finish:
        if run.own is None:
            score = refit(run, standard, weight, descent)
        else:
            refit_own(run, standard, weight)
        measure_noise(run, standard, weight, max(score, least))
    return score


def refit(run: "RegressionRun", standard: Array, weight: Array, descent: Descent) -> float:
    """Fit all local models together by least squares, with the overlap that cross-validation favours.

    Parameters
    ----------
    run : RegressionRun
        With its final cells; its models are changed.
    standard : ndarray of shape (n_samples, n_inputs + n_outputs)
        Standardised samples.
    weight : ndarray of shape (n_samples,)
        Of the samples.
    descent : Descent
        Where overlaps are tried.

    Returns
    -------
    float
        The mean squared error of the models by cross-validation, summed over outputs.
    """
    assert run.scaling is not None
    d, book = run.n_inputs, run.book
    metric = run.scaling.metric[:d]
    inputs, outputs = standard[:, :d] * metric, standard[:, d:]
    codevectors = book.codevectors[:, :d]
    width = float(run.figures[INPUT_DISTORTION])

    def fit(softness: float) -> mixture.Mixture:
        return mixture.fit_mixture(
            *(inputs, outputs, weight, codevectors),
            *(softness * width, run.linear, run.models.given_ridge, run.effects_leverage),
        )

    if run.models.softness == "auto":
        run.softness, found = choose_softness(fit, descent)
    else:
        found = fit(run.softness)
    assert isinstance(run.annealer, ModelAnnealer)
    run.annealer.softness = run.softness
    book["theta"][:] = _of_standard_inputs(run, found.theta)
    run.leverage = found.leverage
    return found.score


def errors_of_models(run: "RegressionRun", samples: Array, weight: Array, others: Array) -> Array:
    """Errors (n_others, n_outputs) of a run whose models are fitted to other samples, in deviations.

    Only its built-in models are: its cells and their overlap stay. The run itself is not changed.

    Parameters
    ----------
    run : RegressionRun
        With cells.
    samples : ndarray of shape (n_samples, n_features + n_outputs)
        Raw inputs and outputs, to which models are fitted.
    weight : ndarray of shape (n_samples,)
        Of the samples, with a mean of 1.
    others : ndarray of shape (n_others, n_features + n_outputs)
        Raw inputs and outputs, which the models predict.
    """
    assert run.scaling is not None
    d, cells, gate = run.n_inputs, run.book.codevectors[:, : run.n_inputs], run.gating_temperature
    own, new = (run.scaling.with_outputs(run.insert_effects(some), d) for some in (samples, others))
    chosen = gate, run.linear, run.models.given_ridge
    found = mixture.fit_mixture(run.to_distance(own), own[:, d:], weight, cells, *chosen)
    models = run.predictor._replace(theta=_of_standard_inputs(run, found.theta), kernel=None)
    return models.of_scaled(run.to_distance(new), new[:, :d]) - new[:, d:]


def _of_standard_inputs(run: "RegressionRun", theta: Array) -> Array:
    """Models (n_outputs * q, n_cells) of inputs in units of the distance, for standardised inputs."""
    assert run.scaling is not None
    scale = np.r_[1.0, run.scaling.metric[: run.n_inputs]] if run.linear else np.ones(1)
    return np.asarray(theta * np.tile(scale, run.n_outputs)[:, None])


def prepare_stream(run: "RegressionRun", samples: Array, weight: Array) -> None:
    """Give built-in models what they learn from in a stream after a fit; arguments as for `fit_best`."""
    if run.own is not None or not run.settings.finish:
        return
    assert run.scaling is not None
    d = run.n_inputs
    inputs = run.scaling.standardise(run.insert_effects(samples)[:, :d])
    overlap = run.softness if run.will_rest else run.own_share
    gate = overlap * float(run.figures[INPUT_DISTORTION])
    set_gains(run, inputs, run.scaling.metric[:d], weight, gate)
    if run.will_rest:
        assert isinstance(run.annealer, ModelAnnealer)
        run.annealer.rests, run.n_fitted = True, len(samples)
        run.book["seen"][:] += weight @ run.associations(run.to_distance(inputs), run.own_share)


def set_gains(run: "RegressionRun", inputs: Array, metric: Array, weight: Array, gate: float) -> None:
    """Set the inverse second moments of cells that overlap at the temperature `gate`.

    Cells that do not have this field of the payload yet get it. `inputs` (n_samples, n_inputs) are
    standardised; times `metric` (n_inputs,) they are in the units of the codevectors.
    """
    assert run.annealer is not None
    book = run.book
    if "gain" not in book.fields:
        run.annealer.codebook = book.with_fields({"spread": book.fields["spread"], **run.payload})
        run.annealer.reference = run.annealer.reference[:, : len(book)].copy()
    run.book["seen"][:] = MEMORY
    run.book["gain"][:] = mixture.second_moments(
        inputs, metric, weight, book.codevectors[:, : run.n_inputs], gate, run.linear, RIDGE
    )


def refit_own(run: "RegressionRun", standard: Array, weight: Array) -> None:
    """Train user-defined models for a few more epochs; arguments as for `refit`."""
    assert run.own is not None
    assert run.scaling is not None
    d, book = run.n_inputs, run.book
    share = run.associations(standard[:, :d] * run.scaling.metric[:d])
    theta = book["theta"]
    for _ in range(OWN_EPOCHS):
        for t in run.rng.permutation(len(standard)):
            for i in np.flatnonzero(share[t] > LEAST_SHARE):
                own = np.ascontiguousarray(theta[:, i])
                part = float(min(1.0, weight[t] * share[t, i]))
                theta[:, i] = run.own.update(own, standard[t, :d], standard[t, d:], part)


def measure_noise(run: "RegressionRun", standard: Array, weight: Array, expected: float) -> None:
    """Set the expected errors in the cells of a run, from standardised samples; see `noise_of`."""
    d, scaled = run.n_inputs, run.to_distance(standard)
    residuals = standard[:, d:] - run.predictor.of_scaled(scaled, standard[:, :d])
    share = run.associations(scaled, run.own_share)
    run.book["noise"][:] = noise_of(residuals, weight, share, expected)


def noise_of(residuals: Array, weight: Array, share: Array, expected: float) -> Array:
    """Mean squared errors to be expected in the cells, for each output.

    Parameters
    ----------
    residuals : ndarray of shape (n_samples, n_outputs)
        Residuals of a fit on its own samples, which are smaller than those of new samples.
    weight : ndarray of shape (n_samples,)
        Of the samples.
    share : ndarray of shape (n_samples, n_cells)
        Shares of the cells in the samples.
    expected : float
        The mean squared error of new samples, summed over outputs, by cross-validation; infinite if it
        is not known.

    Returns
    -------
    ndarray of shape (n_outputs, n_cells)
    """
    squared = residuals**2
    overall = weight @ squared / weight.sum()
    own = share * weight[:, None]
    found = (squared.T @ own + BORROWED * overall[:, None]) / (own.sum(axis=0) + BORROWED)
    left = float(overall.sum())
    more = expected / left if left > 0.0 and np.isfinite(expected) else 1.0
    return np.asarray(max(more, 1.0) * found)

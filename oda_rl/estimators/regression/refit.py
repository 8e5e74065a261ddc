"""The final fit of local models to cells that no longer move, and the errors that remain."""

from typing import TYPE_CHECKING

import numpy as np

from oda_rl._types import Array
from oda_rl.codebook.model_learning import INPUT_DISTORTION
from oda_rl.estimators.regression import mixture
from oda_rl.estimators.regression.local_models import LEAST_SHARE, MEMORY, RIDGE, ModelAnnealer

if TYPE_CHECKING:
    from oda_rl.estimators.regression.session import RegressionRun

# Passes over the samples for user-defined models.
OWN_EPOCHS = 10
# The mean squared error of all samples counts in each cell like this many samples.
BORROWED = 5.0


def refit(run: "RegressionRun", standard: Array, weight: Array) -> float:
    """Fit all local models together by least squares, with the overlap that cross-validation favours.

    Parameters
    ----------
    run : RegressionRun
        With its final cells; its models are changed.
    standard : ndarray of shape (n_samples, n_inputs + n_outputs)
        Standardised samples.
    weight : ndarray of shape (n_samples,)
        Of the samples.

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
    ridge = None if run.models.ridge == "auto" else float(run.models.ridge)
    width = float(run.figures[INPUT_DISTORTION])

    def fit(softness: float) -> mixture.Mixture:
        return mixture.fit_mixture(
            *(inputs, outputs, weight, codevectors),
            *(softness * width, run.linear, ridge, run.told),
        )

    if run.models.softness == "auto":
        run.softness, found = mixture.choose_softness(fit)
    else:
        found = fit(run.softness)
    assert isinstance(run.annealer, ModelAnnealer)
    run.annealer.softness = run.softness
    scale = np.tile(np.r_[1.0, metric] if run.linear else np.ones(1), run.n_outputs)
    book["theta"][:] = found.theta * scale[:, None]
    run.leverage = found.leverage
    book["seen"][:] = MEMORY
    book["gain"][:] = mixture.second_moments(
        standard[:, :d], metric, weight, codevectors, run.gating_temperature, run.linear, RIDGE
    )
    return found.score


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

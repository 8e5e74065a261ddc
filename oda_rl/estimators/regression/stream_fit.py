"""Fits of the samples of a stream by a regressor."""

import numpy as np

from oda_rl._types import Array
from oda_rl.estimators.copies import without_copies
from oda_rl.estimators.drift import LATEST, RENEWAL, are_advancing, bounded_losses
from oda_rl.estimators.regression.scaling import range_without_wild
from oda_rl.estimators.regression.session import RegressionRun
from oda_rl.estimators.settings import Settings
from oda_rl.estimators.targets import Data

# Numbers of samples of a stream, since learning began, at which all of them are fitted.
FIT_AT = (256, 1024)


def fit_of_stream(run: RegressionRun, settings: Settings, data: Data, losses: Array) -> RegressionRun:
    """A run like this one of a stream, with these settings, that is fitted to all its samples so far.

    It is the run itself if its cells would not rest after a fit, or if it is of a fit to many of them.
    If inputs advance, a fit of all but the latest samples must predict these better than the run did
    when they came: `losses` are those of the run, as by `bounded_losses`.
    """
    distinct = without_copies(data)
    few = len(distinct.weight) < RENEWAL * run.n_fitted or not (data.weight > 0.0).any()
    if run.annealer is None or not run.will_rest or few:
        return run
    latest = losses[-(len(data.weight) // LATEST) :]
    if are_advancing(data.samples) and not _predicts_better(run, settings, data, latest):
        return run
    other = _fitted(run, settings, distinct)
    other.n_seen, other.seconds = run.n_seen, run.seconds + other.seconds
    return other


def _fitted(run: RegressionRun, settings: Settings, data: Data) -> RegressionRun:
    """A new run like this one of a stream, fitted to samples.

    As in a stream without a fit, inputs are clipped only if there are outliers; and a kernel machine is
    tried only if there is one already.
    """
    other = run.untrained(run.models)
    other.settings = settings
    weight = data.weight / data.weight.mean()
    other.fit(np.hstack([data.samples, data.targets]), weight, kernel=run.kernel is not None)
    assert other.scaling is not None
    other.scaling = other.scaling.bounded(*range_without_wild(data.samples, weight))
    return other


def _predicts_better(run: RegressionRun, settings: Settings, data: Data, losses: Array) -> bool:
    """Whether a fit of all but the latest samples has less than these losses of the run on the last."""
    assert run.scaling is not None
    n = len(data.weight)
    first, latest = data.take(slice(0, n - n // LATEST)), data.take(slice(n - len(losses), n))
    if len(losses) == 0 or not (first.weight > 0.0).any():
        return False
    state = run.rng.bit_generator.state
    fitted = _fitted(run, settings, without_copies(first))
    run.rng.bit_generator.state = state  # as if it had not been tried
    errors = (fitted.predict(latest.samples) - latest.targets) / run.scaling.deviation[run.n_inputs :]
    return float(bounded_losses(errors).mean()) < float(losses.mean())

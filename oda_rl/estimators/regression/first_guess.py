"""Predictions of a regressor while it buffers the first samples of a stream."""

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from oda_rl._ridge import errors_left_out, tried
from oda_rl._types import Array
from oda_rl.estimators.regression.mixture import global_model
from oda_rl.estimators.regression.pilot import OUTERMOST, Scaling, usual_range
from oda_rl.estimators.regression.predictor import Predictor

if TYPE_CHECKING:
    from oda_rl.estimators.regression.session import RegressionRun

# With at least ENOUGH samples, the outermost at either end, which may be an outlier, does not count for
# the usual range of inputs. LEFT_OUT is one and a half, as quantiles are taken between two samples.
ENOUGH, LEFT_OUT = 10, 1.5
# A plane is fitted again when the number of samples has only zeros after so many binary digits: it then
# lacks at most one in eight of them. To fit it with every sample would take too long.
DIGITS = 4
# Minimum number of samples for slopes: if one of two is left out, the other determines none.
LEAST = 3


class FirstMean(NamedTuple):
    """The mean of the outputs of the buffered samples, for models that are not linear."""

    samples: Array  # (n_samples, n_inputs + n_outputs)
    weight: Array
    n_inputs: int

    @property
    def mean(self) -> Array:
        """The mean of each output, (n_outputs,)."""
        return np.average(self.samples, axis=0, weights=self.weight)[self.n_inputs :]

    @property
    def deviation(self) -> Array:
        """Standard deviations (n_outputs,) of the outputs."""
        squares = (self.samples[:, self.n_inputs :] - self.mean) ** 2
        return np.asarray(np.sqrt(np.average(squares, axis=0, weights=self.weight)))

    def outputs(self, inputs: Array) -> Array:
        """The mean for each of the inputs, (n_samples, n_outputs)."""
        return np.tile(self.mean, (len(inputs), 1))

    @property
    def slopes(self) -> Array:
        """Zero slopes, (n_outputs, n_inputs)."""
        return np.zeros((self.samples.shape[1] - self.n_inputs, self.n_inputs))


class FirstPlane(NamedTuple):
    """A linear ridge regression on the first of the buffered samples."""

    predictor: Predictor
    deviation: Array  # (n_outputs,), of leave-one-out errors
    of_samples: tuple[int, int]  # number of samples dropped before these, and of these

    @classmethod
    def of(cls, samples: Array, weight: Array, n_inputs: int, n_dropped: int) -> "FirstPlane":
        """Fit samples (n_samples, n_inputs + n_outputs) in the data's units."""
        d, (n, width) = n_inputs, samples.shape
        outermost = max(OUTERMOST, LEFT_OUT / n) if n >= ENOUGH else OUTERMOST
        scaling = Scaling.of(samples, weight, d, 1.0, partial(usual_range, outermost=outermost))
        standard = scaling.with_outputs(samples, d)
        inputs, outputs = standard[:, :d], standard[:, d:]
        theta, leverage, _ = global_model(inputs, outputs, weight, linear=n >= LEAST)
        rows = tried(n)
        errors = errors_left_out((outputs - theta[0] - inputs @ theta[1:])[rows], leverage)
        deviation = np.sqrt(np.average(errors**2, axis=0, weights=weight[rows])) * scaling.deviation[d:]
        cell = np.zeros((width, 1)), theta.T.reshape(-1, 1), 1
        return cls(Predictor(scaling, *cell, 1.0, 1 + d, None), deviation, (n_dropped, n))

    def outputs(self, inputs: Array) -> Array:
        """Predictions (n_samples, n_outputs) of raw inputs, with the same bounds as later ones."""
        return self.predictor.outputs(inputs)

    @property
    def slopes(self) -> Array:
        """Slopes of the plane (n_outputs, n_inputs), in the data's units."""
        q, deviation = self.predictor.q, self.predictor.scaling.deviation
        theta = self.predictor.theta.reshape(-1, q)
        return theta[:, 1:] * deviation[q - 1 :, None] / deviation[: q - 1]


def first_guess(run: "RegressionRun") -> FirstMean | FirstPlane:
    """The model of the samples that a run has buffered: it does not depend on how these were chunked.

    A plane is kept in the run for further calls.
    """
    n, d, weight = len(run.buffer), run.n_inputs, run.buffer_weight
    if not run.linear:
        return FirstMean(run.buffer, weight, d)
    n -= n % (1 << max(0, n.bit_length() - DIGITS))
    if run.plane is None or run.plane.of_samples != (run.n_dropped, n):
        run.plane = FirstPlane.of(run.buffer[:n], weight[:n], d, run.n_dropped)
    return run.plane

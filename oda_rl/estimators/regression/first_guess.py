"""What a regressor predicts while the first samples of a stream wait for it to begin."""

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

# From so many samples on, the outermost at either end, which may be wild, does not tell how far out
# inputs usually lie; one and a half are left out, as quantiles are taken between two samples.
ENOUGH, LEFT_OUT = 10, 1.5
# A plane is fitted anew where the number of samples has only zeros after so many binary digits: it knows
# all of them but one in eight at most. With every sample that would take too long.
DIGITS = 4
# Of two samples the one that is not left out tells no slopes.
LEAST = 3


class FirstMean(NamedTuple):
    """The mean of the outputs of samples that wait, for models that are not linear."""

    samples: Array  # (n_samples, n_inputs + n_outputs)
    weight: Array
    n_inputs: int

    @property
    def mean(self) -> Array:
        """Of each output, (n_outputs,)."""
        return np.average(self.samples, axis=0, weights=self.weight)[self.n_inputs :]

    @property
    def deviation(self) -> Array:
        """Standard deviations (n_outputs,) of outputs about it."""
        squares = (self.samples[:, self.n_inputs :] - self.mean) ** 2
        return np.asarray(np.sqrt(np.average(squares, axis=0, weights=self.weight)))

    def outputs(self, inputs: Array) -> Array:
        """The same for all inputs."""
        return np.tile(self.mean, (len(inputs), 1))

    @property
    def slopes(self) -> Array:
        """None in any direction, (n_outputs, n_inputs)."""
        return np.zeros((self.samples.shape[1] - self.n_inputs, self.n_inputs))


class FirstPlane(NamedTuple):
    """A ridge plane over the first `of_samples` of those that wait."""

    predictor: Predictor
    deviation: Array  # (n_outputs,), of outputs about predictions of samples left out
    of_samples: tuple[int, int]  # dropped before them, and their number

    @classmethod
    def of(cls, samples: Array, weight: Array, n_inputs: int, n_dropped: int) -> "FirstPlane":
        """That over samples (n_samples, n_inputs + n_outputs) in the data's units."""
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
        """Predictions (n_samples, n_outputs) of raw inputs, bounded as those that follow."""
        return self.predictor.outputs(inputs)

    @property
    def slopes(self) -> Array:
        """Those of the plane (n_outputs, n_inputs), in the data's units."""
        q, deviation = self.predictor.q, self.predictor.scaling.deviation
        theta = self.predictor.theta.reshape(-1, q)
        return theta[:, 1:] * deviation[q - 1 :, None] / deviation[: q - 1]


def first_guess(run: "RegressionRun") -> FirstMean | FirstPlane:
    """What the samples tell that wait in a run: however they came, the same of as many.

    A plane is kept in the run, to be asked again.
    """
    n, d, weight = len(run.buffer), run.n_inputs, run.buffer_weight
    if not run.linear:
        return FirstMean(run.buffer, weight, d)
    n -= n % (1 << max(0, n.bit_length() - DIGITS))
    if run.plane is None or run.plane.of_samples != (run.n_dropped, n):
        run.plane = FirstPlane.of(run.buffer[:n], weight[:n], d, run.n_dropped)
    return run.plane

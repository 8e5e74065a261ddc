"""The kernel regressor: one function per output, a common dictionary."""

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from oda_rl._schema import Schema
from oda_rl._statistics import quantiles
from oda_rl._types import Array
from oda_rl._validation import OF_DATA, SMALLEST_DEVIATION, check_kind, check_size
from oda_rl.estimators.feature_scaling import scale_by
from oda_rl.estimators.parameters import may_be_flat
from oda_rl.rkhs.base import KernelSGD
from oda_rl.rkhs.functional_sgd import HUBER, SQUARED
from oda_rl.rkhs.hyperparameters import Rules

# The deviation of a normal distribution, in median absolute deviations.
NORMAL = 1.4826


@dataclass(eq=False, repr=False)
class KernelSGDRegressor(RegressorMixin, KernelSGD):
    """Kernel regression that learns from a stream and finds its bandwidth: BARRETTE, POLK.

    Functional stochastic gradient descent with a Gaussian kernel and one dictionary for all outputs,
    kept small by sparse projections.

    `fit` standardises the outputs and chooses the bandwidth by trials, so that units do not matter. If
    the estimator begins with `partial_fit`, nothing is known of the units: outputs should have a mean
    near 0 and a scale of about 1, and features a scale of about 1. Warnings name first samples that have
    not, and outputs that are too small for the limit of `parsimony`, or too large for `huber_width`.

    Parameters
    ----------
    loss : {"squared", "huber"}, default="squared"
        (f - y)^2 / 2, or the same up to an error of `huber_width` and linear beyond.
    huber_width : float or "auto", default="auto"
        Error from which Huber's loss is linear: in the units of y and the same for all outputs, or, by
        `"auto"`, the robust standard deviation of each output (1.4826 median absolute deviations), which
        `fit` computes. As with scikit-learn's `HuberRegressor`, units then do not matter; its width
        follows the scale of the residuals, not that of y. If the estimator begins with `partial_fit`,
        `"auto"` is 1.
    stepsize : float, default=0.5
        Stepsize eta of the mean gradient of a mini-batch of `batch_size` samples.
    batch_size : int, default=1
        Samples of a mini-batch. With one, any stepsize below 2 is stable. With more and the squared
        loss, stepsizes below 2 divided by the share of similar samples are stable.
    bandwidth : float or "auto", default="auto"
        d of the Gaussian kernel exp(-|x - x'|^2 / (2 d^2)), in the units of X / scale; if it adapts, its
        initial value. `"auto"`: `fit` tries about ten values on a part of the samples, 1000 at most, and
        keeps the one with the least loss on others of these; the bandwidth then adapts only in calls of
        `partial_fit` that follow. If the estimator begins with `partial_fit`, the initial value is the
        square root of the number of features.
    fitness : {"likelihood", "loss"}, default="loss"
        What the bandwidth follows: the derivative of the loss of new samples with fixed weights, or the
        likelihood of their inputs. The latter is the paper's, and by it the bandwidth becomes too narrow
        for smooth functions of several features.
    parsimony : float, default=0.04
        As for `KernelSGDClassifier`, but a number. The limit is in units of the outputs, which are their
        standard deviations in `fit`, and with a number as `huber_width` at most this.
    scale, adapt, stepsize_halving, regularization, max_points, average, n_passes
        As for `KernelSGDClassifier`, with the same defaults.
    ratio, fitness_rate, move_probability, slowing, window, transfer, random_state
        As for `KernelSGDClassifier`, with the same defaults.

    Attributes
    ----------
    dictionary_ : ndarray of shape (n_points, n_features)
        The points of the expansion.
    dual_coef_ : ndarray of shape (n_points, n_outputs)
        Their weights in each output.
    intercept_ : float or ndarray of shape (n_outputs,)
        What is added to the function: the means of the outputs of `fit`, with Huber's loss the medians.
        Zero if the estimator began with `partial_fit`.
    n_points_, bandwidth_, stepsize_, regularization_, bandwidth_history_, history_, n_samples_seen_
        As for `KernelSGDClassifier`. After `fit`, losses are those of the standardised outputs.

    Notes
    -----
    The function is f(x) = intercept + sum_j w_j k(d_j, x). It and its hyperparameters are learned as in
    `KernelSGDClassifier`.

    References
    ----------
    As for `KernelSGDClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from oda_rl import KernelSGDRegressor
    >>> X = np.random.default_rng(0).uniform(0.0, 6.0, (2000, 1))
    >>> model = KernelSGDRegressor(random_state=0).fit(X, np.sin(X[:, 0]))
    >>> bool(model.score(X, np.sin(X[:, 0])) > 0.99)
    True
    """

    loss: str = "squared"
    _: KW_ONLY
    huber_width: float | str = "auto"
    stepsize: float = 0.5
    batch_size: int = 1
    fitness: str = "loss"

    losses: ClassVar[dict[str, int]] = {"squared": SQUARED, "huber": HUBER}
    _outputs_schema: ClassVar[dict[str, Schema]] = {
        "flat": may_be_flat,
        "center": f"float[m] in {OF_DATA}",
        "unit": f"float[m] in [{SMALLEST_DEVIATION}, inf)",
    }

    def predict(self, X: ArrayLike) -> Array:
        """The function at X (n_samples, n_features).

        The shape is (n_samples,) or (n_samples, n_outputs), as that of the outputs it was fitted to.
        """
        with np.errstate(under="ignore"):
            values = self._outputs(X) * self._unit + self._center
        return values[:, 0] if self._flat else values

    def _check(self, X: ArrayLike, y: ArrayLike, reset: bool) -> tuple[Array, Array]:
        samples, outputs = validate_data(
            self, X, y, reset=reset, dtype=np.float64, order="C", multi_output=True, y_numeric=True
        )
        check_kind(outputs, "outputs")
        outputs = np.asarray(outputs, dtype=np.float64)
        check_size(outputs, "y")
        return samples, outputs

    def _begin(self, outputs: Array) -> int:
        self._flat = outputs.ndim == 1
        n_outputs = int(np.prod(outputs.shape[1:]))
        self._center, self._unit = np.zeros(n_outputs), np.ones(n_outputs)
        return n_outputs

    def _extend(self, outputs: Array, classes: ArrayLike | None) -> int:
        if self._machine is None:
            return self._begin(outputs)
        n_outputs, given = int(self._machine.n_outputs), int(np.prod(outputs.shape[1:]))
        if given != n_outputs:
            raise ValueError(f"y must have {n_outputs} outputs, as in earlier calls, got {given}.")
        return n_outputs

    def _numbers(self, outputs: Array) -> Array:
        return (outputs.reshape(len(outputs), -1) - self._center) / self._unit

    def _find_units(self, outputs: Array, weight: Array) -> None:
        """The mean and the deviation of each output.

        For Huber's loss they are the median and a multiple of the median absolute deviation, which bear
        outliers. If a number is given as `huber_width`, all outputs have a common unit, as they have a
        common width, and it is no larger than this width: gradients are not either, and the limit of
        `parsimony` is in these units.
        """
        values = outputs.reshape(len(outputs), -1)
        self._center = np.average(values, axis=0, weights=weight)
        deviation = scale_by("standard", values, weight)
        self._unit = np.ones_like(self._center) if deviation is None else deviation
        if self.loss == "huber" and deviation is not None:
            self._center = quantiles(values, 0.5, weight)
            own = NORMAL * quantiles(np.abs(values - self._center), 0.5, weight)
            own = np.where(own > SMALLEST_DEVIATION, own, self._unit)
            width, common = self._given_width, np.sqrt(np.mean(own**2))
            self._unit = own if width is None else np.full(len(own), min(common, width))

    @property
    def _given_width(self) -> float | None:
        return None if isinstance(self.huber_width, str) else float(self.huber_width)

    def _publish(self) -> Self:
        super()._publish()
        self.intercept_ = float(self._center[0]) if self._flat else self._center.copy()
        return self

    def _in_units(self, rules: Rules) -> Rules:
        rules, width = super()._in_units(rules), self._given_width
        return rules if width is None else replace(rules, huber_width=width / float(self._unit[0]))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

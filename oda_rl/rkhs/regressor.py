"""The kernel regressor: one function per output in the kernel's Hilbert space."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from oda_rl._schema import Schema
from oda_rl._types import Array
from oda_rl._validation import check_size
from oda_rl.estimators.parameters import may_be_flat
from oda_rl.rkhs.base import KernelSGD
from oda_rl.rkhs.functional_sgd import HUBER, SQUARED


@dataclass(eq=False, repr=False)
class KernelSGDRegressor(RegressorMixin, KernelSGD):
    """Kernel regression that learns from a stream and finds its bandwidth: BARRETTE, POLK.

    Functional stochastic gradient descent with a Gaussian kernel and one dictionary for all outputs,
    kept small by sparse projections. Outputs should have a scale of about 1.

    The bandwidth adapts to the density of the inputs, not to the curvature of the function. With much
    noise in the outputs, a wider fixed bandwidth does better.

    Parameters
    ----------
    loss : {"squared", "huber"}, default="squared"
        (f - y)^2 / 2, or the same up to an error of `huber_width` and linear beyond.
    huber_width : float, default=1.0
        Error from which Huber's loss is linear, in the units of y.
    stepsize : float, default=0.5
        Stepsize eta of the mean gradient of a mini-batch of `batch_size` samples.
    batch_size : int, default=1
        Samples of a mini-batch. With one, any stepsize below 2 is stable. With more and the squared
        loss, stepsizes below 2 divided by the share of similar samples are stable.
    scale, bandwidth, adapt, stepsize_halving, regularization, parsimony, max_points, average, n_passes
        As for `KernelSGDClassifier`, with the same defaults.
    fitness, ratio, fitness_rate, move_probability, slowing, window, transfer, random_state
        As for `KernelSGDClassifier`, with the same defaults.

    Attributes
    ----------
    dictionary_ : ndarray of shape (n_points, n_features)
        The points of the expansion.
    dual_coef_ : ndarray of shape (n_points, n_outputs)
        Their weights in each output.
    n_points_, bandwidth_, stepsize_, regularization_, bandwidth_history_, history_, n_samples_seen_
        As for `KernelSGDClassifier`.

    Notes
    -----
    The function and its hyperparameters are learned as in `KernelSGDClassifier`.

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
    huber_width: float = 1.0
    stepsize: float = 0.5
    batch_size: int = 1

    losses: ClassVar[dict[str, int]] = {"squared": SQUARED, "huber": HUBER}
    _outputs_schema: ClassVar[Schema] = {"flat": may_be_flat}

    def predict(self, X: ArrayLike) -> Array:
        """The function at X (n_samples, n_features).

        The shape is (n_samples,) or (n_samples, n_outputs), as that of the outputs it was fitted to.
        """
        values = self._outputs(X)
        return values[:, 0] if self._flat else values

    def _check(self, X: ArrayLike, y: ArrayLike, reset: bool) -> tuple[Array, Array]:
        samples, outputs = validate_data(
            self, X, y, reset=reset, dtype=np.float64, order="C", multi_output=True, y_numeric=True
        )
        outputs = np.asarray(outputs, dtype=np.float64)
        check_size(outputs, "y")
        return samples, outputs

    def _begin(self, outputs: Array) -> int:
        self._flat = outputs.ndim == 1
        return int(np.prod(outputs.shape[1:]))

    def _extend(self, outputs: Array, classes: ArrayLike | None) -> int:
        if self._machine is None:
            return self._begin(outputs)
        n_outputs, given = int(self._machine.n_outputs), int(np.prod(outputs.shape[1:]))
        if given != n_outputs:
            raise ValueError(f"y must have {n_outputs} outputs, as before, got {given}.")
        return n_outputs

    def _numbers(self, outputs: Array) -> Array:
        return outputs.reshape(len(outputs), -1)

    def _outputs_state(self) -> dict[str, Any]:
        return {"flat": self._flat}

    def _set_outputs_state(self, state: dict[str, Any]) -> None:
        self._flat = bool(state["flat"])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

"""Local models of a user's own for `ODARegressor`: an interface of three functions, and an example."""

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

KNOWN = ("constant", "linear")


@runtime_checkable
class LocalModel(Protocol):
    """What `ODARegressor(local_model=...)` asks of an object.

    The object itself keeps no state of the cells: the parameters of a cell are one array of numbers,
    which the codebook stores, hands to both halves of a cell that splits, and averages where cells
    merge. Inputs and outputs are standardised (each has mean 0 and variance 1 over the samples).
    """

    def init(self, n_features: int, n_outputs: int, rng: np.random.Generator) -> Array:
        """The parameters of the first cell, of shape (n_parameters,)."""
        ...

    def predict(self, parameters: Array, X: Array) -> Array:
        """The outputs at X (n_samples, n_features): an array of shape (n_samples, n_outputs)."""
        ...

    def update(self, parameters: Array, x: Array, y: Array, weight: float) -> Array:
        """The parameters after one sample x (n_features,), y (n_outputs,), of a weight in (0, 1].

        Stochastic gradient descent for instance (eq. 27). The given array may be changed and returned.
        """
        ...


class Quadratic:
    """A local model with all products of two inputs, learned by normalised least mean squares.

    Parameters
    ----------
    stepsize : float, default=0.3
        In (0, 2); 1 makes a sample's error vanish.

    Examples
    --------
    >>> import numpy as np
    >>> from oda_rl import ODARegressor
    >>> X = np.random.default_rng(0).uniform(-1.0, 1.0, (500, 1))
    >>> model = ODARegressor(4, local_model=Quadratic(), random_state=0).fit(X, X[:, 0] ** 2)
    >>> bool(model.score(X, X[:, 0] ** 2) > 0.99)
    True
    """

    def __init__(self, stepsize: float = 0.3) -> None:
        self.stepsize = stepsize

    def init(self, n_features: int, n_outputs: int, rng: np.random.Generator) -> Array:
        """Zeros: the mean of the outputs."""
        return np.zeros(self.features(np.zeros((1, n_features))).shape[1] * n_outputs)

    def predict(self, parameters: Array, X: Array) -> Array:
        """Products times coefficients."""
        basis = self.features(X)
        return basis @ parameters.reshape(basis.shape[1], -1)

    def update(self, parameters: Array, x: Array, y: Array, weight: float) -> Array:
        """A step that lowers the error of this sample."""
        basis = self.features(x[None, :])[0]
        error = y - basis @ parameters.reshape(len(basis), -1)
        step = weight * self.stepsize / (basis @ basis)
        return parameters + step * np.outer(basis, error).ravel()

    @staticmethod
    def features(X: Array) -> Array:
        """1, the inputs, and their products."""
        i, j = np.triu_indices(X.shape[1])
        return np.column_stack([np.ones(len(X)), X, X[:, i] * X[:, j]])


def check_local_model(model: Any) -> str | LocalModel:
    """The model; raises a ValueError if it is neither a known name nor has the three functions."""
    if isinstance(model, str) and model in KNOWN:
        return model
    if not isinstance(model, str) and isinstance(model, LocalModel):
        return model
    raise ValueError(
        f"local_model must be one of {KNOWN} or an object with init, predict and update "
        f"(oda_rl.estimators.regression.local_models.LocalModel), got {model!r}."
    )

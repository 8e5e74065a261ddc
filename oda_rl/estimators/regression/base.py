"""Base class of regressors with local models in cells: predictions and fitted attributes."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from oda_rl._types import Array
from oda_rl.estimators.base import StreamEstimator
from oda_rl.estimators.regression.predictor import cells_of
from oda_rl.estimators.regression.session import RegressionRun


class RegressionPoint(NamedTuple):
    """What was learned at one temperature: a record of `ODARegressor.history_`.

    `unexplained` is the mean squared error of predictions made before samples were learned, over the
    variance of the outputs. It is infinite if `fit` trains the models only at its end, because they have
    many parameters. `seconds` have been spent since the fit began.
    """

    temperature: float
    n_codevectors: int
    unexplained: float
    n_samples_seen: int
    seconds: float
    codevectors: Array


class CodebookRegressor(MultiOutputMixin, RegressorMixin, StreamEstimator):
    """Predictions and attributes of a `RegressionRun`; outputs are `_flat` if y was one-dimensional."""

    _run: RegressionRun
    _flat: bool

    def predict(self, X: ArrayLike, return_std: bool = False) -> Any:
        """Predict the outputs of samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.
        return_std : bool, default=False
            Whether to return standard deviations, too: of the noise about the prediction and the error
            of the prediction together, as measured in the cells.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs), or a tuple of two
            Predictions, of the shape of the training outputs; with `return_std`, also the deviations.
        """
        samples = self._check_again(X)
        found = self._run.predict(samples)
        mean = found[:, 0] if self._flat else found
        if not return_std:
            return mean
        std = self._run.deviations(samples)
        return mean, std[:, 0] if self._flat else std

    def association(self, X: ArrayLike) -> Array:
        """The shares of the cells in predictions of X (n_samples, n_features).

        The result has shape (n_samples, n_codevectors); rows sum to one.
        """
        inputs = self._check_again(X)
        if self._run.annealer is None or self._run.scaling is None:
            return np.ones((len(inputs), 1))
        return self._run.associations(self._run.in_distance(inputs))

    @property
    def history_(self) -> list[RegressionPoint]:
        """One record per finished temperature."""
        check_is_fitted(self, "codevectors_")
        return [
            RegressionPoint(
                p.temperature,
                p.n_codevectors,
                unexplained,
                p.n_samples_seen,
                p.seconds,
                self._run.in_data_units(p.codevectors),
            )
            for p, unexplained in zip(self._run.history, self._run.unexplained, strict=True)
        ]

    # -- inside ----------------------------------------------------------------------------------

    def _geometry(self) -> Any:
        return None if self._run.scaling is None else (self._divergence, self._run.in_distance)

    def _publish(self) -> None:
        self._set_counts()
        self._set_lazy_attributes()

    def _set_lazy_attributes(self) -> None:
        run = self._run
        self.codevectors_, self.weights_, values, slopes = cells_of(run)
        self.values_ = values[:, 0] if self._flat else values
        if slopes is None:
            self.__dict__.pop("coef_", None)
        else:
            self.coef_ = slopes[:, 0] if self._flat else slopes
        self.relevance_ = run.relevance
        self.softness_ = run.softness
        self.n_codevectors_ = len(self.codevectors_)

"""A regressor that has a codebook with local models: what it predicts and publishes."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from oda_rl._types import Array
from oda_rl.estimators.base import StreamEstimator
from oda_rl.estimators.regression.session import RegressionRun
from oda_rl.estimators.regression.settings import RegressionPoint


class CodebookRegressor(MultiOutputMixin, RegressorMixin, StreamEstimator):
    """What is asked of a `RegressionRun`; outputs are `_flat` if there was one column of them."""

    _run: RegressionRun
    _flat: bool

    def predict(self, X: ArrayLike, return_std: bool = False) -> Any:
        """The outputs of samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.
        return_std : bool, default=False
            Whether to tell, too, how far outputs may be from that: the noise about the prediction and
            its own error together, as the cells have seen them.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs), or a tuple of two
            As the outputs that were learned from; with `return_std`, these and standard deviations.
        """
        samples = self._check_again(X)
        found = self._run.predict(samples)
        mean = found[:, 0] if self._flat else found
        if not return_std:
            return mean
        std = self._run.deviations(samples)
        return mean, std[:, 0] if self._flat else std

    def association(self, X: ArrayLike) -> Array:
        """The share of every cell in predictions of X (n_samples, n_features).

        Of shape (n_samples, n_codevectors); rows sum to one.
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
        self._count()
        self._tell()

    def _count(self) -> None:
        run = self._run
        self.n_samples_seen_ = run.n_seen
        self.temperature_ = np.inf if run.annealer is None else run.annealer.temperature
        self.converged_ = run.annealer is not None and run.annealer.done

    def _tell(self) -> None:
        run = self._run
        self.codevectors_, self.weights_, values, slopes = run.published()
        self.values_ = values[:, 0] if self._flat else values
        if slopes is None:
            self.__dict__.pop("coef_", None)
        else:
            self.coef_ = slopes[:, 0] if self._flat else slopes
        self.relevance_ = run.relevance
        self.softness_ = run.softness
        self.n_codevectors_ = len(self.codevectors_)

"""What `ODARegressor` does with its run: checks, predictions, records, model files."""

from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from oda_rl._validation import check_at_least, check_non_negative
from oda_rl.codebook.divergences import get_divergence
from oda_rl.codebook.schedule import Cooling, Stepsize
from oda_rl.estimators.regression.files import load_run, save_run
from oda_rl.estimators.regression.local_models import LocalModel, check_local_model
from oda_rl.estimators.regression.session import ModelSettings, RegressionRun
from oda_rl.estimators.session import Settings
from oda_rl.storage import PathOrFile

Array = NDArray[np.float64]


class RegressionPoint(NamedTuple):
    """What was learned at one temperature: a record of `ODARegressor.history_`.

    `unexplained` is the mean squared error of predictions made before the samples were learned from,
    over the variance of the outputs; `seconds` have been spent since the fit began.
    """

    temperature: float
    n_codevectors: int
    unexplained: float
    n_samples_seen: int
    seconds: float
    codevectors: Array


class MixtureEstimator(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """A regressor that keeps a `RegressionRun`."""

    _run: RegressionRun
    _flat: bool

    # -- using -----------------------------------------------------------------------------------

    def predict(self, X: ArrayLike) -> Array:
        """The outputs of samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            As the outputs that were learned from.
        """
        check_is_fitted(self, "codevectors_")
        found = self._run.predict(validate_data(self, X, reset=False, dtype=np.float64, order="C"))
        return found[:, 0] if self._flat else found

    def association(self, X: ArrayLike) -> Array:
        """How much every cell says in a prediction.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_samples, n_codevectors)
            Rows sum to one.
        """
        check_is_fitted(self, "codevectors_")
        inputs = validate_data(self, X, reset=False, dtype=np.float64, order="C")
        if self._run.annealer is None or self._run.scaling is None:
            return np.ones((len(inputs), 1))
        scaled = self._run.scaling.standardise(inputs) * self.relevance_
        return self._run.associations(np.ascontiguousarray(scaled))

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

    # -- storing ---------------------------------------------------------------------------------

    def save(self, path: PathOrFile) -> Path | None:
        """Write the estimator to a model file: arrays and JSON, nothing that could be run.

        Of a local model of your own only the parameters of the cells are stored, not the object: give it
        to `load` again.

        Parameters
        ----------
        path : str, path or binary file
            Where to; `.npz` is appended to a name without a suffix.

        Returns
        -------
        Path or None
            The file; None for a binary file.
        """
        check_is_fitted(self, "codevectors_")
        return save_run(path, self)

    @classmethod
    def load(cls, path: PathOrFile, local_model: LocalModel | None = None) -> Self:
        """Read an estimator from a model file; `partial_fit` goes on exactly where it was.

        Parameters
        ----------
        path : str, path or binary file
            The file.
        local_model : LocalModel, optional
            Needed if the estimator was saved with a local model of the user's own.

        Returns
        -------
        ODARegressor

        Raises
        ------
        ValueError
            If the file is damaged or holds something else, or needs a local model that was not given.
        """
        model = cls()
        load_run(path, model, local_model)
        model._publish()
        return model

    # -- inside ----------------------------------------------------------------------------------

    def _settings(self) -> tuple[Settings, ModelSettings]:
        check_non_negative(output_weight=self.output_weight)
        check_at_least(0, pilot_rounds=self.pilot_rounds)
        for name in ("softness", "ridge"):
            value = getattr(self, name)
            if value != "auto" and (isinstance(value, str) or not 0.0 <= value < np.inf):
                raise ValueError(f"{name} must be a non-negative number or 'auto', got {value!r}.")
        own: dict[str, Any] = {
            "cooling": Cooling(self.cooling, self.schedule),
            "stepsize": Stepsize(*self.stepsize),
            "divergence": get_divergence("squared_euclidean"),
            "bifurcation": "critical",
            "target_distortion": None,
        }
        taken = {name: getattr(self, name) for name in Settings._fields if name not in own}
        settings = Settings(**taken, **own)
        settings._check()
        models = ModelSettings(
            check_local_model(self.local_model),
            self.output_weight,
            self.softness,
            self.ridge,
            self.pilot_rounds,
        )
        return settings, models

    def _begin(self, settings: Settings, models: ModelSettings, samples: Array) -> None:
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        d = self.n_features_in_
        self._run = RegressionRun(settings, models, d, samples.shape[1] - d, np.random.default_rng(seed))

    def _check(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, reset: bool
    ) -> tuple[Array, Array]:
        """Inputs and outputs side by side, and weights; samples of weight zero are left out."""
        inputs, outputs = validate_data(
            self, X, y, reset=reset, dtype=np.float64, multi_output=True, y_numeric=True
        )
        flat = outputs.ndim == 1
        outputs = outputs.reshape(len(inputs), -1).astype(np.float64)
        if reset:
            self._flat = flat
        elif outputs.shape[1] != self._run.n_outputs:
            raise ValueError(
                f"y must have as many outputs as before, {self._run.n_outputs}, got {outputs.shape[1]}."
            )
        weight = _check_sample_weight(
            sample_weight, inputs, dtype=np.float64, ensure_non_negative=True, copy=True
        )
        used = weight > 0.0
        if not used.any():
            raise ValueError("sample_weight must be positive for at least one sample.")
        return np.column_stack([inputs, outputs])[used], weight[used]

    def _publish(self) -> None:
        run = self._run
        self.codevectors_, self.weights_, values, slopes = run.published()
        self.values_ = values[:, 0] if self._flat else values
        if slopes is not None:
            self.coef_ = slopes[:, 0] if self._flat else slopes
        self.relevance_ = run.relevance
        self.softness_ = run.softness
        self.n_codevectors_ = len(self.codevectors_)
        self.n_samples_seen_ = run.n_seen
        self.temperature_ = np.inf if run.annealer is None else run.annealer.temperature
        self.converged_ = run.annealer is not None and run.annealer.done

"""Settings of a regressor beyond those of a partition, and its record of a temperature."""

from typing import Any, NamedTuple

from oda_rl._types import Array
from oda_rl.estimators.regression.local_models import LocalModel


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


class ModelSettings(NamedTuple):
    """Settings of a regressor beyond those of a partition."""

    local_model: str | LocalModel
    output_weight: float
    softness: float | str
    ridge: float | str
    pilot_rounds: int
    kernel: str | None

    @classmethod
    def of(cls, estimator: Any) -> "ModelSettings":
        """The settings of an estimator."""
        return cls(*(getattr(estimator, name) for name in cls._fields))

"""What a regressor adds to the settings of a partition, and what it tells of a temperature."""

from typing import Any, NamedTuple

from oda_rl._types import Array
from oda_rl.estimators.regression.local_models import LocalModel


class RegressionPoint(NamedTuple):
    """What was learned at one temperature: a record of `ODARegressor.history_`.

    `unexplained` is the mean squared error of predictions made before the samples were learned from,
    over the variance of the outputs, infinite where a fit learns models of very many numbers at its end
    alone; `seconds` have been spent since the fit began.
    """

    temperature: float
    n_codevectors: int
    unexplained: float
    n_samples_seen: int
    seconds: float
    codevectors: Array


class ModelSettings(NamedTuple):
    """What the regressor adds to the settings of the partition."""

    local_model: str | LocalModel
    output_weight: float
    softness: float | str
    ridge: float | str
    pilot_rounds: int
    kernel: str | None

    @classmethod
    def of(cls, estimator: Any) -> "ModelSettings":
        """Those of an estimator."""
        return cls(*(getattr(estimator, name) for name in cls._fields))

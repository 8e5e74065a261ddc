"""Progressive regression: local models in the cells of a codebook that grows."""

from oda_rl.estimators.regression.estimator import ODARegressor

__all__ = ["ODARegressor"]

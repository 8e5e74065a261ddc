"""Public import path for user-defined local models."""

from oda_rl.estimators.regression.local_models import LocalModel, Quadratic

__all__ = ["LocalModel", "Quadratic"]

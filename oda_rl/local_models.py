"""The public path of local models of a user"s own."""

from oda_rl.estimators.regression.local_models import LocalModel, Quadratic

__all__ = ["LocalModel", "Quadratic"]

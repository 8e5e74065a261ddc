"""The public path of the papers' algorithms as they are printed."""

from oda_rl.estimators.literal import LiteralClassifier, LiteralPoint, LiteralRegressor

__all__ = ["LiteralClassifier", "LiteralPoint", "LiteralRegressor"]

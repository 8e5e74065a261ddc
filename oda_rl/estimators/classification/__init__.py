"""Progressive classification: densities, votes or annealed LVQ of the classes' codebooks."""

from oda_rl.estimators.classification.estimator import ODAClassifier

__all__ = ["ODAClassifier"]

"""Kernel machines with adaptive hyperparameters, by functional stochastic gradients: POLK, BARRETTE."""

from oda_rl.rkhs.classifier import KernelSGDClassifier
from oda_rl.rkhs.regressor import KernelSGDRegressor

__all__ = ["KernelSGDClassifier", "KernelSGDRegressor"]

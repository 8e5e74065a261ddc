"""Kernel machines whose hyperparameters adapt: functional stochastic gradients, POLK and BARRETTE."""

from oda_rl.rkhs.classifier import KernelSGDClassifier
from oda_rl.rkhs.regressor import KernelSGDRegressor

__all__ = ["KernelSGDClassifier", "KernelSGDRegressor"]

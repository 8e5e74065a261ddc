"""Kernel machines with adaptive hyperparameters, by functional stochastic gradients: POLK, BARRETTE."""

from oda_rl.rkhs.estimators import KernelSGDClassifier, KernelSGDRegressor

__all__ = ["KernelSGDClassifier", "KernelSGDRegressor"]

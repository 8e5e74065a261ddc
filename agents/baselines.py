"""Public path of the baselines, their hyperparameters, and the presets for the classic tasks."""

from oda_rl.agents.learner import DivergenceError
from oda_rl.agents.linear_q.config import (
    PRESETS,
    FourierConfig,
    SOMConfig,
    TileCodingConfig,
    UniformGridConfig,
    preset,
)
from oda_rl.agents.sb3.baselines import SOMQ, FourierSarsa, TileCodingSarsa, UniformGridQ

__all__ = [
    "PRESETS",
    "SOMQ",
    "DivergenceError",
    "FourierConfig",
    "FourierSarsa",
    "SOMConfig",
    "TileCodingConfig",
    "TileCodingSarsa",
    "UniformGridConfig",
    "UniformGridQ",
    "preset",
]

"""The baselines of the papers and of the field, with the agent's training loop, logs and files."""

from oda_rl.agents.baselines.algorithms import SOMQ, FourierSarsa, TileCodingSarsa, UniformGridQ
from oda_rl.agents.baselines.config import (
    FourierConfig,
    SOMConfig,
    TileCodingConfig,
    UniformGridConfig,
)
from oda_rl.agents.baselines.learner import DivergenceError
from oda_rl.agents.baselines.presets import PRESETS, preset

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

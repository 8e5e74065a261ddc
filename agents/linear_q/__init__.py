"""The baselines of the papers and of the field, with the agent's training loop, logs and files."""

from oda_rl.agents.linear_q.config import FourierConfig, SOMConfig, TileCodingConfig, UniformGridConfig
from oda_rl.agents.linear_q.learner import DivergenceError
from oda_rl.agents.linear_q.presets import PRESETS, preset
from oda_rl.agents.sb3.linear_q import SOMQ, FourierSarsa, TileCodingSarsa, UniformGridQ

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

"""The public path of the baselines."""

from oda_rl.agents.linear_q import (
    PRESETS,
    SOMQ,
    DivergenceError,
    FourierConfig,
    FourierSarsa,
    SOMConfig,
    TileCodingConfig,
    TileCodingSarsa,
    UniformGridConfig,
    UniformGridQ,
    preset,
)

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

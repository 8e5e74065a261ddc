"""Agents with the interface of Stable-Baselines3."""

try:
    import stable_baselines3  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "the agents need Stable-Baselines3; install them with: pip install 'oda_rl[agents]'"
    ) from error

from oda_rl.agents.config import TwoTimescaleConfig
from oda_rl.agents.learner import BadTransitionError
from oda_rl.agents.linear_q import SOMQ, FourierSarsa, TileCodingSarsa, UniformGridQ
from oda_rl.agents.sb3.kernel_q import KernelQ
from oda_rl.agents.sb3.two_timescale import TwoTimescaleQ

__all__ = [
    "SOMQ",
    "BadTransitionError",
    "FourierSarsa",
    "KernelQ",
    "TileCodingSarsa",
    "TwoTimescaleConfig",
    "TwoTimescaleQ",
    "UniformGridQ",
]

"""Agents with the interface of Stable-Baselines3. Each name is imported on first use."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from oda_rl._lazy import lazy_names

if find_spec("stable_baselines3") is None:
    raise ModuleNotFoundError(
        "the agents need Stable-Baselines3; install them with: pip install 'oda_rl[agents]'"
    )

if TYPE_CHECKING:
    from oda_rl.agents.config import TwoTimescaleACConfig, TwoTimescaleConfig
    from oda_rl.agents.distill.policy import DistilledPolicy
    from oda_rl.agents.learner import BadTransitionError
    from oda_rl.agents.sb3.agents import TwoTimescaleAC, TwoTimescaleQ
    from oda_rl.agents.sb3.baselines import SOMQ, FourierSarsa, KernelQ, TileCodingSarsa, UniformGridQ

__all__ = [
    "SOMQ",
    "BadTransitionError",
    "DistilledPolicy",
    "FourierSarsa",
    "KernelQ",
    "TileCodingSarsa",
    "TwoTimescaleAC",
    "TwoTimescaleACConfig",
    "TwoTimescaleConfig",
    "TwoTimescaleQ",
    "UniformGridQ",
]

_HOMES = {
    "config": ("TwoTimescaleACConfig", "TwoTimescaleConfig"),
    "distill.policy": ("DistilledPolicy",),
    "learner": ("BadTransitionError",),
    "sb3.agents": ("TwoTimescaleAC", "TwoTimescaleQ"),
    "sb3.baselines": ("SOMQ", "FourierSarsa", "KernelQ", "TileCodingSarsa", "UniformGridQ"),
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)

"""Agents with the interface of Stable-Baselines3. Each name is imported on first use."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

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

_HOME = {
    "BadTransitionError": "learner",
    "DistilledPolicy": "distill.policy",
    "TwoTimescaleAC": "sb3.agents",
    "TwoTimescaleACConfig": "config",
    "TwoTimescaleConfig": "config",
    "TwoTimescaleQ": "sb3.agents",
}


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module(f"oda_rl.agents.{_HOME.get(name, 'sb3.baselines')}"), name)
    raise AttributeError(f"module 'oda_rl.agents' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

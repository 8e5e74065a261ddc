"""Small, readable policies: distil any policy into a table, shrink it, polish it. Imported on use."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oda_rl.agents.distill.dagger import distill
    from oda_rl.agents.distill.policy import DistilledConfig
    from oda_rl.agents.distill.polishing import polish
    from oda_rl.agents.distill.shrinking import Front, shrink

__all__ = ["DistilledConfig", "Front", "distill", "polish", "shrink"]

_HOME = {
    "DistilledConfig": "policy",
    "Front": "shrinking",
    "distill": "dagger",
    "polish": "polishing",
    "shrink": "shrinking",
}


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module(f"oda_rl.agents.distill.{_HOME[name]}"), name)
    raise AttributeError(f"module 'oda_rl.agents.distill' has no attribute {name!r}")

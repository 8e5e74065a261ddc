"""Small, readable policies: distil any policy into a table, shrink it, polish it. Imported on use."""

from typing import TYPE_CHECKING

from oda_rl._lazy import lazy_names

if TYPE_CHECKING:
    from oda_rl.agents.distill.dagger import distill
    from oda_rl.agents.distill.policy import DistilledConfig
    from oda_rl.agents.distill.polishing import polish
    from oda_rl.agents.distill.shrinking import Front, shrink

__all__ = ["DistilledConfig", "Front", "distill", "polish", "shrink"]

_HOMES = {
    "dagger": ("distill",),
    "policy": ("DistilledConfig",),
    "polishing": ("polish",),
    "shrinking": ("Front", "shrink"),
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)

"""Small, fast, readable learning with codebooks that grow by online deterministic annealing.

The core partitions a data space and does not depend on reinforcement learning; the agents are in
`oda_rl.agents`, the environments in `oda_rl.envs`. Names are imported when they are first used.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oda_rl.codebook.annealer import Annealer
    from oda_rl.codebook.book import Codebook
    from oda_rl.codebook.divergences import get_divergence
    from oda_rl.codebook.schedule import Cooling, Stepsize
    from oda_rl.estimators.classification import ODAClassifier
    from oda_rl.estimators.partition import ODAPartition
    from oda_rl.estimators.regression import ODARegressor
    from oda_rl.estimators.tree import MultiResolutionODA
    from oda_rl.rkhs import KernelSGDClassifier, KernelSGDRegressor

__all__ = [
    "Annealer",
    "Codebook",
    "Cooling",
    "KernelSGDClassifier",
    "KernelSGDRegressor",
    "MultiResolutionODA",
    "ODAClassifier",
    "ODAPartition",
    "ODARegressor",
    "Stepsize",
    "get_divergence",
]

try:
    __version__ = version("oda_rl")
except PackageNotFoundError:  # running from a source tree that was never installed
    __version__ = "0.0.0"

_HOME = {
    "Annealer": "codebook",
    "Codebook": "codebook",
    "Cooling": "codebook",
    "KernelSGDClassifier": "rkhs",
    "KernelSGDRegressor": "rkhs",
    "MultiResolutionODA": "estimators.tree",
    "ODAClassifier": "estimators.classification",
    "ODAPartition": "estimators.partition",
    "ODARegressor": "estimators.regression",
    "Stepsize": "codebook",
    "get_divergence": "codebook",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"oda_rl.{_HOME[name]}"), name)
    raise AttributeError(f"module 'oda_rl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

"""Small, fast, readable learning with codebooks that grow by online deterministic annealing.

The core partitions a data space and knows nothing of reinforcement learning; the agents are in
`oda_rl.agents`, the environments in `oda_rl.envs`. Names are imported when they are first used.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oda_rl.annealing import Annealer
    from oda_rl.classification import ODAClassifier
    from oda_rl.codebook import Codebook
    from oda_rl.divergences import get_divergence
    from oda_rl.multiresolution import MultiResolutionODA
    from oda_rl.partition import ODAPartition
    from oda_rl.regression import ODARegressor
    from oda_rl.rkhs import KernelSGDClassifier, KernelSGDRegressor
    from oda_rl.schedule import Cooling, Stepsize

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
    "Annealer": "annealing",
    "Codebook": "codebook",
    "Cooling": "schedule",
    "KernelSGDClassifier": "rkhs",
    "KernelSGDRegressor": "rkhs",
    "MultiResolutionODA": "multiresolution",
    "ODAClassifier": "classification",
    "ODAPartition": "partition",
    "ODARegressor": "regression",
    "Stepsize": "schedule",
    "get_divergence": "divergences",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"oda_rl.{_HOME[name]}"), name)
    raise AttributeError(f"module 'oda_rl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

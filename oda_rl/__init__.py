"""Small, fast, readable learning with codebooks that grow by online deterministic annealing.

The core partitions a data space and does not depend on reinforcement learning; the agents are in
`oda_rl.agents`, the environments in `oda_rl.envs`. Names are imported when they are first used.
"""

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from oda_rl._lazy import lazy_names

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

_HOMES = {
    "codebook": ("Annealer", "Codebook", "Cooling", "Stepsize", "get_divergence"),
    "estimators.classification": ("ODAClassifier",),
    "estimators.partition": ("ODAPartition",),
    "estimators.regression": ("ODARegressor",),
    "estimators.tree": ("MultiResolutionODA",),
    "rkhs": ("KernelSGDClassifier", "KernelSGDRegressor"),
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)

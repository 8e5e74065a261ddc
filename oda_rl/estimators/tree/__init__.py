"""Trees of cells at several resolutions, built over any of the estimators."""

from oda_rl.estimators.tree.cells import Cell
from oda_rl.estimators.tree.estimator import MultiResolutionODA
from oda_rl.estimators.tree.growth import GrowthPoint
from oda_rl.estimators.tree.settings import Layer
from oda_rl.estimators.tree.tree import Tree

__all__ = ["Cell", "GrowthPoint", "Layer", "MultiResolutionODA", "Tree"]

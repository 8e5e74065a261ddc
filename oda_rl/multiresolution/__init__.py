"""Trees of cells at several resolutions, over any of the estimators."""

from oda_rl.multiresolution.estimator import MultiResolutionODA
from oda_rl.multiresolution.growth import GrowthPoint
from oda_rl.multiresolution.layers import Layer
from oda_rl.multiresolution.tree import Cell, Tree

__all__ = ["Cell", "GrowthPoint", "Layer", "MultiResolutionODA", "Tree"]

"""Public import path of trees of cells."""

from oda_rl.estimators.tree import Cell, GrowthPoint, Layer, MultiResolutionODA, Tree

__all__ = ["Cell", "GrowthPoint", "Layer", "MultiResolutionODA", "Tree"]

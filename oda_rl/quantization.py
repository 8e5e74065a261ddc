"""The public path of the papers' own points of comparison."""

from oda_rl.estimators.quantization import LVQ, DeterministicAnnealing, Pass, StochasticVQ

__all__ = ["LVQ", "DeterministicAnnealing", "Pass", "StochasticVQ"]

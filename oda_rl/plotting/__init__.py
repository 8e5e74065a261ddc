"""Plots of estimators and agents, and of the progress of their training. Needs matplotlib.

The functions return the matplotlib axes that they have drawn on. All but `plot_learning_curve` take any
estimator of the package, any agent of `oda_rl.agents`, or a view.
"""

from oda_rl.inspect.model import View, view_of
from oda_rl.plotting.animations import animate_codebook
from oda_rl.plotting.curves import plot_annealing, plot_learning_curve
from oda_rl.plotting.maps import plot_codebook, plot_partition, plot_policy_map, plot_value_map

__all__ = [
    "View",
    "animate_codebook",
    "plot_annealing",
    "plot_codebook",
    "plot_learning_curve",
    "plot_partition",
    "plot_policy_map",
    "plot_value_map",
    "view_of",
]

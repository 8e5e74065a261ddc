"""Trees of all kinds, and what they are to learn."""

import numpy as np
from sklearn.base import clone

from oda_rl import MultiResolutionODA, ODAClassifier, ODAPartition, ODARegressor
from oda_rl.datasets import make_gaussians

TEMPLATES = {
    "clusterer": ODAPartition(samples_per_cell=10),
    "bayes": ODAClassifier(),
    "nearest": ODAClassifier(rule="nearest"),
    "linear": ODARegressor(),
    "constant": ODARegressor(local_model="constant"),
}


def problem(name, n=600, seed=0):
    """Samples in the plane and targets that suit a template."""
    X, component = make_gaussians(n, n_components=8, scale=0.12, seed=seed)
    if name in ("linear", "constant"):
        return X, np.sin(3.0 * X[:, 0]) + X[:, 1] ** 2
    return X, component % 2


def made(name, **options):
    """A tree with `options`, of which those of the template begin with "estimator__"."""
    return MultiResolutionODA(clone(TEMPLATES[name]), random_state=0).set_params(**options)

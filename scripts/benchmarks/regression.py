"""Regression, against a tree with as many leaves as there are cells: errors and seconds."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from sklearn.datasets import load_diabetes, make_friedman1, make_friedman2, make_friedman3
from sklearn.model_selection import KFold
from sklearn.tree import DecisionTreeRegressor

from common.measuring import timed
from common.tables import show_table
from oda_rl import ODARegressor
from oda_rl._types import Array
from oda_rl.datasets import make_curve, make_surface

N_SAMPLES = 1500
FOLDS = 5
MAX_CODEVECTORS = 60
LOCAL_MODELS = ("constant", "linear")
# Makes samples and outputs, given a seed.
Make = Callable[[int], tuple[Array, Array]]


class Result(NamedTuple):
    """Results of one fold; errors are ours and that of the tree."""

    error: float
    tree: float
    seconds: float
    n_codevectors: int


def _friedman(make: Callable[..., tuple[Array, Array]], noise: float = 0.0) -> Make:
    return lambda seed: make(N_SAMPLES, noise=noise, random_state=seed)


PROBLEMS: dict[str, Make] = {
    "1-D": lambda seed: make_curve(N_SAMPLES, seed),
    "2-D": lambda seed: make_surface(N_SAMPLES, seed),
    "diabetes": lambda seed: load_diabetes(return_X_y=True),
    "friedman1": _friedman(make_friedman1),
    "friedman1, noise 1": _friedman(make_friedman1, 1.0),
    "friedman2": _friedman(make_friedman2),
    "friedman3": _friedman(make_friedman3),
}


def measure(make: Make, seeds: range, local_model: str) -> list[Result]:
    """Mean squared errors on the test folds, and of a tree with as many leaves as there are cells."""
    results = []
    for seed in seeds:
        X, y = make(seed)
        for train, test in KFold(FOLDS, shuffle=True, random_state=seed).split(X):
            own: dict[str, Any] = {"local_model": local_model, "random_state": seed}
            # cells alone, comparable with leaves
            model = ODARegressor(MAX_CODEVECTORS, kernel=None, **own)
            _, seconds = timed(model.fit, X[train], y[train])
            tree = DecisionTreeRegressor(
                max_leaf_nodes=max(2, model.n_codevectors_), random_state=seed
            ).fit(X[train], y[train])
            errors = (float(((m.predict(X[test]) - y[test]) ** 2).mean()) for m in (model, tree))
            results.append(Result(*errors, seconds, model.n_codevectors_))
    return results


def _row(name: str, results: list[list[Result]]) -> list[str]:
    first = results[0]
    cells = [name, f"{np.mean([r.n_codevectors for r in first]):.0f}"]
    cells.append(f"{np.mean([r.tree for r in first]):.4g}")
    for found in results:
        error = np.mean([r.error for r in found])
        ratio = error / np.mean([r.tree for r in found])
        cells += [f"{error:.4g}", f"{ratio:.3f}", f"{np.mean([r.seconds for r in found]):.2f}"]
    return cells


def show_regression(console: Console, seeds: range = range(5)) -> None:
    """Print the table of constant and linear models, with a cross-validated softness."""
    warm = np.random.default_rng(0).normal(size=(200, 2))
    for name in LOCAL_MODELS:
        ODARegressor(5, local_model=name, random_state=0).fit(warm, warm[:, 0])
    rows = [
        _row(name, [measure(make, seeds, model) for model in LOCAL_MODELS])
        for name, make in PROBLEMS.items()
    ]
    title = (
        f"Mean squared error, {FOLDS}-fold, seeds {seeds.start} to {seeds.stop - 1}; ratio to that of a "
        "tree with as many leaves"
    )
    columns = ("data", "K", "tree", *(c for name in LOCAL_MODELS for c in (name, "ratio", "s")))
    show_table(console, title, columns, rows)

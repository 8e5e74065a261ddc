"""Regression, against a tree with as many leaves as there are cells: errors, seconds, streams."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from sklearn.datasets import load_diabetes, make_friedman1, make_friedman2, make_friedman3
from sklearn.model_selection import KFold
from sklearn.tree import DecisionTreeRegressor

from common.measuring import passes_over, timed
from common.tables import show_table
from oda_rl import ODARegressor
from oda_rl._types import Array
from oda_rl.datasets import make_curve, make_surface

N_SAMPLES = 1500
FOLDS = 5
MAX_CODEVECTORS = 60
# Diabetes once more, with more cells than it can use.
MANY_CODEVECTORS = 200
LOCAL_MODELS = ("constant", "linear")
# Passes of a stream over the samples.
PASSES = 20


class Problem(NamedTuple):
    """A name, the most codevectors, and a function from a seed to samples and outputs."""

    name: str
    max_codevectors: int
    make: Callable[[int], tuple[Array, Array]]


class Result(NamedTuple):
    """Results of one fold; errors are ours and that of the tree."""

    error: float
    tree: float
    seconds: float
    n_codevectors: int


def _friedman(
    make: Callable[..., tuple[Array, Array]], noise: float = 0.0
) -> Callable[[int], tuple[Array, Array]]:
    return lambda seed: make(N_SAMPLES, noise=noise, random_state=seed)


def _diabetes(_: int) -> tuple[Array, Array]:
    return load_diabetes(return_X_y=True)  # type: ignore[no-any-return]


PROBLEMS = (
    Problem("1-D", MAX_CODEVECTORS, lambda seed: make_curve(N_SAMPLES, seed)),
    Problem("2-D", MAX_CODEVECTORS, lambda seed: make_surface(N_SAMPLES, seed)),
    Problem("diabetes", MAX_CODEVECTORS, _diabetes),
    Problem("diabetes", MANY_CODEVECTORS, _diabetes),
    Problem("friedman1", MAX_CODEVECTORS, _friedman(make_friedman1)),
    Problem("friedman1, noise 1", MAX_CODEVECTORS, _friedman(make_friedman1, 1.0)),
    Problem("friedman2", MAX_CODEVECTORS, _friedman(make_friedman2)),
    Problem("friedman3", MAX_CODEVECTORS, _friedman(make_friedman3)),
)


def folds(problem: Problem, seed: int) -> Iterator[tuple[Array, Array, Array, Array]]:
    """Yield training inputs and outputs, and test inputs and outputs, of each fold."""
    X, y = problem.make(seed)
    for train, test in KFold(FOLDS, shuffle=True, random_state=seed).split(X):
        yield X[train], y[train], X[test], y[test]


def measure(problem: Problem, seeds: range, stream: bool = False, **parameters: Any) -> list[Result]:
    """Mean squared errors on the test folds, and of a tree with as many leaves as there are cells."""
    results = []
    for seed in seeds:
        for X, y, X_test, y_test in folds(problem, seed):
            own = {"random_state": seed, "kernel": None}  # cells alone, comparable with leaves
            model = ODARegressor(problem.max_codevectors, **own, **parameters)
            seconds = (
                sum(passes_over(model, PASSES, seed, X, y)) if stream else timed(model.fit, X, y)[1]
            )
            leaves = max(2, model.n_codevectors_)
            tree = DecisionTreeRegressor(max_leaf_nodes=leaves, random_state=seed).fit(X, y)
            errors = (float(((m.predict(X_test) - y_test) ** 2).mean()) for m in (model, tree))
            results.append(Result(*errors, seconds, model.n_codevectors_))
    return results


def _row(problem: Problem, results: dict[str, list[Result]]) -> list[str]:
    first = results["constant"]
    cells = [problem.name, f"{np.mean([r.n_codevectors for r in first]):.0f}"]
    cells.append(f"{np.mean([r.tree for r in first]):.4g}")
    for found in results.values():
        error = np.mean([r.error for r in found])
        ratio = error / np.mean([r.tree for r in found])
        cells += [f"{error:.4g}", f"{ratio:.3f}", f"{np.mean([r.seconds for r in found]):.2f}"]
    return cells


def show_regression(console: Console, seeds: range = range(5)) -> None:
    """Print tables of constant and linear models, with a cross-validated softness and a fixed one."""
    warm = np.random.default_rng(0).normal(size=(200, 2))
    for name in LOCAL_MODELS:
        ODARegressor(5, local_model=name, random_state=0).fit(warm, warm[:, 0])
    when = f"{FOLDS}-fold, seeds {seeds.start} to {seeds.stop - 1}"
    title = f"Mean squared error, {when}; ratio to that of a tree with as many leaves"
    _show(console, title, seeds)
    _show(console, f"The same with softness=1, {when}", seeds, softness=1.0)


def show_regression_stream(console: Console, seeds: range = range(5)) -> None:
    """Print the table of constant and linear models that learn from a stream of samples."""
    title = f"Mean squared error from a stream, {PASSES} passes; ratio to a tree"
    _show(console, title, seeds, stream=True)


def _show(console: Console, title: str, seeds: range, **options: Any) -> None:
    rows = []
    for problem in PROBLEMS:
        results = {name: measure(problem, seeds, local_model=name, **options) for name in LOCAL_MODELS}
        rows.append(_row(problem, results))
    columns = ("data", "K", "tree", *(c for name in LOCAL_MODELS for c in (name, "ratio", "s")))
    show_table(console, title, columns, rows)

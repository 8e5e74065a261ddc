"""Public import path of model inspection: text, rules, tables, explanations and pictures."""

from collections.abc import Sequence
from typing import Any

from oda_rl.inspect.contributions import (
    Contribution,
    Counterfactual,
    Explanation,
    PathExplanation,
    Step,
    explain,
)
from oda_rl.inspect.table import Table
from oda_rl.inspect.text import rules, rules_text, tree_text
from oda_rl.inspect.trees import CellReport, errors, report
from oda_rl.plotting.trees import plot_path, plot_tree

__all__ = [
    "CellReport",
    "Contribution",
    "Counterfactual",
    "Explanation",
    "PathExplanation",
    "Step",
    "Table",
    "errors",
    "explain",
    "plot_path",
    "plot_tree",
    "report",
    "rules",
    "rules_text",
    "table",
    "tree_text",
]


def table(model: Any, feature_names: Sequence[str] | None = None, all_cells: bool = False) -> Table:
    """The cells of a fitted estimator, column by column, as its method `cells` returns them.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from oda_rl import ODAPartition
    >>> from oda_rl.explain import table
    >>> model = ODAPartition(3, random_state=0).fit(load_iris().data)
    >>> list(table(model, ["a", "b", "c", "d"]))
    ['cell', 'weight', 'a', 'b', 'c', 'd']
    """
    if not hasattr(model, "cells"):
        raise TypeError(f"model must be an estimator with cells, got {type(model).__name__}.")
    found: Table = model.cells(feature_names, all_cells)
    return found

"""The public path of reading models: text, rules, tables, explanations and pictures."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from oda_rl.inspect.contributions import Contribution, Explanation, PathExplanation, Step, explain
from oda_rl.inspect.counterfactuals import Counterfactual
from oda_rl.inspect.pictures import plot_path, plot_tree
from oda_rl.inspect.table import Table
from oda_rl.inspect.text import rules, rules_text, tree_text
from oda_rl.inspect.trees import CellReport, errors, report

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
    "to_csv",
    "to_pandas",
    "tree_text",
]


def table(model: Any, feature_names: Sequence[str] | None = None, all_cells: bool = False) -> Table:
    """The cells of a model, column by column: its own `cells`.

    Parameters
    ----------
    model : ODAPartition, ODAClassifier, ODARegressor, MultiResolutionODA or of `oda_rl.quantization`
        Fitted.
    feature_names : sequence of str, optional
        What features are called.
    all_cells : bool, default=False
        Of a tree, whether cells that are split have a row, too; the root has one then.

    Returns
    -------
    Table
        A mapping of the columns; print it, or write it with its `to_markdown`, `to_csv`, `to_pandas`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from oda_rl import ODAPartition
    >>> from oda_rl.explain import table
    >>> model = ODAPartition(3, random_state=0).fit(load_iris().data)
    >>> list(table(model, ["a", "b", "c", "d"]))
    ['cell', 'weight', 'a', 'b', 'c', 'd']
    """
    found: Table = model.cells(feature_names, all_cells)
    return found


def to_csv(
    model: Any,
    path: str | os.PathLike[str],
    feature_names: Sequence[str] | None = None,
    all_cells: bool = False,
) -> Path:
    """Write the cells of a model as a CSV file with a header.

    Parameters
    ----------
    model, feature_names, all_cells
        As for `table`.
    path : path
        Where to.

    Returns
    -------
    Path
        The file.
    """
    return table(model, feature_names, all_cells).to_csv(path)


def to_pandas(model: Any, feature_names: Sequence[str] | None = None, all_cells: bool = False) -> Any:
    """The cells of a model as a data frame, indexed by cell. Needs pandas.

    Parameters
    ----------
    model, feature_names, all_cells
        As for `table`.

    Returns
    -------
    pandas.DataFrame
    """
    return table(model, feature_names, all_cells).to_pandas("cell")

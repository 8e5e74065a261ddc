"""Codebooks as tables: one row for each codevector."""

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from oda_rl.estimators.tree import MultiResolutionODA
from oda_rl.inspect.cells import report
from oda_rl.inspect.words import feature_names_of
from oda_rl.storage import written_whole


def table(
    model: Any, feature_names: Sequence[str] | None = None, all_cells: bool = False
) -> dict[str, NDArray[Any]]:
    """The codebook of an estimator, column by column.

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
    dict of str to ndarray of shape (n_codevectors,)
        `cell` (a number, or the name of a tree's cell), `weight`, `label` or `value` where there are
        any, and a column for each feature, in the units of the data; of a tree also `samples`, `error`,
        `share_of_error` and `children`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from oda_rl import ODAPartition
    >>> from oda_rl.inspect import table
    >>> model = ODAPartition(3, random_state=0).fit(load_iris().data)
    >>> list(table(model, ["a", "b", "c", "d"]))
    ['cell', 'weight', 'a', 'b', 'c', 'd']
    """
    names = feature_names_of(model, feature_names)
    if isinstance(model, MultiResolutionODA):
        return _tree_table(model, names, all_cells)
    check_is_fitted(model, "codevectors_")
    columns: dict[str, NDArray[Any]] = {"cell": np.arange(len(model.codevectors_))}
    if hasattr(model, "weights_"):
        columns["weight"] = model.weights_
    if hasattr(model, "classes_"):
        columns["label"] = model.codevector_labels_
    if hasattr(model, "values_"):
        columns |= _values(model.values_)
    return columns | {name: model.codevectors_[:, j] for j, name in enumerate(names)}


def to_csv(
    model: Any,
    path: str | os.PathLike[str],
    feature_names: Sequence[str] | None = None,
    all_cells: bool = False,
) -> Path:
    """Write the codebook of an estimator as a CSV file with a header.

    Parameters
    ----------
    model : estimator
        As for `table`.
    path : path
        Where to.
    feature_names, all_cells
        As for `table`.

    Returns
    -------
    Path
        The file.
    """
    columns = table(model, feature_names, all_cells)
    with written_whole(path) as temporary, temporary.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
    return Path(path)


def to_pandas(model: Any, feature_names: Sequence[str] | None = None, all_cells: bool = False) -> Any:
    """The codebook of an estimator as a data frame, indexed by cell. Needs pandas.

    Parameters
    ----------
    model : estimator
        As for `table`.
    feature_names, all_cells
        As for `table`.

    Returns
    -------
    pandas.DataFrame
    """
    try:
        import pandas
    except ImportError as error:
        raise ImportError("to_pandas needs pandas: pip install pandas, or use to_csv.") from error
    return pandas.DataFrame(table(model, feature_names, all_cells)).set_index("cell")


def _tree_table(
    model: MultiResolutionODA, names: Sequence[str], all_cells: bool
) -> dict[str, NDArray[Any]]:
    rows = [one for one in report(model) if all_cells or one.n_children == 0]
    columns: dict[str, NDArray[Any]] = {
        "cell": np.array([one.name for one in rows]),
        "weight": np.array([one.weight for one in rows]),
    }
    decisions = np.array([one.decision for one in rows])
    if hasattr(model, "classes_"):
        columns["label"] = decisions
    elif rows[0].decision is not None:
        columns |= _values(decisions)
    columns |= {
        "samples": np.array([one.n_samples for one in rows]),
        "error": np.array([one.error for one in rows]),
        "share_of_error": np.array([one.share_of_error for one in rows]),
        "children": np.array([one.n_children for one in rows]),
    }
    codevectors = np.array([one.codevector for one in rows])
    return columns | {name: codevectors[:, j] for j, name in enumerate(names)}


def _values(values: NDArray[Any]) -> dict[str, NDArray[Any]]:
    if values.ndim == 1:
        return {"value": values}
    return {f"value[{k}]": values[:, k] for k in range(values.shape[1])}

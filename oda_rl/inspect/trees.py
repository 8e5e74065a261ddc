"""The cells of a tree as records and as a table, and the leaves with the largest errors."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oda_rl._types import Array
from oda_rl._validation import check_at_least
from oda_rl.inspect.model import call_unnamed, feature_names_of, value_columns
from oda_rl.inspect.table import Table, counted

if TYPE_CHECKING:
    from oda_rl.estimators.tree import Cell, MultiResolutionODA
    from oda_rl.estimators.tree.tree import Tree


@dataclass(frozen=True, eq=False)
class CellReport:
    """Report of one cell of a tree.

    Attributes
    ----------
    name : str
        Path of the cell from the root ("0").
    layer : int
        Number of layers above the cell.
    codevector : ndarray of shape (n_features,)
        Mean of the samples in the cell, in the units of the data.
    weight, n_samples : float, int
        Share (by weight) and number of the samples that pass through the cell.
    decision : object
        The class that most samples in the cell have; or the output that is predicted at the codevector
        if the tree ends at the cell; or None for a partition.
    error : float
        Error of the predictions in the leaves below, per sample that passes through: the share of wrong
        classes, the mean squared error (with several outputs their sum, in units of their variances), or
        the mean divergence.
    share_of_error : float
        Share of the error of the whole tree.
    n_children : int
        Number of children; 0 for a leaf.
    temperature : float
        Temperature at which the annealing of the children ended; NaN for a leaf.
    """

    name: str
    layer: int
    codevector: Array
    weight: float
    n_samples: int
    decision: Any
    error: float
    share_of_error: float
    n_children: int
    temperature: float


def tree_of(model: "MultiResolutionODA") -> "Tree":
    """The tree of a fitted model; raises a ValueError if the model has none."""
    if not hasattr(type(model), "tree_"):
        raise ValueError(
            f"model must be a MultiResolutionODA, got {type(model).__name__}, which has no tree; use "
            "oda_rl.explain.table to list its cells."
        )
    return model.tree_


def report(model: "MultiResolutionODA", cell: Any = "0", depth: int | None = None) -> list[CellReport]:
    """Reports of a cell and all cells below it, parents before their children.

    Parameters
    ----------
    model : MultiResolutionODA
        A fitted tree.
    cell : str, default="0"
        Name of the topmost cell.
    depth : int, optional
        Largest number of layers below that cell; all if None.

    Returns
    -------
    list of CellReport
        The errors are those of `predict` on the training samples. After `partial_fit`, which does not
        keep these, they are exact for outputs, unless linear models of several resolutions are combined;
        those of classes then are the shares of the samples that have another class than their leaf.

    Raises
    ------
    ValueError
        If there is no such cell, or the model is not a tree.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from oda_rl import MultiResolutionODA, ODAClassifier
    >>> from oda_rl.explain import report
    >>> model = MultiResolutionODA(ODAClassifier(), random_state=0).fit(*load_iris(return_X_y=True))
    >>> root, *cells = report(model, depth=1)
    >>> root.name, root.n_samples, round(sum(cell.weight for cell in cells), 6)
    ('0', 150, 1.0)
    """
    tree = tree_of(model)
    root = tree.cell(cell)
    found: list[Cell] = []

    def visit(at: "Cell") -> None:
        found.append(at)
        if depth is None or at.layer - root.layer < depth:
            for child in tree.children(at):
                visit(child)

    visit(root)
    return reports_of(model, found)


def errors(
    model: "MultiResolutionODA",
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    n: int | None = 10,
) -> list[CellReport]:
    """The leaves with the largest shares of the error, worst first.

    Parameters
    ----------
    model : MultiResolutionODA
        A fitted tree.
    X, y : array-like, optional
        Samples on which to compute the errors instead of the training samples. Partitions need no y.
    n : int or None, default=10
        Largest number of leaves; None for all.

    Returns
    -------
    list of CellReport
        Leaves that have errors; pass their names to `MultiResolutionODA.refine`. With X given,
        `n_samples`, `weight`, `error` and `share_of_error` are those of X.

    Raises
    ------
    ValueError
        If y is missing or has another shape than in `fit`, or classes that were not in it; if n is not
        a positive integer; or if the model is not a tree.
    """
    if n is not None:
        check_at_least(1, n=n)
    leaves = [one for one in report(model) if one.n_children == 0]
    if X is not None:
        samples = np.asarray(X, dtype=np.float64)
        at, each = call_unnamed(model.apply, samples), _errors_of_samples(model, samples, y)
        count, loss = np.bincount(at, minlength=len(leaves)), np.bincount(at, each, len(leaves))
        total = max(float(loss.sum()), 1e-300)
        leaves = [  # `apply` numbers the leaves in the same order as `report`
            replace(
                leaf,
                weight=count[i] / len(samples),
                n_samples=int(count[i]),
                error=float(loss[i]) / max(1, count[i]),
                share_of_error=float(loss[i]) / total,
            )
            for i, leaf in enumerate(leaves)
        ]
    leaves = [one for one in leaves if one.share_of_error > 0.0]
    leaves.sort(key=lambda one: (-one.share_of_error, one.name))
    return leaves[:n]


def tree_table(
    model: "MultiResolutionODA", feature_names: Sequence[str] | None = None, all_cells: bool = False
) -> Table:
    """The leaves of a tree, or all of its cells, as a table; see `InspectMixin.cells`."""
    names = feature_names_of(model, feature_names)
    rows = [one for one in report(model) if all_cells or one.n_children == 0]

    def column(field: str) -> NDArray[Any]:
        return np.array([getattr(one, field) for one in rows])

    columns: dict[str, Any] = {"cell": column("name"), "weight": column("weight")}
    kind = model._session.settings.kind
    if kind == "classifier":
        columns["label"] = column("decision")
    elif kind == "regressor":
        columns |= value_columns(column("decision"))
    columns |= {"samples": column("n_samples"), "error": column("error")}
    columns |= {"share_of_error": column("share_of_error"), "children": column("n_children")}
    columns |= dict(zip(names, column("codevector").T, strict=True))
    return Table(f"{type(model).__name__}: {counted(len(rows), 'cell')}", columns)


def reports_of(model: "MultiResolutionODA", cells: Sequence["Cell"]) -> list[CellReport]:
    """The reports of some cells of a fitted tree."""
    losses, decisions = _losses_below(model), _decisions_of(model, cells)
    return [_report_of(model, *pair, losses) for pair in zip(cells, decisions, strict=True)]


def _report_of(
    model: "MultiResolutionODA", cell: "Cell", decision: Any, losses: list[Array]
) -> CellReport:
    tree = model.tree_
    cells, i = tree.layers[cell.layer], cell.number
    loss, total = float(losses[cell.layer][i]), float(losses[0][0])
    return CellReport(
        name=tree.name(cell),
        layer=cell.layer,
        codevector=tree.codevectors(cell),
        weight=float(cells.mass[i] / tree.layers[0].mass[0]),
        n_samples=int(cells.support[i]),
        decision=decision,
        error=loss / max(float(cells.mass[i]), 1e-300) * model._squared_unit,
        share_of_error=loss / total if total > 0.0 else 0.0,
        n_children=int(cells.count[i]),
        temperature=float(cells.temperature[i]) if cells.count[i] > 0 else float("nan"),
    )


def added_of(
    model: "MultiResolutionODA", cell: "Cell", names: Sequence[str], sample: Array | None = None
) -> dict[str, float]:
    """Values, by name, of the features that a cell's resolution adds to those of the data (`names`).

    They are taken at the codevector, or of a `sample` (1, n_features). The root has none.
    """
    from oda_rl.resolutions.univariate import AddingMap, ScoreMap, scored

    tree, d = model.tree_, len(names)
    place = tree.features.place(max(0, cell.layer - 1))
    own = getattr(tree.features.maps[place], "map_", None)
    if cell.layer == 0 or not isinstance(own, AddingMap):
        return {}
    added = own.get_feature_names_out(names)[d:].tolist()
    if added and isinstance(own, ScoreMap):
        classes = scored(model.classes_)
        if len(classes) == len(added):  # no new class has come in a stream since the fit of the map
            added = [f"score of {one}" for one in classes]
    location = tree.layers[cell.layer].location[:, [cell.number]].T
    found = (
        own.transform_checked(sample)
        if sample is not None
        else tree.features.scalings[place].back(location)
    )
    return dict(zip(added, found[0, d:].tolist(), strict=True))


def _decisions_of(model: "MultiResolutionODA", cells: Sequence["Cell"]) -> Sequence[Any]:
    """The classes of cells, or the outputs at their codevectors, or None for a partition."""
    kind, layers = model._session.settings.kind, model.tree_.layers
    if kind == "classifier":
        return [model.classes_[layers[cell.layer].label[cell.number]] for cell in cells]
    if kind != "regressor":
        return [None] * len(cells)
    found = model._outputs_at(cells)
    return found.tolist() if found.ndim == 1 else list(found)


def _losses_below(model: "MultiResolutionODA") -> list[Array]:
    """The summed errors of the leaves below every cell, layer by layer."""
    layers = model.tree_.layers
    losses = [np.where(cells.is_leaf, cells.predicted_loss, 0.0) for cells in layers]
    for depth in range(len(layers) - 1, 0, -1):
        np.add.at(losses[depth - 1], layers[depth].parent, losses[depth])
    return losses


def _errors_of_samples(model: "MultiResolutionODA", samples: Array, y: ArrayLike | None) -> Array:
    kind = model._session.settings.kind
    if kind == "clusterer":
        return model.tree_.distances(samples)
    if y is None:
        raise ValueError("y must be given together with X, as errors are counted against it; got None.")
    data = call_unnamed(lambda given: model._known_data(given, y), samples)
    task = model._session.task
    losses = task.sample_losses(task.predict(model.tree_, data.samples), data)
    return np.asarray(losses * model._squared_unit)

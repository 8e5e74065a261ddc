"""The cells of a tree as records: what stands where, and how well."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oda_rl.estimators.tree import Cell, MultiResolutionODA

Array = NDArray[np.float64]


class CellReport(NamedTuple):
    """A cell of a tree.

    `name` is its path from the root ("0"), `layer` the layers above it. `codevector` (n_features,) is in
    the units of the data, the mean of the samples in the cell. `weight` is the share of all samples that
    come through it, `n_samples` their number. `decision` is the class, or the output at the codevector,
    or None for a partition. `error` is per sample that came through, of what the tree tells in the
    leaves below (the part told wrong, the mean squared error, the mean divergence); `share_of_error` its
    part in that of the whole tree. `n_children` is 0 for a leaf; `temperature` is where their annealing
    ended.
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


def report(model: MultiResolutionODA, cell: Any = "0", depth: int | None = None) -> list[CellReport]:
    """The cells below one, itself included, parents before their children.

    Parameters
    ----------
    model : MultiResolutionODA
        Fitted.
    cell : str, default="0"
        Where to begin.
    depth : int, optional
        Layers to go down, at most.

    Returns
    -------
    list of CellReport
        The errors are those of the samples that were learned from.

    Raises
    ------
    ValueError
        If there is no such cell.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from oda_rl import MultiResolutionODA, ODAClassifier
    >>> from oda_rl.inspect import report
    >>> model = MultiResolutionODA(ODAClassifier(), random_state=0).fit(*load_iris(return_X_y=True))
    >>> root, *cells = report(model, depth=1)
    >>> root.name, root.n_samples, round(sum(cell.weight for cell in cells), 6)
    ('0', 150, 1.0)
    """
    tree = model.tree_
    root = tree.cell(cell)
    losses = _losses_below(model)
    found: list[CellReport] = []

    def visit(at: Cell) -> None:
        found.append(_report(model, at, losses))
        if depth is None or at.layer - root.layer < depth:
            for child in tree.children(at):
                visit(child)

    visit(root)
    return found


def errors(
    model: MultiResolutionODA,
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    n: int | None = 10,
) -> list[CellReport]:
    """Where the errors are: the leaves with the largest part in them, worst first.

    Parameters
    ----------
    model : MultiResolutionODA
        Fitted.
    X, y : array-like, optional
        Samples on which to count the errors, instead of those that were learned from; y only for classes
        and outputs.
    n : int or None, default=10
        Leaves, at most; None for all.

    Returns
    -------
    list of CellReport
        Leaves that have errors; give their names to `MultiResolutionODA.refine`. With X given,
        `n_samples`, `weight`, `error` and `share_of_error` are those of X.
    """
    leaves = [one for one in report(model) if one.n_children == 0]
    if X is not None:
        leaves = _on_other_samples(model, leaves, X, y)
    leaves = [one for one in leaves if one.share_of_error > 0.0]
    leaves.sort(key=lambda one: (-one.share_of_error, one.name))
    return leaves[:n]


def decision_of(model: MultiResolutionODA, cell: Cell) -> Any:
    """What a cell stands for: its class, its output at the codevector, or None for a partition."""
    cells = model.tree_.layers[cell.layer]
    if hasattr(model, "classes_"):
        return model.classes_[cells.label[cell.number]]
    if model._units is None:
        return None
    mean = model.tree_.codevectors(cell)[None, :]
    scaled = model.tree_.features(max(0, cell.layer - 1), mean)
    task: Any = model._session.task
    found = model._units.back(task.apply(cells, scaled, np.array([cell.number])))[0]
    return float(found) if model._units.flat else found


def _report(model: MultiResolutionODA, cell: Cell, losses: list[Array]) -> CellReport:
    tree = model.tree_
    cells, i = tree.layers[cell.layer], cell.number
    all_mass = float(tree.layers[0].mass[0])
    loss, total = float(losses[cell.layer][i]), float(losses[0][0])
    return CellReport(
        tree.name(cell),
        cell.layer,
        tree.codevectors(cell),
        float(cells.mass[i]) / all_mass,
        int(cells.support[i]),
        decision_of(model, cell),
        loss / max(float(cells.mass[i]), 1e-300) * model._squared_unit,
        loss / total if total > 0.0 else 0.0,
        int(cells.count[i]),
        float(cells.temperature[i]) if cells.count[i] > 0 else float("nan"),
    )


def _losses_below(model: MultiResolutionODA) -> list[Array]:
    """The errors in the leaves below every cell, layer by layer."""
    layers = model.tree_.layers
    losses = [np.where(cells.is_leaf, cells.loss, 0.0) for cells in layers]
    for depth in range(len(layers) - 1, 0, -1):
        np.add.at(losses[depth - 1], layers[depth].parent, losses[depth])
    return losses


def _on_other_samples(
    model: MultiResolutionODA, leaves: list[CellReport], X: ArrayLike, y: ArrayLike | None
) -> list[CellReport]:
    samples = np.asarray(X, dtype=np.float64)
    at = model.apply(samples)
    each = _errors_of_samples(model, samples, y)
    order = [model.tree_.name(leaf) for leaf in model.tree_.leaves()]
    count = np.bincount(at, minlength=len(order))
    loss = np.bincount(at, each, len(order))
    place = {name: i for i, name in enumerate(order)}
    total = max(float(loss.sum()), 1e-300)
    return [
        leaf._replace(
            weight=count[place[leaf.name]] / len(samples),
            n_samples=int(count[place[leaf.name]]),
            error=float(loss[place[leaf.name]]) / max(1, count[place[leaf.name]]),
            share_of_error=float(loss[place[leaf.name]]) / total,
        )
        for leaf in leaves
    ]


def _errors_of_samples(model: MultiResolutionODA, samples: Array, y: ArrayLike | None) -> Array:
    if hasattr(model, "classes_") or model._units is not None:
        if y is None:
            raise ValueError("y must be given with X: errors are counted against it.")
        told, right = model.predict(samples), np.asarray(y)
        if hasattr(model, "classes_"):
            return np.asarray(told != right, dtype=float)
        miss = (told - right).reshape(len(samples), -1)
        assert model._units is not None
        unit = 1.0 if miss.shape[1] == 1 else model._units.deviation
        return np.asarray(((miss / unit) ** 2).sum(axis=1))
    return model.tree_.distances(samples)

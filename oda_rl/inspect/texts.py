"""A tree as text, and as nested rules."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl.estimators.tree import Cell, MultiResolutionODA
from oda_rl.inspect.cells import CellReport, report
from oda_rl.inspect.words import amounts, feature_names_of, number, told

Array = NDArray[np.float64]


def tree_text(
    model: MultiResolutionODA,
    feature_names: Sequence[str] | None = None,
    cell: Any = "0",
    depth: int | None = None,
) -> str:
    """The tree as indented lines: every cell with its samples, codevector, decision and error.

    Parameters
    ----------
    model : MultiResolutionODA
        Fitted.
    feature_names : sequence of str, optional
        What features are called.
    cell : str, default="0"
        Where to begin.
    depth : int, optional
        Layers to go down, at most.

    Returns
    -------
    str

    Examples
    --------
    >>> import numpy as np
    >>> from oda_rl import MultiResolutionODA, ODAClassifier
    >>> from oda_rl.inspect import tree_text
    >>> X = np.array([[0.0], [1.0], [10.0], [11.0]] * 20)
    >>> model = MultiResolutionODA(ODAClassifier(), random_state=0).fit(X, X[:, 0] > 5)
    >>> print(tree_text(model, ["width"]))
    0: 80 samples (100.0 %), width 5.5 -> False, error 0
      0.0: 40 samples (50.0 %), width 0.5 -> False, error 0
      0.1: 40 samples (50.0 %), width 10.5 -> True, error 0
    """
    names = feature_names_of(model, feature_names)
    cells = report(model, cell, depth)
    return "\n".join("  " * (one.layer - cells[0].layer) + _line(one, names) for one in cells)


def _line(one: CellReport, names: Sequence[str]) -> str:
    share = f"{one.n_samples} samples ({100.0 * one.weight:.1f} %)"
    return (
        f"{one.name}: {share}, {amounts(one.codevector, names)}{told(one.decision)}, "
        f"error {number(one.error)}"
    )


def rules(
    model: MultiResolutionODA,
    feature_names: Sequence[str] | None = None,
    cell: Any = "0",
    depth: int | None = None,
) -> dict[str, Any]:
    """The tree as nested rules, of plain values that JSON can hold.

    Parameters
    ----------
    model : MultiResolutionODA
        Fitted.
    feature_names : sequence of str, optional
        What features are called.
    cell : str, default="0"
        Where to begin.
    depth : int, optional
        Layers to go down, at most.

    Returns
    -------
    dict
        `cell`, `samples`, `codevector` (features by name), `decision`, `error`, and `children`: those of
        which the nearest is taken. A child also has `conditions` where that is a matter of linear
        inequalities in the data (squared Euclidean distances in an affine resolution): for each sibling
        the coefficients and the `bound`, sum_j c_j x_j < bound.
    """
    names = feature_names_of(model, feature_names)
    reports = {one.name: one for one in report(model, cell, depth)}
    return _rule(model, next(iter(reports)), reports, names)


def _rule(
    model: MultiResolutionODA, name: str, reports: dict[str, CellReport], names: Sequence[str]
) -> dict[str, Any]:
    one = reports[name]
    children = [f"{name}.{i}" for i in range(one.n_children)]
    found: dict[str, Any] = {
        "cell": name,
        "samples": one.n_samples,
        "codevector": {key: float(value) for key, value in zip(names, one.codevector, strict=True)},
        "decision": _plain(one.decision),
        "error": one.error,
    }
    conditions = conditions_of(model, model.tree_.cell(name), names)
    if conditions is not None:
        found["conditions"] = conditions
    if children and all(child in reports for child in children):
        found["children"] = [_rule(model, child, reports, names) for child in children]
    return found


def conditions_of(
    model: MultiResolutionODA, cell: Cell, names: Sequence[str]
) -> list[dict[str, Any]] | None:
    """The half-spaces whose intersection is a cell among its siblings; None if they are none."""
    tree = model.tree_
    affine = tree.features.affine(cell.layer - 1) if cell.layer > 0 else None
    if affine is None or tree.divergence.name != "squared_euclidean":
        return None
    matrix, offset = affine
    location = tree.layers[cell.layer].location
    own = location[:, cell.number]
    parent = tree.path(cell)[-2]
    found = []
    for sibling in tree.children(parent):
        other = location[:, sibling.number]
        if sibling.number == cell.number:
            continue
        # |z - own|^2 < |z - other|^2 with z = x matrix + offset.
        normal = matrix @ (2.0 * (other - own))
        bound = float(other @ other - own @ own - offset @ (2.0 * (other - own)))
        coefficients = {name: float(c) for name, c in zip(names, normal, strict=True) if c != 0.0}
        found.append({"coefficients": coefficients, "bound": bound})
    return found


def rules_text(
    model: MultiResolutionODA,
    feature_names: Sequence[str] | None = None,
    cell: Any = "0",
    depth: int | None = None,
) -> str:
    """The tree as nested rules to read: a branch for each child, its nearest codevector as condition.

    Parameters
    ----------
    model : MultiResolutionODA
        Fitted.
    feature_names : sequence of str, optional
        What features are called.
    cell : str, default="0"
        Where to begin.
    depth : int, optional
        Layers to go down, at most.

    Returns
    -------
    str
    """
    names = feature_names_of(model, feature_names)
    lines: list[str] = []
    _branch(rules(model, names, cell, depth), names, 0, lines)
    return "\n".join(lines)


def _branch(rule: dict[str, Any], names: Sequence[str], indent: int, lines: list[str]) -> None:
    children = rule.get("children", [])
    space = "  " * indent
    if not children:
        decision = rule["decision"]
        what = f"cell {rule['cell']}" if decision is None else _said(decision)
        lines.append(f"{space}{what}  ({rule['samples']} samples, error {number(rule['error'])})")
        return
    single = _single_feature(children)
    for i, child in enumerate(children):
        if single is not None:
            condition = single[i]
        else:
            values = np.array(list(child["codevector"].values()))
            condition = f"nearest to {amounts(values, names)}"
        lines.append(f"{space}{'if' if i == 0 else 'elif'} {condition}:")
        _branch(child, names, indent + 1, lines)


def _single_feature(children: list[dict[str, Any]]) -> list[str] | None:
    """Conditions as intervals, where the siblings differ along a single feature."""
    found = []
    for child in children:
        low, high, name = -np.inf, np.inf, ""
        for condition in child.get("conditions") or []:
            if len(condition["coefficients"]) != 1:
                return None
            ((name, c),) = condition["coefficients"].items()
            bound = condition["bound"] / c
            low, high = (low, min(high, bound)) if c > 0.0 else (max(low, bound), high)
        if not name:
            return None
        below = f"{number(low)} <= " if low > -np.inf else ""
        found.append(f"{below}{name}" + (f" < {number(high)}" if high < np.inf else ""))
    return found


def _said(decision: Any) -> str:
    return number(decision) if isinstance(decision, float) else str(decision)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.item() if isinstance(value, np.generic) else value

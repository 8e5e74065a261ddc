"""Trees as text and as nested rules."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from oda_rl._types import Array
from oda_rl.inspect.model import feature_names_of
from oda_rl.inspect.table import counted, number
from oda_rl.inspect.trees import CellReport, added_of, report

if TYPE_CHECKING:
    from oda_rl.estimators.tree import MultiResolutionODA


# Features of a codevector that are written out if there are more.
MAX_FEATURES = 6


def tree_text(
    model: "MultiResolutionODA",
    feature_names: Sequence[str] | None = None,
    cell: Any = "0",
    depth: int | None = None,
) -> str:
    """The tree as indented lines, one per cell: its samples, codevector, decision and error.

    Parameters
    ----------
    model, cell, depth
        As for `oda_rl.explain.report`.
    feature_names : sequence of str, optional
        Names of the features; by default the names that X had in `fit`, or x[0], x[1], ...

    Returns
    -------
    str

    Examples
    --------
    >>> import numpy as np
    >>> from oda_rl import MultiResolutionODA, ODAClassifier
    >>> from oda_rl.explain import tree_text
    >>> X = np.array([[0.0], [1.0], [10.0], [11.0]] * 20)
    >>> model = MultiResolutionODA(ODAClassifier(), random_state=0).fit(X, X[:, 0] > 5)
    >>> print(tree_text(model, ["width"]))
    0: 80 samples (100.0 %), width 5.5 -> False, error 0
      0.0: 40 samples (50.0 %), width 0.5 -> False, error 0
      0.1: 40 samples (50.0 %), width 10.5 -> True, error 0
    """
    cells = report(model, cell, depth)
    names = feature_names_of(model, feature_names)
    lines = []
    for one in cells:
        indent = "  " * (one.layer - cells[0].layer)
        what = f"{named_values(one.codevector, names)}{decision_suffix(one.decision)}"
        lines.append(f"{indent}{cell_heading(one)}, {what}, error {number(one.error)}")
    return "\n".join(lines)


def rules(
    model: "MultiResolutionODA",
    feature_names: Sequence[str] | None = None,
    cell: Any = "0",
    depth: int | None = None,
) -> dict[str, Any]:
    """The tree as nested rules, made of plain values that JSON can store.

    Parameters
    ----------
    model, feature_names, cell, depth
        As for `tree_text`.

    Returns
    -------
    dict
        `cell`, `samples`, `codevector` (features by name), `decision`, `error`, and `children`, of which
        the nearest is taken. A child also has `added` if its resolution has features in addition to
        those of the data (`EffectMap`, `ScoreMap`), which count as well. It has `conditions` if linear
        inequalities in the data define it (squared Euclidean distances in an affine resolution): for
        each sibling the `coefficients` c and the `bound` of sum_j c_j x_j < bound.
    """
    reports = {one.name: one for one in report(model, cell, depth)}
    names = feature_names_of(model, feature_names)
    return _rule(model, next(iter(reports)), reports, names)


def rules_text(
    model: "MultiResolutionODA",
    feature_names: Sequence[str] | None = None,
    cell: Any = "0",
    depth: int | None = None,
) -> str:
    """The tree as readable nested rules: one branch per child, which names its interval or codevector.

    Parameters
    ----------
    model, feature_names, cell, depth
        As for `tree_text`.

    Returns
    -------
    str
    """
    return "\n".join(_branch(rules(model, feature_names, cell, depth), ""))


# -- parts -----------------------------------------------------------------------------------------


def cell_heading(cell: CellReport) -> str:
    """A cell's name, and the number and share of the samples that pass through it."""
    return f"{cell.name}: {counted(cell.n_samples, 'sample')} ({100.0 * cell.weight:.1f} %)"


def named_values(values: Array, names: Sequence[str], beside: Array | None = None) -> str:
    """Values with their names; of many, only those furthest from `beside`, or else the largest."""
    order = np.arange(len(values))
    others = ""
    if len(values) > MAX_FEATURES:
        size = np.abs(values if beside is None else values - beside)
        order = np.sort(np.argsort(-size, kind="stable")[:MAX_FEATURES])
        others = f", and {len(values) - MAX_FEATURES} more"
    return ", ".join(f"{names[j]} {number(values[j])}" for j in order.tolist()) + others


def decision_text(decision: Any) -> str:
    """A decision as text: a class, or numbers."""
    if isinstance(decision, np.ndarray):
        return ", ".join(number(value) for value in decision)
    return number(decision) if isinstance(decision, float) else str(decision)


def decision_suffix(decision: Any, probabilities: Array | None = None) -> str:
    """A decision as the end of a line; empty for a partition."""
    if decision is None:
        return ""
    sure = "" if probabilities is None else f" ({100.0 * float(np.max(probabilities)):.0f} %)"
    return f" -> {decision if sure else decision_text(decision)}{sure}"


def _rule(
    model: "MultiResolutionODA", name: str, reports: dict[str, CellReport], names: Sequence[str]
) -> dict[str, Any]:
    one = reports[name]
    children = [f"{name}.{i}" for i in range(one.n_children)]
    decision = (
        one.decision.tolist() if isinstance(one.decision, np.ndarray | np.generic) else one.decision
    )
    found: dict[str, Any] = {
        "cell": name,
        "samples": one.n_samples,
        "codevector": {key: float(value) for key, value in zip(names, one.codevector, strict=True)},
        "decision": decision,
        "error": one.error,
    }
    added = added_of(model, model.tree_.cell(name), names)
    if added:
        found["added"] = added
    conditions = _conditions_of(model, name, names)
    if conditions is not None:
        found["conditions"] = conditions
    if children and all(child in reports for child in children):
        found["children"] = [_rule(model, child, reports, names) for child in children]
    return found


def _conditions_of(
    model: "MultiResolutionODA", name: str, names: Sequence[str]
) -> list[dict[str, Any]] | None:
    """The half-spaces whose intersection is a cell among its siblings; None if it is no polytope."""
    tree = model.tree_
    cell = tree.cell(name)
    affine = tree.features.affine(cell.layer - 1) if cell.layer > 0 else None
    if affine is None or not tree.divergence.is_euclidean:
        return None
    matrix, offset = affine
    location = tree.layers[cell.layer].location
    own = location[:, cell.number]
    found = []
    for sibling in tree.children(tree.path(cell)[-2]):
        if sibling.number == cell.number:
            continue
        # |z - own|^2 < |z - other|^2 with z = x matrix + offset.
        other = location[:, sibling.number]
        normal = matrix @ (2.0 * (other - own))
        bound = float(other @ other - own @ own - offset @ (2.0 * (other - own)))
        coefficients = {key: float(c) for key, c in zip(names, normal, strict=True) if c != 0.0}
        found.append({"coefficients": coefficients, "bound": bound})
    return found


def _branch(rule: dict[str, Any], indent: str) -> list[str]:
    children = rule.get("children", [])
    if not children:
        decision = rule["decision"]
        what = f"cell {rule['cell']}" if decision is None else decision_text(decision)
        passed = counted(rule["samples"], "sample")
        return [f"{indent}{what}  ({passed}, error {number(rule['error'])})"]
    conditions = _intervals(children) or [_nearest_to(child) for child in children]
    lines = []
    for i, (child, condition) in enumerate(zip(children, conditions, strict=True)):
        lines += [f"{indent}{'if' if i == 0 else 'elif'} {condition}:"]
        lines += _branch(child, indent + "  ")
    return lines


def _nearest_to(child: dict[str, Any]) -> str:
    places = [child["codevector"], child.get("added", {})]
    parts = [named_values(np.array(list(one.values())), list(one)) for one in places if one]
    return f"nearest to {' and '.join(parts)}"


def _intervals(children: list[dict[str, Any]]) -> list[str] | None:
    """Conditions as intervals, if siblings differ along a single feature; else None."""
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

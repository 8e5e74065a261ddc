"""Why a tree tells of a sample what it tells: the way from the root to its leaf."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oda_rl.estimators.tree import Cell, MultiResolutionODA
from oda_rl.inspect.cells import decision_of
from oda_rl.inspect.words import amounts, feature_names_of, told

Array = NDArray[np.float64]


class Step(NamedTuple):
    """One cell on the way from the root to a leaf.

    `name`, `layer`, `codevector` (n_features,), `weight`, `n_samples` and `decision` are as in
    `CellReport`. `probabilities` are those of the classes by the samples in the cell, None without
    classes. `divergence` is that of the sample from the cell's codevector in the layer's resolution,
    `margin` how much larger it is for the next best child of the same parent (infinite without one),
    and `runner_up` its name.
    """

    name: str
    layer: int
    codevector: Array
    weight: float
    n_samples: int
    decision: Any
    probabilities: Array | None
    divergence: float
    margin: float
    runner_up: str


class Explanation(NamedTuple):
    """What a model tells of a sample, and the cells that lead to it; print it to read it.

    `by_region` says whether the prediction is by the rule of Bayes from all codevectors that share the
    last region, rather than by the leaf alone.
    """

    sample: Array
    prediction: Any
    steps: tuple[Step, ...]
    feature_names: tuple[str, ...]
    by_region: bool

    def __str__(self) -> str:
        lines = [f"sample: {amounts(self.sample, self.feature_names)}"]
        for step in self.steps:
            indent = "  " * step.layer
            head = f"{indent}{step.name}: {step.n_samples} samples ({100.0 * step.weight:.1f} %)"
            lines.append(head + told(step.decision, step.probabilities))
            lines.append(f"{indent}  like {amounts(step.codevector, self.feature_names, self.sample)}")
            if step.layer > 0 and np.isfinite(step.margin):
                lines.append(
                    f"{indent}  nearest of its siblings: divergence {step.divergence:.4g}, "
                    f"{step.runner_up} has {step.margin:.4g} more"
                )
        by_all = " by all codevectors of that region" if self.by_region else ""
        return "\n".join([*lines, f"prediction{by_all}: {self.prediction}"])


def explain(
    model: MultiResolutionODA, x: ArrayLike, feature_names: Sequence[str] | None = None
) -> Explanation:
    """The way of a sample from the root to its leaf, and what each layer decided.

    Parameters
    ----------
    model : MultiResolutionODA
        Fitted.
    x : array-like of shape (n_features,)
        The sample, in the units of the data.
    feature_names : sequence of str, optional
        What features are called; by default the names that X had in `fit`, or x[0], x[1], ...

    Returns
    -------
    Explanation

    Raises
    ------
    ValueError
        If x is not one sample with as many features as the data.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from oda_rl import MultiResolutionODA, ODAClassifier
    >>> from oda_rl.inspect import explain
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MultiResolutionODA(ODAClassifier(), max_children=3, random_state=0).fit(X, y)
    >>> why = explain(model, X[0])
    >>> int(why.prediction), why.steps[0].name, why.steps[0].n_samples
    (0, '0', 150)
    """
    point = np.asarray(x, dtype=np.float64)
    if point.ndim != 1:
        raise ValueError(f"x must be one sample, of shape (n_features,), got the shape {point.shape}.")
    samples = model._check_again(point[None, :])
    names = feature_names_of(model, feature_names)
    prediction = model.predict(samples)[0]
    tree = model.tree_
    steps = [_step(model, Cell(0, 0), 0.0, np.inf, "")]
    for layer, scaled, _, at, closest in tree.walk(samples):
        parent = Cell(layer - 1, int(tree.layers[layer].parent[at[0]]))
        siblings = [child for child in tree.children(parent) if child.number != at[0]]
        margin, runner_up = np.inf, ""
        if siblings:
            numbers = [child.number for child in siblings]
            others = tree.divergence(scaled, tree.layers[layer].location[:, numbers].T)[0]
            best = int(others.argmin())
            margin = float(others[best] - closest[0])
            runner_up = tree.name(siblings[best])
        steps.append(_step(model, Cell(layer, int(at[0])), float(closest[0]), margin, runner_up))
    by_region = hasattr(model, "classes_") and model._session.settings.rule == "bayes" and len(steps) > 1
    return Explanation(point.copy(), prediction, tuple(steps), names, by_region)


def _step(
    model: MultiResolutionODA, cell: Cell, divergence: float, margin: float, runner_up: str
) -> Step:
    tree = model.tree_
    cells, i = tree.layers[cell.layer], cell.number
    shares = None
    if hasattr(model, "classes_"):
        shares = cells.tally[i] / max(float(cells.tally[i].sum()), 1e-300)
    return Step(
        tree.name(cell),
        cell.layer,
        tree.codevectors(cell),
        float(cells.mass[i] / tree.layers[0].mass[0]),
        int(cells.support[i]),
        decision_of(model, cell),
        shares,
        divergence,
        margin,
        runner_up,
    )

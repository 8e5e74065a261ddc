"""Explanations of single decisions: the contributions of cells, and changes that alter the decision."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, copysign, floor, log10
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oda_rl._types import Array
from oda_rl.inspect.model import call_unnamed, feature_names_of
from oda_rl.inspect.table import number
from oda_rl.inspect.text import MAX_FEATURES, cell_heading, decision_suffix, named_values
from oda_rl.inspect.trees import CellReport, added_of, reports_of, tree_of

if TYPE_CHECKING:
    from oda_rl.estimators.tree import Cell, MultiResolutionODA

# Other decisions are searched for in the range of the codevectors, extended by this part on both sides.
BEYOND = 0.5
# Steps tried along a coordinate, both up and down, and bisections of the first step in which the
# decision changes
N_POINTS, HALVINGS = 400, 30
# Significant digits of a printed change: three, or more if three digits do not change the decision
DIGITS = range(3, 16)


@dataclass(frozen=True, eq=False)
class Contribution:
    """An active cell and its contribution to the decision.

    Attributes
    ----------
    number : int
        Index of the cell.
    weight : float
        Its association probability. With a codebook for each action, those of each action sum to 1.
    distance : float
        Distance from the sample, in scaled units; NaN for cells of a grid.
    codevector : ndarray of shape (n_features,)
        In the units of the data.
    own_decision : object
        The decision, such as an action, if the cell belongs to a single one; else None.
    values : ndarray of shape (n_decisions,)
        Value of each decision according to the cell; NaN for decisions that it has no value of.
    gain : float
        Its part of the margin between the decision and the second best; NaN without a second.
    """

    number: int
    weight: float
    distance: float
    codevector: Array
    own_decision: Any
    values: Array
    gain: float


@dataclass(frozen=True)
class Counterfactual:
    """The smallest change of one coordinate, up or down, that changes a decision.

    Attributes
    ----------
    feature : str
        Name of the coordinate.
    change : float
        The change, in the coordinate's own units.
    at : float
        Value of the coordinate after the change.
    decision : object
        The new decision.
    rounded : float
        The change rounded away from zero for printing; it changes the decision as well.
    """

    feature: str
    change: float
    at: float
    decision: Any
    rounded: float


@dataclass(frozen=True, eq=False)
class Step(CellReport):
    """An active cell of a tree: a cell on the path from the root to the leaf of a sample.

    Attributes
    ----------
    probabilities : ndarray of shape (n_classes,) or None
        Shares of the classes among the samples in the cell; None without classes.
    divergence : float
        Divergence of the sample from the cell's codevector, in the layer's resolution.
    margin : float
        How much larger the divergence is for the nearest sibling; infinite without siblings.
    runner_up : str
        The name of that sibling.
    added : dict
        Features that the resolution has in addition to those of the data (`EffectMap`, `ScoreMap`), by
        name: the values at the codevector and of the sample.
    """

    probabilities: Array | None
    divergence: float
    margin: float
    runner_up: str
    added: dict[str, tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Explanation:
    """Explanation of a model's decision for one sample.

    Attributes
    ----------
    sample : ndarray of shape (n_features,)
        The sample, in the units of the data.
    feature_names : tuple of str
        Names of its coordinates.
    decision : object
        The class, output, cell or action.
    margin : float
        Lead over the second best decision; NaN unless decisions are classes or discrete actions.
    contributions : tuple of Contribution or Step
        The active cells: by falling weight, or in a tree from the root to the leaf.
    counterfactuals : tuple of Counterfactual
        Changes that alter the decision, the smallest (relative to the range of the search) first.
    """

    sample: Array
    feature_names: tuple[str, ...]
    decision: Any
    margin: float
    contributions: tuple[Any, ...]
    counterfactuals: tuple[Counterfactual, ...]


@dataclass(frozen=True, eq=False)
class PathExplanation(Explanation):
    """A tree's decision for a sample and the cells on the path to it; printing shows it as text.

    Attributes
    ----------
    by_region : bool
        Whether the decision follows by Bayes' rule from all codevectors that share the last region,
        rather than from the leaf alone.
    """

    by_region: bool

    @property
    def prediction(self) -> Any:
        """The decision."""
        return self.decision

    @property
    def steps(self) -> tuple[Step, ...]:
        """The active cells, from the root to the leaf."""
        return self.contributions

    def __str__(self) -> str:
        names, lines = self.feature_names, [f"sample: {named_values(self.sample, self.feature_names)}"]
        for step in self.steps:
            indent = "  " * step.layer
            decision = decision_suffix(step.decision, step.probabilities)
            lines.append(f"{indent}{cell_heading(step)}{decision}")
            lines.append(f"{indent}  like {named_values(step.codevector, names, self.sample)}")
            for name, (value, own) in list(step.added.items())[:MAX_FEATURES]:
                beside = f"{number(value)}, where the sample has {number(own)}"
                lines.append(f"{indent}    and {name} {beside}")
            if step.layer > 0 and np.isfinite(step.margin):
                lines.append(
                    f"{indent}  nearest of its siblings: divergence {step.divergence:.4g}, "
                    f"{step.runner_up} has {step.margin:.4g} more"
                )
        by_all = " by all codevectors of that region" if self.by_region else ""
        lines.append(f"prediction{by_all}: {self.decision}")
        for one in self.counterfactuals:
            lines.append(f"  {one.feature} {one.rounded:+.15g} would make it {one.decision}")
        return "\n".join(lines)


def explain(
    model: "MultiResolutionODA",
    x: ArrayLike,
    feature_names: Sequence[str] | None = None,
    counterfactuals: bool = False,
) -> PathExplanation:
    """Explain a prediction by the sample's path from the root to its leaf, layer by layer.

    Parameters
    ----------
    model : MultiResolutionODA
        A fitted tree.
    x : array-like of shape (n_features,)
        The sample, in the units of the data.
    feature_names : sequence of str, optional
        Names of the features; by default the names that X had in `fit`, or x[0], x[1], ...
    counterfactuals : bool, default=False
        Whether to search for changes of single features that change the prediction, which takes
        hundreds of predictions per feature. Ignored for regressors, whose outputs change everywhere.

    Returns
    -------
    PathExplanation

    Raises
    ------
    ValueError
        If x is not one sample with as many features as the data, or the model is not a tree.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from oda_rl import MultiResolutionODA, ODAClassifier
    >>> from oda_rl.explain import explain
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MultiResolutionODA(ODAClassifier(), max_children=3, random_state=0).fit(X, y)
    >>> why = explain(model, X[0])
    >>> int(why.prediction), why.steps[0].name, why.steps[0].n_samples
    (0, '0', 150)
    """
    tree_of(model)  # raises an error if there is none
    point = np.asarray(x, dtype=np.float64)
    if point.ndim != 1:
        raise ValueError(f"x must be one sample of shape (n_features,), got shape {point.shape}.")
    samples = call_unnamed(model._check_again, point[None, :])
    names = feature_names_of(model, feature_names)
    settings = model._session.settings
    steps = _steps_of(model, samples, names)
    decision, lead = call_unnamed(model.predict, samples)[0], np.nan
    if settings.kind == "classifier":
        *_, second, first = np.sort([0.0, *call_unnamed(model.predict_proba, samples)[0]])
        lead = float(first - second)
    changes = []
    if counterfactuals and settings.kind != "regressor":
        low, high = search_range(model.codevectors_)
        low = np.maximum(low, model._lower_bounds(model.codevectors_))
        decide = partial(call_unnamed, model.predict)
        changes = find_counterfactuals(decide, point, low, high, names)
    by_region = settings.kind == "classifier" and settings.rule == "bayes" and len(steps) > 1
    return PathExplanation(point.copy(), names, decision, lead, tuple(steps), tuple(changes), by_region)


def _steps_of(model: "MultiResolutionODA", samples: Array, names: Sequence[str]) -> list[Step]:
    """The active cells of a sample (1, n_features), from the root to the leaf."""
    tree = model.tree_

    def step(cell: "Cell", report: CellReport, nearness: dict[str, Any]) -> Step:
        shares = None
        if model._session.settings.kind == "classifier":
            tally = tree.layers[cell.layer].tally[cell.number]
            shares = tally / max(float(tally.sum()), 1e-300)
        at, own = (added_of(model, cell, names, one) for one in (None, samples))
        added = {name: (value, own[name]) for name, value in at.items()}
        return Step(**vars(report), **nearness, probabilities=shares, added=added)

    cell = tree.cell("0")
    cells, near = [cell], [{"divergence": 0.0, "margin": np.inf, "runner_up": ""}]
    for layer, scaled, _, at, closest in tree.walk(samples):
        siblings = {child.number: child for child in tree.children(cell)}
        cell = siblings.pop(int(at[0]))
        margin, runner_up = np.inf, ""
        if siblings:
            others = tree.divergence(scaled, tree.layers[layer].location[:, list(siblings)].T)[0]
            margin = float(others.min() - closest[0])
            runner_up = tree.name(list(siblings.values())[int(others.argmin())])
        cells.append(cell)
        near.append({"divergence": float(closest[0]), "margin": margin, "runner_up": runner_up})
    return [step(*one) for one in zip(cells, reports_of(model, cells), near, strict=True)]


def find_counterfactuals(
    decide: Callable[[Array], NDArray[Any]],
    sample: Array,
    low: Array,
    high: Array,
    names: Sequence[str],
) -> list[Counterfactual]:
    """Find, for each coordinate and both directions, the smallest change that changes the decision.

    `decide` maps points (n, n_features) to one decision each. The search goes from `sample` down to
    `low` and up to `high` (n_features,). The result is sorted by the change relative to that range.
    Directions in which the decision never changes are left out.
    """
    low, high = np.minimum(low, sample), np.maximum(high, sample)
    found = []
    for j, name in enumerate(names):

        def decisions_at(values: Any, j: int = j) -> NDArray[Any]:
            points = np.repeat(sample[None], len(values), axis=0)
            points[:, j] = values
            return decide(points)

        for end in (low[j], high[j]):
            at = _first_change(decisions_at, float(sample[j]), end)
            if at is not None:
                change, decision = at - float(sample[j]), decisions_at([at])[0]
                rounded = _round_outwards(decisions_at, float(sample[j]), change, (low[j], high[j]))
                part = abs(change) / (high[j] - low[j])
                found.append((part, Counterfactual(name, change, at, decision, rounded)))
    return [one for _, one in sorted(found, key=lambda pair: pair[0])]


def _first_change(decisions_at: Callable[[Any], NDArray[Any]], start: float, end: float) -> float | None:
    """The first value from `start` to `end` with a decision other than at `start`; None without one."""
    way = np.linspace(start, end, N_POINTS + 1)
    decision, *others = decisions_at(way)
    changed = np.flatnonzero(np.asarray(others) != decision)
    if len(changed) == 0:
        return None
    same, other = way[changed[0]], way[changed[0] + 1]
    for _ in range(HALVINGS):
        middle = 0.5 * (same + other)
        if decisions_at([middle])[0] == decision:
            same = middle
        else:
            other = middle
    return float(other)


def _round_outwards(
    decisions_at: Callable[[Any], NDArray[Any]], start: float, change: float, ends: tuple[float, float]
) -> float:
    """Round a change away from zero to the fewest digits that lead to the same decision."""
    decision = decisions_at([start + change])[0]
    for digits in DIGITS:
        unit = 10.0 ** (floor(log10(abs(change))) - digits + 1)
        rounded = float(f"{copysign(ceil(abs(change) / unit) * unit, change):.{digits}g}")
        tried = [start + rounded, float(f"{start:g}") + rounded]  # from the exact and the printed value
        inside = ends[0] <= min(tried) and max(tried) <= ends[1]
        if inside and (decisions_at(tried) == decision).all():
            return rounded
    return change


def search_range(codevectors: Array) -> tuple[Array, Array]:
    """Where to search for other decisions: the range of codevectors (n_cells, n_features), extended."""
    low, high = codevectors.min(axis=0), codevectors.max(axis=0)
    margin = BEYOND * (high - low)
    return low - margin, high + margin

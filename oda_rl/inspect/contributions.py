"""Why a model decides what it decides for one sample: what cells contribute, what would change it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, copysign, floor, log10
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oda_rl.inspect.model import ask, feature_names_of
from oda_rl.inspect.table import number
from oda_rl.inspect.text import MAX_FEATURES, amounts, decided, passing
from oda_rl.inspect.trees import CellReport, added_of, report_of, tree_of

if TYPE_CHECKING:
    from oda_rl.estimators.tree import Cell, MultiResolutionODA

Array = NDArray[np.float64]

# Searched for another decision is the range of the codevectors, and so many ranges beyond it.
BEYOND = 0.5
# Points tried along each direction of a coordinate, and halvings of the step in which the decision
# changes
N_POINTS, HALVINGS = 400, 30
# Digits of a change as it is printed: three, and more only where three do not change the decision
DIGITS = range(3, 16)


@dataclass(frozen=True, eq=False)
class Contribution:
    """An active cell, and what it contributes to the decision.

    Attributes
    ----------
    number : int
        Index of the cell.
    weight : float
        Its association probability; of a codebook for each action, among the cells of its own.
    distance : float
        From the sample, in scaled units; NaN for cells of a grid.
    codevector : ndarray of shape (n_features,)
        In the units of the data.
    own_decision : object
        Of a cell that stands for one decision, such as an action: which that is; else None.
    values : ndarray of shape (n_decisions,)
        What each decision is worth according to the cell; NaN where it does not know the decision.
    gain : float
        What it adds to the margin of the decision over the second best; NaN without a second.
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
        In the coordinate's own units.
    at : float
        The coordinate with the change.
    decision : object
        The decision there.
    rounded : float
        The change as it is printed, rounded away from zero: it changes the decision as well.
    """

    feature: str
    change: float
    at: float
    decision: Any
    rounded: float


@dataclass(frozen=True, eq=False)
class Step(CellReport):
    """An active cell of a tree: one on the way from the root to a leaf.

    Attributes
    ----------
    probabilities : ndarray of shape (n_classes,) or None
        Of the classes, by the samples in the cell; None without classes.
    divergence : float
        Of the sample from the cell's codevector, in the layer's resolution.
    margin : float
        How much larger that is for the next best child of the same parent; infinite without one.
    runner_up : str
        The name of that child.
    added : dict
        What the resolution has beside the features of the data (`EffectMap`, `ScoreMap`), by name: as it
        is at the codevector, and of the sample.
    """

    probabilities: Array | None
    divergence: float
    margin: float
    runner_up: str
    added: dict[str, tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why a model decides what it decides for one sample.

    Attributes
    ----------
    sample : ndarray of shape (n_features,)
        In the units of the data.
    feature_names : tuple of str
        Names of its coordinates.
    decision : object
        The class, output, cell or action.
    margin : float
        By how much it is better than the second best decision; NaN where decisions are no alternatives.
    contributions : tuple of Contribution or Step
        The active cells: the weightiest first, or from the root of a tree to a leaf.
    counterfactuals : tuple of Counterfactual
        What would change the decision, the smallest change (as a part of the cells' range) first.
    """

    sample: Array
    feature_names: tuple[str, ...]
    decision: Any
    margin: float
    contributions: tuple[Any, ...]
    counterfactuals: tuple[Counterfactual, ...]


@dataclass(frozen=True, eq=False)
class PathExplanation(Explanation):
    """What a tree decides for a sample, and the cells that lead to it; print it to read it.

    Attributes
    ----------
    by_region : bool
        Whether the decision is by the rule of Bayes from all codevectors that share the last region,
        rather than by the leaf alone.
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
        lines = [f"sample: {amounts(self.sample, self.feature_names)}"]
        for step in self.steps:
            indent = "  " * step.layer
            lines.append(f"{indent}{passing(step)}{decided(step.decision, step.probabilities)}")
            lines.append(f"{indent}  like {amounts(step.codevector, self.feature_names, self.sample)}")
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
    """The way of a sample from the root to its leaf, and what each layer decided.

    Parameters
    ----------
    model : MultiResolutionODA
        Fitted.
    x : array-like of shape (n_features,)
        The sample, in the units of the data.
    feature_names : sequence of str, optional
        What features are called; by default the names that X had in `fit`, or x[0], x[1], ...
    counterfactuals : bool, default=False
        Whether to search for changes of single features that change the prediction, which takes some
        predictions for each feature; not of outputs, which change everywhere.

    Returns
    -------
    PathExplanation

    Raises
    ------
    ValueError
        If x is not one sample with as many features as the data, or the model is no tree.

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
    tree = tree_of(model)
    point = np.asarray(x, dtype=np.float64)
    if point.ndim != 1:
        raise ValueError(f"x must be one sample, of shape (n_features,), got the shape {point.shape}.")
    samples = ask(model._check_again, point[None, :])
    names = feature_names_of(model, feature_names)
    settings = model._session.settings
    cell = tree.cell("0")
    steps = [_step(model, cell, {}, 0.0, np.inf, "")]
    for layer, scaled, _, at, closest in tree.walk(samples):
        siblings = {child.number: child for child in tree.children(cell)}
        cell = siblings.pop(int(at[0]))
        margin, runner_up = np.inf, ""
        if siblings:
            others = tree.divergence(scaled, tree.layers[layer].location[:, list(siblings)].T)[0]
            margin = float(others.min() - closest[0])
            runner_up = tree.name(list(siblings.values())[int(others.argmin())])
        there, own = (added_of(model, cell, names, one) for one in (None, samples))
        added = {name: (value, own[name]) for name, value in there.items()}
        steps.append(_step(model, cell, added, float(closest[0]), margin, runner_up))
    decision, lead = ask(model.predict, samples)[0], np.nan
    if settings.kind == "classifier":
        *_, second, first = np.sort([0.0, *ask(model.predict_proba, samples)[0]])
        lead = float(first - second)
    changes = []
    if counterfactuals and settings.kind != "regressor":
        low, high = search_range(model.codevectors_)
        decide = partial(ask, model.predict)
        changes = find_counterfactuals(decide, point, low, high, names)
    by_region = settings.kind == "classifier" and settings.rule == "bayes" and len(steps) > 1
    return PathExplanation(point.copy(), names, decision, lead, tuple(steps), tuple(changes), by_region)


def find_counterfactuals(
    decide: Callable[[Array], NDArray[Any]],
    sample: Array,
    low: Array,
    high: Array,
    names: Sequence[str],
) -> list[Counterfactual]:
    """For each coordinate, up and down, the smallest change that changes a decision.

    `decide` takes points (n, n_features) to a decision for each; the search goes from `sample` to `low`
    and `high` (n_features,). The smallest change, as a part of that range, comes first. Coordinates that
    change nothing in their range are left out.
    """
    low, high = np.minimum(low, sample), np.maximum(high, sample)
    found = []
    for j, name in enumerate(names):

        def ask(values: Any, j: int = j) -> NDArray[Any]:
            points = np.repeat(sample[None], len(values), axis=0)
            points[:, j] = values
            return decide(points)

        for end in (low[j], high[j]):
            at = _first_change(ask, float(sample[j]), end)
            if at is not None:
                change, decision = at - float(sample[j]), ask([at])[0]
                rounded = _round_outwards(ask, float(sample[j]), change, (low[j], high[j]))
                part = abs(change) / (high[j] - low[j])
                found.append((part, Counterfactual(name, change, at, decision, rounded)))
    return [one for _, one in sorted(found, key=lambda pair: pair[0])]


def _first_change(ask: Callable[[Any], NDArray[Any]], start: float, end: float) -> float | None:
    """Where, on the way from `start` to `end`, another decision is made; None where none is."""
    way = np.linspace(start, end, N_POINTS + 1)
    decision, *others = ask(way)
    changed = np.flatnonzero(np.asarray(others) != decision)
    if len(changed) == 0:
        return None
    same, other = way[changed[0]], way[changed[0] + 1]
    for _ in range(HALVINGS):
        middle = 0.5 * (same + other)
        if ask([middle])[0] == decision:
            same = middle
        else:
            other = middle
    return float(other)


def _round_outwards(
    ask: Callable[[Any], NDArray[Any]], start: float, change: float, ends: tuple[float, float]
) -> float:
    """The change with as few digits as lead to the same decision, set as printed."""
    decision = ask([start + change])[0]
    for digits in DIGITS:
        unit = 10.0 ** (floor(log10(abs(change))) - digits + 1)
        rounded = float(f"{copysign(ceil(abs(change) / unit) * unit, change):.{digits}g}")
        tried = [start + rounded, float(f"{start:g}") + rounded]
        if ends[0] <= tried[0] <= ends[1] and (ask(tried) == decision).all():
            return rounded
    return change


def search_range(codevectors: Array) -> tuple[Array, Array]:
    """Where to search for other decisions: about the codevectors, of shape (n_cells, n_features)."""
    low, high = codevectors.min(axis=0), codevectors.max(axis=0)
    margin = BEYOND * (high - low)
    return low - margin, high + margin


def _step(
    model: "MultiResolutionODA",
    cell: "Cell",
    added: dict[str, tuple[float, float]],
    divergence: float,
    margin: float,
    runner_up: str,
) -> Step:
    shares = None
    if model._session.settings.kind == "classifier":
        tally = model.tree_.layers[cell.layer].tally[cell.number]
        shares = tally / max(float(tally.sum()), 1e-300)
    own = vars(report_of(model, cell)) | {"divergence": divergence, "margin": margin}
    return Step(**own, probabilities=shares, runner_up=runner_up, added=added)

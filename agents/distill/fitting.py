"""Fit a table of cells, with preferences that are linear in each cell, to a teacher's actions.

The cells are those of an `ODARegressor` from states to actions, or of a tree of such regressors: the
annealing places them where the teacher's decisions change. The preferences of all cells are then fitted
together, by logistic regression (discrete actions) or least squares (continuous actions). Both models
are linear in the unknown coefficients of p_i(x) and p_i(x) (x - mu_i).
"""

import warnings
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from oda_rl._types import Array
from oda_rl.agents.policy_program import PolicyProgram, shares_of
from oda_rl.estimators.regression import ODARegressor
from oda_rl.estimators.tree import MultiResolutionODA

# Largest numbers of states from which the cells are learned, and to which preferences are fitted.
FOR_CELLS, FOR_PREFERENCES = 4_000, 20_000
# Inverse strength of the logistic regression's penalty, and the ridge of least squares per state.
C, RIDGE = 10.0, 1e-6
# Layers of a tree of cells, in which a cell splits into two; and how far states are moved along a
# coordinate, in its standard deviations, to measure the change of the tree's predictions
LAYERS, STEP = 12, 0.5
# Smaller coordinates of codevectors, in standard deviations, are rounding errors and set to 0
NOTHING = 1e-9
# Actions this close to a bound, as a part of their range, count as at the bound; passes of `_censored`
AT_BOUND, N_CENSORED = 0.05, 100


class Records(NamedTuple):
    """States (n, d), the teacher's actions there, (n,) or (n, size), and their weights (n,)."""

    states: Array
    labels: NDArray[Any]
    weights: Array

    def sample(self, n: int, rng: np.random.Generator) -> "Records":
        """Draw at most `n` records, without replacement."""
        if len(self.states) <= n:
            return self
        chosen = np.sort(rng.choice(len(self.states), n, replace=False))
        return Records(*(part[chosen] for part in self))


@dataclass(frozen=True)
class Form:
    """The form of a table: its cells, and the coordinates that distances and preferences depend on.

    Parameters
    ----------
    codevectors : ndarray of shape (K, d)
        Locations of the cells.
    scale : ndarray of shape (d,)
        Units of the distance; infinite for coordinates that are left out of it.
    temperature : float
        How far cells overlap, in squared scaled units; 0 for the nearest cell alone.
    linear : ndarray of shape (K, d), bool
        Whether the preferences in each cell change along each coordinate.
    """

    codevectors: Array
    scale: Array
    temperature: float
    linear: NDArray[np.bool_]

    @classmethod
    def single(cls, d: int, linear: bool) -> Self:
        """One cell for all states."""
        return cls(np.zeros((1, d)), np.full(d, np.inf), 0.0, np.full((1, d), linear))

    def without_cell(self, i: int) -> "Form":
        """Leave out cell `i`; if only one cell is left, its location and the scale are left out, too."""
        keep = np.arange(len(self.codevectors)) != i
        found = replace(self, codevectors=self.codevectors[keep], linear=self.linear[keep])
        if len(found.codevectors) > 1:
            return found
        return replace(Form.single(len(self.scale), False), linear=found.linear)

    def without_distance(self, j: int) -> "Form":
        """Leave coordinate `j` out of the distance.

        If none is left, merge all cells into one, with the slopes that any of them has.
        """
        scale = self.scale.copy()
        scale[j] = np.inf
        if np.isfinite(scale).any():
            return replace(self, scale=scale)
        linear = np.asarray(self.linear.any(axis=0, keepdims=True))
        return replace(Form.single(len(scale), False), linear=linear)

    def without_slope(self, i: Any, j: Any) -> "Form":
        """Leave out the slopes of cell `i` along coordinate `j`; both may be slices."""
        left_out = np.zeros_like(self.linear)
        left_out[i, j] = True
        return self.without_slopes(left_out)

    def without_slopes(self, left_out: NDArray[np.bool_]) -> "Form":
        """Leave out the slopes that are marked in `left_out` (K, d)."""
        return replace(self, linear=self.linear & ~left_out)

    @property
    def size(self) -> int:
        """Count of numbers, as if each cell had a single preference, however many actions there are."""
        apart = int(np.isfinite(self.scale).sum())
        return len(self.codevectors) * (apart + 1) + apart + int(self.linear.sum())

    def origins(self) -> Array:
        """Origins of the cells' slopes (K, d): codevectors, with 0 in coordinates without a distance."""
        return np.where(np.isfinite(self.scale), self.codevectors, 0.0)


def find_form(records: Records, n_cells: int, config: Any, rng: np.random.Generator) -> Form:
    """Place at most `n_cells` cells for a teacher's actions; `config` is a `DistilledConfig`."""
    linear = config.local_model == "linear"
    states, labels, weights = records.sample(FOR_CELLS, rng)
    d = states.shape[1]
    if n_cells == 1 or np.ptp(labels, axis=0).max() == 0:
        return Form.single(d, linear)
    targets = _targets(labels)
    targets = targets[:, 1:] if labels.ndim == 1 and targets.shape[1] == 2 else targets
    seed, spread = int(rng.integers(2**31)), states.std(axis=0)
    model: Any = ODARegressor(n_cells, local_model="linear", softness=1.0, random_state=seed)
    if config.cells_of == "tree":
        leaf = ODARegressor(local_model="linear")
        size: dict[str, Any] = {"layers": LAYERS, "max_children": 2, "max_leaves": n_cells}
        model = MultiResolutionODA(leaf, **size, random_state=seed)
    model.fit(states, targets, sample_weight=weights)
    relevance = _relevance(model, states, spread) if config.cells_of == "tree" else model.relevance_
    usable = (spread > 1e-9) & (relevance > 1e-3)
    if not usable.any() or len(model.codevectors_) == 1:
        return Form.single(d, linear)
    scale = np.full(d, np.inf)
    scale[usable] = spread[usable] / relevance[usable]
    at = model.codevectors_
    located = np.where(np.abs(at) > NOTHING * spread, at, 0.0)
    found = Form(located, scale, 0.0, np.full(located.shape, linear))
    apart = (((states[:, None] - found.codevectors) / scale) ** 2).sum(axis=2).min(axis=1)
    return replace(found, temperature=config.softness * float(np.average(apart, weights=weights)))


def _relevance(model: Any, states: Array, spread: Array) -> Array:
    """How much a tree's predictions change along each coordinate (d,), relative to the largest."""
    changes = []
    for way in np.diag(STEP * spread):
        apart = model.predict(states + way) - model.predict(states - way)
        changes.append(float(np.sqrt(np.mean(apart**2))))
    most = max(changes)
    return np.array(changes) / most if most > 0.0 else np.zeros(len(changes))


def fit_program(
    form: Form, records: Records, blank: PolicyProgram, name: str
) -> tuple[PolicyProgram, NDArray[np.int64]]:
    """Fit the table of a form to the teacher's actions; returns it, and the indices of its actions.

    `blank` has all actions of the environment; the table has those that occur in the records.
    """
    states, labels, weights = records
    columns, unit = _columns(form, states)
    origins, (cell, coordinate) = form.origins(), np.nonzero(form.linear)
    known, solution = _solve(columns, labels, weights, blank.bounds)
    k, n_values = len(origins), solution.shape[1]
    rates = np.zeros((k, n_values, len(unit)))
    rates[cell, :, coordinate] = solution[k:] / unit[coordinate, None]
    points = blank.actions is None
    return replace(
        blank,
        name=name,
        actions=None if blank.actions is None else blank.actions[known],
        action_names=blank.action_names if points else [blank.action_names[a] for a in known],
        codevectors=origins,
        scale=form.scale,
        temperature=form.temperature,
        values=solution[:k],
        slopes=rates if form.linear.any() else np.empty((k, n_values, 0)),
    ), known


def least_error(form: Form, records: Records) -> float:
    """The mean squared error of a ridge regression in this form; discrete actions are one-hot."""
    states, labels, weights = records
    targets = _targets(labels)
    root = np.sqrt(weights)[:, None]
    columns, _ = _columns(form, states)
    columns, targets = root * columns, root * targets
    gram = columns.T @ columns
    gram[np.diag_indices_from(gram)] += RIDGE * len(states)
    solution = np.linalg.solve(gram, columns.T @ targets)
    return float(((columns @ solution - targets) ** 2).sum() / len(states))


def _targets(labels: NDArray[Any]) -> NDArray[Any]:
    """The targets of a regression, (n, n_values): continuous actions, or one-hot discrete ones."""
    return labels if labels.ndim > 1 else (labels[:, None] == np.unique(labels)).astype(float)


def _columns(form: Form, states: Array) -> tuple[Array, Array]:
    """The regression's inputs: shares, and shares times offsets from origins, in `unit`s (d,)."""
    share = shares_of(states, form.codevectors, form.scale, form.temperature)
    unit = np.where(states.std(axis=0) > 1e-9, states.std(axis=0), 1.0)
    cell, coordinate = np.nonzero(form.linear)
    away = states[:, coordinate] - form.origins()[cell, coordinate]
    return np.hstack([share, share[:, cell] * away / unit[coordinate]]), unit


def _solve(
    columns: Array, labels: NDArray[Any], weights: Array, bounds: Array
) -> tuple[NDArray[np.int64], Array]:
    """Fit preferences; returns the actions that occur, and the coefficients (n_columns, n_values).

    Only differences of preferences matter, so those of the first action are set to 0.
    """
    if labels.ndim > 1:
        return np.arange(0), _censored(columns, labels, weights, bounds)
    known = np.unique(labels)
    if len(known) == 1:
        return known, np.zeros((columns.shape[1], 1))
    model = LogisticRegression(C=C, fit_intercept=False, max_iter=300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # if the classes are separable
        model.fit(columns, labels, weights)
    rows = model.coef_ if len(known) > 2 else np.vstack([np.zeros_like(model.coef_), model.coef_])
    return known, (rows - rows[0]).T


def _censored(columns: Array, points: Array, weights: Array, bounds: Array) -> Array:
    """Least squares for continuous actions that are censored at their `bounds` (2, size).

    Predictions are clipped to the bounds before they are used. If the teacher's action is at a bound, a
    prediction beyond it is therefore correct: in each pass it replaces the target.
    """
    low, high = bounds + AT_BOUND * np.array([[1.0], [-1.0]]) * (bounds[1] - bounds[0])
    root = np.sqrt(weights)[:, None]
    gram = (root * columns).T @ (root * columns)
    gram[np.diag_indices_from(gram)] += RIDGE * len(points)
    step = np.linalg.solve(gram, (root**2 * columns).T)
    solution: Array = step @ points
    for _ in range(N_CENSORED):
        predicted = columns @ solution
        targets = np.where(points >= high, np.maximum(points, predicted), points)
        targets = np.where(points <= low, np.minimum(targets, predicted), targets)
        solution = np.asarray(step @ targets, dtype=np.float64)
    return np.asarray(solution)

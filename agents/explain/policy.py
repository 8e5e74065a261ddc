"""What a trained policy does, cell by cell, and why it does what it does in a given state.

>>> from oda_rl.agents import TwoTimescaleQ
>>> model = TwoTimescaleQ(env="CartPole-v1", seed=0).learn(20_000)
>>> table = explain_policy(model)
>>> table.feature_names[2], len(table.cells) == model.n_cells
('pole angle (rad)', True)
>>> why = explain_observation(model, [0.0, 0.0, 0.05, 0.0])
>>> why.action in (0, 1), why.margin >= 0.0
(True, True)
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from oda_rl.agents.explain.cells import Active, kind_of_cells
from oda_rl.envs.names import action_names
from oda_rl.inspect.contributions import Contribution, Explanation, find_counterfactuals

if TYPE_CHECKING:
    from oda_rl.agents.sb3.algorithm import OnlineAlgorithm

Array = NDArray[np.float64]

# Values of a continuous action that are compared with the greedy one
N_ALTERNATIVES = 7


@dataclass(frozen=True)
class PolicyCell:
    """A cell, and what the policy does at its codevector.

    Attributes
    ----------
    number : int
        Index of the cell in the codebook.
    codevector : ndarray of shape (n_features,)
        Its state, in the environment's own units.
    own_action : int, ndarray or None
        Of a codebook of pairs: the action that the cell stands for; a number, or of shape (n_joint,).
    action : int or ndarray
        The greedy action at the codevector.
    value, margin : float
        Q of that action, and by how much it is better than the second best; NaN for continuous actions.
        The value is NaN where none is known: of a distilled policy.
    visits : float
        Share of the training's steps, while values were learned; NaN where they are not counted.
    deviation : ndarray of shape (n_coordinates,) or None
        The standard deviations of the points of a Box that an actor draws there; the value is then that
        of the state.
    probability : float
        Where an actor draws numbered actions, that of the greedy one: the value is then that of the
        state, and the margin one of preferences. NaN otherwise.
    """

    number: int
    codevector: Array
    own_action: Any
    action: Any
    value: float
    margin: float
    visits: float
    deviation: Any = None
    probability: float = np.nan


@dataclass(frozen=True)
class PolicyTable:
    """A policy as a table: its cells, those visited most first.

    Attributes
    ----------
    algorithm : str
        Name of the class of the model.
    env_id : str or None
        What it was trained on.
    feature_names : list of str
        Names of the coordinates of codevectors, with units where they are known.
    action_names : list of str
        Names of numbered actions, or of the coordinates of continuous ones.
    is_continuous : bool
        Whether actions are points.
    cells : list of PolicyCell
        Without cells in which nothing was ever learned.
    n_cells : int
        All cells of the model.
    """

    algorithm: str
    env_id: str | None
    feature_names: list[str]
    action_names: list[str]
    is_continuous: bool
    cells: list[PolicyCell]
    n_cells: int

    @property
    def is_counted(self) -> bool:
        """Whether visits are known."""
        return len(self.cells) > 0 and not np.isnan(self.cells[0].visits)

    @property
    def has_probabilities(self) -> bool:
        """Whether an actor draws numbered actions: cells know preferences and values of states."""
        return len(self.cells) > 0 and not np.isnan(self.cells[0].probability)

    def cells_for(self, share: float) -> int:
        """How many of the cells visited most make up this share of all visits."""
        visits = np.cumsum([cell.visits for cell in self.cells])
        return int(np.searchsorted(visits, share * visits[-1] - 1e-12) + 1)

    def name_of(self, action: Any) -> str:
        """An action in words: its name, or its coordinates."""
        if self.is_continuous:
            return ", ".join(f"{value:.3g}" for value in np.atleast_1d(action))
        return self.action_names[int(action)]


@dataclass(frozen=True, eq=False)
class PolicyExplanation(Explanation):
    """Why a policy does what it does in one state.

    Attributes
    ----------
    point : ndarray of shape (n_features,)
        The state in the coordinates of codevectors, which may have an angle for its cosine and sine.
    value : float
        Q of the greedy action.
    values : ndarray of shape (n_actions,)
        Q of every numbered action; of the greedy one if actions are continuous. It is the sum of the
        weights of the contributions times their values.
    second : int or None
        The second best of numbered actions.
    alternatives : list of (ndarray, float)
        Other continuous actions, and their Q: along each coordinate, the others as in the greedy one.
        None with an actor.
    deviation : ndarray of shape (n_coordinates,) or None
        As for `PolicyCell`; the values are then those of the state.
    probability : float
        As for `PolicyCell`; `values` are then the preferences, and `value` is that of the state.
    """

    point: Array
    value: float
    values: Array
    second: int | None
    alternatives: list[tuple[Array, float]]
    deviation: Any = None
    probability: float = np.nan

    @property
    def observation(self) -> Array:
        """The state."""
        return self.sample

    @property
    def action(self) -> Any:
        """The greedy action."""
        return self.decision


def explain_policy(model: "OnlineAlgorithm") -> PolicyTable:
    """The policy of a model as a table of its cells.

    Parameters
    ----------
    model : TwoTimescaleAC, TwoTimescaleQ, UniformGridQ, SOMQ or DistilledPolicy
        Trained, or loaded from a file.

    Returns
    -------
    PolicyTable

    Raises
    ------
    ValueError
        If the model has learned nothing yet, or has no cells that one could show: the values of
        `TileCodingSarsa`, `FourierSarsa` and `KernelQ` are sums over many features.
    """
    found = _cells(model)
    n = model.observations.n_features
    actions, joint = model.actions, model.actions.is_continuous
    names = action_names(model.env_id, len(actions.centre) if joint else actions.n_actions)
    states = model.observations.nearest(found.codevectors[:, :n])
    greedy = model.learner.greedy(states) if joint else ()
    is_drawn = found.draws_points and found.knows_values
    spread = model.learner.distributions(states)[1] if is_drawn else None
    worth = model.learner.state_values(states) if found.prefers else None
    visits = np.full(len(found.codevectors), np.nan)
    if found.visits is not None and found.visits.any():
        visits = found.visits / found.visits.sum()
    cells = []
    for i in found.shown.tolist():
        state = found.codevectors[i, :n]
        own = None if found.own_actions is None else found.own_actions[i]
        if joint:
            action, value, margin = greedy[i], found.active(state, greedy[i]).total[0], np.nan
        else:
            action, value, _, margin = _best(found.values_at(i))
        wide, likely = None if spread is None else spread[i], np.nan
        if worth is not None:
            likely, value = _probability(found.values_at(i), action), worth[i]
        cells.append(
            PolicyCell(i, state, own, action, float(value), margin, float(visits[i]), wide, likely)
        )
    cells.sort(key=lambda cell: (-np.nan_to_num(cell.visits), -np.nan_to_num(cell.margin), cell.number))
    return PolicyTable(
        algorithm=type(model).__name__,
        env_id=model.env_id,
        feature_names=found.names(model.observations.names(model.env_id)),
        action_names=names,
        is_continuous=joint,
        cells=cells,
        n_cells=model.n_cells,
    )


def explain_observation(model: "OnlineAlgorithm", observation: ArrayLike) -> PolicyExplanation:
    """Why the greedy policy of a model does what it does in one state.

    Parameters
    ----------
    model : TwoTimescaleAC, TwoTimescaleQ, UniformGridQ, SOMQ or DistilledPolicy
        Trained, or loaded from a file.
    observation : array-like of shape (n_observed,), int, dict or tuple
        In the environment's own units: as the environment returns it, or the numbers that the tables
        name.

    Returns
    -------
    PolicyExplanation

    Raises
    ------
    ValueError
        As for `explain_policy`, or if the observation has another shape or is not finite.
    """
    cells, seen = _cells(model), model.observations
    names = seen.names(model.env_id)
    state = _check_state(model, observation, names)

    def greedy(points: Array) -> NDArray[Any]:
        return model.learner.greedy(seen.nearest(points))

    second, changes, others, own, wide, likely = None, [], [], cells.own_actions, None, np.nan
    if model.actions.is_continuous:
        action = greedy(state[None])[0]
        active = cells.active(state, action)
        value, margin = float(active.total[0]), np.nan
        if cells.draws_points:
            own = cells.own_points(state)
            wide = model.learner.distributions(state[None])[1][0] if cells.knows_values else None
        else:
            others = [(u, float(cells.active(state, u).total[0])) for u in _alternatives(model, action)]
    else:
        active = cells.active(state)
        action, value, second, margin = _best(active.total)
        if cells.prefers:
            likely = _probability(active.total, action)
            value = float(model.learner.state_values(seen.nearest(state[None]))[0])
        if not seen.is_table:  # numbers of states are not nearer to one another or farther
            low, high = cells.reach(len(state))
            low, high = np.maximum(low, seen.low), np.minimum(high, seen.high)
            changes = find_counterfactuals(greedy, state, low, high, names)
    return PolicyExplanation(
        sample=state,
        feature_names=tuple(names),
        decision=action,
        margin=margin,
        contributions=_contributions(cells, active, own, action, second, len(state)),
        counterfactuals=tuple(changes),
        point=cells.point(state),
        value=value,
        values=active.total,
        second=second,
        alternatives=others,
        deviation=wide,
        probability=likely,
    )


def _cells(model: "OnlineAlgorithm") -> Any:
    learner: Any = model.learner
    kind = kind_of_cells(learner)
    if kind is None:
        raise ValueError(
            f"{type(model).__name__} has no cells to show: each of its values is a sum over many "
            "features. TwoTimescaleAC, TwoTimescaleQ, UniformGridQ, SOMQ and DistilledPolicy can be "
            "explained."
        )
    if not learner.is_scaled:
        raise ValueError("the model has learned nothing yet: it is still in its warm-up.")
    return kind(learner)


def _check_state(model: "OnlineAlgorithm", observation: ArrayLike, names: list[str]) -> Array:
    """The observation as the agent has it: what the environment's dtype can hold."""
    try:
        rows, _ = model.observations.read(observation)
    except ValueError:
        rows = np.array([observation], dtype=object)
    try:
        state = np.asarray(rows, dtype=np.float64)
        usable = state.shape == (1, len(names)) and bool(np.isfinite(state).all())
    except (TypeError, ValueError):
        usable = False
    if not usable:
        raise ValueError(
            f"observation must be {len(names)} finite numbers, in this order: "
            f"{', '.join(names)}; got {observation!r}."
        )
    space = model.observation_space
    narrow = space.dtype if isinstance(space, spaces.Box) else np.float64
    found: Array = state[0].astype(narrow).astype(np.float64)
    return found


def _probability(preferences: Array, action: int) -> float:
    """The softmax of the preferences, at one action."""
    parts = np.exp(preferences - preferences.max())
    return float(parts[action] / parts.sum())


def _best(values: Array) -> tuple[int, float, int | None, float]:
    """The best action, its value, the second best, and the margin between them."""
    first, *others = np.argsort(-values, kind="stable").tolist()
    second = others[0] if others else None
    margin = np.nan if second is None else float(values[first] - values[second])
    return first, float(values[first]), second, margin


def _alternatives(model: "OnlineAlgorithm", action: Array) -> list[Array]:
    """Other continuous actions: along each coordinate, the others as they are."""
    centre, scale = model.actions.centre, model.actions.scale
    values = np.linspace(centre - scale, centre + scale, N_ALTERNATIVES)
    own = np.eye(len(action), dtype=bool)
    return [np.where(own[j], row, action) for j in range(len(action)) for row in values]


def _contributions(
    cells: Any, active: Active, own_actions: Any, action: Any, second: int | None, n: int
) -> tuple[Contribution, ...]:
    """The cells with a share, the weightiest first."""
    numbered = own_actions is not None and np.ndim(own_actions) == 1
    found = []
    for i in np.argsort(-active.share, kind="stable").tolist():
        if active.share[i] <= 0.0:
            break
        share, values = float(active.share[i]), active.values[:, i].copy()
        gain = np.nan if second is None else share * float(values[action] - values[second])
        own: Any = None if own_actions is None else own_actions[i]
        if numbered:
            values[np.arange(len(values)) != own] = np.nan
        state, distance = cells.codevectors[i, :n], float(np.sqrt(active.distance[i]))
        found.append(Contribution(i, share, distance, state, own, values, gain))
    return tuple(found)

"""What a trained policy does, cell by cell, as a table."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from oda_rl._types import Array
from oda_rl.agents.explain.cells import cells_of

if TYPE_CHECKING:
    from oda_rl.agents.sb3.algorithm import OnlineAlgorithm


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
        In codebooks of state-action pairs, the action of the cell: an index, or of shape (n_joint,).
    action : int or ndarray
        The greedy action at the codevector.
    value, margin : float
        Q of that action, and its margin over the second best. The margin is NaN for continuous actions,
        and the value is NaN for a distilled policy.
    visits : float
        Share of the training steps while values were learned; NaN if visits are not counted.
    deviation : ndarray of shape (n_coordinates,) or None
        Standard deviations of the continuous actions that an actor draws there; the value is then that
        of the state.
    probability : float
        Probability of the greedy action if an actor draws discrete actions: the value is then that of
        the state, and the margin is one of preferences. NaN otherwise.
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
    """A policy as a table of its cells, those visited most first.

    Attributes
    ----------
    algorithm : str
        Name of the class of the model.
    env_id : str or None
        The environment that it was trained on.
    feature_names : list of str
        Names of the coordinates of codevectors, with units where they are known.
    action_names : list of str
        Names of discrete actions, or of the coordinates of continuous ones.
    is_continuous : bool
        Whether actions are continuous.
    cells : list of PolicyCell
        The cells, without those in which nothing was ever learned.
    n_cells : int
        Number of all cells of the model.
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
        """Whether an actor draws discrete actions: cells have preferences and values of states."""
        return len(self.cells) > 0 and not np.isnan(self.cells[0].probability)

    def cells_for(self, share: float) -> int:
        """How many of the most visited cells make up this share of all visits."""
        visits = np.cumsum([cell.visits for cell in self.cells])
        return int(np.searchsorted(visits, share * visits[-1] - 1e-12) + 1)

    def name_of(self, action: Any) -> str:
        """An action in words: its name, or its coordinates."""
        if self.is_continuous:
            return ", ".join(f"{value:.3g}" for value in np.atleast_1d(action))
        return self.action_names[int(action)]


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
        If the model has learned nothing yet, or has no cells to show: the values of
        `TileCodingSarsa`, `FourierSarsa` and `KernelQ` are sums over many features.
    """
    found = cells_of(model)
    n = model.observations.n_features
    joint = model.actions.is_continuous
    names = model.action_names
    asked = joint or found.prefers  # other codevectors may have angles, and then are no observations
    states: Any = model.observations.nearest(found.codevectors[:, :n]) if asked else None
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
            action, value, _, margin = best_of(found.values_at(i))
        wide, likely = None if spread is None else spread[i], np.nan
        if worth is not None:
            likely, value = probability_of(found.values_at(i), action), worth[i]
        cells.append(
            PolicyCell(i, state, own, action, float(value), margin, float(visits[i]), wide, likely)
        )
    cells.sort(key=lambda cell: (-np.nan_to_num(cell.visits), -np.nan_to_num(cell.margin), cell.number))
    return PolicyTable(
        algorithm=type(model).__name__,
        env_id=model.env_id,
        feature_names=found.names(model.observation_names),
        action_names=names,
        is_continuous=joint,
        cells=cells,
        n_cells=model.n_cells,
    )


def probability_of(preferences: Array, action: int) -> float:
    """The softmax of the preferences, at one action."""
    parts = np.exp(preferences - preferences.max())
    return float(parts[action] / parts.sum())


def best_of(values: Array) -> tuple[int, float, int | None, float]:
    """The best action, its value, the second best, and the margin between them."""
    first, *others = np.argsort(-values, kind="stable").tolist()
    second = others[0] if others else None
    margin = np.nan if second is None else float(values[first] - values[second])
    return first, float(values[first]), second, margin

"""The records that explanations of a policy are made of."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


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
    visits : float
        Share of the training's steps, while values were learned; NaN where nobody has counted.
    """

    number: int
    codevector: Array
    own_action: Any
    action: Any
    value: float
    margin: float
    visits: float


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

    def cells_for(self, share: float) -> int:
        """How many of the cells visited most make up this share of all visits."""
        visits = np.cumsum([cell.visits for cell in self.cells])
        return int(np.searchsorted(visits, share * visits[-1] - 1e-12) + 1)

    def name_of(self, action: Any) -> str:
        """An action in words: its name, or its coordinates."""
        if self.is_continuous:
            return ", ".join(f"{value:.3g}" for value in np.atleast_1d(action))
        return self.action_names[int(action)]


@dataclass(frozen=True)
class Voice:
    """A cell that speaks for an observation.

    Attributes
    ----------
    number : int
        Index of the cell.
    weight : float
        Its association probability; of a codebook for each action, among the cells of its own.
    distance : float
        From the observation, in the agent's scaled units; NaN for cells of a grid.
    codevector : ndarray of shape (n_features,)
        Its state, in the environment's own units.
    own_action : int, ndarray or None
        As for `PolicyCell`.
    values : ndarray of shape (n_actions,)
        What it says of every action in this state, of one if actions are continuous; NaN where it does
        not know the action.
    for_action : float
        What it adds to the margin of the greedy action over the second best; NaN for continuous actions.
    """

    number: int
    weight: float
    distance: float
    codevector: Array
    own_action: Any
    values: Array
    for_action: float


@dataclass(frozen=True)
class Flip:
    """The smallest change of one coordinate, up or down, that changes the greedy action.

    Attributes
    ----------
    feature : str
        Name of the coordinate.
    change : float
        In the environment's own units.
    at : float
        The coordinate with the change.
    action : int
        The greedy action there.
    """

    feature: str
    change: float
    at: float
    action: int


@dataclass(frozen=True)
class Explanation:
    """Why a policy does what it does in one state.

    Attributes
    ----------
    observation : ndarray of shape (n_observed,)
        The state.
    observation_names : list of str
        Names of its coordinates.
    point : ndarray of shape (n_features,)
        The state in the coordinates of codevectors, which may have an angle for its cosine and sine.
    action : int or ndarray
        The greedy action.
    value, margin : float
        Q of it, and by how much it is better than the second best; NaN for continuous actions.
    values : ndarray of shape (n_actions,)
        Q of every numbered action; of the greedy one if actions are continuous.
    second : int or None
        The second best of numbered actions.
    voices : list of Voice
        Cells that speak, the weightiest first. Weights times values sum to Q.
    flips : list of Flip
        What would change the action, the smallest change (as a part of the cells' range) first; empty
        for continuous actions.
    alternatives : list of (ndarray, float)
        Other continuous actions, and their Q: along each coordinate, the others as in the greedy one.
    """

    observation: Array
    observation_names: list[str]
    point: Array
    action: Any
    value: float
    margin: float
    values: Array
    second: int | None
    voices: list[Voice]
    flips: list[Flip]
    alternatives: list[tuple[Array, float]]

"""Explain the decision of a trained policy in a given state.

>>> from oda_rl.agents import TwoTimescaleQ
>>> from oda_rl.agents.explain import explain_policy
>>> model = TwoTimescaleQ(env="oda_rl/CartPole-v1", seed=0).learn(20_000)
>>> table = explain_policy(model)
>>> table.feature_names[2], len(table.cells) == model.n_cells
('pole angle (rad)', True)
>>> why = explain_observation(model, [0.0, 0.0, 0.05, 0.0])
>>> why.action in (0, 1), why.margin >= 0.0
(True, True)
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from oda_rl._types import Array
from oda_rl.agents.explain.cells import Active, cells_of
from oda_rl.agents.explain.table import best_of, probability_of
from oda_rl.inspect.contributions import Contribution, Counterfactual, Explanation, find_counterfactuals

if TYPE_CHECKING:
    from oda_rl.agents.sb3.algorithm import OnlineAlgorithm


# Values of each coordinate of a continuous action that are compared with the greedy action
N_ALTERNATIVES = 7


@dataclass(frozen=True, eq=False)
class PolicyExplanation(Explanation):
    """Why a policy decides as it does in one state.

    Attributes
    ----------
    point : ndarray of shape (n_features,)
        The state in the coordinates of codevectors, which may have angles instead of cosine and sine.
    value : float
        Q of the greedy action.
    values : ndarray of shape (n_actions,)
        Q of every discrete action, or of the greedy action if actions are continuous: the sum over the
        contributions of weight times values.
    second : int or None
        The second best of discrete actions, if there is one.
    alternatives : list of (ndarray, float)
        Continuous actions that differ from the greedy one in one coordinate, and their Q. Empty with an
        actor or with discrete actions.
    deviation : ndarray of shape (n_coordinates,) or None
        As for `PolicyCell`; if given, `value` and `values` are those of the state.
    probability : float
        As for `PolicyCell`; if not NaN, `values` are preferences, and `value` is that of the state.
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


def explain_observation(model: "OnlineAlgorithm", observation: ArrayLike) -> PolicyExplanation:
    """Explain the greedy decision of a model in one state.

    Parameters
    ----------
    model : TwoTimescaleAC, TwoTimescaleQ, UniformGridQ, SOMQ or DistilledPolicy
        Trained, or loaded from a file.
    observation : array-like of shape (n_observed,), int, dict or tuple
        In the environment's own units: as the environment returns it, or as the numbers named by the
        `feature_names` of the explanation.

    Returns
    -------
    PolicyExplanation

    Raises
    ------
    ValueError
        As for `explain_policy`, or if the observation has another shape or is not finite.
    """
    cells, names = cells_of(model), model.observation_names
    state = _check_state(model, observation, names)
    own = _of_points if model.actions.is_continuous else _of_numbers
    return PolicyExplanation(
        sample=state,
        feature_names=tuple(names),
        point=cells.point(state),
        **own(model, cells, state, names),
    )


def _of_numbers(model: "OnlineAlgorithm", cells: Any, state: Array, names: list[str]) -> dict[str, Any]:
    """Fields of a `PolicyExplanation` for discrete actions."""
    seen, active = model.observations, cells.active(state)
    action, value, second, margin = best_of(active.total)
    likely = np.nan
    if cells.prefers:
        likely = probability_of(active.total, action)
        value = float(model.learner.state_values(seen.nearest(state[None]))[0])
    # between indices of states there are no distances
    changes = [] if seen.is_table else _find_changes(model, cells, state, action, names)
    parts = _contributions(cells, active, cells.own_actions, action, second, len(state))
    return {
        "decision": action,
        "margin": margin,
        "contributions": parts,
        "counterfactuals": tuple(changes),
        "value": value,
        "values": active.total,
        "second": second,
        "alternatives": [],
        "probability": likely,
    }


def _find_changes(
    model: "OnlineAlgorithm", cells: Any, state: Array, action: int, names: list[str]
) -> list[Counterfactual]:
    """The changes of single coordinates that change the action, the smallest first."""
    seen = model.observations

    def greedy(points: Array) -> NDArray[Any]:
        return model.learner.greedy(seen.nearest(points))

    others = list(seen.other_values(state))
    rows = np.array([row for _, row in others]).reshape(-1, len(state))
    discrete = (rows != state).any(axis=0)  # discrete entries: there are no values in between
    low, high = cells.reach(len(state))
    low = np.where(discrete, seen.low, np.minimum(np.maximum(low, seen.low), state))
    high = np.where(discrete, seen.high, np.maximum(np.minimum(high, seen.high), state))
    ends = np.where(discrete, state, low), np.where(discrete, state, high)
    changes = []
    for found in find_counterfactuals(greedy, state, *ends, names):
        if seen.whole[names.index(found.feature)]:
            start, whole = found.at - found.change, round(found.at)
            found = replace(found, at=whole, change=whole - start, rounded=whole - start)
        changes.append(found)
    then: Any = greedy(rows) if others else []
    for (j, row), decision in zip(others, then, strict=True):
        if decision != action:
            change, at = float(row[j] - state[j]), float(row[j])
            changes.append(Counterfactual(names[j], change, at, decision, change))
    ranges = dict(zip(names, high - low, strict=True))
    return sorted(changes, key=lambda one: abs(one.change) / ranges[one.feature])


def _of_points(model: "OnlineAlgorithm", cells: Any, state: Array, names: list[str]) -> dict[str, Any]:
    """Fields of a `PolicyExplanation` for continuous actions."""
    row = model.observations.nearest(state[None])
    action = model.learner.greedy(row)[0]
    active = cells.active(state, action)
    others, own, wide = [], cells.own_actions, None
    if cells.draws_points:
        own = cells.own_points(state)
        wide = model.learner.distributions(state[None])[1][0] if cells.knows_values else None
    else:
        others = [(u, float(cells.active(state, u).total[0])) for u in _alternatives(model, action)]
    parts = _contributions(cells, active, own, action, None, len(state))
    return {
        "decision": action,
        "margin": np.nan,
        "contributions": parts,
        "counterfactuals": (),
        "value": float(active.total[0]),
        "values": active.total,
        "second": None,
        "alternatives": others,
        "deviation": wide,
    }


def _check_state(model: "OnlineAlgorithm", observation: ArrayLike, names: list[str]) -> Array:
    """The observation as a row of numbers, rounded to the environment's dtype, after a check."""
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
    seen, space = model.observations, model.observation_space
    if seen.is_table and not _is_state(state[0], seen):
        low, high = (", ".join(f"{end:g}" for end in ends) for ends in (seen.low, seen.high))
        raise ValueError(
            f"observation must be integers from {low} to {high}, in this order: {', '.join(names)}; "
            f"got {observation!r}."
        )
    narrow = space.dtype if isinstance(space, spaces.Box) else np.float64
    found: Array = state[0].astype(narrow).astype(np.float64)
    return found


def _is_state(state: Array, seen: Any) -> bool:
    """Whether all entries are whole numbers within their bounds, as for states of a table."""
    return bool(((state == np.floor(state)) & (state >= seen.low) & (state <= seen.high)).all())


def _alternatives(model: "OnlineAlgorithm", action: Array) -> list[Array]:
    """Continuous actions that differ from `action` in one coordinate."""
    low, high = model.actions.ends
    values = np.linspace(low, high, N_ALTERNATIVES)
    own = np.eye(len(action), dtype=bool)
    return [np.where(own[j], row, action) for j in range(len(action)) for row in values]


def _contributions(
    cells: Any, active: Active, own_actions: Any, action: Any, second: int | None, n: int
) -> tuple[Contribution, ...]:
    """The active cells, those with the largest shares first."""
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

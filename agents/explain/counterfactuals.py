"""What would change the greedy action: the nearest value of each coordinate at which another one is."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl.agents.explain.records import Flip
from oda_rl.agents.linear_q.learner import LinearLearner
from oda_rl.agents.sb3.algorithm import OnlineAlgorithm

Array = NDArray[np.float64]

# Points looked at along each direction of a coordinate, and halvings of the step in which the action
# changes. Looked at is the range of the codevectors, and so many ranges beyond it.
N_POINTS, HALVINGS, BEYOND = 400, 30, 0.5


def choose_greedily(model: OnlineAlgorithm, observations: Array) -> NDArray[Any]:
    """The greedy actions for observations of shape (n, n_observed): numbers from 0, or points."""
    # In the dtype of the environment, for which the compiled code is there
    points = np.ascontiguousarray(observations, dtype=model.observation_space.dtype)
    actions: NDArray[Any] = model.learner.greedy(points)
    return actions


def find_flips(model: OnlineAlgorithm, observation: Array, names: list[str], action: int) -> list[Flip]:
    """For each coordinate, up and down, the smallest change that changes the greedy action.

    Parameters
    ----------
    model : OnlineAlgorithm
        With numbered actions.
    observation : ndarray of shape (n_observed,)
        In the environment's own units.
    names : list of str
        Names of its coordinates.
    action : int
        The greedy action.

    Returns
    -------
    list of Flip
        The smallest change, as a part of the range that was looked at, first. Coordinates that change
        nothing in their range are left out.
    """
    low, high = _range_of(model, observation)
    found = []
    for j, name in enumerate(names):
        for end in (low[j], high[j]):
            at, other = _first_change(model, observation, j, end, action)
            if other is not None:
                change = float(at - observation[j])
                found.append((abs(change) / (high[j] - low[j]), Flip(name, change, at, other)))
    return [flip for _, flip in sorted(found, key=lambda pair: pair[0])]


def _range_of(model: OnlineAlgorithm, observation: Array) -> tuple[Array, Array]:
    """What to look at, inside the observation space."""
    learner: Any = model.learner
    if isinstance(learner, LinearLearner):
        low, high = np.full(len(observation), -1.0), np.ones(len(observation))
        for k, (first, second) in enumerate(learner.range.source):
            if second < 0:  # the cosine and the sine of an angle are between -1 and 1
                low[first], high[first] = learner.range.lower[k], learner.range.upper[k]
    else:
        points = learner.codevectors[:, : len(observation)]
        low, high = points.min(axis=0), points.max(axis=0)
        margin = BEYOND * (high - low)
        low, high = low - margin, high + margin
    space = model.observation_space
    low, high = np.minimum(low, observation), np.maximum(high, observation)
    return np.maximum(low, space.low), np.minimum(high, space.high)


def _first_change(
    model: OnlineAlgorithm, observation: Array, j: int, end: float, action: int
) -> tuple[float, int | None]:
    """Where, on the way of coordinate `j` to `end`, another action becomes the greedy one."""

    def choose(values: Any) -> NDArray[Any]:
        points = np.repeat(observation[None], len(values), axis=0)
        points[:, j] = values
        return choose_greedily(model, points)

    way = np.linspace(observation[j], end, N_POINTS + 1)
    changed = np.flatnonzero(choose(way[1:]) != action)
    if len(changed) == 0:
        return float(end), None
    same, other = way[changed[0]], way[changed[0] + 1]
    for _ in range(HALVINGS):
        middle = 0.5 * (same + other)
        if choose([middle])[0] == action:
            same = middle
        else:
            other = middle
    return float(other), int(choose([other])[0])

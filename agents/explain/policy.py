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

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oda_rl.agents.codebook_rl.learner import TwoTimescaleLearner
from oda_rl.agents.explain.contributions import Voices, listen, listen_to_linear, listen_to_pairs
from oda_rl.agents.explain.counterfactuals import choose_greedily, find_flips
from oda_rl.agents.explain.records import Explanation, PolicyCell, PolicyTable, Voice
from oda_rl.agents.kernel_q.learner import KernelLearner
from oda_rl.agents.linear_q.config import SOMConfig, UniformGridConfig
from oda_rl.agents.linear_q.learner import LinearLearner
from oda_rl.agents.sb3.algorithm import OnlineAlgorithm
from oda_rl.envs.names import action_names, observation_names

Array = NDArray[np.float64]

# Values of a continuous action that are looked at besides the greedy one
N_ALTERNATIVES = 7


def explain_policy(model: OnlineAlgorithm) -> PolicyTable:
    """The policy of a model as a table of its cells.

    Parameters
    ----------
    model : TwoTimescaleQ, UniformGridQ or SOMQ
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
    learner: Any = _check(model)
    codevectors = learner.codevectors
    if isinstance(learner, LinearLearner):
        rows = _rows_of_linear(learner)
    elif learner.actions.is_joint:
        rows = _rows_of_pairs(model, learner)
    else:
        rows = _rows_of_cells(learner)
    n_shown = learner.sizes.n_observed if isinstance(learner, TwoTimescaleLearner) else None
    cells = [PolicyCell(i, codevectors[i, :n_shown], *row) for i, row in rows]
    cells.sort(key=lambda cell: (-np.nan_to_num(cell.visits), -np.nan_to_num(cell.margin), cell.number))
    joint = model.actions.is_joint
    return PolicyTable(
        algorithm=type(model).__name__,
        env_id=model.env_id,
        feature_names=_feature_names(model),
        action_names=action_names(
            model.env_id, len(model.actions.centre) if joint else model.actions.n_actions
        ),
        is_continuous=joint,
        cells=cells,
        n_cells=model.n_cells,
    )


def explain_observation(model: OnlineAlgorithm, observation: ArrayLike) -> Explanation:
    """Why the greedy policy of a model does what it does in one state.

    Parameters
    ----------
    model : TwoTimescaleQ, UniformGridQ or SOMQ
        Trained, or loaded from a file.
    observation : array-like of shape (n_observed,)
        In the environment's own units.

    Returns
    -------
    Explanation

    Raises
    ------
    ValueError
        As for `explain_policy`, or if the observation has another shape or is not finite.
    """
    learner: Any = _check(model)
    seen = np.asarray(observation, dtype=np.float64)
    shape = model.observation_space.shape
    if seen.shape != shape or not np.isfinite(seen).all():
        raise ValueError(
            f"observation must be {shape[0]} finite numbers, in this order: "
            f"{', '.join(observation_names(model.env_id, shape[0]))}; got {np.array(seen).tolist()}."
        )
    # The agent sees what the environment's dtype can hold.
    seen = seen.astype(model.observation_space.dtype).astype(np.float64)
    names = observation_names(model.env_id, len(seen))
    if model.actions.is_joint:
        return _explain_pair(model, learner, seen, names)
    voices = _listen(learner, seen)
    values = voices.values
    order = np.argsort(-values, kind="stable")
    action, second = int(order[0]), int(order[1]) if len(order) > 1 else None
    gains = np.full(len(voices.share), np.nan)
    if second is not None:
        gains = voices.share * (voices.says[action] - voices.says[second])
    return Explanation(
        observation=seen,
        observation_names=names,
        point=_point_of(learner, seen),
        action=action,
        value=float(values[action]),
        margin=float(values[action] - values[second]) if second is not None else np.nan,
        values=values,
        second=second,
        voices=_gather(learner, voices, gains),
        flips=find_flips(model, seen, names, action),
        alternatives=[],
    )


# -- tables --------------------------------------------------------------------------------------


def _check(model: OnlineAlgorithm) -> Any:
    learner: Any = model.learner
    linear = isinstance(learner, LinearLearner)
    if isinstance(learner, KernelLearner) or (
        linear and not isinstance(learner.config, UniformGridConfig | SOMConfig)
    ):
        raise ValueError(
            f"{type(model).__name__} has no cells to show: each of its values is a sum over many "
            "features. TwoTimescaleQ, UniformGridQ and SOMQ can be explained."
        )
    if not learner.is_scaled:
        raise ValueError("the model has learned nothing yet: it is still in its warm-up.")
    return learner


def _listen(learner: Any, observation: Array) -> Voices:
    if isinstance(learner, LinearLearner):
        return listen_to_linear(learner, observation)
    return listen(learner, observation)


def _best(values: Array) -> tuple[int, float, float]:
    """The best action, its value, and its margin over the second best."""
    order = np.argsort(-values, kind="stable")
    margin = float(values[order[0]] - values[order[1]]) if len(order) > 1 else np.nan
    return int(order[0]), float(values[order[0]]), margin


def _shares(visits: Array) -> Array:
    total = visits.sum()
    return visits / total if total > 0.0 else np.full(len(visits), np.nan)


def _rows_of_cells(learner: TwoTimescaleLearner) -> list[tuple[int, Any]]:
    visits = _shares(learner.codebook["visits"].sum(axis=0))
    labels = learner.codebook.labels
    paired = learner.sizes.n_labels > 1
    rows: list[tuple[int, Any]] = []
    for i, point in enumerate(learner.codevectors):
        own = int(labels[i]) if paired else None
        rows.append((i, (own, *_best(listen(learner, point).values), visits[i])))
    return rows


def _rows_of_pairs(model: OnlineAlgorithm, learner: TwoTimescaleLearner) -> list[tuple[int, Any]]:
    n = learner.sizes.n_observed
    visits = _shares(learner.codebook["visits"].sum(axis=0))
    points = learner.codevectors
    greedy = choose_greedily(model, points[:, :n])
    rows: list[tuple[int, Any]] = []
    for i, (point, action) in enumerate(zip(points, greedy, strict=True)):
        value = float(listen_to_pairs(learner, point[:n], action).values[0])
        rows.append((i, (point[n:], action, value, np.nan, visits[i])))
    return rows


def _rows_of_linear(learner: LinearLearner) -> list[tuple[int, Any]]:
    """Cells of a grid or a map, without those whose values nobody has ever moved."""
    weights = learner.weights
    touched = np.flatnonzero((weights != learner.initial_value).any(axis=1))
    counted = learner.visits is not None
    shares = _shares(learner.visits.sum(axis=1)) if counted else np.full(len(weights), np.nan)
    return [(int(i), (None, *_best(weights[i]), shares[i])) for i in touched]


def _feature_names(model: OnlineAlgorithm) -> list[str]:
    names = observation_names(model.env_id, model.observation_space.shape[0])
    learner: Any = model.learner
    if not isinstance(learner, LinearLearner):
        return names
    return [
        names[first] if second < 0 else f"{names[first].removeprefix('cos ')} (rad)"
        for first, second in learner.range.source.tolist()
    ]


# -- one observation -----------------------------------------------------------------------------


def _point_of(learner: Any, seen: Array) -> Array:
    if isinstance(learner, LinearLearner):
        return learner.range.restore(learner.encode(seen)[0][None])[0]
    return seen


def _gather(learner: Any, voices: Voices, gains: Array) -> list[Voice]:
    """The cells with a share, the weightiest first."""
    codevectors = learner.codevectors
    flat = isinstance(learner, TwoTimescaleLearner)
    n = learner.sizes.n_observed if flat else None
    joint = flat and learner.actions.is_joint
    paired = flat and learner.sizes.n_labels > 1
    found = []
    for i in np.argsort(-voices.share, kind="stable"):
        if voices.share[i] <= 0.0:
            break
        own: Any = codevectors[i, n:] if joint else int(learner.codebook.label[i]) if paired else None
        values = voices.says[:, i].copy()
        if paired:
            values[np.arange(len(values)) != own] = np.nan
        found.append(
            Voice(
                number=int(i),
                weight=float(voices.share[i]),
                distance=float(np.sqrt(voices.distance[i])),
                codevector=codevectors[i, :n],
                own_action=own,
                values=values,
                for_action=float(gains[i]),
            )
        )
    return found


def _explain_pair(
    model: OnlineAlgorithm, learner: TwoTimescaleLearner, seen: Array, names: list[str]
) -> Explanation:
    action = choose_greedily(model, seen[None])[0]
    voices = listen_to_pairs(learner, seen, action)
    low, high = (learner.actions.centre + sign * learner.actions.scale for sign in (-1.0, 1.0))
    alternatives = []
    for j in range(len(action)):
        for value in np.linspace(low[j], high[j], N_ALTERNATIVES):
            other = action.copy()
            other[j] = value
            alternatives.append((other, float(listen_to_pairs(learner, seen, other).values[0])))
    return Explanation(
        observation=seen,
        observation_names=names,
        point=seen,
        action=action,
        value=float(voices.values[0]),
        margin=np.nan,
        values=voices.values,
        second=None,
        voices=_gather(learner, voices, np.full(len(voices.share), np.nan)),
        flips=[],
        alternatives=alternatives,
    )

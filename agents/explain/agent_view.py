"""The `View` of an agent, which `oda_rl.plotting` draws."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from oda_rl._types import Array
from oda_rl.agents.explain.cells import ProgramCells, check_learned, kind_of_cells, known_range
from oda_rl.inspect.model import View

if TYPE_CHECKING:
    from oda_rl.agents.sb3.algorithm import OnlineAlgorithm


# If an agent has more cells than this, as in a fine grid, they are not drawn.
MOST_CELLS = 10_000


def view_of_agent(
    model: "OnlineAlgorithm", learner: Any = None, num_timesteps: int | None = None
) -> View:
    """The cells of an agent with their greedy actions, its values and its greedy policy.

    Cells are weighted by their visits if these are counted; those of a grid or a map are located at
    their centres. The view has no cells for tile coding, the Fourier basis, kernel machines, and grids
    with angles. `learner` and `num_timesteps` replace those of the model, to show it at another time.
    Everything is in the environment's own units. The functions of the view evaluate the learner when
    they are called, and thus change as it goes on learning.

    Raises a ValueError if nothing has been learned yet.
    """
    learner = model.learner if learner is None else learner
    check_learned(learner)
    steps = model.num_timesteps if num_timesteps is None else num_timesteps
    seen, joint = model.observations, model.actions.is_continuous
    n = seen.n_features
    features, names, low, high = _coordinates(model)
    cells = _cells_of(learner)
    drawn = cells is not None and cells.polytopes
    codevectors = cells.codevectors if drawn else np.empty((0, n))
    d = codevectors.shape[1]

    def decisions(points: Array) -> NDArray[Any]:
        found: NDArray[Any] = learner.greedy(seen.nearest(points[:, :n]))
        return found[:, 0] if joint else found

    def values(points: Array) -> Array:
        return np.asarray(learner.state_values(seen.nearest(points[:, :n])))

    prefers = getattr(cells, "prefers", False)
    return View(
        codevectors=codevectors,
        weights=cells.weights if drawn else np.empty(0),
        labels=decisions(codevectors) if drawn else None,
        feature_names=features[:d],
        label_names=names,
        low=low[:d],
        high=high[:d],
        distance=cells.distances if drawn else None,
        values=values if getattr(cells, "knows_values", True) else None,
        decisions=decisions,
        value_name="value of the state" if prefers else "value of the greedy action",
        n_valued=n,
        reach=_reach(model, learner, cells),
        title=f"{steps:,} steps: {learner.n_cells} cells",
        history=model.history_,
        returns=learning_curve(model),
    )


def _cells_of(learner: Any) -> Any:
    """The cells of a learner for a view; None if it has none, or too many."""
    kind = kind_of_cells(learner)
    return kind(learner) if kind is not None and learner.n_cells <= MOST_CELLS else None


def _coordinates(model: "OnlineAlgorithm") -> tuple[list[str], list[str], Array, Array]:
    """Names of the coordinates, which may include actions, and of actions; ends of the coordinates."""
    actions, low, high = model.actions, model.observations.low, model.observations.high
    features = model.observation_names
    if not actions.is_continuous:
        return features, model.action_names, low, high
    n_points = len(actions.centre)
    names = [f"action[{j}]" for j in range(n_points)] if n_points > 1 else ["action"]
    sizes = getattr(model.learner, "sizes", None)  # a distilled policy has none
    if sizes is None or sizes.n_joint == 0:
        return features, names[:1], low, high
    low, high = (np.concatenate(both) for both in zip((low, high), actions.ends, strict=True))
    return features + names, names[:1], low, high


def learning_curve(model: "OnlineAlgorithm") -> tuple[Array, Array]:
    """Steps at the ends of the episodes that the environments' Monitors recorded, and their returns.

    The steps of an episode are multiplied by the number of environments. Empty without a Monitor.
    """
    env: Any = model.get_env()
    if env is None or not all(env.has_attr(name) for name in ("episode_returns", "episode_lengths")):
        return np.empty(0), np.empty(0)
    ends = [
        env.num_envs * (getattr(lengths, "before", 0.0) + np.cumsum(lengths))
        for lengths in env.env_method("get_episode_lengths")
    ]
    steps = np.concatenate(ends).astype(float)
    returns = np.concatenate(env.env_method("get_episode_rewards")).astype(float)
    order = np.argsort(steps, kind="stable")
    return steps[order], returns[order]


def restore(model: "OnlineAlgorithm", state: dict[str, Any]) -> Any:
    """Make a learner from a `state` that the model's own learner returned, without changing that one."""
    learner = model._make_learner()
    learner.set_state(state)
    return learner


def _reach(model: "OnlineAlgorithm", learner: Any, cells: Any) -> tuple[Array, Array] | None:
    """The range to show of each observation coordinate; None if the codevectors determine it."""
    seen = model.observations
    if isinstance(cells, ProgramCells):  # few codevectors, which do not show the range of the states
        return cells.reach(seen.n_features)
    if cells is not None and cells.polytopes:
        return None
    low = np.where(np.isfinite(seen.low), seen.low, -1.0)
    high = np.where(np.isfinite(seen.high), seen.high, 1.0)
    ends = getattr(learner, "range", None)  # baselines and kernel machines have it
    if ends is None or not ends.is_known:
        return low, high
    known = np.isin(np.arange(len(low)), ends.source[~ends.is_angle, 0])
    found = known_range(learner, len(low))
    return np.where(known, found[0], low), np.where(known, found[1], high)

"""What there is to be drawn of an agent, for `oda_rl.plotting`."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from oda_rl.envs.names import action_names, observation_names
from oda_rl.plotting.views import View, squared_distances

if TYPE_CHECKING:
    from oda_rl.agents.sb3.algorithm import OnlineAlgorithm

Array = NDArray[np.float64]

# More cells than this, of a fine grid, are not seen one by one.
MOST_CELLS = 10_000


def view_of_agent(
    model: "OnlineAlgorithm", learner: Any = None, num_timesteps: int | None = None
) -> View:
    """The cells of an agent with their greedy actions, its values and its greedy policy.

    Parameters
    ----------
    model : OnlineAlgorithm
        With two-timescale learning the cells are weighted by their visits; a grid's or a map's have
        their centres; tile coding and Fourier basis have none, and nor have grids with angles.
    learner : Learner, optional
        What it had learned at another time.
    num_timesteps : int, optional
        When that was.

    Returns
    -------
    View
        In the environment's own units. It looks at the model as it is, now and later.
    """
    learner = model.learner if learner is None else learner
    steps = model.num_timesteps if num_timesteps is None else num_timesteps
    space = model.observation_space
    n = len(space.low)
    joint = model.actions.is_joint
    names = action_names(model.env_id, model.actions.n_actions)
    features = observation_names(model.env_id, n)
    low, high = space.low.astype(float), space.high.astype(float)
    if joint:
        several = len(model.actions.centre) > 1
        names = ["action[0]"] if several else ["action"]
        features += [f"action[{j}]" for j in range(len(model.actions.centre))] if several else names
    codevectors, weights, distance = _cells(model, learner)
    if codevectors.shape[1] > n:
        reach = model.actions.scale
        low = np.concatenate([low, model.actions.centre - reach])
        high = np.concatenate([high, model.actions.centre + reach])

    def as_observed(points: Array) -> NDArray[Any]:
        return np.ascontiguousarray(points[:, :n], dtype=space.dtype)

    def decisions(points: Array) -> NDArray[Any]:
        found: NDArray[Any] = learner.greedy(as_observed(points))
        return found[:, 0] if joint else found

    def values(points: Array) -> Array:
        best: Array = learner.action_values(as_observed(points)).max(axis=1)
        return best

    return View(
        codevectors=codevectors,
        weights=weights,
        labels=decisions(codevectors) if len(codevectors) else None,
        feature_names=features[: codevectors.shape[1]],
        label_names=names,
        low=low,
        high=high,
        distance=distance,
        values=values,
        decisions=decisions,
        value_name="value of the greedy action",
        n_valued=n,
        reach=None if len(codevectors) else _reach(model, learner),
        title=f"{steps:,} steps: {learner.n_cells} cells",
    )


def learning_curve(model: "OnlineAlgorithm") -> tuple[Array, Array]:
    """Steps at the ends of the episodes that the environments' Monitors remember, and their returns.

    Parameters
    ----------
    model : OnlineAlgorithm
        Of several environments each makes its share of the steps.

    Returns
    -------
    steps, returns : ndarray of shape (n_episodes,)
        Empty without an environment or a Monitor.
    """
    env: Any = model.get_env()
    if env is None or not all(env.has_attr(name) for name in ("episode_returns", "episode_lengths")):
        return np.empty(0), np.empty(0)
    ends = [env.num_envs * np.cumsum(lengths) for lengths in env.env_method("get_episode_lengths")]
    steps = np.concatenate(ends).astype(float)
    returns = np.concatenate(env.env_method("get_episode_rewards")).astype(float)
    order = np.argsort(steps, kind="stable")
    return steps[order], returns[order]


def restore(model: "OnlineAlgorithm", state: dict[str, Any]) -> Any:
    """A learner as `get_state` of the model's own saw it; that one is left alone."""
    learner = model._make_learner()
    learner.set_state(state)
    return learner


def _cells(model: "OnlineAlgorithm", learner: Any) -> tuple[Array, Array, Any]:
    """Codevectors, weights, and how far points are from them; nothing where there are no such cells."""
    n = len(model.observation_space.low)
    if hasattr(learner, "codebook"):
        book, units = learner.codebook, _units(model, learner)
        found = book.codevectors
        visits = book["visits"].sum(axis=0)
        weights = visits if visits.any() else book.weights
        if not learner.is_scaled:
            return np.empty((0, n)), np.empty(0), None
        return learner.codevectors, weights, lambda X: squared_distances(units(X), found)
    looks = learner.range
    if not learner.is_scaled or looks.is_angle.any() or learner.n_cells > MOST_CELLS:
        return np.empty((0, n)), np.empty(0), None
    try:
        codevectors = learner.codevectors
    except AttributeError:
        return np.empty((0, n)), np.empty(0), None
    visits = learner.visits
    weights = np.ones(len(codevectors)) if visits is None else visits.sum(axis=1)
    places = (codevectors - looks.low) * looks.inverse
    return codevectors, weights, lambda X: squared_distances((X - looks.low) * looks.inverse, places)


def _units(model: "OnlineAlgorithm", learner: Any) -> Any:
    """From the environment's own units to those in which a two-timescale learner measures."""
    centre = np.concatenate([learner.scale.centre, model.actions.centre])
    scale = np.concatenate([learner.scale.scale, model.actions.scale / model.config.action_weight])
    return lambda X: (X - centre) / scale


def _reach(model: "OnlineAlgorithm", learner: Any) -> tuple[Array, Array]:
    """What to show of every coordinate of an observation if there are no codevectors to tell."""
    space, looks = model.observation_space, getattr(learner, "range", None)
    low = np.where(np.isfinite(space.low), space.low, -1.0).astype(float)
    high = np.where(np.isfinite(space.high), space.high, 1.0).astype(float)
    if looks is not None and looks.is_known:
        for (entry, other), least, most in zip(looks.source, looks.lower, looks.upper, strict=True):
            if other < 0:
                low[entry], high[entry] = least, most
    return low, high

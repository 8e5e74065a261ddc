"""A policy as the numbers that decide, apart from the agent that learned them."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oda_rl.agents import beta_policy
from oda_rl.agents.codebook_rl.association import REACH
from oda_rl.agents.explain.cells import CodebookCells, GridCells, kind_of_cells
from oda_rl.envs.names import action_names

if TYPE_CHECKING:
    from oda_rl.agents.sb3.algorithm import OnlineAlgorithm

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PolicyProgram:
    """Cells, and numbers that are linear in each cell: values of actions, the largest of which decides.

    An observation x is first brought into `low` to `high`. With d_i = sum_j ((x_j - mu_ij) / scale_j)^2,
    the shares of the cells are p_i ~ exp(-d_i / temperature) for all within `reach` temperatures of the
    nearest one (equation 6 without weights), or 1 for the nearest cell alone at temperature 0. The value
    of action a is sum_i p_i (value_ia + sum_j slope_iaj (x_j - mu_ij)).

    An actor on a Box has two such numbers, h and g, for each coordinate of an action in place of values:
    it lies at s(h) / (s(h) + s(g)) of the way between its bounds, s(h) = .5 + log(1 + exp(h)), between
    the mean and the mode of a Beta distribution.

    Parameters
    ----------
    name : str
        What learned it, and where.
    features, action_names : list of str
        Names of the d coordinates of an observation, and of the actions or their coordinates.
    actions : ndarray of shape (n_actions,) or (n_actions, size), int64, or None
        What the environment takes; None if that is a point of a Box.
    bounds : ndarray of shape (2, size)
        The least and the largest action of a Box; of shape (2, 0) otherwise.
    codevectors : ndarray of shape (K, d)
        Locations mu of the cells, in the environment's units, as are `scale` (d,), the values (K,
        n_actions) and their slopes (K, n_actions, d), or (K, n_actions, 0) of constant cells.
    scale, values, slopes : ndarray
        See above.
    low, high : ndarray of shape (d,)
        See above; may be infinite.
    temperature : float
        In squared scaled units.
    reach : float, default=8.0
        See above.
    """

    name: str
    features: list[str]
    action_names: list[str]
    actions: NDArray[np.int64] | None
    bounds: Array
    low: Array
    high: Array
    codevectors: Array
    scale: Array
    values: Array
    slopes: Array
    temperature: float
    reach: float = REACH

    @property
    def n_numbers(self) -> int:
        """Numbers that decide: of the cells, the scale, finite bounds, and the temperature."""
        cells = self.codevectors.size + self.values.size + self.slopes.size
        bounds = int(np.isfinite([self.low, self.high]).sum()) + self.bounds.size
        return cells + self.scale.size + bounds + (self.temperature > 0.0)

    def action_values(self, observations: ArrayLike) -> Array:
        """The values of the actions, (n, n_actions), at observations (n, d)."""
        x = np.clip(np.asarray(observations, dtype=np.float64), self.low, self.high)
        away = x[:, None] - self.codevectors
        distance = ((away / self.scale) ** 2).sum(axis=2)
        above = distance - distance.min(axis=1, keepdims=True)
        if self.temperature > 0.0:
            share = np.exp(-above / self.temperature) * (above <= self.reach * self.temperature)
        else:
            share = (np.arange(len(self.values)) == above.argmin(axis=1)[:, None]).astype(float)
        own = np.broadcast_to(self.values, (len(x), *self.values.shape))
        if self.slopes.size:
            own = own + np.einsum("nkj,kaj->nka", away, self.slopes)
        return np.asarray(np.einsum("nk,nka->na", share / share.sum(axis=1, keepdims=True), own))

    def decide(self, observations: ArrayLike) -> NDArray[Any]:
        """What the environment takes at observations (n, d), of shape (n,) or (n, size)."""
        found = self.action_values(observations)
        if self.actions is not None:
            return np.asarray(self.actions[found.argmax(axis=1)])
        low, high = self.bounds
        return np.asarray(low + (high - low) * beta_policy.middles(found))

    def rounded(self, digits: int) -> Self:
        """The same with numbers of so many significant digits."""

        def short(numbers: Array) -> Array:
            return np.array([float(f"{number:.{digits}g}") for number in numbers.ravel()]).reshape(
                numbers.shape
            )

        arrays: dict[str, Any] = {
            name: short(getattr(self, name)) for name in ("codevectors", "values", "slopes")
        }
        temperature = float(f"{self.temperature:.{digits}g}")
        return replace(self, **arrays, scale=short(self.scale), temperature=temperature)


def policy_program(model: "OnlineAlgorithm") -> PolicyProgram:
    """The greedy policy of an agent.

    Parameters
    ----------
    model : TwoTimescaleAC, TwoTimescaleQ, SOMQ or UniformGridQ
        With numbered actions, or an actor on a Box; without a tree, a codebook for each action, or
        angles in its cells.

    Returns
    -------
    PolicyProgram

    Raises
    ------
    ValueError
        If its policy is no table of cells, or has not been learned yet.

    Examples
    --------
    >>> from oda_rl.agents import UniformGridQ
    >>> model = UniformGridQ(env="CartPole-v1", bins=2, seed=0).learn(3_000)
    >>> program = policy_program(model)
    >>> program.codevectors.shape, program.n_numbers
    ((16, 4), 108)
    """
    learner: Any = model.learner
    kind = kind_of_cells(learner)
    points = model.actions.is_continuous
    if kind is None or (points and learner.sizes.n_joint > 0):
        raise ValueError(
            f"A {type(model).__name__} with actions in {model.action_space} decides by more than a "
            "table of cells; TwoTimescaleAC, and TwoTimescaleQ, SOMQ and UniformGridQ with numbered "
            "actions, are exported."
        )
    if not learner.is_scaled or learner.n_cells == 0:
        raise ValueError("The agent has not learned anything to be exported yet: call learn first.")
    cells: Any = kind(learner)
    found = _of_codebook(cells) if kind is CodebookCells else _of_grid(cells)
    actions, decided = model.actions, None
    names = [f"action[{j}]" for j in range(len(actions.centre))]
    if not points:
        names = action_names(model.env_id, actions.n_actions)
        decided = np.asarray(actions.decode_many(np.arange(actions.n_actions)), dtype=np.int64)
        decided = decided.reshape(len(decided), -1) if decided.ndim > 1 else decided
    return PolicyProgram(
        name=f"{type(model).__name__}, {model.env_id or 'environment unknown'}, "
        f"{model.num_timesteps:,} steps",
        features=cells.names(model.observations.names(model.env_id)),
        action_names=names,
        actions=decided,
        bounds=np.array([actions.centre - actions.scale, actions.centre + actions.scale]),
        codevectors=np.ascontiguousarray(cells.codevectors),
        **found,
    )


def _of_codebook(cells: CodebookCells) -> dict[str, Any]:
    learner, sizes = cells.learner, cells.learner.sizes
    if learner.tree is not None or sizes.n_labels > 1:
        which = "a tree" if learner.tree is not None else "a codebook for each action"
        raise ValueError(f"The agent has {which}; a policy of one codebook is exported.")
    located = cells.book.codevectors
    parts = cells.book["q"].reshape(sizes.n_actions, sizes.n_basis, -1)
    slopes = parts[:, 1:].transpose(2, 0, 1)
    values = parts[:, 0].T + np.einsum("kaj,kj->ka", slopes, located[:, : slopes.shape[2]])
    temperature = learner.config.softness * learner.temperature
    low, high = learner.scale.ends
    return {
        "low": low,
        "high": high,
        "scale": learner.scale.scale.copy(),
        "values": values,
        "slopes": np.ascontiguousarray(slopes / learner.scale.scale[: slopes.shape[2]]),
        "temperature": float(temperature),
    }


def _of_grid(cells: GridCells) -> dict[str, Any]:
    if not cells.polytopes:
        raise ValueError("The agent has angles in its cells; a policy of plain coordinates is exported.")
    values, ends = np.ascontiguousarray(cells.q), cells.learner.range
    return {
        "low": ends.lower.copy(),
        "high": ends.upper.copy(),
        "scale": 1.0 / ends.inverse,
        "values": values,
        "slopes": np.empty((*values.shape, 0)),
        "temperature": 0.0,
    }

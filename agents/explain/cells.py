"""A common interface to the cells of all learners, for explanations and pictures."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oda_rl._types import Array
from oda_rl.agents.codebook_rl.association import value_temperature
from oda_rl.agents.codebook_rl.joint_step import NEAR
from oda_rl.agents.codebook_rl.learner import TwoTimescaleLearner
from oda_rl.agents.distill.learner import ProgramLearner
from oda_rl.agents.linear_q.config import SOMConfig, UniformGridConfig
from oda_rl.agents.linear_q.learner import LinearLearner
from oda_rl.agents.policy_program import shares_by_distance
from oda_rl.inspect.contributions import search_range


class Active(NamedTuple):
    """Which cells are active at an observation, and what they contribute.

    `share` (n_cells,) sums to one; if each action has a codebook of its own, it sums to one for each
    action. `values` (n_actions, n_cells) are the values of the actions according to each cell, 0 if a
    cell has no value of an action. `distance` (n_cells,) is squared, in scaled units.
    """

    share: Array
    values: Array
    distance: Array

    @property
    def total(self) -> Array:
        """Q of every action, of shape (n_actions,): the sum of all contributions."""
        return np.asarray(self.values @ self.share)


class Cells:
    """Base class of the cells of a learner.

    Attributes
    ----------
    codevectors : ndarray of shape (n_cells, n_features)
        In the environment's own units; with continuous actions the last coordinates are the action's.
    visits : ndarray of shape (n_cells,) or None
        Training steps spent in each cell while values were learned; None if there were none.
    weights : ndarray of shape (n_cells,)
        The sizes of the cells in pictures: the visits, or probabilities before there are any visits.
    own_actions : sequence or None
        The action that each cell stands for; None if cells do not stand for single actions.
    draws_points : bool
        Whether an actor draws continuous actions: each cell then has a value of the state and an action.
    prefers : bool
        Whether an actor chooses discrete actions: cells then have preferences of these, not values.
    polytopes : bool
        Whether each cell is the region nearest to its codevector, so that it can be drawn as a polytope.
    knows_values : bool
        Whether cells have values of states.
    shown : ndarray of int
        The cells to be listed: those that have learned anything.
    """

    codevectors: Array
    visits: Array | None
    weights: Array
    own_actions: Any = None
    draws_points = False
    prefers = False
    polytopes = True
    knows_values = True
    shown: NDArray[np.int64]

    def active(self, observation: Array, action: Any = None) -> Active:
        """The active cells at an observation; with a continuous `action`, at that pair."""
        raise NotImplementedError

    def point(self, observation: Array) -> Array:
        """The observation in the coordinates of the codevectors."""
        return observation

    def names(self, observed: list[str]) -> list[str]:
        """Names of the codevectors' coordinates, without those of actions."""
        return observed

    def values_at(self, cell: int) -> Array:
        """Q, or the preference, of every action at a codevector."""
        return self.active(self.codevectors[cell]).total


class CodebookCells(Cells):
    """The cells of a two-timescale learner."""

    def __init__(self, learner: TwoTimescaleLearner) -> None:
        self.learner, self.book = learner, learner.codebook
        self.codevectors = learner.codevectors
        n, visits = learner.sizes.n_observed, self.book["visits"].sum(axis=0)
        self.visits = visits if visits.any() else None
        self.weights = visits if visits.any() else self.book.weights
        self.draws_points = learner.actions.is_continuous and learner.sizes.n_joint == 0
        self.prefers = learner.sizes.has_critic and not learner.actions.is_continuous
        if learner.sizes.n_joint:
            self.own_actions = self.codevectors[:, n:]
        elif learner.sizes.n_labels > 1:
            self.own_actions = self.book.labels.tolist()
        # of a table, only the states that actions were taken in
        is_table = learner.sizes.has_table_values and self.visits is not None
        self.shown = np.flatnonzero(visits) if is_table else np.arange(len(self.book))

    def distances(self, points: Array) -> Array:
        """Squared distances (n, n_cells), in scaled units, of points (n, n_features)."""
        learner = self.learner
        weight = learner.actions.scale / learner.action_weight
        centre = np.concatenate([learner.scale.centre, learner.actions.centre])
        scale = np.concatenate([learner.scale.scale, weight])
        k = points.shape[1]  # observations alone have no coordinates of actions
        return squared_distances((points - centre[:k]) / scale[:k], self.book.codevectors[:, :k])

    def active(self, observation: Array, action: Any = None) -> Active:
        """The active cells: shares p(mu_i | x) and values Q_i(x, a); Q(x, a) = sum_i p(mu_i | x) Q_i.

        With a continuous `action` u the shares are p(mu_i | x, u). If an actor draws continuous actions,
        the values are v_i(x) instead of Q_i.
        """
        learner, sizes = self.learner, self.learner.sizes
        observation = np.clip(observation, *learner.scale.ends)
        z = learner.scale.scaled(observation)
        apart = self.distances(observation[None])[0]
        near = learner.active_cells(observation)
        if sizes.n_joint:
            temperature = value_temperature(learner.numbers.settings)
            near &= apart <= apart[near].min() + NEAR * temperature
            distance = self.distances(np.concatenate([observation, action])[None])[0]
            u = (action - learner.actions.centre) / learner.actions.scale * learner.action_weight
            basis = np.concatenate([[1.0], z, u, np.outer(u, z).ravel()])
            share = shares(distance, near, np.zeros(len(near)), temperature)
            return Active(share, (basis[: sizes.n_basis] @ self.book["q"])[None], distance)
        labels = self.book.labels if sizes.n_labels > 1 else np.zeros(len(near))
        share = shares(apart, near, labels, learner.config.softness * learner.temperature)
        values = self._at(observation, "v" if self.draws_points else "q")
        values = values if self.draws_points else learner.of_actions(values.T).T
        if sizes.n_labels > 1:
            values = np.where(self.book.labels == np.arange(sizes.n_actions)[:, None], values, 0.0)
        return Active(share, values, apart)

    def values_at(self, cell: int) -> Array:
        """Q, or the preference, of every action at a codevector; the entries of a table themselves."""
        if not self.learner.sizes.has_table_values:
            return super().values_at(cell)
        found: Array = self.learner.of_actions(self.book["q"][:, cell][None])[0]
        return found

    def own_points(self, observation: Array) -> Array:
        """The greedy continuous action according to each cell alone, of shape (n_cells, m)."""
        actor: Any = self.learner
        points, _ = actor.describe(self._at(observation, "q").T)
        return np.asarray(points)

    def _at(self, observation: Array, field: str) -> Array:
        """Evaluate a field of the payload at an observation; returns (n_functions, n_cells)."""
        scale, n_basis = self.learner.scale, self.learner.sizes.n_basis
        basis = np.concatenate([[1.0], (observation - scale.centre) / scale.scale])[:n_basis]
        parts = self.book[field].reshape(-1, n_basis, len(self.book))
        return np.asarray(np.einsum("ajk,j->ak", parts, basis))

    def reach(self, n: int) -> tuple[Array, Array]:
        """The range in which to search for other actions, about the codevectors."""
        return search_range(self.codevectors[:, :n])


class GridCells(Cells):
    """The cells of a uniform grid or a self-organising map."""

    def __init__(self, learner: LinearLearner) -> None:
        self.learner = learner
        self.codevectors, self.q = learner.codevectors, learner.weights
        self.visits = None if learner.visits is None else learner.visits.sum(axis=1)
        self.weights = np.ones(len(self.q)) if self.visits is None else self.visits
        # without cells whose values have never changed
        self.shown = np.flatnonzero((self.q != learner.initial_value).any(axis=1))
        self.polytopes = not learner.range.is_angle.any()

    def distances(self, points: Array) -> Array:
        """Squared distances (n, n_cells) of points (n, n_features), in parts of the ranges."""
        inverse = self.learner.range.inverse
        return squared_distances(points * inverse, self.codevectors * inverse)

    def point(self, observation: Array) -> Array:
        """The observation in the coordinates of the codevectors, inside their range."""
        return np.asarray(self.learner.range.restore(self.learner.encode(observation)[0][None])[0])

    def active(self, observation: Array, action: Any = None) -> Active:
        """The one cell that contains the observation; distances are NaN."""
        share = np.zeros(len(self.q))
        share[self.learner.encode(observation)[1]] = 1.0
        return Active(share, self.q.T.copy(), np.full(len(share), np.nan))

    def values_at(self, cell: int) -> Array:
        """Q of every action in a cell."""
        return self.q[cell]

    def names(self, observed: list[str]) -> list[str]:
        """Names of the codevectors' coordinates; an angle is named after its cosine."""
        return [
            observed[first] if second < 0 else f"{observed[first].removeprefix('cos ')} (rad)"
            for first, second in self.learner.range.source.tolist()
        ]

    def reach(self, n: int) -> tuple[Array, Array]:
        """The range in which to search for other actions: that of the cells."""
        return known_range(self.learner, n)


class ProgramCells(Cells):
    """The cells of a distilled policy, without values.

    The codevectors are the mean states of the cells, as the table may lack some coordinates.
    """

    knows_values = False

    def __init__(self, learner: ProgramLearner) -> None:
        self.learner, self.program = learner, learner.program
        self.codevectors = learner.means
        self.visits = learner.visits if learner.visits.any() else None
        self.weights = learner.visits
        self.draws_points = learner.actions.is_continuous
        self.prefers = not self.draws_points
        self.shown = np.arange(learner.n_cells)

    def distances(self, points: Array) -> Array:
        """Squared distances (n, n_cells) of points (n, n_features), in the units of the table."""
        inverse = 1.0 / self.program.scale
        return squared_distances(points * inverse, self.program.codevectors * inverse)

    def active(self, observation: Array, action: Any = None) -> Active:
        """The active cells and their preferences; with continuous actions, the values are NaN."""
        share = self.program.shares(observation[None])[0]
        values = np.full((1, len(share)), np.nan)
        if not self.draws_points:
            values = self.learner.with_all_actions(self.program.rates(observation)).T
        return Active(share, values, self.distances(observation[None])[0])

    def own_points(self, observation: Array) -> Array:
        """The continuous action according to each cell alone, of shape (n_cells, m)."""
        return np.clip(self.program.rates(observation), *self.program.bounds)

    def reach(self, n: int) -> tuple[Array, Array]:
        """The range in which to search for other actions: that of the states of the fit."""
        low, high = self.learner.ranges
        return low, high


def kind_of_cells(
    learner: Any,
) -> type[CodebookCells] | type[GridCells] | type[ProgramCells] | None:
    """The class for the cells of a learner; None if its values are sums over many features."""
    if isinstance(learner, TwoTimescaleLearner):
        return CodebookCells
    if isinstance(learner, ProgramLearner):
        return ProgramCells
    return GridCells if isinstance(learner.config, UniformGridConfig | SOMConfig) else None


def cells_of(model: Any) -> Any:
    """The cells of a trained agent; raises a ValueError if it has none."""
    learner: Any = model.learner
    kind = kind_of_cells(learner)
    if kind is None:
        raise ValueError(
            f"{type(model).__name__} has no cells to explain: each of its values is a sum over many "
            "features. TwoTimescaleAC, TwoTimescaleQ, UniformGridQ, SOMQ and DistilledPolicy are "
            "supported."
        )
    check_learned(learner)
    return kind(learner)


def check_learned(learner: Any) -> None:
    """Raise a ValueError if a learner is still in its warm-up."""
    if not learner.is_scaled:
        least, most = learner.warm_up_left
        more = f", or up to {most:,} if it is extended (see warmup_steps)" if most > least else ""
        raise ValueError(
            f"the model has learned nothing yet: it is still in its warm-up, which ends after up to "
            f"{least:,} more steps{more}; call learn first."
        )


def known_range(learner: Any, n: int) -> tuple[Array, Array]:
    """The range of each observation coordinate in a baseline; -1 to 1 for cosines and sines."""
    ends = learner.range
    low, high = np.full(n, -1.0), np.ones(n)
    plain = ~ends.is_angle
    low[ends.source[plain, 0]], high[ends.source[plain, 0]] = ends.lower[plain], ends.upper[plain]
    return low, high


def shares(distance: Array, near: NDArray[np.bool_], labels: Any, temperature: float) -> Array:
    """Association probabilities p(mu_i | x) among the near cells of each label, without the weights."""
    share = np.zeros(len(distance))
    for label in set(labels[near].tolist()):
        own = np.flatnonzero(near & (labels == label))
        share[own] = shares_by_distance(distance[own][None], temperature)[0]
    return share


def squared_distances(points: Array, codevectors: Array) -> Array:
    """Squared Euclidean distances of points, of shape (n, d), from codevectors, of shape (K, d)."""
    return np.asarray(((points[:, None] - codevectors) ** 2).sum(axis=2))

"""The part of a codebook learner that acts: access to what was learned, and choosing actions by it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl._types import Array
from oda_rl.agents.codebook_rl import state as names
from oda_rl.agents.codebook_rl.arrays import Table
from oda_rl.agents.codebook_rl.association import evaluate_numbered, find_near
from oda_rl.agents.codebook_rl.branches import BranchStorage, BranchTree
from oda_rl.agents.codebook_rl.joint_step import evaluate_joint
from oda_rl.agents.codebook_rl.recording import RecordingLearner
from oda_rl.agents.codebook_rl.rules.table_q import NOVELTY_BOUND, NOVELTY_SHARE
from oda_rl.agents.codebook_rl.slow_timescale import SlowTimescale
from oda_rl.agents.config import ACTION_WEIGHT
from oda_rl.codebook.annealer import Annealer
from oda_rl.codebook.book import Codebook


class TDErrorMonitor:
    """Running means of the absolute TD error in every cell, appended to a learner's running figures.

    The learner uses `figures` in place of its own array (N_FIGURES,). The compiled step updates the
    means if the array is this long; what is learned is the same either way.
    """

    def __init__(self, figures: Array, capacity: int) -> None:
        self.figures = np.zeros(names.N_FIGURES + 2 * capacity)
        self.figures[: names.N_FIGURES] = figures

    def means(self, n_cells: int) -> Array:
        """The means, of shape (n_cells,); NaN for a cell without a recorded error."""
        sums, weights = self._halves
        found = np.full(n_cells, np.nan)
        np.divide(sums[:n_cells], weights[:n_cells], out=found, where=weights[:n_cells] > 0.0)
        return found

    def follow(self, before: Array, after: Array) -> None:
        """Follow a change of the codebook: every cell takes over the error of the nearest former cell.

        Parameters
        ----------
        before, after : ndarray of shape (n_cells, n_features)
            The codevectors; children of a split lie near their parent.
        """
        halves = self._halves
        kept = [np.zeros(len(after)) for _ in halves]
        if len(before) and len(after):
            nearest = ((after[:, None] - before) ** 2).sum(axis=2).argmin(axis=1)
            kept = [half[nearest] for half in halves]
        for half, values in zip(halves, kept, strict=True):
            half[:] = 0.0
            half[: len(after)] = values

    @property
    def _halves(self) -> tuple[Array, Array]:
        behind = self.figures[names.N_FIGURES :]
        return behind[: len(behind) // 2], behind[len(behind) // 2 :]


class ActingLearner(RecordingLearner):
    """The learned cells of a codebook, and acting by them; `TwoTimescaleLearner` adds the learning.

    `slow` has the codebook; `numbers` are settings, counters and running figures; `memory` holds the
    last observation and action of each environment.
    """

    slow: SlowTimescale
    numbers: names.Numbers
    memory: names.Memory
    _scratch: names.Scratch
    _table: Table
    _storage: BranchStorage | None = None
    _monitor: TDErrorMonitor | None = None

    @property
    def action_weight(self) -> float:
        """Half the range of a continuous action in scaled units: as configured, or by the warm-up."""
        found = float(self.numbers.figures[names.ACTION_WEIGHT])
        return self.config.action_weight or found or ACTION_WEIGHT

    @property
    def _reach(self) -> Array:
        """The largest coordinates of a continuous action in scaled units (n_coordinates,)."""
        return np.full(self.sizes.n_coordinates, self.action_weight)

    @property
    def gamma(self) -> float:
        """The initial discount factor, whose default is larger for a table of Q values."""
        return self.config.find("gamma", self.sizes.has_table_values)

    # -- what was learned ------------------------------------------------------------------------

    @property
    def codebook(self) -> Codebook:
        """The cells, in scaled units; on a tree in the order of their branches.

        On a tree this is a copy, updated at every access; changes of it have no effect.
        """
        if self._storage:
            self._storage.unload(self.slow.codebook)
        return self.slow.codebook

    @property
    def annealer(self) -> Annealer | None:
        """The annealer, which moves and splits the cells; None during the warm-up."""
        return self.slow.annealer

    @property
    def tree(self) -> BranchTree | None:
        """The branches, regions of the space of observations; None if the codebook is not divided."""
        return self.slow.tree

    @property
    def n_cells(self) -> int:
        """Codevectors in use."""
        return self.slow.codebook.n_cells

    @property
    def n_parameters(self) -> int:
        """Numbers stored to act: locations, Q values, the scale, a temperature, planes of a tree.

        For a table of states: the Q values alone. The limits to which observations are clipped are not
        counted.
        """
        if self.sizes.is_table:
            return self.n_cells * self.sizes.n_actions
        values = self.sizes.n_basis * (self.sizes.n_actions if self.sizes.n_labels == 1 else 1)
        n_scales = len(self.scale.centre) + len(self.actions.centre)
        planes = sum(array.size for array in self.tree.planes) if self.tree else 0
        return self.n_cells * (self.sizes.n_features + values) + 2 * n_scales + 1 + planes

    @property
    def n_learned(self) -> int:
        """Steps from which values were learned."""
        return int(self.numbers.counters[names.LEARNING_STEPS])

    @property
    def n_distances(self) -> float:
        """Mean number of distances to cells and comparisons with planes per observation.

        It is taken since the cells last changed; without an observation it is the number of cells.
        """
        tally = self._tally
        if tally[names.SEARCHES] == 0:
            return float(self.n_cells)
        return float((tally[names.PLANES] + tally[names.DISTANCES]) / tally[names.SEARCHES])

    @property
    def _tally(self) -> NDArray[np.int64]:
        return self._table.tally if self._storage else self._scratch.tally

    @property
    def codevectors(self) -> Array:
        """The codevectors in the environment's own units, of shape (n_cells, n_features).

        With continuous actions the last coordinates are those of the action.
        """
        found = self.codebook.codevectors
        n = len(self.scale.centre)
        parts = [self.scale.restore(found[:, :n])]
        if self.sizes.n_joint:
            parts.append(found[:, n:] * (self.actions.scale / self._reach) + self.actions.centre)
        return np.hstack(parts)

    @property
    def q_values(self) -> Array:
        """The Q values at the codevectors, of shape (n_cells, n_actions).

        With continuous actions a cell has a single value, that of its own action. Those of a table may
        leave out the mean reward (`rules.table_q`).
        """
        sizes, book = self.sizes, self.codebook
        found = book.codevectors.T
        parts = book["q"].reshape(sizes.n_actions, sizes.n_basis, -1)
        if not sizes.linear:
            return self.of_actions(parts[:, 0].T)
        observed, acted = found[: sizes.n_observed], found[sizes.n_observed :]
        products = (acted[:, None] * observed).reshape(sizes.n_products, self.n_cells)
        values: Array = parts[:, 0] + (parts[:, 1:] * np.vstack([found, products])).sum(1)
        return self.of_actions(values.T)

    def active_cells(self, observation: NDArray[Any]) -> NDArray[np.bool_]:
        """Which cells the value of an observation uses: all, or those of the nearest branches.

        Parameters
        ----------
        observation : ndarray of shape (n_observed,)
            In the environment's own units.

        Returns
        -------
        ndarray of shape (n_cells,), bool
        """
        if self.tree is None:
            return np.ones(self.n_cells, dtype=np.bool_)
        with self._table.for_reading() as (table, scratch):
            before = scratch.tally.copy()
            z = self.scale.scaled(np.asarray(observation, dtype=np.float64))
            scratch.z[: len(z)] = z
            n_found = find_near(table, len(z))
            scratch.tally[:] = before  # this search is not one of acting
            return np.isin(self.tree.branch, scratch.found[:n_found])

    @property
    def temperature(self) -> float:
        """The annealing temperature, in squared scaled units; NaN during the warm-up, 0 in a table."""
        if self.sizes.is_table:
            return 0.0
        return self.annealer.temperature if self.annealer else float("nan")

    @property
    def is_exploring(self) -> bool:
        """Whether all actions are random, as they are until learning begins."""
        return bool(self.numbers.counters[names.PHASE] != names.LEARNING)

    @property
    def exploration_rate(self) -> float:
        """The current share of random actions.

        In a table: the probability that the behaviour follows the novelty, averaged over visits.
        """
        if not self.sizes.n_recent:
            return super().exploration_rate
        share = NOVELTY_SHARE / NOVELTY_BOUND * self.codebook["novelty"].max(axis=0)
        visits = self.codebook["visits"].sum(axis=0)
        return float(np.average(np.minimum(1.0, share), weights=visits)) if visits.any() else 1.0

    @property
    def distortion(self) -> float:
        """Running mean of the squared distance to the nearest codevector, in scaled units."""
        return float(self.numbers.figures[names.DISTORTION])

    def figures(self) -> dict[str, float]:
        """Figures of the learner that an SB3 algorithm logs."""
        found = {
            "rollout/exploration_rate": self.exploration_rate,
            "train/td_error": float(self.numbers.figures[names.TD_ERROR]),
            "train/learning_rate": self._mean_rate(),
            "train/n_updates": self.n_learned,
        }
        if self.tree:
            found |= {"oda/n_branches": self.tree.n_branches, "oda/n_distances": self.n_distances}
        return found

    @property
    def td_errors(self) -> Array | None:
        """Running mean of the absolute TD error in every cell, of shape (n_cells,).

        NaN for a cell without a recorded error; None if errors are not monitored (`watch_errors`).
        """
        return self._monitor.means(self.n_cells) if self._monitor else None

    def _mean_rate(self) -> float:
        book = self.codebook
        visits, rates = book["visits"], book["rate"]
        total = visits.sum()
        return float((visits * rates).sum() / total) if total > 0 else self.config.learning_rate

    # -- acting ----------------------------------------------------------------------------------

    def greedy(self, observations: NDArray[Any]) -> NDArray[Any]:
        """The greedy actions for observations of shape (n, n_observed); ties go to the first.

        Returns
        -------
        ndarray of shape (n,) or (n, n_joint)
            Discrete actions from 0, or continuous actions in the environment's own units.

        Raises
        ------
        ValueError
            If an observation is not finite.
        """
        actions, _ = self._evaluate(observations)
        return actions if self.actions.is_continuous else actions[:, 0].astype(np.int64)

    def action_values(self, observations: NDArray[Any]) -> Array:
        """Q(x, a) for observations of shape (n, n_observed).

        Returns
        -------
        ndarray of shape (n, n_actions)
            With continuous actions (n, 1): the value of the greedy action.

        Raises
        ------
        ValueError
            If an observation is not finite.
        """
        return self.of_actions(self._evaluate(observations)[1][:, : self.sizes.n_actions])

    def of_actions(self, values: Array) -> Array:
        """Convert values by row (n, rows) to values by discrete action (n, n_actions).

        Both are the same, unless an actor prefers actions of several parts: the preferences of an
        action's parts are added up.
        """
        return self.actions.add_parts(values) if len(self.sizes.options) > 1 else values

    def explore(self, actions: NDArray[Any]) -> NDArray[Any]:
        """Replace a share of the actions, the current exploration rate, by random ones."""
        if not self.actions.is_continuous:
            return super().explore(actions)
        rng = self._acting_rng
        random = rng.random(len(actions)) < self.exploration_rate
        points = rng.uniform(-1.0, 1.0, actions.shape) * self.actions.scale + self.actions.centre
        return np.where(random[:, None], points, actions)

    def _evaluate(self, observations: NDArray[Any]) -> tuple[Array, Array]:
        """The greedy actions and the values; changes nothing that is learned."""
        n, joint, sizes = len(observations), self.sizes.n_joint, self.sizes
        actions = np.zeros((n, joint or 1))
        values = np.zeros((n, sizes.n_rows // sizes.n_basis))
        if self._storage is None:  # nothing has been learned: all values are 0
            return actions + self.actions.centre if joint else actions, values
        evaluate = evaluate_joint if joint else evaluate_numbered
        points = np.ascontiguousarray(observations, dtype=np.float64)
        with self._table.for_reading() as (table, _):
            if not evaluate(table, points, actions, values):
                raise ValueError("observation must be finite, but contains NaN or infinity.")
        return actions, values

"""The learner of a `DistilledPolicy`: a fixed table that acts, and that can be stored."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from oda_rl._schema import Rules, Schema, Sized, Sizes, expect
from oda_rl._types import Array
from oda_rl._validation import LARGEST
from oda_rl.agents.actions import ActionCodec
from oda_rl.agents.policy_program import PolicyProgram, blank_program

if TYPE_CHECKING:
    from oda_rl.agents.distill.policy import DistilledConfig

ARRAYS = ("codevectors", "scale", "values", "slopes", "low", "high")
SEEN = ("visits", "means", "ranges")


class ProgramLearner:
    """Acts by a `PolicyProgram`, with the interface that `OnlineAlgorithm` expects of a learner.

    Parameters
    ----------
    n_features : int
        Length of the row of an observation.
    actions : ActionCodec
        The actions.
    config : DistilledConfig
        Hyperparameters of the distillation.
    features : list of str
        Names of the coordinates.
    env_id : str or None
        For the names of the actions.

    Attributes
    ----------
    program : PolicyProgram
        The table. It has no values of actions that its teacher never took.
    visits : ndarray of shape (n_cells,)
        Sum of the shares of each cell over the states of the fit.
    means, ranges : ndarray of shape (n_cells, n_features), (2, n_features)
        The mean of these states in each cell, by shares; the minimum and maximum of all states.
    n_learned : int
        Number of states of the fit.
    """

    has_loop = False
    is_scaled = True
    is_exploring = False
    exploration_rate = 0.0

    def __init__(
        self,
        n_features: int,
        actions: ActionCodec,
        config: "DistilledConfig",
        features: list[str],
        env_id: str | None,
    ) -> None:
        self.actions, self.config = actions, config
        self.n_actions = actions.n_actions
        points = actions.is_continuous
        names = actions.names(env_id)
        taken = None if points else actions.decode_many(np.arange(self.n_actions)).astype(np.int64)
        blank = blank_program("", features, names, taken, actions.ends)
        self._names, self._taken = names, taken
        self.use_program(blank, np.arange(self.n_actions), np.zeros((1, n_features)))
        self.n_learned = 0

    def use_program(self, program: PolicyProgram, known: NDArray[np.int64], states: Array) -> None:
        """Act by another table, fitted to `states`; `known` are the indices of its actions."""
        self.program, self.known, self.n_learned = program, known, len(states)
        share = program.shares(states)
        self.visits = share.sum(axis=0)
        self.means = share.T @ states / np.maximum(self.visits, 1e-300)[:, None]
        self.ranges = np.array([states.min(axis=0), states.max(axis=0)])

    # -- acting ----------------------------------------------------------------------------------

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(self.program.values)

    @property
    def n_parameters(self) -> int:
        """Count of the numbers that determine the decisions."""
        return self.program.n_numbers

    def action_values(self, observations: NDArray[Any]) -> Array:
        """Preferences of discrete actions, (n, n_actions), or continuous actions, (n, size).

        An action that is not in the table has a preference 1 below the smallest of the others.

        Raises
        ------
        ValueError
            If an observation is not finite.
        """
        if not np.isfinite(observations).all():
            raise ValueError("observation must be finite, but contains NaN or infinity.")
        return self.with_all_actions(self.program.action_values(observations))

    def with_all_actions(self, values: Array) -> Array:
        """Extend values (..., n_known) of the table's actions to all actions, (..., n_actions)."""
        if self.actions.is_continuous:
            return values
        found = np.repeat(values.min(axis=-1, keepdims=True) - 1.0, self.n_actions, axis=-1)
        found[..., self.known] = values
        return found

    def greedy(self, observations: NDArray[Any]) -> NDArray[Any]:
        """Indices of discrete actions, (n,), or continuous actions, (n, size)."""
        found = self.action_values(observations)
        if self.actions.is_continuous:
            return np.clip(found, *self.program.bounds)
        return np.asarray(found.argmax(axis=1))

    def act(self, observations: NDArray[Any], deterministic: bool) -> NDArray[Any]:
        """The greedy actions, as a table does not explore."""
        return self.greedy(observations)

    def state_values(self, observations: NDArray[Any]) -> Array:
        """NaN, (n,), as a table has no values of states."""
        return np.full(len(observations), np.nan)

    def next_action(self, env: int) -> int:
        """Always 0, as no action is chosen in advance."""
        return 0

    def use(self, config: "DistilledConfig") -> None:
        """Set the hyperparameters, for the next time that the policy is distilled."""
        self.config = config

    # -- storing ---------------------------------------------------------------------------------

    def get_state(self, under_way: bool = True) -> dict[str, Any]:
        """The table, as arrays and plain values."""
        program = self.program
        return {
            "known": self.known,
            "told": program.name,
            **{name: getattr(program, name) for name in ARRAYS},
            "temperature": float(program.temperature),
            **{name: getattr(self, name) for name in SEEN},
            "n_learned": self.n_learned,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore the table that `get_state` returned."""
        known = np.asarray(state["known"])
        arrays: dict[str, Any] = {name: np.ascontiguousarray(state[name]) for name in ARRAYS}
        program = replace(
            self.program,
            name=state["told"],
            actions=None if self._taken is None else self._taken[known],
            action_names=self._names if self._taken is None else [self._names[a] for a in known],
            temperature=state["temperature"],
            **arrays,
        )
        self.program, self.known, self.n_learned = program, known, state["n_learned"]
        for name in SEEN:
            setattr(self, name, np.array(state[name]))

    @classmethod
    def schema(cls, config: Any, actions: ActionCodec, observations: Any, n_envs: int) -> Schema:
        """The schema of what `get_state` returns."""
        points = actions.is_continuous
        n_values = len(actions.centre) if points else "A"
        known = "int[0]" if points else f"int[A] in [0, {actions.n_actions}), rising"

        def slopes_fit(state: Any, sizes: Sizes) -> None:
            right = state["slopes"].shape[2] in (0, sizes["obs"])
            expect(right, "slopes", f"has {state['slopes'].shape[2]} coordinates", "all, or none")
            expect(points or len(state["known"]) > 0, "known", "is empty", "at least one action")
            low, high = state["low"], state["high"]
            finite = [bound[np.isfinite(bound)] for bound in (low, high)]
            largest = np.abs(np.concatenate(finite)).max(initial=0.0)
            fit = np.all((low <= high) & (low < np.inf) & (high > -np.inf))
            right = bool(fit and largest <= LARGEST)
            expect(right, "low", "does not match high", f"low <= high, up to {LARGEST:g} or infinite")

        entries = {
            "known": known,
            "told": "text",
            "codevectors": "float[K, obs]",
            "scale": "float[obs] in [1e-60, inf]",
            "values": f"float[K, {n_values}]",
            "slopes": f"float[K, {n_values}, S]",
            "low": "float[obs] in [-inf, inf]",
            "high": "float[obs] in [-inf, inf]",
            "temperature": "float in [0, inf)",
            "visits": "float[K] in [0, inf)",
            "means": "float[K, obs]",
            "ranges": "float[2, obs]",
            "n_learned": "count",
        }
        return Sized(Rules(entries, slopes_fit), obs=observations.n_features)

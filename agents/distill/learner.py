"""A table that decides, in the place of an agent's learner: it acts, and is stored."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl._schema import Rules, Schema, Sized, Sizes, expect
from oda_rl._validation import LARGEST
from oda_rl.agents.actions import ActionCodec
from oda_rl.agents.distill.config import DistilledConfig
from oda_rl.agents.policy_program import PolicyProgram, blank_program

Array = NDArray[np.float64]
ARRAYS = ("codevectors", "scale", "values", "slopes", "low", "high")
SEEN = ("visits", "means", "ranges")


class ProgramLearner:
    """Acts by a `PolicyProgram`, with what `OnlineAlgorithm` asks of a learner.

    Parameters
    ----------
    n_features : int
        Numbers of an observation's row.
    actions : ActionCodec
        The actions.
    config : DistilledConfig
        How it was, or will be, distilled.
    features : list of str
        Names of the coordinates.
    env_id : str or None
        For the names of the actions.

    Attributes
    ----------
    program : PolicyProgram
        The table. Actions that it never takes are not in it.
    visits : ndarray of shape (n_cells,)
        Shares of the cells in the states that it was fitted to, in all.
    means, ranges : ndarray of shape (n_cells, n_features), (2, n_features)
        The mean of these states in each cell; the least and the largest of all.
    n_learned : int
        States that it was fitted to.
    """

    has_loop = False
    is_scaled = True
    is_exploring = False
    exploration_rate = 0.0

    def __init__(
        self,
        n_features: int,
        actions: ActionCodec,
        config: DistilledConfig,
        features: list[str],
        env_id: str | None,
    ) -> None:
        self.actions, self.config = actions, config
        self.n_actions = actions.n_actions
        points = actions.is_continuous
        names = actions.names(env_id)
        taken = None if points else actions.decode_many(np.arange(self.n_actions)).astype(np.int64)
        bounds = np.array([actions.centre - actions.scale, actions.centre + actions.scale])
        blank = blank_program("", features, names, taken, bounds)
        self._names, self._taken = names, taken
        self.use_program(blank, np.arange(self.n_actions), np.zeros((1, n_features)))
        self.n_learned = 0

    def use_program(self, program: PolicyProgram, known: NDArray[np.int64], states: Array) -> None:
        """Act by another table, with values for actions of the numbers `known`, fitted to `states`."""
        self.program, self.known, self.n_learned = program, known, len(states)
        share = program.shares(states)
        self.visits = share.sum(axis=0)
        self.means = share.T @ states / np.maximum(self.visits, 1e-300)[:, None]
        self.ranges = np.array([states.min(axis=0), states.max(axis=0)])

    # -- acting ----------------------------------------------------------------------------------

    @property
    def n_cells(self) -> int:
        """Cells."""
        return len(self.program.values)

    @property
    def n_parameters(self) -> int:
        """Numbers that decide."""
        return self.program.n_numbers

    def action_values(self, observations: NDArray[Any]) -> Array:
        """Preferences of numbered actions (n, n_actions), or the points of a Box, (n, size).

        Of an action that is never taken it is 1 less than the least of the others.

        Raises
        ------
        ValueError
            If an observation is not finite.
        """
        if not np.isfinite(observations).all():
            raise ValueError("the observation is not finite.")
        return self.with_all_actions(self.program.action_values(observations))

    def with_all_actions(self, values: Array) -> Array:
        """Values of the actions of the table (..., n_known) beside those that it never takes."""
        if self.actions.is_continuous:
            return values
        found = np.repeat(values.min(axis=-1, keepdims=True) - 1.0, self.n_actions, axis=-1)
        found[..., self.known] = values
        return found

    def greedy(self, observations: NDArray[Any]) -> NDArray[Any]:
        """Numbers of actions (n,), or points of a Box (n, size)."""
        found = self.action_values(observations)
        if self.actions.is_continuous:
            return np.clip(found, *self.program.bounds)
        return np.asarray(found.argmax(axis=1))

    def act(self, observations: NDArray[Any], deterministic: bool) -> NDArray[Any]:
        """The same: it has no other behaviour."""
        return self.greedy(observations)

    def state_values(self, observations: NDArray[Any]) -> Array:
        """NaN, (n,): it knows what to do, not what states are worth."""
        return np.full(len(observations), np.nan)

    def next_action(self, env: int) -> int:
        """None is waiting."""
        return 0

    def use(self, config: DistilledConfig) -> None:
        """Go by other hyperparameters, the next time that it is distilled."""
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
        """Go on from `get_state`."""
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
        """What `get_state` gives."""
        points = actions.is_continuous
        n_values = len(actions.centre) if points else "A"
        known = "int[0]" if points else f"int[A] in [0, {actions.n_actions}), rising"

        def slopes_fit(state: Any, sizes: Sizes) -> None:
            right = state["slopes"].shape[2] in (0, sizes["obs"])
            expect(right, "slopes", f"have {state['slopes'].shape[2]} coordinates", "all, or none")
            expect(points or len(state["known"]) > 0, "known", "are none", "at least one action")
            low, high = state["low"], state["high"]
            finite = [bound[np.isfinite(bound)] for bound in (low, high)]
            largest = np.abs(np.concatenate(finite)).max(initial=0.0)
            fit = np.all((low <= high) & (low < np.inf) & (high > -np.inf))
            right = bool(fit and largest <= LARGEST)
            expect(right, "low", "and high do not go together", f"ends up to {LARGEST:g}, or none")

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

"""The arrays of a learner: their sizes, and functions that create them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl._jit import aligned_zeros
from oda_rl._structs import slots
from oda_rl.agents.actions import ActionCodec
from oda_rl.agents.codebook_rl import state as names
from oda_rl.agents.codebook_rl.rules import actor_critic, q_lambda, table_q
from oda_rl.agents.config import CodebookConfig

# Maximum number of values in a table; each takes some 100 bytes.
MOST_PAIRS = 10_000_000

# Preferences of a Beta distribution change a policy more than those of discrete actions.
ACTOR_RATE, CONTINUOUS_ACTOR_RATE = 1.0, 0.5


@dataclass(frozen=True)
class Sizes:
    """Sizes that follow from an environment's spaces and the hyperparameters.

    Parameters
    ----------
    n_observed : int
        Coordinates of an observation.
    n_joint : int
        Coordinates of a continuous action that is part of a codevector's location; 0 for discrete
        actions and with an actor.
    n_actions : int
        Discrete actions; 1 if actions are continuous. With an actor, its preferences: one for each
        option of each part of a discrete action, or two for each coordinate of a continuous action.
    n_command : int
        Numbers that a compiled environment takes as an action.
    n_envs : int
        Environments that take turns.
    max_cells : int
        Maximum number of cells.
    linear : bool
        Whether the value of a cell is a linear function; otherwise it is constant.
    per_action : bool
        Whether there is a codebook for each action.
    near_branches : int, default=0
        Branches of a tree that an observation uses at most; 1 for a table, 0 for a flat codebook.
    has_critic : bool, default=False
        Whether a cell has a state value in addition to the preferences of an actor.
    n_coordinates : int, default=0
        Coordinates of a continuous action.
    is_table : bool, default=False
        Whether the cells are numbered states.
    options : tuple of int, default=()
        Number of options of each part of a discrete action; empty unless an actor draws them.
    """

    n_observed: int
    n_joint: int
    n_actions: int
    n_command: int
    n_envs: int
    max_cells: int
    linear: bool
    per_action: bool
    near_branches: int = 0
    has_critic: bool = False
    n_coordinates: int = 0
    is_table: bool = False
    options: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        n_observed: int,
        actions: ActionCodec,
        n_envs: int,
        config: CodebookConfig,
        n_states: int = 0,
    ) -> "Sizes":
        """Derive the sizes from the arguments; those of a table if `n_states` is above 0.

        Raises a ValueError if the table would be too large.
        """
        has_critic = config.learns_actor(actions, n_states > 0)
        n_coordinates, options = len(actions.centre), actions.options if has_critic else ()
        if n_states * actions.n_actions > MOST_PAIRS:
            raise ValueError(
                f"A table of {n_states:,} states and {actions.n_actions:,} actions has more values "
                f"than the {MOST_PAIRS:,} that are supported: reduce the number of states or actions."
            )
        is_joint = actions.is_continuous and not has_critic
        table, tree = n_states > 0, config.tree and not n_states
        return cls(
            n_observed=n_observed,
            n_joint=n_coordinates if is_joint else 0,
            n_actions=_count_preferences(actions) if has_critic else actions.n_actions,
            n_command=actions.commands.shape[1],
            n_envs=n_envs,
            max_cells=n_states or config.plan_growth(is_joint).max_cells,
            linear=config.local_model == "linear" and not table,
            per_action=config.codebook == "per_action" and not table,
            near_branches=config.count_near_branches(is_joint) if tree else int(table),
            has_critic=has_critic,
            n_coordinates=n_coordinates,
            is_table=table,
            options=options,
        )

    @property
    def n_features(self) -> int:
        """Coordinates of a codevector."""
        return self.n_observed + self.n_joint

    @property
    def n_products(self) -> int:
        """Products of observation and action coordinates that a cell's value depends on."""
        return self.n_observed * self.n_joint if self.linear else 0

    @property
    def n_basis(self) -> int:
        """Coefficients of the value of one action in a cell."""
        return 1 + self.n_features + self.n_products if self.linear else 1

    @property
    def n_rows(self) -> int:
        """Coefficients of all values in a cell: of actions, or of preferences and the state value."""
        return (self.n_actions + self.has_critic) * self.n_basis

    @property
    def n_labels(self) -> int:
        """Number of labels: with a codebook for each action the label is the action."""
        return self.n_actions if self.per_action else 1

    @property
    def n_draws(self) -> int:
        """Uniform random numbers for one choice of an action."""
        return names.N_DRAWS + self.n_coordinates

    @property
    def capacity(self) -> int:
        """Cells that fit in the codebook: splits may double their number before some merge."""
        return self.max_cells if self.is_table else -(-2 * self.max_cells // 8) * 8

    @property
    def n_places(self) -> int:
        """Places for cells in all branches that an observation uses."""
        return self.near_branches * names.BRANCH_WIDTH or self.capacity

    @property
    def has_table_values(self) -> bool:
        """Whether each state has Q values of its own (`rules.table_q`)."""
        return self.is_table and not self.has_critic

    @property
    def n_recent(self) -> int:
        """State-action pairs that are stored to be replayed."""
        return table_q.N_RECENT if self.has_table_values else 0

    @property
    def payload(self) -> dict[str, tuple[int, str]]:
        """Fields of a cell's payload: those of the learning rule, and the frequency of visits."""
        rule: Any = table_q if self.has_table_values else actor_critic if self.has_critic else q_lambda
        return {**rule.fields(self), "density": (1, "count")}

    @property
    def trace_rows(self) -> slice:
        """Rows of the payload that hold the traces."""
        start = self.n_rows + 2 * self.n_actions
        return slice(start, start + self.n_rows * self.n_envs)


def _count_preferences(actions: ActionCodec) -> int:
    return 2 * len(actions.centre) if actions.is_continuous else sum(actions.options)


def make_numbers() -> names.Numbers:
    """Create settings, counters and figures: all 0, but for the lowest reward, which is infinite."""
    figures = np.zeros(names.N_FIGURES)
    figures[names.LOWEST_REWARD] = np.inf
    return names.Numbers(
        settings=np.zeros(names.N_SETTINGS),
        counters=np.zeros(names.N_COUNTERS, dtype=np.int64),
        figures=figures,
    )


def fill_numbers(numbers: names.Numbers, sizes: Sizes, config: CodebookConfig, horizon: int) -> None:
    """Copy the hyperparameters of a run of `horizon` steps to the settings and counters of kernels."""
    # the log-probability of an action is the sum over its parts, and so is its gradient
    of_numbers = ACTOR_RATE / max(1, len(sizes.options))
    default_rate = CONTINUOUS_ACTOR_RATE if sizes.n_coordinates else of_numbers
    for index, value in {
        names.GAMMA: config.find("gamma", sizes.has_table_values),
        names.GAMMA_HALVING: config.find_gamma_halving(sizes.n_coordinates > 0),
        names.SIGN: -1.0 if config.minimise else 1.0,
        names.TRACE_DECAY: config.find("trace_decay", sizes.has_table_values),
        names.SOFTNESS: 0.0 if sizes.is_table else config.softness,
        names.LEARNING_RATE_MIN: config.learning_rate_min,
        names.LEARNING_RATE_HALVING: config.learning_rate_halving,
        names.LEARNING_RATE_POWER: config.learning_rate_power,
        names.EPSILON_START: config.exploration_initial_eps,
        names.EPSILON_END: config.exploration_final_eps,
        names.EPSILON_STEPS: config.exploration_fraction * horizon,
        names.SLOW_EVERY: config.slow_every,
        names.SLOW_DOUBLING: config.slow_doubling,
        names.SLOW_A: config.slow_a,
        names.SLOW_B: config.slow_b,
        names.FLATTENING: config.flattening,
        names.ACTOR_RATE: default_rate if config.actor_rate is None else config.actor_rate,
    }.items():
        numbers.settings[index] = value
    for index, count in {
        names.HOLD: config.hold,
        names.GROWTH_HOLD: config.growth_hold,
        names.N_LABELS: sizes.n_labels,
        names.N_BASIS: sizes.n_basis,
        names.RATE_BY_CELL: config.learning_rate_by == "cell",
    }.items():
        numbers.counters[index] = count


def make_memory(sizes: Sizes) -> names.Memory:
    """Create the memory of environments that have not begun an episode."""
    n_envs = sizes.n_envs
    return names.Memory(
        z=np.zeros((n_envs, sizes.n_features + sizes.n_products)),
        found=np.zeros((n_envs, max(1, sizes.near_branches)), dtype=np.int64),
        n_found=np.zeros(n_envs, dtype=np.int64),
        share=aligned_zeros((n_envs, sizes.n_places)),
        only=np.full(n_envs, -1),
        norm=np.ones(n_envs),
        reach=np.zeros(n_envs),
        trace_scale=np.ones(n_envs),
        action=np.zeros(n_envs, dtype=np.int64),
        command=np.zeros((n_envs, sizes.n_command)),
        held=np.zeros(n_envs, dtype=np.int64),
        exploratory=np.zeros(n_envs, dtype=np.bool_),
        direction=np.zeros((n_envs, sizes.n_actions)),
        total=np.zeros(n_envs),
        told=np.zeros(n_envs, dtype=np.bool_),
        lost=np.zeros(n_envs, dtype=np.bool_),
        noise=np.zeros((n_envs, max(1, sizes.n_coordinates) + 1)),
        exploring=np.zeros(n_envs, dtype=np.bool_),
        recent=np.zeros((n_envs, sizes.n_recent), dtype=np.int64),
        n_recent=np.zeros(n_envs, dtype=np.int64),
        waiting=np.zeros(n_envs, dtype=np.int64),
    )


def make_units(sizes: Sizes, scale: Any, actions: ActionCodec, reach: Any, counts: Any) -> names.Units:
    """Create the units of observations, and of actions scaled to +-`reach`.

    `counts` are the numbers of values of coordinates in a table.
    """
    return names.Units(
        centre=scale.centre,
        scale=scale.scale,
        lowest=scale.lowest,
        highest=scale.highest,
        commands=actions.commands,
        options=np.array(sizes.options, dtype=np.int64),
        action_centre=actions.centre,
        action_scale=actions.scale / reach,
        action_reach=reach,
        counts=counts,
        visited=scale.visited,
    )


def make_scratch(sizes: Sizes) -> names.Scratch:
    """Create the scratch arrays, which serve one call at a time."""
    places, joint, near = sizes.n_places, sizes.n_joint, sizes.near_branches
    return names.Scratch(
        z=np.zeros(sizes.n_features + sizes.n_products),
        found=np.zeros(max(1, near), dtype=np.int64),
        distance=aligned_zeros(places),
        share=aligned_zeros(places),
        label=np.zeros(places, dtype=np.int64),
        weight=np.zeros(places),
        density=np.zeros(places),
        values=np.zeros(sizes.n_actions),
        sums=np.zeros(sizes.n_rows),
        parts=np.zeros(sizes.n_rows),
        # empty for a flat codebook, where every step is applied at once
        block=np.zeros((near, sizes.n_rows, names.BRANCH_WIDTH)),
        key=np.zeros(sizes.max_cells),
        node=np.zeros(sizes.max_cells, dtype=np.int64),
        tally=np.zeros(names.N_TALLY, dtype=np.int64),
        cells=np.zeros(places, dtype=np.int64),
        partial=np.zeros(places),
        local=np.zeros(places),
        actions=np.zeros((joint, places)),
        slopes=np.zeros((joint, places)),
        best=np.zeros(sizes.n_coordinates),
        trial=np.zeros(sizes.n_coordinates),
        step=aligned_zeros(places),
    )


class Table:
    """The state of a learner as a single argument of its kernels.

    Every call that only reads borrows a set of scratch arrays of its own. Acting while another thread
    learns therefore does not change what is learned.

    Parameters
    ----------
    sizes : Sizes
        Sizes of the scratch arrays.
    scratch : Scratch
        The scratch arrays of the learning.
    *groups : NamedTuple
        `Numbers`, `Units`, `Branches`, `Planes`, `Ledger` and `Memory`; the table keeps them alive.

    Attributes
    ----------
    learning : ndarray of int64
        The table with the scratch arrays of the learning.
    """

    def __init__(self, sizes: Sizes, scratch: names.Scratch, *groups: Any) -> None:
        self.sizes = sizes
        self.scratch = scratch
        self.groups = groups
        self._shared = np.concatenate([slots(group) for group in groups])
        self.learning: NDArray[np.int64] = np.concatenate([self._shared, slots(scratch)])
        self._tallies = [scratch.tally]
        self._free: list[tuple[NDArray[np.int64], names.Scratch]] = []  # for calls that only read

    @property
    def tally(self) -> NDArray[np.int64]:
        """Costs of all searches, including those of calls that only read."""
        return np.sum(self._tallies, axis=0)

    @contextmanager
    def for_reading(self) -> Iterator[tuple[NDArray[np.int64], names.Scratch]]:
        """Yield the table with scratch arrays that no other call uses meanwhile, and these arrays."""
        try:
            own = self._free.pop()
        except IndexError:  # as many calls at once as never before
            scratch = make_scratch(self.sizes)
            own = np.concatenate([self._shared, slots(scratch)]), scratch
            self._tallies.append(scratch.tally)
        try:
            yield own
        finally:
            self._free.append(own)

"""The arrays of a learner: how large they are, and where they are made."""

import threading
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
from oda_rl.agents.config import ACTOR_RATE, CONTINUOUS_ACTOR_RATE, CodebookConfig

# Values of a table at most, each of which takes some 100 bytes
MOST_PAIRS = 10_000_000


@dataclass(frozen=True)
class Sizes:
    """Sizes that follow from an environment's spaces and the hyperparameters.

    Parameters
    ----------
    n_observed : int
        Coordinates of an observation.
    n_joint : int
        Coordinates of an action that is part of a codevector's location; 0 if actions are numbered.
    n_actions : int
        Numbered actions; 1 if there are none. An actor on a Box has two preferences a coordinate, and
        one for each option of each part of an action of several parts.
    n_command : int
        Numbers that a compiled environment takes as an action.
    n_envs : int
        Environments that take turns.
    max_cells : int
        Cells at most.
    linear : bool
        Whether the value of a cell is a linear function, or a number.
    per_action : bool
        Whether there is a codebook for each action.
    near_branches : int, default=0
        Branches that an observation asks, on a tree; 0 without one.
    has_critic : bool, default=False
        Whether a cell has a value of its own beside the preferences of an actor.
    n_coordinates : int, default=0
        Coordinates of an action that is a point.
    is_table : bool, default=False
        Whether the cells are states, given by number.
    options : tuple of int, default=()
        The options of each part of a numbered action, as an actor prefers them.
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
        """The sizes for these observations, actions and hyperparameters; in a table of `n_states`.

        Raises a ValueError if the table would be too large.
        """
        n_coordinates, options = len(actions.centre), actions.options if config.has_critic else ()
        if n_states * actions.n_actions > MOST_PAIRS:
            raise ValueError(
                f"The table of {n_states:,} states and {actions.n_actions:,} actions would have more "
                f"values than {MOST_PAIRS:,}: have fewer states or actions."
            )
        is_joint = actions.is_continuous and not config.has_critic
        table, tree = n_states > 0, config.tree and not n_states
        return cls(
            n_observed=n_observed,
            n_joint=n_coordinates if is_joint else 0,
            n_actions=_count_preferences(actions) if config.has_critic else actions.n_actions,
            n_command=actions.commands.shape[1],
            n_envs=n_envs,
            max_cells=n_states or config.plan_growth(is_joint).max_cells,
            linear=config.local_model == "linear" and not table,
            per_action=config.codebook == "per_action" and not table,
            near_branches=config.count_near_branches(is_joint) if tree else int(table),
            has_critic=config.has_critic,
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
        """Products of an observation's and an action's coordinates that the value of a cell knows."""
        return self.n_observed * self.n_joint if self.linear else 0

    @property
    def n_basis(self) -> int:
        """Numbers that give the value of an action in a cell."""
        return 1 + self.n_features + self.n_products if self.linear else 1

    @property
    def n_rows(self) -> int:
        """Numbers that give the values, or preferences, of all actions in a cell, and its own value."""
        return (self.n_actions + self.has_critic) * self.n_basis

    @property
    def n_labels(self) -> int:
        """In a codebook for each action the action is the label."""
        return self.n_actions if self.per_action else 1

    @property
    def n_draws(self) -> int:
        """Uniform numbers that one choice of an action uses."""
        return names.N_DRAWS + self.n_coordinates

    @property
    def capacity(self) -> int:
        """Cells that the codebook has room for: splits may double them before some merge."""
        return self.max_cells if self.is_table else -(-2 * self.max_cells // 8) * 8

    @property
    def n_places(self) -> int:
        """Places of the branches that an observation asks."""
        return self.near_branches * names.BRANCH_WIDTH or self.capacity

    @property
    def n_recent(self) -> int:
        """Pairs that are remembered to be gone through again."""
        return table_q.N_RECENT if self.is_table and not self.has_critic else 0

    @property
    def payload(self) -> dict[str, tuple[int, str]]:
        """The payload of a cell: that of the learning rule, and the frequency of visits."""
        rule: Any = actor_critic if self.has_critic else table_q if self.is_table else q_lambda
        return {**rule.fields(self), "density": (1, "count")}

    @property
    def trace_rows(self) -> slice:
        """Where the traces stand in the payload."""
        start = self.n_rows + 2 * self.n_actions
        return slice(start, start + self.n_rows * self.n_envs)


def _count_preferences(actions: ActionCodec) -> int:
    return 2 * len(actions.centre) if actions.is_continuous else sum(actions.options)


def make_numbers() -> names.Numbers:
    """Settings, counters and figures, all 0 but for a minimum."""
    figures = np.zeros(names.N_FIGURES)
    figures[names.LOWEST_REWARD] = np.inf
    return names.Numbers(
        settings=np.zeros(names.N_SETTINGS),
        counters=np.zeros(names.N_COUNTERS, dtype=np.int64),
        figures=figures,
    )


def fill_numbers(numbers: names.Numbers, sizes: Sizes, config: CodebookConfig, horizon: int) -> None:
    """Copy the hyperparameters of a run of `horizon` steps to where the kernels read them."""
    discounted = config.criterion == "discounted"
    # the gradients of all parts add up in the logarithm of a probability
    of_numbers = ACTOR_RATE / max(1, len(sizes.options))
    default_rate = CONTINUOUS_ACTOR_RATE if sizes.n_coordinates else of_numbers
    for index, value in {
        names.GAMMA: config.gamma if discounted else 1.0,
        names.GAMMA_HALVING: config.find_gamma_halving(sizes.n_coordinates > 0),
        names.AVERAGE_RATE: 0.0 if discounted else config.average_rate,
        names.SIGN: -1.0 if config.minimise else 1.0,
        names.TRACE_DECAY: config.find_trace_decay(sizes.is_table),
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
    """What is remembered of environments that have not begun."""
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
        exploring=np.zeros(n_envs, dtype=np.bool_),
        recent=np.zeros((n_envs, sizes.n_recent), dtype=np.int64),
        n_recent=np.zeros(n_envs, dtype=np.int64),
        waiting=np.zeros(n_envs, dtype=np.int64),
    )


def make_units(
    sizes: Sizes, scale: Any, actions: ActionCodec, reach: Any, counts: Any, visited: Any
) -> names.Units:
    """The units of observations, and of actions that reach so far.

    `counts` are the values of coordinates in a table, `visited` the room for observations of late.
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
        visited=visited,
    )


def make_scratch(sizes: Sizes) -> names.Scratch:
    """Arrays for one call at a time."""
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
        # without a tree no step is ever missing
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
    """The state of a learner as the one argument of its kernels.

    Whoever reads has scratch arrays of their own, one set for each thread: acting beside the learning,
    in any number of threads, changes nothing.

    Parameters
    ----------
    sizes : Sizes
        How large the scratch arrays are.
    *groups : NamedTuple
        `Numbers`, `Units`, `Branches`, `Planes`, `Ledger` and `Memory`, kept alive here.

    Attributes
    ----------
    learning : ndarray of int64
        The table with the scratch arrays of the learning.
    scratch : Scratch
        Those.
    """

    def __init__(self, sizes: Sizes, scratch: names.Scratch, *groups: Any) -> None:
        self.sizes = sizes
        self.scratch = scratch
        self.groups = groups
        self._shared = np.concatenate([slots(group) for group in groups])
        self.learning: NDArray[np.int64] = np.concatenate([self._shared, slots(scratch)])
        self._own = threading.local()
        self._tallies = [scratch.tally]

    @property
    def tally(self) -> NDArray[np.int64]:
        """What all searches have cost, those of readers included."""
        return np.sum(self._tallies, axis=0)

    def for_reading(self) -> tuple[NDArray[np.int64], names.Scratch]:
        """The table with the scratch arrays of this thread, and these."""
        own = self._own
        if not hasattr(own, "table"):
            own.scratch = make_scratch(self.sizes)
            own.table = np.concatenate([self._shared, slots(own.scratch)])
            self._tallies.append(own.scratch.tally)
        return own.table, own.scratch

    @contextmanager
    def for_one_search(self) -> Iterator[tuple[NDArray[np.int64], names.Scratch]]:
        """The same, for a search that is not counted."""
        table, scratch = self.for_reading()
        before = scratch.tally.copy()
        yield table, scratch
        scratch.tally[:] = before

"""The state of an agent as compiled code knows it: settings, counters, and arrays by name.

Everything of an agent is in the groups of arrays below, and all of them are one argument of a kernel,
the table of `oda_rl._structs`. Here, and nowhere else, stand the shapes and the units:

=========== ===========================================================================================
n_observed  coordinates of an observation
n_joint     coordinates of an action that is part of a location; 0 if actions are numbered or an actor's
n_features  n_observed + n_joint, the coordinates of a codevector
n_location  n_features + n_products, what the value of a cell is a function of
n_actions   numbered actions; 1 if there are none; preferences of an actor, one for each option of each
            part of a numbered action, and two for each coordinate of a point
n_basis     numbers that give the value of an action in a cell
n_rows      n_actions * n_basis, and with a critic of states n_basis more
n_branches  regions that the codebook is divided into; 1 without a tree
width       places for cells in each branch: `BRANCH_WIDTH`, or without a tree the number of cells
n_places    places of the branches that an observation asks, one branch after the other
=========== ===========================================================================================

Locations are in scaled units (`Units`), distances are their squares, temperatures too. Rewards and
values are in the units of the environment, values as functions of the scaled location.
"""

from typing import NamedTuple

from oda_rl._structs import (
    Bool1,
    Bool2,
    Float1,
    Float2,
    Float3,
    Int1,
    Int2,
    count_slots,
    make_opener,
)

# Settings, float64
GAMMA = 0
TRACE_DECAY = 1
SOFTNESS = 2
TEMPERATURE = 3
LEARNING_RATE_MIN = 4
LEARNING_RATE_HALVING = 5
LEARNING_RATE_POWER = 6
EPSILON_START = 7
EPSILON_END = 8
EPSILON_STEPS = 9
SLOW_EVERY = 10
SLOW_DOUBLING = 11
SLOW_A = 12
SLOW_B = 13
FLATTENING = 14
SIGN = 15
AVERAGE_RATE = 16
ACTOR_RATE = 17
GAMMA_HALVING = 18
N_SETTINGS = 19

# Counters, int64
N_CELLS = 0
STEPS = 1
LEARNING_STEPS = 2
SLOW_STEPS = 3
LEVEL_LENGTH = 4
HOLD = 5
PHASE = 6
# FINISHED where a temperature is finished, VISITED where `Units.visited` is full, else 0
LEVEL_DONE = 7
FINISHED, VISITED = 1, 2
RATE_BY_CELL = 8
N_LABELS = 9
N_BASIS = 10
GROWTH_HOLD = 11
WIDTH = 12
# How often the warm-up was extended, and whether its rewards have told anything
EXTENSIONS = 13
TOLD = 14
N_COUNTERS = 15

# Running figures, float64
NEXT_SLOW = 0
TD_ERROR = 1
DISTORTION = 2
COMMON_RATE = 3
AVERAGE_REWARD = 4
BEST_ENDING = 5
MEAN_ERROR = 6
MEAN_ERROR_WEIGHT = 7
LARGEST_ERROR = 8
ACTOR_UNIT = 9
# Four figures of `bounds.bound_reward`, of which the last is the second largest reward
REWARDS = 10
RECURRING_REWARD = REWARDS + 3
# Three running means of a critic, and the steps in which returns were well explained (`rules.horizon`)
MEAN_VALUE = 14
MEAN_SQUARE = 15
UNEXPLAINED = 16
KNOWN_STEPS = 17
# The largest reward before learning that did not end an episode
BEST_GOING_ON = 18
# Steps after which an episode last went on
WENT_ON = 19
# The reward of most steps, the share of blank episodes, and returns of the last that told something and
# of the last blank one (`blank_episodes`)
USUAL_REWARD = 20
BLANK_SHARE = 21
TOLD_RETURN = 22
BLANK_RETURN = 23
# The lowest reward of an actor's warm-up; infinite before there is one, 0 where an episode ended in it
LOWEST_REWARD = 24
# What all rewards of the warm-up had in common, a gain or a loss, would come to for ever, by the first
# discount; 0 where they had nothing
COMMON_VALUE = 25
N_FIGURES = 26
# Files of before do not have the last of them.
N_FIGURES_EARLIER = (14, 18, 19, 20, 24)
# Behind these stand, if errors are monitored, running means of every cell and the weight of each.

# The tally, int64: searches made, comparisons with planes and distances to cells in all of these
SEARCHES = 0
PLANES = 1
DISTANCES = 2
N_TALLY = 3

# Phases
GROWING = 0
LEARNING = 1

# Uniform numbers that one choice of an action uses, besides one for each coordinate of the action
N_DRAWS = 4
# Cells of a branch of a tree, at most.
BRANCH_WIDTH = 16
# Where a branch has no cell; its square times a dimension is still a number.
NOWHERE = 1e60


class Numbers(NamedTuple):
    """Single numbers, indexed by the names above; hyperparameters are named as in the configuration."""

    settings: Float1
    counters: Int1
    figures: Float1


class Units(NamedTuple):
    """The units of observations and of continuous actions, and numbered actions as the environment's.

    A scaled observation is (observation - centre) / scale, both of shape (n_observed,), as far as what
    was seen before, from `lowest` to `highest`, makes it credible. Row a of `commands` (numbered
    actions, n_command) is what a compiled environment takes for action a; the first of its parts has
    `options` (n_parts,)[0] values, and so on, where an actor draws them. A continuous action is
    action_centre + action_scale * u, u within +- action_reach, of its number of coordinates.

    In a table of states `counts` (n_observed,) says how many values each coordinate has; the states are
    numbered row by row. It is empty otherwise.

    `visited` (n_visited, n_observed) holds observations of the last half of all steps, in the
    environment's units, infinite where none is known; it is empty where the scale stays as it is.
    """

    centre: Float1
    scale: Float1
    lowest: Float1
    highest: Float1
    commands: Float2
    options: Int1
    action_centre: Float1
    action_scale: Float1
    action_reach: Float1
    counts: Int1
    visited: Float2


class Branches(NamedTuple):
    """The cells: the arrays of a codebook with one more axis, the branch, in front.

    `size` (n_branches,) counts the cells; the others are of shape (n_branches, [rows,] places). `number`
    is a cell's index in the codebook. The rows of `payload` are n_rows values q, the visits and the
    stepsizes of each action, n_rows traces for each environment, and the frequency of visits.
    """

    size: Int1
    number: Int2
    location: Float3
    weight: Float2
    label: Int2
    axis: Float3
    payload: Float3


class Planes(NamedTuple):
    """The inner nodes of the tree: a plane for each, and what is on its sides; none for one branch.

    `normal` is (n_nodes, n_observed), `offset` (n_nodes,), `child` (n_nodes, 2): another node, or ~g for
    branch g. Side 1 is where normal . z > offset.
    """

    normal: Float2
    offset: Float1
    child: Int2


class Ledger(NamedTuple):
    """What the traces of each environment (first axis) have yet to do for the values of a branch.

    `owed` (n_envs,) is the sum of the steps that were to be made along the traces; `paid` (n_envs,
    n_branches) is the part of it that the values of a branch have seen. A branch whose traces are not
    zero is `alive` (n_envs, n_branches); the first `n_living` (n_envs,) of `living` (n_envs, n_branches)
    list those.
    """

    owed: Float1
    paid: Float2
    alive: Bool2
    living: Int2
    n_living: Int1


class Memory(NamedTuple):
    """What is remembered of the last observation of each environment (first axis).

    `z` (n_location) is the observation, with the action if that is part of a location, and their
    products; the first `n_found` of `found` are the branches asked, `share` (n_places) the association
    probabilities of their cells for the action taken, `only` the place of the one active cell, or -1;
    `norm` is the sum of squares of the features, `reach` that of the discounts at which an error counts
    for the steps of the episode so far. `trace_scale` is a common factor of the traces.
    `action` is the number of the action taken, or 0, `command` (n_command) what the environment takes
    for it, `held` the steps for which it is repeated, `exploratory` whether another one was better. With
    an actor, `direction` (n_actions) is the gradient of the log-probability with which the action was
    drawn, by the preferences; `total` is the return of the episode so far, `told` whether it has told
    anything, and `lost` whether the actor has lost its way and holds its actions (`blank_episodes`).

    In a table of states `exploring` says whether novelty is followed; `recent` (N_RECENT) is a ring of
    the pairs visited, cell * n_actions + action, `n_recent` how many there have been, and `waiting` for
    how many steps they were not gone through.
    """

    z: Float2
    found: Int2
    n_found: Int1
    share: Float2
    only: Int1
    norm: Float1
    reach: Float1
    trace_scale: Float1
    action: Int1
    command: Float2
    held: Int1
    exploratory: Bool1
    direction: Float2
    total: Float1
    told: Bool1
    lost: Bool1
    exploring: Bool1
    recent: Int2
    n_recent: Int1
    waiting: Int1


class Scratch(NamedTuple):
    """Arrays that live during one call only.

    Of the observation: `z` (n_location,); the branches `found`; for the cells in them, by place, the
    squared `distance`, the `share`, and copies of their `label`, `weight` and `density`; `values`
    (n_actions,); `sums` and `parts` (n_rows,); `block`, the values of a branch with steps missing
    (branches found, n_rows, width). `key` and `node` are the queue of the search, `tally` its costs.

    Of continuous actions: the places `cells` of the cells that are near in the observation, and for
    these their distance in the observation `partial`, their value at it but for the action `local`,
    `actions` and `slopes` (n_joint, n_places); `best` and `trial`, actions. `step` is a row for steps.
    """

    z: Float1
    found: Int1
    distance: Float1
    share: Float1
    label: Int1
    weight: Float1
    density: Float1
    values: Float1
    sums: Float1
    parts: Float1
    block: Float3
    key: Float1
    node: Int1
    tally: Int1
    cells: Int1
    partial: Float1
    local: Float1
    actions: Float2
    slopes: Float2
    best: Float1
    trial: Float1
    step: Float1


# The groups in the order of the table
GROUPS = (Numbers, Units, Branches, Planes, Ledger, Memory, Scratch)
(
    open_numbers,
    open_units,
    open_branches,
    open_planes,
    open_ledger,
    open_memory,
    open_scratch,
) = (make_opener(group, count_slots(*GROUPS[:place])) for place, group in enumerate(GROUPS))

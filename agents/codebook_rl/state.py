"""The state of an agent in compiled code: settings, counters, and arrays by name.

The groups of arrays below hold the whole state of an agent. A kernel takes all of them as one argument,
the table of `oda_rl._structs`. This module is the only place that defines the shapes and the units:

=========== ===========================================================================================
n_observed  coordinates of an observation
n_joint     coordinates of an action that is part of a location; 0 for discrete actions or with an actor
n_features  n_observed + n_joint, the coordinates of a codevector
n_location  n_features + n_products, the number of inputs of a cell's value function
n_actions   discrete actions; 1 if actions are continuous; with an actor, its preferences: one for each
            option of each part of a discrete action, or two for each coordinate of a continuous action
n_basis     coefficients of the value of one action in a cell
n_rows      n_actions * n_basis, plus n_basis with a critic of states
n_branches  regions that the codebook is divided into; 1 without a tree
width       places for cells in each branch: `BRANCH_WIDTH`, or without a tree the number of cells
n_places    places in all branches that an observation uses, one branch after the other
=========== ===========================================================================================

Locations are in scaled units (`Units`); distances and temperatures are in squared scaled units. Rewards
and values are in the units of the environment; values are functions of the scaled location.
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
ACTOR_RATE = 16
GAMMA_HALVING = 17
N_SETTINGS = 18

# Counters, int64
N_CELLS = 0
STEPS = 1
LEARNING_STEPS = 2
SLOW_STEPS = 3
LEVEL_LENGTH = 4
HOLD = 5
PHASE = 6
# FINISHED if an annealing level is finished, VISITED if `Units.visited` is full, else 0
LEVEL_DONE = 7
FINISHED, VISITED = 1, 2
RATE_BY_CELL = 8
N_LABELS = 9
N_BASIS = 10
GROWTH_HOLD = 11
WIDTH = 12
# How often the warm-up was extended; what it had to learn from: TERMINATED if an episode terminated,
# else VARIED if rewards differed and actions are discrete, else 0
EXTENSIONS = 13
INFORMATIVE = 14
VARIED, TERMINATED = 1, 2
N_COUNTERS = 15

# Running figures, float64
NEXT_SLOW = 0
TD_ERROR = 1
DISTORTION = 2
COMMON_RATE = 3
BEST_ENDING = 4
MEAN_ERROR = 5
MEAN_ERROR_WEIGHT = 6
LARGEST_ERROR = 7
ACTOR_UNIT = 8
# Four figures of `bounds.bound_reward`; the last one is the second largest reward
REWARDS = 9
RECURRING_REWARD = REWARDS + 3
# Three running means of a critic, and tau, the steps by which the discount rises (`rules.traces`)
MEAN_VALUE = 13
MEAN_SQUARE = 14
UNEXPLAINED = 15
KNOWN_STEPS = 16
# The largest reward before learning that did not end an episode
BEST_GOING_ON = 17
# Step count at the last step that did not end an episode
WENT_ON = 18
# For the blank episodes of `actor_step`: the usual reward (the most frequent one of the warm-up), the
# share of blank episodes, and the returns of the last informative and of the last blank episode
USUAL_REWARD = 19
BLANK_SHARE = 20
INFORMATIVE_RETURN = 21
BLANK_RETURN = 22
# The lowest reward of an actor's warm-up, a reward that terminated an episode counting as 0; infinite
# before there is any
LOWEST_REWARD = 23
# The value, by the initial discount, of receiving for ever what all rewards of the warm-up had in
# common, a gain or a loss; 0 if they had nothing in common
COMMON_VALUE = 24
# The share of the rewards in the warm-up that were not the usual one. If it is more than LEAST_VARIED,
# most steps say something about what is worth doing.
VARIED_SHARE = 25
LEAST_VARIED = 0.5
# The largest mean reward of some successive steps of the warm-up (`recording.STRETCH`)
BEST_STRETCH = 26
# The weight of continuous actions that the warm-up suggests; 0 if it has none, as before its end
ACTION_WEIGHT = 27
# The least return of an episode of the warm-up, if rewards say which states are good, else -inf
LEAST_RETURN = 28
# The running mean of the returns of episodes that terminated; -inf before there is one
TERMINATED_RETURN = 29
# 1 if the best reward that terminated an episode of the warm-up was a gain, and all others were costs of
# actions alone; else 0
ONLY_COSTS = 30
# The steps in which the discount rises (`rules.traces`) if rewards are dense, else 0. For an actor, this
# depends on the warm-up; for a table, on the first steps (`rules.table_q`).
DENSE = 31
# The mean reward that the values of a table leave out, and by how many steps USUAL_REWARD outnumbered
# all others: infinite once an episode has terminated
CENTRE = 32
VOTES = 33
# The step at which a table's values are computed from below again; and 0 unless that is often enough for
# them to change in no other way, else by how much rarer it is as nothing changes (`rules.outcomes`)
NEXT_FROM_BELOW = 34
SETTLED = 35
# The running mean of the novelty of the first states of episodes
FIRST_NOVELTY = 36
N_FIGURES = 37
# If errors are monitored, a running mean for every cell and the weight of each mean follow the figures.

# The tally, int64: searches of the codebook, and their comparisons with planes and distances to cells
SEARCHES = 0
PLANES = 1
DISTANCES = 2
N_TALLY = 3

# Phases
GROWING = 0
LEARNING = 1

# Uniform numbers for one choice of an action, in addition to one for each coordinate of the action
N_DRAWS = 4
# Maximum number of cells in a branch of a tree
BRANCH_WIDTH = 16
# Coordinates of an unused place of a branch. Sums of their squares are still finite.
NOWHERE = 1e60


class Numbers(NamedTuple):
    """Scalars, indexed by the constants above; hyperparameters are named as in the configuration."""

    settings: Float1
    counters: Int1
    figures: Float1


class Units(NamedTuple):
    """The units of observations and continuous actions, and the environment's codes of discrete actions.

    A scaled observation is (observation - centre) / scale, limited by `bounds.keep_inside` according to
    the range seen so far, from `lowest` to `highest`; all four are of shape (n_observed,).

    Row a of `commands` (number of discrete actions, n_command) is what a compiled environment takes for
    action a. With an actor of discrete actions, `options` (n_parts,) has the number of values of each
    part of an action; else it is empty. A continuous action is action_centre + action_scale * u with u
    from -action_reach to action_reach; these have an entry for each coordinate of the action.

    In a table of states `counts` (n_observed,) is the number of values of each coordinate; the states
    are numbered in row-major order. Otherwise it is empty.

    `visited` (n_visited, n_observed) holds observations of the last half of all steps, in the
    environment's units, infinite where none is known yet; it is empty if the scale never changes.
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
    """The cells: the arrays of a codebook with an additional first axis, the branch.

    `size` (n_branches,) counts the cells; the others are of shape (n_branches, [rows,] places). `number`
    is a cell's index in the codebook. The rows of `payload` are n_rows values q, the visits and the
    stepsizes of each action, n_rows traces for each environment, further fields of the learning rule if
    it has any, and last the frequency of visits.
    """

    size: Int1
    number: Int2
    location: Float3
    weight: Float2
    label: Int2
    axis: Float3
    payload: Float3


class Planes(NamedTuple):
    """The inner nodes of the tree: the plane of each, and its two children; none for a single branch.

    `normal` is (n_nodes, n_observed), `offset` (n_nodes,), `child` (n_nodes, 2): another node, or ~g for
    branch g. Side 1 is where normal . z > offset.
    """

    normal: Float2
    offset: Float1
    child: Int2


class Ledger(NamedTuple):
    """Steps along the traces of each environment (first axis) that are still to be applied to branches.

    `owed` (n_envs,) is the sum of all steps along the traces; `paid` (n_envs, n_branches) is the part of
    this sum that has been applied to the values of a branch. A branch with a nonzero trace is `alive`
    (n_envs, n_branches); the first `n_living` (n_envs,) entries of `living` (n_envs, n_branches) list
    these branches.
    """

    owed: Float1
    paid: Float2
    alive: Bool2
    living: Int2
    n_living: Int1


class Memory(NamedTuple):
    """The last observation and action of each environment (first axis).

    `z` (n_location) is the observation, with the action if that is part of a location, and their
    products. The first `n_found` of `found` are the branches used, `share` (n_places) the association
    probabilities of their cells for the action taken, `only` the place of the single active cell, or -1.
    `norm` is the sum of squares of the features, `reach` the sum of squared discounts c_i of
    `rules.traces`, and `trace_scale` a common factor of the traces.

    `action` is the index of the action taken, 0 if it is continuous, `command` (n_command) what the
    environment takes for it, `held` the number of steps for which it is still to be repeated, and
    `exploratory` whether another action had a larger value. With an actor, `direction` (n_actions) is
    the gradient of the log-probability of the action by the preferences, `total` the return of the
    episode so far, `told` whether the episode is known not to be blank, and `lost` whether the actor is
    lost and holds its actions. `noise` has the uniform numbers by which the action was drawn, one for
    each coordinate, and 1 if they are held in this episode, else 0 (`actor_step`).

    In a table of states `exploring` is true if the behaviour follows the novelty. `recent` (N_RECENT) is
    a ring buffer of the visited pairs, cell * n_actions + action, `n_recent` the number of pairs ever
    added to it, and `waiting` the number of steps since they were last replayed.
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
    noise: Float2
    exploring: Bool1
    recent: Int2
    n_recent: Int1
    waiting: Int1


class Scratch(NamedTuple):
    """Scratch arrays, valid during one call only.

    For the observation: `z` (n_location,); the branches `found`; for the cells in them, by place, the
    squared `distance`, the `share`, and copies of their `label`, `weight` and `density`; `values`
    (n_actions,); `sums` and `parts` (n_rows,); `block` (branches found, n_rows, width), the values of
    branches to which steps were still to be applied. `key` and `node` are the queue of the search,
    `tally` its costs.

    For continuous actions: `cells`, the places of the cells whose observation is near. For each of these
    cells, `partial` is the squared distance along the observation, `local` the part of the value that
    does not depend on the action, and `actions` and `slopes` (n_joint, n_places) are its action and the
    slopes of its value along the action. `best` and `trial` are actions. `step` has a number per place.
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


# The groups in their order in the table
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

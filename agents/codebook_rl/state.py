"""Where the compiled step finds what: indices into flat arrays, and the arrays by name.

What Python calls takes plain arrays, which numba unpacks quicker than anything else; settings and
counters are flat arrays, indexed by the names below. Inside, the arrays travel in named tuples, which
cost nothing there.
"""

from typing import Any, NamedTuple

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
N_SETTINGS = 17

# Counters, int64
N_CELLS = 0
STEPS = 1
LEARNING_STEPS = 2
SLOW_STEPS = 3
LEVEL_LENGTH = 4
HOLD = 5
PHASE = 6
LEVEL_DONE = 7
RATE_BY_CELL = 8
N_LABELS = 9
N_BASIS = 10
GROWTH_HOLD = 11
N_COUNTERS = 12

# Running figures, float64
NEXT_SLOW = 0
TD_ERROR = 1
DISTORTION = 2
COMMON_RATE = 3
AVERAGE_REWARD = 4
BEST_REWARD = 5
BEST_ENDING = 6
N_FIGURES = 7
# Behind these stand, if errors are watched, running means of every cell and the weight of each


# Phases
GROWING = 0
LEARNING = 1

# What `observe` returns instead of an action
BAD_OBSERVATION = -1
BAD_REWARD = -2

# Uniform numbers that one choice of an action uses, besides two for each coordinate of the action
N_DRAWS = 4


class Units(NamedTuple):
    """The units of observations and of continuous actions, and numbered ones as the environment's."""

    centre: Any
    scale: Any
    commands: Any
    action_centre: Any
    action_scale: Any
    action_reach: Any


class Book(NamedTuple):
    """The arrays of the codebook."""

    location: Any
    weight: Any
    label: Any
    axis: Any
    payload: Any


class Memory(NamedTuple):
    """What is remembered of each environment: one row or entry each.

    `z` is the last observation, with the action if that is part of a location; `share` tells which cells
    speak for it and for the action taken; `only` is the cell that alone does, or -1.
    """

    z: Any
    share: Any
    only: Any
    norm: Any
    trace_scale: Any
    action: Any
    command: Any
    held: Any
    exploratory: Any


class Scratch(NamedTuple):
    """Room for what lives during one step only."""

    z: Any
    distance: Any
    share: Any
    values: Any
    sums: Any
    local: Any
    partial: Any
    spare: Any
    actions: Any
    slopes: Any
    cells: Any
    best: Any
    trial: Any

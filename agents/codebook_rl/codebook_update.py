# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""The slow timescale of a compiled step: one update of the annealer, and when the next one is due."""

from oda_rl._jit import inline_kernel
from oda_rl.agents.codebook_rl.rules.q_lambda import FIGURE_RATE
from oda_rl.agents.codebook_rl.state import (
    DISTORTION,
    FLATTENING,
    GROWING,
    LEARNING_STEPS,
    LEVEL_LENGTH,
    N_CELLS,
    PHASE,
    SLOW_A,
    SLOW_B,
    SLOW_DOUBLING,
    SLOW_EVERY,
    SLOW_STEPS,
    TEMPERATURE,
)
from oda_rl.codebook.association import EXACT, SQUARED_EUCLIDEAN
from oda_rl.codebook.association import associate as associate_weighted
from oda_rl.codebook.learning import learn

# Samples per cell over which the frequency of visits is estimated
DENSITY_SAMPLES = 20.0
# A cell that is hardly ever visited must not be torn away by one sample
MIN_FREQUENCY = 1e-9
MAX_EMPHASIS = 10.0
MAX_STEPSIZE = 0.5


@inline_kernel
def slow_stepsize(frequency, settings, counters):
    """The stepsize where cells are visited with this `frequency`.

    It is multiplied by (K f(x))^-flattening: where the agent has been long already, the codebook learns
    less.
    """
    n_cells = counters[N_CELLS]
    emphasis = 1.0
    if settings[FLATTENING] > 0.0:
        emphasis = (n_cells * frequency + MIN_FREQUENCY) ** -settings[FLATTENING]
        emphasis = min(emphasis, MAX_EMPHASIS)
    stepsize = emphasis / (settings[SLOW_A] * n_cells + settings[SLOW_B] * counters[SLOW_STEPS])
    return min(stepsize, MAX_STEPSIZE)


@inline_kernel
def is_level_done(counters):
    """Whether the temperature has had its updates."""
    return counters[SLOW_STEPS] >= counters[LEVEL_LENGTH]


@inline_kernel
def learn_codebook(x, wanted, settings, counters, figures, book, scratch):
    """One step of the slow annealer at `x` among the cells of label `wanted`.

    `scratch.distance` holds the divergences of `x`; f(x) of `slow_stepsize` is the frequency with which
    cells like the one of x are visited. Returns whether the temperature is finished.
    """
    n_cells = counters[N_CELLS]
    location, share, distance = book.location, scratch.spare, scratch.distance
    density = book.payload[book.payload.shape[0] - 1]
    nearest = associate_weighted(
        distance, book.weight, book.label, n_cells, wanted, settings[TEMPERATURE], EXACT, share
    )
    frequency = 0.0
    for i in range(n_cells):
        frequency += share[i] * density[i]
    forget = 1.0 / (DENSITY_SAMPLES * n_cells)
    for i in range(n_cells):
        density[i] += forget * (share[i] - density[i])
    stepsize = slow_stepsize(frequency, settings, counters)
    learn(SQUARED_EUCLIDEAN, x, share, stepsize, n_cells, location, book.weight, book.axis)
    figures[DISTORTION] += FIGURE_RATE * (distance[nearest] - figures[DISTORTION])
    counters[SLOW_STEPS] += 1
    return is_level_done(counters)


@inline_kernel
def slow_interval(settings, counters):
    """Steps until the next slow update: ever more, so that the codebook is quasi-static for Q."""
    if counters[PHASE] == GROWING:
        return 1.0
    return settings[SLOW_EVERY] * (1.0 + counters[LEARNING_STEPS] / settings[SLOW_DOUBLING])

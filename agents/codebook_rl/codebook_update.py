# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""The slow timescale of a compiled step: one update of the annealer, and the time of the next one."""

from oda_rl._jit import inline_kernel, lean_kernel
from oda_rl.agents.codebook_rl.association import find_near
from oda_rl.agents.codebook_rl.rules.q_lambda import FIGURE_RATE
from oda_rl.agents.codebook_rl.state import (
    DISTORTION,
    FINISHED,
    FLATTENING,
    GROWING,
    LEARNING_STEPS,
    LEVEL_DONE,
    LEVEL_LENGTH,
    N_BASIS,
    N_CELLS,
    NEXT_SLOW,
    PHASE,
    SLOW_A,
    SLOW_B,
    SLOW_DOUBLING,
    SLOW_EVERY,
    SLOW_STEPS,
    STEPS,
    TEMPERATURE,
    WENT_ON,
    WIDTH,
    open_branches,
    open_memory,
    open_numbers,
    open_scratch,
)
from oda_rl.agents.compiled_rollout import BEGIN
from oda_rl.codebook.association import EXACT, SQUARED_EUCLIDEAN, associate
from oda_rl.codebook.learning import MIN_WEIGHT, learn

# Samples per cell over which the frequency of visits is averaged
DENSITY_SAMPLES = 20.0
# Limits of the slow stepsize, so that a single sample does not move a rarely visited cell too far
MIN_FREQUENCY = 1e-9
MAX_EMPHASIS = 10.0
MAX_STEPSIZE = 0.5


@inline_kernel
def slow_stepsize(frequency, settings, counters):
    """The slow stepsize at a location whose cells are visited with this `frequency` f.

    It is multiplied by (K f(x))^-flattening, so that the codebook learns less where the agent has
    already spent much time.
    """
    n_cells = counters[N_CELLS]
    emphasis = 1.0
    if settings[FLATTENING] > 0.0:
        emphasis = (n_cells * frequency + MIN_FREQUENCY) ** -settings[FLATTENING]
        emphasis = min(emphasis, MAX_EMPHASIS)
    stepsize = emphasis / (settings[SLOW_A] * n_cells + settings[SLOW_B] * counters[SLOW_STEPS])
    return min(stepsize, MAX_STEPSIZE)


@inline_kernel
def is_single_step(state, event, ended):
    """Whether this episode and the one before it were single steps; records steps that end no episode.

    This is the case if more consecutive steps than there are environments have ended episodes. With a
    critic it is always False: that codebook grows by the warm-up, which contains the starts of episodes.
    """
    numbers, scratch = open_numbers(state), open_scratch(state)
    counters, figures, n_envs = numbers.counters, numbers.figures, open_memory(state).held.shape[0]
    has_critic = scratch.values.shape[0] * counters[N_BASIS] < scratch.sums.shape[0]
    if event < BEGIN and not ended:
        figures[WENT_ON] = counters[STEPS]
    many = counters[STEPS] - figures[WENT_ON] > n_envs
    return event < BEGIN and ended and many and not has_critic


@inline_kernel
def forget_elsewhere(n_found, found, keep_weight, keep_density, width, branches):
    """Let the weights and the visit frequencies decay in all branches that were not found."""
    for branch in range(branches.size.shape[0]):
        near = False
        for k in range(n_found):
            near |= found[k] == branch
        if not near:
            weight = branches.weight[branch]
            density = branches.payload[branch, branches.payload.shape[1] - 1]
            for i in range(width):
                density[i] *= keep_density
                weight[i] = max(weight[i] * keep_weight, MIN_WEIGHT)


@inline_kernel
def update_codebook(state, n_found, label):
    """One step of the slow annealer at `scratch.z`, among the cells of a label in the branches found.

    `scratch.distance` holds their distances. Cells of other branches are too far away to have a share,
    and only lose weight. The f(x) of `slow_stepsize` is the visit frequency of the cells, averaged by
    their shares. Records when the next step is due, and whether the annealing level is finished.
    """
    numbers, branches, scratch = open_numbers(state), open_branches(state), open_scratch(state)
    settings, counters, figures = numbers.settings, numbers.counters, numbers.figures
    n_cells, width, share = counters[N_CELLS], counters[WIDTH], scratch.step
    row = branches.payload.shape[1] - 1
    for k in range(n_found):
        branch = scratch.found[k]
        for i in range(width):
            p = k * width + i
            scratch.weight[p] = branches.weight[branch, i]
            scratch.label[p] = branches.label[branch, i]
            scratch.density[p] = branches.payload[branch, row, i]
    nearest = associate(
        scratch.distance,
        scratch.weight,
        scratch.label,
        n_found * width,
        label,
        settings[TEMPERATURE],
        EXACT,
        share,
    )
    frequency = 0.0
    for p in range(n_found * width):
        frequency += share[p] * scratch.density[p]
    forget = 1.0 / (DENSITY_SAMPLES * n_cells)
    stepsize = slow_stepsize(frequency, settings, counters)
    forget_elsewhere(n_found, scratch.found, 1.0 - stepsize, 1.0 - forget, width, branches)
    x = scratch.z[: branches.location.shape[1]]
    for k in range(n_found):
        branch = scratch.found[k]
        own = share[k * width : (k + 1) * width]
        density = branches.payload[branch, row]
        for i in range(width):
            density[i] += forget * (own[i] - density[i])
        learn(
            SQUARED_EUCLIDEAN,
            x,
            own,
            stepsize,
            width,
            branches.location[branch],
            branches.weight[branch],
            branches.axis[branch],
        )
    figures[DISTORTION] += FIGURE_RATE * (scratch.distance[nearest] - figures[DISTORTION])
    # Updates become ever rarer, so that the codebook is quasi-static for Q
    interval = 1.0
    if counters[PHASE] != GROWING:
        interval = settings[SLOW_EVERY] * (1.0 + counters[LEARNING_STEPS] / settings[SLOW_DOUBLING])
    figures[NEXT_SLOW] = counters[STEPS] + interval
    counters[SLOW_STEPS] += 1
    counters[LEVEL_DONE] = counters[SLOW_STEPS] >= counters[LEVEL_LENGTH]


@lean_kernel
def replay(state, points, order):
    """Let the codebook grow by `points` (n, n_observed), in scaled units, in this `order` (n_steps,).

    Each point is one step of `update_codebook`. Stops early when an annealing level is finished; returns
    the number of steps made.
    """
    counters, scratch = open_numbers(state).counters, open_scratch(state)
    for t in range(order.shape[0]):
        for j in range(points.shape[1]):
            scratch.z[j] = points[order[t], j]
        update_codebook(state, find_near(state, points.shape[1]), 0)
        counters[STEPS] += 1
        if counters[LEVEL_DONE] == FINISHED:
            return t + 1
    return order.shape[0]

"""Compiled kernels of the codebook agents: look, choose, learn.

One call of `step` does all that a transition asks for: the fast Q-learning over soft aggregate states
and, every so often, a step of the slow annealer. What Python calls takes plain arrays, which numba
unpacks quicker than anything else; settings and counters are flat arrays, indexed by the names below.
Inside, the arrays travel in named tuples, which cost nothing there.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from oda_rl._jit import kernel
from oda_rl.agents.playing import BEGINNING, ROW, play, turn, used_up
from oda_rl.kernels import EXACT, SQUARED_EUCLIDEAN, associate, divergences, learn

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
N_SETTINGS = 15

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
N_FIGURES = 4

# Phases
GROWING = 0
LEARNING = 1

# What `observe` returns instead of an action
BAD_OBSERVATION = -1
BAD_REWARD = -2

# Uniform numbers that one choice of an action uses
N_DRAWS = 4
# Cells with less than exp(-REACH) of the nearest one's share do not speak for an observation.
REACH = 8.0
# Forgetting of the running figures
FIGURE_RATE = 0.001
# Samples per cell over which the frequency of visits is estimated
DENSITY_SAMPLES = 20.0
# A cell that is hardly ever visited must not be torn away by one sample
MIN_FREQUENCY = 1e-9
MAX_EMPHASIS = 10.0
MAX_STEPSIZE = 0.5


class Units(NamedTuple):
    """The units of the observations."""

    centre: Any
    scale: Any


class Book(NamedTuple):
    """The arrays of the codebook."""

    location: Any
    weight: Any
    label: Any
    axis: Any
    payload: Any


class Memory(NamedTuple):
    """What is remembered of each environment: one row or entry each."""

    x: Any
    active: Any
    cells: Any
    share: Any
    action: Any
    held: Any
    exploratory: Any


class Scratch(NamedTuple):
    """Room for what lives during one step only."""

    x: Any
    distance: Any
    cells: Any
    share: Any
    values: Any


@kernel
def scale_observation(observation, centre, scale, x):
    """Fill `x` with the observation in scaled units. Returns False if a coordinate is not finite."""
    for j in range(x.shape[0]):
        value = float(observation[j])
        if not math.isfinite(value):
            return False
        x[j] = (value - centre[j]) / scale[j]
    return True


@kernel
def soft_association(x, location, n_cells, n_labels, temperature, label, distance, cells, share):
    """Find the cells that speak for `x` and their shares p(mu_i | x), within each label.

    The weights rho are left out: with them the cells that are visited most would speak for their
    neighbours. There is one label, or one for each action. Fills `distance` with all divergences, and
    the first n entries of `cells` and `share`; returns n.
    """
    divergences(SQUARED_EUCLIDEAN, x, location, n_cells, distance)
    n = 0
    for wanted in range(n_labels):
        smallest = np.inf
        nearest = -1
        for i in range(n_cells):
            if distance[i] < smallest and (n_labels == 1 or label[i] == wanted):
                smallest = distance[i]
                nearest = i
        if temperature <= 0.0:
            cells[n] = nearest
            share[n] = 1.0
            n += 1
            continue
        limit = smallest + REACH * temperature
        first = n
        total = 0.0
        for i in range(n_cells):
            if distance[i] <= limit and (n_labels == 1 or label[i] == wanted):
                cells[n] = i
                share[n] = math.exp((smallest - distance[i]) / temperature)
                total += share[n]
                n += 1
        for k in range(first, n):
            share[k] /= total
    return n


@kernel
def action_values(x, n, cells, share, q, n_basis, values):
    """Fill `values` with Q(x, a) = sum_i p(mu_i | x) (b_ia + w_ia x).

    The rows of `q` are, for each action, the intercept b and, if cells are linear, the slopes w: an
    affine function of x itself and not of x - mu, so that it stays what it is when its cell moves or
    splits. In a codebook for each action a cell has no value for the others: its row is 0 there.
    """
    for a in range(values.shape[0]):
        total = 0.0
        for k in range(n):
            i = cells[k]
            value = q[a * n_basis, i]
            for j in range(n_basis - 1):
                value += q[a * n_basis + 1 + j, i] * x[j]
            total += share[k] * value
        values[a] = total


@kernel
def argmax_random(values, draw):
    """Index of the largest value; ties are broken by `draw`, uniform in [0, 1)."""
    best = values.max()
    ties = 0
    for a in range(values.shape[0]):
        ties += values[a] == best
    wanted = int(draw * ties)
    for a in range(values.shape[0]):
        if values[a] == best:
            if wanted == 0:
                return a
            wanted -= 1
    return 0


@kernel
def exploration_rate(settings, learning_steps):
    """Epsilon, falling linearly and then constant."""
    start = settings[EPSILON_START]
    end = settings[EPSILON_END]
    progress = min(1.0, learning_steps / max(settings[EPSILON_STEPS], 1.0))
    return start + progress * (end - start)


@kernel
def choose(env, draws, settings, counters, payload, memory, values):
    """Choose the behaviour's action of environment `env`: epsilon-greedy, random actions held.

    A random action is begun with probability epsilon / h, h the mean number of steps that it is held, so
    that about a share of epsilon of all steps is random however long they are held.
    """
    n_actions = values.shape[0]
    action_values(
        memory.x[env],
        memory.active[env],
        memory.cells[env],
        memory.share[env],
        payload,
        counters[N_BASIS],
        values,
    )
    begin_random = 1.0
    hold = counters[GROWTH_HOLD]
    if counters[PHASE] == LEARNING:
        hold = counters[HOLD]
        epsilon = exploration_rate(settings, counters[LEARNING_STEPS])
        begin_random = epsilon * 2.0 / (1.0 + hold)
    if memory.held[env] > 0:
        memory.held[env] -= 1
    elif draws[0] < begin_random:
        memory.action[env] = int(draws[1] * n_actions)
        memory.held[env] = int(draws[2] * hold)
    else:
        memory.action[env] = argmax_random(values, draws[3])
    memory.exploratory[env] = values[memory.action[env]] < values.max()


@kernel
def lower(rate, part, visits, settings):
    """The stepsize after one more visit by `part`: a step along (1 + visits / halving)^-power.

    Following the curve by its slope costs a division where the power would cost ten times as much, and a
    cell that splits keeps the stepsize that it has reached.
    """
    slope = settings[LEARNING_RATE_POWER] / (settings[LEARNING_RATE_HALVING] + visits)
    return max(settings[LEARNING_RATE_MIN], rate * (1.0 - part * slope))


@kernel
def learn_values(env, reward, terminated, settings, counters, figures, book, memory, n_next, scratch):
    """One step of Watkins' Q(lambda) over soft aggregate states.

    The features of the taken action are the shares p(mu_i | x), and for linear cells also
    p(mu_i | x) (x - mu_i) / sqrt(T). The traces collect them divided by their sum of squares, so that a
    stepsize of 1 would move Q(x, a) to its target wherever x lies between cells.
    """
    n_cells, n_basis = counters[N_CELLS], counters[N_BASIS]
    n_actions = scratch.values.shape[0]
    rows = n_actions * n_basis
    q = book.payload[:rows]
    visits = book.payload[rows : rows + n_actions]
    rate = book.payload[rows + n_actions : rows + 2 * n_actions]
    first = rows + 2 * n_actions + env * rows
    trace = book.payload[first : first + rows]
    x, own_cells, own_share = memory.x[env], memory.cells[env], memory.share[env]
    taken = memory.action[env]
    by_action = counters[N_LABELS] > 1
    temperature = settings[TEMPERATURE] * (settings[SOFTNESS] if settings[SOFTNESS] > 0.0 else 1.0)

    target = reward
    if not terminated:
        action_values(scratch.x, n_next, scratch.cells, scratch.share, q, n_basis, scratch.values)
        target += settings[GAMMA] * scratch.values.max()
    value = 0.0
    norm = 0.0
    base = taken * n_basis
    for k in range(memory.active[env]):
        i = own_cells[k]
        if by_action and book.label[i] != taken:
            continue
        own = q[base, i]
        reach = 1.0
        for j in range(n_basis - 1):
            own += q[base + 1 + j, i] * x[j]
            reach += (x[j] - book.location[j, i]) ** 2 / temperature
        value += own_share[k] * own
        norm += own_share[k] * own_share[k] * reach
    error = target - value
    figures[TD_ERROR] += FIGURE_RATE * (abs(error) - figures[TD_ERROR])

    decay = 0.0 if memory.exploratory[env] else settings[GAMMA] * settings[TRACE_DECAY]
    for r in range(rows):
        row = trace[r]
        for i in range(n_cells):
            row[i] *= decay
    by_cell = counters[RATE_BY_CELL] == 1
    if not by_cell:
        part = 1.0 / (n_actions * n_cells)
        figures[COMMON_RATE] = lower(
            figures[COMMON_RATE], part, counters[LEARNING_STEPS] * part, settings
        )
    for k in range(memory.active[env]):
        i = own_cells[k]
        if by_action and book.label[i] != taken:
            continue
        visits[taken, i] += own_share[k]
        feature = own_share[k] / norm
        intercept = feature
        for j in range(n_basis - 1):
            slope = feature * (x[j] - book.location[j, i]) / temperature
            trace[base + 1 + j, i] += slope
            intercept -= slope * book.location[j, i]
        trace[base, i] += intercept
        if by_cell:
            rate[taken, i] = lower(rate[taken, i], own_share[k], visits[taken, i], settings)
        else:
            rate[taken, i] = figures[COMMON_RATE]
    for a in range(n_actions):
        for r in range(a * n_basis, (a + 1) * n_basis):
            for i in range(n_cells):
                q[r, i] += rate[a, i] * trace[r, i] * error


@kernel
def learn_codebook(x, wanted, settings, counters, figures, book, scratch):
    """One step of the slow annealer at `x` among the cells of label `wanted`.

    `scratch.distance` holds the divergences of `x`. The stepsize is multiplied by (K f(x))^-flattening,
    f(x) the frequency with which cells like the one of x are visited: where the agent has been long
    already, the codebook learns less. Returns whether the temperature is finished.
    """
    n_cells = counters[N_CELLS]
    location, share, distance = book.location, scratch.share, scratch.distance
    density = book.payload[book.payload.shape[0] - 1]
    nearest = associate(
        distance, book.weight, book.label, n_cells, wanted, settings[TEMPERATURE], EXACT, share
    )
    frequency = 0.0
    for i in range(n_cells):
        frequency += share[i] * density[i]
    forget = 1.0 / (DENSITY_SAMPLES * n_cells)
    for i in range(n_cells):
        density[i] += forget * (share[i] - density[i])
    emphasis = 1.0
    if settings[FLATTENING] > 0.0:
        emphasis = (n_cells * frequency + MIN_FREQUENCY) ** -settings[FLATTENING]
        emphasis = min(emphasis, MAX_EMPHASIS)
    n = counters[SLOW_STEPS]
    stepsize = emphasis / (settings[SLOW_A] * n_cells + settings[SLOW_B] * n)
    stepsize = min(stepsize, MAX_STEPSIZE)
    learn(SQUARED_EUCLIDEAN, x, share, stepsize, n_cells, location, book.weight, book.axis)
    figures[DISTORTION] += FIGURE_RATE * (distance[nearest] - figures[DISTORTION])
    counters[SLOW_STEPS] = n + 1
    return n + 1 >= counters[LEVEL_LENGTH]


@kernel
def slow_interval(settings, counters):
    """Steps until the next slow update: ever more, so that the codebook is quasi-static for Q."""
    if counters[PHASE] == GROWING:
        return 1.0
    return settings[SLOW_EVERY] * (1.0 + counters[LEARNING_STEPS] / settings[SLOW_DOUBLING])


@kernel
def observe(
    env,
    observation,
    reward,
    terminated,
    ended,
    first,
    draws,
    settings,
    counters,
    figures,
    units,
    book,
    memory,
    scratch,
):
    """All that an observation of environment `env` asks for; returns the next action, or an error.

    With `first` it begins an episode: there is nothing to learn from yet. The distances of the
    observation serve three times: for the value of the state, for the slow annealer, and for the choice
    of the next action.
    """
    if not math.isfinite(reward):
        return BAD_REWARD
    if not scale_observation(observation, units.centre, units.scale, scratch.x):
        return BAD_OBSERVATION
    n_cells, n_labels = counters[N_CELLS], counters[N_LABELS]
    n_next = soft_association(
        scratch.x,
        book.location,
        n_cells,
        n_labels,
        settings[SOFTNESS] * settings[TEMPERATURE],
        book.label,
        scratch.distance,
        scratch.cells,
        scratch.share,
    )
    if first:
        memory.held[env] = 0
    else:
        counters[STEPS] += 1
    if not first and counters[PHASE] == LEARNING:
        counters[LEARNING_STEPS] += 1
        learn_values(env, reward, terminated, settings, counters, figures, book, memory, n_next, scratch)
    memory.x[env] = scratch.x
    memory.active[env] = n_next
    for k in range(n_next):
        memory.cells[env, k] = scratch.cells[k]
        memory.share[env, k] = scratch.share[k]
    n_actions = scratch.values.shape[0]
    if ended:
        rows = n_actions * counters[N_BASIS]
        row = (env + 1) * rows + 2 * n_actions
        book.payload[row : row + rows, :n_cells] = 0.0
    else:
        choose(env, draws, settings, counters, book.payload, memory, scratch.values)
    # A codebook for each action learns from observations with the action that follows.
    if not first and counters[STEPS] >= figures[NEXT_SLOW] and (n_labels == 1 or not ended):
        figures[NEXT_SLOW] = counters[STEPS] + slow_interval(settings, counters)
        wanted = memory.action[env] if n_labels > 1 else 0
        finished = learn_codebook(scratch.x, wanted, settings, counters, figures, book, scratch)
        counters[LEVEL_DONE] = 1 if finished else 0
    return memory.action[env]


@kernel
def step(
    env,
    observation,
    reward,
    terminated,
    ended,
    first,
    draws,
    settings,
    counters,
    figures,
    centre,
    scale,
    location,
    weight,
    label,
    axis,
    payload,
    x,
    active,
    cells,
    share,
    action,
    held,
    exploratory,
    next_x,
    distance,
    next_cells,
    next_share,
    values,
):
    """`observe`, for a call from Python."""
    units = Units(centre, scale)
    book = Book(location, weight, label, axis, payload)
    memory = Memory(x, active, cells, share, action, held, exploratory)
    scratch = Scratch(next_x, distance, next_cells, next_share, values)
    return observe(
        env,
        observation,
        reward,
        terminated,
        ended,
        first,
        draws,
        settings,
        counters,
        figures,
        units,
        book,
        memory,
        scratch,
    )


@kernel
def run(
    env_step,
    env_reset,
    parameters,
    starts,
    time_limit,
    n_steps,
    clock,
    played,
    state,
    observation,
    returns,
    lengths,
    block,
    settings,
    counters,
    figures,
    centre,
    scale,
    location,
    weight,
    label,
    axis,
    payload,
    x,
    active,
    cells,
    share,
    action,
    held,
    exploratory,
    next_x,
    distance,
    next_cells,
    next_share,
    values,
):
    """Up to `n_steps` of a compiled environment and of `observe`, as the loop in Python would make them.

    Comes back early when a temperature is finished, or starts or random numbers are used up; `clock` and
    `played` (the last reward, the return of the running episode) tell where, and are where it goes on.
    Returns the steps made, or an error of `observe`.
    """
    units = Units(centre, scale)
    book = Book(location, weight, label, axis, payload)
    memory = Memory(x, active, cells, share, action, held, exploratory)
    scratch = Scratch(next_x, distance, next_cells, next_share, values)
    encoded = np.empty(1)
    t = 0
    while t < n_steps and counters[LEVEL_DONE] == 0 and not used_up(clock, block, starts):
        reward = 0.0
        terminated = False
        ended = False
        first = clock[BEGINNING] == 1
        if not first:
            encoded[0] = action[0]
            reward, terminated, ended = play(
                env_step, parameters, time_limit, clock, played, state, encoded, observation
            )
            t += 1
        code = observe(
            0,
            observation,
            reward,
            terminated,
            ended,
            first,
            block[clock[ROW]],
            settings,
            counters,
            figures,
            units,
            book,
            memory,
            scratch,
        )
        if code < 0:
            return code
        turn(env_reset, parameters, starts, ended, clock, played, state, observation, returns, lengths)
    return t


@kernel
def greedy_actions(
    observations, temperature, n_cells, n_labels, n_basis, centre, scale, location, label, q, actions
):
    """Fill `actions` with the greedy actions; ties go to the first. Returns False for bad input."""
    distance = np.empty(n_cells)
    cells = np.empty(n_cells, dtype=np.int64)
    share = np.empty(n_cells)
    x = np.empty(centre.shape[0])
    values = np.empty(q.shape[0] // n_basis)
    for t in range(observations.shape[0]):
        if not scale_observation(observations[t], centre, scale, x):
            return False
        n = soft_association(x, location, n_cells, n_labels, temperature, label, distance, cells, share)
        action_values(x, n, cells, share, q, n_basis, values)
        actions[t] = np.argmax(values)
    return True

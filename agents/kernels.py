"""Compiled kernels of the codebook agents: look, choose, learn.

One call of `step` does all that a transition asks for: the fast Q-learning over soft aggregate states
and, every so often, a step of the slow annealer. Settings and counters are flat arrays, indexed by the
names below, because numba unpacks a plain array quicker than anything else.
"""

import math

import numpy as np

from oda_rl._jit import kernel
from oda_rl.kernels import EXACT, SQUARED_EUCLIDEAN, associate, divergences, largest_shift, learn

# Settings, float64
GAMMA = 0
TRACE_DECAY = 1
SOFTNESS = 2
TEMPERATURE = 3
LEARNING_RATE = 4
LEARNING_RATE_MIN = 5
LEARNING_RATE_HALVING = 6
LEARNING_RATE_POWER = 7
EPSILON_START = 8
EPSILON_END = 9
EPSILON_STEPS = 10
SLOW_EVERY = 11
SLOW_DOUBLING = 12
SLOW_A = 13
SLOW_B = 14
FLATTENING = 15
TOLERANCE = 16
N_SETTINGS = 17

# Counters, int64
N_CELLS = 0
STEPS = 1
LEARNING_STEPS = 2
SLOW_STEPS = 3
LEVEL_LENGTH = 4
CHECK_INTERVAL = 5
HOLD = 6
PHASE = 7
LEVEL_DONE = 8
RATE_BY_CELL = 9
N_LABELS = 10
N_COUNTERS = 11

# Running figures, float64
NEXT_SLOW = 0
TD_ERROR = 1
DISTORTION = 2
COMMON_RATE = 3
N_FIGURES = 4

# Phases
GROWING = 0
LEARNING = 1

# What `step` returns instead of an action
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
def action_values(n, cells, share, q, values):
    """Fill `values` with Q(x, a) = sum_i p(mu_i | x) Q_i(a).

    In a codebook for each action a cell has no value for the others: its Q_i(a) is 0 there.
    """
    for a in range(values.shape[0]):
        total = 0.0
        for k in range(n):
            total += share[k] * q[a, cells[k]]
        values[a] = total


@kernel
def argmax_random(values, draw):
    """Index of the largest value; ties are broken by `draw`, uniform in [0, 1)."""
    best = values[0]
    ties = 1
    for a in range(1, values.shape[0]):
        if values[a] > best:
            best = values[a]
            ties = 1
        elif values[a] == best:
            ties += 1
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
def choose(
    env, draws, settings, counters, payload, active, cells, share, values, action, held, exploratory
):
    """Choose the behaviour's action of environment `env`: epsilon-greedy, random actions held.

    A random action is begun with probability epsilon / h, h the mean number of steps that it is held, so
    that about a share of epsilon of all steps is random however long they are held.
    """
    n_actions = values.shape[0]
    action_values(active[env], cells[env], share[env], payload, values)
    if counters[PHASE] == GROWING:
        epsilon = 1.0
        begin = 1.0
    else:
        epsilon = exploration_rate(settings, counters[LEARNING_STEPS])
        begin = epsilon * 2.0 / (1.0 + counters[HOLD])
    if held[env] > 0:
        held[env] -= 1
    elif draws[0] < begin:
        action[env] = int(draws[1] * n_actions)
        held[env] = int(draws[2] * counters[HOLD])
    else:
        action[env] = argmax_random(values, draws[3])
    exploratory[env] = values[action[env]] < values.max()
    return action[env]


@kernel
def lower(rate, part, visits, settings):
    """The stepsize after one more visit by `part`: a step along (1 + visits / halving)^-power.

    Following the curve by its slope costs a division where the power would cost ten times as much, and a
    cell that splits keeps the stepsize that it has reached.
    """
    slope = settings[LEARNING_RATE_POWER] / (settings[LEARNING_RATE_HALVING] + visits)
    return max(settings[LEARNING_RATE_MIN], rate * (1.0 - part * slope))


@kernel
def learn_values(
    env,
    reward,
    terminated,
    settings,
    counters,
    figures,
    label,
    payload,
    n_own,
    own_cells,
    own_share,
    n_next,
    next_cells,
    next_share,
    values,
    taken,
    exploratory,
):
    """One step of Watkins' Q(lambda) over soft aggregate states.

    The features of the taken action are the shares p(mu_i | x). The traces collect them divided by
    sum p_i^2, so that a stepsize of 1 would move Q(x, a) to its target wherever x lies between cells.
    """
    n_cells = counters[N_CELLS]
    n_actions = values.shape[0]
    q = payload[:n_actions]
    visits = payload[n_actions : 2 * n_actions]
    rate = payload[2 * n_actions : 3 * n_actions]
    first = (3 + env) * n_actions
    trace = payload[first : first + n_actions]
    by_action = counters[N_LABELS] > 1

    target = reward
    if not terminated:
        action_values(n_next, next_cells, next_share, q, values)
        target += settings[GAMMA] * values.max()
    value = 0.0
    norm = 0.0
    for k in range(n_own):
        i = own_cells[k]
        if not by_action or label[i] == taken:
            value += own_share[k] * q[taken, i]
            norm += own_share[k] * own_share[k]
    error = target - value
    figures[TD_ERROR] += FIGURE_RATE * (abs(error) - figures[TD_ERROR])

    decay = 0.0 if exploratory else settings[GAMMA] * settings[TRACE_DECAY]
    for a in range(n_actions):
        row = trace[a]
        for i in range(n_cells):
            row[i] *= decay
    by_cell = counters[RATE_BY_CELL] == 1
    if not by_cell:
        part = 1.0 / (n_actions * n_cells)
        figures[COMMON_RATE] = lower(
            figures[COMMON_RATE], part, counters[LEARNING_STEPS] * part, settings
        )
    for k in range(n_own):
        i = own_cells[k]
        if not by_action or label[i] == taken:
            visits[taken, i] += own_share[k]
            trace[taken, i] += own_share[k] / norm
            if by_cell:
                rate[taken, i] = lower(rate[taken, i], own_share[k], visits[taken, i], settings)
            else:
                rate[taken, i] = figures[COMMON_RATE]
    for a in range(n_actions):
        for i in range(n_cells):
            q[a, i] += rate[a, i] * trace[a, i] * error


@kernel
def learn_codebook(
    x,
    wanted,
    settings,
    counters,
    figures,
    distance,
    location,
    weight,
    label,
    axis,
    payload,
    reference,
    share,
):
    """One step of the slow annealer at `x` among the cells of label `wanted`.

    `distance` holds the divergences of `x`.

    The stepsize is multiplied by (K f(x))^-flattening, f(x) the frequency with which cells like the one
    of x are visited: where the agent has been long already, the codebook learns less. Returns whether
    the temperature is finished.
    """
    n_cells = counters[N_CELLS]
    density = payload[payload.shape[0] - 1]
    nearest = associate(distance, weight, label, n_cells, wanted, settings[TEMPERATURE], EXACT, share)
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
    stepsize = min(stepsize, 0.5)
    learn(SQUARED_EUCLIDEAN, x, share, stepsize, n_cells, location, weight, axis)
    figures[DISTORTION] += FIGURE_RATE * (distance[nearest] - figures[DISTORTION])
    counters[SLOW_STEPS] = n + 1
    if (n + 1) % counters[CHECK_INTERVAL] != 0:
        return False
    shift = largest_shift(SQUARED_EUCLIDEAN, n_cells, location, reference, distance)
    for j in range(location.shape[0]):
        for i in range(n_cells):
            reference[j, i] = location[j, i]
    return shift < settings[TOLERANCE] or n + 1 >= counters[LEVEL_LENGTH]


@kernel
def begin(
    env,
    observation,
    draws,
    settings,
    counters,
    centre,
    scale,
    location,
    label,
    payload,
    x,
    active,
    cells,
    share,
    action,
    held,
    exploratory,
    distance,
    values,
):
    """Start an episode of environment `env`; returns the first action, or an error."""
    if not scale_observation(observation, centre, scale, x[env]):
        return BAD_OBSERVATION
    temperature = settings[SOFTNESS] * settings[TEMPERATURE]
    n_cells, n_labels = counters[N_CELLS], counters[N_LABELS]
    active[env] = soft_association(
        x[env], location, n_cells, n_labels, temperature, label, distance, cells[env], share[env]
    )
    held[env] = 0
    return choose(
        env,
        draws,
        settings,
        counters,
        payload,
        active,
        cells,
        share,
        values,
        action,
        held,
        exploratory,
    )


@kernel
def step(
    env,
    observation,
    reward,
    terminated,
    ended,
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
    reference,
    x,
    active,
    cells,
    share,
    action,
    held,
    exploratory,
    distance,
    next_cells,
    next_share,
    values,
):
    """All that a transition of environment `env` asks for; returns the next action, or an error.

    The distances of the new observation serve three times: for the value of the next state, for the
    slow annealer, and for the choice of the next action.
    """
    if not math.isfinite(reward):
        return BAD_REWARD
    taken = action[env]
    n_cells = counters[N_CELLS]
    if not scale_observation(observation, centre, scale, x[env]):
        return BAD_OBSERVATION
    temperature = settings[SOFTNESS] * settings[TEMPERATURE]
    n_labels = counters[N_LABELS]
    n_next = soft_association(
        x[env], location, n_cells, n_labels, temperature, label, distance, next_cells, next_share
    )
    counters[STEPS] += 1
    if counters[PHASE] == LEARNING:
        counters[LEARNING_STEPS] += 1
        learn_values(
            env,
            reward,
            terminated,
            settings,
            counters,
            figures,
            label,
            payload,
            active[env],
            cells[env],
            share[env],
            n_next,
            next_cells,
            next_share,
            values,
            taken,
            exploratory[env],
        )
    active[env] = n_next
    for k in range(n_next):
        cells[env, k] = next_cells[k]
        share[env, k] = next_share[k]
    if ended:
        n_actions = values.shape[0]
        first = (3 + env) * n_actions
        payload[first : first + n_actions, :n_cells] = 0.0
    else:
        choose(
            env,
            draws,
            settings,
            counters,
            payload,
            active,
            cells,
            share,
            values,
            action,
            held,
            exploratory,
        )
    # A codebook for each action learns from observations with the action that follows.
    if counters[STEPS] >= figures[NEXT_SLOW] and (n_labels == 1 or not ended):
        interval = 1.0
        if counters[PHASE] == LEARNING:
            rarer = 1.0 + counters[LEARNING_STEPS] / settings[SLOW_DOUBLING]
            interval = settings[SLOW_EVERY] * rarer
        figures[NEXT_SLOW] = counters[STEPS] + interval
        finished = learn_codebook(
            x[env],
            action[env] if n_labels > 1 else 0,
            settings,
            counters,
            figures,
            distance,
            location,
            weight,
            label,
            axis,
            payload,
            reference,
            next_share,
        )
        counters[LEVEL_DONE] = 1 if finished else 0
    return action[env]


@kernel
def greedy_actions(
    observations, temperature, n_cells, n_labels, centre, scale, location, label, q, actions
):
    """Fill `actions` with the greedy actions; ties go to the first. Returns False for bad input."""
    distance = np.empty(n_cells)
    cells = np.empty(n_cells, dtype=np.int64)
    share = np.empty(n_cells)
    x = np.empty(centre.shape[0])
    values = np.empty(q.shape[0])
    for t in range(observations.shape[0]):
        if not scale_observation(observations[t], centre, scale, x):
            return False
        n = soft_association(x, location, n_cells, n_labels, temperature, label, distance, cells, share)
        action_values(n, cells, share, q, values)
        actions[t] = np.argmax(values)
    return True

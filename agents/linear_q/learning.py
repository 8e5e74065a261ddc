# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled kernels of the baselines: choose and learn.

All baselines are linear: Q(x, a) = w_a . phi(x). Of sparse features only the weights and traces that are
touched cost anything; those of the Fourier basis are all touched at every step. Settings and counters
are flat arrays, indexed by the names below; what Python calls takes plain arrays, which travel in named
tuples inside.
"""

from typing import Any, NamedTuple

from oda_rl._jit import lean_kernel
from oda_rl.agents.action_choice import begin_random, choose_numbered, falling
from oda_rl.agents.codebook_rl.association import index_of_largest
from oda_rl.agents.linear_q.encoding import FOURIER, dot, move_map

# Settings, float64
GAMMA = 0
TRACE_DECAY = 1
LEARNING_RATE = 2
LEARNING_RATE_MIN = 3
LEARNING_RATE_STEPS = 4
LEARNING_RATE_HALVING = 5
LEARNING_RATE_POWER = 6
EPSILON_START = 7
EPSILON_END = 8
EPSILON_STEPS = 9
FEATURE_NORM = 10
MAP_RATE = 11
MAP_RATE_FINAL = 12
MAP_RADIUS = 13
MAP_RADIUS_FINAL = 14
MAP_HORIZON = 15
N_SETTINGS = 16

# Counters, int64
KIND = 0
STEPS = 1
LEARNING_STEPS = 2
HOLD = 3
WARMUP_HOLD = 4
SARSA = 5
TRACES = 6
RATE_BY_VISITS = 7
MAP_STEPS = 8
MAP_EVERY = 9
N_COUNTERS = 10

# Running figures, float64
TD_ERROR = 0
N_FIGURES = 1

# Kinds of traces
ACCUMULATING = 0
REPLACING = 1
CLEARING = 2

# What `observe` returns instead of an action
BAD_OBSERVATION = -1
BAD_REWARD = -2
DIVERGED = -3

# Uniform numbers that one choice of an action uses
N_DRAWS = 4
# Forgetting of the running figures
FIGURE_RATE = 0.001
# A smaller trace is forgotten: thousands of weights need not be decayed at every step.
SMALLEST_TRACE = 1e-3
# An error beyond this is no error that anybody learns from any more.
LARGEST_ERROR = 1e100


class Weights(NamedTuple):
    """Weights, their share of the stepsize, and their visits; the last two by feature if dense."""

    weight: Any
    gain: Any
    visits: Any


class Memory(NamedTuple):
    """What is remembered of each environment: one row or entry each."""

    index: Any
    feature: Any
    known: Any
    action: Any
    held: Any
    exploratory: Any
    trace: Any
    listed: Any
    n_listed: Any
    level: Any


# -- choosing ----------------------------------------------------------------------------------------


@lean_kernel
def choose(env, draws, settings, counters, memory, values):
    """Choose the next action of environment `env`: epsilon-greedy, random actions held."""
    hold = counters[WARMUP_HOLD]
    likely = 1.0
    if counters[STEPS] >= counters[MAP_STEPS]:
        hold = counters[HOLD]
        epsilon = falling(
            settings[EPSILON_START],
            settings[EPSILON_END],
            counters[LEARNING_STEPS],
            settings[EPSILON_STEPS],
        )
        likely = begin_random(epsilon, hold)
    choose_numbered(env, draws, draws[0] < likely, hold, values, memory)


# -- learning ----------------------------------------------------------------------------------------


@lean_kernel
def forget_traces(env, kind, memory):
    """Let the traces of environment `env` be 0."""
    if kind == FOURIER:
        for a in range(memory.level.shape[1]):
            if memory.level[env, a] > 0.0:
                memory.level[env, a] = 0.0
                n = memory.trace.shape[1] // memory.level.shape[1]
                for i in range(a * n, (a + 1) * n):
                    memory.trace[env, i] = 0.0
        return
    for k in range(memory.n_listed[env]):
        memory.trace[env, memory.listed[env, k]] = 0.0
    memory.n_listed[env] = 0


@lean_kernel
def mark_sparse(env, taken, n_actions, settings, counters, weights, memory):
    """Add the active features of the taken action to the traces, and count their visit."""
    trace, listed = memory.trace[env], memory.listed[env]
    n = memory.n_listed[env]
    for k in range(memory.index.shape[1]):
        first = memory.index[env, k] * n_actions
        i = first + taken
        if trace[i] == 0.0:
            listed[n] = i
            n += 1
        if counters[TRACES] == CLEARING:
            for a in range(n_actions):
                trace[first + a] = 0.0
        trace[i] = trace[i] + 1.0 if counters[TRACES] == ACCUMULATING else 1.0
        if counters[RATE_BY_VISITS] == 1:
            weights.visits[i] += 1.0
            slope = settings[LEARNING_RATE_POWER] / (settings[LEARNING_RATE_HALVING] + weights.visits[i])
            weights.gain[i] *= 1.0 - slope
    memory.n_listed[env] = n


@lean_kernel
def learn_sparse(env, step, floor, decay, by_visits, weights, memory):
    """Move the weights along their traces by `step`, and let the traces decay."""
    trace, listed = memory.trace[env], memory.listed[env]
    weight = weights.weight
    n = memory.n_listed[env]
    k = 0
    while k < n:
        i = listed[k]
        share = max(weights.gain[i], floor) if by_visits else 1.0
        weight[i] += step * share * trace[i]
        trace[i] *= decay
        if trace[i] < SMALLEST_TRACE:
            trace[i] = 0.0
            n -= 1
            listed[k] = listed[n]
        else:
            k += 1
    memory.n_listed[env] = n


@lean_kernel
def learn_dense(env, taken, step, decay, weights, memory):
    """The same for the Fourier basis, whose traces collect the features as they are."""
    trace, level, feature = memory.trace[env], memory.level[env], memory.feature[env]
    weight, gain = weights.weight, weights.gain
    n = feature.shape[0]
    for f in range(n):
        trace[taken * n + f] += feature[f]
    level[taken] += 1.0
    for a in range(level.shape[0]):
        if level[a] == 0.0:
            continue
        first = a * n
        for f in range(n):
            weight[first + f] += step * gain[f] * trace[first + f]
            trace[first + f] *= decay
        level[a] *= decay
        if level[a] < SMALLEST_TRACE:  # before the traces become denormal
            level[a] = 0.0
            for f in range(n):
                trace[first + f] = 0.0


@lean_kernel
def learn(
    env,
    taken,
    reward,
    terminated,
    next_action,
    cut,
    settings,
    counters,
    figures,
    weights,
    memory,
    scratch,
):
    """One step of Sarsa(lambda), or of Watkins' Q(lambda); `scratch.values` are those of the next state.

    A stepsize of 1 would move Q(x, a) all the way to its target. Returns False if the error is out of
    all bounds.
    """
    kind = counters[KIND]
    values = scratch.values
    n_actions = values.shape[0]
    target = reward
    if not terminated:
        target += settings[GAMMA] * (
            values[next_action] if counters[SARSA] == 1 else values[index_of_largest(values)]
        )
    value = 0.0
    if kind == FOURIER:
        value = dot(weights.weight, taken * memory.feature.shape[1], memory.feature[env])
    else:
        for k in range(memory.index.shape[1]):
            value += weights.weight[memory.index[env, k] * n_actions + taken]
    error = target - value
    if not abs(error) < LARGEST_ERROR:
        return False
    figures[TD_ERROR] += FIGURE_RATE * (abs(error) - figures[TD_ERROR])
    decay = 0.0 if cut else settings[GAMMA] * settings[TRACE_DECAY]
    rate = settings[LEARNING_RATE]
    floor = settings[LEARNING_RATE_MIN] / rate
    by_visits = counters[RATE_BY_VISITS] == 1
    if not by_visits:
        rate = falling(
            rate,
            settings[LEARNING_RATE_MIN],
            counters[LEARNING_STEPS],
            settings[LEARNING_RATE_STEPS],
        )
    step = rate * error / settings[FEATURE_NORM]
    if kind == FOURIER:
        learn_dense(env, taken, step, decay, weights, memory)
    else:
        mark_sparse(env, taken, n_actions, settings, counters, weights, memory)
        learn_sparse(env, step, floor, decay, by_visits, weights, memory)
    return True


@lean_kernel
def learn_map(settings, counters, encoder, scratch):
    """Move the map, if it is time: first it unfolds, then it follows the agent ever more slowly."""
    steps = counters[STEPS]
    if steps % counters[MAP_EVERY] != 0:
        return
    start, end = settings[MAP_RATE], settings[MAP_RATE_FINAL]
    radius = settings[MAP_RADIUS_FINAL]
    if steps < counters[MAP_STEPS]:
        progress = steps / counters[MAP_STEPS]
        rate = start * (end / start) ** progress
        radius = settings[MAP_RADIUS] * (radius / settings[MAP_RADIUS]) ** progress
    else:
        rate = falling(end, 0.0, counters[LEARNING_STEPS], settings[MAP_HORIZON])
    if rate > 0.0:
        move_map(
            scratch.u, scratch.index[0], rate, radius, encoder.source, encoder.location, encoder.lattice
        )

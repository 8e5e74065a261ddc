# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled code of the baselines: choosing actions, learning, evaluating.

All baselines are linear: Q(x, a) = w_a . phi(x). With sparse features, a step costs time only for the
weights and traces that it touches; with the Fourier basis, each step touches all of them.

Arguments that recur, in addition to the namedtuples:
`env`, index of the environment; `observation` (n_features,) in its own units; `draws` (N_DRAWS,) uniform
in [0, 1); `index` (active,) int64 and `feature` (n_features,) float64, the features of an observation.
"""

import math
from typing import NamedTuple

from oda_rl._jit import fixed_tuple, inline_kernel, lean_kernel
from oda_rl._structs import Bool1, Float1, Float2, Int1, Int2, count_slots, make_opener
from oda_rl.agents.action_choice import begin_random, choose_numbered, falling, index_of_largest
from oda_rl.agents.bounds import LARGEST_ERROR, bound_reward
from oda_rl.agents.compiled_rollout import BAD_OBSERVATION, BAD_REWARD, BEGIN, DIVERGED
from oda_rl.agents.linear_q.encoding import FOURIER, MAP, Encoder, Scratch, encode

# Indices of the counters and of the running figures
STEPS, LEARNING_STEPS, N_COUNTERS = range(3)
# (the error is followed by the four figures of `bounds.bound_reward`)
TD_ERROR, REWARDS, N_FIGURES = 0, 1, 5

TRACES = ("accumulating", "replacing", "clearing")
ACCUMULATING, REPLACING, CLEARING = range(3)

# Uniform random numbers for one choice of an action
N_DRAWS = 4
# Rate of the running mean of the error
FIGURE_RATE = 0.001
# A smaller trace is set to 0, so that thousands of weights need not be decayed at every step.
SMALLEST_TRACE = 1e-3
# Cells of the map further from the winner than this many radii stay where they are.
REACH = 3.0


class Settings(NamedTuple):
    """The hyperparameters of a run, as the compiled code reads them: float64.

    `kind` and `norm` of the features; `sarsa` (1), or Watkins (0); the traces; the stepsize: `rate`,
    its minimum, and how it falls over `rate_steps` or with visits; epsilon, which falls over
    `epsilon_steps`; the longest `hold` of a random action, `warmup_hold` while only the map learns; of
    the map: rates, radii, steps over which its rate falls, in which only it learns, and between updates.
    """

    kind: float
    norm: float
    gamma: float
    sarsa: float
    trace_kind: float
    trace_decay: float
    rate: float
    rate_min: float
    rate_steps: float
    rate_by_visits: float
    rate_halving: float
    rate_power: float
    epsilon_start: float
    epsilon_end: float
    epsilon_steps: float
    hold: float
    warmup_hold: float
    map_rate: float
    map_rate_final: float
    map_radius: float
    map_radius_final: float
    map_horizon: float
    map_steps: float
    map_every: float


class Weights(NamedTuple):
    """`weight` (n_features * n_actions,), the factor `gain` of its stepsize, and its `visits`.

    If features are sparse, the weights of a feature are adjacent, one for each action. If they are
    dense, the weights of an action are adjacent, one for each feature, and `gain` is (n_features,).
    """

    weight: Float1
    gain: Float1
    visits: Float1


class Memory(NamedTuple):
    """Arrays with a row or an entry for each environment.

    The features of the last observation, `index` (n_envs, active), or `feature` (n_envs, n_features) if
    dense; whether they are `known`; the `action` taken, also as a compiled environment takes it
    (`command`, (n_envs, 1)), for how many steps it is still `held`, whether it is `exploratory`;
    `trace` (n_envs, n_weights), and the first `n_listed` of `listed` (n_envs, n_weights), the indices of
    nonzero traces, or `level` (n_envs, n_actions), a bound of the dense traces of each action.
    """

    index: Int2  # type: ignore[assignment]
    feature: Float2
    known: Bool1
    action: Int1
    command: Float2
    held: Int1
    exploratory: Bool1
    trace: Float2
    listed: Int2
    n_listed: Int1
    level: Float2


class Numbers(NamedTuple):
    """The settings as an array, and counters and running figures, indexed by the names above."""

    settings: Float1
    counters: Int1
    figures: Float1


# The state of a learner is the table of these groups, in this order
GROUPS = (Numbers, Encoder, Weights, Memory, Scratch)
open_numbers, open_encoder, open_weights, open_memory, open_scratch = (
    make_opener(group, count_slots(*GROUPS[:i])) for i, group in enumerate(GROUPS)
)
N_SETTINGS = len(Settings._fields)


# -- learning ---------------------------------------------------------------------------------------


@lean_kernel
def value_of(action, n_actions, kind, weight, index, feature):
    """Q(x, a) = w_a . phi(x) of one action; the sum over a dense basis is split into four."""
    if kind != FOURIER:
        total = 0.0
        for k in range(index.shape[0]):
            total += weight[index[k] * n_actions + action]
        return total
    n = feature.shape[0]
    first = action * n
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for f in range(0, n - 3, 4):
        at = first + f
        a += weight[at] * feature[f]
        b += weight[at + 1] * feature[f + 1]
        c += weight[at + 2] * feature[f + 2]
        d += weight[at + 3] * feature[f + 3]
    for f in range(n - n % 4, n):
        a += weight[first + f] * feature[f]
    return a + b + c + d


@inline_kernel
def forget_traces(env, n_actions, memory):
    """Set the traces of environment `env` to 0."""
    trace, level = memory.trace[env], memory.level[env]
    for k in range(memory.n_listed[env]):
        trace[memory.listed[env, k]] = 0.0
    memory.n_listed[env] = 0
    n = trace.shape[0] // n_actions
    for a in range(n_actions):
        if level[a] > 0.0:
            level[a] = 0.0
            for i in range(a * n, (a + 1) * n):
                trace[i] = 0.0


@inline_kernel
def learn_sparse(env, taken, n_actions, step, floor, decay, settings, weights, memory):
    """Add the active features of the action `taken` to the traces, and move the weights along them.

    Weights move by `step` times trace times gain, which is at least `floor`; then the traces decay.
    """
    trace, listed, n = memory.trace[env], memory.listed[env], memory.n_listed[env]
    by_visits = settings.rate_by_visits == 1.0
    for k in range(memory.index.shape[1]):
        first = memory.index[env, k] * n_actions
        i = first + taken
        if trace[i] == 0.0:
            listed[n] = i
            n += 1
        if settings.trace_kind == CLEARING:
            for a in range(n_actions):
                trace[first + a] = 0.0
        trace[i] = trace[i] + 1.0 if settings.trace_kind == ACCUMULATING else 1.0
        if by_visits:
            weights.visits[i] += 1.0
            slope = settings.rate_power / (settings.rate_halving + weights.visits[i])
            weights.gain[i] *= 1.0 - slope
    k = 0
    while k < n:
        i = listed[k]
        share = max(weights.gain[i], floor) if by_visits else 1.0
        weights.weight[i] += step * share * trace[i]
        trace[i] *= decay
        if trace[i] < SMALLEST_TRACE:
            trace[i] = 0.0
            n -= 1
            listed[k] = listed[n]
        else:
            k += 1
    memory.n_listed[env] = n


@inline_kernel
def learn_dense(env, taken, step, decay, weights, memory):
    """Add the dense features of the action `taken` to the traces, and move the weights along them."""
    trace, level, feature = memory.trace[env], memory.level[env], memory.feature[env]
    weight, gain, n = weights.weight, weights.gain, feature.shape[0]
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
def move_map(winner, settings, counters, encoder, u):
    """Move the winner towards `u`, and its neighbours on the lattice by less.

    During the first `map_steps` the map unfolds, while its rate and radius fall. Later its rate falls
    further, to 0.
    """
    source, location, lattice = encoder.source, encoder.location, encoder.lattice
    start, end, radius = settings.map_rate, settings.map_rate_final, settings.map_radius_final
    if counters[STEPS] < settings.map_steps:
        progress = counters[STEPS] / settings.map_steps
        rate = start * (end / start) ** progress
        radius = settings.map_radius * (radius / settings.map_radius) ** progress
    else:
        rate = falling(end, 0.0, counters[LEARNING_STEPS], settings.map_horizon)
    if rate <= 0.0:
        return
    for i in range(location.shape[1]):
        apart = 0.0
        for m in range(lattice.shape[0]):
            step = lattice[m, i] - lattice[m, winner]
            apart += step * step
        if apart > REACH * REACH * radius * radius:
            continue
        part = rate * math.exp(-0.5 * apart / (radius * radius))
        for j in range(u.shape[0]):
            difference = u[j] - location[j, i]
            if source[j, 1] >= 0:
                difference -= math.floor(difference + 0.5)
                moved = location[j, i] + part * difference
                location[j, i] = moved - math.floor(moved)
            else:
                location[j, i] += part * difference


# -- a step, and evaluation --------------------------------------------------------------------------


@lean_kernel
def observe(state, env, observation, reward, terminated, ended, event, draws):
    """Learn from an observation of environment `env`; returns the next action, or an error code.

    `state` is a table of `GROUPS`. If the event is `BEGIN`, the observation begins an episode, and there
    is nothing to learn from yet.
    """
    numbers, weights = open_numbers(state), open_weights(state)
    memory, scratch, encoder = open_memory(state), open_scratch(state), open_encoder(state)
    settings, counters = Settings(*fixed_tuple(numbers.settings, N_SETTINGS)), numbers.counters
    figures, first = numbers.figures, event == BEGIN
    kind, values, n_actions = settings.kind, scratch.values, scratch.values.shape[0]
    if not math.isfinite(reward):
        return BAD_REWARD
    if not encode(observation, kind, encoder, scratch):
        return BAD_OBSERVATION
    learning = counters[STEPS] >= settings.map_steps
    taken, bounded = memory.action[env], reward
    if first:
        memory.held[env] = 0
        forget_traces(env, n_actions, memory)  # of an episode that was left before its end
    else:
        counters[STEPS] += 1
        counters[LEARNING_STEPS] += 1 if learning else 0
        bounded = bound_reward(reward, settings.gamma, figures, REWARDS)
    # choose the next action
    for a in range(n_actions):
        values[a] = value_of(a, n_actions, kind, weights.weight, scratch.index, scratch.feature)
    hold, likely, steps = settings.warmup_hold, 1.0, counters[LEARNING_STEPS]
    if counters[STEPS] >= settings.map_steps:
        hold = settings.hold
        epsilon = falling(settings.epsilon_start, settings.epsilon_end, steps, settings.epsilon_steps)
        likely = begin_random(epsilon, hold)
    choose_numbered(env, draws, draws[0] < likely, hold, values, memory)
    memory.command[env, 0] = memory.action[env]
    # Sarsa(lambda), or Watkins' Q(lambda): a stepsize of 1 moves Q(x, a) all the way to its target
    if not first and learning and memory.known[env]:
        target = bounded
        if not terminated:
            best = memory.action[env] if settings.sarsa == 1.0 else index_of_largest(values)
            target += settings.gamma * values[best]
        index, feature = memory.index[env], memory.feature[env]
        error = target - value_of(taken, n_actions, kind, weights.weight, index, feature)
        if not abs(error) < LARGEST_ERROR:
            return DIVERGED
        figures[TD_ERROR] += FIGURE_RATE * (abs(error) - figures[TD_ERROR])
        # traces end with their episode, and those of Watkins at an action that is not greedy
        cut = ended or (settings.sarsa == 0.0 and memory.exploratory[env])
        decay = 0.0 if cut else settings.gamma * settings.trace_decay
        rate, floor = settings.rate, settings.rate_min / settings.rate
        if settings.rate_by_visits == 0.0:
            rate = falling(rate, settings.rate_min, steps, settings.rate_steps)
        move = rate * error / settings.norm
        if kind == FOURIER:
            learn_dense(env, taken, move, decay, weights, memory)
        else:
            learn_sparse(env, taken, n_actions, move, floor, decay, settings, weights, memory)
    memory.known[env] = not ended
    for f in range(scratch.feature.shape[0]):
        memory.feature[env, f] = scratch.feature[f]
    for k in range(scratch.index.shape[0]):
        memory.index[env, k] = scratch.index[k]
    if kind == MAP and not first and counters[STEPS] % settings.map_every == 0:
        move_map(scratch.index[0], settings, counters, encoder, scratch.u)
    return memory.action[env]


@lean_kernel
def evaluate(state, observations, actions, values):
    """Fill `actions` (n,) with the greedy actions, ties to the first, and `values` (n, n_actions).

    Returns False if an observation is not finite.
    """
    scratch, encoder, weight = open_scratch(state), open_encoder(state), open_weights(state).weight
    kind, n_actions = open_numbers(state).settings[0], values.shape[1]
    for t in range(observations.shape[0]):
        if not encode(observations[t], kind, encoder, scratch):
            return False
        best = 0
        for a in range(n_actions):
            values[t, a] = value_of(a, n_actions, kind, weight, scratch.index, scratch.feature)
            if values[t, a] > values[t, best]:
                best = a
        actions[t] = best
    return True

# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Actor-critic(lambda) over soft aggregate states: the learning rule of `TwoTimescaleAC`.

It is a rule as described in `rules.q_lambda`, with the same traces and ledger. The critic and the actor
are both functions of the observation of the form f(z) = sum_i p_i (b_i + w_i z):

- the critic v(z) is the value of the state;
- the actor h(z, a) is the preference for an action, and pi is the softmax of the preferences.

Let delta = r + gamma v(z') - v(z) be the error and phi the features of f: p_i and, for linear cells,
p_i (z - mu_i) / sqrt(T). Let alpha_i be the stepsize of a cell, which falls with its visits. Then

    e_v <- gamma lambda e_v + alpha phi / |phi|^2
    e_h <- gamma lambda e_h + c alpha phi / |phi|^2 d log pi(taken) / d h
    v <- v + delta e_v,     h <- h + delta / m e_h

where d log pi(taken) / d h(a) is 1[a = taken] - pi(a) and c is `actor_rate`. An action of several parts
is drawn part by part: the options of each part have their own preferences, pi is the softmax within a
part, and all parts learn from the same delta.

m is the mean size of the errors, but at least 3 % of the largest recent error. It makes the actor
independent of the scale of the rewards.

delta is limited twice. If it is far beyond all recent errors, it counts only as far as
`bounds.bound_error` allows. It is also reduced such that delta e_v . phi, the change of the value of the
last state, is at most half of delta: the traces of similar states can add up to more than one step.

The preferences of an almost deterministic actor decay a little (`rules.forgetting`).

With continuous actions there are two preferences for each coordinate, the parameters of the distribution
of `oda_rl.agents.beta_policy`. Preferences do not decay, and gamma rises (`rules.traces`); the rest is
unchanged. The part that all rewards have in common carries no information, but its discounted sum would
grow with gamma. So this part of the values always uses the initial gamma.

The traces of the actor are stored divided by m, so that one ledger serves both the actor and the critic.
They are rescaled when m has changed by more than 5 %.

References
----------
Sutton and Barto, "Reinforcement Learning: An Introduction", second edition, Section 13.6.
"""

import math

from oda_rl._jit import inline_kernel, vector_kernel
from oda_rl.agents import bounds
from oda_rl.agents.action_choice import index_of_largest
from oda_rl.agents.codebook_rl import state as names
from oda_rl.agents.codebook_rl.association import (
    average_rows,
    value_of_rows,
    value_temperature,
)
from oda_rl.agents.codebook_rl.rules.forgetting import forget_preferences
from oda_rl.agents.codebook_rl.rules.q_lambda import (
    add_feature,
    add_features,
    find_value,
    record_error,
)
from oda_rl.agents.codebook_rl.rules.traces import (
    MEAN_RATE,
    decay_traces,
    find_discount,
    first_trace,
    mark_alive,
    move_along,
    pay,
    update_explained,
)
from oda_rl.agents.codebook_rl.state import (
    open_branches,
    open_ledger,
    open_memory,
    open_numbers,
    open_scratch,
    open_units,
)

# The value of the last state changes by at most this share of its error.
LARGEST_STEP = 0.5
# The actor's unit m is at least this share of the largest error: if rewards are rare, the mean is tiny.
LEAST_UNIT = 0.03
# The actor's traces are rescaled when m has changed by more than this factor.
UNIT_TOLERANCE = 1.05
# The smallest unit m, for a run without errors so far
NO_ERROR = 1e-12


def fields(sizes):
    """The fields of the payload: preferences, the value, visits and stepsizes, and traces.

    A cell has the same stepsize for all actions; it is stored once for each.
    """
    return {
        "q": (sizes.n_actions * sizes.n_basis, "mean"),
        "v": (sizes.n_basis, "mean"),
        "visits": (sizes.n_actions, "count"),
        "rate": (sizes.n_actions, "mean"),
        "trace": (sizes.n_rows * sizes.n_envs, "count"),
    }


def begin(codebook, sizes, learning_rate, value):
    """Set all preferences to 0, and give all cells the same `value` and the first stepsize."""
    codebook["q"][:] = 0.0
    codebook["v"][:] = 0.0
    codebook["v"][0] = value
    codebook["visits"][:] = 0.0
    codebook["rate"][:] = learning_rate
    codebook["trace"][:] = 0.0


@inline_kernel
def find_probabilities(preferences, probabilities):
    """Fill `probabilities` (n_actions,) with the softmax of the `preferences` (n_actions,)."""
    most = preferences[index_of_largest(preferences)]
    total = 0.0
    for a in range(preferences.shape[0]):
        probabilities[a] = math.exp(preferences[a] - most)
        total += probabilities[a]
    for a in range(preferences.shape[0]):
        probabilities[a] /= total


@vector_kernel
def count_state(visits, rate, taken, share, first, last, settings):
    """Count a visit of the cells from `first` to `last` by their shares, and lower their stepsizes.

    As `q_lambda.lower_all`, but a stepsize falls with the visits of all actions. `visits` and `rate` are
    (n_actions, places).
    """
    power = settings[names.LEARNING_RATE_POWER]
    halving = settings[names.LEARNING_RATE_HALVING]
    least = settings[names.LEARNING_RATE_MIN]
    for i in range(first, last):
        visits[taken, i] += share[i]
        count = 0.0
        for a in range(visits.shape[0]):
            count += visits[a, i]
        lower = max(least, rate[0, i] * (1.0 - share[i] * power / (halving + count)))
        for a in range(visits.shape[0]):
            rate[a, i] = lower


@vector_kernel
def add_preferences(z, location, step, n, factor, per_slope, linear, trace, base):
    """Add `factor` times the features that `add_features` has added, to `trace` from row `base` on."""
    intercepts = trace[base]
    for i in range(n):
        intercepts[i] += factor * step[i]
    if linear:
        for j in range(location.shape[0]):
            zj, mu, slopes = z[j], location[j], trace[base + 1 + j]
            for i in range(n):
                slope = factor * step[i] * (per_slope * (zj - mu[i]))
                slopes[i] += slope
                intercepts[i] -= slope * mu[i]


@inline_kernel
def change_unit(state, unit):
    """Rescale the traces of the actor from the present unit m to `unit`."""
    numbers, branches, ledger = open_numbers(state), open_branches(state), open_ledger(state)
    scratch, figures = open_scratch(state), numbers.figures
    n_actions, n_rows = scratch.values.shape[0], scratch.sums.shape[0]
    factor = figures[names.ACTOR_UNIT] / unit
    for env in range(ledger.owed.shape[0]):
        first = first_trace(env, n_actions, n_rows)
        for i in range(ledger.n_living[env]):
            branch = ledger.living[env, i]
            block, width = branches.payload[branch], numbers.counters[names.WIDTH]
            pay(env, block, branch, width, n_actions, n_rows, ledger)
            for r in range(first, first + n_actions * numbers.counters[names.N_BASIS]):
                for place in range(width):
                    block[r, place] *= factor
    figures[names.ACTOR_UNIT] = unit


@inline_kernel
def trace_branch(state, env, k, size):
    """Add the features of the last state and action to the traces of the k-th branch found for it.

    Returns the change of that state's value that these cells make for an error of 1, without the common
    factor of the traces.
    """
    numbers, branches = open_numbers(state), open_branches(state)
    memory, scratch = open_memory(state), open_scratch(state)
    settings, counters = numbers.settings, numbers.counters
    width, n_basis = counters[names.WIDTH], counters[names.N_BASIS]
    n_actions, n_rows = scratch.values.shape[0], scratch.sums.shape[0]
    only, taken, branch = memory.only[env], memory.action[env], memory.found[env, k]
    own = only - k * width if only >= 0 else -1
    z, location, block = memory.z[env], branches.location[branch], branches.payload[branch]
    if open_units(state).options.shape[0] != 1:
        taken = 0  # rows belong to options, not to actions: the first row counts all visits
    first = first_trace(env, n_actions, n_rows)
    traces, critic = block[first : first + n_rows], n_actions * n_basis
    visits, rate = block[n_rows : n_rows + n_actions], block[n_rows + n_actions : n_rows + 2 * n_actions]
    share = memory.share[env][k * width : (k + 1) * width]
    per_slope, linear = 1.0 / value_temperature(settings), n_basis > 1
    if own >= 0:
        count_state(visits, rate, taken, share, own, own + 1, settings)
        add_feature(z, location, rate[0], own, size, per_slope, linear, traces, critic)
    else:
        count_state(visits, rate, taken, share, 0, width, settings)
        add_features(
            z, location, share, rate[0], width, size, per_slope, linear, traces, critic, scratch.step
        )
    for a in range(n_actions):
        factor = settings[names.ACTOR_RATE] * memory.direction[env, a]
        factor /= numbers.figures[names.ACTOR_UNIT]
        if own >= 0:
            add_feature(z, location, rate[0], own, size * factor, per_slope, linear, traces, a * n_basis)
        else:
            add_preferences(
                z, location, scratch.step, width, factor, per_slope, linear, traces, a * n_basis
            )
    average_rows(share, own, traces, critic, critic + n_basis, width, scratch.parts)
    return value_of_rows(scratch.parts, critic, n_basis, z)


@inline_kernel
def learn(state, env, reward, next_value):
    """One step of actor-critic(lambda); `next_value` is the value of the next state."""
    numbers, branches, ledger = open_numbers(state), open_branches(state), open_ledger(state)
    memory, scratch = open_memory(state), open_scratch(state)
    settings, counters, figures = numbers.settings, numbers.counters, numbers.figures
    width, n_actions, n_rows = counters[names.WIDTH], scratch.values.shape[0], scratch.sums.shape[0]
    first, only = first_trace(env, n_actions, n_rows), memory.only[env]

    gamma = find_discount(state)
    error = reward + gamma * next_value
    value = find_value(state, env, n_actions * counters[names.N_BASIS])
    error -= value
    error -= (gamma - settings[names.GAMMA]) * figures[names.COMMON_VALUE]
    if not abs(error) < bounds.LARGEST_ERROR:
        return False
    error = bounds.bound_error(error, figures[names.LARGEST_ERROR], figures[names.REWARDS + 1])
    record_error(state, env, abs(error))
    decay_traces(state, env)
    update_explained(state, env, value, error)

    unit = abs(error)
    figures[names.LARGEST_ERROR] = max(unit, (1.0 - MEAN_RATE) * figures[names.LARGEST_ERROR])
    if figures[names.MEAN_ERROR_WEIGHT] > 0.0:
        unit = figures[names.MEAN_ERROR] / figures[names.MEAN_ERROR_WEIGHT]
    unit = max(unit, LEAST_UNIT * figures[names.LARGEST_ERROR], NO_ERROR)
    used = figures[names.ACTOR_UNIT]
    if not used / UNIT_TOLERANCE < unit < used * UNIT_TOLERANCE:
        change_unit(state, unit)
    size = 1.0 / (memory.norm[env] * memory.trace_scale[env])
    along = 0.0
    for k in range(memory.n_found[env]):
        if only < 0 or k * width <= only < (k + 1) * width:
            mark_alive(env, memory.found[env, k], ledger)
            along += trace_branch(state, env, k, size)
    along *= memory.trace_scale[env]
    if along > LARGEST_STEP:
        error *= LARGEST_STEP / along
    figures[names.MEAN_ERROR] += MEAN_RATE * (abs(error) - figures[names.MEAN_ERROR])
    figures[names.MEAN_ERROR_WEIGHT] += MEAN_RATE * (1.0 - figures[names.MEAN_ERROR_WEIGHT])

    step = error * memory.trace_scale[env]
    ledger.owed[env] += step
    for k in range(memory.n_found[env]):
        branch = memory.found[env, k]
        if ledger.alive[env, branch]:
            block = branches.payload[branch]
            move_along(block[:n_rows], block[first : first + n_rows], width, step)
            ledger.paid[env, branch] = ledger.owed[env]
    forget_preferences(state, env)
    return True

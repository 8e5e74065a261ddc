# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Watkins' Q(lambda) over soft aggregate states: the learning rule of `TwoTimescaleQ`.

A rule is a module like this one; `step` and the learner use only these names of it:

- `fields(sizes)`: the fields of a cell's payload that belong to the rule, in the order in which its
  kernels expect them, with their sizes and the way they combine when cells split or merge. The rows that
  hold values come first.
- `begin(codebook, sizes, learning_rate, value)`: fill these fields when learning begins.
- `learn(state, env, reward, best_next)`: learn from a transition of environment `env`, at every step of
  the learning phase: from the last observation and action in `Memory`, the reward, and the value of the
  next observation, 0 if that is terminal. Returns False, and learns nothing, if the values have
  diverged.

Values move along the traces of `rules.traces`, which all rules use.
"""

import numpy as np

from oda_rl._jit import inline_kernel, vector_kernel
from oda_rl.agents.bounds import LARGEST_ERROR
from oda_rl.agents.codebook_rl import state as names
from oda_rl.agents.codebook_rl.association import average_rows, value_of_rows, value_temperature
from oda_rl.agents.codebook_rl.rules.traces import (
    catch_up,
    decay_traces,
    find_discount,
    first_trace,
    mark_alive,
    move_along,
)
from oda_rl.agents.codebook_rl.state import (
    open_branches,
    open_ledger,
    open_memory,
    open_numbers,
    open_scratch,
)

# Stepsize of the running figures
FIGURE_RATE = 0.001
# Steps between two records of the errors of cells, if they are monitored
MONITORED_EVERY = 32
# Stepsize of the running means of these errors, per recorded visit
ERROR_RATE = 0.05


# -- the payload -------------------------------------------------------------------------------------


def fields(sizes):
    """The fields of the payload: values, visits and stepsizes of each action, and traces."""
    return {
        "q": (sizes.n_rows, "mean"),
        "visits": (sizes.n_actions, "count"),
        "rate": (sizes.n_actions, "mean"),
        "trace": (sizes.n_rows * sizes.n_envs, "count"),
    }


def begin(codebook, sizes, learning_rate, value):
    """Give all cells the same constant `value`, and the first stepsize.

    With a codebook for each action, a cell gets this value for its own action, and 0 for the others.
    """
    codebook["q"][:] = 0.0
    intercepts = codebook["q"][:: sizes.n_basis]
    intercepts[:] = value
    if sizes.n_labels > 1:
        intercepts *= codebook.labels == np.arange(sizes.n_actions)[:, None]
    codebook["visits"][:] = 0.0
    codebook["rate"][:] = learning_rate
    codebook["trace"][:] = 0.0


# -- visits and stepsizes ----------------------------------------------------------------------------


@inline_kernel
def lower(rate, part, visits, settings):
    """Lower a stepsize for one more visit by a share `part`: a step along (1 + visits / halving)^-power.

    Following the curve by its slope takes a division, a tenth of the time of the power. In addition, a
    cell that splits keeps the stepsize that it has reached.
    """
    slope = settings[names.LEARNING_RATE_POWER] / (settings[names.LEARNING_RATE_HALVING] + visits)
    return max(settings[names.LEARNING_RATE_MIN], rate * (1.0 - part * slope))


@vector_kernel
def lower_all(rate, visits, share, n, settings):
    """Count a visit of the first `n` cells, by their shares, and `lower` their stepsizes."""
    power = settings[names.LEARNING_RATE_POWER]
    halving = settings[names.LEARNING_RATE_HALVING]
    least = settings[names.LEARNING_RATE_MIN]
    for i in range(n):
        count = visits[i] + share[i]
        visits[i] = count
        rate[i] = max(least, rate[i] * (1.0 - share[i] * power / (halving + count)))


@inline_kernel
def count_visit(visits, rate, share, only, width, by_cell, settings, figures):
    """Count a visit of the active cells of a branch; lower their stepsizes, or use the common one."""
    if by_cell and only < 0:
        lower_all(rate, visits, share, width, settings)
    elif by_cell:
        visits[only] += 1.0
        rate[only] = lower(rate[only], 1.0, visits[only], settings)
    else:
        for i in range(width):
            rate[i] = figures[names.COMMON_RATE]
            if only < 0 or i == only:
                visits[i] += share[i]


# -- features ----------------------------------------------------------------------------------------


@vector_kernel
def add_features(z, location, share, rate, n, size, per_slope, linear, trace, base, step):
    """Add the features of the taken action to its traces, each times `size` and the cell's stepsize.

    The features are p_i and, for `linear` cells, p_i (z - mu_i) / T. The latter are slopes of a function
    of z - mu_i, and are converted to those of a function of z, whose intercept is at z = 0. Row `base`
    of `trace` is that intercept; the slopes follow. Fills `step` with size * rate * share.
    """
    intercepts = trace[base]
    for i in range(n):
        part = size * rate[i] * share[i]
        step[i] = part
        intercepts[i] += part
    if linear:
        for j in range(location.shape[0]):
            zj, mu, slopes = z[j], location[j], trace[base + 1 + j]
            for i in range(n):
                slope = step[i] * (per_slope * (zj - mu[i]))
                slopes[i] += slope
                intercepts[i] -= slope * mu[i]


@inline_kernel
def add_feature(z, location, rate, only, size, per_slope, linear, trace, base):
    """`add_features` for a single active cell."""
    part = size * rate[only]
    trace[base, only] += part
    if linear:
        for j in range(location.shape[0]):
            slope = part * per_slope * (z[j] - location[j, only])
            trace[base + 1 + j, only] += slope
            trace[base, only] -= slope * location[j, only]


@vector_kernel
def add_interactions(z, location, n_observed, n, per_slope, trace, step):
    """Add the features (z_j - mu_j) (z_k - mu_k) / T^2 to the traces, after `add_features`.

    j runs over the coordinates of the observation, k over those of the action. The products are expanded
    around z = 0, which also changes the slopes and the intercept. `step` is that of `add_features`.
    """
    row = 1 + location.shape[0]
    for k in range(n_observed, location.shape[0]):
        for j in range(n_observed):
            zj, mu_j, zk, mu_k = z[j], location[j], z[k], location[k]
            slopes_j, slopes_k, products = trace[1 + j], trace[1 + k], trace[row]
            for i in range(n):
                product = step[i] * (per_slope * per_slope) * (zj - mu_j[i]) * (zk - mu_k[i])
                products[i] += product
                slopes_j[i] -= product * mu_k[i]
                slopes_k[i] -= product * mu_j[i]
                trace[0, i] += product * mu_j[i] * mu_k[i]
            row += 1


# -- the rule ----------------------------------------------------------------------------------------


@inline_kernel
def record_error(state, env, size):
    """Update the running mean of the `size` of errors and, if monitored, those of the active cells.

    The second half of the array behind the figures holds the weights of the means, as these begin at 0.
    """
    numbers, branches, memory = open_numbers(state), open_branches(state), open_memory(state)
    figures, counters = numbers.figures, numbers.counters
    figures[names.TD_ERROR] += FIGURE_RATE * (size - figures[names.TD_ERROR])
    if figures.shape[0] == names.N_FIGURES or counters[names.LEARNING_STEPS] % MONITORED_EVERY != 0:
        return
    errors, width, only = figures[names.N_FIGURES :], counters[names.WIDTH], memory.only[env]
    weights = errors.shape[0] // 2
    for k in range(memory.n_found[env]):
        branch = memory.found[env, k]
        for place in range(branches.size[branch]):
            i, p = branches.number[branch, place], k * width + place
            if only < 0 or p == only:
                part = ERROR_RATE * memory.share[env, p]
                errors[i] += part * (size - errors[i])
                errors[weights + i] += part * (1.0 - errors[weights + i])


@inline_kernel
def find_value(state, env, base):
    """The value at the last observation, by the rows from `base` on; applies owed steps first."""
    numbers, branches = open_numbers(state), open_branches(state)
    memory, scratch = open_memory(state), open_scratch(state)
    width, n_basis = numbers.counters[names.WIDTH], numbers.counters[names.N_BASIS]
    z, only = memory.z[env], memory.only[env]
    value = 0.0
    for k in range(memory.n_found[env]):
        branch = memory.found[env, k]
        if scratch.block.shape[0] > 0:
            catch_up(state, branch)
        own = only - k * width if only >= 0 else -1
        if only < 0 or 0 <= own < width:
            share = memory.share[env][k * width : (k + 1) * width]
            average_rows(
                share, own, branches.payload[branch], base, base + n_basis, width, scratch.parts
            )
            value += value_of_rows(scratch.parts, base, n_basis, z)
    return value


@inline_kernel
def learn(state, env, reward, best_next):
    """One step of Watkins' Q(lambda); `best_next` is the value of the next state."""
    numbers, branches, ledger = open_numbers(state), open_branches(state), open_ledger(state)
    memory, scratch = open_memory(state), open_scratch(state)
    settings, counters, figures = numbers.settings, numbers.counters, numbers.figures
    width, n_basis = counters[names.WIDTH], counters[names.N_BASIS]
    n_actions, n_rows = scratch.values.shape[0], scratch.sums.shape[0]
    first = first_trace(env, n_actions, n_rows)
    z, only, taken = memory.z[env], memory.only[env], memory.action[env]

    error = reward + find_discount(state) * best_next
    error -= find_value(state, env, taken * n_basis)
    if not abs(error) < LARGEST_ERROR:
        return False
    record_error(state, env, abs(error))
    decay_traces(state, env)
    by_cell = counters[names.RATE_BY_CELL] == 1
    if not by_cell:
        part = 1.0 / (n_actions * counters[names.N_CELLS])
        visited = counters[names.LEARNING_STEPS] * part
        figures[names.COMMON_RATE] = lower(figures[names.COMMON_RATE], part, visited, settings)

    size = 1.0 / (memory.norm[env] * memory.trace_scale[env])
    step = error * memory.trace_scale[env]
    ledger.owed[env] += step
    per_slope, linear = 1.0 / value_temperature(settings), n_basis > 1
    for k in range(memory.n_found[env]):
        branch = memory.found[env, k]
        block, location = branches.payload[branch], branches.location[branch]
        traces = block[first : first + n_rows]
        own = only - k * width if only >= 0 else -1
        if only < 0 or 0 <= own < width:
            mark_alive(env, branch, ledger)
            share = memory.share[env][k * width : (k + 1) * width]
            visits, rate = block[n_rows + taken], block[n_rows + n_actions + taken]
            count_visit(visits, rate, share, own, width, by_cell, settings, figures)
            base = taken * n_basis
            if own >= 0:
                add_feature(z, location, rate, own, size, per_slope, linear, traces, base)
            else:
                add_features(
                    z, location, share, rate, width, size, per_slope, linear, traces, base, scratch.step
                )
                if z.shape[0] > location.shape[0] and linear:
                    n_observed = location.shape[0] - scratch.best.shape[0]
                    add_interactions(z, location, n_observed, width, per_slope, traces, scratch.step)
        # Visited branches make this step at once; `find_value` has applied all earlier ones.
        if ledger.alive[env, branch]:
            move_along(block[:n_rows], traces, width, step)
            ledger.paid[env, branch] = ledger.owed[env]
    figures[names.KNOWN_STEPS] += 1.0
    return True

# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Watkins' Q(lambda) over soft aggregate states: the learning rule of `TwoTimescaleQ`.

A rule is a module like this one; `step` and the learner know it by these names alone:

- `fields(sizes)`: its part of the payload of a cell, in the order in which its kernels find it, and what
  becomes of each number when cells split or merge. The rows that make values come first.
- `begin(codebook, sizes, learning_rate, value)`: fill that payload when learning begins.
- `learn(state, env, reward, best_next)`: learn from a transition of environment `env`: from what
  `Memory` holds of the last observation and action, the reward, and the value of what was observed
  next, 0 if that is terminal. At every step, once the codebook has grown.
- `catch_up(state, branch)`: bring the values of a branch up to date, before they are used.
- `forget(state, env)`: an episode of the environment begins or ends.
- `read_block(state, k)`: the payload of the k-th branch found as it would be then, for readers.

The traces collect the features of the pairs visited, divided by their sum of squares, so that a stepsize
of 1 would move Q to its target wherever an observation lies between cells; and they collect them times
the stepsize that the cell had when it was visited.

Q <- Q + step * trace would touch every branch with a trace at every step. But outside of the branches
that are visited a trace does not change, but for a common factor. So the steps are added up (`Ledger`),
and made for a branch when it is visited again or its traces are cut. The sum is the same.
"""

import numpy as np

from oda_rl._jit import inline_kernel, lean_kernel, vector_kernel
from oda_rl.agents.codebook_rl.association import average_rows, value_temperature
from oda_rl.agents.codebook_rl.state import (
    AVERAGE_RATE,
    AVERAGE_REWARD,
    COMMON_RATE,
    GAMMA,
    LEARNING_RATE_HALVING,
    LEARNING_RATE_MIN,
    LEARNING_RATE_POWER,
    LEARNING_STEPS,
    N_BASIS,
    N_CELLS,
    N_FIGURES,
    RATE_BY_CELL,
    TD_ERROR,
    TRACE_DECAY,
    WIDTH,
    open_branches,
    open_ledger,
    open_memory,
    open_numbers,
    open_scratch,
)

# Forgetting of the running figures
FIGURE_RATE = 0.001
# Every so many steps the errors of the cells are noted, if they are monitored.
MONITORED_EVERY = 32
# Forgetting of those, by visits that were monitored
ERROR_RATE = 0.05
# Below this a common factor of the traces is multiplied out. With several branches what is owed is a sum
# of steps that shrink with this factor, so the last of them are known to about 16 digits less those of
# this number.
SMALLEST_SCALE, SMALLEST_SCALE_OF_BRANCHES = 1e-60, 1e-5
# A trace below this has faded away.
INVISIBLE = 1e-30


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
    """Give all cells the same `value` everywhere, and the first stepsize.

    In a codebook for each action a cell has a value for its own action, and 0 for the others.
    """
    codebook["q"][:] = 0.0
    intercepts = codebook["q"][:: sizes.n_basis]
    intercepts[:] = value
    if sizes.n_labels > 1:
        intercepts *= codebook.labels == np.arange(sizes.n_actions)[:, None]
    codebook["visits"][:] = 0.0
    codebook["rate"][:] = learning_rate
    codebook["trace"][:] = 0.0


def pay_all(payload, ledger, sizes):
    """Make in `payload` all steps that its branches have missed; the ledger is left as it is."""
    rows = sizes.n_rows
    for env in range(sizes.n_envs):
        first = sizes.trace_rows.start + env * rows
        for branch in ledger.living[env, : ledger.n_living[env]]:
            block, step = payload[branch], ledger.owed[env] - ledger.paid[env, branch]
            move_along(block[:rows], block[first : first + rows], block.shape[1], step)


@inline_kernel
def first_trace(env, n_actions, n_rows):
    """The first of the n_rows rows of the payload with traces of environment `env`."""
    return n_rows + 2 * n_actions + env * n_rows


# -- visits and stepsizes ----------------------------------------------------------------------------


@inline_kernel
def lower(rate, part, visits, settings):
    """The stepsize after one more visit by `part`: a step along (1 + visits / halving)^-power.

    Following the curve by its slope costs a division where the power would cost ten times as much, and a
    cell that splits keeps the stepsize that it has reached.
    """
    slope = settings[LEARNING_RATE_POWER] / (settings[LEARNING_RATE_HALVING] + visits)
    return max(settings[LEARNING_RATE_MIN], rate * (1.0 - part * slope))


@vector_kernel
def lower_all(rate, visits, share, n, settings):
    """Count a visit of the first `n` cells, by their shares, and `lower` their stepsizes."""
    power = settings[LEARNING_RATE_POWER]
    halving = settings[LEARNING_RATE_HALVING]
    least = settings[LEARNING_RATE_MIN]
    for i in range(n):
        count = visits[i] + share[i]
        visits[i] = count
        rate[i] = max(least, rate[i] * (1.0 - share[i] * power / (halving + count)))


@inline_kernel
def count_visit(visits, rate, share, only, width, by_cell, settings, figures):
    """Count a visit of the active cells of a branch; their stepsize falls, or is the common one."""
    if by_cell and only < 0:
        lower_all(rate, visits, share, width, settings)
    elif by_cell:
        visits[only] += 1.0
        rate[only] = lower(rate[only], 1.0, visits[only], settings)
    else:
        for i in range(width):
            rate[i] = figures[COMMON_RATE]
            if only < 0 or i == only:
                visits[i] += share[i]


# -- features ----------------------------------------------------------------------------------------


@vector_kernel
def add_features(z, location, share, rate, n, size, per_slope, linear, trace, base, step):
    """Add `size` times the features of the taken action, each times its stepsize, to its traces.

    They are p_i, and for `linear` cells p_i (z - mu_i) / T: the slopes of a function of z - mu_i, of
    which the intercept at 0 is another one. Row `base` of `trace` is that intercept. Fills `step` with
    size * rate * share.
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
    """`add_features` where one cell alone is active."""
    part = size * rate[only]
    trace[base, only] += part
    if linear:
        for j in range(location.shape[0]):
            slope = part * per_slope * (z[j] - location[j, only])
            trace[base + 1 + j, only] += slope
            trace[base, only] -= slope * location[j, only]


@vector_kernel
def add_interactions(z, location, n_observed, n, per_slope, trace, step):
    """Add the features (z_j - mu_j) (z_k - mu_k) / T^2 of each coordinate j of an observation and k of
    an action, and what they mean at 0 to the others; `step` is that of `add_features`.
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


# -- traces ------------------------------------------------------------------------------------------


@vector_kernel
def move_along(q, trace, n, step):
    """Q <- Q + step * trace, for the first `n` cells of a branch."""
    for r in range(q.shape[0]):
        row = q[r]
        direction = trace[r]
        for i in range(n):
            row[i] += step * direction[i]


@vector_kernel
def fade(traces, n, factor):
    """Multiply the traces by `factor`; what has become invisible is 0, as tiny numbers are slow.

    Returns whether any is left.
    """
    left = False
    for r in range(traces.shape[0]):
        row = traces[r]
        for i in range(n):
            scaled = row[i] * factor
            row[i] = scaled if abs(scaled) > INVISIBLE else 0.0
        for i in range(n):
            left |= row[i] != 0.0
    return left


@inline_kernel
def pay(env, block, branch, width, n_actions, n_rows, ledger):
    """Make the steps along the traces of an environment that the values of a branch have missed."""
    step = ledger.owed[env] - ledger.paid[env, branch]
    if step != 0.0:
        first = first_trace(env, n_actions, n_rows)
        move_along(block[:n_rows], block[first : first + n_rows], width, step)
    ledger.paid[env, branch] = ledger.owed[env]


@lean_kernel
def catch_up(state, branch):
    """Make all steps that the values of a branch have missed."""
    numbers, branches = open_numbers(state), open_branches(state)
    ledger, scratch = open_ledger(state), open_scratch(state)
    n_actions, n_rows, width = scratch.values.shape[0], scratch.sums.shape[0], numbers.counters[WIDTH]
    for env in range(ledger.owed.shape[0]):
        if ledger.alive[env, branch]:
            pay(env, branches.payload[branch], branch, width, n_actions, n_rows, ledger)


@lean_kernel
def fade_all(state, env, factor):
    """Catch up with all branches, and multiply an environment's traces by `factor`; 0 forgets them."""
    numbers, branches = open_numbers(state), open_branches(state)
    ledger, scratch = open_ledger(state), open_scratch(state)
    n_actions, n_rows, width = scratch.values.shape[0], scratch.sums.shape[0], numbers.counters[WIDTH]
    first = first_trace(env, n_actions, n_rows)
    n = 0
    for i in range(ledger.n_living[env]):
        branch = ledger.living[env, i]
        block = branches.payload[branch]
        pay(env, block, branch, width, n_actions, n_rows, ledger)
        ledger.paid[env, branch] = 0.0
        ledger.alive[env, branch] = fade(block[first : first + n_rows], width, factor)
        if ledger.alive[env, branch]:
            ledger.living[env, n] = branch
            n += 1
    ledger.n_living[env] = n
    ledger.owed[env] = 0.0
    open_memory(state).trace_scale[env] = 1.0


@inline_kernel
def forget(state, env):
    """An episode of environment `env` begins or ends: what happened has no part in what comes."""
    fade_all(state, env, 0.0)


@inline_kernel
def let_decay(state, env):
    """Let the traces decay by gamma lambda; after an exploratory action they are cut (Watkins).

    The decay is kept as a common factor: multiplying thousands of numbers by it at every step would cost
    more than all the rest.
    """
    settings, memory = open_numbers(state).settings, open_memory(state)
    decay = settings[GAMMA] * settings[TRACE_DECAY]
    if memory.exploratory[env] or decay == 0.0:
        forget(state, env)
    else:
        memory.trace_scale[env] *= decay
        one = open_branches(state).size.shape[0] == 1
        if memory.trace_scale[env] < (SMALLEST_SCALE if one else SMALLEST_SCALE_OF_BRANCHES):
            fade_all(state, env, memory.trace_scale[env])


@inline_kernel
def read_block(state, k):
    """The payload of the k-th branch found, its values as if no step were missing; changes nothing.

    For a reader who must not change what is learned, not even by rounding.
    """
    numbers, branches = open_numbers(state), open_branches(state)
    ledger, scratch = open_ledger(state), open_scratch(state)
    n_actions, n_rows, width = scratch.values.shape[0], scratch.sums.shape[0], numbers.counters[WIDTH]
    branch = scratch.found[k]
    block = branches.payload[branch]
    # Without a tree none is ever missing, but for a moment of which another thread may read.
    for env in range(ledger.owed.shape[0] if scratch.block.shape[0] > 0 else 0):
        step = ledger.owed[env] - ledger.paid[env, branch]
        if ledger.alive[env, branch] and step != 0.0:
            own, first = scratch.block[k], first_trace(env, n_actions, n_rows)
            for r in range(n_rows):
                for i in range(width):
                    own[r, i] = block[r, i] + step * branches.payload[branch, first + r, i]
            block = own
    return block


# -- the rule ----------------------------------------------------------------------------------------


@inline_kernel
def note_errors(state, env, size):
    """Let the running means of the active cells follow the `size` of an error.

    The second half of them holds the weights of all that was averaged, as the means begin at 0.
    """
    numbers, branches, memory = open_numbers(state), open_branches(state), open_memory(state)
    errors, width, only = numbers.figures[N_FIGURES:], numbers.counters[WIDTH], memory.only[env]
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
    """The value, in the rows from `base` on, at the last observation; its branches then miss no step."""
    numbers, branches = open_numbers(state), open_branches(state)
    memory, scratch = open_memory(state), open_scratch(state)
    width, n_basis = numbers.counters[WIDTH], numbers.counters[N_BASIS]
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
            part = scratch.parts[base]
            for j in range(n_basis - 1):
                part += scratch.parts[base + 1 + j] * z[j]
            value += part
    return value


@inline_kernel
def enliven(env, branch, ledger):
    """Note that a branch has traces of environment `env` from now on."""
    if not ledger.alive[env, branch]:
        ledger.alive[env, branch] = True
        ledger.living[env, ledger.n_living[env]] = branch
        ledger.n_living[env] += 1
        ledger.paid[env, branch] = ledger.owed[env]


@inline_kernel
def learn(state, env, reward, best_next):
    """One step of Watkins' Q(lambda); `best_next` is the value of the state that came next."""
    numbers, branches, ledger = open_numbers(state), open_branches(state), open_ledger(state)
    memory, scratch = open_memory(state), open_scratch(state)
    settings, counters, figures = numbers.settings, numbers.counters, numbers.figures
    width, n_basis = counters[WIDTH], counters[N_BASIS]
    n_actions, n_rows = scratch.values.shape[0], scratch.sums.shape[0]
    first = first_trace(env, n_actions, n_rows)
    z, only, taken = memory.z[env], memory.only[env], memory.action[env]

    error = reward - figures[AVERAGE_REWARD] + settings[GAMMA] * best_next
    error -= find_value(state, env, taken * n_basis)
    figures[TD_ERROR] += FIGURE_RATE * (abs(error) - figures[TD_ERROR])
    if figures.shape[0] > N_FIGURES and counters[LEARNING_STEPS] % MONITORED_EVERY == 0:
        note_errors(state, env, abs(error))
    let_decay(state, env)
    by_cell = counters[RATE_BY_CELL] == 1
    if not by_cell:
        part = 1.0 / (n_actions * counters[N_CELLS])
        visited = counters[LEARNING_STEPS] * part
        figures[COMMON_RATE] = lower(figures[COMMON_RATE], part, visited, settings)

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
            enliven(env, branch, ledger)
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
        # What was visited makes its step at once: no other is missing there.
        if ledger.alive[env, branch]:
            move_along(block[:n_rows], traces, width, step)
            ledger.paid[env, branch] = ledger.owed[env]
    if settings[AVERAGE_RATE] > 0.0 and not memory.exploratory[env]:
        figures[AVERAGE_REWARD] += settings[AVERAGE_RATE] * error

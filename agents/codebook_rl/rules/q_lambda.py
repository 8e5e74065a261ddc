# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""The fast timescale: one step of Q(lambda) over soft aggregate states."""

from oda_rl._jit import inline_kernel, lean_kernel, vector_kernel
from oda_rl.agents.codebook_rl.association import expected_value
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
    SOFTNESS,
    TD_ERROR,
    TEMPERATURE,
    TRACE_DECAY,
)

# Forgetting of the running figures
FIGURE_RATE = 0.001
# Every so many steps the errors of the cells are noted, if anybody watches them.
WATCHED_EVERY = 32
# Forgetting of those, by visits that were watched
ERROR_RATE = 0.05
# Below this a common factor of the traces is multiplied out.
SMALLEST_SCALE = 1e-60
# A trace below this has faded away.
INVISIBLE = 1e-30


@vector_kernel
def lower(rate, part, visits, settings):
    """The stepsize after one more visit by `part`: a step along (1 + visits / halving)^-power.

    Following the curve by its slope costs a division where the power would cost ten times as much, and a
    cell that splits keeps the stepsize that it has reached.
    """
    slope = settings[LEARNING_RATE_POWER] / (settings[LEARNING_RATE_HALVING] + visits)
    return max(settings[LEARNING_RATE_MIN], rate * (1.0 - part * slope))


@vector_kernel
def lower_all(rate, visits, share, n_cells, settings):
    """Count a visit of all cells, by their shares, and `lower` their stepsizes."""
    power = settings[LEARNING_RATE_POWER]
    halving = settings[LEARNING_RATE_HALVING]
    least = settings[LEARNING_RATE_MIN]
    for i in range(n_cells):
        count = visits[i] + share[i]
        visits[i] = count
        rate[i] = max(least, rate[i] * (1.0 - share[i] * power / (halving + count)))


@vector_kernel
def add_intercepts(share, rate, n_cells, size, intercepts, step):
    """Add size * rate * share to the intercepts, and remember it in `step`."""
    for i in range(n_cells):
        part = size * rate[i] * share[i]
        step[i] = part
        intercepts[i] += part


@vector_kernel
def add_slopes(zj, mu, step, n_cells, per_slope, intercepts, slopes):
    """Add the features (z_j - mu_j) / T to the slopes, and what that means at 0 to the intercepts."""
    for i in range(n_cells):
        slope = step[i] * (per_slope * (zj - mu[i]))
        slopes[i] += slope
        intercepts[i] -= slope * mu[i]


@lean_kernel
def add_features(z, location, share, rate, only, n_cells, size, per_slope, n_basis, trace, base, step):
    """Add `size` times the features of the taken action, each times its stepsize, to its traces.

    They are p_i, and for linear cells p_i (z - mu_i) / T: the slopes of a function of z - mu_i, of which
    the intercept at 0 is another one.
    """
    if only < 0:
        add_intercepts(share, rate, n_cells, size, trace[base], step)
        if n_basis > 1:
            for j in range(location.shape[0]):
                add_slopes(z[j], location[j], step, n_cells, per_slope, trace[base], trace[base + 1 + j])
        return
    part = size * rate[only]
    trace[base, only] += part
    for j in range(n_basis - 1):
        slope = part * per_slope * (z[j] - location[j, only])
        trace[base + 1 + j, only] += slope
        trace[base, only] -= slope * location[j, only]


@vector_kernel
def add_products(
    zj, mu_j, zk, mu_k, step, n_cells, per_product, intercepts, slopes_j, slopes_k, products
):
    """Add the feature (z_j - mu_j) (z_k - mu_k) / T^2, and what that means at 0 to the others."""
    for i in range(n_cells):
        product = step[i] * per_product * (zj - mu_j[i]) * (zk - mu_k[i])
        products[i] += product
        slopes_j[i] -= product * mu_k[i]
        slopes_k[i] -= product * mu_j[i]
        intercepts[i] += product * mu_j[i] * mu_k[i]


@lean_kernel
def add_interactions(z, location, n_observed, n_cells, per_slope, trace, step):
    """Add the features of the products of an observation's and an action's coordinates."""
    n_features = location.shape[0]
    row = 1 + n_features
    for k in range(n_observed, n_features):
        for j in range(n_observed):
            add_products(
                z[j],
                location[j],
                z[k],
                location[k],
                step,
                n_cells,
                per_slope * per_slope,
                trace[0],
                trace[1 + j],
                trace[1 + k],
                trace[row],
            )
            row += 1


@vector_kernel
def scale_rows(rows, n_cells, factor):
    """Multiply all traces by `factor`; what has become invisible is 0, as tiny numbers are slow."""
    for r in range(rows.shape[0]):
        row = rows[r]
        for i in range(n_cells):
            scaled = row[i] * factor
            row[i] = scaled if abs(scaled) > INVISIBLE else 0.0


@vector_kernel
def move_along(q, trace, n_cells, step):
    """Q <- Q + step * trace."""
    for r in range(q.shape[0]):
        row = q[r]
        direction = trace[r]
        for i in range(n_cells):
            row[i] += step * direction[i]


@lean_kernel
def trace_rows(env, n_actions, n_basis):
    """The first row of the payload with traces of environment `env`, and the one after the last."""
    rows = n_actions * n_basis
    first = rows + 2 * n_actions + env * rows
    return first, first + rows


@inline_kernel
def fade(env, traces, n_cells, settings, memory):
    """Let the traces decay; after an exploratory action they are cut (Watkins).

    The decay is kept as a common factor: multiplying thousands of numbers by it at every step would cost
    more than all the rest.
    """
    decay = settings[GAMMA] * settings[TRACE_DECAY]
    if memory.exploratory[env] or decay == 0.0:
        scale_rows(traces, n_cells, 0.0)
        memory.trace_scale[env] = 1.0
        return
    memory.trace_scale[env] *= decay
    if memory.trace_scale[env] < SMALLEST_SCALE:
        scale_rows(traces, n_cells, memory.trace_scale[env])
        memory.trace_scale[env] = 1.0


@inline_kernel
def count_visit(taken, share, only, settings, counters, figures, visits, rate):
    """Count a visit of the cells that speak, and lower the stepsize: their own, or the common one."""
    n_cells = counters[N_CELLS]
    if counters[RATE_BY_CELL] == 1 and only < 0:
        lower_all(rate[taken], visits[taken], share, n_cells, settings)
        return
    if counters[RATE_BY_CELL] == 1:
        visits[taken, only] += 1.0
        rate[taken, only] = lower(rate[taken, only], 1.0, visits[taken, only], settings)
        return
    part = 1.0 / (visits.shape[0] * n_cells)
    common = lower(figures[COMMON_RATE], part, counters[LEARNING_STEPS] * part, settings)
    figures[COMMON_RATE] = common
    for i in range(n_cells):
        rate[taken, i] = common
        if only < 0 or i == only:
            visits[taken, i] += share[i]


@lean_kernel
def note_error(size, share, only, n_cells, errors):
    """Let the running means of the cells that speak follow the `size` of an error.

    The second half of `errors` holds the weights of all that was averaged, as the means begin at 0.
    """
    weights = errors.shape[0] // 2
    for i in range(n_cells):
        if only < 0 or i == only:
            part = ERROR_RATE * share[i]
            errors[i] += part * (size - errors[i])
            errors[weights + i] += part * (1.0 - errors[weights + i])


@inline_kernel
def learn_values(env, reward, best_next, n_observed, settings, counters, figures, book, memory, scratch):
    """One step of Watkins' Q(lambda) over soft aggregate states; `best_next` is the next state's value.

    The traces collect the features of the pairs visited, divided by their sum of squares, so that a
    stepsize of 1 would move Q to its target wherever z lies between cells; and they collect them times
    the stepsize that the cell had when it was visited.
    """
    n_cells, n_basis = counters[N_CELLS], counters[N_BASIS]
    n_actions = scratch.values.shape[0]
    rows = n_actions * n_basis
    q = book.payload[:rows]
    visits = book.payload[rows : rows + n_actions]
    rate = book.payload[rows + n_actions : rows + 2 * n_actions]
    begin, end = trace_rows(env, n_actions, n_basis)
    traces = book.payload[begin:end]
    z, share = memory.z[env], memory.share[env]
    only = memory.only[env]
    taken = memory.action[env]
    base = taken * n_basis

    target = reward - figures[AVERAGE_REWARD] + settings[GAMMA] * best_next
    error = target - expected_value(z, share, only, n_cells, q, base, n_basis, scratch.sums)
    figures[TD_ERROR] += FIGURE_RATE * (abs(error) - figures[TD_ERROR])
    if figures.shape[0] > N_FIGURES and counters[LEARNING_STEPS] % WATCHED_EVERY == 0:
        note_error(abs(error), share, only, n_cells, figures[N_FIGURES:])
    fade(env, traces, n_cells, settings, memory)
    count_visit(taken, share, only, settings, counters, figures, visits, rate)
    size = 1.0 / (memory.norm[env] * memory.trace_scale[env])
    per_slope = 1.0 / value_temperature(settings)
    add_features(
        z,
        book.location,
        share,
        rate[taken],
        only,
        n_cells,
        size,
        per_slope,
        n_basis,
        traces,
        base,
        scratch.spare,
    )
    if z.shape[0] > book.location.shape[0] and n_basis > 1:
        add_interactions(z, book.location, n_observed, n_cells, per_slope, traces, scratch.spare)
    move_along(q, traces, n_cells, error * memory.trace_scale[env])
    if settings[AVERAGE_RATE] > 0.0 and not memory.exploratory[env]:
        figures[AVERAGE_REWARD] += settings[AVERAGE_RATE] * error


@inline_kernel
def value_temperature(settings):
    """The temperature at which cells overlap for Q; with the nearest cell alone, the annealing's own."""
    softness = settings[SOFTNESS]
    return settings[TEMPERATURE] * (softness if softness > 0.0 else 1.0)

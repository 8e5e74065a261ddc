# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""The fast timescale on a tree: the same Q(lambda), which touches a few branches only.

Q <- Q + step * trace would touch every cell with a trace at every step. But a trace outside of the
branches that are visited does not change, but for a common factor. So the steps are added up (`owed`),
and made for a branch when it is visited again or its traces are cut. The sum is the same.
"""

from oda_rl._jit import inline_kernel, lean_kernel
from oda_rl.agents.codebook_rl.association import average_rows, expected_value
from oda_rl.agents.codebook_rl.rules.q_lambda import (
    ERROR_RATE,
    FIGURE_RATE,
    WATCHED_EVERY,
    add_features,
    add_interactions,
    lower,
    lower_all,
    move_along,
    scale_rows,
    trace_rows,
    value_temperature,
)
from oda_rl.agents.codebook_rl.state import (
    AVERAGE_RATE,
    AVERAGE_REWARD,
    COMMON_RATE,
    GAMMA,
    LEARNING_STEPS,
    N_BASIS,
    N_CELLS,
    N_FIGURES,
    RATE_BY_CELL,
    TD_ERROR,
    TRACE_DECAY,
)
from oda_rl.agents.codebook_rl.tree.layout import WIDTH

# Below this a common factor of the traces is multiplied out. What is owed is a sum of steps that shrink
# with this factor, so the last of them are known to about 16 digits less those of this number.
SMALLEST_SCALE = 1e-5


@lean_kernel
def settle(env, branch, n_rows, first, payload, owed, paid):
    """Make the steps along the traces of environment `env` that the values of a branch have missed."""
    step = owed[env] - paid[env, branch]
    if step != 0.0:
        block = payload[branch]
        move_along(block[:n_rows], block[first : first + n_rows], WIDTH, step)
    paid[env, branch] = owed[env]


@lean_kernel
def settle_branch(branch, n_rows, n_actions, n_basis, payload, owed, paid, alive):
    """The same for all environments with traces there."""
    for env in range(owed.shape[0]):
        if alive[env, branch]:
            first, _ = trace_rows(env, n_actions, n_basis)
            settle(env, branch, n_rows, first, payload, owed, paid)


@lean_kernel
def settle_all(payload, n_actions, n_basis, owed, paid, living, n_living):
    """Make all steps that are missing in `payload`; the books are not changed."""
    n_rows = n_actions * n_basis
    for env in range(owed.shape[0]):
        first, _ = trace_rows(env, n_actions, n_basis)
        for i in range(n_living[env]):
            branch = living[env, i]
            step = owed[env] - paid[env, branch]
            if step != 0.0:
                block = payload[branch]
                move_along(block[:n_rows], block[first : first + n_rows], WIDTH, step)


@lean_kernel
def fades(rows):
    """Whether all traces of a branch have become invisible."""
    for r in range(rows.shape[0]):
        for i in range(WIDTH):
            if rows[r, i] != 0.0:
                return False
    return True


@lean_kernel
def clear_books(env, factor, n_actions, n_basis, blocks, ledger):
    """Settle with all branches, and multiply the traces by `factor`; 0 forgets them."""
    n_rows = n_actions * n_basis
    first, after = trace_rows(env, n_actions, n_basis)
    n = 0
    for i in range(ledger.n_living[env]):
        branch = ledger.living[env, i]
        settle(env, branch, n_rows, first, blocks.payload, ledger.owed, ledger.paid)
        traces = blocks.payload[branch][first:after]
        scale_rows(traces, WIDTH, factor)
        ledger.paid[env, branch] = 0.0
        if factor == 0.0 or fades(traces):
            ledger.alive[env, branch] = False
        else:
            ledger.living[env, n] = branch
            n += 1
    ledger.n_living[env] = n
    ledger.owed[env] = 0.0


@inline_kernel
def enliven(env, branch, ledger):
    """Note that a branch has traces of environment `env` from now on."""
    if not ledger.alive[env, branch]:
        ledger.alive[env, branch] = True
        ledger.living[env, ledger.n_living[env]] = branch
        ledger.n_living[env] += 1
        ledger.paid[env, branch] = ledger.owed[env]


@inline_kernel
def add_up(n_found, branches, share, only, n_actions, n_basis, blocks, ledger, near, partial):
    """Fill `near.sums` with what these branches say together, missed steps included.

    `share` has `WIDTH` entries for each of the branches; `only` counts in the same way.
    """
    n_rows = n_actions * n_basis
    sums = near.sums
    for r in range(n_rows):
        sums[r] = 0.0
    for k in range(n_found):
        alone = only - k * WIDTH if only >= 0 else -1
        if only >= 0 and (alone < 0 or alone >= WIDTH):
            continue
        branch = branches[k]
        part = share[k * WIDTH : (k + 1) * WIDTH]
        block = blocks.payload[branch]
        average_rows(part, alone, block, 0, n_rows, WIDTH, partial)
        for r in range(n_rows):
            sums[r] += partial[r]
        for env in range(ledger.owed.shape[0]):
            missed = ledger.owed[env] - ledger.paid[env, branch]
            if ledger.alive[env, branch] and missed != 0.0:
                first, after = trace_rows(env, n_actions, n_basis)
                average_rows(part, alone, block[first:after], 0, n_rows, WIDTH, partial)
                for r in range(n_rows):
                    sums[r] += missed * partial[r]


@inline_kernel
def fade(env, n_actions, n_basis, settings, blocks, ledger, memory):
    """Let the traces decay; after an exploratory action they are cut (Watkins)."""
    decay = settings[GAMMA] * settings[TRACE_DECAY]
    if memory.exploratory[env] or decay == 0.0:
        clear_books(env, 0.0, n_actions, n_basis, blocks, ledger)
        memory.trace_scale[env] = 1.0
        return
    memory.trace_scale[env] *= decay
    if memory.trace_scale[env] < SMALLEST_SCALE:
        clear_books(env, memory.trace_scale[env], n_actions, n_basis, blocks, ledger)
        memory.trace_scale[env] = 1.0


@inline_kernel
def lower_rates(taken, share, only, n_actions, n_rows, block, settings):
    """Count a visit of the cells of a branch that speak, and lower their stepsizes."""
    visits, rate = block[n_rows + taken], block[n_rows + n_actions + taken]
    if only < 0:
        lower_all(rate, visits, share, WIDTH, settings)
    else:
        visits[only] += 1.0
        rate[only] = lower(rate[only], 1.0, visits[only], settings)


@inline_kernel
def share_rate(taken, share, only, common, n_actions, n_rows, block):
    """Count a visit of the cells of a branch that speak, and give them the common stepsize."""
    visits, rate = block[n_rows + taken], block[n_rows + n_actions + taken]
    for i in range(WIDTH):
        rate[i] = common
        if only < 0 or i == only:
            visits[i] += share[i]


@lean_kernel
def note_errors(size, branches, n_branches, share, only, n_in_branch, errors):
    """`rules.q_lambda.note_error` for the cells of these branches, counted as in the codebook."""
    weights = errors.shape[0] // 2
    for k in range(n_branches):
        first = 0
        for branch in range(branches[k]):
            first += n_in_branch[branch]
        for i in range(n_in_branch[branches[k]]):
            p = k * WIDTH + i
            if only < 0 or p == only:
                part = ERROR_RATE * share[p]
                errors[first + i] += part * (size - errors[first + i])
                errors[weights + first + i] += part * (1.0 - errors[weights + first + i])


@inline_kernel
def learn_values(
    env,
    reward,
    best_next,
    n_observed,
    settings,
    counters,
    figures,
    blocks,
    ledger,
    near,
    memory,
    scratch,
):
    """One step of Watkins' Q(lambda), as `rules.q_lambda.learn_values`, on the branches kept."""
    n_basis, n_actions = counters[N_BASIS], scratch.values.shape[0]
    n_rows = n_actions * n_basis
    first, after = trace_rows(env, n_actions, n_basis)
    z, only, taken = memory.z[env], memory.only[env], memory.action[env]
    base = taken * n_basis
    n_kept = near.n_kept[env]

    value = 0.0
    for k in range(n_kept):
        branch = near.kept[env, k]
        settle_branch(
            branch, n_rows, n_actions, n_basis, blocks.payload, ledger.owed, ledger.paid, ledger.alive
        )
        alone = only - k * WIDTH if only >= 0 else -1
        if only < 0 or 0 <= alone < WIDTH:
            share = memory.share[env][k * WIDTH : (k + 1) * WIDTH]
            value += expected_value(
                z, share, alone, WIDTH, blocks.payload[branch], base, n_basis, scratch.sums
            )
    error = reward - figures[AVERAGE_REWARD] + settings[GAMMA] * best_next - value
    figures[TD_ERROR] += FIGURE_RATE * (abs(error) - figures[TD_ERROR])
    if figures.shape[0] > N_FIGURES and counters[LEARNING_STEPS] % WATCHED_EVERY == 0:
        errors = figures[N_FIGURES:]
        share = memory.share[env]
        note_errors(abs(error), near.kept[env], n_kept, share, only, blocks.size, errors)
    fade(env, n_actions, n_basis, settings, blocks, ledger, memory)

    by_cell = counters[RATE_BY_CELL] == 1
    if not by_cell:
        part = 1.0 / (n_actions * counters[N_CELLS])
        figures[COMMON_RATE] = lower(
            figures[COMMON_RATE], part, counters[LEARNING_STEPS] * part, settings
        )
    size = 1.0 / (memory.norm[env] * memory.trace_scale[env])
    per_slope = 1.0 / value_temperature(settings)
    for k in range(n_kept):
        alone = only - k * WIDTH if only >= 0 else -1
        if only >= 0 and (alone < 0 or alone >= WIDTH):
            continue
        branch = near.kept[env, k]
        block, location = blocks.payload[branch], blocks.location[branch]
        share = memory.share[env][k * WIDTH : (k + 1) * WIDTH]
        if by_cell:
            lower_rates(taken, share, alone, n_actions, n_rows, block, settings)
        else:
            share_rate(taken, share, alone, figures[COMMON_RATE], n_actions, n_rows, block)
        enliven(env, branch, ledger)
        traces, rate = block[first:after], block[n_rows + n_actions + taken]
        add_features(
            z,
            location,
            share,
            rate,
            alone,
            WIDTH,
            size,
            per_slope,
            n_basis,
            traces,
            base,
            scratch.spare,
        )
        if z.shape[0] > location.shape[0] and n_basis > 1:
            add_interactions(z, location, n_observed, WIDTH, per_slope, traces, scratch.spare)
    ledger.owed[env] += error * memory.trace_scale[env]
    if settings[AVERAGE_RATE] > 0.0 and not memory.exploratory[env]:
        figures[AVERAGE_REWARD] += settings[AVERAGE_RATE] * error

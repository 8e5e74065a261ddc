# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""The eligibility traces of a learning rule, and the values that move along them.

The traces collect the features of the pairs visited, divided by their sum of squares, so that a stepsize
of 1 would move Q to its target wherever an observation lies between cells; and they collect them times
the stepsize that the cell had when it was visited.

Q <- Q + step * trace would touch every branch with a trace at every step. But outside of the branches
that are visited a trace does not change, but for a common factor. So the steps are added up (`Ledger`),
and made for a branch when it is visited again or its traces are cut. The sum is the same.
"""

from oda_rl._jit import inline_kernel, lean_kernel, pasted_kernel, vector_kernel
from oda_rl.agents.codebook_rl.rules.horizon import find_discount
from oda_rl.agents.codebook_rl.state import (
    TRACE_DECAY,
    WIDTH,
    open_branches,
    open_ledger,
    open_memory,
    open_numbers,
    open_scratch,
)

# Below this a common factor of the traces is multiplied out. With several branches what is owed is a sum
# of steps that shrink with this factor, so the last of them are known to about 16 digits less those of
# this number.
SMALLEST_SCALE, SMALLEST_SCALE_OF_BRANCHES = 1e-60, 1e-5
# A trace below this has faded away.
INVISIBLE = 1e-30


@inline_kernel
def first_trace(env, n_actions, n_rows):
    """The first of the n_rows rows of the payload with traces of environment `env`."""
    return n_rows + 2 * n_actions + env * n_rows


@inline_kernel
def enliven(env, branch, ledger):
    """Note that a branch has traces of environment `env` from now on."""
    if not ledger.alive[env, branch]:
        ledger.alive[env, branch] = True
        ledger.living[env, ledger.n_living[env]] = branch
        ledger.n_living[env] += 1
        ledger.paid[env, branch] = ledger.owed[env]


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


@inline_kernel
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
    open_memory(state).reach[env] = 0.0


@inline_kernel
def let_decay(state, env):
    """Let the traces decay by gamma lambda; after an exploratory action they are cut (Watkins).

    The decay is kept as a common factor: multiplying thousands of numbers by it at every step would cost
    more than all the rest.
    """
    settings, memory = open_numbers(state).settings, open_memory(state)
    decay = find_discount(state) * settings[TRACE_DECAY]
    if memory.exploratory[env] or decay == 0.0:
        forget(state, env)
    else:
        memory.trace_scale[env] *= decay
        one = open_branches(state).size.shape[0] == 1
        if memory.trace_scale[env] < (SMALLEST_SCALE if one else SMALLEST_SCALE_OF_BRANCHES):
            fade_all(state, env, memory.trace_scale[env])


@pasted_kernel
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


def pay_all(payload, ledger, sizes):
    """Make in `payload` all steps that its branches have missed; the ledger is left as it is."""
    rows = sizes.n_rows
    for env in range(sizes.n_envs):
        first = sizes.trace_rows.start + env * rows
        for branch in ledger.living[env, : ledger.n_living[env]]:
            block, step = payload[branch], ledger.owed[env] - ledger.paid[env, branch]
            move_along(block[:rows], block[first : first + rows], block.shape[1], step)

# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""What all learning rules share: eligibility traces, updates of values along them, and the discount.

The traces accumulate the features of the visited pairs, divided by their sum of squares, so that a
stepsize of 1 would move Q to its target wherever an observation lies between cells. They are multiplied
by the stepsize that the cell has at the visit.

Q <- Q + step * trace would touch every branch with a trace at every step. But in branches that are not
visited, traces change only by a common factor. So the steps are added up (`Ledger`), and applied to a
branch when it is visited again or its traces are cut. The result is the same.

Discount
--------
Returns are reported without discounting, but values that are hardly discounted are difficult to learn,
because rewards far ahead have many causes. So an agent begins with the `gamma` of its configuration.
After tau steps in which returns were well explained, its discount factor is gamma_t:

    1 - gamma_t = max((1 - gamma) / (1 + tau / T), 1 / 1000),     T = `gamma_halving`

The part of the returns that a critic v explains is the variance of its values. If v is right, its errors
delta are uncorrelated with the past, and a return differs from v by the discounted sum of the later
errors, which has the variance sum_k gamma^2k delta_k^2. The error at step i of an episode enters this
sum for all steps up to i. So the mean of the sum over an episode is the mean of c_i delta_i^2 with
c_i = 1 + gamma^2 + ... + gamma^2i. With running means E,

    rho = Var v / (Var v + E[c delta^2]),     tau <- tau + max(0, rho - .9) / .1

If rho stays below .9, as on landers and walkers, the discount does not rise. For a rule without a critic
of states tau counts every step.

If rewards are dense, actions soon show in the next few of them. An actor of discrete actions then begins
with gamma_t = .96, if that is smaller, and the difference falls as exp(-t / 30,000) in t learning steps.
"""

import math

from oda_rl._jit import inline_kernel, lean_kernel, pasted_kernel, vector_kernel
from oda_rl.agents.bounds import LONGEST
from oda_rl.agents.codebook_rl import state as names
from oda_rl.agents.codebook_rl.state import (
    open_branches,
    open_ledger,
    open_memory,
    open_numbers,
    open_scratch,
)

# If the common factor of the traces falls below this, it is multiplied out. With several branches, what
# is owed is a sum of steps that shrink with this factor: a factor of 1e-5 costs the last of them 5 of
# their 16 digits.
SMALLEST_SCALE, SMALLEST_SCALE_OF_BRANCHES = 1e-60, 1e-5
# Traces smaller than this are set to 0.
INVISIBLE = 1e-30
# Stepsize of the running means of a critic's values and errors
MEAN_RATE = 1e-4
# The means are used once their weight exceeds this, after some 7,000 steps.
LEAST_WEIGHT = 0.5
# Returns are well explained above this share of their variance.
EXPLAINED = 0.9
# The discount factor at first if rewards are dense; the figure DENSE has the steps in which its
# difference from the usual one falls to 1 / e
SHORT_DISCOUNT = 0.96


@inline_kernel
def first_trace(env, n_actions, n_rows):
    """The first of the n_rows rows of the payload with traces of environment `env`."""
    return n_rows + 2 * n_actions + env * n_rows


@inline_kernel
def mark_alive(env, branch, ledger):
    """Record that a branch has traces of environment `env` from now on."""
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
    """Multiply the traces by `factor`, and set tiny ones to 0, because tiny numbers are slow.

    Returns whether any trace is left.
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
    """Apply to the values of a branch the owed steps along the traces of an environment."""
    step = ledger.owed[env] - ledger.paid[env, branch]
    if step != 0.0:
        first = first_trace(env, n_actions, n_rows)
        move_along(block[:n_rows], block[first : first + n_rows], width, step)
    ledger.paid[env, branch] = ledger.owed[env]


@inline_kernel
def catch_up(state, branch):
    """Apply all owed steps to the values of a branch."""
    numbers, branches = open_numbers(state), open_branches(state)
    ledger, scratch = open_ledger(state), open_scratch(state)
    n_actions, n_rows = scratch.values.shape[0], scratch.sums.shape[0]
    width = numbers.counters[names.WIDTH]
    for env in range(ledger.owed.shape[0]):
        if ledger.alive[env, branch]:
            pay(env, branches.payload[branch], branch, width, n_actions, n_rows, ledger)


@lean_kernel
def fade_all(state, env, factor):
    """Apply all owed steps of an environment, and multiply its traces by `factor`; 0 clears them."""
    numbers, branches = open_numbers(state), open_branches(state)
    ledger, scratch = open_ledger(state), open_scratch(state)
    n_actions, n_rows = scratch.values.shape[0], scratch.sums.shape[0]
    width = numbers.counters[names.WIDTH]
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
def clear_traces(state, env):
    """Clear traces and `reach` of environment `env`: an episode begins or ends."""
    fade_all(state, env, 0.0)
    open_memory(state).reach[env] = 0.0


@inline_kernel
def decay_traces(state, env):
    """Let the traces decay by gamma lambda; after an exploratory action they are cut (Watkins).

    The decay is kept as a common factor: multiplying thousands of numbers by it at every step would take
    longer than the rest of the step.
    """
    settings, memory = open_numbers(state).settings, open_memory(state)
    decay = find_discount(state) * settings[names.TRACE_DECAY]
    if memory.exploratory[env] or decay == 0.0:
        fade_all(state, env, 0.0)
    else:
        memory.trace_scale[env] *= decay
        one = open_branches(state).size.shape[0] == 1
        if memory.trace_scale[env] < (SMALLEST_SCALE if one else SMALLEST_SCALE_OF_BRANCHES):
            fade_all(state, env, memory.trace_scale[env])


@pasted_kernel
def read_block(state, k):
    """The payload of the k-th branch found, its values as if all owed steps had been applied.

    It serves threads that only read, and must not change what is learned, not even by rounding.
    """
    numbers, branches = open_numbers(state), open_branches(state)
    ledger, scratch = open_ledger(state), open_scratch(state)
    n_actions, n_rows = scratch.values.shape[0], scratch.sums.shape[0]
    width = numbers.counters[names.WIDTH]
    branch = scratch.found[k]
    block = branches.payload[branch]
    # In a flat codebook steps are owed only for a moment, which another thread must not see.
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
    """Apply all owed steps to the branches in `payload`, without changing the ledger."""
    rows = sizes.n_rows
    for env in range(sizes.n_envs):
        first = sizes.trace_rows.start + env * rows
        for branch in ledger.living[env, : ledger.n_living[env]]:
            block, step = payload[branch], ledger.owed[env] - ledger.paid[env, branch]
            move_along(block[:rows], block[first : first + rows], block.shape[1], step)


# -- the discount ------------------------------------------------------------------------------------


@inline_kernel
def find_discount(state):
    """The current discount factor, gamma_t."""
    settings, figures = open_numbers(state).settings, open_numbers(state).figures
    known = figures[names.KNOWN_STEPS]
    gamma, fall = settings[names.GAMMA], 1.0 + known / settings[names.GAMMA_HALVING]
    gamma = max(gamma, min(gamma + (1.0 - gamma) * (1.0 - 1.0 / fall), 1.0 - 1.0 / LONGEST))
    if figures[names.DENSE] > 0.0 and gamma > SHORT_DISCOUNT:
        steps = open_numbers(state).counters[names.LEARNING_STEPS]
        gamma -= (gamma - SHORT_DISCOUNT) * math.exp(-steps / figures[names.DENSE])
    return gamma


@inline_kernel
def update_explained(state, env, value, error):
    """Update the estimate of how well a critic explains returns, by its last value and its error.

    `figures[MEAN_ERROR_WEIGHT]` is the weight of all its means.
    """
    numbers, memory = open_numbers(state), open_memory(state)
    figures, gamma = numbers.figures, find_discount(state)
    weight = figures[names.MEAN_ERROR_WEIGHT]
    if weight > LEAST_WEIGHT:
        variance = figures[names.MEAN_SQUARE] / weight - (figures[names.MEAN_VALUE] / weight) ** 2
        whole = variance + figures[names.UNEXPLAINED] / weight
        if variance > EXPLAINED * whole:
            figures[names.KNOWN_STEPS] += (variance / whole - EXPLAINED) / (1.0 - EXPLAINED)
    memory.reach[env] = 1.0 + gamma * gamma * memory.reach[env]
    unexplained = memory.reach[env] * error * error
    figures[names.MEAN_VALUE] += MEAN_RATE * (value - figures[names.MEAN_VALUE])
    figures[names.MEAN_SQUARE] += MEAN_RATE * (value * value - figures[names.MEAN_SQUARE])
    figures[names.UNEXPLAINED] += MEAN_RATE * (unexplained - figures[names.UNEXPLAINED])

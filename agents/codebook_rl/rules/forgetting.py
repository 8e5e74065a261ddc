# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Decay of the preferences of an almost deterministic actor: a part of the rule of `actor_critic`.

A softmax that is almost deterministic draws no other action any more, and has no gradient. It would not
change again even if its preferences had been learned by chance. So if the probability of the most likely
action was above 95 %, preferences decay a little, unless errors keep them up (for actions of several
parts, the preferences of each such part):

    h_i <- (1 - kappa s f_i alpha_i p_i) h_i,     s = (max pi - .95) / .05

Chance matters most at the beginning. So f_i = min(1, N / (1 + n_i))^4: the preferences of a cell whose
visits n_i are far beyond N = 2,000 hardly decay.

The preferences for continuous actions do not decay.
"""

from oda_rl._jit import inline_kernel, vector_kernel
from oda_rl.agents.codebook_rl import state as names
from oda_rl.agents.codebook_rl.state import (
    open_branches,
    open_ledger,
    open_memory,
    open_numbers,
    open_scratch,
    open_units,
)

# The probability of an action above which preferences decay; kappa, the rate of the decay; and N, the
# visits of a cell from which on the decay becomes slower.
SURE = 0.95
FORGETTING = 0.03
FORGETTING_VISITS = 2000.0


@vector_kernel
def shrink(q, visits, share, rate, step, n, factor):
    """Multiply the preferences `q` of `n` cells by 1 - factor * f * rate * share.

    f falls with the `visits` (n_actions, n) of a cell; `step` (n,) is filled with factor * f * rate *
    share.
    """
    for i in range(n):
        count = 1.0
        for a in range(visits.shape[0]):
            count += visits[a, i]
        part = min(1.0, FORGETTING_VISITS / count)
        part *= part
        step[i] = factor * part * part * rate[i] * share[i]
    for r in range(q.shape[0]):
        row = q[r]
        for i in range(n):
            row[i] -= step[i] * row[i]


@inline_kernel
def find_sureness(direction, taken):
    """How far the probability of the likeliest option was above `SURE`, from 0 to 1.

    `direction` (n,) is the gradient of the log-probability of the option `taken`.
    """
    most = 0.0
    for a in range(direction.shape[0]):
        most = max(most, (1.0 if a == taken else 0.0) - direction[a])
    return max(most - SURE, 0.0) / (1.0 - SURE)


@inline_kernel
def forget_branch(state, env, k, first, count, sureness):
    """Let the preferences for `count` options from `first` on decay in the k-th branch found."""
    memory, width = open_memory(state), open_numbers(state).counters[names.WIDTH]
    n_actions, n_rows = memory.direction.shape[1], open_scratch(state).sums.shape[0]
    block, only = open_branches(state).payload[memory.found[env, k]], memory.only[env]
    part = slice(0, width) if only < 0 else slice(only - k * width, only - k * width + 1)
    share, rate = memory.share[env][k * width : (k + 1) * width], block[n_rows + n_actions]
    n_basis = open_numbers(state).counters[names.N_BASIS]
    q = block[first * n_basis : (first + count) * n_basis, part]
    visits, step = block[n_rows : n_rows + n_actions, part], open_scratch(state).step
    shrink(q, visits, share[part], rate[part], step, part.stop - part.start, FORGETTING * sureness)


@inline_kernel
def forget_preferences(state, env):
    """Let preferences decay for each part of the last action that was almost certain."""
    memory, options, ledger = open_memory(state), open_units(state).options, open_ledger(state)
    if memory.lost[env]:  # the gradient of a repeated action is 0, which would look like certainty
        return
    left, first = memory.action[env], memory.direction.shape[1]
    for p in range(options.shape[0] - 1, -1, -1):
        count = options[p]
        first -= count
        sureness = find_sureness(memory.direction[env, first : first + count], left % count)
        left //= count
        if sureness > 0.0:
            for k in range(memory.n_found[env]):
                if ledger.alive[env, memory.found[env, k]]:
                    forget_branch(state, env, k, first, count, sureness)

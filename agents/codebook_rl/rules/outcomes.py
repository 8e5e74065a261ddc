# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""What state-action pairs of a table led to, and values computed from it from below.

A table of Q values learns slowly that a value was too large. If actions lead from s to s' and back, or
leave a state as it is, each value of the loop is that of the next one, times gamma: a value that the
loop has taken from a way out of it stays there for some 1 / (1 - gamma) rounds after that way has turned
out to be worse. The behaviour goes round meanwhile. This happens if the reward at a goal is noisy, or
falls with the steps taken to it.

So the payload of a cell holds, for each action, the `N_OUTCOMES` first states that it led to, the shares
w_k of its visits in which it did, and the mean rewards r_k. Their stepsizes are like those of Q, so they
follow a change. Now and then all values are computed from these alone,

    V <- min(0, min r) / (1 - gamma)
    V(s) <- max(V(s), max_a sum_k w_k (r_k + gamma V(s_k)) / sum_k w_k)

until they change no more. Values that begin below the true ones have no loops to hold them up. Pairs
that were never tried, and those with further outcomes, keep their Q, and the others get what was
computed. If that takes little enough to be done every `LONGEST_PAUSE` steps, the values of the latter
change in no other way than upward, so that no loop is left with larger values than the ways out of it.
Each computation that changes nothing doubles the steps until the next, up to `QUIET_PAUSE`, until an
expected value falls.

Values that still change after `MOST_SWEEPS` are not used: then a loop pays, and its value is the sum of
many rewards, which Q-learning finds sooner.

References
----------
Sutton, "Integrated architectures for learning, planning, and reacting based on approximating dynamic
programming", International Conference on Machine Learning, 1990 (planning with a learned model).
Bertsekas and Tsitsiklis, "An analysis of stochastic shortest path problems", Mathematics of Operations
Research 16, 1991 (values of loops).
"""

from oda_rl._jit import inline_kernel, lean_kernel
from oda_rl.agents.codebook_rl import state as names
from oda_rl.agents.codebook_rl.rules.traces import catch_up, find_discount
from oda_rl.agents.codebook_rl.state import open_branches, open_numbers, open_scratch

# Outcomes stored for each pair, and the largest number of pairs for which they are
N_OUTCOMES, MOST_MODELLED = 4, 1_000_000
# Least share of the visits of a pair that must have had one of these for its value to be computed
LEAST_KNOWN = 0.99
# An outcome that has become rarer is forgotten.
LEAST_SHARE = 1e-3
# Shares have the stepsizes of Q, but from visit 20 on none above this: errors of Q have more causes.
LARGEST_RATE = 0.05
# Sweeps after which values that still change are not used; change, relative to the largest value, at
# which they do not; pairs computed per step of the environment
MOST_SWEEPS = 300
NO_CHANGE = 1e-3
PAIRS_PER_STEP = 100.0
# Time that an unvisited cell takes, relative to one whose values are computed
UNVISITED = 0.1
# Values are left to this computation if it is made at least every so many steps.
LONGEST_PAUSE = 1000.0
# The most steps between two computations while nothing changes
QUIET_PAUSE = 20.0 * LONGEST_PAUSE


def fields(sizes):
    """The fields of the payload: states that an action led to, the shares of visits, and the rewards."""
    if sizes.max_cells * sizes.n_actions > MOST_MODELLED:
        return {}
    return dict.fromkeys(("outcome", "share", "gain"), (sizes.n_actions * N_OUTCOMES, "mean"))


@inline_kernel
def has_outcomes(state, first):
    """Whether the payload has these fields, of which `first` would be the first row."""
    n_rows = 3 * open_scratch(state).values.shape[0] * N_OUTCOMES
    return open_branches(state).payload.shape[1] >= first + n_rows


@inline_kernel
def record_outcome(block, first, n_actions, taken, place, cell, reward, alpha):
    """Add a visit of a pair, whose Q has the stepsize alpha, to the shares and rewards of its outcomes.

    Here and below, `first` is the first row of the fields in the payload.
    """
    outcomes, n, own, free = first + taken * N_OUTCOMES, n_actions * N_OUTCOMES, -1, -1
    rate = max(1.0 / block[n_actions + taken, place], min(alpha, LARGEST_RATE))
    for k in range(outcomes, outcomes + N_OUTCOMES):
        block[n + k, place] *= 1.0 - rate
        if block[n + k, place] < LEAST_SHARE:
            block[n + k, place], block[2 * n + k, place], free = 0.0, 0.0, k
        elif block[k, place] == cell:
            own = k
    k = own if own >= 0 else free
    if k >= 0:
        share, gain = block[n + k, place], block[2 * n + k, place]
        block[2 * n + k, place] = (share * gain + rate * reward) / (share + rate)
        block[n + k, place], block[k, place] = share + rate, cell


@inline_kernel
def is_known(block, first, n_actions, taken, place):
    """Whether nearly all outcomes of a pair are stored."""
    shares, total = first + (n_actions + taken) * N_OUTCOMES, 0.0
    for k in range(N_OUTCOMES):
        total += block[shares + k, place]
    return total >= LEAST_KNOWN


@inline_kernel
def is_settled(state, block, first, taken, place):
    """Whether the value of a pair changes only upward between two computations from below."""
    if not has_outcomes(state, first) or open_numbers(state).figures[names.SETTLED] == 0.0:
        return False
    return is_known(block, first, open_scratch(state).values.shape[0], taken, place)


@inline_kernel
def expected_value(block, first, n_actions, taken, place, discount, values):
    """The expected reward of a pair and discounted value of the next state, by the `values` of cells."""
    outcomes, n, total, found = first + taken * N_OUTCOMES, n_actions * N_OUTCOMES, 0.0, 0.0
    for k in range(outcomes, outcomes + N_OUTCOMES):
        share, cell = block[n + k, place], int(block[k, place])
        total += share
        found += share * block[2 * n + k, place]
        if share > 0.0 and cell >= 0:
            found += share * discount * values[cell]
    return found / total


@inline_kernel
def branch_width(state):
    """Places for cells in each branch."""
    return open_numbers(state).counters[names.WIDTH]


@inline_kernel
def largest_of_rows(block, first, n, place):
    """The largest entry at `place` in `n` rows of a branch, from row `first` on."""
    largest = block[first, place]
    for a in range(1, n):
        largest = max(largest, block[first + a, place])
    return largest


@inline_kernel
def raise_value(state, first, branch, place, taken):
    """Set the Q of a pair to its expected value if that is larger, or if this was its first visit.

    If it is smaller, the computation from below that will lower Q is not delayed further.
    """
    branches, scratch, width = open_branches(state), open_scratch(state), branch_width(state)
    n_actions, block = scratch.values.shape[0], branches.payload[branch]
    for k in range(first + taken * N_OUTCOMES, first + (taken + 1) * N_OUTCOMES):
        cell = int(block[k, place])
        if cell >= 0:
            catch_up(state, cell // width)
            after = branches.payload[cell // width]
            scratch.key[cell] = largest_of_rows(after, 0, n_actions, cell % width)
    value = expected_value(block, first, n_actions, taken, place, find_discount(state), scratch.key)
    if value > block[taken, place] or block[n_actions + taken, place] == 1.0:
        block[taken, place] = value
    elif block[taken, place] - value > NO_CHANGE * abs(block[taken, place]):
        numbers = open_numbers(state)
        n_steps, figures = numbers.counters[names.STEPS], numbers.figures
        left = figures[names.NEXT_FROM_BELOW] - n_steps
        figures[names.NEXT_FROM_BELOW] = n_steps + left / figures[names.SETTLED]
        figures[names.SETTLED] = 1.0


@inline_kernel
def list_visited(state, first):
    """Fill `scratch.node` with the visited cells, and `scratch.key` with the values of all cells.

    Returns the number of visited cells, the least mean reward or 0, and the largest size of a value.
    """
    branches, scratch, width = open_branches(state), open_scratch(state), branch_width(state)
    n_actions, lowest, largest, n = scratch.values.shape[0], 0.0, 0.0, 0
    for branch in range(branches.size.shape[0]):
        catch_up(state, branch)
        block = branches.payload[branch]
        for place in range(branches.size[branch]):
            cell, visits = branch * width + place, 0.0
            for a in range(n_actions):
                visits += block[n_actions + a, place]
            scratch.key[cell] = largest_of_rows(block, 0, n_actions, place)
            if visits == 0.0:
                continue
            for a in range(n_actions):
                largest = max(largest, abs(block[a, place]))
            for k in range(first + 2 * n_actions * N_OUTCOMES, first + 3 * n_actions * N_OUTCOMES):
                lowest = min(lowest, block[k, place])
            scratch.node[n] = cell
            n += 1
    return n, lowest, largest


@inline_kernel
def order_by_value(cells, n, values):
    """Sort the first `n` cells so that their values fall (Shell sort)."""
    gap = n // 2
    while gap > 0:
        for i in range(gap, n):
            cell, j = cells[i], i
            while j >= gap and values[cells[j - gap]] < values[cell]:
                cells[j] = cells[j - gap]
                j -= gap
            cells[j] = cell
        gap //= 2


@inline_kernel
def begin_below(state, first, n, lowest):
    """Fill `scratch.key` with values of the `n` visited cells that are below the true ones."""
    branches, scratch, width = open_branches(state), open_scratch(state), branch_width(state)
    n_actions = scratch.values.shape[0]
    for i in range(n):
        cell = scratch.node[i]
        block, place = branches.payload[cell // width], cell % width
        scratch.key[cell] = lowest
        for a in range(n_actions):
            if not is_known(block, first, n_actions, a, place):
                scratch.key[cell] = max(scratch.key[cell], block[a, place])


@lean_kernel
def sweep(state, first, n):
    """Compute the values of the `n` visited cells once more; returns the largest change."""
    branches, scratch, width = open_branches(state), open_scratch(state), branch_width(state)
    discount, n_actions, change = find_discount(state), scratch.values.shape[0], 0.0
    for i in range(n):
        cell = scratch.node[i]
        block, place, best = branches.payload[cell // width], cell % width, scratch.key[cell]
        for a in range(n_actions):
            if is_known(block, first, n_actions, a, place):
                value = expected_value(block, first, n_actions, a, place, discount, scratch.key)
                best = max(best, value)
        change = max(change, best - scratch.key[cell])
        scratch.key[cell] = best
    return change


@inline_kernel
def use_from_below(state, first, n):
    """Set each known Q of the `n` visited cells by the values computed; returns the largest change."""
    branches, scratch, width = open_branches(state), open_scratch(state), branch_width(state)
    discount, n_actions, change = find_discount(state), scratch.values.shape[0], 0.0
    for i in range(n):
        cell = scratch.node[i]
        block, place = branches.payload[cell // width], cell % width
        for a in range(n_actions):
            if is_known(block, first, n_actions, a, place):
                value = expected_value(block, first, n_actions, a, place, discount, scratch.key)
                change = max(change, abs(value - block[a, place]))
                block[a, place] = value
    return change


@lean_kernel
def compute_from_below(state, first):
    """Compute the values of all pairs whose outcomes are known, and use them if they settle."""
    scratch, numbers = open_scratch(state), open_numbers(state)
    n_actions, discount = scratch.values.shape[0], find_discount(state)
    n, lowest, largest = list_visited(state, first)
    order_by_value(scratch.node, n, scratch.key)
    begin_below(state, first, n, lowest / (1.0 - discount))
    n_sweeps, settles = 0, False
    while n_sweeps < MOST_SWEEPS and not settles:
        settles = sweep(state, first, n) <= NO_CHANGE * largest
        n_sweeps += 1
    n_cells = max(n * (1.0 + n_sweeps), UNVISITED * scratch.key.shape[0])
    change = use_from_below(state, first, n) if settles else 0.0
    pause = n_actions * n_cells / PAIRS_PER_STEP
    if settles and pause <= LONGEST_PAUSE:
        quiet = 2.0 * numbers.figures[names.SETTLED] if change <= NO_CHANGE * largest else 1.0
        numbers.figures[names.SETTLED] = min(max(quiet, 1.0), QUIET_PAUSE / pause)
        pause *= numbers.figures[names.SETTLED]
    else:
        numbers.figures[names.SETTLED] = 0.0
    numbers.figures[names.NEXT_FROM_BELOW] = numbers.counters[names.STEPS] + pause


@inline_kernel
def follow_from_below(state, first):
    """Compute the values from below if outcomes are stored and it is time to.

    Values that leave out a mean reward, as episodes never terminate, would not settle.
    """
    numbers = open_numbers(state)
    if not has_outcomes(state, first):
        return
    if numbers.figures[names.DENSE] > 0.0:
        numbers.figures[names.SETTLED] = 0.0
    elif numbers.counters[names.STEPS] >= numbers.figures[names.NEXT_FROM_BELOW]:
        compute_from_below(state, first)

# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Choice of a discrete action: epsilon-greedy, with random actions held for several steps."""

from oda_rl._jit import inline_kernel


@inline_kernel
def index_of_largest(numbers):
    """Index of the largest number, the first of several."""
    best = 0
    for i in range(1, numbers.shape[0]):
        if numbers[i] > numbers[best]:
            best = i
    return best


@inline_kernel
def argmax_random(values, draw):
    """Index of the largest value; ties are broken by `draw`, uniform in [0, 1)."""
    best = values[index_of_largest(values)]
    ties = 0
    for a in range(values.shape[0]):
        ties += values[a] == best
    wanted, found = int(draw * ties), 0
    for a in range(values.shape[0]):
        if values[a] == best:
            if wanted == 0:
                found = a
            wanted -= 1
    return found


@inline_kernel
def falling(start, end, steps, horizon):
    """Interpolate linearly from `start` to `end` over `horizon` steps, then stay at `end`."""
    return start + min(1.0, steps / max(horizon, 1.0)) * (end - start)


@inline_kernel
def begin_random(epsilon, hold):
    """Return the probability of beginning a random action that is held for 1 to `hold` steps.

    It is epsilon / h, where h is the mean number of steps. So about a share of epsilon of all steps is
    random, however long actions are held.
    """
    return epsilon * 2.0 / (1.0 + hold)


@inline_kernel
def choose_numbered(env, draws, random, hold, values, memory):
    """Continue the held action, begin a new one if `random`, or take the greedy one."""
    if memory.held[env] > 0:
        memory.held[env] -= 1
    elif random:
        memory.action[env] = int(draws[1] * values.shape[0])
        memory.held[env] = int(draws[2] * hold)
    else:
        memory.action[env] = argmax_random(values, draws[3])
    memory.exploratory[env] = values[memory.action[env]] < values[index_of_largest(values)]

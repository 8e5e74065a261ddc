# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""The horizon of the values: a discount factor that rises while returns are well explained.

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
"""

from oda_rl._jit import inline_kernel
from oda_rl.agents.bounds import LONGEST
from oda_rl.agents.codebook_rl.state import (
    GAMMA,
    GAMMA_HALVING,
    KNOWN_STEPS,
    MEAN_ERROR_WEIGHT,
    MEAN_SQUARE,
    MEAN_VALUE,
    UNEXPLAINED,
    open_memory,
    open_numbers,
)

# Stepsize of the running means of a critic's values and errors
MEAN_RATE = 1e-4
# The means are used once their weight exceeds this, after some 7,000 steps.
LEAST_WEIGHT = 0.5
# Returns are well explained above this share of their variance.
EXPLAINED = 0.9


@inline_kernel
def find_discount(state):
    """The current discount factor, gamma_t."""
    settings, known = open_numbers(state).settings, open_numbers(state).figures[KNOWN_STEPS]
    gamma, fall = settings[GAMMA], 1.0 + known / settings[GAMMA_HALVING]
    return max(gamma, min(gamma + (1.0 - gamma) * (1.0 - 1.0 / fall), 1.0 - 1.0 / LONGEST))


@inline_kernel
def note_explained(state, env, value, error):
    """Update the estimate of how well a critic explains returns, by its last value and its error.

    `figures[MEAN_ERROR_WEIGHT]` is the weight of all its means.
    """
    numbers, memory = open_numbers(state), open_memory(state)
    figures, gamma = numbers.figures, find_discount(state)
    weight = figures[MEAN_ERROR_WEIGHT]
    if weight > LEAST_WEIGHT:
        variance = figures[MEAN_SQUARE] / weight - (figures[MEAN_VALUE] / weight) ** 2
        whole = variance + figures[UNEXPLAINED] / weight
        if variance > EXPLAINED * whole:
            figures[KNOWN_STEPS] += (variance / whole - EXPLAINED) / (1.0 - EXPLAINED)
    memory.reach[env] = 1.0 + gamma * gamma * memory.reach[env]
    unexplained = memory.reach[env] * error * error
    figures[MEAN_VALUE] += MEAN_RATE * (value - figures[MEAN_VALUE])
    figures[MEAN_SQUARE] += MEAN_RATE * (value * value - figures[MEAN_SQUARE])
    figures[UNEXPLAINED] += MEAN_RATE * (unexplained - figures[UNEXPLAINED])

# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Watkins' Q(lambda) over a table of states: the learning rule of `TwoTimescaleQ` on discrete states.

A rule as `rules.q_lambda` describes them. One cell is active, with share 1:

    delta = r + gamma max_b Q(s', b) - Q(s, a)
    e <- gamma lambda e, 0 after an exploratory action;    e(s, a) <- (1 - alpha) e(s, a) + alpha
    Q <- Q + delta e

with dutch traces, as a table whose stepsizes begin at 1 asks for. The stepsize alpha of a pair is that
of George and Powell, the one of least expected error where errors have a drift and noise. With running
means, over the n visits of the pair, of the errors, b, and of their squares, w,

    alpha = max(1 / n, 1 - (1 - b^2 / w) / (1 + l)),       l <- (1 - alpha)^2 l + alpha^2

It averages where errors are noise, as in Blackjack, and follows where they tell of something new, as
when a first reward has been found. The means forget as n^-0.9.

Exploration has a table of its own: the novelty U, learned at the same steps from the reward n^-1/2 with
a discount of its own, U(s, a) <- n^-1/2 + gamma_U max_b U(s', b), from its upper bound 1 / (1 - gamma_U)
on. An agent follows U, or Q, for some 50 steps, or to the end of the episode; which one is drawn, U with
the probability of exploring. So exploration is deep (it plans how to get to what was tried least), and
depends on the scale of no reward; U has no part in Q but by the choice of actions.

References
----------
Watkins, "Learning from Delayed Rewards", 1989. George and Powell, "Adaptive stepsizes for recursive
estimation with applications in approximate dynamic programming", Machine Learning 65, 2006, eq. 25.
"""

import math

from oda_rl._jit import inline_kernel
from oda_rl.agents.action_choice import argmax_random, falling, index_of_largest
from oda_rl.agents.bounds import LARGEST_ERROR
from oda_rl.agents.codebook_rl.rules.q_lambda import FIGURE_RATE, MONITORED_EVERY, note_errors
from oda_rl.agents.codebook_rl.rules.traces import (
    catch_up,
    enliven,
    first_trace,
    let_decay,
    move_along,
)
from oda_rl.agents.codebook_rl.state import (
    AVERAGE_RATE,
    AVERAGE_REWARD,
    EPSILON_END,
    EPSILON_START,
    EPSILON_STEPS,
    GAMMA,
    LEARNING_STEPS,
    N_FIGURES,
    TD_ERROR,
    WIDTH,
    open_branches,
    open_ledger,
    open_memory,
    open_numbers,
    open_scratch,
)

# Discount of the novelty, and its bound
NOVELTY_DISCOUNT = 0.9
NOVELTY_BOUND = 1.0 / (1.0 - NOVELTY_DISCOUNT)
# Power with which the means of errors forget
FORGETTING = 0.9
# Probability that it is drawn anew whether novelty is followed
TURN = 0.02


def fields(sizes):
    """The fields of the payload: values, visits, stepsizes, traces; then of each action U, b, w, l."""
    n_actions = sizes.n_actions
    return {
        "q": (n_actions, "mean"),
        "visits": (n_actions, "count"),
        "rate": (n_actions, "mean"),
        "trace": (n_actions * sizes.n_envs, "count"),
        "novelty": (n_actions, "mean"),
        "drift": (n_actions, "mean"),
        "square": (n_actions, "mean"),
        "noise": (n_actions, "mean"),
    }


def begin(codebook, sizes, learning_rate, value):
    """Values of 0, and the largest novelty everywhere; the first stepsize is 1 whatever is given."""
    codebook.payload[:, : len(codebook)] = 0.0
    codebook["rate"][:] = 1.0
    codebook["novelty"][:] = NOVELTY_BOUND
    codebook["noise"][:] = 1.0


@inline_kernel
def read_novelty(state):
    """Fill `scratch.parts` (n_actions,) with the novelty of the actions in the state that was found.

    Returns the largest.
    """
    numbers, branches, scratch = open_numbers(state), open_branches(state), open_scratch(state)
    n_actions, n_envs = scratch.values.shape[0], open_ledger(state).owed.shape[0]
    first = n_actions * (3 + n_envs)
    place = index_of_only(scratch.distance, numbers.counters[WIDTH])
    for a in range(n_actions):
        scratch.parts[a] = branches.payload[scratch.found[0], first + a, place]
    return scratch.parts[index_of_largest(scratch.parts)]


@inline_kernel
def index_of_only(distance, n):
    """The place of the cell that is the state itself."""
    place = 0
    for i in range(n):
        if distance[i] == 0.0:
            place = i
    return place


@inline_kernel
def choose(state, env, begins, draws):
    """Go on with the values or with the novelty, and take the action that is best by it."""
    numbers, memory, scratch = open_numbers(state), open_memory(state), open_scratch(state)
    settings = numbers.settings
    if begins or draws[0] < TURN:
        epsilon = falling(
            settings[EPSILON_START],
            settings[EPSILON_END],
            numbers.counters[LEARNING_STEPS],
            settings[EPSILON_STEPS],
        )
        memory.exploring[env] = draws[1] < epsilon
    action = argmax_random(scratch.values, draws[3])
    if memory.exploring[env]:
        read_novelty(state)
        action = argmax_random(scratch.parts, draws[3])
    memory.action[env] = action
    best = scratch.values[index_of_largest(scratch.values)]
    memory.exploratory[env] = scratch.values[action] < best


@inline_kernel
def find_stepsize(block, pair, n_actions, extra, place, error):
    """Count a visit of the pair, and find its stepsize; row `extra` is that of its novelty."""
    visits, rate = n_actions + pair, 2 * n_actions + pair
    drift, square, noise = extra + n_actions, extra + 2 * n_actions, extra + 3 * n_actions
    block[visits, place] += 1.0
    n = block[visits, place]
    part = n**-FORGETTING
    block[drift, place] += part * (error - block[drift, place])
    block[square, place] += part * (error * error - block[square, place])
    alpha = 1.0 / n
    if n > 1.0 and block[square, place] > 0.0:
        random = 1.0 - block[drift, place] * block[drift, place] / block[square, place]
        alpha = max(alpha, 1.0 - random / (1.0 + block[noise, place]))
    block[noise, place] = (1.0 - alpha) ** 2 * block[noise, place] + alpha * alpha
    block[rate, place] = alpha
    return alpha


@inline_kernel
def learn(state, env, reward, best_next, novelty_next):
    """One step of Watkins' Q(lambda), and one of the novelty; both of the next state are given.

    Returns False if the values have diverged; nothing is learned then.
    """
    numbers, branches, ledger = open_numbers(state), open_branches(state), open_ledger(state)
    memory, scratch = open_memory(state), open_scratch(state)
    settings, counters, figures = numbers.settings, numbers.counters, numbers.figures
    width, n_actions = counters[WIDTH], scratch.values.shape[0]
    place, taken, branch = memory.only[env], memory.action[env], memory.found[env, 0]
    block, first = branches.payload[branch], first_trace(env, n_actions, n_actions)
    catch_up(state, branch)

    error = reward - figures[AVERAGE_REWARD] + settings[GAMMA] * best_next - block[taken, place]
    if not abs(error) < LARGEST_ERROR:
        return False
    figures[TD_ERROR] += FIGURE_RATE * (abs(error) - figures[TD_ERROR])
    if figures.shape[0] > N_FIGURES and counters[LEARNING_STEPS] % MONITORED_EVERY == 0:
        note_errors(state, env, abs(error))
    let_decay(state, env)
    extra = first_trace(ledger.owed.shape[0], n_actions, n_actions) + taken
    alpha = find_stepsize(block, taken, n_actions, extra, place, error)

    enliven(env, branch, ledger)
    scale = memory.trace_scale[env]
    block[first + taken, place] = (1.0 - alpha) * block[first + taken, place] + alpha / scale
    ledger.owed[env] += error * scale
    move_along(block[:n_actions], block[first : first + n_actions], width, error * scale)
    ledger.paid[env, branch] = ledger.owed[env]
    block[extra, place] = 1.0 / math.sqrt(block[n_actions + taken, place]) + novelty_next
    if settings[AVERAGE_RATE] > 0.0 and not memory.exploratory[env]:
        figures[AVERAGE_REWARD] += settings[AVERAGE_RATE] * error
    return True

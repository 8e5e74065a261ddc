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

Exploration has a table of its own: the novelty U, learned from the reward n^-1/2 with a discount of its
own, U(s, a) <- n^-1/2 + gamma_U max_b U(s', b), from its upper bound 1 / (1 - gamma_U) on. An agent
follows U, or Q, for some 100 steps, or to the end of the episode; which one is drawn, U with twice the
probability max_b U(s, b) / bound: nearly always while something new is in reach, and ever more rarely
from then on. So exploration is deep (it plans how to get to what was tried least), and depends on the
scale of no reward, and on the length of no run; U has no part in Q but by the choice of actions.

U of a pair is computed anew when it is visited, from the state that it led to last, and so is Q, with a
stepsize of 1, where a pair has always led to the same state and reward. At the end of an episode, or
after 100 steps, this is done again for the pairs that were visited last, backward, ten for each step
made since. So what was found at the end of a long way is known at its beginning when the next episode
starts.

References
----------
Watkins, "Learning from Delayed Rewards", 1989. George and Powell, "Adaptive stepsizes for recursive
estimation with applications in approximate dynamic programming", Machine Learning 65, 2006, eq. 25. Lin,
"Self-improving reactive agents based on reinforcement learning, planning and teaching", Machine
Learning 8, 1992 (experience gone through backward).
"""

import math

from oda_rl._jit import inline_kernel, lean_kernel
from oda_rl.agents.action_choice import argmax_random, index_of_largest
from oda_rl.agents.bounds import LARGEST_ERROR
from oda_rl.agents.codebook_rl.rules.horizon import find_discount
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
    KNOWN_STEPS,
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
NOVELTY_DISCOUNT = 0.97
NOVELTY_BOUND = 1.0 / (1.0 - NOVELTY_DISCOUNT)
# Probability of following it where it is at its bound; what is above 1 is 1
NOVELTY_SHARE = 2.0
# Power with which the means of errors forget
FORGETTING = 0.9
# Probability that it is drawn anew whether novelty is followed
TURN = 0.01
# Pairs that are remembered to be gone through again; after how many steps at the latest; how many for
# each step
N_RECENT = 2000
LONGEST_WAIT = 100
REPEATS = 10
# What a pair led to: the end of an episode
THE_END = -1.0


def fields(sizes):
    """The fields of the payload: values, visits, stepsizes, traces; then of each action U, b, w, l, the
    cell and the reward that it led to last, and whether they were ever others.
    """
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
        "next": (n_actions, "mean"),
        "reward": (n_actions, "mean"),
        "varied": (n_actions, "mean"),
    }


def begin(codebook, sizes, learning_rate, value):
    """Values of 0, and the largest novelty everywhere; the first stepsize is 1 whatever is given."""
    codebook.payload[:, : len(codebook)] = 0.0
    codebook["rate"][:] = 1.0
    codebook["novelty"][:] = NOVELTY_BOUND
    codebook["noise"][:] = 1.0


@inline_kernel
def first_novelty(state):
    """The first row of the payload with U, behind the traces; b, w, l and what pairs led to follow."""
    n_actions = open_scratch(state).values.shape[0]
    return first_trace(open_ledger(state).owed.shape[0], n_actions, n_actions)


@inline_kernel
def largest_of_rows(block, first, n, place):
    """The largest of `n` rows of a branch, from row `first` on, at a place."""
    largest = block[first, place]
    for a in range(1, n):
        largest = max(largest, block[first + a, place])
    return largest


@inline_kernel
def choose(state, env, begins, place, draws):
    """Go on with the values or with the novelty, and take the action that is best by it."""
    branches, memory, scratch = open_branches(state), open_memory(state), open_scratch(state)
    block, first, n_actions = (
        branches.payload[scratch.found[0]],
        first_novelty(state),
        scratch.values.shape[0],
    )
    if begins or draws[0] < TURN:
        share = NOVELTY_SHARE / NOVELTY_BOUND
        memory.exploring[env] = draws[1] < share * largest_of_rows(block, first, n_actions, place)
    action = argmax_random(scratch.values, draws[3])
    if memory.exploring[env]:
        for a in range(n_actions):
            scratch.parts[a] = block[first + a, place]
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


@lean_kernel
def renew(state, pair):
    """Compute the novelty of a pair anew, and its value where it has always led to the same."""
    branches, numbers = open_branches(state), open_numbers(state)
    n_actions, width = open_scratch(state).values.shape[0], numbers.counters[WIDTH]
    cell, taken = pair // n_actions, pair % n_actions
    branch, place = cell // width, cell % width
    block, novelty = branches.payload[branch], first_novelty(state)
    led_to = novelty + 4 * n_actions + taken
    cell, best, newest = int(block[led_to, place]), 0.0, 0.0
    if cell >= 0:
        catch_up(state, cell // width)
        after = branches.payload[cell // width]
        best = largest_of_rows(after, 0, n_actions, cell % width)
        newest = largest_of_rows(after, novelty, n_actions, cell % width)
    visits = block[n_actions + taken, place]
    block[novelty + taken, place] = 1.0 / math.sqrt(visits) + NOVELTY_DISCOUNT * newest
    if block[led_to + 2 * n_actions, place] == 0.0:
        catch_up(state, branch)
        reward = block[led_to + n_actions, place] - numbers.figures[AVERAGE_REWARD]
        block[taken, place] = reward + find_discount(state) * best


@inline_kernel
def look_back(state, env, pair, ended):
    """Renew the last pair and remember it; when an episode ends, or after a while, look back further."""
    memory = open_memory(state)
    recent, n = memory.recent[env], memory.n_recent[env]
    recent[n % N_RECENT] = pair
    memory.n_recent[env] = n + 1
    memory.waiting[env] += 1
    renew(state, pair)
    if ended or memory.waiting[env] >= LONGEST_WAIT:
        for i in range(min(n + 1, N_RECENT, REPEATS * memory.waiting[env])):
            renew(state, recent[(n - i) % N_RECENT])
        memory.waiting[env] = 0


@inline_kernel
def learn(state, env, reward, best_next, cell):
    """One step of Watkins' Q(lambda) by the value of the next state, which is `cell`.

    Returns False if the values have diverged; nothing is learned then.
    """
    numbers, branches, ledger = open_numbers(state), open_branches(state), open_ledger(state)
    memory, scratch = open_memory(state), open_scratch(state)
    settings, counters, figures = numbers.settings, numbers.counters, numbers.figures
    width, n_actions = counters[WIDTH], scratch.values.shape[0]
    place, taken, branch = memory.only[env], memory.action[env], memory.found[env, 0]
    block, first = branches.payload[branch], first_trace(env, n_actions, n_actions)
    catch_up(state, branch)

    error = reward - figures[AVERAGE_REWARD] + find_discount(state) * best_next - block[taken, place]
    if not abs(error) < LARGEST_ERROR:
        return False
    figures[TD_ERROR] += FIGURE_RATE * (abs(error) - figures[TD_ERROR])
    if figures.shape[0] > N_FIGURES and counters[LEARNING_STEPS] % MONITORED_EVERY == 0:
        note_errors(state, env, abs(error))
    let_decay(state, env)
    extra = first_novelty(state) + taken
    alpha = find_stepsize(block, taken, n_actions, extra, place, error)

    enliven(env, branch, ledger)
    scale = memory.trace_scale[env]
    block[first + taken, place] = (1.0 - alpha) * block[first + taken, place] + alpha / scale
    ledger.owed[env] += error * scale
    move_along(block[:n_actions], block[first : first + n_actions], width, error * scale)
    ledger.paid[env, branch] = ledger.owed[env]
    if settings[AVERAGE_RATE] > 0.0 and not memory.exploratory[env]:
        figures[AVERAGE_REWARD] += settings[AVERAGE_RATE] * error

    led_to = extra + 4 * n_actions
    if block[n_actions + taken, place] > 1.0 and (
        block[led_to, place] != cell or block[led_to + n_actions, place] != reward
    ):
        block[led_to + 2 * n_actions, place] = 1.0
    block[led_to, place], block[led_to + n_actions, place] = cell, reward
    figures[KNOWN_STEPS] += 1.0
    return True

# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Watkins' Q(lambda) over a table of states: rule and compiled step on discrete states.

It is a rule as described in `rules.q_lambda`. A single cell is active, with share 1:

    delta = r + gamma max_b Q(s', b) - Q(s, a)
    e <- gamma lambda e, 0 after an exploratory action;    e(s, a) <- (1 - alpha) e(s, a) + alpha
    Q <- Q + delta e

Traces are dutch, which suits stepsizes that begin at 1. The stepsize alpha of a pair is that of George
and Powell, which has the least expected error if errors have a drift and noise. With running means over
the n visits of the pair, b of the errors and w of their squares,

    alpha = max(1 / n, 1 - (1 - b^2 / w) / (1 + l)),       l <- (1 - alpha)^2 l + alpha^2

It averages if errors are noise, as in Blackjack, and stays large if they have a drift, as after the
first reward of a run. The running means have the stepsizes n^-0.9.

Exploration uses a second table: the novelty U. It is learned from the reward n^-1/2 with its own
discount, U(s, a) <- n^-1/2 + gamma_U max_b U(s', b), and starts at its upper bound 1 / (1 - gamma_U).
The behaviour follows either U or Q for some 100 steps, or to the end of the episode. Which of them is
drawn at random: U with the probability 2 max_b U(s, b) / bound, which is nearly always while something
new is in reach, and then ever more rarely. So exploration is deep (it plans ways to the least tried
actions), and depends neither on the scale of rewards nor on the length of a run. U affects Q only by the
choice of actions.

When a pair is visited, its U is computed again from the state that it last led to. So is its Q, with a
stepsize of 1, if the pair has always led to the same state and reward. At the end of an episode, or
after 100 steps, the last visited pairs are replayed in this way, backward, ten for each step made since
the last replay. So what was found at the end of a long path has reached the values at its beginning when
the next episode starts. If pairs have led to few states each, `rules.outcomes` computes their values
from below now and then; in between, visits and replays only raise Q, to what the outcomes let expect.

If rewards are dense and episodes never end, values leave out a mean reward (`rules.reward_centre`).

References
----------
Watkins, "Learning from Delayed Rewards", 1989. George and Powell, "Adaptive stepsizes for recursive
estimation with applications in approximate dynamic programming", Machine Learning 65, 2006, eq. 25. Lin,
"Self-improving reactive agents based on reinforcement learning, planning and teaching", Machine
Learning 8, 1992 (backward replay of experience).
"""

import math

from oda_rl._jit import inline_kernel, lean_kernel
from oda_rl.agents.action_choice import argmax_random, index_of_largest
from oda_rl.agents.bounds import LARGEST_ERROR
from oda_rl.agents.codebook_rl import state as names
from oda_rl.agents.codebook_rl.association import activate_cells, remember
from oda_rl.agents.codebook_rl.rules import outcomes
from oda_rl.agents.codebook_rl.rules.outcomes import (
    follow_from_below,
    has_outcomes,
    is_settled,
    largest_of_rows,
    raise_value,
    record_outcome,
)
from oda_rl.agents.codebook_rl.rules.q_lambda import record_error
from oda_rl.agents.codebook_rl.rules.reward_centre import (
    GROWING,
    find_centre,
    follow_rewards,
    move_centre,
)
from oda_rl.agents.codebook_rl.rules.traces import (
    catch_up,
    clear_traces,
    decay_traces,
    find_discount,
    first_trace,
    mark_alive,
    move_along,
)
from oda_rl.agents.codebook_rl.state import (
    open_branches,
    open_ledger,
    open_memory,
    open_numbers,
    open_scratch,
    open_units,
)
from oda_rl.agents.codebook_rl.step import begin as begin_step
from oda_rl.agents.compiled_rollout import BEGIN, DIVERGED

# Discount of the novelty, and its upper bound
NOVELTY_DISCOUNT = 0.97
NOVELTY_BOUND = 1.0 / (1.0 - NOVELTY_DISCOUNT)
# Probability of following the novelty where it is at its bound; probabilities above 1 count as 1
NOVELTY_SHARE = 2.0
# At visit n the means of errors have the stepsize n^-FORGETTING.
FORGETTING = 0.9
# Probability per step that the choice between novelty and values is drawn again
TURN = 0.01
# Stepsize of the mean novelty of the first state of an episode
FIRST_RATE = 0.1
# Pairs stored for replay; maximum number of steps between replays; pairs replayed per step made since
N_RECENT = 2000
LONGEST_WAIT = 100
REPEATS = 10
# Stored in place of the next state of a pair if that was terminal
THE_END = -1.0


def fields(sizes):
    """The fields of the payload: values, visits, stepsizes and traces, and more for each action.

    These are U, b, w, l, the cell and the reward that the action led to last, and whether either of
    them has ever changed.
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
        **outcomes.fields(sizes),
    }


def begin(codebook, sizes, learning_rate, value):
    """Set all values to 0 and all novelties to their bound; the first stepsize is always 1."""
    codebook.payload[:, : len(codebook)] = 0.0
    codebook["rate"][:] = 1.0
    codebook["novelty"][:] = NOVELTY_BOUND
    codebook["noise"][:] = 1.0


@inline_kernel
def first_novelty(state):
    """The first row of the payload with U, after the traces; b, w, l and outcomes of pairs follow."""
    n_actions = open_scratch(state).values.shape[0]
    return first_trace(open_ledger(state).owed.shape[0], n_actions, n_actions)


@inline_kernel
def first_outcome(state):
    """The first row of the payload with the outcomes of pairs (`rules.outcomes`)."""
    return first_novelty(state) + 7 * open_scratch(state).values.shape[0]


@inline_kernel
def choose(state, env, begins, place, draws):
    """Choose the best action by the values or by the novelty; now and then redraw which of them."""
    branches, memory, scratch = open_branches(state), open_memory(state), open_scratch(state)
    block, first, n_actions = (
        branches.payload[scratch.found[0]],
        first_novelty(state),
        scratch.values.shape[0],
    )
    if begins or draws[0] < TURN:
        novelty = largest_of_rows(block, first, n_actions, place)
        memory.exploring[env] = draws[1] < NOVELTY_SHARE / NOVELTY_BOUND * novelty
        if begins:
            figures = open_numbers(state).figures
            figures[names.FIRST_NOVELTY] += FIRST_RATE * (novelty - figures[names.FIRST_NOVELTY])
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
    """Count a visit of the pair, and return its new stepsize; row `extra` is that of its novelty."""
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
    """Compute the novelty of a pair again, and its value if its outcomes are known or never changed."""
    branches, numbers = open_branches(state), open_numbers(state)
    n_actions, width = open_scratch(state).values.shape[0], numbers.counters[names.WIDTH]
    cell, taken = pair // n_actions, pair % n_actions
    branch, place = cell // width, cell % width
    block, novelty = branches.payload[branch], first_novelty(state)
    led_to = novelty + 4 * n_actions + taken
    cell, best, newest = int(block[led_to, place]), 0.0, numbers.figures[names.FIRST_NOVELTY]
    if cell >= 0:
        catch_up(state, cell // width)
        after = branches.payload[cell // width]
        best = largest_of_rows(after, 0, n_actions, cell % width)
        newest = largest_of_rows(after, novelty, n_actions, cell % width)
    visits = block[n_actions + taken, place]
    block[novelty + taken, place] = 1.0 / math.sqrt(visits) + NOVELTY_DISCOUNT * newest
    if is_settled(state, block, first_outcome(state), taken, place):
        raise_value(state, first_outcome(state), branch, place, taken)
    elif block[led_to + 2 * n_actions, place] == 0.0:
        catch_up(state, branch)
        reward = block[led_to + n_actions, place] - find_centre(state)
        block[taken, place] = reward + find_discount(state) * best


@inline_kernel
def replay_pairs(state, env, pair, ended):
    """Renew the last pair and store it; replay earlier ones if the episode ended or after a while."""
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
    """One step of Watkins' Q(lambda); `cell` is the next state, `best_next` its largest value.

    Returns False if the values have diverged; nothing is learned then.
    """
    numbers, branches, ledger = open_numbers(state), open_branches(state), open_ledger(state)
    memory, scratch = open_memory(state), open_scratch(state)
    counters, figures = numbers.counters, numbers.figures
    width, n_actions = counters[names.WIDTH], scratch.values.shape[0]
    place, taken, branch = memory.only[env], memory.action[env], memory.found[env, 0]
    block, first = branches.payload[branch], first_trace(env, n_actions, n_actions)
    catch_up(state, branch)

    follow_rewards(state, reward, cell == THE_END)
    error = reward - find_centre(state) + find_discount(state) * best_next
    error -= block[taken, place]
    if not abs(error) < LARGEST_ERROR:
        return False
    record_error(state, env, abs(error))
    decay_traces(state, env)
    extra = first_novelty(state) + taken
    alpha = find_stepsize(block, taken, n_actions, extra, place, error)
    if block[n_actions + taken, place] > GROWING:
        move_centre(state, alpha * error)

    if has_outcomes(state, first_outcome(state)):
        record_outcome(block, first_outcome(state), n_actions, taken, place, cell, reward, alpha)
    mark_alive(env, branch, ledger)
    scale = memory.trace_scale[env]
    if not is_settled(state, block, first_outcome(state), taken, place):
        block[first + taken, place] = (1.0 - alpha) * block[first + taken, place] + alpha / scale
    ledger.owed[env] += error * scale
    move_along(block[:n_actions], block[first : first + n_actions], width, error * scale)
    ledger.paid[env, branch] = ledger.owed[env]

    led_to = extra + 4 * n_actions
    if block[n_actions + taken, place] > 1.0 and (
        block[led_to, place] != cell or block[led_to + n_actions, place] != reward
    ):
        block[led_to + 2 * n_actions, place] = 1.0
    block[led_to, place], block[led_to + n_actions, place] = cell, reward
    figures[names.KNOWN_STEPS] += 1.0
    return True


@lean_kernel
def observe_table(state, env, observation, reward, terminated, ended, event, draws):
    """Find the cell of an observation, learn from the transition, and choose the next action."""
    numbers, units = open_numbers(state), open_units(state)
    memory, scratch = open_memory(state), open_scratch(state)
    n_found = begin_step(state, env, observation, reward, event)
    if n_found < 0:
        return n_found
    only = activate_cells(state, n_found)
    if event < BEGIN:
        counters, width = numbers.counters, numbers.counters[names.WIDTH]
        counters[names.STEPS] += 1
        counters[names.LEARNING_STEPS] += 1
        best, cell = 0.0, THE_END
        if not terminated:
            best = scratch.values[index_of_largest(scratch.values)]
            cell = float(scratch.found[0] * width + only)
        last, taken = memory.found[env, 0] * width + memory.only[env], memory.action[env]
        if not learn(state, env, numbers.settings[names.SIGN] * reward, best, cell):
            return DIVERGED
        replay_pairs(state, env, last * scratch.values.shape[0] + taken, ended)
        follow_from_below(state, first_outcome(state))
    if event == BEGIN or ended:
        clear_traces(state, env)
    if not ended:
        if event <= BEGIN:
            choose(state, env, event == BEGIN, only, draws)
            for j in range(units.commands.shape[1]):
                memory.command[env, j] = units.commands[memory.action[env], j]
        remember(state, env, n_found, only)
    return memory.action[env]

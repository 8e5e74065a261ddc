# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled steps of actor-critic agents, with the arguments of `step.observe`.

Discrete and continuous actions have separate entry points, so that only the code that is needed gets
compiled.

Blank episodes
--------------
An episode is blank if all its rewards were the usual one and it was truncated rather than terminated.
An actor learns nothing from it. If goals are rare, all episodes are blank: preferences stay at their
initial values, and actions that are drawn independently at each step lead nowhere.

An actor is therefore called lost if most recent episodes were blank, and if the last informative
(non-blank) episode had a larger return than the last blank one, or there has been none. Each action
that a lost actor draws is held for as long as random actions of the warm-up are; steps that only repeat
an action do not enter its traces. An agent that has learned to stay within bounds until the time limit
has blank episodes, too, but no better ones, so it is not lost.

If a lost actor is nearly sure of its action at the beginning or at the end of an episode, it has been
led astray, by chance or by values not yet learned. So all its preferences decay, until it explores.

Stuck actors
------------
An actor is stuck at the end of an episode that was truncated with a smaller return than the running mean
of those that terminated, if it was nearly sure of its last action. A lander, for example, that stands
on the ground, but fires a side engine again and again, never comes to rest. As all it does there is
worth the same, it has become certain of an action by chance, and draws no other. So the preferences of
the cells that were active last decay.

Held noise
----------
An action is drawn from its distribution by a uniform number, a point by one for each coordinate. In
every other episode, by chance, these numbers are kept for a while, ten steps on average for points and
two for discrete actions: the actions drawn then are at the same quantile of their distributions. What a
constant action leads to, such as the greedy one, is hardly seen with new numbers at each step: a lander
whose engine is on half of the time sinks, but with half of the power it hovers.

If a reward says little about the last few actions, such as that of a cart-pole, which is 1 until it
falls, a run of equal actions makes it harder still to tell which of them mattered. The noise of discrete
actions is therefore held only if most rewards of the warm-up were not the usual one.

References
----------
Eberhard, Hollenstein, Pinneri and Martius, "Pink Noise Is All You Need: Colored Noise Exploration in
Deep Reinforcement Learning", ICLR 2023, on noise that is correlated in time.
Dabney, Ostrovski and Barreto, "Temporally-Extended epsilon-Greedy Exploration", ICLR 2021, on holding
actions that are drawn at random.
"""

import numpy as np

from oda_rl._jit import inline_kernel, lean_kernel
from oda_rl._validation import LARGEST
from oda_rl.agents.action_choice import index_of_largest
from oda_rl.agents.beta_policy import draw_point, is_narrow
from oda_rl.agents.codebook_rl import state as names
from oda_rl.agents.codebook_rl.association import find_near, remember
from oda_rl.agents.codebook_rl.rules.actor_critic import find_probabilities, learn
from oda_rl.agents.codebook_rl.state import (
    open_branches,
    open_memory,
    open_numbers,
    open_scratch,
    open_units,
)
from oda_rl.agents.codebook_rl.step import find_state_value, observe, update_codebook
from oda_rl.agents.compiled_rollout import BEGIN, PAUSED

# Lower bound of the probability of an option that was drawn, for a division
TINY = 1e-300
# The scale of observations is adapted during this many times the steps of a warm-up, with discrete and
# with continuous actions. A policy over discrete actions that hardly changes visits ever less, and the
# scale would narrow with it; with continuous actions it is adapted for ever.
NUMBERS_FOLLOWED, POINTS_FOLLOWED = 8, 1 << 40
# Probability with which noise is held in an episode and, in such an episode, from one step to the next,
# for discrete and for continuous actions
HELD_EPISODES, HELD_NUMBERS, HELD_POINTS = 0.5, 0.5, 0.9
# Weight of the last episode in the running share of blank episodes; share above which an actor is lost
EPISODE_RATE, MOST_BLANK = 0.1, 0.5
# The preferences of a lost actor are multiplied by KEPT if its action had at least this probability,
# those of the cells where an actor is stuck by 1 - LOOSENED times their share.
NEARLY_SURE, KEPT, LOOSENED = 0.7, 0.95, 0.3
# Standard deviation of a coordinate in [0, 1] below which an actor is nearly sure of a continuous action
NARROW = 0.1


@inline_kernel
def count_preferences(state):
    """The number of rows of a payload, its first ones, that are preferences."""
    return open_scratch(state).values.shape[0] * open_numbers(state).counters[names.N_BASIS]


@inline_kernel
def decay_preferences(state):
    """Multiply all preferences by `KEPT`."""
    branches, n_preferences = open_branches(state), count_preferences(state)
    for branch in range(branches.payload.shape[0]):
        for row in range(n_preferences):
            preferences = branches.payload[branch, row]
            for i in range(preferences.shape[0]):
                preferences[i] *= KEPT


@inline_kernel
def is_nearly_sure(direction):
    """Whether the action drawn last, with this gradient of its log-probability, was to be expected.

    All entries are 0 after a repeated action, of which nothing is known.
    """
    return 0.0 < direction[index_of_largest(direction)] < 1.0 - NEARLY_SURE


@inline_kernel
def decay_last(state, env):
    """Multiply the preferences of the cells that were active last by 1 - LOOSENED * share."""
    memory, branches, only = open_memory(state), open_branches(state), open_memory(state).only[env]
    n_preferences, width = count_preferences(state), open_numbers(state).counters[names.WIDTH]
    for p in range(memory.n_found[env] * width):
        if only < 0 or only == p:
            block = branches.payload[memory.found[env, p // width]]
            for row in range(n_preferences):
                block[row, p % width] *= 1.0 - LOOSENED * memory.share[env, p]


@inline_kernel
def is_stuck(state, env):
    """Whether an episode that was truncated ended where an actor of discrete actions is stuck."""
    memory, is_discrete = open_memory(state), open_units(state).options.shape[0] > 0
    is_worse = memory.total[env] < open_numbers(state).figures[names.TERMINATED_RETURN]
    return is_discrete and is_worse and is_nearly_sure(memory.direction[env])


@inline_kernel
def average_terminated(figures, total):
    """Update the running mean of the returns of episodes that terminated by the last one, `total`."""
    mean, total = figures[names.TERMINATED_RETURN], min(max(total, -LARGEST), LARGEST)
    figures[names.TERMINATED_RETURN] = total if mean == -np.inf else mean + EPISODE_RATE * (total - mean)


@inline_kernel
def follow_episode(state, env, reward, terminated, ended):
    """Account for a step; at the end of an episode, determine whether the actor is lost in the next."""
    memory, numbers = open_memory(state), open_numbers(state)
    figures = numbers.figures
    if numbers.counters[names.PHASE] != names.LEARNING:
        return
    memory.total[env] += numbers.settings[names.SIGN] * reward
    is_usual = reward == figures[names.USUAL_REWARD] or figures[names.ONLY_COSTS] == 1.0
    memory.told[env] |= terminated or not is_usual
    if ended:
        blank = 0.0 if memory.told[env] else 1.0
        figures[names.BLANK_SHARE] += EPISODE_RATE * (blank - figures[names.BLANK_SHARE])
        figures[names.INFORMATIVE_RETURN if memory.told[env] else names.BLANK_RETURN] = memory.total[env]
        often = figures[names.BLANK_SHARE] > MOST_BLANK
        memory.lost[env] = often and figures[names.INFORMATIVE_RETURN] > figures[names.BLANK_RETURN]
        if memory.total[env] < figures[names.LEAST_RETURN]:
            decay_preferences(state)
        if terminated:
            average_terminated(figures, memory.total[env])
        elif is_stuck(state, env):
            decay_last(state, env)
        memory.told[env], memory.total[env] = False, 0.0


@inline_kernel
def is_held(state, env, draw):
    """Whether a lost actor repeats its last action; if not, `draw` sets how long it holds the next one.

    The preferences do not determine a repeated action, so that its gradient is set to 0.
    """
    memory = open_memory(state)
    if not memory.lost[env]:
        return False
    held = memory.held[env] > 0
    if held:
        memory.held[env] -= 1
        for a in range(memory.direction.shape[1]):
            memory.direction[env, a] = 0.0
    else:
        memory.held[env] = int(draw * open_numbers(state).counters[names.GROWTH_HOLD])
    return held


@inline_kernel
def unsettle(state, env, is_sure):
    """Let all preferences decay if the actor is lost and is nearly sure of its action."""
    if open_memory(state).lost[env] and is_sure:
        decay_preferences(state)


@inline_kernel
def draw_option(preferences, draw, direction):
    """Draw one of the options with these `preferences` (n,) by `draw`, uniform in [0, 1).

    `direction` (n,) becomes the gradient of its log-probability. Returns the option and the relative
    position of `draw` in the interval of that option, which is uniform again and serves as the draw for
    the next part of the action.
    """
    find_probabilities(preferences, direction)
    taken, part = 0, direction[0]
    while draw >= part and taken < direction.shape[0] - 1:
        taken += 1
        part += direction[taken]
    left = (draw - part) / max(direction[taken], TINY) + 1.0
    for a in range(direction.shape[0]):
        direction[a] = (1.0 if a == taken else 0.0) - direction[a]
    direction[taken] = max(direction[taken], TINY)  # 0 is the gradient of a repeated action
    return taken, min(max(left, 0.0), 1.0)


@inline_kernel
def hold_noise(noise, episodes, steps, event, draws, fresh):
    """Set the uniform numbers by which an action is drawn, unless those of the last one are held.

    `noise` (m + 1,) is a row of `Memory.noise`, for m numbers, and `fresh` (m,) are new ones. They are
    held with probability `episodes` in an episode and, if they are, with probability `steps` in a step.
    """
    m = noise.shape[0] - 1
    if event == BEGIN:
        noise[m] = 1.0 if draws[3] < episodes else 0.0
    if event == BEGIN or noise[m] == 0.0 or draws[1] >= steps:
        for j in range(m):
            noise[j] = fresh[j]


@inline_kernel
def choose_number(state, env, n_found, n_near, value, event, draws):
    """Draw a discrete action from the actor, unless the event is RECALL."""
    if event > BEGIN:
        return
    units, memory, scratch = open_units(state), open_memory(state), open_scratch(state)
    memory.exploratory[env] = False  # traces are never cut
    if is_held(state, env, draws[2]):
        return
    noise, varied = memory.noise[env], open_numbers(state).figures[names.VARIED_SHARE]
    episodes = HELD_EPISODES if varied > names.LEAST_VARIED else 0.0
    hold_noise(noise, episodes, HELD_NUMBERS, event, draws, draws[:1])
    action, first, draw = 0, 0, noise[0]
    for count in units.options:
        direction = memory.direction[env, first : first + count]
        taken, draw = draw_option(scratch.values[first : first + count], draw, direction)
        action, first = action * count + taken, first + count
    memory.action[env] = action
    for j in range(units.commands.shape[1]):
        memory.command[env, j] = units.commands[action, j]


@inline_kernel
def choose_point(state, env, n_found, n_near, value, event, draws):
    """Draw a continuous action from the actor, unless the event is RECALL."""
    if event > BEGIN:
        return
    units, memory, scratch = open_units(state), open_memory(state), open_scratch(state)
    memory.exploratory[env] = False
    if is_held(state, env, draws[2]):
        return
    noise = memory.noise[env]
    hold_noise(noise, HELD_EPISODES, HELD_POINTS, event, draws, draws[names.N_DRAWS :])
    draw_point(scratch.values, noise, scratch.best, memory.direction[env])
    for j in range(scratch.best.shape[0]):
        u = 2.0 * scratch.best[j] - 1.0
        memory.command[env, j] = np.float32(units.action_centre[j] + units.action_scale[j] * u)


@inline_kernel
def keep_visited(state, followed):
    """Store evenly spaced observations; returns True if `units.visited` has just been filled.

    `units.visited` (n, n_observed) is filled during the first n steps of learning, and again during the
    steps from n to 2 n, from 2 n to 4 n and so on, until `followed` n.
    """
    units, counters, scratch = open_units(state), open_numbers(state).counters, open_scratch(state)
    n, t, every = units.visited.shape[0], counters[names.LEARNING_STEPS], 1
    if counters[names.PHASE] != names.LEARNING or t >= followed * n:
        return False
    while t >= 2 * n * every:
        every *= 2
    t -= n * every if t >= n else 0
    if t % every == 0:
        for j in range(units.visited.shape[1]):
            units.visited[t // every, j] = scratch.z[j] * units.scale[j] + units.centre[j]
    return t == n * every - 1


@inline_kernel
def follow_step(state, env, reward, terminated, ended, event, code, followed):
    """Finish a step that returned `code`; returns PAUSED if the scale is to be adapted, else `code`."""
    if event < BEGIN and (code >= 0 or code == PAUSED):
        follow_episode(state, env, reward, terminated, ended)
        if keep_visited(state, followed):
            open_numbers(state).counters[names.LEVEL_DONE] = names.VISITED
            code = PAUSED
    return code


@lean_kernel
def observe_numbers(state, env, observation, reward, terminated, ended, event, draws):
    """The step of an actor with discrete actions."""
    transition = observation, reward, terminated, ended, event, draws
    code = observe(find_state_value, learn, choose_number, remember, state, env, *transition)
    code = follow_step(state, env, reward, terminated, ended, event, code, NUMBERS_FOLLOWED)
    if ended or event == BEGIN:
        unsettle(state, env, is_nearly_sure(open_memory(state).direction[env]))
    return code


@lean_kernel
def observe_points(state, env, observation, reward, terminated, ended, event, draws):
    """The step of an actor with continuous actions."""
    transition = observation, reward, terminated, ended, event, draws
    code = observe(find_state_value, learn, choose_point, remember, state, env, *transition)
    code = follow_step(state, env, reward, terminated, ended, event, code, POINTS_FOLLOWED)
    if ended or event == BEGIN:
        unsettle(state, env, is_narrow(open_scratch(state).values, NARROW))
    return code


@lean_kernel
def replay(state, points, order):
    """Let the codebook grow by `points` (n, n_observed), in scaled units, in this `order` (n_steps,).

    Each point is one step of `update_codebook`. Stops early when an annealing level is finished; returns
    the number of steps made.
    """
    counters, scratch = open_numbers(state).counters, open_scratch(state)
    for t in range(order.shape[0]):
        for j in range(points.shape[1]):
            scratch.z[j] = points[order[t], j]
        update_codebook(state, find_near(state, points.shape[1]), 0)
        counters[names.STEPS] += 1
        if counters[names.LEVEL_DONE] == names.FINISHED:
            return t + 1
    return order.shape[0]

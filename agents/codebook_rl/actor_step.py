# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled steps of actor-critic agents, with the arguments of `step.observe`.

Discrete and continuous actions have separate entry points, so that only the code that is needed gets
compiled.
"""

import numpy as np

from oda_rl._jit import inline_kernel, lean_kernel
from oda_rl.agents.beta_policy import draw_point
from oda_rl.agents.codebook_rl.blank_episodes import follow_episode, is_held
from oda_rl.agents.codebook_rl.rules.actor_critic import find_probabilities, learn
from oda_rl.agents.codebook_rl.state import (
    LEARNING,
    LEARNING_STEPS,
    LEVEL_DONE,
    N_DRAWS,
    PHASE,
    VISITED,
    open_memory,
    open_numbers,
    open_scratch,
    open_units,
)
from oda_rl.agents.codebook_rl.step import look, observe, remember
from oda_rl.agents.compiled_rollout import BEGIN, PAUSED

# Lower bound of the probability of an option that was drawn, for a division
TINY = 1e-300
# The scale of observations is adapted during this many times the steps of a warm-up, with discrete and
# with continuous actions. A policy over discrete actions that hardly changes visits ever less, and the
# scale would narrow with it; with continuous actions it is adapted for ever.
NUMBERS_FOLLOWED, POINTS_FOLLOWED = 8, 1 << 40


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
    return taken, min(max(left, 0.0), 1.0)


@inline_kernel
def choose_number(state, env, n_found, n_near, value, event, draws):
    """Draw a discrete action from the actor, unless the event is RECALL."""
    if event > BEGIN:
        return
    units, memory, scratch = open_units(state), open_memory(state), open_scratch(state)
    memory.exploratory[env] = False  # traces are never cut
    if is_held(state, env, draws[2]):
        return
    action, first, draw = 0, 0, draws[0]
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
    draw_point(scratch.values, draws[N_DRAWS:], scratch.best, memory.direction[env])
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
    n, t, every = units.visited.shape[0], counters[LEARNING_STEPS], 1
    if counters[PHASE] != LEARNING or t >= followed * n:
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
            open_numbers(state).counters[LEVEL_DONE] = VISITED
            code = PAUSED
    return code


@lean_kernel
def observe_numbers(state, env, observation, reward, terminated, ended, event, draws):
    """The step of an actor with discrete actions."""
    told = observation, reward, terminated, ended, event, draws
    code = observe(look, learn, choose_number, remember, state, env, *told)
    return follow_step(state, env, reward, terminated, ended, event, code, NUMBERS_FOLLOWED)


@lean_kernel
def observe_points(state, env, observation, reward, terminated, ended, event, draws):
    """The step of an actor with continuous actions."""
    told = observation, reward, terminated, ended, event, draws
    code = observe(look, learn, choose_point, remember, state, env, *told)
    return follow_step(state, env, reward, terminated, ended, event, code, POINTS_FOLLOWED)

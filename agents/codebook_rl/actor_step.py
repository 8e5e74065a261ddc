# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""The compiled steps of agents with an actor; arguments and parts are those of `step`.

There is one for numbered actions and one for points, so that nobody waits for code of the other kind.
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

# No probability of an option that was drawn is less.
TINY = 1e-300
# The scale of numbered actions follows up to so many times the steps of a warm-up, that of points for
# ever: with a policy that hardly changes, what it visits gets ever less.
NUMBERS_FOLLOWED, POINTS_FOLLOWED = 8, 1 << 40


@inline_kernel
def draw_option(preferences, draw, direction):
    """Draw one of the options with these `preferences` (n,) by `draw`, uniform in [0, 1).

    `direction` (n,) becomes the gradient of its log-probability. Returns the option, and where between
    the bounds of its part of [0, 1) the draw lay: uniform again, for the next part of the action.
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
    """Draw a numbered action from the actor, unless it is recalled."""
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
    """The same for an action that is a point of a Box."""
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
    """Keep every so many of the observations since the steps last doubled; True where they do so again.

    So `units.visited` (n, n_observed) is filled by the steps up to n, 2 n, 4 n, ..., `followed` n.
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
    """Note a step that has been made, with this `code`; returns PAUSED where the scale is to follow."""
    if event < BEGIN and (code >= 0 or code == PAUSED):
        follow_episode(state, env, reward, terminated, ended)
        if keep_visited(state, followed):
            open_numbers(state).counters[LEVEL_DONE] = VISITED
            code = PAUSED
    return code


@lean_kernel
def observe_numbers(state, env, observation, reward, terminated, ended, event, draws):
    """The step of an actor that draws numbered actions."""
    told = observation, reward, terminated, ended, event, draws
    code = observe(look, learn, choose_number, remember, state, env, *told)
    return follow_step(state, env, reward, terminated, ended, event, code, NUMBERS_FOLLOWED)


@lean_kernel
def observe_points(state, env, observation, reward, terminated, ended, event, draws):
    """The step of an actor that draws points of a Box."""
    told = observation, reward, terminated, ended, event, draws
    code = observe(look, learn, choose_point, remember, state, env, *told)
    return follow_step(state, env, reward, terminated, ended, event, code, POINTS_FOLLOWED)

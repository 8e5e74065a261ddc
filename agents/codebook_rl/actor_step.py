# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""The compiled step of an agent with an actor; arguments and parts are those of `step`."""

import numpy as np

from oda_rl._jit import inline_kernel, lean_kernel
from oda_rl.agents.beta_policy import draw_point
from oda_rl.agents.codebook_rl.rules.actor_critic import find_probabilities, learn
from oda_rl.agents.codebook_rl.rules.traces import forget
from oda_rl.agents.codebook_rl.state import (
    LEARNING,
    N_BASIS,
    N_DRAWS,
    PHASE,
    open_memory,
    open_numbers,
    open_scratch,
    open_units,
)
from oda_rl.agents.codebook_rl.step import (
    activate,
    begin,
    count_step,
    finish,
    remember,
    value_of_rows,
)
from oda_rl.agents.compiled_rollout import BEGIN, DIVERGED


@inline_kernel
def learn_from(state, env, reward, terminated):
    """Count a step and learn from what the last action led to; False if the values have diverged."""
    numbers, scratch = open_numbers(state), open_scratch(state)
    counters, n_basis = numbers.counters, numbers.counters[N_BASIS]
    bounded = count_step(state, reward, terminated)
    fine = True
    if counters[PHASE] == LEARNING:
        critic = scratch.values.shape[0] * n_basis
        value = value_of_rows(scratch.sums, critic, n_basis, scratch.z)
        fine = learn(state, env, bounded, 0.0 if terminated else value)
    return fine


@inline_kernel
def choose(state, env, draws):
    """Draw a numbered action from the actor."""
    units, memory, scratch = open_units(state), open_memory(state), open_scratch(state)
    direction = memory.direction[env]
    find_probabilities(scratch.values, direction)
    action, part = 0, direction[0]
    while draws[0] >= part and action < direction.shape[0] - 1:
        action += 1
        part += direction[action]
    memory.action[env] = action
    for a in range(direction.shape[0]):
        direction[a] = (1.0 if a == action else 0.0) - direction[a]
    for j in range(units.commands.shape[1]):
        memory.command[env, j] = units.commands[action, j]


@inline_kernel
def choose_point(state, env, draws):
    """The same for an action that is a point of a Box."""
    units, memory, scratch = open_units(state), open_memory(state), open_scratch(state)
    draw_point(scratch.values, draws[N_DRAWS:], scratch.best, memory.direction[env])
    for j in range(scratch.best.shape[0]):
        u = 2.0 * scratch.best[j] - 1.0
        memory.command[env, j] = np.float32(units.action_centre[j] + units.action_scale[j] * u)


@lean_kernel
def observe_actor(state, env, observation, reward, terminated, ended, event, draws):
    """All that an observation asks for."""
    memory = open_memory(state)
    n_found = begin(state, env, observation, reward, event)
    if n_found < 0:
        return n_found
    only = activate(state, n_found)
    if event < BEGIN and not learn_from(state, env, reward, terminated):
        return DIVERGED
    if event == BEGIN or ended:
        forget(state, env)
    if not ended:
        if event <= BEGIN:
            if open_units(state).action_centre.shape[0] > 0:
                choose_point(state, env, draws)
            else:
                choose(state, env, draws)
            memory.exploratory[env] = False  # traces are never cut
        remember(state, env, n_found, only)
    return finish(state, env, n_found, event, False, ended)

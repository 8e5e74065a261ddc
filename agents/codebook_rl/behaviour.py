# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""What to do next: the behaviour of the agent, and the greedy action where actions are continuous."""

import numpy as np

from oda_rl._jit import inline_kernel, vector_kernel
from oda_rl.agents.action_choice import begin_random, choose_numbered, falling
from oda_rl.agents.codebook_rl.association import add_distances, dot, shares_of_all, smallest
from oda_rl.agents.codebook_rl.state import (
    EPSILON_END,
    EPSILON_START,
    EPSILON_STEPS,
    GROWTH_HOLD,
    HOLD,
    LEARNING,
    LEARNING_STEPS,
    N_CELLS,
    N_DRAWS,
    PHASE,
)

# With continuous actions, cells further from the observation than the nearest one by more than so many
# temperatures do not speak.
NEAR = 5.0
# The refinement of a continuous action: first step and halvings, in half ranges of the action
FIRST_STEP = 1.0
HALVINGS = 4


@inline_kernel
def exploration_rate(settings, learning_steps):
    """Epsilon, falling linearly and then constant."""
    return falling(
        settings[EPSILON_START], settings[EPSILON_END], learning_steps, settings[EPSILON_STEPS]
    )


@inline_kernel
def begins_random(draw, settings, counters):
    """Whether a random action begins now, and how long such actions are held at most."""
    if counters[PHASE] != LEARNING:
        return True, counters[GROWTH_HOLD]
    hold = counters[HOLD]
    epsilon = exploration_rate(settings, counters[LEARNING_STEPS])
    return draw < begin_random(epsilon, hold), hold


@inline_kernel
def choose(env, draws, settings, counters, values, units, memory):
    """Choose the behaviour's action of environment `env`: epsilon-greedy, random actions held."""
    random, hold = begins_random(draws[0], settings, counters)
    choose_numbered(env, draws, random, hold, values, memory)
    for j in range(units.commands.shape[1]):
        memory.command[env, j] = units.commands[memory.action[env], j]


@inline_kernel
def look_around(n_observed, temperature, n_cells, n_basis, q, location, scratch):
    """Gather the cells that speak for the observation, whatever the action; returns their number.

    What does not depend on the action is found here: the distances of the observation in
    `scratch.partial`, what the cells say of it in `scratch.local`, which they are in `scratch.cells`.
    """
    distance, partial, local, cells = scratch.distance, scratch.partial, scratch.local, scratch.cells
    for i in range(n_cells):
        distance[i] = 0.0
    add_distances(scratch.z, 0, n_observed, location, n_cells, distance)
    limit = smallest(distance, n_cells) + NEAR * temperature
    n = 0
    for i in range(n_cells):
        if distance[i] <= limit:
            cells[n] = i
            partial[n] = distance[i]
            value = q[0, i]
            if n_basis > 1:
                for j in range(n_observed):
                    value += q[1 + j, i] * scratch.z[j]
            local[n] = value
            n += 1
    interact = scratch.z.shape[0] > location.shape[0] and n_basis > 1
    first = 1 + location.shape[0]
    for j in range(scratch.trial.shape[0]):
        for k in range(n):
            scratch.actions[j, k] = location[n_observed + j, cells[k]]
            slope = q[1 + n_observed + j, cells[k]] if n_basis > 1 else 0.0
            if interact:
                for o in range(n_observed):
                    slope += q[first + j * n_observed + o, cells[k]] * scratch.z[o]
            scratch.slopes[j, k] = slope
    return n


@vector_kernel
def value_at(action, n_near, temperature, scratch):
    """Q(x, u) for the action u, after `look_around`.

    Among the cells that speak for the observation, those whose action is near speak. Leaves the
    distances and the shares of the pair in `scratch`, in the order of `scratch.cells`.
    """
    distance, share = scratch.distance, scratch.share
    for k in range(n_near):
        distance[k] = scratch.partial[k]
    for j in range(action.shape[0]):
        row = scratch.actions[j]
        for k in range(n_near):
            away = row[k] - action[j]
            distance[k] += away * away
    shares_of_all(distance, n_near, temperature, share)
    value = dot(share, scratch.local, n_near)
    for j in range(action.shape[0]):
        value += dot(share, scratch.slopes[j], n_near) * action[j]
    return value


@inline_kernel
def best_action(draw, reach, temperature, n_near, scratch):
    """Search the action of largest Q(x, u), after `look_around`; leaves it in `scratch.best`, returns Q.

    The search begins at the action of the cell that says most, among those nearest to the observation;
    `draw` decides between equals. From there it moves between the cells, along each coordinate in turn,
    with ever smaller steps.
    """
    partial, best, trial = scratch.partial, scratch.best, scratch.trial
    n_action = best.shape[0]
    limit = smallest(partial, n_near) + temperature
    most = -np.inf
    start = int(draw * n_near)
    for step in range(n_near):
        k = (step + start) % n_near
        if partial[k] <= limit:
            says = scratch.local[k]
            for j in range(n_action):
                says += scratch.slopes[j, k] * scratch.actions[j, k]
            if says > most:
                most = says
                for j in range(n_action):
                    best[j] = min(max(scratch.actions[j, k], -reach[j]), reach[j])
    value = value_at(best, n_near, temperature, scratch)
    width = FIRST_STEP
    for _ in range(HALVINGS):
        for j in range(n_action):
            for sign in (-1.0, 1.0):
                for other in range(n_action):
                    trial[other] = best[other]
                trial[j] = min(max(best[j] + sign * width * reach[j], -reach[j]), reach[j])
                found = value_at(trial, n_near, temperature, scratch)
                if found > value:
                    value = found
                    best[j] = trial[j]
        width *= 0.5
    return value


@inline_kernel
def choose_joint(
    env, draws, settings, counters, temperature, best_value, n_near, units, memory, scratch
):
    """Choose the behaviour's continuous action: greedy, or anywhere in the action space and held.

    Leaves the distances and the shares of the observation with that action in `scratch`.
    """
    n_observed = units.centre.shape[0]
    trial = scratch.trial
    random, hold = begins_random(draws[0], settings, counters)
    if memory.held[env] > 0:
        memory.held[env] -= 1
        for j in range(trial.shape[0]):
            trial[j] = memory.z[env, n_observed + j]
    elif random:
        for j in range(trial.shape[0]):
            trial[j] = (2.0 * draws[N_DRAWS + j] - 1.0) * units.action_reach[j]
        memory.held[env] = int(draws[2] * hold)
    else:
        for j in range(trial.shape[0]):
            trial[j] = scratch.best[j]
    value = value_at(trial, n_near, temperature, scratch)
    memory.exploratory[env] = value < best_value
    for j in range(trial.shape[0]):
        scratch.z[n_observed + j] = trial[j]
        memory.command[env, j] = np.float32(units.action_centre[j] + units.action_scale[j] * trial[j])
    n_features = n_observed + trial.shape[0]
    for k in range(n_features, scratch.z.shape[0]):
        j, o = divmod(k - n_features, n_observed)
        scratch.z[k] = trial[j] * scratch.z[o]
    spread(n_near, counters[N_CELLS], scratch)


@inline_kernel
def spread(n_near, n_cells, scratch):
    """Put the shares of the gathered cells where those cells stand in the codebook."""
    for k in range(n_near):
        scratch.partial[k] = scratch.share[k]
    for i in range(n_cells):
        scratch.share[i] = 0.0
    for k in range(n_near):
        scratch.share[scratch.cells[k]] = scratch.partial[k]

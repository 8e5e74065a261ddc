# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""The compiled step of Q-learning with continuous actions, which are part of a location."""

import numpy as np

from oda_rl._jit import inline_kernel, lean_kernel, vector_kernel
from oda_rl.agents.codebook_rl import state as names
from oda_rl.agents.codebook_rl.association import (
    find_near,
    remember,
    scale_observation,
    shares_of_all,
    value_temperature,
)
from oda_rl.agents.codebook_rl.rules.q_lambda import learn
from oda_rl.agents.codebook_rl.rules.traces import read_block
from oda_rl.agents.codebook_rl.state import (
    open_branches,
    open_memory,
    open_numbers,
    open_scratch,
    open_units,
)
from oda_rl.agents.codebook_rl.step import begins_random, observe
from oda_rl.agents.compiled_rollout import BEGIN
from oda_rl.codebook.association import add_distances, smallest

# Cells are not active if their squared distance from the observation exceeds that of the nearest cell by
# more than this many temperatures.
NEAR = 5.0
# The search for a continuous action: its first step, in half ranges of the action, and the number of
# step lengths, each half of the one before
FIRST_STEP = 1.0
HALVINGS = 4


@inline_kernel
def gather_near(state, n_found):
    """Gather the cells near the observation, regardless of their action; returns their number.

    For each of them it computes what does not depend on the action (see `Scratch`).
    """
    numbers, branches, scratch = open_numbers(state), open_branches(state), open_scratch(state)
    width, n_basis = numbers.counters[names.WIDTH], numbers.counters[names.N_BASIS]
    n_features, n_joint = branches.location.shape[1], scratch.trial.shape[0]
    n_observed = n_features - n_joint
    interact = scratch.z.shape[0] > n_features and n_basis > 1
    limit = smallest(scratch.distance, n_found * width)
    limit += NEAR * value_temperature(numbers.settings)
    n = 0
    for k in range(n_found):
        location, block = branches.location[scratch.found[k]], read_block(state, k)
        for i in range(width):
            if scratch.distance[k * width + i] > limit:
                continue
            scratch.cells[n] = k * width + i
            scratch.partial[n] = scratch.distance[k * width + i]
            value = block[0, i]
            if n_basis > 1:
                for j in range(n_observed):
                    value += block[1 + j, i] * scratch.z[j]
            scratch.local[n] = value
            for j in range(n_joint):
                scratch.actions[j, n] = location[n_observed + j, i]
                slope = block[1 + n_observed + j, i] if n_basis > 1 else 0.0
                if interact:
                    for o in range(n_observed):
                        slope += block[1 + n_features + j * n_observed + o, i] * scratch.z[o]
                scratch.slopes[j, n] = slope
            n += 1
    return n


@vector_kernel
def value_at(action, n_near, temperature, partial, local, actions, slopes, distance, share):
    """Q(x, u) for the action u, after `gather_near`.

    Of the cells near the observation, those with an action near u are active. Fills `distance` and
    `share` for this pair, in the order of `scratch.cells`; the arguments from `partial` on are arrays of
    `Scratch`.
    """
    for k in range(n_near):
        distance[k] = partial[k]
    for j in range(action.shape[0]):
        row = actions[j]
        for k in range(n_near):
            away = row[k] - action[j]
            distance[k] += away * away
    shares_of_all(distance, n_near, temperature, share)
    value = 0.0
    for k in range(n_near):
        value += share[k] * local[k]
    for j in range(action.shape[0]):
        row, slope = slopes[j], 0.0
        for k in range(n_near):
            slope += share[k] * row[k]
        value += slope * action[j]
    return value


@inline_kernel
def value_of(state, action, n_near):
    """Call `value_at` with the arrays of `Scratch`."""
    s = open_scratch(state)
    temperature = value_temperature(open_numbers(state).settings)
    return value_at(
        action, n_near, temperature, s.partial, s.local, s.actions, s.slopes, s.distance, s.share
    )


@inline_kernel
def find_best(state, n_near, draw):
    """Search for the action of largest Q(x, u), after `gather_near`; fills `scratch.best`, returns Q.

    The search begins at the action of the cell with the largest value, among the cells nearest to the
    observation; `draw`, uniform in [0, 1), breaks ties. From there it moves along each coordinate in
    turn, with ever smaller steps.
    """
    numbers, scratch, reach = open_numbers(state), open_scratch(state), open_units(state).action_reach
    best, trial = scratch.best, scratch.trial
    n_joint = best.shape[0]
    if numbers.counters[names.PHASE] != names.LEARNING:
        for j in range(n_joint):
            best[j] = 0.0
        return 0.0
    limit = smallest(scratch.partial, n_near) + value_temperature(numbers.settings)
    most = -np.inf
    start = int(draw * n_near)
    for i in range(n_near):
        k = (i + start) % n_near
        if scratch.partial[k] <= limit:
            own = scratch.local[k]
            for j in range(n_joint):
                own += scratch.slopes[j, k] * scratch.actions[j, k]
            if own > most:
                most = own
                for j in range(n_joint):
                    best[j] = min(max(scratch.actions[j, k], -reach[j]), reach[j])
    value = value_of(state, best, n_near)
    length = FIRST_STEP
    for _ in range(HALVINGS):
        for j in range(n_joint):
            for sign in (-1.0, 1.0):
                for other in range(n_joint):
                    trial[other] = best[other]
                trial[j] = min(max(best[j] + sign * length * reach[j], -reach[j]), reach[j])
                found = value_of(state, trial, n_near)
                if found > value:
                    value = found
                    best[j] = trial[j]
        length *= 0.5
    return value


@inline_kernel
def draw_joint(state, env, draws):
    """Choose the continuous action of an environment: greedy, or uniformly random and then held.

    Stores it in `scratch.trial`.
    """
    numbers, units = open_numbers(state), open_units(state)
    memory, scratch = open_memory(state), open_scratch(state)
    trial, n_joint = scratch.trial, scratch.trial.shape[0]
    n_observed = units.centre.shape[0]
    random, hold = begins_random(draws[0], numbers.settings, numbers.counters)
    if memory.held[env] > 0:
        memory.held[env] -= 1
        for j in range(n_joint):
            trial[j] = memory.z[env, n_observed + j]
    elif random:
        for j in range(n_joint):
            trial[j] = (2.0 * draws[names.N_DRAWS + j] - 1.0) * units.action_reach[j]
        memory.held[env] = int(draws[2] * hold)
    else:
        for j in range(n_joint):
            trial[j] = scratch.best[j]
    for j in range(n_joint):
        memory.command[env, j] = np.float32(units.action_centre[j] + units.action_scale[j] * trial[j])


@inline_kernel
def take_joint(state, n_found, n_near):
    """Fill `scratch` for the observation with the action `scratch.trial`; returns Q(x, u)."""
    counters, scratch = open_numbers(state).counters, open_scratch(state)
    trial, n_joint = scratch.trial, scratch.trial.shape[0]
    n_features = open_branches(state).location.shape[1]
    n_observed = n_features - n_joint
    value = value_of(state, trial, n_near)
    for j in range(n_joint):
        scratch.z[n_observed + j] = trial[j]
    for k in range(n_features, scratch.z.shape[0]):
        j, o = divmod(k - n_features, n_observed)
        scratch.z[k] = trial[j] * scratch.z[o]
    # The shares of the cells gathered go to the places of those cells.
    for k in range(n_near):
        scratch.partial[k] = scratch.share[k]
    for p in range(n_found * counters[names.WIDTH]):
        scratch.share[p] = 0.0
    for k in range(n_near):
        scratch.share[scratch.cells[k]] = scratch.partial[k]
    return value


@inline_kernel
def choose_joint(state, env, n_found, n_near, best, event, draws):
    """Choose the continuous action, or recall the last one, and fill `scratch` for `remember_joint`."""
    scratch, n_observed = open_scratch(state), open_units(state).centre.shape[0]
    if event <= BEGIN:
        draw_joint(state, env, draws)
    else:
        for j in range(scratch.trial.shape[0]):
            scratch.trial[j] = scratch.z[n_observed + j]
    value = take_joint(state, n_found, n_near)
    if event <= BEGIN:
        open_memory(state).exploratory[env] = value < best
    measure_distances(state, n_found, n_observed + scratch.trial.shape[0])


@lean_kernel
def measure_distances(state, n_found, n_coordinates):
    """Find the squared distances of `scratch.z` from the cells of the branches found.

    Distances are taken along the first `n_coordinates` of a location.
    """
    counters, branches, scratch = open_numbers(state).counters, open_branches(state), open_scratch(state)
    width = counters[names.WIDTH]
    for k in range(n_found):
        branch = scratch.found[k]
        away = scratch.distance[k * width : (k + 1) * width]
        for i in range(width):
            away[i] = 0.0
        add_distances(scratch.z, 0, n_coordinates, branches.location[branch], width, away)
        scratch.tally[names.DISTANCES] += branches.size[branch]


@inline_kernel
def find_joint_value(state, n_found, event, draws):
    """`find_value` of `step.observe`, for a location with an action."""
    n_near = gather_near(state, n_found)
    return -1, n_near, find_best(state, n_near, draws[3]) if event <= BEGIN else 0.0


@inline_kernel
def remember_joint(state, env, n_found, only):
    """`remember` for a location with an action: the norm includes the squares of the products, too."""
    remember(state, env, n_found, only)
    numbers, branches = open_numbers(state), open_branches(state)
    memory, scratch = open_memory(state), open_scratch(state)
    n_features, width = branches.location.shape[1], numbers.counters[names.WIDTH]
    if scratch.z.shape[0] == n_features or numbers.counters[names.N_BASIS] == 1:
        return
    temperature, norm = value_temperature(numbers.settings), memory.norm[env]
    # (distance in observation) x (distance in action)
    n_observed, kept = n_features - scratch.best.shape[0], memory.share[env]
    for k in range(n_found):
        location = branches.location[scratch.found[k]]
        for i in range(width):
            p = k * width + i
            if kept[p] > 0.0:
                observed = 0.0
                for j in range(n_observed):
                    observed += (scratch.z[j] - location[j, i]) ** 2
                acted = scratch.distance[p] - observed
                norm += kept[p] * kept[p] * observed * acted / (temperature * temperature)
    memory.norm[env] = norm


@lean_kernel
def observe_joint(state, env, observation, reward, terminated, ended, event, draws):
    """The step of Q-learning with continuous actions, which are part of a location."""
    transition = observation, reward, terminated, ended, event, draws
    return observe(find_joint_value, learn, choose_joint, remember_joint, state, env, *transition)


@lean_kernel
def evaluate_joint(state, observations, actions, values):
    """As `evaluate_numbered`, for continuous actions: `actions` (n, n_joint) and `values` (n, 1)."""
    units, scratch = open_units(state), open_scratch(state)
    for t in range(observations.shape[0]):
        if not scale_observation(state, observations[t]):
            return False
        n_near = gather_near(state, find_near(state, observations.shape[1]))
        values[t, 0] = find_best(state, n_near, 0.0)
        for j in range(actions.shape[1]):
            centre, scale = units.action_centre[j], units.action_scale[j]
            actions[t, j] = np.float32(centre + scale * scratch.best[j])
    return True

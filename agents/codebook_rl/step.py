# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""The compiled step of the codebook agents: find the active cells, learn, choose, move the cells.

One call of `observe` handles a transition: it makes a step of the learning rule over soft aggregate
states and, at some steps, an update of the slow annealer. The result of one search of the codebook is
used for the value of the state, for the choice of the next action, and for the annealer.

Its last arguments are those that `oda_rl.agents.compiled_rollout` passes:

- `state`, the table of the groups in module `state`; `env`, the index of the environment;
- `observation` (n_observed,), float64, in the environment's units; `reward`;
- `terminated`, whether the state is terminal; `ended`, whether the episode is over;
- `event`: STEP, a transition; BEGIN, the first observation of an episode, with nothing to learn from
  yet; RECALL, a change of the codebook, after which the active cells are found again for the stored
  observation and action;
- `draws` (N_DRAWS + number of coordinates of a continuous action,), uniform numbers in [0, 1).

It returns the next action (0 if actions are continuous), or a code below 0.
"""

import math

import numpy as np

from oda_rl._jit import inline_kernel, lean_kernel
from oda_rl.agents import bounds
from oda_rl.agents.action_choice import index_of_largest
from oda_rl.agents.codebook_rl.association import (
    average_rows,
    find_near,
    find_shares_by_label,
    leverage,
    recall,
    shares_of_all,
    value_temperature,
)
from oda_rl.agents.codebook_rl.behaviour import choose, choose_joint, find_best, gather_near
from oda_rl.agents.codebook_rl.codebook_update import is_single_step, update_codebook
from oda_rl.agents.codebook_rl.rules.q_lambda import learn
from oda_rl.agents.codebook_rl.rules.traces import catch_up, forget, read_block
from oda_rl.agents.codebook_rl.state import (
    BEST_ENDING,
    BEST_GOING_ON,
    FINISHED,
    GAMMA,
    LEARNING,
    LEARNING_STEPS,
    LEVEL_DONE,
    N_BASIS,
    N_LABELS,
    NEXT_SLOW,
    PHASE,
    REWARDS,
    SIGN,
    SOFTNESS,
    STEPS,
    TEMPERATURE,
    WIDTH,
    open_branches,
    open_memory,
    open_numbers,
    open_scratch,
    open_units,
)
from oda_rl.agents.compiled_rollout import (
    BAD_OBSERVATION,
    BAD_REWARD,
    BEGIN,
    DIVERGED,
    PAUSED,
    RECALL,
)
from oda_rl.codebook.association import index_of_smallest


@inline_kernel
def scale_observation(state, observation):
    """Fill `scratch.z` with the observation in scaled units, limited by `bounds.keep_inside`.

    Returns False if a coordinate is not finite or, in a table of states, not one of its values.
    """
    units, scratch = open_units(state), open_scratch(state)
    finite = True
    for j in range(units.centre.shape[0]):
        finite &= math.isfinite(observation[j])
        z = (observation[j] - units.centre[j]) / units.scale[j]
        if units.counts.shape[0] > 0:
            finite &= 0.0 <= z < units.counts[j] and z == math.floor(z)
        else:
            z = bounds.keep_inside(z, units.lowest[j], units.highest[j])
        scratch.z[j] = z
    return finite


@inline_kernel
def value_of_rows(sums, base, n_basis, z):
    """The linear function of z with the coefficients in `sums`, from `base` on."""
    value = sums[base]
    for j in range(n_basis - 1):
        value += sums[base + 1 + j] * z[j]
    return value


@inline_kernel
def activate(state, n_found):
    """Find the active cells for `scratch.z`, and fill `scratch.values` with Q of every action.

    Returns the place of the active cell if there is only one (softness 0), else -1.
    """
    numbers, scratch = open_numbers(state), open_scratch(state)
    counters, share = numbers.counters, scratch.share
    width, n_basis = counters[WIDTH], counters[N_BASIS]
    temperature = numbers.settings[SOFTNESS] * numbers.settings[TEMPERATURE]
    only = -1
    if counters[N_LABELS] > 1:
        find_shares_by_label(state, n_found, temperature)
    elif temperature > 0.0:
        shares_of_all(scratch.distance, n_found * width, temperature, share)
    else:
        only = index_of_smallest(scratch.distance, n_found * width)
        share[only] = 1.0
    n_rows, n_added = scratch.sums.shape[0], 0
    for k in range(n_found):
        own = only - k * width if only >= 0 else -1
        if only < 0 or 0 <= own < width:
            part = share[k * width : (k + 1) * width]
            sums = scratch.sums if n_added == 0 else scratch.parts
            average_rows(part, own, read_block(state, k), 0, n_rows, width, sums)
            for r in range(n_rows if n_added > 0 else 0):
                scratch.sums[r] += scratch.parts[r]
            n_added += 1
    for a in range(scratch.values.shape[0]):
        scratch.values[a] = value_of_rows(scratch.sums, a * n_basis, n_basis, scratch.z)
    return only


@inline_kernel
def remember(state, env, n_found, only):
    """Store what the next step learns from: the location, and the cells active for the action."""
    numbers, memory, scratch = open_numbers(state), open_memory(state), open_scratch(state)
    counters, width, kept = numbers.counters, numbers.counters[WIDTH], memory.share[env]
    for j in range(scratch.z.shape[0]):
        memory.z[env, j] = scratch.z[j]
    for k in range(n_found):
        memory.found[env, k] = scratch.found[k]
    memory.n_found[env] = n_found
    memory.only[env] = only
    if only >= 0:
        kept[only] = 1.0
    else:
        for p in range(n_found * width):
            kept[p] = scratch.share[p]
        if counters[N_LABELS] > 1:
            for p in range(n_found * width):
                if scratch.label[p] != memory.action[env]:
                    kept[p] = 0.0
    temperature = value_temperature(numbers.settings)
    memory.norm[env] = leverage(
        scratch.distance, kept, only, n_found * width, temperature, counters[N_BASIS] > 1
    )


@inline_kernel
def remember_joint(state, env, n_found, only):
    """`remember` for a location with an action: the norm includes the squares of the products, too."""
    remember(state, env, n_found, only)
    numbers, branches = open_numbers(state), open_branches(state)
    memory, scratch = open_memory(state), open_scratch(state)
    n_features, width = branches.location.shape[1], numbers.counters[WIDTH]
    if scratch.z.shape[0] == n_features or numbers.counters[N_BASIS] == 1:
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


@inline_kernel
def count_step(state, reward, terminated):
    """Count a step and record its reward; returns the reward to maximise, bounded."""
    numbers = open_numbers(state)
    settings, counters, figures = numbers.settings, numbers.counters, numbers.figures
    counters[STEPS] += 1
    counters[LEARNING_STEPS] += counters[PHASE] == LEARNING
    bounded = bounds.bound_reward(settings[SIGN] * reward, settings[GAMMA], figures, REWARDS)
    if counters[PHASE] != LEARNING:
        best = BEST_ENDING if terminated else BEST_GOING_ON
        figures[best] = max(figures[best], bounded)
    return bounded


@inline_kernel
def learn_from(rule, state, env, reward, terminated, value):
    """Count a step and, in the learning phase, learn from the transition by a `rule`.

    `value` is that of the next observation. Returns False if the values have diverged.
    """
    bounded = count_step(state, reward, terminated)
    learning = open_numbers(state).counters[PHASE] == LEARNING
    return not learning or rule(state, env, bounded, 0.0 if terminated else value)


@inline_kernel
def begin(state, env, observation, reward, event):
    """Fill `scratch.z`, and find the branches near it. Returns their number, or a code below 0."""
    scratch, n_found = open_scratch(state), 0
    if not math.isfinite(reward):
        n_found = BAD_REWARD
    elif event == RECALL:
        recall(state, env)
    elif not scale_observation(state, observation):
        n_found = BAD_OBSERVATION
    else:
        units = open_units(state)
        for j in range(units.lowest.shape[0]):
            units.lowest[j] = min(units.lowest[j], max(scratch.z[j], -bounds.FARTHEST))
            units.highest[j] = max(units.highest[j], min(scratch.z[j], bounds.FARTHEST))
    if n_found == 0:
        n_found = find_near(state, open_units(state).centre.shape[0])
        # A flat codebook is always up to date.
        for k in range(n_found if scratch.block.shape[0] > 0 else 0):
            catch_up(state, scratch.found[k])
    return n_found


@inline_kernel
def finish(state, env, n_found, event, ended):
    """Make an update on the slow timescale if it is due. Returns the next action, or PAUSED."""
    numbers, memory = open_numbers(state), open_memory(state)
    counters, n_observed = numbers.counters, open_units(state).centre.shape[0]
    n_features = open_branches(state).location.shape[1]
    paired = counters[N_LABELS] > 1 or n_features > n_observed
    due = event < BEGIN and counters[STEPS] >= numbers.figures[NEXT_SLOW]
    single = is_single_step(state, event, ended)
    if due and single:  # only the first observation of the episode comes with a choice of action
        recall(state, env)
        n_found = find_near(state, n_features)
    # A codebook of pairs learns from observations with the action that follows.
    if due and (single or not (paired and ended)):
        label = memory.action[env] if counters[N_LABELS] > 1 else 0
        update_codebook(state, n_found, label)
    return PAUSED if counters[LEVEL_DONE] == FINISHED and event < BEGIN else memory.action[env]


@inline_kernel
def observe(
    look, rule, choose, remember, state, env, observation, reward, terminated, ended, event, draws
):
    """Handle an observation. Four kernels distinguish the kinds of agents:

    - `look(state, n_found, event, draws)` finds the active cells. Returns the place of the only active
      cell or -1, the number of cells that `gather_near` found, and the value of the state;
    - `rule` is the `learn` of a learning rule;
    - `choose(state, env, n_found, n_near, value, event, draws)` chooses the next action;
    - `remember(state, env, n_found, only)` stores what the next step learns from.
    """
    n_found = begin(state, env, observation, reward, event)
    if n_found < 0:
        return n_found
    only, n_near, value = look(state, n_found, event, draws)
    if event < BEGIN and not learn_from(rule, state, env, reward, terminated, value):
        return DIVERGED
    if event == BEGIN or ended:
        open_memory(state).held[env] = 0
        forget(state, env)
    if not ended:
        choose(state, env, n_found, n_near, value, event, draws)
        remember(state, env, n_found, only)
    return finish(state, env, n_found, event, ended)


@inline_kernel
def look(state, n_found, event, draws):
    """`look` of agents whose actions are not part of a location."""
    numbers, scratch = open_numbers(state), open_scratch(state)
    only, n_basis = activate(state, n_found), numbers.counters[N_BASIS]
    critic = scratch.values.shape[0] * n_basis
    if critic < scratch.sums.shape[0]:
        value = value_of_rows(scratch.sums, critic, n_basis, scratch.z)
    else:
        value = scratch.values[index_of_largest(scratch.values)]
    return only, 0, value


@inline_kernel
def look_joint(state, n_found, event, draws):
    """`look` of agents whose continuous actions are part of a location."""
    n_near = gather_near(state, n_found)
    return -1, n_near, find_best(state, n_near, draws[3]) if event <= BEGIN else 0.0


@lean_kernel
def observe_numbered(state, env, observation, reward, terminated, ended, event, draws):
    """The step of Q-learning with discrete actions."""
    told = observation, reward, terminated, ended, event, draws
    return observe(look, learn, choose, remember, state, env, *told)


@lean_kernel
def observe_joint(state, env, observation, reward, terminated, ended, event, draws):
    """The step of Q-learning with continuous actions, which are part of a location."""
    told = observation, reward, terminated, ended, event, draws
    return observe(look_joint, learn, choose_joint, remember_joint, state, env, *told)


@lean_kernel
def evaluate_numbered(state, observations, actions, values):
    """Fill `actions` (n, 1) with the greedy actions, and `values` (n, n_actions) with all Q values.

    With an actor, `values` has its preferences, and one more column with the state value.
    `observations` are (n, n_observed), float64. Ties go to the first action. Returns False for an
    observation that is not valid.
    """
    scratch, n_basis = open_scratch(state), open_numbers(state).counters[N_BASIS]
    for t in range(observations.shape[0]):
        if not scale_observation(state, observations[t]):
            return False
        activate(state, find_near(state, observations.shape[1]))
        for a in range(values.shape[1]):
            values[t, a] = value_of_rows(scratch.sums, a * n_basis, n_basis, scratch.z)
        actions[t, 0] = index_of_largest(scratch.values)
    return True


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

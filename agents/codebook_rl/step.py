# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""The compiled step of the codebook agents: find the active cells, learn, choose, move the cells.

One call of `observe` handles a transition: it makes a step of the learning rule over soft aggregate
states and, at some steps, an update of the slow annealer. The result of one search of the codebook is
used for the value of the state, for the choice of the next action, and for the annealer. The kernels
stand in the order in which `observe` calls them; the search, the shares of the cells and their values
are in `association`, the learning rule in `rules.q_lambda`.

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

from oda_rl._jit import inline_kernel, lean_kernel
from oda_rl.agents import bounds
from oda_rl.agents.action_choice import begin_random, choose_numbered, falling, index_of_largest
from oda_rl.agents.codebook_rl import state as names
from oda_rl.agents.codebook_rl.association import (
    activate_cells,
    find_near,
    recall,
    remember,
    scale_observation,
    value_of_rows,
)
from oda_rl.agents.codebook_rl.rules.q_lambda import FIGURE_RATE, learn
from oda_rl.agents.codebook_rl.rules.traces import catch_up, clear_traces
from oda_rl.agents.codebook_rl.state import (
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
from oda_rl.codebook.association import EXACT, SQUARED_EUCLIDEAN, associate
from oda_rl.codebook.learning import MIN_WEIGHT
from oda_rl.codebook.learning import learn as move_cells

# Samples per cell over which the frequency of visits is averaged
DENSITY_SAMPLES = 20.0
# Limits of the slow stepsize, so that a single sample does not move a rarely visited cell too far
MIN_FREQUENCY = 1e-9
MAX_EMPHASIS = 10.0
MAX_STEPSIZE = 0.5


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
def learn_from(rule, state, env, reward, terminated, value):
    """Count a step, record its reward and, in the learning phase, learn from it by a `rule`.

    `value` is that of the next observation. Returns False if the values have diverged.
    """
    numbers = open_numbers(state)
    settings, counters, figures = numbers.settings, numbers.counters, numbers.figures
    is_learning = counters[names.PHASE] == names.LEARNING
    counters[names.STEPS] += 1
    counters[names.LEARNING_STEPS] += is_learning
    reward *= settings[names.SIGN]
    bounded = bounds.bound_reward(reward, settings[names.GAMMA], figures, names.REWARDS)
    if is_learning:
        return rule(state, env, bounded, 0.0 if terminated else value)
    best = names.BEST_ENDING if terminated else names.BEST_GOING_ON
    figures[best] = max(figures[best], bounded)
    return True


# -- the behaviour policy ----------------------------------------------------------------------------


@inline_kernel
def begins_random(draw, settings, counters):
    """Whether a random action begins now, and the longest time that such actions are held."""
    hold = counters[names.GROWTH_HOLD]
    random = True
    if counters[names.PHASE] == names.LEARNING:
        hold = counters[names.HOLD]
        start, end = settings[names.EPSILON_START], settings[names.EPSILON_END]
        epsilon = falling(start, end, counters[names.LEARNING_STEPS], settings[names.EPSILON_STEPS])
        random = draw < begin_random(epsilon, hold)
    return random, hold


@inline_kernel
def choose(state, env, n_found, n_near, best, event, draws):
    """Choose the discrete action of an environment: epsilon-greedy, with random actions held.

    Does nothing if the event is RECALL. The arguments are described in `observe`.
    """
    if event > BEGIN:
        return
    numbers, units = open_numbers(state), open_units(state)
    memory, scratch = open_memory(state), open_scratch(state)
    random, hold = begins_random(draws[0], numbers.settings, numbers.counters)
    choose_numbered(env, draws, random, hold, scratch.values, memory)
    for j in range(units.commands.shape[1]):
        memory.command[env, j] = units.commands[memory.action[env], j]


# -- the slow timescale ------------------------------------------------------------------------------


@inline_kernel
def slow_stepsize(frequency, settings, counters):
    """The slow stepsize at a location whose cells are visited with this `frequency` f.

    It is multiplied by (K f(x))^-flattening, so that the codebook learns less where the agent has
    already spent much time.
    """
    n_cells = counters[names.N_CELLS]
    emphasis = 1.0
    if settings[names.FLATTENING] > 0.0:
        emphasis = (n_cells * frequency + MIN_FREQUENCY) ** -settings[names.FLATTENING]
        emphasis = min(emphasis, MAX_EMPHASIS)
    fall = settings[names.SLOW_A] * n_cells + settings[names.SLOW_B] * counters[names.SLOW_STEPS]
    return min(emphasis / fall, MAX_STEPSIZE)


@inline_kernel
def is_single_step(state, event, ended):
    """Whether this episode and the one before it were single steps; records steps that end no episode.

    This is the case if more consecutive steps than there are environments have ended episodes. With a
    critic it is always False: that codebook grows by the warm-up, which contains the starts of episodes.
    """
    numbers, scratch = open_numbers(state), open_scratch(state)
    counters, figures, n_envs = numbers.counters, numbers.figures, open_memory(state).held.shape[0]
    has_critic = scratch.values.shape[0] * counters[names.N_BASIS] < scratch.sums.shape[0]
    if event < BEGIN and not ended:
        figures[names.WENT_ON] = counters[names.STEPS]
    many = counters[names.STEPS] - figures[names.WENT_ON] > n_envs
    return event < BEGIN and ended and many and not has_critic


@inline_kernel
def forget_elsewhere(n_found, found, keep_weight, keep_density, width, branches):
    """Let the weights and the visit frequencies decay in all branches that were not found."""
    for branch in range(branches.size.shape[0]):
        near = False
        for k in range(n_found):
            near |= found[k] == branch
        if not near:
            weight = branches.weight[branch]
            density = branches.payload[branch, branches.payload.shape[1] - 1]
            for i in range(width):
                density[i] *= keep_density
                weight[i] = max(weight[i] * keep_weight, MIN_WEIGHT)


@inline_kernel
def update_codebook(state, n_found, label):
    """One step of the slow annealer at `scratch.z`, among the cells of a label in the branches found.

    `scratch.distance` holds their distances. Cells of other branches are too far away to have a share,
    and only lose weight. The f(x) of `slow_stepsize` is the visit frequency of the cells, averaged by
    their shares. Records when the next step is due, and whether the annealing level is finished.
    """
    numbers, branches, scratch = open_numbers(state), open_branches(state), open_scratch(state)
    settings, counters, figures = numbers.settings, numbers.counters, numbers.figures
    n_cells, width, share = counters[names.N_CELLS], counters[names.WIDTH], scratch.step
    row = branches.payload.shape[1] - 1
    for k in range(n_found):
        branch = scratch.found[k]
        for i in range(width):
            p = k * width + i
            scratch.weight[p] = branches.weight[branch, i]
            scratch.label[p] = branches.label[branch, i]
            scratch.density[p] = branches.payload[branch, row, i]
    distance, weight, labels, n = scratch.distance, scratch.weight, scratch.label, n_found * width
    nearest = associate(distance, weight, labels, n, label, settings[names.TEMPERATURE], EXACT, share)
    frequency = 0.0
    for p in range(n):
        frequency += share[p] * scratch.density[p]
    fading = 1.0 / (DENSITY_SAMPLES * n_cells)
    stepsize = slow_stepsize(frequency, settings, counters)
    forget_elsewhere(n_found, scratch.found, 1.0 - stepsize, 1.0 - fading, width, branches)
    x = scratch.z[: branches.location.shape[1]]
    for k in range(n_found):
        branch = scratch.found[k]
        own = share[k * width : (k + 1) * width]
        density = branches.payload[branch, row]
        for i in range(width):
            density[i] += fading * (own[i] - density[i])
        cells = branches.location[branch], branches.weight[branch], branches.axis[branch]
        move_cells(SQUARED_EUCLIDEAN, x, own, stepsize, width, *cells)
    figures[names.DISTORTION] += FIGURE_RATE * (distance[nearest] - figures[names.DISTORTION])
    # Updates become ever rarer, so that the codebook is quasi-static for Q
    interval = 1.0
    if counters[names.PHASE] != names.GROWING:
        interval += counters[names.LEARNING_STEPS] / settings[names.SLOW_DOUBLING]
        interval *= settings[names.SLOW_EVERY]
    figures[names.NEXT_SLOW] = counters[names.STEPS] + interval
    counters[names.SLOW_STEPS] += 1
    counters[names.LEVEL_DONE] = counters[names.SLOW_STEPS] >= counters[names.LEVEL_LENGTH]


# -- the step ----------------------------------------------------------------------------------------


@inline_kernel
def finish(state, env, n_found, event, ended):
    """Make an update on the slow timescale if it is due. Returns the next action, or PAUSED."""
    numbers, memory = open_numbers(state), open_memory(state)
    counters, n_observed = numbers.counters, open_units(state).centre.shape[0]
    n_features = open_branches(state).location.shape[1]
    paired = counters[names.N_LABELS] > 1 or n_features > n_observed
    due = event < BEGIN and counters[names.STEPS] >= numbers.figures[names.NEXT_SLOW]
    single = is_single_step(state, event, ended)
    if due and single:  # only the first observation of the episode comes with a choice of action
        recall(state, env)
        n_found = find_near(state, n_features)
    # A codebook of pairs learns from observations with the action that follows.
    if due and (single or not (paired and ended)):
        label = memory.action[env] if counters[names.N_LABELS] > 1 else 0
        update_codebook(state, n_found, label)
    paused = counters[names.LEVEL_DONE] == names.FINISHED and event < BEGIN
    return PAUSED if paused else memory.action[env]


@inline_kernel
def observe(
    find_value, rule, choose, remember, state, env, observation, reward, terminated, ended, event, draws
):
    """Handle an observation. Four kernels distinguish the kinds of agents:

    - `find_value(state, n_found, event, draws)` finds the active cells. Returns the place of the only
      active cell or -1, the number of cells that `gather_near` found, and the value of the state;
    - `rule` is the `learn` of a learning rule;
    - `choose(state, env, n_found, n_near, value, event, draws)` chooses the next action;
    - `remember(state, env, n_found, only)` stores what the next step learns from.
    """
    n_found = begin(state, env, observation, reward, event)
    if n_found < 0:
        return n_found
    only, n_near, value = find_value(state, n_found, event, draws)
    if event < BEGIN and not learn_from(rule, state, env, reward, terminated, value):
        return DIVERGED
    if event == BEGIN or ended:
        open_memory(state).held[env] = 0
        clear_traces(state, env)
    if not ended:
        choose(state, env, n_found, n_near, value, event, draws)
        remember(state, env, n_found, only)
    return finish(state, env, n_found, event, ended)


@inline_kernel
def find_state_value(state, n_found, event, draws):
    """`find_value` of agents whose actions are not part of a location."""
    numbers, scratch = open_numbers(state), open_scratch(state)
    only, n_basis = activate_cells(state, n_found), numbers.counters[names.N_BASIS]
    critic = scratch.values.shape[0] * n_basis
    if critic < scratch.sums.shape[0]:
        value = value_of_rows(scratch.sums, critic, n_basis, scratch.z)
    else:
        value = scratch.values[index_of_largest(scratch.values)]
    return only, 0, value


@lean_kernel
def observe_numbered(state, env, observation, reward, terminated, ended, event, draws):
    """The step of Q-learning with discrete actions."""
    transition = observation, reward, terminated, ended, event, draws
    return observe(find_state_value, learn, choose, remember, state, env, *transition)

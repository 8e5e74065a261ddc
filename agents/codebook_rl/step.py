# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled kernels of the codebook agents: look, learn, choose.

One call of `step` does all that a transition asks for: the fast Q-learning over soft aggregate states
and, every so often, a step of the slow annealer. `run` does the same for many steps of a compiled
environment.
"""

import math

import numpy as np

from oda_rl._jit import inline_kernel, lean_kernel
from oda_rl.agents.codebook_rl.association import (
    action_values,
    add_distances,
    associate,
    index_of_largest,
    leverage,
    scale_observation,
)
from oda_rl.agents.codebook_rl.behaviour import (
    best_action,
    choose,
    choose_joint,
    look_around,
    spread,
    value_at,
)
from oda_rl.agents.codebook_rl.codebook_update import learn_codebook, slow_interval
from oda_rl.agents.codebook_rl.rules.q_lambda import (
    learn_values,
    scale_rows,
    trace_rows,
    value_temperature,
)
from oda_rl.agents.codebook_rl.state import (
    BAD_OBSERVATION,
    BAD_REWARD,
    BEST_ENDING,
    BEST_REWARD,
    LEARNING,
    LEARNING_STEPS,
    LEVEL_DONE,
    N_BASIS,
    N_CELLS,
    N_LABELS,
    NEXT_SLOW,
    PHASE,
    SIGN,
    SOFTNESS,
    STEPS,
    TEMPERATURE,
    Book,
    Memory,
    Scratch,
    Units,
)
from oda_rl.agents.compiled_rollout import BEGINNING, ROW, play, turn, used_up


@inline_kernel
def measure(n_cells, book, scratch):
    """Find the distances of `scratch.z` from all codevectors."""
    for i in range(n_cells):
        scratch.distance[i] = 0.0
    add_distances(scratch.z, 0, book.location.shape[0], book.location, n_cells, scratch.distance)


@inline_kernel
def look(settings, counters, book, scratch):
    """See which cells speak for the observation in `scratch.z`, and what the actions are worth.

    Returns the cell that alone speaks, or -1.
    """
    n_cells, n_basis = counters[N_CELLS], counters[N_BASIS]
    measure(n_cells, book, scratch)
    only = associate(
        scratch.distance,
        book.label,
        counters[N_LABELS],
        n_cells,
        settings[SOFTNESS] * settings[TEMPERATURE],
        scratch.share,
    )
    action_values(
        scratch.z, scratch.share, only, n_cells, book.payload, n_basis, scratch.values, scratch.sums
    )
    return only


@inline_kernel
def look_joint(draw, settings, counters, units, book, scratch):
    """See which cells speak for the observation in `scratch.z`, and what its best action is.

    Returns the number of those cells, and the value of that action.
    """
    n_observed = units.centre.shape[0]
    temperature = value_temperature(settings)
    n_near = look_around(
        n_observed,
        temperature,
        counters[N_CELLS],
        counters[N_BASIS],
        book.payload,
        book.location,
        scratch,
    )
    if counters[PHASE] != LEARNING:
        for j in range(scratch.best.shape[0]):
            scratch.best[j] = 0.0
        return n_near, 0.0
    return n_near, best_action(draw, units.action_reach, temperature, n_near, scratch)


@inline_kernel
def remember(env, only, n_observed, settings, counters, book, memory, scratch):
    """Keep what the next step will learn from: the location, and the cells that speak for the action."""
    n_cells, n_basis, taken = counters[N_CELLS], counters[N_BASIS], memory.action[env]
    for j in range(scratch.z.shape[0]):
        memory.z[env, j] = scratch.z[j]
    kept = memory.share[env]
    memory.only[env] = only
    if only >= 0:
        kept[only] = 1.0
    elif counters[N_LABELS] > 1:
        for i in range(n_cells):
            kept[i] = scratch.share[i] if book.label[i] == taken else 0.0
    else:
        for i in range(n_cells):
            kept[i] = scratch.share[i]
    temperature = value_temperature(settings)
    memory.norm[env] = leverage(scratch.distance, kept, only, n_cells, temperature, n_basis)
    if scratch.z.shape[0] > book.location.shape[0] and n_basis > 1:
        # the squares of the products: (distance in observation) x (distance in action)
        for i in range(n_cells):
            observed = 0.0
            for j in range(n_observed):
                observed += (scratch.z[j] - book.location[j, i]) ** 2
            acted = scratch.distance[i] - observed
            memory.norm[env] += kept[i] * kept[i] * observed * acted / (temperature * temperature)


@lean_kernel
def recall(settings, counters, figures, units, book, memory, scratch):
    """Find anew which cells speak for what is remembered: the codebook has changed."""
    n_observed = units.centre.shape[0]
    for env in range(memory.z.shape[0]):
        for j in range(scratch.z.shape[0]):
            scratch.z[j] = memory.z[env, j]
        only = -1
        if units.action_centre.shape[0] > 0:
            n_near, _ = look_joint(0.0, settings, counters, units, book, scratch)
            value_at(
                scratch.z[n_observed : book.location.shape[0]],
                n_near,
                value_temperature(settings),
                scratch,
            )
            spread(n_near, counters[N_CELLS], scratch)
            measure(counters[N_CELLS], book, scratch)
        else:
            only = look(settings, counters, book, scratch)
        remember(env, only, n_observed, settings, counters, book, memory, scratch)


@inline_kernel
def note_reward(reward, terminated, figures):
    """Remember the largest reward that can be had again and again, and the largest that ends all."""
    which = BEST_ENDING if terminated else BEST_REWARD
    figures[which] = max(figures[which], reward)


@inline_kernel
def observe(
    env,
    observation,
    reward,
    terminated,
    ended,
    first,
    draws,
    settings,
    counters,
    figures,
    units,
    book,
    memory,
    scratch,
):
    """All that an observation of environment `env` asks for; returns the next action, or an error.

    With `first` it begins an episode: there is nothing to learn from yet. The distances of the
    observation serve three times: for the value of the state, for the choice of the next action, and for
    the slow annealer.
    """
    if not math.isfinite(reward):
        return BAD_REWARD
    if not scale_observation(observation, units.centre, units.scale, scratch.z):
        return BAD_OBSERVATION
    joint = units.action_centre.shape[0] > 0
    n_observed = units.centre.shape[0]
    only, n_near = -1, 0
    if joint:
        n_near, best_next = look_joint(draws[3], settings, counters, units, book, scratch)
    else:
        only = look(settings, counters, book, scratch)
        best_next = scratch.values[index_of_largest(scratch.values)]
    if first:
        memory.held[env] = 0
    else:
        reward *= settings[SIGN]
        counters[STEPS] += 1
        if counters[PHASE] == LEARNING:
            counters[LEARNING_STEPS] += 1
            worth = 0.0 if terminated else best_next
            learn_values(
                env,
                reward,
                worth,
                n_observed,
                settings,
                counters,
                figures,
                book,
                memory,
                scratch,
            )
        else:
            note_reward(reward, terminated, figures)
    if first or ended:
        row, after = trace_rows(env, scratch.values.shape[0], counters[N_BASIS])
        scale_rows(book.payload[row:after], counters[N_CELLS], 0.0)
        memory.trace_scale[env] = 1.0
    if not ended:
        if joint:
            temperature = value_temperature(settings)
            choose_joint(
                env, draws, settings, counters, temperature, best_next, n_near, units, memory, scratch
            )
            measure(counters[N_CELLS], book, scratch)
        else:
            choose(env, draws, settings, counters, scratch.values, units, memory)
        remember(env, only, n_observed, settings, counters, book, memory, scratch)
    # A codebook of pairs learns from observations with the action that follows.
    paired = joint or counters[N_LABELS] > 1
    if not first and counters[STEPS] >= figures[NEXT_SLOW] and not (paired and ended):
        figures[NEXT_SLOW] = counters[STEPS] + slow_interval(settings, counters)
        wanted = memory.action[env] if counters[N_LABELS] > 1 else 0
        finished = learn_codebook(
            scratch.z[: book.location.shape[0]], wanted, settings, counters, figures, book, scratch
        )
        counters[LEVEL_DONE] = 1 if finished else 0
    return memory.action[env]


@lean_kernel
def step(
    env,
    observation,
    reward,
    terminated,
    ended,
    first,
    draws,
    settings,
    counters,
    figures,
    centre,
    scale,
    commands,
    action_centre,
    action_scale,
    action_reach,
    location,
    weight,
    label,
    axis,
    payload,
    z,
    share,
    only,
    norm,
    trace_scale,
    action,
    command,
    held,
    exploratory,
    next_z,
    distance,
    next_share,
    values,
    sums,
    local,
    partial,
    spare,
    actions,
    slopes,
    cells,
    best,
    trial,
):
    """`observe`, for a call from Python."""
    units = Units(centre, scale, commands, action_centre, action_scale, action_reach)
    book = Book(location, weight, label, axis, payload)
    memory = Memory(z, share, only, norm, trace_scale, action, command, held, exploratory)
    scratch = Scratch(
        next_z,
        distance,
        next_share,
        values,
        sums,
        local,
        partial,
        spare,
        actions,
        slopes,
        cells,
        best,
        trial,
    )
    return observe(
        env,
        observation,
        reward,
        terminated,
        ended,
        first,
        draws,
        settings,
        counters,
        figures,
        units,
        book,
        memory,
        scratch,
    )


@lean_kernel
def run(
    env_step,
    env_reset,
    rollout,
    time_limit,
    n_steps,
    block,
    settings,
    counters,
    figures,
    units,
    book,
    memory,
    scratch,
):
    """Up to `n_steps` of a compiled environment and of `observe`, as the loop in Python would make them.

    Comes back early when a temperature is finished, or starts or random numbers are used up,
    and goes on where `rollout` stands. Returns the steps made, or an error of `observe`.
    """
    t = 0
    while t < n_steps and counters[LEVEL_DONE] == 0 and not used_up(rollout, block):
        reward = 0.0
        terminated = False
        ended = False
        first = rollout.clock[BEGINNING] == 1
        if not first:
            reward, terminated, ended = play(env_step, rollout, time_limit, memory.command[0])
            t += 1
        code = observe(
            0,
            rollout.observation,
            reward,
            terminated,
            ended,
            first,
            block[rollout.clock[ROW]],
            settings,
            counters,
            figures,
            units,
            book,
            memory,
            scratch,
        )
        if code < 0:
            return code
        turn(env_reset, rollout, ended)
    return t


@lean_kernel
def greedy_actions(observations, actions, settings, counters, figures, units, book, memory, scratch):
    """Fill the rows of `actions` with the greedy actions; ties go to the first. False for bad input."""
    joint = units.action_centre.shape[0] > 0
    for t in range(observations.shape[0]):
        if not scale_observation(observations[t], units.centre, units.scale, scratch.z):
            return False
        if joint:
            look_joint(0.0, settings, counters, units, book, scratch)
            for j in range(actions.shape[1]):
                centre, scale = units.action_centre[j], units.action_scale[j]
                actions[t, j] = np.float32(centre + scale * scratch.best[j])
        else:
            look(settings, counters, book, scratch)
            actions[t, 0] = index_of_largest(scratch.values)
    return True

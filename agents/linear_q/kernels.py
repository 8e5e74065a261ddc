# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled kernels of the baselines: what an observation asks for, and the loop over many.

What Python calls takes plain arrays, which numba unpacks quicker than anything else.
"""

import math

from oda_rl._jit import lean_kernel
from oda_rl.agents.compiled_rollout import BEGINNING, ROW, play, turn, used_up
from oda_rl.agents.linear_q.encoding import FOURIER, MAP, Encoder, Scratch, action_values, encode
from oda_rl.agents.linear_q.learning import (
    BAD_OBSERVATION,
    BAD_REWARD,
    DIVERGED,
    KIND,
    LEARNING_STEPS,
    MAP_STEPS,
    SARSA,
    STEPS,
    Memory,
    Weights,
    choose,
    forget_traces,
    learn,
    learn_map,
)


@lean_kernel
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
    encoder,
    weights,
    memory,
    scratch,
):
    """All that an observation of environment `env` asks for; returns the next action, or an error.

    With `first` it begins an episode: there is nothing to learn from yet.
    """
    kind = counters[KIND]
    if not math.isfinite(reward):
        return BAD_REWARD
    if not encode(observation, kind, encoder, scratch):
        return BAD_OBSERVATION
    learning = counters[STEPS] >= counters[MAP_STEPS]
    taken = memory.action[env]
    if first:
        memory.held[env] = 0
        forget_traces(env, kind, memory)  # of an episode that was left before its end
    else:
        counters[STEPS] += 1
        counters[LEARNING_STEPS] += 1 if learning else 0
    action_values(kind, weights.weight, scratch.index, scratch.feature, scratch.values)
    choose(env, draws, settings, counters, memory, scratch.values)
    if not first and learning and memory.known[env]:
        cut = ended or (counters[SARSA] == 0 and memory.exploratory[env])
        if not learn(
            env,
            taken,
            reward,
            terminated,
            memory.action[env],
            cut,
            settings,
            counters,
            figures,
            weights,
            memory,
            scratch,
        ):
            return DIVERGED
    if ended:
        forget_traces(env, kind, memory)
        memory.known[env] = False
    else:
        memory.known[env] = True
        if kind == FOURIER:
            for f in range(scratch.feature.shape[0]):
                memory.feature[env, f] = scratch.feature[f]
        else:
            for k in range(scratch.index.shape[0]):
                memory.index[env, k] = scratch.index[k]
    if kind == MAP and not first:
        learn_map(settings, counters, encoder, scratch)
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
    source,
    low,
    inverse,
    scale,
    size,
    offset,
    parent,
    location,
    lattice,
    weight,
    gain,
    visits,
    index,
    feature,
    known,
    action,
    held,
    exploratory,
    trace,
    listed,
    n_listed,
    level,
    u,
    next_index,
    next_feature,
    values,
    room,
):
    """`observe`, for a call from Python."""
    encoder = Encoder(source, low, inverse, scale, size, offset, parent, location, lattice)
    weights = Weights(weight, gain, visits)
    memory = Memory(index, feature, known, action, held, exploratory, trace, listed, n_listed, level)
    scratch = Scratch(u, next_index, next_feature, values, room)
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
        encoder,
        weights,
        memory,
        scratch,
    )


@lean_kernel
def run(
    env_step,
    env_reset,
    parameters,
    starts,
    time_limit,
    n_steps,
    clock,
    played,
    state,
    observation,
    returns,
    lengths,
    block,
    settings,
    counters,
    figures,
    source,
    low,
    inverse,
    scale,
    size,
    offset,
    parent,
    location,
    lattice,
    weight,
    gain,
    visits,
    index,
    feature,
    known,
    action,
    held,
    exploratory,
    trace,
    listed,
    n_listed,
    level,
    u,
    next_index,
    next_feature,
    values,
    room,
    encoded,
):
    """Up to `n_steps` of a compiled environment and of `observe`, as the loop in Python would make them.

    Comes back early when starts or random numbers are used up. Returns the steps made, or an error of
    `observe`.
    """
    encoder = Encoder(source, low, inverse, scale, size, offset, parent, location, lattice)
    weights = Weights(weight, gain, visits)
    memory = Memory(index, feature, known, action, held, exploratory, trace, listed, n_listed, level)
    scratch = Scratch(u, next_index, next_feature, values, room)
    t = 0
    while t < n_steps and not used_up(clock, block, starts):
        reward = 0.0
        terminated = False
        ended = False
        first = clock[BEGINNING] == 1
        if not first:
            encoded[0] = action[0]
            reward, terminated, ended = play(
                env_step, parameters, time_limit, clock, played, state, encoded, observation
            )
            t += 1
        code = observe(
            0,
            observation,
            reward,
            terminated,
            ended,
            first,
            block[clock[ROW]],
            settings,
            counters,
            figures,
            encoder,
            weights,
            memory,
            scratch,
        )
        if code < 0:
            return code
        turn(env_reset, parameters, starts, ended, clock, played, state, observation, returns, lengths)
    return t


@lean_kernel
def greedy_actions(
    observations,
    kind,
    weight,
    source,
    low,
    inverse,
    scale,
    size,
    offset,
    parent,
    location,
    lattice,
    u,
    next_index,
    next_feature,
    values,
    room,
    actions,
):
    """Fill `actions` with the greedy actions; ties go to the first. Returns False for bad input."""
    encoder = Encoder(source, low, inverse, scale, size, offset, parent, location, lattice)
    scratch = Scratch(u, next_index, next_feature, values, room)
    for t in range(observations.shape[0]):
        if not encode(observations[t], kind, encoder, scratch):
            return False
        action_values(kind, weight, next_index, next_feature, values)
        best = 0
        for a in range(1, values.shape[0]):
            if values[a] > values[best]:
                best = a
        actions[t] = best
    return True

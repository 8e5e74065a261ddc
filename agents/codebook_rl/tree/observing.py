# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""What an observation asks for, on a tree: learn from it, choose an action, move the cells near it."""

import math

from oda_rl._jit import inline_kernel
from oda_rl.agents.codebook_rl.association import index_of_largest, scale_observation
from oda_rl.agents.codebook_rl.behaviour import choose, choose_joint
from oda_rl.agents.codebook_rl.codebook_update import slow_interval
from oda_rl.agents.codebook_rl.rules.q_lambda import value_temperature
from oda_rl.agents.codebook_rl.state import (
    BAD_OBSERVATION,
    BAD_REWARD,
    LEARNING,
    LEARNING_STEPS,
    LEVEL_DONE,
    N_BASIS,
    NEXT_SLOW,
    PHASE,
    SIGN,
    STEPS,
)
from oda_rl.agents.codebook_rl.step import note_reward
from oda_rl.agents.codebook_rl.tree.nearby import (
    learn_codebook,
    look,
    look_joint,
    measure,
    remember,
    search,
    settle_near,
)
from oda_rl.agents.codebook_rl.tree.values import clear_books, learn_values


@inline_kernel
def take_in(
    env,
    reward,
    terminated,
    best_next,
    n_observed,
    settings,
    counters,
    figures,
    blocks,
    ledger,
    near,
    memory,
    scratch,
):
    """Learn from what the last action led to, or, while the codebook grows, note the reward."""
    reward *= settings[SIGN]
    counters[STEPS] += 1
    if counters[PHASE] != LEARNING:
        note_reward(reward, terminated, figures)
        return
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
        blocks,
        ledger,
        near,
        memory,
        scratch,
    )


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
    planes,
    blocks,
    ledger,
    near,
    memory,
    scratch,
):
    """All that an observation of environment `env` asks for; returns the next action, or an error.

    With `first` it begins an episode: there is nothing to learn from yet. One search of the tree serves
    three times: for the value of the state, the choice of the next action, and the slow annealer.
    """
    if not math.isfinite(reward):
        return BAD_REWARD
    if not scale_observation(observation, units.centre, units.scale, scratch.z):
        return BAD_OBSERVATION
    joint = units.action_centre.shape[0] > 0
    n_observed = units.centre.shape[0]
    only, n_near = -1, 0
    n_found = search(n_observed, settings, planes, blocks, near, scratch)
    settle_near(n_found, counters, blocks, ledger, near, scratch)
    if joint:
        n_near, best_next = look_joint(
            draws[3], n_found, n_observed, settings, counters, units, blocks, ledger, near, scratch
        )
    else:
        only = look(n_found, settings, counters, blocks, ledger, near, scratch)
        best_next = scratch.values[index_of_largest(scratch.values)]
    if first:
        memory.held[env] = 0
    else:
        take_in(
            env,
            reward,
            terminated,
            best_next,
            n_observed,
            settings,
            counters,
            figures,
            blocks,
            ledger,
            near,
            memory,
            scratch,
        )
    if first or ended:
        clear_books(env, 0.0, scratch.values.shape[0], counters[N_BASIS], blocks, ledger)
        memory.trace_scale[env] = 1.0
    if not ended:
        if joint:
            temperature = value_temperature(settings)
            choose_joint(
                env, draws, settings, counters, temperature, best_next, n_near, units, memory, scratch
            )
            measure(n_found, blocks, near, scratch)
        else:
            choose(env, draws, settings, counters, scratch.values, units, memory)
        remember(env, only, n_found, n_observed, settings, counters, blocks, near, memory, scratch)
    # A codebook of pairs learns from observations with the action that follows.
    due = counters[STEPS] >= figures[NEXT_SLOW]
    if not first and due and not (joint and ended):
        figures[NEXT_SLOW] = counters[STEPS] + slow_interval(settings, counters)
        x = scratch.z[: blocks.location.shape[1]]
        finished = learn_codebook(x, n_found, settings, counters, figures, blocks, near, scratch)
        counters[LEVEL_DONE] = 1 if finished else 0
    return memory.action[env]

# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled kernels of the agent on a tree: the same calls as those of `codebook_rl.step`."""

import numpy as np

from oda_rl._jit import lean_kernel
from oda_rl.agents.codebook_rl.association import index_of_largest, scale_observation
from oda_rl.agents.codebook_rl.behaviour import spread, value_at
from oda_rl.agents.codebook_rl.rules.q_lambda import value_temperature
from oda_rl.agents.codebook_rl.state import LEVEL_DONE, Memory, Scratch, Units
from oda_rl.agents.codebook_rl.tree.layout import WIDTH, Blocks, Ledger, Near, Planes
from oda_rl.agents.codebook_rl.tree.nearby import look, look_joint, measure, remember, search
from oda_rl.agents.codebook_rl.tree.observing import observe
from oda_rl.agents.compiled_rollout import BEGINNING, ROW, play, turn, used_up


@lean_kernel
def recall(settings, counters, figures, units, planes, blocks, ledger, near, memory, scratch):
    """Find anew which cells speak for what is remembered: the codebook has changed."""
    n_observed = units.centre.shape[0]
    for env in range(memory.z.shape[0]):
        for j in range(scratch.z.shape[0]):
            scratch.z[j] = memory.z[env, j]
        only = -1
        n_found = search(n_observed, settings, planes, blocks, near, scratch)
        if units.action_centre.shape[0] > 0:
            n_near, _ = look_joint(
                0.0, n_found, n_observed, settings, counters, units, blocks, ledger, near, scratch
            )
            value_at(
                scratch.z[n_observed : blocks.location.shape[1]],
                n_near,
                value_temperature(settings),
                scratch,
            )
            spread(n_near, n_found * WIDTH, scratch)
            measure(n_found, blocks, near, scratch)
        else:
            only = look(n_found, settings, counters, blocks, ledger, near, scratch)
        remember(env, only, n_found, n_observed, settings, counters, blocks, near, memory, scratch)


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
    normal,
    offset,
    child,
    size,
    location,
    weight,
    axis,
    payload,
    owed,
    paid,
    alive,
    living,
    n_living,
    now,
    kept,
    n_kept,
    tally,
    key,
    node,
    said,
    near_weight,
    near_density,
    near_label,
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
        Units(centre, scale, commands, action_centre, action_scale, action_reach),
        Planes(normal, offset, child),
        Blocks(size, location, weight, axis, payload),
        Ledger(owed, paid, alive, living, n_living),
        Near(now, kept, n_kept, tally, key, node, said, near_weight, near_density, near_label),
        Memory(z, share, only, norm, trace_scale, action, command, held, exploratory),
        Scratch(
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
        ),
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
    planes,
    blocks,
    ledger,
    near,
    memory,
    scratch,
):
    """Up to `n_steps` of a compiled environment and of `observe`: as `codebook_rl.step.run`."""
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
            planes,
            blocks,
            ledger,
            near,
            memory,
            scratch,
        )
        if code < 0:
            return code
        turn(env_reset, rollout, ended)
    return t


@lean_kernel
def greedy_actions(
    observations,
    actions,
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
    """Fill the rows of `actions` with the greedy actions; ties go to the first. False for bad input.

    Nothing is settled: looking must not change the learning, not even by rounding.
    """
    joint = units.action_centre.shape[0] > 0
    n_observed = units.centre.shape[0]
    for t in range(observations.shape[0]):
        if not scale_observation(observations[t], units.centre, units.scale, scratch.z):
            return False
        n_found = search(n_observed, settings, planes, blocks, near, scratch)
        if joint:
            look_joint(
                0.0, n_found, n_observed, settings, counters, units, blocks, ledger, near, scratch
            )
            for j in range(actions.shape[1]):
                centre, scale = units.action_centre[j], units.action_scale[j]
                actions[t, j] = np.float32(centre + scale * scratch.best[j])
        else:
            look(n_found, settings, counters, blocks, ledger, near, scratch)
            actions[t, 0] = index_of_largest(scratch.values)
    return True

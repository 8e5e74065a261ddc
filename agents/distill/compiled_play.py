# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Play whole episodes of a table of cells in a compiled environment.

Arguments: `starts` (n_episodes, start_size), as `CompiledEnv.draw_starts` draws them; `returns`
(n_episodes,), which is filled.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from oda_rl._jit import inline_kernel, kernel


class Cells(NamedTuple):
    """The table of a policy.

    `codevectors` (K, d), `inverse_scale` (d,), `values` (K, n_values), `slopes` (K, n_values, d or 0),
    `temperature` and `reach` are as in `PolicyProgram`. `commands` (n_values, action_size) has the
    discrete actions as the kernel of the environment takes them, (0, action_size) if actions are
    continuous; `bounds` (2, size) are those of continuous actions.
    """

    codevectors: Any
    inverse_scale: Any
    values: Any
    slopes: Any
    temperature: float
    reach: float
    commands: Any
    bounds: Any


@inline_kernel
def decide(x, cells, apart, found):
    """Fill `found` (n_values,) with the values of the table at `x` (d,); `apart` (K,) is scratch."""
    codevectors, slopes, temperature = cells.codevectors, cells.slopes, cells.temperature
    nearest = 0
    for i in range(codevectors.shape[0]):
        apart[i] = 0.0
        for j in range(x.shape[0]):
            away = (x[j] - codevectors[i, j]) * cells.inverse_scale[j]
            apart[i] += away * away
        if apart[i] < apart[nearest]:
            nearest = i
    total = 0.0
    found[:] = 0.0
    for i in range(codevectors.shape[0]):
        above = apart[i] - apart[nearest]
        if i != nearest and above > cells.reach * temperature:
            continue
        if i != nearest and temperature == 0.0:
            continue
        share = 1.0 if i == nearest else math.exp(-above / temperature)
        total += share
        for a in range(found.shape[0]):
            own = cells.values[i, a]
            for j in range(slopes.shape[2]):
                own += slopes[i, a, j] * (x[j] - codevectors[i, j])
            found[a] += share * own
    for a in range(found.shape[0]):
        found[a] /= total


@kernel
def play_table(step, reset, parameters, state, observation, starts, time_limit, cells, returns):
    """Play an episode from each of `starts`; returns the total number of steps."""
    commands, bounds = cells.commands, cells.bounds
    apart, found = np.empty(cells.codevectors.shape[0]), np.empty(cells.values.shape[1])
    command = np.empty(max(commands.shape[1], bounds.shape[1]))
    n_steps = 0
    for episode in range(starts.shape[0]):
        reset(parameters, state, starts[episode], observation)
        returns[episode] = 0.0
        for _ in range(time_limit):
            decide(observation, cells, apart, found)
            if commands.shape[0] > 0:
                command[:] = commands[found.argmax()]
            else:
                for j in range(command.shape[0]):
                    command[j] = min(max(found[j], bounds[0, j]), bounds[1, j])
            reward, terminated = step(parameters, state, command, observation)
            returns[episode] += reward
            n_steps += 1
            if terminated:
                break
    return n_steps

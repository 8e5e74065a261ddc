# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled step of Q-learning on a table of states, with the arguments of `step.observe`."""

from oda_rl._jit import lean_kernel
from oda_rl.agents.action_choice import index_of_largest
from oda_rl.agents.codebook_rl.rules.table_q import THE_END, choose, learn, look_back
from oda_rl.agents.codebook_rl.rules.traces import forget
from oda_rl.agents.codebook_rl.state import (
    LEARNING_STEPS,
    SIGN,
    STEPS,
    WIDTH,
    open_memory,
    open_numbers,
    open_scratch,
    open_units,
)
from oda_rl.agents.codebook_rl.step import activate, begin, remember
from oda_rl.agents.compiled_rollout import BEGIN, DIVERGED


@lean_kernel
def observe_table(state, env, observation, reward, terminated, ended, event, draws):
    """Find the cell of an observation, learn from the transition, and choose the next action."""
    numbers, units = open_numbers(state), open_units(state)
    memory, scratch = open_memory(state), open_scratch(state)
    n_found = begin(state, env, observation, reward, event)
    if n_found < 0:
        return n_found
    only = activate(state, n_found)
    if event < BEGIN:
        counters, width = numbers.counters, numbers.counters[WIDTH]
        counters[STEPS] += 1
        counters[LEARNING_STEPS] += 1
        best, cell = 0.0, THE_END
        if not terminated:
            best = scratch.values[index_of_largest(scratch.values)]
            cell = float(scratch.found[0] * width + only)
        last, taken = memory.found[env, 0] * width + memory.only[env], memory.action[env]
        if not learn(state, env, numbers.settings[SIGN] * reward, best, cell):
            return DIVERGED
        look_back(state, env, last * scratch.values.shape[0] + taken, ended)
    if event == BEGIN or ended:
        forget(state, env)
    if not ended:
        if event <= BEGIN:
            choose(state, env, event == BEGIN, only, draws)
            for j in range(units.commands.shape[1]):
                memory.command[env, j] = units.commands[memory.action[env], j]
        remember(state, env, n_found, only)
    return memory.action[env]

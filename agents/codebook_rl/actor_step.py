# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""The compiled step of an agent with an actor; arguments and parts are those of `step`."""

from oda_rl._jit import inline_kernel, lean_kernel
from oda_rl.agents.action_choice import choose_numbered
from oda_rl.agents.codebook_rl.rules.actor_critic import find_probabilities, learn
from oda_rl.agents.codebook_rl.rules.traces import forget
from oda_rl.agents.codebook_rl.state import (
    GROWTH_HOLD,
    LEARNING,
    LEARNING_STEPS,
    N_BASIS,
    PHASE,
    SIGN,
    STEPS,
    open_memory,
    open_numbers,
    open_scratch,
    open_units,
)
from oda_rl.agents.codebook_rl.step import activate, begin, finish, remember
from oda_rl.agents.compiled_rollout import BEGIN


@inline_kernel
def learn_from(state, env, reward, terminated):
    """Learn from what the last action led to, once the codebook has grown."""
    numbers, scratch = open_numbers(state), open_scratch(state)
    counters, sums = numbers.counters, scratch.sums
    counters[STEPS] += 1
    if counters[PHASE] == LEARNING:
        counters[LEARNING_STEPS] += 1
        critic = scratch.values.shape[0] * counters[N_BASIS]
        value = sums[critic]
        for j in range(counters[N_BASIS] - 1):
            value += sums[critic + 1 + j] * scratch.z[j]
        learn(state, env, numbers.settings[SIGN] * reward, 0.0 if terminated else value)


@inline_kernel
def choose(state, env, draws):
    """Draw the action from the actor's probabilities; while the codebook grows, a random one is held."""
    numbers, units = open_numbers(state), open_units(state)
    memory, scratch = open_memory(state), open_scratch(state)
    probabilities = memory.probabilities[env]
    find_probabilities(scratch.values, probabilities)
    if numbers.counters[PHASE] == LEARNING:
        action, part = 0, probabilities[0]
        while draws[0] >= part and action < probabilities.shape[0] - 1:
            action += 1
            part += probabilities[action]
        memory.action[env] = action
    else:
        choose_numbered(env, draws, True, numbers.counters[GROWTH_HOLD], scratch.values, memory)
    memory.exploratory[env] = False  # traces are never cut
    for j in range(units.commands.shape[1]):
        memory.command[env, j] = units.commands[memory.action[env], j]


@lean_kernel
def observe_actor(state, env, observation, reward, terminated, ended, event, draws):
    """All that an observation asks for."""
    n_found = begin(state, env, observation, reward, event)
    if n_found < 0:
        return n_found
    only = activate(state, n_found)
    if event < BEGIN:
        learn_from(state, env, reward, terminated)
    elif event == BEGIN:
        open_memory(state).held[env] = 0
    if event == BEGIN or ended:
        forget(state, env)
    if not ended:
        if event <= BEGIN:
            choose(state, env, draws)
        remember(state, env, n_found, only)
    return finish(state, env, n_found, event, False, ended)

# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Blank episodes, from which an actor learns nothing, and the actions it holds after many of them.

An episode is blank if all its rewards were the usual one and it was truncated rather than terminated.
An actor learns nothing from it. If goals are rare, all episodes are blank: preferences stay at their
initial values, and actions that are drawn independently at each step lead nowhere.

An actor is therefore called lost if most recent episodes were blank, and if the last informative
(non-blank) episode had a larger return than the last blank one, or there has been none. Each action
that a lost actor draws is held for as long as random actions of the warm-up are; steps that only repeat
an action do not enter its traces. An agent that has learned to stay within bounds until the time limit
has blank episodes, too, but no better ones, so it is not lost.

References
----------
Dabney, Ostrovski and Barreto, "Temporally-Extended epsilon-Greedy Exploration", ICLR 2021, on holding
actions that are drawn at random.
"""

from oda_rl._jit import inline_kernel
from oda_rl.agents.codebook_rl.state import (
    BLANK_RETURN,
    BLANK_SHARE,
    GROWTH_HOLD,
    LEARNING,
    PHASE,
    SIGN,
    TOLD_RETURN,
    USUAL_REWARD,
    open_memory,
    open_numbers,
)

# Weight of the last episode in the running share of blank episodes; share above which an actor is lost
EPISODE_RATE, MOST_BLANK = 0.1, 0.5


@inline_kernel
def follow_episode(state, env, reward, terminated, ended):
    """Account for a step; at the end of an episode, determine whether the actor is lost in the next."""
    memory, numbers = open_memory(state), open_numbers(state)
    figures = numbers.figures
    if numbers.counters[PHASE] != LEARNING:
        return
    memory.total[env] += numbers.settings[SIGN] * reward
    memory.told[env] |= terminated or reward != figures[USUAL_REWARD]
    if ended:
        blank = 0.0 if memory.told[env] else 1.0
        figures[BLANK_SHARE] += EPISODE_RATE * (blank - figures[BLANK_SHARE])
        figures[TOLD_RETURN if memory.told[env] else BLANK_RETURN] = memory.total[env]
        often = figures[BLANK_SHARE] > MOST_BLANK
        memory.lost[env] = often and figures[TOLD_RETURN] > figures[BLANK_RETURN]
        memory.told[env], memory.total[env] = False, 0.0


@inline_kernel
def is_held(state, env, draw):
    """Whether a lost actor repeats its last action; if not, `draw` sets how long it holds the next one.

    The preferences do not determine a repeated action, so that its gradient is set to 0.
    """
    memory = open_memory(state)
    if not memory.lost[env]:
        return False
    held = memory.held[env] > 0
    if held:
        memory.held[env] -= 1
        for a in range(memory.direction.shape[1]):
            memory.direction[env, a] = 0.0
    else:
        memory.held[env] = int(draw * open_numbers(state).counters[GROWTH_HOLD])
    return held

# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Episodes that tell an actor nothing, and actions that it holds after many of them.

An episode is blank if all its rewards were the usual one, and it ended because time was over. An actor
learns nothing from it. Where goals are rare, all are: preferences stay as they began, and actions that
are drawn anew at each step lead nowhere. So where most episodes of late were blank, and those that told
something had a larger return, or there has been none, the actor has lost its way. Each action that it
draws is then held, for as long as those of the warm-up are; the steps on which it decides nothing have
no part in its traces. An agent that has learned to stay within bounds until time is over has blank
episodes too, but no better ones.

References
----------
Dabney, Ostrovski and Barreto, "Temporally-Extended epsilon-Greedy Exploration", ICLR 2021, for what it
means to hold an action that is drawn at random.
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

# Weight of the last episode in the share of blank ones, and the share above which an actor is lost
EPISODE_RATE, MOST_BLANK = 0.1, 0.5


@inline_kernel
def follow_episode(state, env, reward, terminated, ended):
    """Note a step, and at the end of an episode whether the actor has lost its way in the next one."""
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
    """Whether a lost actor goes on with its last action; else it holds the next one, by `draw`.

    In steps on which it goes on there is nothing that its preferences have decided.
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

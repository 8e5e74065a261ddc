# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Choice of a discrete action by uniform random numbers, which are drawn in blocks.

Actions are epsilon-greedy, with random actions held for several steps.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl._jit import inline_kernel

# Rows drawn at once, because a call of the generator takes longer than a compiled step.
BLOCK = 8192


class RandomBlocks:
    """Uniform numbers in [0, 1), drawn ahead from `rng`: a row of `width` for each choice of an action.

    The Python loop takes one row after another. A compiled loop takes the `block` (BLOCK, width), an
    array that is refilled in place, and `row` is then set to the next unused row. So both loops use the
    same numbers.
    """

    def __init__(self, rng: np.random.Generator, width: int) -> None:
        self._rng = rng
        self.block = np.empty((BLOCK, width))
        self._draw_block()

    def draw(self) -> NDArray[np.float64]:
        """The uniform numbers for one choice."""
        row = self.ready_row()
        draws: NDArray[np.float64] = self.block[row]
        self.row += 1
        return draws

    def ready_row(self) -> int:
        """Index of the next unused row of `block`; draws a new block if there is none."""
        if self.row == BLOCK:
            self._draw_block()
        return self.row

    def get_state(self) -> dict[str, Any]:
        """The state of the generator before the block was drawn, and the next unused row."""
        return {"generator": self._state, "row": self.row}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from the result of `get_state`."""
        self._rng.bit_generator.state = state["generator"]
        self._draw_block()
        self.row = state["row"]

    def _draw_block(self) -> None:
        self._state = self._rng.bit_generator.state
        self._rng.random(out=self.block)
        self.row = 0


@inline_kernel
def index_of_largest(numbers):
    """Index of the largest number, the first of several."""
    best = 0
    for i in range(1, numbers.shape[0]):
        if numbers[i] > numbers[best]:
            best = i
    return best


@inline_kernel
def argmax_random(values, draw):
    """Index of the largest value; ties are broken by `draw`, uniform in [0, 1)."""
    best = values[index_of_largest(values)]
    ties = 0
    for a in range(values.shape[0]):
        ties += values[a] == best
    wanted, found = int(draw * ties), 0
    for a in range(values.shape[0]):
        if values[a] == best:
            if wanted == 0:
                found = a
            wanted -= 1
    return found


@inline_kernel
def falling(start, end, steps, horizon):
    """Interpolate linearly from `start` to `end` over `horizon` steps, then stay at `end`."""
    return start + min(1.0, steps / max(horizon, 1.0)) * (end - start)


@inline_kernel
def begin_random(epsilon, hold):
    """Return the probability of beginning a random action that is held for 1 to `hold` steps.

    It is epsilon / h, where h is the mean number of steps. So about a share of epsilon of all steps is
    random, however long actions are held.
    """
    return epsilon * 2.0 / (1.0 + hold)


@inline_kernel
def choose_numbered(env, draws, random, hold, values, memory):
    """Continue the held action, begin a new one if `random`, or take the greedy one."""
    if memory.held[env] > 0:
        memory.held[env] -= 1
    elif random:
        memory.action[env] = int(draws[1] * values.shape[0])
        memory.held[env] = int(draws[2] * hold)
    else:
        memory.action[env] = argmax_random(values, draws[3])
    memory.exploratory[env] = values[memory.action[env]] < values[index_of_largest(values)]

"""Random numbers for the compiled steps."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

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

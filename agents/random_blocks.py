"""Random numbers for the compiled steps."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

# Rows drawn at once: a call of the generator costs more than a compiled step.
BLOCK = 8192


class RandomBlocks:
    """Uniform numbers in [0, 1), drawn ahead from `rng`: a row of `width` for each choice of an action.

    The step-by-step loop takes row after row; a compiled loop is given the `block` (BLOCK, width), one
    array that is filled again and again, and tells how far it came: `row` is to be used next. So both
    use the same numbers.
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
        """The row of `block` that is to be used next; a new block is drawn if there is none."""
        if self.row == BLOCK:
            self._draw_block()
        return self.row

    def get_state(self) -> dict[str, Any]:
        """The state of the generator before the block was drawn, and the row to be used next."""
        return {"generator": self._state, "row": self.row}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from `get_state`."""
        self._rng.bit_generator.state = state["generator"]
        self._draw_block()
        self.row = state["row"]

    def _draw_block(self) -> None:
        self._state = self._rng.bit_generator.state
        self._rng.random(out=self.block)
        self.row = 0

"""Random numbers for the compiled steps."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

# Numbers are drawn in blocks: a call of the generator costs more than the kernel.
BLOCK = 8192


class DrawBlock:
    """Uniform numbers in [0, 1), drawn ahead: one row for each choice of an action.

    The step-by-step loop takes row after row; a compiled loop is given the block and tells how far it
    came. So both use the same numbers.

    Parameters
    ----------
    rng : Generator
        Where the numbers come from.
    width : int
        Numbers that one choice uses.

    Attributes
    ----------
    block : ndarray of shape (BLOCK, width)
        The numbers.
    block_state : dict
        The state of the generator before they were drawn.
    row : int
        The row to be used next.
    """

    def __init__(self, rng: np.random.Generator, width: int) -> None:
        self._rng = rng
        self._width = width
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

    def resume(self, state: dict[str, Any], row: int) -> None:
        """Go on drawing where the generator had this state before the block, and `row` was next."""
        self._rng.bit_generator.state = state
        self._draw_block()
        self.row = row

    def _draw_block(self) -> None:
        self.block_state = self._rng.bit_generator.state
        self.block = self._rng.random((BLOCK, self._width))
        self.row = 0

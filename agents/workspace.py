"""The arrays that the compiled step works on, and the random numbers that it uses."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl.agents import kernels
from oda_rl.agents.config import TwoTimescaleConfig
from oda_rl.agents.scaling import ObservationScale
from oda_rl.codebook import Codebook

# Numbers are drawn in blocks: a call of the generator costs more than the kernel.
BLOCK = 4096


class Workspace:
    """Settings, counters, running figures, and what is remembered of each environment.

    Parameters
    ----------
    n_features, n_actions, n_envs, capacity : int
        Sizes of an observation, the action space, the environments that take turns, and the codebook.
    rng : Generator
        Draws the uniform numbers of the behaviour.

    Attributes
    ----------
    settings, counters, figures : ndarray
        Indexed by the names in `kernels`.
    x : ndarray of shape (n_envs, n_features)
        The last observation of each environment, in scaled units.
    active, cells, share : ndarray of shape (n_envs,), (n_envs, capacity), (n_envs, capacity)
        The number of cells that speak for it, their indices and their shares.
    action, held, exploratory : ndarray of shape (n_envs,)
        The action chosen for it, for how many more steps it is held, and whether it is not greedy.
    next_x, distance, next_cells, next_share, values : ndarray
        Room for one step.
    """

    def __init__(
        self, n_features: int, n_actions: int, n_envs: int, capacity: int, rng: np.random.Generator
    ) -> None:
        self.settings = np.zeros(kernels.N_SETTINGS)
        self.counters = np.zeros(kernels.N_COUNTERS, dtype=np.int64)
        self.figures = np.zeros(kernels.N_FIGURES)
        self.x = np.zeros((n_envs, n_features))
        self.active = np.zeros(n_envs, dtype=np.int64)
        self.cells = np.zeros((n_envs, capacity), dtype=np.int64)
        self.share = np.zeros((n_envs, capacity))
        self.action = np.zeros(n_envs, dtype=np.int64)
        self.held = np.zeros(n_envs, dtype=np.int64)
        self.exploratory = np.zeros(n_envs, dtype=np.bool_)
        self.next_x = np.zeros(n_features)
        self.distance = np.zeros(capacity)
        self.next_cells = np.zeros(capacity, dtype=np.int64)
        self.next_share = np.zeros(capacity)
        self.values = np.zeros(n_actions)
        self._rng = rng
        self._draw_block()

    def fill(self, config: TwoTimescaleConfig, horizon: int, n_labels: int, n_basis: int) -> None:
        """Copy the hyperparameters of a run of `horizon` steps to where the kernels read them."""
        s, c = self.settings, self.counters
        s[kernels.GAMMA] = config.gamma
        s[kernels.TRACE_DECAY] = config.trace_decay
        s[kernels.SOFTNESS] = config.softness
        s[kernels.LEARNING_RATE_MIN] = config.learning_rate_min
        s[kernels.LEARNING_RATE_HALVING] = config.learning_rate_halving
        s[kernels.LEARNING_RATE_POWER] = config.learning_rate_power
        s[kernels.EPSILON_START] = config.exploration_initial_eps
        s[kernels.EPSILON_END] = config.exploration_final_eps
        s[kernels.EPSILON_STEPS] = config.exploration_fraction * horizon
        s[kernels.SLOW_EVERY] = config.slow_every
        s[kernels.SLOW_DOUBLING] = config.slow_doubling
        s[kernels.SLOW_A] = config.slow_a
        s[kernels.SLOW_B] = config.slow_b
        s[kernels.FLATTENING] = config.flattening
        c[kernels.HOLD] = config.hold
        c[kernels.GROWTH_HOLD] = config.growth_hold
        c[kernels.N_LABELS] = n_labels
        c[kernels.N_BASIS] = n_basis
        c[kernels.RATE_BY_CELL] = config.learning_rate_by == "cell"

    def gather(self, book: Codebook, scale: ObservationScale) -> tuple[NDArray[Any], ...]:
        """The arrays of `kernels.step`, in its order."""
        return (
            self.settings,
            self.counters,
            self.figures,
            scale.centre,
            scale.scale,
            book.location,
            book.weight,
            book.label,
            book.axis,
            book.payload,
            self.x,
            self.active,
            self.cells,
            self.share,
            self.action,
            self.held,
            self.exploratory,
            self.next_x,
            self.distance,
            self.next_cells,
            self.next_share,
            self.values,
        )

    # -- random numbers --------------------------------------------------------------------------

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

    def random_action(self, env: int, n_actions: int, hold: int) -> int:
        """A random action of environment `env`, held as the behaviour holds them."""
        draws = self.draw()
        if self.held[env] > 0:
            self.held[env] -= 1
        else:
            self.action[env] = int(draws[1] * n_actions)
            self.held[env] = int(draws[2] * hold)
        return int(self.action[env])

    def resume(self, state: dict[str, Any], row: int) -> None:
        """Go on drawing where the generator had this state before the block, and `row` was next."""
        self._rng.bit_generator.state = state
        self._draw_block()
        self.row = row

    def _draw_block(self) -> None:
        self.block_state = self._rng.bit_generator.state
        self.block = self._rng.random((BLOCK, kernels.N_DRAWS))
        self.row = 0

"""The arrays that the compiled step works on, and the random numbers that it uses."""

import numpy as np

from oda_rl.agents.codebook_rl import state as layout
from oda_rl.agents.codebook_rl.sizes import Sizes
from oda_rl.agents.config import TwoTimescaleConfig
from oda_rl.agents.random_blocks import RandomBlocks


class Workspace(RandomBlocks):
    """Settings, counters, running figures, and what is remembered of each environment.

    Parameters
    ----------
    sizes : Sizes
        How large the arrays are.
    rng : Generator
        Draws the uniform numbers of the behaviour.

    Attributes
    ----------
    settings, counters, figures : ndarray
        Indexed by the names in `layout`.
    memory : Memory
        What is remembered of each environment.
    scratch : Scratch
        Room for one step.
    """

    def __init__(self, sizes: Sizes, rng: np.random.Generator) -> None:
        n_envs, capacity, n_joint = sizes.n_envs, sizes.capacity, sizes.n_joint
        n_location = sizes.n_features + sizes.n_products
        self.settings = np.zeros(layout.N_SETTINGS)
        self.counters = np.zeros(layout.N_COUNTERS, dtype=np.int64)
        self.figures = np.zeros(layout.N_FIGURES)
        self.memory = layout.Memory(
            z=np.zeros((n_envs, n_location)),
            share=np.zeros((n_envs, capacity)),
            only=np.full(n_envs, -1),
            norm=np.ones(n_envs),
            trace_scale=np.ones(n_envs),
            action=np.zeros(n_envs, dtype=np.int64),
            command=np.zeros((n_envs, sizes.n_command)),
            held=np.zeros(n_envs, dtype=np.int64),
            exploratory=np.zeros(n_envs, dtype=np.bool_),
        )
        self.scratch = layout.Scratch(
            z=np.zeros(n_location),
            distance=np.zeros(capacity),
            share=np.zeros(capacity),
            values=np.zeros(sizes.n_actions),
            sums=np.zeros(sizes.n_actions * sizes.n_basis),
            local=np.zeros(capacity),
            partial=np.zeros(capacity),
            spare=np.zeros(capacity),
            actions=np.zeros((n_joint, capacity)),
            slopes=np.zeros((n_joint, capacity)),
            cells=np.zeros(capacity, dtype=np.int64),
            best=np.zeros(n_joint),
            trial=np.zeros(n_joint),
        )
        self._sizes = sizes
        super().__init__(rng, sizes.n_draws)

    def fill(self, config: TwoTimescaleConfig, horizon: int) -> None:
        """Copy the hyperparameters of a run of `horizon` steps to where the kernels read them."""
        s, c = self.settings, self.counters
        s[layout.GAMMA] = config.gamma if config.criterion == "discounted" else 1.0
        s[layout.AVERAGE_RATE] = 0.0 if config.criterion == "discounted" else config.average_rate
        s[layout.SIGN] = -1.0 if config.minimise else 1.0
        s[layout.TRACE_DECAY] = config.trace_decay
        s[layout.SOFTNESS] = config.softness
        s[layout.LEARNING_RATE_MIN] = config.learning_rate_min
        s[layout.LEARNING_RATE_HALVING] = config.learning_rate_halving
        s[layout.LEARNING_RATE_POWER] = config.learning_rate_power
        s[layout.EPSILON_START] = config.exploration_initial_eps
        s[layout.EPSILON_END] = config.exploration_final_eps
        s[layout.EPSILON_STEPS] = config.exploration_fraction * horizon
        s[layout.SLOW_EVERY] = config.slow_every
        s[layout.SLOW_DOUBLING] = config.slow_doubling
        s[layout.SLOW_A] = config.slow_a
        s[layout.SLOW_B] = config.slow_b
        s[layout.FLATTENING] = config.flattening
        c[layout.HOLD] = config.hold
        c[layout.GROWTH_HOLD] = config.growth_hold
        c[layout.N_LABELS] = self._sizes.n_labels
        c[layout.N_BASIS] = self._sizes.n_basis
        c[layout.RATE_BY_CELL] = config.learning_rate_by == "cell"

    # -- random numbers --------------------------------------------------------------------------

    def random_action(self, env: int, units: layout.Units, hold: int) -> None:
        """Choose a random action of environment `env`, held as the behaviour holds them."""
        draws = self.draw()
        memory = self.memory
        if memory.held[env] > 0:
            memory.held[env] -= 1
            return
        memory.held[env] = int(draws[2] * hold)
        if len(units.action_centre):
            u = (2.0 * draws[layout.N_DRAWS :] - 1.0) * units.action_reach
            memory.command[env] = (units.action_centre + units.action_scale * u).astype(np.float32)
        else:
            memory.action[env] = int(draws[1] * len(self.scratch.values))
            memory.command[env] = units.commands[memory.action[env]]

"""The arrays that the kernels of the baselines work on, and the random numbers that they use."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl.agents.action_choice import falling
from oda_rl.agents.linear_q import learning
from oda_rl.agents.linear_q.config import LinearConfig, SOMConfig, SparseConfig
from oda_rl.agents.linear_q.features import Features
from oda_rl.agents.random_blocks import DrawBlock

TRACES = {
    "accumulating": learning.ACCUMULATING,
    "replacing": learning.REPLACING,
    "clearing": learning.CLEARING,
}


class Workspace(DrawBlock):
    """Settings, counters, weights, and what is remembered of each environment.

    Parameters
    ----------
    features : Features
        What the weights belong to.
    config : LinearConfig
        The hyperparameters.
    n_features, n_actions, n_envs : int
        Sizes of an observation, the action space, and the environments that take turns.
    rng : Generator
        Draws the uniform numbers of the behaviour.

    Attributes
    ----------
    settings, counters, figures : ndarray
        Indexed by the names in `learning`.
    weight, gain, visits : ndarray
        See `learning.Weights`.
    action, held : ndarray of shape (n_envs,)
        The action chosen for each environment, and for how many more steps it is held.
    """

    def __init__(
        self,
        features: Features,
        config: LinearConfig,
        n_features: int,
        n_actions: int,
        n_envs: int,
        rng: np.random.Generator,
    ) -> None:
        self.features = features
        self.n_actions = n_actions
        self.settings = np.zeros(learning.N_SETTINGS)
        self.counters = np.zeros(learning.N_COUNTERS, dtype=np.int64)
        self.figures = np.zeros(learning.N_FIGURES)
        n_weights = features.n_features * n_actions
        self.weight = np.zeros(n_weights)
        by_visits = isinstance(config, SparseConfig) and config.learning_rate_by == "visits"
        self.gain = np.ones(n_weights) if by_visits else features.gain
        self.visits = np.zeros(n_weights if by_visits else 1)
        dense, sparse = self._sizes()
        self.index = np.zeros((n_envs, sparse), dtype=np.int64)
        self.feature = np.zeros((n_envs, dense))
        self.known = np.zeros(n_envs, dtype=np.bool_)
        self.action = np.zeros(n_envs, dtype=np.int64)
        self.held = np.zeros(n_envs, dtype=np.int64)
        self.exploratory = np.zeros(n_envs, dtype=np.bool_)
        self.trace = np.zeros((n_envs, n_weights))
        self.listed = np.zeros((n_envs, 1 if features.is_dense else n_weights), dtype=np.int64)
        self.n_listed = np.zeros(n_envs, dtype=np.int64)
        self.level = np.zeros((n_envs, n_actions))
        n_coordinates = n_features - sum(len(pair) - 1 for pair in config.angles)
        self.u = np.zeros(n_coordinates)
        self.next_index = np.zeros(sparse, dtype=np.int64)
        self.next_feature = np.zeros(dense)
        self.values = np.zeros(n_actions)
        self.encoded = np.zeros(1)
        width = max(features.n_features, int(features.size[0]) * n_coordinates)
        self.room = np.zeros((4, width) if features.is_dense else (1, features.location.shape[1]))
        super().__init__(rng, learning.N_DRAWS)

    def initial_weights(self, value: float) -> NDArray[np.float64]:
        """Weights that give every action of every state this value."""
        features = self.features
        if not features.is_dense:
            return np.full(features.n_features * self.n_actions, value / features.n_active)
        weight = np.zeros((self.n_actions, features.n_features))
        weight[:, 0] = value  # the constant function
        return weight.reshape(-1)

    def fill(self, config: LinearConfig, horizon: int) -> None:
        """Copy the hyperparameters of a run of `horizon` steps to where the kernels read them."""
        s, c = self.settings, self.counters
        s[learning.GAMMA] = config.gamma
        s[learning.TRACE_DECAY] = config.trace_decay
        s[learning.LEARNING_RATE] = config.learning_rate
        s[learning.LEARNING_RATE_MIN] = min(config.learning_rate_min, config.learning_rate)
        s[learning.LEARNING_RATE_STEPS] = config.learning_rate_fraction * horizon
        s[learning.EPSILON_START] = config.exploration_initial_eps
        s[learning.EPSILON_END] = config.exploration_final_eps
        s[learning.EPSILON_STEPS] = config.exploration_fraction * horizon
        s[learning.FEATURE_NORM] = self.features.norm
        c[learning.KIND] = self.features.kind
        c[learning.HOLD] = config.hold
        c[learning.WARMUP_HOLD] = config.warmup_hold
        c[learning.SARSA] = config.update == "sarsa"
        c[learning.MAP_EVERY] = 1
        if isinstance(config, SparseConfig):
            s[learning.LEARNING_RATE_HALVING] = config.learning_rate_halving
            s[learning.LEARNING_RATE_POWER] = config.learning_rate_power
            c[learning.TRACES] = TRACES[config.traces]
            c[learning.RATE_BY_VISITS] = config.learning_rate_by == "visits"
        if isinstance(config, SOMConfig):
            longest = float(self.features.lattice.max())
            s[learning.MAP_RATE] = config.map_rate
            s[learning.MAP_RATE_FINAL] = config.map_rate_final
            s[learning.MAP_RADIUS_FINAL] = config.map_radius_final
            radius = (longest + 1.0) / 2.0 if config.map_radius is None else config.map_radius
            s[learning.MAP_RADIUS] = max(radius, config.map_radius_final)
            s[learning.MAP_HORIZON] = config.map_fraction * horizon
            c[learning.MAP_STEPS] = config.map_steps
            c[learning.MAP_EVERY] = config.map_every

    def gather(self, encoder: tuple[NDArray[Any], ...]) -> tuple[NDArray[Any], ...]:
        """The arrays of `kernels.step`, in its order."""
        return (
            self.settings,
            self.counters,
            self.figures,
            *encoder,
            self.weight,
            self.gain,
            self.visits,
            self.index,
            self.feature,
            self.known,
            self.action,
            self.held,
            self.exploratory,
            self.trace,
            self.listed,
            self.n_listed,
            self.level,
            self.u,
            self.next_index,
            self.next_feature,
            self.values,
            self.room,
        )

    def mean_rate(self) -> float:
        """The stepsize at present: the mean over the visits, if it falls with them."""
        s, c = self.settings, self.counters
        rate = float(s[learning.LEARNING_RATE])
        least = float(s[learning.LEARNING_RATE_MIN])
        if c[learning.RATE_BY_VISITS]:
            total = self.visits.sum()
            rates = np.maximum(rate * self.gain, least)
            return float((self.visits * rates).sum() / total) if total > 0 else rate
        horizon = s[learning.LEARNING_RATE_STEPS]
        return float(falling(rate, least, c[learning.LEARNING_STEPS], horizon))

    def _sizes(self) -> tuple[int, int]:
        """Features that an environment remembers, if they are dense and if they are sparse."""
        if self.features.is_dense:
            return self.features.n_features, 1
        return 1, self.features.n_active

    # -- random numbers --------------------------------------------------------------------------

    def random_action(self, env: int, n_actions: int, hold: int) -> int:
        """A random action of environment `env`, held as the behaviour holds them."""
        draws = self.draw()
        if self.held[env] > 0:
            self.held[env] -= 1
        else:
            self.action[env] = int(draws[1] * n_actions)
            self.held[env] = int(draws[2] * hold)
        return int(self.action[env])

"""The learner of the baselines: linear Sarsa(lambda) or Q(lambda) over any of their features."""

import threading
from typing import Any, Self

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from oda_rl._schema import Schema
from oda_rl._structs import slots
from oda_rl._validation import LARGEST
from oda_rl.agents.actions import ActionCodec
from oda_rl.agents.compiled_rollout import BEGIN, STEP, ObserveFunction, Rollout, run
from oda_rl.agents.learner import Learner
from oda_rl.agents.linear_q import kernels
from oda_rl.agents.linear_q.arrays import linear_schema, make_memory, make_scratch
from oda_rl.agents.linear_q.config import LinearConfig, SOMConfig, SparseConfig, UniformGridConfig
from oda_rl.agents.linear_q.encoding import Encoder, Scratch, encode
from oda_rl.agents.linear_q.features import make_features
from oda_rl.agents.observation_scale import ObservationRange

OBSERVE = ObserveFunction(kernels.observe)
# Attributes that hold addresses of arrays: copies of a learner make their own.
ADDRESSES = ("_table", "_groups", "_reading")
NO_COUNTS = np.empty(0, dtype=np.int64)


class _Reading(threading.local):
    """The table of a learner for reading; each thread has a table and scratch arrays of its own."""

    def __init__(self, groups: tuple[Any, ...], scratch: Scratch) -> None:
        self.groups = groups  # kept alive, as the table has their addresses
        own: Any = map(np.copy, scratch)
        self.scratch = Scratch(*own)
        self.table = np.concatenate([slots(group) for group in (*groups, self.scratch)])


class LinearLearner(Learner):
    """Learns Q(x, a) = w_a . phi(x), with the same code for all kinds of features phi.

    Parameters are as for `Learner`, and `low` and `high` (n_features,), the bounds of the observations,
    which may be infinite; `counts` (n_features,), the numbers of values of discrete coordinates, which
    are the default bins of a grid, or empty. `range` is the range that the `features` divide up.
    `weights` (n_cells, n_actions), a view, has the weight of each feature in the value of each action.
    """

    remedy = "lower learning_rate or trace_decay"
    config: LinearConfig

    def __init__(
        self,
        n_features: int,
        actions: ActionCodec,
        n_envs: int,
        low: NDArray[Any],
        high: NDArray[Any],
        config: LinearConfig,
        seed: int | None = None,
        counts: NDArray[np.int64] = NO_COUNTS,
    ) -> None:
        self.range = ObservationRange(
            low,
            np.maximum(high, low + 1) if len(counts) else high,
            config.warmup_steps,
            config.observation_low,
            config.observation_high,
            config.angles,
        )
        super().__init__(actions, self.range, config.warmup_hold, config, kernels.N_DRAWS, seed)
        (placing_rng,) = self.rng.spawn(1)
        self.features = make_features(config, self.range.is_angle, placing_rng, counts)
        self.counters = np.zeros(kernels.N_COUNTERS, dtype=np.int64)
        self._figures = np.zeros(kernels.N_FIGURES)
        self._observation = np.zeros(n_features)
        self._make_arrays(n_envs)
        self._share()

    def _make_arrays(self, n_envs: int) -> None:
        """Make the weights, the memory of the environments, and scratch arrays."""
        features, n_actions = self.features, self.n_actions
        n_weights = features.n_features * n_actions
        by_visits = self._rate_by_visits
        self._weights = kernels.Weights(
            np.zeros(n_weights),
            np.ones(n_weights) if by_visits else features.gain,
            np.zeros(n_weights if by_visits else 1),
        )
        self._n_envs = n_envs
        self.memory = self._new_memory()
        self._scratch = make_scratch(features, n_actions, len(self.range.source))

    def _new_memory(self) -> kernels.Memory:
        return make_memory(self.features, self.n_actions, self._n_envs)

    # -- what has been learned -------------------------------------------------------------------

    @property
    def n_cells(self) -> int:
        """Cells, tiles of all tilings, or functions of the basis."""
        return self.features.n_features

    @property
    def n_parameters(self) -> int:
        """Numbers stored to act: weights, locations of cells that move, and ranges."""
        numbers = self._weights.weight.size + 2 * len(self.range.low)
        moved = self.features.location.size if isinstance(self.config, SOMConfig) else 0
        return int(numbers + moved)

    @property
    def initial_value(self) -> float:
        """The value of every action when learning begins."""
        if self.config.initial_value is not None:
            return self.config.initial_value
        value = float(self.rewards[-1]) / (1.0 - self.gamma)
        return float(np.clip(value, -LARGEST, LARGEST))  # so that a file can hold it

    @property
    def weights(self) -> NDArray[np.float64]:
        """The weights, of shape (n_cells, n_actions)."""
        weight = self._weights.weight
        if self.features.is_dense:
            return weight.reshape(self.n_actions, -1).T
        return weight.reshape(-1, self.n_actions)

    @property
    def visits(self) -> NDArray[np.float64] | None:
        """Visits of every cell and action, of shape (n_cells, n_actions); None if not counted."""
        return self._weights.visits.reshape(-1, self.n_actions) if self._rate_by_visits else None

    @property
    def codevectors(self) -> NDArray[np.float64]:
        """Centres of the cells of a grid or a map in the units of the coordinates, (n_cells, n)."""
        if isinstance(self.config, SOMConfig):
            return self.range.restore(self.features.location.T)
        if isinstance(self.config, UniformGridConfig):
            size = self.features.size
            index = np.indices(tuple(size)).reshape(len(size), -1).T
            return self.range.restore((index + 0.5) / size)
        raise AttributeError(f"{type(self.config).__name__} has no cells with codevectors")

    @property
    def n_learned(self) -> int:
        """Steps from which values were learned."""
        return int(self.counters[kernels.LEARNING_STEPS])

    @property
    def is_exploring(self) -> bool:
        """Whether all actions are random: in the warm-up, and while only the map learns."""
        return not self.is_scaled or self.counters[kernels.STEPS] < self._settings.map_steps

    def figures(self) -> dict[str, float]:
        """The figures that an SB3 algorithm logs."""
        return {
            "rollout/exploration_rate": self.exploration_rate,
            "train/td_error": float(self._figures[kernels.TD_ERROR]),
            "train/learning_rate": self._mean_rate(),
            "train/n_updates": self.n_learned,
        }

    def encode(self, observation: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[Any]]:
        """The coordinates and features of an observation, after the warm-up.

        The coordinates (n_coordinates,) are in [0, 1]. Sparse features are the indices (n_active,) of
        those that are 1; the Fourier basis gives all its features (n_cells,).
        """
        scratch = self._reading.scratch
        encode(np.asarray(observation, dtype=float), self.features.kind, self._encoder, scratch)
        found = scratch.feature if self.features.is_dense else scratch.index
        return scratch.u.copy(), found.copy()

    @property
    def _rate_by_visits(self) -> bool:
        return isinstance(self.config, SparseConfig) and self.config.learning_rate_by == "visits"

    def _mean_rate(self) -> float:
        """The current stepsize; if it falls with the visits, its mean weighted by them."""
        s = self._settings
        if s.rate_by_visits:
            visits = self._weights.visits
            total = visits.sum()
            rates = np.maximum(s.rate * self._weights.gain, s.rate_min)
            return float((visits * rates).sum() / total) if total > 0 else s.rate
        return self._falling(s.rate, s.rate_min, s.rate_steps)

    # -- learning --------------------------------------------------------------------------------

    def set_horizon(self, total_timesteps: int) -> None:
        """Set the length of the run: exploration and stepsize fall over a fraction of it."""
        super().set_horizon(total_timesteps)
        self._share()

    def _advance(
        self,
        env: int,
        observation: NDArray[Any],
        reward: float,
        terminated: bool,
        ended: bool,
        first: bool,
    ) -> int:
        self._observation[:] = observation
        event, draws = BEGIN if first else STEP, self.draws.draw()
        result = float(reward), terminated, ended
        return int(kernels.observe(self._table, env, self._observation, *result, event, draws))

    def _run(self, env_step: Any, env_reset: Any, rollout: Rollout, n_steps: int) -> int:
        block, command = self.draws.block, self.memory.command
        made: int = run(OBSERVE, self._table, env_step, env_reset, rollout, n_steps, block, command)
        return made

    def _end_warm_up(self) -> None:
        self._figures[kernels.REWARDS :] = self.rewards
        self.range.freeze()
        self._weights.weight[:] = self._initial_weights()
        self._share()

    def _initial_weights(self) -> NDArray[np.float64]:
        """Weights that give every action of every state the initial value."""
        features, value = self.features, self.initial_value
        if not features.is_dense:
            return np.full(features.n_features * self.n_actions, value / features.n_active)
        weight = np.zeros((self.n_actions, features.n_features))
        weight[:, 0] = value  # the constant function
        return weight.reshape(-1)

    def _share(self) -> None:
        """Make the settings of the run and the tables of arrays that compiled code takes."""
        f, known = self.features, self.range
        self._encoder = Encoder(known.source, known.low, known.inverse, *f.tables)
        self._settings = self._make_settings()
        numbers = kernels.Numbers(np.array(self._settings, dtype=float), self.counters, self._figures)
        # The table has the addresses of these arrays, which must live as long.
        self._groups = (numbers, self._encoder, self._weights, self.memory)
        self._table = np.concatenate([slots(group) for group in (*self._groups, self._scratch)])
        self._reading = _Reading(self._groups, self._scratch)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ADDRESSES}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._share()  # with the addresses of the copied arrays

    def _make_settings(self) -> kernels.Settings:
        """The hyperparameters of a run of `horizon` steps, as the kernels read them."""
        c, horizon = self.config, float(self.horizon)
        sparse = c if isinstance(c, SparseConfig) else SparseConfig()
        a_map = c if isinstance(c, SOMConfig) else SOMConfig(map_every=1)
        side = float(self.features.lattice.max()) + 1.0
        radius = side / 2.0 if a_map.map_radius is None else a_map.map_radius
        return kernels.Settings(
            kind=self.features.kind,
            norm=self.features.norm,
            gamma=c.gamma,
            sarsa=c.update == "sarsa",
            trace_kind=kernels.TRACES.index(sparse.traces),
            trace_decay=c.trace_decay,
            rate=c.learning_rate,
            rate_min=min(c.learning_rate_min, c.learning_rate),
            rate_steps=c.learning_rate_fraction * horizon,
            rate_by_visits=self._rate_by_visits,
            rate_halving=sparse.learning_rate_halving,
            rate_power=sparse.learning_rate_power,
            epsilon_start=c.exploration_initial_eps,
            epsilon_end=c.exploration_final_eps,
            epsilon_steps=c.exploration_fraction * horizon,
            hold=c.hold,
            warmup_hold=c.warmup_hold,
            map_rate=a_map.map_rate,
            map_rate_final=a_map.map_rate_final,
            map_radius=max(radius, a_map.map_radius_final),
            map_radius_final=a_map.map_radius_final,
            map_horizon=a_map.map_fraction * horizon,
            map_steps=a_map.map_steps,
            map_every=a_map.map_every,
        )

    # -- acting ----------------------------------------------------------------------------------

    def greedy(self, observations: NDArray[Any]) -> NDArray[np.int64]:
        """The greedy actions for observations of shape (n, n_features), as `Learner.greedy`."""
        return self._evaluate(observations)[0]

    def action_values(self, observations: NDArray[Any]) -> NDArray[np.float64]:
        """Q(x, a), of shape (n, n_actions), as `Learner.action_values`."""
        return self._evaluate(observations)[1]

    def _evaluate(self, observations: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The greedy actions and all values, which are equal until the warm-up is over."""
        actions = np.zeros(len(observations), dtype=np.int64)
        values = np.full((len(observations), self.n_actions), self.initial_value)
        points = np.ascontiguousarray(observations, dtype=np.float64)
        reading = self._reading  # kept alive: training may replace it in the meantime
        if self.is_scaled and not kernels.evaluate(reading.table, points, actions, values):
            raise ValueError("observation must be finite, but contains NaN or infinity.")
        return actions, values

    # -- storing ---------------------------------------------------------------------------------

    @classmethod
    def schema(cls, config: Any, actions: ActionCodec, observations: Any, n_envs: int) -> Schema:
        """The schema of `get_state` in a model file."""
        return linear_schema(config, actions, observations)

    def get_state(self, under_way: bool = True) -> dict[str, Any]:
        """The state as in `Learner.get_state`, the weights, and counters and figures."""
        weights = self._weights._asdict() if self._rate_by_visits else {"weight": self._weights.weight}
        if isinstance(self.config, SOMConfig):
            weights["location"] = self.features.location
        return {
            **super().get_state(under_way),
            "counters": self.counters.copy(),
            "figures": self._figures.copy(),
            "weights": {name: array.copy() for name, array in weights.items()},
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore the state that `get_state` returned."""
        super().set_state(state)
        self.counters[:] = state["counters"]
        self._figures[:] = state["figures"]
        own = {**self._weights._asdict(), "location": self.features.location}
        for name, array in state["weights"].items():
            own[name][:] = array
        self._share()

    @classmethod
    def smallest(cls, seed: int = 0, joint: bool = False, table: bool = False) -> Self:
        """A learner of one coordinate and two actions, which shares its compiled code with all."""
        config = UniformGridConfig(bins=2, warmup_steps=2)
        return cls(1, ActionCodec(spaces.Discrete(2)), 1, np.full(1, -1.0), np.ones(1), config, seed)

"""The learner of the baselines: linear Sarsa(lambda) or Q(lambda) over any of their features."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl.agents import compiled_rollout as playing
from oda_rl.agents.action_choice import falling
from oda_rl.agents.codebook_rl.learner import BadTransitionError
from oda_rl.agents.linear_q import kernels, learning
from oda_rl.agents.linear_q.config import LinearConfig, SOMConfig, SparseConfig, UniformGridConfig
from oda_rl.agents.linear_q.features import make_features
from oda_rl.agents.linear_q.ranges import ObservationRange
from oda_rl.agents.linear_q.workspace import Workspace


class DivergenceError(ArithmeticError):
    """The values have grown out of all bounds."""


class LinearLearner:
    """Learns from one transition at a time; knows nothing of environments or SB3.

    Parameters
    ----------
    n_features, n_actions, n_envs : int
        Sizes of an observation, of the action space, and the number of environments that take turns.
    low, high : ndarray of shape (n_features,)
        Bounds of the observations; may be infinite.
    config : LinearConfig
        The hyperparameters of one of the baselines.
    seed : int or None
        Seeds the generator.

    Attributes
    ----------
    features : Features
        The features, and the tables behind them.
    range : ObservationRange
        The range that they divide up.
    weights : ndarray of shape (n_cells, n_actions)
        A view; for every feature its weight in the value of each action.
    """

    def __init__(
        self,
        n_features: int,
        n_actions: int,
        n_envs: int,
        low: NDArray[Any],
        high: NDArray[Any],
        config: LinearConfig,
        seed: int | None = None,
    ) -> None:
        self.config = config
        self.n_actions = n_actions
        self.n_envs = n_envs
        rng = np.random.default_rng(seed)
        # Acting outside of the training must not change the training.
        self._acting_rng, placing_rng = rng.spawn(2)
        self.range = ObservationRange(
            low,
            high,
            int(config.warmup_steps),
            config.observation_low,
            config.observation_high,
            config.angles,
        )
        self.features = make_features(config, self.range.is_angle, placing_rng)
        self.max_reward = -np.inf
        self.horizon = 1
        self.workspace = Workspace(self.features, config, n_features, n_actions, n_envs, rng)
        self.workspace.fill(config, self.horizon)
        self._gather()

    # -- looking ---------------------------------------------------------------------------------

    @property
    def n_cells(self) -> int:
        """Cells, tiles of all tilings, or functions of the basis."""
        return self.features.n_features

    @property
    def n_parameters(self) -> int:
        """Numbers stored to act: weights, locations of cells that move, and ranges."""
        numbers = self.workspace.weight.size + 2 * len(self.range.low)
        if isinstance(self.config, SOMConfig):
            numbers += self.features.location.size
        return int(numbers)

    @property
    def initial_value(self) -> float:
        """What all values are when learning begins."""
        if self.config.initial_value is not None:
            return self.config.initial_value
        return max(0.0, self.max_reward) / (1.0 - self.config.gamma)

    @property
    def n_touched(self) -> int:
        """Weights that have ever been moved."""
        start = self.workspace.initial_weights(self.initial_value)
        return int(np.count_nonzero(self.workspace.weight != start))

    @property
    def weights(self) -> NDArray[np.float64]:
        """The weights, of shape (n_cells, n_actions)."""
        weight = self.workspace.weight
        if self.features.is_dense:
            return weight.reshape(self.n_actions, -1).T
        return weight.reshape(-1, self.n_actions)

    @property
    def codevectors(self) -> NDArray[np.float64]:
        """Centres of the cells of a grid or a map in the units of the coordinates, (n_cells, n)."""
        if isinstance(self.config, SOMConfig):
            return self.range.restore(self.features.location.T)
        if isinstance(self.config, UniformGridConfig):
            size = self.features.size
            index = np.indices(tuple(size)).reshape(len(size), -1).T
            return self.range.restore((index + 0.5) / size)
        raise AttributeError(f"{type(self.config).__name__} has no cells with a centre")

    @property
    def is_scaled(self) -> bool:
        """Whether the warm-up is over."""
        return self.range.is_known

    @property
    def exploration_rate(self) -> float:
        """The share of random actions at present."""
        s, c = self.workspace.settings, self.workspace.counters
        if not self.is_scaled or c[learning.STEPS] < c[learning.MAP_STEPS]:
            return 1.0
        start, end = s[learning.EPSILON_START], s[learning.EPSILON_END]
        steps = c[learning.LEARNING_STEPS]
        return float(falling(start, end, steps, s[learning.EPSILON_STEPS]))

    def figures(self) -> dict[str, float]:
        """What an SB3 algorithm logs of itself."""
        return {
            "rollout/exploration_rate": self.exploration_rate,
            "train/td_error": float(self.workspace.figures[learning.TD_ERROR]),
            "train/learning_rate": self.workspace.mean_rate(),
            "train/n_updates": int(self.workspace.counters[learning.LEARNING_STEPS]),
        }

    # -- learning --------------------------------------------------------------------------------

    def set_horizon(self, total_timesteps: int) -> None:
        """Tell how long the run will be: exploration and stepsize fall over a fraction of it."""
        self.horizon = total_timesteps
        self.workspace.fill(self.config, self.horizon)

    def begin(self, env: int, observation: NDArray[Any]) -> int:
        """Start an episode of environment `env`; returns the first action, from 0.

        Raises
        ------
        BadTransitionError
            If the observation is not finite.
        """
        if not self.is_scaled:
            self.workspace.held[env] = 0
            return self._warm_up(env, observation)
        return self._call(env, observation, 0.0, False, False, True)

    def step(
        self, env: int, observation: NDArray[Any], reward: float, terminated: bool, ended: bool
    ) -> int:
        """Learn from what the last action of environment `env` led to; returns the next, from 0.

        Raises
        ------
        BadTransitionError
            If the observation or the reward is not finite.
        DivergenceError
            If the values have grown out of all bounds.
        """
        if not self.is_scaled:
            if not np.isfinite(reward):
                self.settle(learning.BAD_REWARD, observation, reward)
            self.max_reward = max(self.max_reward, float(reward))
            return self._warm_up(env, observation)
        return self._call(env, observation, reward, terminated, ended, False)

    def play(
        self,
        env_step: Any,
        env_reset: Any,
        parameters: NDArray[np.float64],
        starts: NDArray[np.float64],
        time_limit: int,
        n_steps: int,
        clock: NDArray[np.int64],
        *playground: NDArray[Any],
    ) -> int:
        """Learn from up to `n_steps` of a compiled environment, in one call; see `kernels.run`."""
        work = self.workspace
        clock[playing.ROW] = work.ready_row()
        made: int = kernels.run(
            env_step,
            env_reset,
            parameters,
            starts,
            time_limit,
            n_steps,
            clock,
            *playground,
            work.block,
            *self._arrays,
            work.encoded,
        )
        work.row = int(clock[playing.ROW])
        return made

    def settle(self, code: int, observation: NDArray[Any], reward: float) -> None:
        """Raise the error that the `code` of a kernel stands for."""
        if code >= 0:
            return
        if code == learning.DIVERGED:
            raise DivergenceError(
                "the values have grown out of all bounds: lower learning_rate or trace_decay."
            )
        what = f"reward {reward}"
        if code == learning.BAD_OBSERVATION:
            what = f"observation {np.asarray(observation)}"
        raise BadTransitionError(f"the environment returned the {what}; it must be finite.")

    def next_action(self, env: int) -> int:
        """The action that was chosen for environment `env`."""
        return int(self.workspace.action[env])

    def _call(
        self,
        env: int,
        observation: NDArray[Any],
        reward: float,
        terminated: bool,
        ended: bool,
        first: bool,
    ) -> int:
        action: int = kernels.step(
            env, observation, reward, terminated, ended, first, self.workspace.draw(), *self._arrays
        )
        self.settle(action, observation, reward)
        return action

    def _warm_up(self, env: int, observation: NDArray[Any]) -> int:
        """Remember the observation, act at random."""
        if not np.isfinite(observation).all():
            self.settle(learning.BAD_OBSERVATION, observation, 0.0)
        if self.range.observe(observation):
            self.range.freeze()
            self.workspace.weight[:] = self.workspace.initial_weights(self.initial_value)
            self._gather()
            return self.begin(env, observation)
        return self.workspace.random_action(env, self.n_actions, int(self.config.warmup_hold))

    def _gather(self) -> None:
        """The arrays of the kernels, in their order."""
        looks = self.range
        self._encoder = (looks.source, looks.low, looks.inverse, *self.features.tables)
        self._arrays = self.workspace.gather(self._encoder)

    # -- acting ----------------------------------------------------------------------------------

    def greedy(self, observations: NDArray[Any]) -> NDArray[np.int64]:
        """The greedy actions for observations of shape (n, n_features); ties go to the first.

        Raises
        ------
        ValueError
            If an observation is not finite.
        """
        actions = np.zeros(len(observations), dtype=np.int64)
        if not self.is_scaled:  # nothing has been learned: one action is as good as another
            return actions
        self._choose(observations, actions)
        return actions

    def action_values(self, observations: NDArray[Any]) -> NDArray[np.float64]:
        """Q(x, a) for observations of shape (n, n_features), of shape (n, n_actions).

        Raises
        ------
        ValueError
            If an observation is not finite.
        """
        values = np.full((len(observations), self.n_actions), self.initial_value)
        action = np.zeros(1, dtype=np.int64)
        for t in range(len(observations) if self.is_scaled else 0):
            self._choose(observations[t : t + 1], action)
            values[t] = self.workspace.values
        return values

    def _choose(self, observations: NDArray[Any], actions: NDArray[np.int64]) -> None:
        """Fill in the greedy actions; the values for the last observation are left in the workspace."""
        work = self.workspace
        finite = kernels.greedy_actions(
            observations,
            self.features.kind,
            work.weight,
            *self._encoder,
            work.u,
            work.next_index,
            work.next_feature,
            work.values,
            work.room,
            actions,
        )
        if not finite:
            raise ValueError("observation contains NaN or infinity.")

    def explore(self, actions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Replace a share of the actions by random ones: the exploration rate of the present."""
        rng = self._acting_rng
        random = rng.random(len(actions)) < self.exploration_rate
        return np.where(random, rng.integers(self.n_actions, size=len(actions)), actions)

    # -- storing ---------------------------------------------------------------------------------

    def get_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """All that has been learned, as numbers for JSON and as arrays.

        Episodes under way are not part of it: their traces are zero when learning goes on.
        """
        work = self.workspace
        config: dict[str, Any] = {
            "is_scaled": self.is_scaled,
            "max_reward": None if self.max_reward == -np.inf else self.max_reward,
            "horizon": self.horizon,
            "counters": work.counters.tolist(),
            "figures": work.figures.tolist(),
            "generator": work.block_state,
            "row": work.row,
        }
        arrays = {
            "range/lower": self.range.lower.copy(),
            "range/upper": self.range.upper.copy(),
            "range/seen": self.range.seen[: self.range.n_seen].copy(),
            "weights/weight": work.weight.copy(),
        }
        if isinstance(self.config, SparseConfig) and self.config.learning_rate_by == "visits":
            arrays |= {"weights/gain": work.gain.copy(), "weights/visits": work.visits.copy()}
        if isinstance(self.config, SOMConfig):
            arrays["map/location"] = self.features.location.copy()
        return config, arrays

    def set_state(self, config: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Go on from `get_state`; the number of environments may be another one."""
        work = self.workspace
        self.horizon = config["horizon"]
        work.counters[:] = config["counters"]
        work.figures[:] = config["figures"]
        work.resume(config["generator"], config["row"])
        work.fill(self.config, self.horizon)
        self.max_reward = -np.inf if config["max_reward"] is None else config["max_reward"]
        self.range.set_state(
            config["is_scaled"], arrays["range/lower"], arrays["range/upper"], arrays["range/seen"]
        )
        work.weight[:] = arrays["weights/weight"]
        for name, array in (("gain", work.gain), ("visits", work.visits)):
            if f"weights/{name}" in arrays:
                array[:] = arrays[f"weights/{name}"]
        if "map/location" in arrays:
            self.features.location[:] = arrays["map/location"]
        self._gather()

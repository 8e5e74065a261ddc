"""The two-timescale learner: Q-learning over aggregate states that an annealer makes finer."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl.agents import kernels, playing
from oda_rl.agents.config import TwoTimescaleConfig
from oda_rl.agents.scaling import SMALLEST, ObservationScale
from oda_rl.agents.workspace import Workspace
from oda_rl.annealing import Annealer
from oda_rl.codebook import Codebook
from oda_rl.schedule import Cooling, Stepsize


class BadTransitionError(ValueError):
    """The environment returned something that nobody can learn from."""


class TwoTimescaleLearner:
    """Learns from one transition at a time; knows nothing of environments or SB3.

    It lives through three phases. *Scaling*: random actions, held for a few steps, tell the scale of
    the observations, which is then frozen. *Growing*: still under random actions, every observation
    moves the annealer, and cells split. *Learning*: values start at an optimistic bound, Q-learning runs
    at every step and the annealer along an ever rarer subsequence.

    Parameters
    ----------
    n_features, n_actions, n_envs : int
        Sizes of an observation, of the action space, and the number of environments that take turns.
    low, high : ndarray of shape (n_features,)
        Bounds of the observations; may be infinite.
    config : TwoTimescaleConfig
        The hyperparameters.
    seed : int or None
        Seeds the generator.
    """

    def __init__(
        self,
        n_features: int,
        n_actions: int,
        n_envs: int,
        low: NDArray[Any],
        high: NDArray[Any],
        config: TwoTimescaleConfig,
        seed: int | None = None,
    ) -> None:
        self.config = config
        self.n_actions = n_actions
        self.n_envs = n_envs
        self.rng = np.random.default_rng(seed)
        # Acting outside of the training must not change the training.
        (self._acting_rng,) = self.rng.spawn(1)
        self.scale = ObservationScale(low, high, config.warmup_steps, config.observation_scale)
        # The value of a cell is a number, or an affine function of the observation.
        self._n_basis = 1 + n_features if config.local_model == "linear" else 1
        self.codebook = Codebook(
            n_features,
            payload={
                "q": (n_actions * self._n_basis, "mean"),
                "visits": (n_actions, "count"),
                "rate": (n_actions, "mean"),
                "trace": (n_actions * self._n_basis * n_envs, "count"),
                "density": (1, "count"),
            },
            capacity=2 * config.max_cells,
        )
        # In a codebook for each action the action is the label.
        self._n_labels = n_actions if config.codebook == "per_action" else 1
        self.annealer: Annealer | None = None
        self.max_reward = -np.inf
        self.horizon = 1
        self.workspace = Workspace(n_features, n_actions, n_envs, self.codebook.capacity, self.rng)
        self._counters = self.workspace.counters
        self._figures = self.workspace.figures
        self.workspace.fill(config, self.horizon, self._n_labels, self._n_basis)

    # -- looking ---------------------------------------------------------------------------------

    @property
    def n_cells(self) -> int:
        """Codevectors in use."""
        return self.codebook.n_cells

    @property
    def n_parameters(self) -> int:
        """Numbers stored to act: locations, Q values, the scale and a temperature."""
        d = self.codebook.n_features
        values = self._n_basis * (self.n_actions if self._n_labels == 1 else 1)
        return self.n_cells * (d + values) + 2 * d + 1

    @property
    def codevectors(self) -> NDArray[np.float64]:
        """The codevectors in the environment's own units, of shape (n_cells, n_features)."""
        return self.scale.restore(self.codebook.codevectors)

    @property
    def q_values(self) -> NDArray[np.float64]:
        """The Q values at the codevectors, of shape (n_cells, n_actions)."""
        parts = self.codebook["q"].reshape(self.n_actions, self._n_basis, -1)
        slopes = parts[:, 1:]
        location = self.codebook.location[: slopes.shape[1], : self.n_cells]
        values: NDArray[np.float64] = parts[:, 0] + (slopes * location).sum(axis=1)
        return values.T

    @property
    def temperature(self) -> float:
        """The annealer's temperature, in squared scaled units; NaN before there is one."""
        return self.annealer.temperature if self.annealer else float("nan")

    @property
    def is_scaled(self) -> bool:
        """Whether the warm-up is over."""
        return self.annealer is not None

    @property
    def exploration_rate(self) -> float:
        """The share of random actions at present."""
        if self._counters[kernels.PHASE] != kernels.LEARNING:
            return 1.0
        learned = self._counters[kernels.LEARNING_STEPS]
        return float(kernels.exploration_rate(self.workspace.settings, learned))

    def figures(self) -> dict[str, float]:
        """What an SB3 algorithm logs of itself."""
        learned = int(self._counters[kernels.LEARNING_STEPS])
        return {
            "rollout/exploration_rate": self.exploration_rate,
            "train/td_error": float(self._figures[kernels.TD_ERROR]),
            "train/learning_rate": self._mean_rate(),
            "train/n_updates": learned,
        }

    @property
    def distortion(self) -> float:
        """Running mean of the squared distance to the nearest codevector, in scaled units."""
        return float(self._figures[kernels.DISTORTION])

    # -- learning --------------------------------------------------------------------------------

    def set_horizon(self, total_timesteps: int) -> None:
        """Tell how long the run will be: exploration falls over a fraction of it."""
        self.horizon = total_timesteps
        self.workspace.fill(self.config, self.horizon, self._n_labels, self._n_basis)

    def begin(self, env: int, observation: NDArray[Any]) -> int:
        """Start an episode of environment `env`.

        Parameters
        ----------
        env : int
            Its index.
        observation : ndarray of shape (n_features,)
            The first observation.

        Returns
        -------
        int
            The first action, from 0.

        Raises
        ------
        BadTransitionError
            If the observation is not finite.
        """
        if self.annealer is None:
            self.workspace.held[env] = 0
            return self._scale(env, observation)
        return self._call(env, observation, 0.0, False, False, True)

    def step(
        self, env: int, observation: NDArray[Any], reward: float, terminated: bool, ended: bool
    ) -> int:
        """Learn from what the last action of environment `env` led to.

        Parameters
        ----------
        env : int
            Its index.
        observation : ndarray of shape (n_features,)
            What was observed next, also at the end of an episode.
        reward : float
            The reward.
        terminated : bool
            Whether the state is terminal: its value is 0. False at a time limit.
        ended : bool
            Whether the episode is over, for whatever reason.

        Returns
        -------
        int
            The next action, from 0; it means nothing if the episode is over.

        Raises
        ------
        BadTransitionError
            If the observation or the reward is not finite.
        """
        if self.annealer is None:
            if not np.isfinite(reward):
                self._complain(kernels.BAD_REWARD, observation, reward)
            self.max_reward = max(self.max_reward, float(reward))
            return self._scale(env, observation)
        return self._call(env, observation, reward, terminated, ended, False)

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
            env, observation, reward, terminated, ended, first, self.workspace.draw(), *self.arrays
        )
        self.settle(action, observation, reward)
        return action

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
        """Learn from up to `n_steps` of a compiled environment, in one call.

        The arguments are those of `kernels.run`. Returns the steps made, or an error for `settle`, which
        is to be called next.
        """
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
            *self.arrays,
        )
        work.row = int(clock[playing.ROW])
        return made

    def next_action(self, env: int) -> int:
        """The action that was chosen for environment `env`."""
        return int(self.workspace.action[env])

    def settle(self, code: int, observation: NDArray[Any], reward: float) -> None:
        """Do what a kernel leaves to Python: raise its error, or finish a temperature."""
        if code < 0:
            self._complain(code, observation, reward)
        if self._counters[kernels.LEVEL_DONE]:
            self._finish_level()

    # -- acting ----------------------------------------------------------------------------------

    def greedy(self, observations: NDArray[Any]) -> NDArray[np.int64]:
        """The greedy actions for observations of shape (n, n_features); ties go to the first.

        Raises
        ------
        ValueError
            If an observation is not finite.
        """
        actions = np.zeros(len(observations), dtype=np.int64)
        if self.annealer is None:  # nothing has been learned: one action is as good as another
            return actions
        book = self.codebook
        finite = kernels.greedy_actions(
            observations,
            self.config.softness * self.annealer.temperature,
            book.n_cells,
            self._n_labels,
            self._n_basis,
            self.scale.centre,
            self.scale.scale,
            book.location,
            book.label,
            book.payload[: self.n_actions * self._n_basis],
            actions,
        )
        if not finite:
            raise ValueError("observation contains NaN or infinity.")
        return actions

    def explore(self, actions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Replace a share of the actions by random ones: the exploration rate of the present."""
        rng = self._acting_rng
        random = rng.random(len(actions)) < self.exploration_rate
        return np.where(random, rng.integers(self.n_actions, size=len(actions)), actions)

    # -- phases ----------------------------------------------------------------------------------

    def _scale(self, env: int, observation: NDArray[Any]) -> int:
        """The scaling phase: remember the observation, act at random."""
        if not np.isfinite(observation).all():
            self._complain(kernels.BAD_OBSERVATION, observation, 0.0)
        if self.scale.observe(observation):
            self._start_growing()
            return self.begin(env, observation)
        return self.workspace.random_action(env, self.n_actions, self.config.growth_hold)

    def _start_growing(self) -> None:
        """Freeze the scale and begin with one cell, just below its critical temperature."""
        book = self.codebook
        points = self.scale.freeze()
        covariance = np.cov(points.T).reshape(book.n_features, book.n_features)
        critical = book.divergence.critical_temperature(points.mean(axis=0), covariance)
        critical = max(critical, SMALLEST)  # observations that never change have no critical one
        for label in range(self._n_labels):
            book.add(points.mean(axis=0), 1.0 / self._n_labels, label)
        self.annealer = self._make_annealer(critical, self.config.min_temperature * critical)
        values, vectors = np.linalg.eigh(covariance)
        book.axis[:, : len(book)] = 2.0 * values[-1] * vectors[:, -1:]
        book["density"][:] = 1.0 / len(book)
        self._counters[kernels.PHASE] = kernels.GROWING
        self._begin_level()

    def _make_annealer(self, t_max: float, t_min: float) -> Annealer:
        config = self.config
        return Annealer(
            self.codebook,
            t_max=t_max,
            t_min=t_min,
            cooling=Cooling(config.cooling),
            stepsize=self._slow_stepsize(),
            max_codevectors=config.growth_cells,
            tol_converge=0.0,
            tol_merge=config.tol_merge,
            min_weight=config.min_weight,
            perturbation=config.perturbation,
            bifurcation=config.bifurcation,
            check_every=config.samples_per_cell,
            max_samples=config.samples_per_cell,
            seed=self.rng,
        )

    def _start_learning(self) -> None:
        """Give every cell the optimistic value, and go on with Q-learning."""
        best = self.config.optimism * max(0.0, self.max_reward) / (1.0 - self.config.gamma)
        book = self.codebook
        book["q"][:] = 0.0
        intercepts = book["q"][:: self._n_basis]
        intercepts[:] = best
        if self._n_labels > 1:
            intercepts *= book.labels == np.arange(self.n_actions)[:, None]
        book["visits"][:] = 0.0
        book["rate"][:] = self.config.learning_rate
        book["trace"][:] = 0.0
        self._figures[kernels.COMMON_RATE] = self.config.learning_rate
        self._counters[kernels.PHASE] = kernels.LEARNING
        assert self.annealer is not None
        self.annealer.max_codevectors = self.config.max_cells
        self.annealer.done = False

    def _slow_stepsize(self) -> Stepsize:
        """What the kernel divides by, but for the flattening."""
        return Stepsize(self.config.slow_a * max(1, self.n_cells), self.config.slow_b)

    def _finish_level(self) -> None:
        """A temperature is finished: merge, prune, cool, split, and look again."""
        assert self.annealer is not None
        self.annealer.distortion = self.distortion
        n = int(self._counters[kernels.SLOW_STEPS])
        # At the last temperature n goes on from where the last look was.
        self.annealer.n_samples_seen += n - self.annealer.n
        self.annealer.n = n
        self.annealer.end_level()
        self.annealer.use_stepsize(self._slow_stepsize())
        growing = self._counters[kernels.PHASE] == kernels.GROWING
        grown = self._counters[kernels.STEPS] >= self.config.growth_steps
        if growing and (self.annealer.done or grown):
            self._start_learning()
        self._begin_level()

    def _begin_level(self) -> None:
        assert self.annealer is not None
        book = self.codebook
        self._counters[kernels.LEVEL_DONE] = 0
        self._counters[kernels.N_CELLS] = book.n_cells
        self._counters[kernels.SLOW_STEPS] = self.annealer.n
        self._counters[kernels.LEVEL_LENGTH] = self.annealer.level_length
        work = self.workspace
        work.settings[kernels.TEMPERATURE] = self.annealer.temperature
        self.arrays = self.workspace.gather(book, self.scale)
        for env in range(self.n_envs):
            work.active[env] = kernels.soft_association(
                work.x[env],
                book.location,
                book.n_cells,
                self._n_labels,
                self.config.softness * self.annealer.temperature,
                book.label,
                work.distance,
                work.cells[env],
                work.share[env],
            )

    # -- storing ---------------------------------------------------------------------------------

    def get_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """All that has been learned, as numbers for JSON and as arrays.

        Episodes under way are not part of it: their traces are zero when learning goes on.
        """
        config: dict[str, Any] = {
            "n_envs": self.n_envs,
            "horizon": self.horizon,
            "max_reward": None if self.max_reward == -np.inf else self.max_reward,
            "counters": self._counters.tolist(),
            "figures": self._figures.tolist(),
            "generator": self.workspace.block_state,
            "row": self.workspace.row,
        }
        arrays = {
            "scale/centre": self.scale.centre.copy(),
            "scale/scale": self.scale.scale.copy(),
            "scale/seen": self.scale.seen[: self.scale.n_seen].copy(),
        }
        if self.annealer is not None:
            annealing = self.annealer.get_state()
            annealing["n"] = int(self._counters[kernels.SLOW_STEPS])
            # A temperature here ends by its number of samples alone, and what was critical is history.
            del annealing["reference"]
            annealing["history"] = [[*record[:-1], []] for record in annealing["history"]]
            config["annealer"] = annealing
            config["t_max"], config["t_min"] = self.annealer.t_max, self.annealer.t_min
            for name, array in self.codebook.get_state().items():
                arrays[f"codebook/{name}"] = array
            rows = self._trace_rows
            arrays["codebook/payload"] = np.delete(arrays["codebook/payload"], rows, axis=0)
        return config, arrays

    def set_state(self, config: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Go on from `get_state`; the number of environments may be another one."""
        self.horizon = config["horizon"]
        self.max_reward = -np.inf if config["max_reward"] is None else config["max_reward"]
        self._counters[:] = config["counters"]
        self._figures[:] = config["figures"]
        self.workspace.resume(config["generator"], config["row"])
        self.scale.set_state(arrays["scale/centre"], arrays["scale/scale"], arrays["scale/seen"])
        self.workspace.fill(self.config, self.horizon, self._n_labels, self._n_basis)
        if "annealer" not in config:
            self.annealer = None
            return
        state = {
            name.removeprefix("codebook/"): array
            for name, array in arrays.items()
            if name.startswith("codebook/")
        }
        rows = self._trace_rows
        silent = np.zeros((rows.stop - rows.start, state["payload"].shape[1]))
        state["payload"] = np.insert(state["payload"], [rows.start], silent, axis=0)
        self.codebook.set_state(state)
        self.annealer = self._make_annealer(config["t_max"], config["t_min"])
        # This also brings the generator, which the annealer shares, to where it was after the block.
        reference = self.codebook.location[:, : self.n_cells]
        self.annealer.set_state({**config["annealer"], "reference": reference})
        if self._counters[kernels.PHASE] == kernels.LEARNING:
            self.annealer.max_codevectors = self.config.max_cells
        self._begin_level()

    @property
    def _trace_rows(self) -> slice:
        rows = self.n_actions * self._n_basis
        start = rows + 2 * self.n_actions
        return slice(start, start + rows * self.n_envs)

    # -- small things ----------------------------------------------------------------------------

    def _mean_rate(self) -> float:
        visits, rates = self.codebook["visits"], self.codebook["rate"]
        total = visits.sum()
        return float((visits * rates).sum() / total) if total > 0 else self.config.learning_rate

    def _complain(self, code: int, observation: NDArray[Any], reward: float) -> None:
        if code == kernels.BAD_REWARD:
            raise BadTransitionError(f"the environment returned the reward {reward}; it must be finite.")
        raise BadTransitionError(
            f"the environment returned the observation {np.asarray(observation)}; it must be finite."
        )


@cache
def load_kernels(dtype: str) -> None:
    """Have the compiled code ready for observations of this dtype.

    The first call of a kernel compiles it, or reads it from the cache. An interrupt at that moment
    leaves numba half loaded; this is for a moment when nothing has been learned yet.

    Parameters
    ----------
    dtype : str
        Name of the dtype of the observations.
    """
    config = TwoTimescaleConfig(
        warmup_steps=4, growth_steps=1, growth_cells=2, max_cells=2, samples_per_cell=1
    )
    bound = np.ones(1)
    learner = TwoTimescaleLearner(1, 2, 1, -bound, bound, config, seed=0)
    points = np.random.default_rng(0).uniform(-1.0, 1.0, (64, 1)).astype(dtype)
    learner.begin(0, points[0])
    for t, point in enumerate(points):
        learner.step(0, point, 0.0, False, t % 8 == 7)
    learner.greedy(points)

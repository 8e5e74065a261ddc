"""The two-timescale learner: Q-learning over aggregate states that an annealer makes finer."""

from typing import Any, ClassVar, Self

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from oda_rl.agents.actions import ActionCodec
from oda_rl.agents.codebook_rl import action_values as reading
from oda_rl.agents.codebook_rl import behaviour
from oda_rl.agents.codebook_rl import state as layout
from oda_rl.agents.codebook_rl import step as kernels
from oda_rl.agents.codebook_rl.sizes import Sizes
from oda_rl.agents.codebook_rl.slow_timescale import SlowTimescale
from oda_rl.agents.codebook_rl.td_error_monitor import CellErrors
from oda_rl.agents.codebook_rl.workspace import Workspace
from oda_rl.agents.compiled_rollout import ROW, Rollout
from oda_rl.agents.config import TwoTimescaleConfig
from oda_rl.agents.learner import BadTransitionError
from oda_rl.agents.observation_scale import ObservationScale
from oda_rl.codebook.annealer import Annealer
from oda_rl.codebook.book import Codebook


class TwoTimescaleLearner:
    """Learns from one transition at a time; knows nothing of environments or SB3.

    It lives through three phases. *Scaling*: random actions, held for a few steps, tell the scale of
    the observations, which is then frozen. *Growing*: still under random actions, every observation
    moves the annealer, and cells split. *Learning*: values start at an optimistic bound, Q-learning runs
    at every step and the annealer along an ever rarer subsequence.

    Parameters
    ----------
    n_observed, n_envs : int
        Size of an observation, and the number of environments that take turns.
    actions : ActionCodec
        The actions. Numbered ones have a value each in every cell; points are part of the location.
    low, high : ndarray of shape (n_features,)
        Bounds of the observations; may be infinite.
    config : TwoTimescaleConfig
        The hyperparameters.
    seed : int or None
        Seeds the generator.
    """

    # What a learner with another codebook has others of
    compiled: ClassVar[Any] = kernels
    reading: ClassVar[Any] = reading
    slow_timescale: ClassVar[type[SlowTimescale]] = SlowTimescale

    def __init__(
        self,
        n_observed: int,
        actions: ActionCodec,
        n_envs: int,
        low: NDArray[Any],
        high: NDArray[Any],
        config: TwoTimescaleConfig,
        seed: int | None = None,
    ) -> None:
        self.config = config
        self.actions = actions
        self.sizes = Sizes.of(n_observed, actions, n_envs, config)
        self.rng = np.random.default_rng(seed)
        # Acting outside of the training must not change the training.
        (self._acting_rng,) = self.rng.spawn(1)
        self.scale = ObservationScale(low, high, config.warmup_steps, config.observation_scale)
        self.slow = self.slow_timescale(self.sizes, config, self.rng)
        reach = np.full(self.sizes.n_joint, config.action_weight)
        self._units = layout.Units(
            centre=np.zeros(0),
            scale=np.ones(0),
            commands=actions.commands,
            action_centre=actions.centre,
            action_scale=actions.scale / reach,
            action_reach=reach,
        )
        self.horizon = 1
        self.workspace = Workspace(self.sizes, self.rng)
        self._counters = self.workspace.counters
        self._figures = self.workspace.figures
        self._watch: CellErrors | None = None
        self.workspace.fill(config, self.horizon)

    @classmethod
    def smallest(cls, seed: int = 0) -> Self:
        """A learner of one coordinate and two actions, to have its compiled code ready."""
        config = TwoTimescaleConfig(
            warmup_steps=4,
            growth_steps=1,
            growth_cells=2,
            max_cells=2,
            samples_per_cell=1,
            tree=cls is not TwoTimescaleLearner,
        )
        actions = ActionCodec(spaces.Discrete(2))
        return cls(1, actions, 1, np.full(1, -1.0), np.ones(1), config, seed)

    # -- looking ---------------------------------------------------------------------------------

    @property
    def codebook(self) -> Codebook:
        """The cells, in scaled units."""
        return self.slow.codebook

    @property
    def annealer(self) -> Annealer | None:
        """What moves them and lets them split; None during the warm-up."""
        return self.slow.annealer

    @property
    def n_cells(self) -> int:
        """Codevectors in use."""
        return self.codebook.n_cells

    @property
    def n_parameters(self) -> int:
        """Numbers stored to act: locations, Q values, the scale and a temperature."""
        values = self.sizes.n_basis * (self.sizes.n_actions if self.sizes.n_labels == 1 else 1)
        n_scales = len(self.scale.centre) + len(self.actions.centre)
        return self.n_cells * (self.codebook.n_features + values) + 2 * n_scales + 1

    @property
    def codevectors(self) -> NDArray[np.float64]:
        """The codevectors in the environment's own units, of shape (n_cells, n_features).

        With continuous actions the last coordinates are those of the action.
        """
        found = self.codebook.codevectors
        n = len(self.scale.centre)
        action = found[:, n:] * self._units.action_scale + self.actions.centre
        return np.hstack([self.scale.restore(found[:, :n]), action])

    @property
    def q_values(self) -> NDArray[np.float64]:
        """The Q values at the codevectors, of shape (n_cells, n_actions).

        With continuous actions a cell has one: that of its own action.
        """
        sizes, found = self.sizes, self.codebook.codevectors.T
        parts = self.codebook["q"].reshape(sizes.n_actions, sizes.n_basis, -1)
        if not sizes.linear:
            return parts[:, 0].T
        observed, acted = found[: sizes.n_observed], found[sizes.n_observed :]
        products = (acted[:, None] * observed).reshape(sizes.n_products, self.n_cells)
        values: NDArray[np.float64] = parts[:, 0] + (parts[:, 1:] * np.vstack([found, products])).sum(1)
        return values.T

    def find_heard(self, observation: NDArray[Any]) -> NDArray[np.bool_]:
        """Which cells are asked for what they say of an observation: all, if there is no tree.

        Parameters
        ----------
        observation : ndarray of shape (n_observed,)
            In the environment's own units.

        Returns
        -------
        ndarray of shape (n_cells,), bool
        """
        return np.ones(self.n_cells, dtype=np.bool_)

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
        if self._counters[layout.PHASE] != layout.LEARNING:
            return 1.0
        learned = self._counters[layout.LEARNING_STEPS]
        return float(behaviour.exploration_rate(self.workspace.settings, learned))

    def figures(self) -> dict[str, float]:
        """What an SB3 algorithm logs of itself."""
        learned = int(self._counters[layout.LEARNING_STEPS])
        return {
            "rollout/exploration_rate": self.exploration_rate,
            "train/td_error": float(self._figures[layout.TD_ERROR]),
            "train/learning_rate": self._mean_rate(),
            "train/n_updates": learned,
        }

    @property
    def distortion(self) -> float:
        """Running mean of the squared distance to the nearest codevector, in scaled units."""
        return float(self._figures[layout.DISTORTION])

    @property
    def td_errors(self) -> NDArray[np.float64] | None:
        """Running means of the size of every cell's TD error, of shape (n_cells,).

        NaN where nothing was seen of a cell; None if `watch_errors` has not been called.
        """
        return self._watch.means(self.n_cells) if self._watch else None

    @property
    def average_reward(self) -> float:
        """The average reward that values are compared with; 0 unless the average is the criterion."""
        return float(self._figures[layout.AVERAGE_REWARD])

    def watch_errors(self, wanted: bool = True) -> None:
        """From now on, let `td_errors` follow the errors of some of the steps, or no longer.

        What is learned is the same.
        """
        if wanted == (self._watch is not None):
            return
        self._watch = CellErrors(self._figures, self.sizes.capacity) if wanted else None
        found = self._watch.figures if self._watch else self._figures[: layout.N_FIGURES].copy()
        self._figures = self.workspace.figures = found
        if self.annealer is not None:
            self._collect()

    # -- learning --------------------------------------------------------------------------------

    def set_horizon(self, total_timesteps: int) -> None:
        """Tell how long the run will be: exploration falls over a fraction of it."""
        self.horizon = total_timesteps
        self.workspace.fill(self.config, self.horizon)

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
            self.workspace.memory.held[env] = 0
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
                self._complain(layout.BAD_REWARD, observation, reward)
            kernels.note_reward(self._sign * float(reward), terminated, self._figures)
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
        action: int = self.compiled.step(
            env, observation, reward, terminated, ended, first, self.workspace.draw(), *self._plain
        )
        self.finish_call(action, observation, reward)
        return action

    def play(
        self,
        env_step: Any,
        env_reset: Any,
        rollout: Rollout,
        time_limit: int,
        n_steps: int,
    ) -> int:
        """Learn from up to `n_steps` of a compiled environment, in one call.

        The arguments are those of `kernels.run`. Returns the steps made, or an error for `finish_call`,
        which is to be called next.
        """
        work = self.workspace
        rollout.clock[ROW] = work.ready_row()
        made: int = self.compiled.run(
            env_step, env_reset, rollout, time_limit, n_steps, work.block, *self._named
        )
        work.row = int(rollout.clock[ROW])
        return made

    def next_action(self, env: int) -> int:
        """The action that was chosen for environment `env`."""
        return int(self.workspace.memory.action[env])

    def command(self, env: int) -> NDArray[np.float64]:
        """What was chosen for environment `env`, as a compiled environment takes it: for continuous
        actions the point, in the environment's own units.
        """
        row: NDArray[np.float64] = self.workspace.memory.command[env]
        return row

    def finish_call(self, code: int, observation: NDArray[Any], reward: float) -> None:
        """Do what a kernel leaves to Python: raise its error, or finish a temperature."""
        if code < 0:
            self._complain(code, observation, reward)
        if self._counters[layout.LEVEL_DONE]:
            self._finish_level()

    # -- acting ----------------------------------------------------------------------------------

    def greedy(self, observations: NDArray[Any]) -> NDArray[Any]:
        """The greedy actions for observations of shape (n, n_observed); ties go to the first.

        Returns
        -------
        ndarray of shape (n,) or (n, n_joint)
            Numbers from 0, or points in the environment's own units.

        Raises
        ------
        ValueError
            If an observation is not finite.
        """
        n, joint = len(observations), self.actions.is_joint
        actions = np.zeros((n, self.actions.commands.shape[1] if joint else 1))
        if self.annealer is None:  # nothing has been learned: one action is as good as another
            actions += self.actions.centre if joint else 0.0
        elif not self.compiled.greedy_actions(observations, actions, *self._named):
            raise ValueError("observation contains NaN or infinity.")
        return actions if joint else actions[:, 0].astype(np.int64)

    def action_values(self, observations: NDArray[Any]) -> NDArray[np.float64]:
        """Q(x, a) for observations of shape (n, n_observed).

        Returns
        -------
        ndarray of shape (n, n_actions)
            With continuous actions (n, 1): the value of the greedy one.

        Raises
        ------
        ValueError
            If an observation is not finite.
        """
        values = np.zeros((len(observations), self.sizes.n_actions))
        if self.annealer is not None and not self.reading.action_values(
            observations, values, *self._named
        ):
            raise ValueError("observation contains NaN or infinity.")
        return values

    def explore(self, actions: NDArray[Any]) -> NDArray[Any]:
        """Replace a share of the actions by random ones: the exploration rate of the present."""
        rng = self._acting_rng
        random = rng.random(len(actions)) < self.exploration_rate
        if not self.actions.is_joint:
            return np.where(random, rng.integers(self.sizes.n_actions, size=len(actions)), actions)
        points = rng.uniform(-1.0, 1.0, actions.shape) * self.actions.scale + self.actions.centre
        return np.where(random[:, None], points, actions)

    # -- phases ----------------------------------------------------------------------------------

    def _scale(self, env: int, observation: NDArray[Any]) -> int:
        """The scaling phase: remember the observation, act at random."""
        if not np.isfinite(observation).all():
            self._complain(layout.BAD_OBSERVATION, observation, 0.0)
        if self.scale.observe(observation):
            self._start_growing()
            return self.begin(env, observation)
        self.workspace.random_action(env, self._units, self.config.growth_hold)
        return self.next_action(env)

    def _start_growing(self) -> None:
        """Freeze the scale and begin to anneal."""
        self.slow.begin(self.scale.freeze())
        self._counters[layout.PHASE] = layout.GROWING
        self._begin_level()

    def _start_learning(self) -> None:
        """Give every cell the optimistic value, and go on with Q-learning."""
        best = self.config.optimism * self._largest_value()
        book = self.codebook
        book["q"][:] = 0.0
        intercepts = book["q"][:: self.sizes.n_basis]
        intercepts[:] = best
        if self.sizes.n_labels > 1:
            intercepts *= book.labels == np.arange(self.sizes.n_actions)[:, None]
        book["visits"][:] = 0.0
        book["rate"][:] = self.config.learning_rate
        book["trace"][:] = 0.0
        self._figures[layout.COMMON_RATE] = self.config.learning_rate
        self._counters[layout.PHASE] = layout.LEARNING
        self.slow.go_on()

    def _largest_value(self) -> float:
        """What the largest rewards seen would come to: for ever, or at once where they end an episode.

        The rewards' average over time is compared with itself: values are about 0 then.
        """
        if self.config.criterion == "average":
            return 0.0
        again = float(self._figures[layout.BEST_REWARD]) / (1.0 - self.config.gamma)
        return max(again, float(self._figures[layout.BEST_ENDING]))

    def _finish_level(self) -> None:
        """A temperature is finished: let the codebook change, and look again."""
        before = self.codebook.codevectors
        self.slow.end_level(int(self._counters[layout.SLOW_STEPS]), self.distortion)
        growing = self._counters[layout.PHASE] == layout.GROWING
        if growing and self.slow.is_grown(int(self._counters[layout.STEPS]), self.horizon):
            self._start_learning()
        if self._watch:
            self._watch.follow(before, self.codebook.codevectors)
        self._begin_level()

    def _begin_level(self) -> None:
        assert self.annealer is not None
        book = self.slow.codebook
        self._counters[layout.LEVEL_DONE] = 0
        self._counters[layout.N_CELLS] = book.n_cells
        self._counters[layout.SLOW_STEPS] = self.annealer.n
        self._counters[layout.LEVEL_LENGTH] = self.annealer.level_length
        work = self.workspace
        work.settings[layout.TEMPERATURE] = self.annealer.temperature
        self._units = self._units._replace(centre=self.scale.centre, scale=self.scale.scale)
        self._collect()
        self.compiled.recall(*self._named)

    def _collect(self) -> None:
        """Have all arrays at hand that the compiled code takes."""
        book = self.slow.codebook
        self._gather(layout.Book(book.location, book.weight, book.label, book.axis, book.payload))

    def _gather(self, *codebook: Any) -> None:
        work = self.workspace
        own = (work.settings, work.counters, work.figures)
        groups = (self._units, *codebook, work.memory, work.scratch)
        self._named = (*own, *groups)
        # The call at every step takes plain arrays: unpacking named tuples is slower.
        self._plain = (*own, *(array for group in groups for array in group))

    # -- storing ---------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """All that has been learned, as a dict of arrays, plain values, and dicts of them.

        Episodes under way are not part of it: their traces are zero when learning goes on.
        """
        config: dict[str, Any] = {
            "n_envs": self.sizes.n_envs,
            "horizon": self.horizon,
            "counters": self._counters.tolist(),
            "figures": self._figures[: layout.N_FIGURES].tolist(),
            "draws": self.workspace.get_state(),
        }
        annealing, codebook = self.slow.get_state(int(self._counters[layout.SLOW_STEPS]))
        return {**config, **annealing, "scale": self.scale.get_state(), "arrays": codebook}

    def set_state(self, config: dict[str, Any]) -> None:
        """Go on from `get_state`; the number of environments may be another one."""
        arrays = config["arrays"]
        self.horizon = config["horizon"]
        self._counters[:] = config["counters"]
        self._figures[: layout.N_FIGURES] = config["figures"]
        before = self.codebook.codevectors
        self.workspace.set_state(config["draws"])
        self.scale.set_state(config["scale"])
        self.workspace.fill(self.config, self.horizon)
        self.slow.set_state(config, arrays, self._counters[layout.PHASE] == layout.LEARNING)
        if self._watch:
            self._watch.follow(before, self.codebook.codevectors)
        if self.annealer is not None:
            self._begin_level()

    @property
    def _sign(self) -> float:
        return -1.0 if self.config.minimise else 1.0

    # -- small things ----------------------------------------------------------------------------

    def _mean_rate(self) -> float:
        visits, rates = self.codebook["visits"], self.codebook["rate"]
        total = visits.sum()
        return float((visits * rates).sum() / total) if total > 0 else self.config.learning_rate

    def _complain(self, code: int, observation: NDArray[Any], reward: float) -> None:
        if code == layout.BAD_REWARD:
            raise BadTransitionError(f"the environment returned the reward {reward}; it must be finite.")
        raise BadTransitionError(
            f"the environment returned the observation {np.asarray(observation)}; it must be finite."
        )

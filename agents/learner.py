"""The base of all learners: warm-up, random numbers, exploration, compiled rollouts, errors, state."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from oda_rl._schema import Schema
from oda_rl.agents.action_choice import falling
from oda_rl.agents.actions import ActionCodec
from oda_rl.agents.bounds import bound_reward
from oda_rl.agents.compiled_rollout import BAD_OBSERVATION, BAD_REWARD, DIVERGED, ROW, Rollout
from oda_rl.agents.observation_scale import WarmUp
from oda_rl.agents.observations import BadTransitionError
from oda_rl.agents.random_blocks import RandomBlocks


class DivergenceError(ArithmeticError):
    """The values have grown out of all bounds."""


class Learner(ABC):
    """Learns from one transition at a time; knows nothing of environments or of Stable-Baselines3.

    Every learner begins with a warm-up: random actions, held for 1 to `warm_up_hold` steps, tell what is
    to be known about the observations. After it, `_advance` learns from a transition and chooses the
    next action, with `n_draws` uniform numbers.

    Attributes
    ----------
    n_actions : int
        Numbered actions; 1 if they are continuous.
    memory : namedtuple
        What is remembered of each environment, as compiled code takes it; among it `action` and `held`
        of shape (n_envs,): the action that was chosen, and for how many more steps it is held.
    warm_up_hold : int
        In the warm-up a random action is held for 1 to this many steps.
    draws, rng : RandomBlocks, Generator
        The random numbers of the behaviour, and where they come from.
    horizon : int
        Steps of the run.
    rewards : ndarray of shape (4,)
        The largest rewards so far, as `bounds.bound_reward` has them.
    """

    memory: Any
    # Whether there is a compiled loop, so that `play` can be called
    has_loop: ClassVar[bool] = True
    # What to change where values diverge
    remedy: ClassVar[str] = "lower learning_rate"

    def __init__(
        self,
        actions: ActionCodec,
        warm_up: WarmUp,
        warm_up_hold: int,
        config: Any,
        n_draws: int,
        seed: int | None = None,
    ) -> None:
        self.config = config
        self.actions = actions
        self.n_actions = actions.n_actions
        self.rng = np.random.default_rng(seed)
        # Acting outside of the training must not change the training.
        (self._acting_rng,) = self.rng.spawn(1)
        self.draws = RandomBlocks(self.rng, n_draws)
        self.horizon = 1
        self.rewards = np.zeros(4)
        self._warm_up = warm_up
        self.warm_up_hold = warm_up_hold

    # -- to be defined by a learner --------------------------------------------------------------

    @property
    @abstractmethod
    def n_cells(self) -> int:
        """Codevectors, cells, functions or points in use."""

    @property
    @abstractmethod
    def n_parameters(self) -> int:
        """Numbers stored to act."""

    @property
    @abstractmethod
    def n_learned(self) -> int:
        """Steps from which values were learned; exploration falls with them."""

    @abstractmethod
    def greedy(self, observations: NDArray[Any]) -> NDArray[Any]:
        """The greedy actions for observations of shape (n, n_features); ties go to the first.

        ValueError if an observation is not finite.
        """

    @abstractmethod
    def action_values(self, observations: NDArray[Any]) -> NDArray[np.float64]:
        """Q(x, a), of shape (n, n_actions); with continuous actions that of the greedy one, (n, 1).

        ValueError if an observation is not finite.
        """

    def state_values(self, observations: NDArray[Any]) -> NDArray[np.float64]:
        """Q of the greedy action, of shape (n,); as `action_values`."""
        return self.action_values(observations).max(axis=1)

    @abstractmethod
    def figures(self) -> dict[str, float]:
        """What an SB3 algorithm logs of its learner."""

    @classmethod
    @abstractmethod
    def smallest(cls, seed: int = 0, joint: bool = False, table: bool = False) -> Self:
        """A learner of one coordinate and two actions, to have its compiled code ready.

        With continuous actions if `joint`, of numbered states if `table`, where it knows these.
        """

    @abstractmethod
    def _new_memory(self) -> Any:
        """What is remembered of environments that have not begun."""

    @abstractmethod
    def _end_warm_up(self) -> None:
        """Use what the warm-up told: from now on `is_scaled` is True."""

    @abstractmethod
    def _advance(
        self,
        env: int,
        observation: NDArray[Any],
        reward: float,
        terminated: bool,
        ended: bool,
        first: bool,
    ) -> int:
        """One step after the warm-up; returns the next action, or the code of an error.

        With `first` the observation begins an episode: there is nothing to learn from yet.
        """

    def _run(self, env_step: Any, env_reset: Any, rollout: Rollout, n_steps: int) -> int:
        """Up to `n_steps` in one compiled call; returns the steps made, or the code of an error."""
        raise NotImplementedError

    def _note_reward(self, reward: float, terminated: bool) -> None:
        """Keep what is to be known of the rewards of the warm-up."""
        self._bound_reward(reward)

    def _bound_reward(self, reward: float) -> float:
        """The reward as far as it is credible; it is noted among the largest."""
        return float(bound_reward(reward, self.config.gamma, self.rewards, 0))

    # -- learning --------------------------------------------------------------------------------

    @property
    def is_scaled(self) -> bool:
        """Whether the warm-up is over, so that a compiled loop can take over."""
        return self._warm_up.is_known

    @property
    def is_exploring(self) -> bool:
        """Whether all actions are random, as in the warm-up."""
        return not self.is_scaled

    def set_horizon(self, total_timesteps: int) -> None:
        """Tell how long the run will be: exploration falls over a fraction of it."""
        self.horizon = max(1, total_timesteps)

    def use(self, config: Any) -> None:
        """Go by another `config` from now on; ValueError names what differs and is fixed by now."""
        self.config.check_change(config, self.n_learned > 0)
        self.config = config
        self.set_horizon(self.horizon)

    def begin(self, env: int, observation: NDArray[Any]) -> int:
        """Start an episode of environment `env`; returns the first action. Raises as `step` does."""
        if self.is_scaled:
            return self._step(env, observation, 0.0, False, False, True)
        self.memory.held[env] = 0
        return self._act_at_random(env, observation)

    def step(
        self, env: int, observation: NDArray[Any], reward: float, terminated: bool, ended: bool
    ) -> int:
        """Learn from what the last action led to.

        Parameters
        ----------
        env : int
            Index of the environment.
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
        BadTransitionError, DivergenceError
            If the observation or the reward is not finite; if the values have grown out of all bounds.
        """
        if not self.is_scaled:
            if not np.isfinite(reward):
                self.finish_call(BAD_REWARD, observation, reward)
            self._note_reward(float(reward), terminated)
            return self._act_at_random(env, observation, float(reward), terminated)
        return self._step(env, observation, reward, terminated, ended, False)

    def play(self, env_step: Any, env_reset: Any, rollout: Rollout, n_steps: int) -> int:
        """Learn from compiled environments, in one call, from where the `rollout` stands on.

        The warm-up must be over. At most `n_steps` are made, fewer if random numbers or starts of
        episodes are used up. Returns the steps made, or the code of an error, for `finish_call`, which
        comes next.
        """
        rollout.cursor[ROW] = self.draws.ready_row()
        made = self._run(env_step, env_reset, rollout, n_steps)
        self.draws.row = int(rollout.cursor[ROW])
        return made

    def finish_call(self, code: int, observation: NDArray[Any], reward: float) -> None:
        """Do what compiled code leaves to Python: raise the error that its `code` stands for.

        There is none if it is not negative. The last `observation` and `reward` are for the message.
        """
        if code >= 0:
            return
        if code == DIVERGED:
            raise DivergenceError(f"the values have grown out of all bounds: {self.remedy}.")
        wrong = (
            f"observation {np.asarray(observation)}" if code == BAD_OBSERVATION else f"reward {reward}"
        )
        raise BadTransitionError(f"the environment returned the {wrong}; it must be finite.")

    def _step(
        self,
        env: int,
        observation: NDArray[Any],
        reward: float,
        terminated: bool,
        ended: bool,
        first: bool,
    ) -> int:
        action = self._advance(env, observation, reward, terminated, ended, first)
        self.finish_call(action, observation, reward)
        return action

    def _act_at_random(self, env: int, observation: NDArray[Any], *paid: Any) -> int:
        """A random step of the warm-up; the last one has `paid` a reward, and ended the task or not."""
        if not np.isfinite(observation).all():
            self.finish_call(BAD_OBSERVATION, observation, 0.0)
        if self._warm_up.observe(observation) and not self._look_further():
            self._end_warm_up()
            return self.begin(env, observation)
        draws, held = self.draws.draw(), self.memory.held
        if held[env] > 0:
            held[env] -= 1
        else:
            held[env] = int(draws[2] * self.warm_up_hold)
            self._random_action(env, draws)
        return self.next_action(env)

    def _look_further(self) -> bool:
        """Whether the warm-up goes on though it has as many observations as wanted."""
        return False

    def _random_action(self, env: int, draws: NDArray[np.float64]) -> None:
        """Note a random action for environment `env`."""
        self.memory.action[env] = int(draws[1] * self.n_actions)

    # -- acting ----------------------------------------------------------------------------------

    @property
    def exploration_rate(self) -> float:
        """The share of random actions at present."""
        if self.is_exploring:
            return 1.0
        start, end = self._exploration
        return self._falling(start, end, self.config.exploration_fraction * self.horizon)

    @property
    def _exploration(self) -> tuple[float, float]:
        """How much is explored at the beginning, and at the end."""
        return self.config.exploration_initial_eps, self.config.exploration_final_eps

    def _falling(self, start: float, end: float, steps: float) -> float:
        """What falls along a line over `steps` from which values are learned, at present."""
        return float(falling(start, end, self.n_learned, steps))

    def next_action(self, env: int) -> int:
        """The action that was chosen for environment `env`; 0 if actions are continuous."""
        return int(self.memory.action[env])

    def act(self, observations: NDArray[Any], deterministic: bool) -> NDArray[Any]:
        """The greedy actions, or, unless `deterministic`, those of the behaviour of the present."""
        actions = self.greedy(observations)
        return actions if deterministic else self.explore(actions)

    def explore(self, actions: NDArray[Any]) -> NDArray[Any]:
        """Replace a share of the actions by random ones: the exploration rate of the present."""
        rng = self._acting_rng
        random = rng.random(len(actions)) < self.exploration_rate
        return np.where(random, rng.integers(self.n_actions, size=len(actions)), actions)

    # -- storing ---------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def schema(cls, config: Any, actions: ActionCodec, observations: Any, n_envs: int) -> Schema:
        """What a model file may hold of `get_state`, with these hyperparameters and sizes."""

    def get_state(self, under_way: bool = True) -> dict[str, Any]:
        """All that has been learned, as a dict of arrays, plain values, and dicts of them.

        With what is known of the episodes `under_way` learning goes on exactly. Without it they begin
        anew, in environments that may be others, and another number.
        """
        memory = {name: array.copy() for name, array in self.memory._asdict().items()}
        return {
            "horizon": self.horizon,
            "rewards": self.rewards.copy(),
            "draws": self.draws.get_state(),
            "acting": self._acting_rng.bit_generator.state,
            "warm_up": self._warm_up.get_state(),
            "memory": memory if under_way else {},
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from `get_state`."""
        self.horizon = state["horizon"]
        self.rewards[:] = state["rewards"]
        self.draws.set_state(state["draws"])
        self._acting_rng.bit_generator.state = state["acting"]
        self._warm_up.set_state(state["warm_up"])
        for name, array in (state["memory"] or self._new_memory()._asdict()).items():
            own = getattr(self.memory, name)
            # a row is longer where the codebook has room for more cells
            part = tuple(map(slice, np.minimum(own.shape, array.shape)))
            own[part] = array[part]

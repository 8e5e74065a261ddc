"""Base class of learners: warm-up, random numbers, exploration, compiled rollouts, errors, state."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from oda_rl._schema import Schema
from oda_rl.agents.action_choice import falling
from oda_rl.agents.actions import ActionCodec
from oda_rl.agents.bounds import bound_reward
from oda_rl.agents.compiled_rollout import BAD_OBSERVATION, BAD_REWARD, DIVERGED, ROW, Rollout
from oda_rl.agents.observations import BadTransitionError
from oda_rl.agents.random_blocks import RandomBlocks
from oda_rl.agents.warm_up import WarmUp


class DivergenceError(ArithmeticError):
    """The values have diverged."""


class Learner(ABC):
    """Learns from one transition at a time, independently of environments and Stable-Baselines3.

    Every learner begins with a warm-up: random actions, each held for 1 to `warm_up_hold` steps, from
    which the scale or the range of observations is learned. After it, `_advance` learns from a
    transition and chooses the next action, with `n_draws` uniform numbers.

    Attributes
    ----------
    n_actions : int
        Number of discrete actions; 1 if actions are continuous.
    memory : namedtuple
        Arrays for compiled code with a row for each environment. `action` and `held`, of shape
        (n_envs,), are the chosen action and the number of further steps for which it is held.
    warm_up_hold : int
        In the warm-up a random action is held for 1 to this many steps.
    draws, rng : RandomBlocks, Generator
        The random numbers of the behaviour, and their generator.
    horizon : int
        Steps of the run.
    rewards : ndarray of shape (4,)
        The largest rewards so far, as `figures` of `bounds.bound_reward`.
    """

    memory: Any
    # Whether there is a compiled loop, so that `play` can be called
    has_loop: ClassVar[bool] = True
    # Advice in the error message if values diverge
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
        # Acting outside of training must not change the random numbers of training.
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
        """Number of codevectors, cells, basis functions or points in use."""

    @property
    @abstractmethod
    def n_parameters(self) -> int:
        """Count of the numbers that are stored to act."""

    @property
    @abstractmethod
    def n_learned(self) -> int:
        """Number of steps from which values were learned; exploration falls with it."""

    @property
    def gamma(self) -> float:
        """The initial discount factor."""
        return self.config.gamma

    @abstractmethod
    def greedy(self, observations: NDArray[Any]) -> NDArray[Any]:
        """The greedy actions for observations of shape (n, n_features); the first of equal ones.

        Raises a ValueError if an observation is not finite.
        """

    @abstractmethod
    def action_values(self, observations: NDArray[Any]) -> NDArray[np.float64]:
        """Q(x, a), of shape (n, n_actions); with continuous actions that of the greedy one, (n, 1).

        Raises a ValueError if an observation is not finite.
        """

    def state_values(self, observations: NDArray[Any]) -> NDArray[np.float64]:
        """Q of the greedy action, of shape (n,); raises as `action_values` does."""
        return self.action_values(observations).max(axis=1)

    @abstractmethod
    def figures(self) -> dict[str, float]:
        """The numbers that an SB3 algorithm logs of its learner."""

    @classmethod
    @abstractmethod
    def smallest(cls, seed: int = 0, joint: bool = False, table: bool = False) -> Self:
        """Make a learner of one coordinate and two actions, to compile or load its code.

        It has continuous actions if `joint` and a table of states if `table`, if it supports these.
        """

    @abstractmethod
    def _new_memory(self) -> Any:
        """The initial `memory`, for environments that have not begun."""

    @abstractmethod
    def _end_warm_up(self) -> None:
        """Apply the results of the warm-up: from now on `is_scaled` is True."""

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
        """Make one step after the warm-up; returns the next action, or the code of an error.

        If `first`, the observation begins an episode, and there is no transition to learn from.
        """

    def _run(self, env_step: Any, env_reset: Any, rollout: Rollout, n_steps: int) -> int:
        """Make up to `n_steps` in one compiled call; returns the steps made, or the code of an error."""
        raise NotImplementedError

    def _note_reward(self, reward: float, terminated: bool) -> None:
        """Record a reward of the warm-up."""
        self._bound_reward(reward)

    def _bound_reward(self, reward: float) -> float:
        """Clip a reward to the credible range, and update the largest `rewards`."""
        return float(bound_reward(reward, self.gamma, self.rewards, 0))

    # -- learning --------------------------------------------------------------------------------

    @property
    def is_scaled(self) -> bool:
        """Whether the warm-up is over, so that the compiled loop can be used."""
        return self._warm_up.is_known

    @property
    def is_exploring(self) -> bool:
        """Whether all actions are random, as in the warm-up."""
        return not self.is_scaled

    @property
    def warm_up_left(self) -> tuple[int, int]:
        """Observations that the warm-up still needs, and the most that it needs if it is extended."""
        left = len(self._warm_up.seen) - self._warm_up.n_seen
        return left, left

    def set_horizon(self, total_timesteps: int) -> None:
        """Set the length of the run: exploration falls over a fraction of it."""
        self.horizon = max(1, total_timesteps)

    def use(self, config: Any) -> None:
        """Change to another `config`; raises a ValueError that names a field if it cannot change."""
        self.config.check_change(config, self.n_learned > 0)
        self.config = config
        self.set_horizon(self.horizon)

    def begin(self, env: int, observation: NDArray[Any]) -> int:
        """Begin an episode of environment `env`; returns the first action. Raises as `step` does."""
        if not self.is_scaled:
            self.memory.held[env] = 0
            return self._act_at_random(env, observation)
        action = self._advance(env, observation, 0.0, False, False, True)
        self.finish_call(action, observation, 0.0)
        return action

    def step(
        self, env: int, observation: NDArray[Any], reward: float, terminated: bool, ended: bool
    ) -> int:
        """Learn from the result of the last action.

        Parameters
        ----------
        env : int
            Index of the environment.
        observation : ndarray of shape (n_features,)
            The next observation, also at the end of an episode.
        reward : float
            The reward.
        terminated : bool
            Whether the state is terminal, so that its value is 0. False at a time limit.
        ended : bool
            Whether the episode is over, for any reason.

        Returns
        -------
        int
            The next action, from 0; meaningless if the episode is over.

        Raises
        ------
        BadTransitionError, DivergenceError
            If the observation or the reward is not finite; if the values have diverged.
        """
        if not self.is_scaled:
            if not np.isfinite(reward):
                self.finish_call(BAD_REWARD, observation, reward)
            self._note_reward(float(reward), terminated)
            return self._act_at_random(env, observation, float(reward), terminated)
        action = self._advance(env, observation, reward, terminated, ended, False)
        self.finish_call(action, observation, reward)
        return action

    def play(self, env_step: Any, env_reset: Any, rollout: Rollout, n_steps: int) -> int:
        """Learn from compiled environments in one call, from the position of the `rollout` on.

        The warm-up must be over. Makes at most `n_steps`, fewer if random numbers or starts of episodes
        are used up. Returns the steps made or the code of an error, to be passed to `finish_call` next.
        """
        rollout.cursor[ROW] = self.draws.ready_row()
        made = self._run(env_step, env_reset, rollout, n_steps)
        self.draws.row = int(rollout.cursor[ROW])
        return made

    def finish_call(self, code: int, observation: NDArray[Any], reward: float) -> None:
        """Do the work that compiled code leaves to Python: raise the error of its `code`.

        A code of 0 or more is no error. The message shows the last `observation` or `reward`.
        """
        if code >= 0:
            return
        if code == DIVERGED:
            raise DivergenceError(f"the values have diverged: {self.remedy}.")
        wrong = (
            f"observation {np.asarray(observation)}" if code == BAD_OBSERVATION else f"reward {reward}"
        )
        raise BadTransitionError(f"the environment returned the {wrong}; it must be finite.")

    def _act_at_random(self, env: int, observation: NDArray[Any], *paid: Any) -> int:
        """Make a random step of the warm-up; `paid` is (reward, terminated) of the last one, if any."""
        if not np.isfinite(observation).all():
            self.finish_call(BAD_OBSERVATION, observation, 0.0)
        if self._warm_up.observe(observation) and not self._extend_warm_up():
            self._end_warm_up()
            return self.begin(env, observation)
        draws, held = self.draws.draw(), self.memory.held
        if held[env] > 0:
            held[env] -= 1
        else:
            held[env] = int(draws[2] * self.warm_up_hold)
            self._random_action(env, draws)
        return self.next_action(env)

    def _extend_warm_up(self) -> bool:
        """Whether to extend the warm-up, though it has as many observations as planned."""
        return False

    def _random_action(self, env: int, draws: NDArray[np.float64]) -> None:
        """Store a random action for environment `env`."""
        self.memory.action[env] = int(draws[1] * self.n_actions)

    # -- acting ----------------------------------------------------------------------------------

    @property
    def exploration_rate(self) -> float:
        """The current share of random actions."""
        if self.is_exploring:
            return 1.0
        c = self.config
        steps = c.exploration_fraction * self.horizon
        return self._falling(c.exploration_initial_eps, c.exploration_final_eps, steps)

    def _falling(self, start: float, end: float, steps: float) -> float:
        """Current value of a number that falls linearly over `steps` from which values are learned."""
        return float(falling(start, end, self.n_learned, steps))

    def next_action(self, env: int) -> int:
        """The action that was chosen for environment `env`; 0 if actions are continuous."""
        return int(self.memory.action[env])

    def act(self, observations: NDArray[Any], deterministic: bool) -> NDArray[Any]:
        """The greedy actions, or, unless `deterministic`, those of the current behaviour policy."""
        actions = self.greedy(observations)
        return actions if deterministic else self.explore(actions)

    def explore(self, actions: NDArray[Any]) -> NDArray[Any]:
        """Replace actions by random ones with the probability `exploration_rate`."""
        rng = self._acting_rng
        random = rng.random(len(actions)) < self.exploration_rate
        return np.where(random, rng.integers(self.n_actions, size=len(actions)), actions)

    # -- storing ---------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def schema(cls, config: Any, actions: ActionCodec, observations: Any, n_envs: int) -> Schema:
        """Schema of `get_state` in a model file, for these hyperparameters and sizes."""

    def get_state(self, under_way: bool = True) -> dict[str, Any]:
        """All that has been learned, as a dict of arrays, plain values, and dicts of them.

        With the memory of the episodes `under_way`, learning continues exactly. Without it new episodes
        begin, possibly in other environments and another number of them.
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
        """Continue from the result of `get_state`."""
        self.horizon = state["horizon"]
        self.rewards[:] = state["rewards"]
        self.draws.set_state(state["draws"])
        self._acting_rng.bit_generator.state = state["acting"]
        self._warm_up.set_state(state["warm_up"])
        for name, array in (state["memory"] or self._new_memory()._asdict()).items():
            own = getattr(self.memory, name)
            # rows are longer if the codebook has capacity for more cells
            part = tuple(map(slice, np.minimum(own.shape, array.shape)))
            own[part] = array[part]

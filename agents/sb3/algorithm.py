"""The Stable-Baselines3 interface around a learner that is given one transition at a time."""

import inspect
from collections import deque
from dataclasses import fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Self

from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback

from oda_rl._validation import whole_number, whole_or_none
from oda_rl.agents.actions import MOST_ACTIONS, ActionCodec
from oda_rl.agents.codecs import NotStatesError
from oda_rl.agents.encoding import NOTHING_KNOWN, Encoding, make_codec
from oda_rl.agents.hyperparameters import Config, naming_sizes, override, show_hyperparameters
from oda_rl.agents.observations import ObservationCodec
from oda_rl.agents.sb3.callback_schedule import make_callback
from oda_rl.agents.sb3.env_origin import EnvOrigin
from oda_rl.agents.sb3.failures import add_step
from oda_rl.agents.sb3.gymnasium_vector import convert_env
from oda_rl.agents.sb3.normalization import find_normalization
from oda_rl.agents.sb3.policy import SB3_POLICIES, CodebookPolicy
from oda_rl.agents.sb3.preparation import detect_one_hot, find_bounds, load_kernels, prepare
from oda_rl.agents.sb3.saving import Saving

if TYPE_CHECKING:
    from oda_rl.agents.learner import Learner


class OnlineAlgorithm(Saving):
    """An SB3 algorithm that hands every transition to a learner.

    A single environment is stepped directly, bypassing the vectorised environment around it, which
    `get_env` still returns. Several environments share one learner, which they use in turn.

    A subclass sets `config_class`, whose fields are added to its keyword arguments, signature and
    docstring, and the path of its learner.

    Attributes
    ----------
    config : Config
        The hyperparameters. Each is also an attribute such as `model.gamma`. Learning continues with a
        newly assigned value; assigning one that can no longer change raises a ValueError.
    learner : Learner
        What has been learned.
    observations : ObservationCodec
        Converts what the environment returns into the rows of numbers that the learner takes.
    env_id : str or None
        The id of the environment that was learned from, if it has one.
    env_origin : EnvOrigin
        How that environment differs from `gymnasium.make(env_id)`: keyword arguments and wrappers.
    stopping : bool
        Whether the training is about to end (see `stop`).
    """

    policy_aliases: ClassVar[dict[str, Any]] = {"CodebookPolicy": CodebookPolicy}
    config_class: ClassVar[type[Config]] = Config
    # Module and class of the learner, relative to `oda_rl.agents`
    learner_path: ClassVar[str]
    most_actions: ClassVar[int] = MOST_ACTIONS  # most discrete actions accepted
    # What is known of the observations: whether they are states, or their principal components
    encoding: Encoding = NOTHING_KNOWN
    # The observations from which this will be learned, one entry for each step, until there are enough
    _first_observations: list[Any]
    learner: Any
    observations: ObservationCodec
    actions: ActionCodec

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "config_class" in vars(cls):
            show_hyperparameters(cls, inspect.signature(OnlineAlgorithm.__init__))

    def __init__(
        self,
        policy: str | type[CodebookPolicy] | None = None,
        env: GymEnv | str | None = None,
        *,
        config: Any = None,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        stats_window_size: int = 100,
        device: str = "cpu",
        _init_setup_model: bool = True,
        **hyperparameters: Any,
    ) -> None:
        if not isinstance(config, self.config_class | None):
            raise TypeError(f"config must be a {self.config_class.__name__}, got {config!r}.")
        seed = whole_or_none("seed", seed, 0)
        config = override(config or self.config_class(), hyperparameters, type(self).__name__)
        given, env = env, None if env is None else self._make_env(env)
        self.config, self.run, self.stopping = config, None, False
        self.stored_envs: list[dict[str, Any]] = []
        self._first_observations = []
        super().__init__(
            self._find_policy(policy),  # type: ignore[arg-type]
            env,
            learning_rate=self.learning_rate,
            tensorboard_log=tensorboard_log,
            verbose=whole_number("verbose", verbose, 0),
            seed=seed,
            stats_window_size=whole_number("stats_window_size", stats_window_size, 0),
            device=device,
            support_multi_env=True,
        )
        self.env_id, self.env_origin, self._is_new_env = None, EnvOrigin(), False
        if env is not None:
            self._read_origin(given)
        if _init_setup_model and env is not None:
            self._setup_model()

    def _find_policy(self, policy: str | type[CodebookPolicy] | None) -> str | type[CodebookPolicy]:
        """The policy by the name or class given; ours for None and for the names of SB3's policies."""
        if policy is None or policy in SB3_POLICIES:
            return next(iter(self.policy_aliases))
        if isinstance(policy, str) and policy not in self.policy_aliases:
            raise ValueError(
                f"policy must be one of {list(self.policy_aliases)}, got {policy!r}. Pass the "
                "environment as a keyword argument: env=..."
            )
        return policy

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__dict__:  # what was set before may be set again, as some are at each step
            self._check_attribute(name)
        super().__setattr__(name, value)

    def _check_attribute(self, name: str) -> None:
        # Otherwise another agent's hyperparameter, or a misspelt one, would be accepted silently.
        if "next_actions" in self.__dict__ and not name.startswith("_") and not hasattr(self, name):
            raise AttributeError(
                f"{type(self).__name__} has no attribute {name!r} to set; its hyperparameters are "
                f"{', '.join(one.name for one in fields(self.config))}."
            )
        found = getattr(type(self), name, None)
        if isinstance(found, property) and found.fset is None:
            meaning = (found.__doc__ or "").strip().splitlines()[0]
            raise AttributeError(f"{name} of {type(self).__name__} cannot be set: {meaning}")

    @classmethod
    def _learner_class(cls, actions: ActionCodec, observations: ObservationCodec) -> "type[Learner]":
        """The class of the learner; its code is imported only when an agent is made."""
        module, _, name = cls.learner_path.rpartition(".")
        found: type[Learner] = getattr(import_module(f"oda_rl.agents.{module}"), name)
        return found

    # -- learning --------------------------------------------------------------------------------

    def learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int | None = 100,
        tb_log_name: str | None = None,
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
        callback_every: int = 1000,
        planned_timesteps: int | None = None,
    ) -> Self:
        """Learn from the environment.

        Parameters
        ----------
        total_timesteps : int
            Environment steps, over all environments together.
        callback : callable, BaseCallback or list of them, optional
            Called after every step, as in SB3.
        log_interval : int or None, default=100
            Episodes between two logs; None leaves logging to a callback such as `LogEveryNTimesteps`.
        tb_log_name : str, optional
            Name of the TensorBoard run; the name of the class by default.
        reset_num_timesteps : bool, default=True
            False continues the step count and the current episode: two calls equal one longer call.
            True counts from 0 and resets the environment, as in SB3, but keeps what was learned.
        progress_bar : bool, default=False
            Whether to show a progress bar.
        callback_every : int, default=1000
            On an environment with compiled dynamics (`oda_rl/...`), steps between two calls of the
            callbacks, which still count all steps. 1 steps it from Python, with the same result, also
            if callbacks set attributes or states of the environments; one that resets them or draws
            from their generators, without a new seed, draws other numbers.
        planned_timesteps : int, optional
            Value of `num_timesteps` at which the whole training is planned to end: exploration and
            other schedules fall over a part of it. By default the end of this call, as in SB3; set it
            if another call is to follow.

        Returns
        -------
        self

        Raises
        ------
        TypeError
            If `callback` is not a callback.
        ValueError
            If a number is not accepted, or there is no environment.
        BadTransitionError
            If the environment returns NaN, infinity or no transition. What was learned before is kept.
        """
        if self.env is None:
            raise ValueError(
                "there is no environment to learn from: make the model with env=..., or call set_env of "
                "one that is from a file."
            )
        total_timesteps = whole_number("total_timesteps", total_timesteps, 0)
        callback_every = whole_number("callback_every", callback_every, 1)
        log_interval = whole_or_none("log_interval", log_interval, 1)
        planned_timesteps = whole_or_none("planned_timesteps", planned_timesteps, 1)
        self._read_new_origin()
        fresh = reset_num_timesteps or self._last_obs is None
        tb_log_name, callback = tb_log_name or type(self).__name__, make_callback(callback, progress_bar)
        total_timesteps, callback = self._setup_learn(
            total_timesteps, callback, reset_num_timesteps, tb_log_name
        )
        self._total_timesteps = planned_timesteps or total_timesteps
        self._step_begun = self.num_timesteps  # the step that is under way, or was the last one
        if fresh:
            detect_one_hot(self)
        self.learner.set_horizon(self._total_timesteps)
        try:
            callback.on_training_start(locals(), globals())
            prepare(self, total_timesteps, fresh)
            self._train(total_timesteps, callback, log_interval, callback_every)
        except BaseException as error:
            self._end_after(error, callback)
            raise
        finally:
            self.stopping = False
        callback.on_training_end()
        return self

    def _train(self, *arguments: Any) -> None:
        """Train; start again if observations are no states although the first ones were."""
        # Imported here because it imports numba, which importing an agent class does not need
        from oda_rl.agents.sb3.training_loops import Training

        training = Training(self, *arguments)
        try:
            training.run()
        except NotStatesError:
            self._begin_without_states(arguments[0])
            training.run()

    def _begin(self) -> None:
        """Choose the first actions of the episodes; reset the environment first if necessary."""
        if self._last_obs is None:
            self._last_obs = self.env.reset()  # type: ignore[union-attr, assignment]
        starts = self.observations.encode_many(self._last_obs, self.n_envs)
        self.next_actions = [self.learner.begin(e, starts[e]) for e in range(self.n_envs)]

    def _begin_without_states(self, total_timesteps: int) -> None:
        """Start again with the entries of observations as features, or their components."""
        self.encoding = NOTHING_KNOWN
        self._build()
        self.learner.set_horizon(self._total_timesteps)
        self._last_obs = self.env.reset()  # type: ignore[union-attr, assignment]
        prepare(self, total_timesteps, True, may_recur=False)

    def stop(self) -> None:
        """End the current training, or the next one, after a step.

        `learn` then returns normally, and can be continued exactly. May be called from a signal handler
        or another thread. On compiled environments tens of thousands of steps may still be made.
        """
        self.stopping = True

    @property
    def remaining_timesteps(self) -> int:
        """Steps until the planned end: `learn(model.remaining_timesteps, reset_num_timesteps=False)`."""
        return max(0, self._total_timesteps - self.num_timesteps)

    def _end_after(self, error: BaseException, callback: BaseCallback) -> None:
        """Call the callbacks at the end of a failed training, and add the step to the error message."""
        self._last_obs = None  # the state of the environment is unknown
        try:
            callback.on_training_end()
        except Exception as other:
            error.add_note(f"A callback then failed as well: {type(other).__name__}: {other}")
        add_step(error, max(self._step_begun, self.num_timesteps))

    def decode(self, env: int, action: int) -> Any:
        """Convert the learner's `action` to an element of the action space, for environment `env`."""
        return self.actions.decode(action)

    # -- setting up ------------------------------------------------------------------------------

    @classmethod
    def _make_env(cls, env: GymEnv | str) -> GymEnv:
        made = convert_env(env)
        cls._check_action_space(made.action_space)
        ObservationCodec(made.observation_space)
        return made

    @classmethod
    def _check_action_space(cls, space: spaces.Space) -> Any:
        """Raise a ValueError if the agent does not support this action space."""
        ActionCodec(space, cls.most_actions)

    def _init_episode_buffers(self) -> None:
        self.ep_info_buffer = deque(maxlen=self._stats_window_size)
        self.ep_success_buffer = deque(maxlen=self._stats_window_size)

    def _setup_model(self) -> None:
        self.set_random_seed(self.seed)
        self._build()

    def _build(self) -> None:
        self.actions = ActionCodec(self.action_space, self.most_actions)
        self.observations = make_codec(self.observation_space, self._can_keep_a_table, self.encoding)
        self.observations.normalization = find_normalization(self.env)
        self._load_kernels()
        is_watched = getattr(vars(self).get("learner"), "td_errors", None) is not None
        with naming_sizes(self.config):
            self.learner = self._make_learner()
        if is_watched:
            self.learner.watch_errors()
        self.policy = self.policy_class(self.learner, self.observations, self.actions)
        self.next_actions = [0] * self.n_envs

    def _load_kernels(self) -> None:
        """Load or compile the learner's compiled code before anything has been learned."""
        kind = self._learner_class(self.actions, self.observations)
        load_kernels(kind, self.actions.is_continuous, self.observations.is_table)

    def _make_learner(self) -> Any:
        seen = self.observations
        kind: Any = self._learner_class(self.actions, seen)
        low, high = find_bounds(self.env, seen)
        sizes = seen.n_features, self.actions, self.n_envs
        return kind(*sizes, low, high, self.config, self.seed, **self._learner_options())

    def _learner_options(self) -> dict[str, Any]:
        return {"counts": self.observations.counts} if self.observations.is_table else {}

    def set_random_seed(self, seed: int | None = None) -> None:
        """Seed the environment, but neither the learner's own generator nor the global ones."""
        if seed is not None:
            self.action_space.seed(seed)
            if self.env is not None:
                self.env.seed(seed)

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        return [], []

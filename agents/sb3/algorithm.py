"""The interface of Stable-Baselines3 around a learner that is given one transition at a time."""

import inspect
import io
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback
from stable_baselines3.common.utils import safe_mean
from stable_baselines3.common.vec_env import VecEnv

from oda_rl import storage
from oda_rl._schema import anything
from oda_rl.agents.actions import ActionCodec, describe_space, restore_space
from oda_rl.agents.hyperparameters import Config, override, show_hyperparameters
from oda_rl.agents.sb3.loading import load_kernels
from oda_rl.agents.sb3.policy import CodebookPolicy
from oda_rl.envs.spaces import check_discrete_action_space, check_observation_space

if TYPE_CHECKING:
    from oda_rl.agents.learner import Learner
    from oda_rl.inspect.model import View
    from oda_rl.inspect.table import Table


class OnlineAlgorithm(BaseAlgorithm):
    """An SB3 algorithm that hands every transition to a learner.

    A single environment is stepped directly, without the vectorised environment around it, which
    `get_env` returns all the same. Several environments take turns at the same learner.

    A subclass names its `config_class`, the fields of which become keyword arguments, parts of its
    signature and of its docstring, and its learner.

    Attributes
    ----------
    config : Config
        The hyperparameters.
    learner : Learner
        What has been learned.
    env_id : str or None
        The id of the environment that was learned from, if it has one.
    """

    policy_aliases: ClassVar[dict[str, Any]] = {"CodebookPolicy": CodebookPolicy}
    config_class: ClassVar[type[Config]] = Config
    learner: Any
    observation_space: spaces.Box
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
        policy = next(iter(self.policy_aliases)) if policy is None else policy
        if isinstance(policy, str) and policy not in self.policy_aliases:
            raise ValueError(
                f"policy must be one of {list(self.policy_aliases)}, got {policy!r}. "
                "An environment is given by name: env=..."
            )
        if not isinstance(config, self.config_class | None):
            raise TypeError(f"config must be a {self.config_class.__name__}, got {config!r}.")
        config = override(config or self.config_class(), hyperparameters, type(self).__name__)
        if env is not None:
            env = self._make_env(env)
        super().__init__(
            policy,  # type: ignore[arg-type]
            env,
            learning_rate=0.0,
            tensorboard_log=tensorboard_log,
            verbose=verbose,
            seed=seed,
            stats_window_size=stats_window_size,
            device=device,
            support_multi_env=True,
        )
        self.config = config
        self.env_id = self._read_env_id()
        if _init_setup_model and env is not None:
            self._setup_model()

    # -- to be defined by a subclass -------------------------------------------------------------

    @classmethod
    def _learner_class(cls, config: Any) -> "type[Learner]":
        """The learner that the algorithm drives with these hyperparameters."""
        raise NotImplementedError

    # -- what has been learned -------------------------------------------------------------------

    @property
    def n_cells(self) -> int:
        """Codevectors in use."""
        return self.learner.n_cells

    @property
    def n_parameters(self) -> int:
        """Numbers stored to act."""
        return self.learner.n_parameters

    @property
    def history_(self) -> list[Any]:
        """One record per finished temperature, as the annealer's `Level`; none without an annealer."""
        return list(getattr(getattr(self.learner, "annealer", None), "history", []))

    def learning_curve(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Steps at the ends of the episodes so far, and their returns, each of shape (n_episodes,).

        Those that the environments remember: none for a model that was read from a file.
        """
        from oda_rl.agents.explain.agent_view import learning_curve

        return learning_curve(self)

    def cells(self) -> "Table":
        """The cells as a table: their states, greedy actions, values, margins and shares of the visits.

        Raises a ValueError before anything has been learned, and where there are no cells.
        """
        from oda_rl.agents.explain import explain_policy, policy_sheet

        return policy_sheet(explain_policy(self))

    def view(self) -> "View":
        """What there is to be drawn, for `oda_rl.plotting`."""
        from oda_rl.agents.explain.agent_view import view_of_agent

        return view_of_agent(self)

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
    ) -> Self:
        """Learn from the environment.

        Parameters
        ----------
        total_timesteps : int
            Environment steps, over all environments together.
        callback : callable, BaseCallback or list of them, optional
            Called after every step, as SB3 does.
        log_interval : int or None, default=100
            Episodes between two logs; None leaves it to a callback such as `LogEveryNTimesteps`.
        tb_log_name : str, optional
            Name of the TensorBoard run; the name of the class by default.
        reset_num_timesteps : bool, default=True
            False goes on counting, and goes on with the episode under way.
        progress_bar : bool, default=False
            Show one.
        callback_every : int, default=1000
            On an environment with compiled dynamics (`oda_rl/...`), steps between two calls of the
            callbacks; they count all steps. 1 steps it from Python like any other, with the same result.

        Returns
        -------
        self

        Raises
        ------
        BadTransitionError
            If the environment returns NaN or infinity. What was learned until then is kept.
        """
        if self.env is None:
            raise ValueError("there is no environment to learn from: call set_env first.")
        # With numba, which the learner has imported by now; the name of an agent does without.
        from oda_rl.agents.learner import BadTransitionError
        from oda_rl.agents.sb3.training_loops import train

        fresh = reset_num_timesteps or self._last_obs is None
        total_timesteps, callback = self._setup_learn(
            total_timesteps,
            callback,
            reset_num_timesteps,
            tb_log_name or type(self).__name__,
            progress_bar,
        )
        self.learner.set_horizon(total_timesteps)
        callback.on_training_start(locals(), globals())
        finished = False
        try:
            if fresh:
                starts: Any = self._last_obs
                self.next_actions = [self.learner.begin(e, starts[e]) for e in range(self.n_envs)]
            train(self, total_timesteps, callback, log_interval, callback_every)
            finished = True
        except BadTransitionError as error:
            raise BadTransitionError(
                f"{error} This was at step {self.num_timesteps} of the training; what was learned "
                "before is kept and can be saved."
            ) from None
        finally:
            if not finished:  # where the environment stands is unknown
                self._last_obs = None
            callback.on_training_end()
        return self

    def decode(self, env: int, action: int) -> Any:
        """What environment `env` takes for the learner's `action`."""
        return self.actions.decode(action)

    def dump_logs(self) -> None:
        """Write what has been recorded to the log, under SB3's own tags."""
        elapsed = max((time.time_ns() - self.start_time) / 1e9, 1e-9)
        steps = self.num_timesteps - self._num_timesteps_at_start
        if self.ep_info_buffer:
            self.logger.record("rollout/ep_rew_mean", safe_mean([i["r"] for i in self.ep_info_buffer]))
            self.logger.record("rollout/ep_len_mean", safe_mean([i["l"] for i in self.ep_info_buffer]))
        if self.ep_success_buffer:
            self.logger.record("rollout/success_rate", safe_mean(self.ep_success_buffer))
        for name, value in self.learner.figures().items():
            self.logger.record(name, value)
        self.logger.record("time/episodes", self._episode_num, exclude="tensorboard")
        self.logger.record("time/fps", int(steps / elapsed))
        self.logger.record("time/time_elapsed", int(elapsed), exclude="tensorboard")
        self.logger.record("time/total_timesteps", self.num_timesteps, exclude="tensorboard")
        self.logger.dump(step=self.num_timesteps)

    # -- setting up ------------------------------------------------------------------------------

    @classmethod
    def _make_env(cls, env: GymEnv | str) -> GymEnv:
        # SB3 would ask for pictures, which some environments pay for at every step
        made = gym.make(env) if isinstance(env, str) else env
        if isinstance(made, gym.vector.VectorEnv):
            raise ValueError(
                "env is a gymnasium.vector environment; a gymnasium.Env, its id, or a VecEnv of "
                "Stable-Baselines3 is accepted. Try stable_baselines3.common.env_util.make_vec_env."
            )
        check_observation_space(made.observation_space)
        cls._check_action_space(made.action_space)
        return made

    @classmethod
    def _check_action_space(cls, space: spaces.Space) -> None:
        """Raise a ValueError if the agent has no use for this space."""
        check_discrete_action_space(space)

    def _setup_model(self) -> None:
        self.set_random_seed(self.seed)
        self._build()

    def _build(self) -> None:
        self.actions = ActionCodec(self.action_space)
        kind: Any = self._learner_class(self.config)
        load_kernels(kind, str(self.observation_space.dtype), self.actions.is_continuous)
        self.learner = self._make_learner()
        self.policy = self.policy_class(self.learner, self.observation_space, self.actions)
        self.next_actions = [0] * self.n_envs

    def _make_learner(self) -> Any:
        kind: Any = self._learner_class(self.config)
        space = self.observation_space
        return kind(
            len(space.low), self.actions, self.n_envs, space.low, space.high, self.config, self.seed
        )

    def set_random_seed(self, seed: int | None = None) -> None:
        """Seed the environment. The learner's generator is its own; global generators are left alone."""
        if seed is None:
            return
        self.action_space.seed(seed)
        if self.env is not None:
            self.env.seed(seed)

    def _read_env_id(self) -> str | None:
        spec = self.env.get_attr("spec")[0] if self.env is not None else None
        return spec.id if spec is not None else None

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        return [], []

    # -- storing ---------------------------------------------------------------------------------

    def save(
        self, path: str | Path | io.BufferedIOBase, exclude: Any = None, include: Any = None
    ) -> None:
        """Write the model to a `.npz` of plain arrays and JSON.

        Parameters
        ----------
        path : str, path or binary file
            Where to. `.npz` is appended to a name without a suffix.
        exclude, include : None
            For the interface's sake; a model file always holds the whole model.
        """
        space = self.observation_space
        state = {
            "env_id": self.env_id,
            "hyperparameters": self.config.to_dict(),
            "learner": self.learner.get_state(),
            "action_space": describe_space(self.action_space),
            "observation_space": {"low": space.low, "high": space.high, "dtype": str(space.dtype)},
            "n_envs": self.n_envs,
            "seed": self.seed,
            "num_timesteps": self.num_timesteps,
            "episodes": self._episode_num,
        }
        storage.save(path, type(self).__name__, state)

    @classmethod
    def load(  # type: ignore[override]
        cls,
        path: str | os.PathLike[str] | io.BufferedIOBase,
        env: GymEnv | str | None = None,
        device: str = "cpu",
        custom_objects: None = None,
        print_system_info: bool = False,
        force_reset: bool = True,
        **options: Any,
    ) -> Self:
        """Read a model from a file.

        Parameters
        ----------
        path : str, path or binary file
            As given to `save`.
        env : str, gymnasium.Env or VecEnv, optional
            An environment to go on learning from, with the spaces of the first one.
        device, custom_objects, print_system_info, force_reset
            For the interface's sake.
        **options
            `tensorboard_log`, `verbose` and `seed`, as for the constructor.

        Returns
        -------
        The model; it acts as the saved one did.

        Raises
        ------
        FileNotFoundError, ValueError
            If there is no such file, or it is damaged, foreign, or newer; the message says which.
        """
        state: Any = storage.load(path, cls.__name__, anything)
        model = cls(
            env=None,
            device=device,
            _init_setup_model=False,
            **{"seed": state["seed"], **options},
            **state["hyperparameters"],
        )
        space = state["observation_space"]
        model.observation_space = spaces.Box(
            space["low"], space["high"], dtype=np.dtype(space["dtype"]).type
        )
        model.action_space = restore_space(state["action_space"])
        model.n_envs = state["n_envs"]
        if env is not None:
            made = model._make_env(env)
            model.n_envs = made.num_envs if isinstance(made, VecEnv) else 1
            model.set_env(made)
        if "seed" in options:  # otherwise the environment goes on with the generator that it has
            model.set_random_seed(options["seed"])
        model._build()
        model.learner.set_state(state["learner"])
        model.env_id = state["env_id"]
        model.num_timesteps = state["num_timesteps"]
        model._episode_num = state["episodes"]
        return model

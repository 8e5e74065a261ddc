"""Saving an agent to a model file, and continuing from one."""

import io
import os
from collections.abc import Mapping
from copy import copy, deepcopy
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.type_aliases import GymEnv
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from oda_rl import storage
from oda_rl.agents.actions import describe_space, restore_space
from oda_rl.agents.encoding import Encoding
from oda_rl.agents.hyperparameters import override
from oda_rl.agents.sb3.env_origin import EnvOrigin, read_origin
from oda_rl.agents.sb3.normalization import Normalization, find_normalization
from oda_rl.agents.sb3.readable import Readable
from oda_rl.agents.schema import model_schema
from oda_rl.envs.names import is_env_id

if TYPE_CHECKING:
    from oda_rl.agents.sb3.compiled_run import CompiledRun

# Keys of the dict that `get_parameters` returns
PARAMETERS = ["action_space", "encoding", "hyperparameters", "learner", "observation_space"]


class Saving(Readable):
    """The part of an `OnlineAlgorithm` that saves, loads and copies what has been learned."""

    actions: Any
    next_actions: list[int]
    _begin: Any
    _make_env: Any
    _is_new_env: bool
    encoding: Encoding
    _first_observations: list[Any]
    observations: Any
    run: "CompiledRun | None"
    stored_envs: list[dict[str, Any]]

    def save(
        self, path: str | Path | io.BufferedIOBase, exclude: Any = None, include: Any = None
    ) -> None:
        """Write the model to a `.npz` of plain arrays and JSON.

        Parameters
        ----------
        path : str, path or binary file
            Where to write. `.npz` is appended to a name without a suffix.
        exclude, include : None
            Accepted for compatibility with SB3; a model file always holds the whole model.
        """
        write_model(self, path)

    @classmethod
    def load(  # type: ignore[override]
        cls,
        path: str | os.PathLike[str] | io.BufferedIOBase,
        env: GymEnv | str | None = None,
        device: str = "cpu",
        custom_objects: Any = None,
        print_system_info: bool = False,
        force_reset: bool | None = None,
        **options: Any,
    ) -> Self:
        """Read a model from a file.

        Parameters
        ----------
        path : str, path or binary file
            As given to `save`.
        env : str, gymnasium.Env or VecEnv, optional
            An environment to continue learning from, with the spaces of the first one.
        device, custom_objects, print_system_info
            Accepted for compatibility with SB3.
        force_reset : bool, optional
            Whether `learn` always resets the environment. By default it does, unless the state of the
            environment could be restored from the file (see `oda_rl.envs.continuing`):
            `learn(..., reset_num_timesteps=False)` then continues exactly. False assumes that `env` is
            in the state in which the model was saved, as SB3 does.
        **options
            `tensorboard_log`, `verbose`, `stats_window_size` and `seed`, as for the constructor, and new
            values of hyperparameters. A seed starts new episodes, from another random stream.

        Returns
        -------
        The model; it acts as the saved one did.

        Raises
        ------
        FileNotFoundError, ValueError
            If there is no such file, or it is damaged, of another kind or format version; if a
            hyperparameter can no longer change. The message names the cause.
        TypeError
            If `path` is not a path or a binary file.
        """
        state: Any = storage.load(path, cls.__name__, model_schema(cls))
        given, options = split_options(cls.config_class, options)
        made: Any = cls
        model: Any = made(
            env=None,
            device=device,
            _init_setup_model=False,
            **{"seed": state["seed"], **options},
            **state["hyperparameters"],
        )
        with storage.restoring(path):
            restore_model(model, state)
        if env is not None:
            take_env(model, model._make_env(env), True if "seed" in options else force_reset)
        if "seed" in options:
            model.set_random_seed(options["seed"])
        model.set_hyperparameters(**given)
        return model

    def set_env(self, env: GymEnv, force_reset: bool | None = None) -> None:
        """Learn from another environment from now on.

        Parameters
        ----------
        env : gymnasium.Env or VecEnv
            With the same spaces, and the same number of environments.
        force_reset : bool, optional
            As for `load`.
        """
        stored, last_obs = self.stored_envs, self._last_obs
        super().set_env(self._make_env(env), force_reset is not False)
        self.stored_envs, self._is_new_env = [], True
        self.observations.normalization = find_normalization(self.env)
        if stored and restore_all(self.env, stored) and force_reset is None:  # type: ignore[arg-type]
            self._last_obs = last_obs

    def _read_origin(self, given: Any) -> None:
        """Store how the environment is made; `given` is its id, or the environment itself."""
        is_id = isinstance(given, str)
        self.env_id, found = read_origin(self.env, given if is_id else self.env_id)
        self.env_origin = EnvOrigin() if is_id else found
        self._is_new_env = False

    def _read_new_origin(self) -> None:
        """Store how the environment is made, if it has been replaced since that was stored."""
        if self._is_new_env:
            self._read_origin(self.env)

    def get_parameters(self) -> dict[str, Any]:
        """Copies of all that has been learned, with the spaces and the hyperparameters.

        Unlike a file, they do not include the current episodes and the states of the environments.
        """
        return {
            "action_space": describe_space(self.action_space),
            "encoding": deepcopy(self.encoding.describe()),
            "hyperparameters": self.config.to_dict(),
            "learner": deepcopy(self.learner.get_state(under_way=False)),
            "observation_space": describe_space(self.observation_space),
        }

    def set_parameters(
        self, load_path_or_dict: Any, exact_match: bool = True, device: Any = "cpu"
    ) -> None:
        """Replace what this agent has learned by what another one of its class has learned.

        Environments, step counts and logs stay. Current episodes continue, and their next actions are
        chosen again.

        Parameters
        ----------
        load_path_or_dict : mapping, str, path or binary file
            What `get_parameters` returned, or a model file.
        exact_match, device
            Accepted for compatibility with SB3.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        TypeError
            If it is neither a mapping nor a file.
        ValueError
            If the parameters belong to other spaces, or to hyperparameters with which this agent cannot
            continue. Then nothing is changed.
        """
        given = load_path_or_dict
        if not isinstance(given, Mapping):
            if not isinstance(given, str | os.PathLike | io.BufferedIOBase):
                raise TypeError(
                    "load_path_or_dict must be what get_parameters() returned, a str, a path or a "
                    f"binary file, got {given!r}."
                )
            given = type(self).load(given).get_parameters()
        if sorted(given) != PARAMETERS:
            raise ValueError(f"parameters must have the keys {PARAMETERS}, got {sorted(given)}.")
        for name in ("action_space", "observation_space"):
            own, found = getattr(self, name), restore_space(given[name])
            if own != found:
                raise ValueError(f"parameters must be for the {name} {own}, got those for {found}.")
        theirs = override(self.config, given["hyperparameters"], type(self).__name__)
        self.config.check_change(theirs, learned=True)
        other: Any = copy(self)
        # equal spaces may have their parts in another order, which is that of the learned numbers
        other.observation_space = restore_space(given["observation_space"])
        other.encoding = Encoding.restore(deepcopy(given["encoding"]))
        other._build()
        other.observations.normalization = self.observations.normalization
        try:
            other.learner.set_state(deepcopy(given["learner"]))
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"parameters do not fit this agent: {error}") from error
        self._first_observations = []  # of what has been replaced
        taken = "observation_space", "encoding", "observations", "learner", "next_actions"
        for name in taken:
            setattr(self, name, getattr(other, name))
        vars(self.policy).update(vars(other.policy))
        if self._last_obs is not None:
            self._begin()

    def __getstate__(self) -> dict[str, Any]:
        self.sync_env()
        # A logger writes to open files and is not part of what is learned; `learn` makes another.
        own = {name: value for name, value in vars(self).items() if name != "_logger"}
        return {**own, "_custom_logger": False, "run": None}

    def sync_env(self) -> None:
        """Bring the environments to the state that a running compiled loop has reached, if any."""
        if self.run is not None:
            self.run.hand_over()


def write_model(model: Any, path: Any, more: Mapping[str, Any] | None = None) -> None:
    """Write a model to a file, with `more` entries for the program that trains it."""
    storage.save(path, type(model).__name__, {**describe_model(model), **(more or {})})


def describe_model(model: Any) -> dict[str, Any]:
    """Everything that a model needs to continue exactly, as plain values and arrays."""
    if model.env_id is not None and not is_env_id(model.env_id):  # a file with it would be refused
        raise ValueError(f"env_id must be an id of Gymnasium, or module:id, got {model.env_id!r}.")
    model.sync_env()
    space, learner, normalized = model.observation_space, model.learner, model.observations.normalization
    episodes: Any = model.ep_info_buffer or ()
    seen: Any = model._last_obs
    seen = {str(j): part for j, part in enumerate(seen)} if isinstance(seen, tuple) else seen
    return {
        "env_id": model.env_id,
        **({} if model.env_origin == EnvOrigin() else {"env_origin": model.env_origin.to_dict()}),
        "hyperparameters": model.config.to_dict(),
        "learner": learner.get_state(),
        "action_space": describe_space(model.action_space),
        "observation_space": describe_space(space),
        **model.encoding.describe(),
        **({} if normalized is None else {"normalization": normalized.get_state()}),
        **({} if model.observations.goal is None else {"goal": "difference"}),
        "n_envs": model.n_envs,
        "seed": model.seed,
        "num_timesteps": model.num_timesteps,
        "planned_timesteps": model._total_timesteps,
        "episodes": model._episode_num,
        "returns": np.array([(episode["r"], episode["l"]) for episode in episodes]).reshape(-1, 2),
        "successes": [bool(success) for success in model.ep_success_buffer or ()],
        "last_obs": seen,
        "environments": model.stored_envs if model.env is None else capture_all(model.env),
    }


def restore_model(model: Any, state: Any) -> None:
    """Restore what `describe_model` returned, in a model that was made without an environment."""
    model.observation_space = restore_space(state["observation_space"])
    model.action_space = restore_space(state["action_space"])
    model.action_space.seed(model.seed)  # it draws the actions before components are known
    model.n_envs = state["n_envs"]
    model.encoding = Encoding.restore(state)
    model.env_id, model.env_origin = state["env_id"], EnvOrigin.from_dict(state.get("env_origin"))
    model._build()
    model.observations.normalization = Normalization.from_state(state.get("normalization"))
    model.learner.set_state(state["learner"])
    model.next_actions = [model.learner.next_action(env) for env in range(model.n_envs)]
    model.num_timesteps = state["num_timesteps"]
    model._total_timesteps = state["planned_timesteps"]
    model._episode_num = state["episodes"]
    model._init_episode_buffers()
    model.ep_info_buffer.extend(
        {"r": total, "l": int(length), "t": 0.0} for total, length in state["returns"].tolist()
    )
    model.ep_success_buffer.extend(state["successes"])
    seen = state["last_obs"]
    is_tuple = isinstance(model.observation_space, spaces.Tuple) and seen is not None
    model._last_obs = tuple(seen.values()) if is_tuple else seen
    model.stored_envs = state["environments"]


def take_env(model: Any, env: Any, force_reset: bool | None) -> None:
    """Give a model from a file its environment or environments, whose number may have changed."""
    n_envs = env.num_envs if isinstance(env, VecEnv) else 1
    if n_envs != model.n_envs:
        learned = model.learner.get_state(under_way=False)
        model.n_envs = n_envs
        model._build()
        model.learner.set_state(learned)
        model._last_obs, model.stored_envs = None, []
    model.set_env(env, force_reset)


def capture_all(env: VecEnv) -> list[dict[str, Any]]:
    """The captured state of each environment; empty if they are in other processes."""
    from oda_rl.envs.continuing import capture  # imports numba, as below

    inner: Any = env.unwrapped
    if type(inner) is not DummyVecEnv:
        return []
    found = [capture(one) for one in inner.envs]
    # A wrapper around all of them may have a state of its own.
    return found if env is inner else [{**one, "state": None} for one in found]


def restore_all(env: VecEnv, stored: list[dict[str, Any]]) -> bool:
    """Restore the captured states in environments of the same classes; return whether all succeeded."""
    from oda_rl.envs.continuing import kind_of, restore

    inner: Any = env.unwrapped
    if type(inner) is not DummyVecEnv or [one["kind"] for one in stored] != list(
        map(kind_of, inner.envs)
    ):
        return False
    inner._reset_seeds()  # the generators are restored from the file
    try:
        restored = [restore(*pair) for pair in zip(inner.envs, stored, strict=True)]
    except (KeyError, TypeError, ValueError) as error:
        raise storage.ModelFileError(
            f"the model file has an invalid state of an environment: {error}"
        ) from error
    return all(restored)


def split_options(config_class: Any, options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split the options of `load` into hyperparameters, including those of a `config`, and others."""
    config, names = options.pop("config", None), [one.name for one in fields(config_class)]
    given = {} if config is None else {name: getattr(config, name) for name in names}
    given |= {name: value for name, value in options.items() if name in names}
    return given, {name: value for name, value in options.items() if name not in names}

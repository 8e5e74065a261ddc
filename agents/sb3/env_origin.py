"""What an environment has that `gymnasium.make` of its id does not give, and making it again."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import gymnasium as gym
from gymnasium import wrappers
from gymnasium.envs.registration import EnvSpec, WrapperSpec
from stable_baselines3.common import vec_env as sb3

from oda_rl.agents.sb3.gymnasium_vector import GymnasiumVecEnv
from oda_rl.agents.schema import is_plain
from oda_rl.envs.names import find_foreign_module
from oda_rl.envs.wrapper_chain import find_time_limit, wrappers_of

# Wrappers that leave observations, actions, rewards and episodes as they are
PASSIVE = {
    "stable_baselines3.common.monitor:Monitor",
    *(
        f"gymnasium.wrappers.{name}"
        for name in (
            *("common:RecordEpisodeStatistics", "common:PassiveEnvChecker", "common:OrderEnforcing"),
            *("rendering:RecordVideo", "rendering:RenderCollection", "rendering:HumanRendering"),
            *("vector.common:RecordEpisodeStatistics", "vector.dict_info_to_list:DictInfoToList"),
            *("vector.rendering:RecordVideo", "vector.rendering:HumanRendering"),
        )
    ),
}
# SB3 itself adds VecTransposeImage to environments with images.
PASSIVE_AROUND = sb3.VecMonitor, sb3.VecCheckNan, sb3.VecVideoRecorder, sb3.VecTransposeImage
KINDS = {
    "observations": (
        *(gym.ObservationWrapper, gym.vector.VectorObservationWrapper),
        *(wrappers.FrameStackObservation, sb3.VecFrameStack, sb3.VecNormalize),
    ),
    "actions": (gym.ActionWrapper, gym.vector.VectorActionWrapper),
    "rewards": (
        *(gym.RewardWrapper, gym.vector.VectorRewardWrapper),
        *(wrappers.NormalizeReward, wrappers.vector.NormalizeReward),
    ),
}
# Keyword arguments of `gymnasium.make` and `make_vec` that change nothing that an agent learns
WITHOUT_EFFECT = {"render_mode", "num_envs", "vectorization_mode", "vector_kwargs"}
# Most characters of the stored keyword arguments, as JSON
MOST_CHARACTERS = 10_000


@dataclass(frozen=True)
class EnvOrigin:
    """How the environment of a training differs from `gymnasium.make` of its id.

    Attributes set after it was made, such as `env.unwrapped.gravity`, are not known here.

    Attributes
    ----------
    kwargs : dict
        Keyword arguments of `gymnasium.make`, plain values of JSON.
    changes : tuple of (str, str)
        Names of other differences, such as classes of wrappers, and for each one of
        `oda_rl.agents.schema.CHANGED`.
    """

    kwargs: dict[str, Any] = field(default_factory=dict)
    changes: tuple[tuple[str, str], ...] = ()

    def lacks(self, *but: str) -> list[str]:
        """Names of the changes, without those that affect only `but`."""
        return list(dict.fromkeys(name for name, changed in self.changes if changed not in but))

    def describe(self, env_id: str, *but: str) -> str:
        """The environment in words: its id, keyword arguments, and changes but those of `but`."""
        given = ", ".join(f"{name}={value!r}" for name, value in self.kwargs.items())
        lacking = self.lacks(*but)
        return f"{env_id}{f'({given})' if given else ''}" + (
            f" with {', '.join(lacking)}" if lacking else ""
        )

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values."""
        return {"kwargs": self.kwargs, "changes": [list(one) for one in self.changes]}

    @classmethod
    def from_dict(cls, stored: dict[str, Any] | None) -> "EnvOrigin":
        """From what `to_dict` returned, or from None: files leave out that there is no difference."""
        if stored is None:
            return cls()
        changes = tuple((str(name), str(changed)) for name, changed in stored["changes"])
        return cls(dict(stored["kwargs"]), changes)


def find_environment(model: Any, exactly: bool = True) -> tuple[str, dict[str, Any]]:
    """How the environment of a model's training is made again with `gymnasium.make`.

    Parameters
    ----------
    model : OnlineAlgorithm
        An agent.
    exactly : bool, default=True
        False allows other rewards: the policy acts in the same environment.

    Returns
    -------
    env_id : str
        The id.
    kwargs : dict
        Keyword arguments.

    Raises
    ------
    ValueError
        If the environment has no id, or has a wrapper or another change that is not stored; or if the id
        names a module that is not imported yet, as a model file may name any.
    """
    origin, but = model.env_origin, () if exactly else ("rewards",)
    if model.env_id is None:
        raise ValueError("the model does not store the id of its environment.")
    if lacking := origin.lacks(*but):
        raise ValueError(
            f"the model was trained on {origin.describe(model.env_id, *but)}; "
            f"{', '.join(lacking)} cannot be restored from the model."
        )
    _check_module(model.env_id, "that id yourself")
    return model.env_id, origin.kwargs


def find_plain_id(model: Any, name: str, exactly: bool = True) -> str:
    """The id of a model's environment, if `gymnasium.make` of the id alone makes the same one.

    Raises a ValueError, with the `name` of the argument to be given, if not, or if the id names a module
    that is not imported yet. `exactly` is described in `find_environment`.
    """
    origin, but = model.env_origin, () if exactly else ("rewards",)
    if model.env_id is None:  # no environment, or one without an id to make copies of
        raise ValueError(f"{name} must be the id of a registered environment, got one without an id.")
    if origin.kwargs or origin.lacks(*but):
        raise ValueError(
            f"{name} must be the id of a registered environment, of which copies are made; got "
            f"{origin.describe(model.env_id, *but)}. Register a function that makes it (see "
            "gymnasium.register), and give that id."
        )
    _check_module(model.env_id, f"it as {name}")
    return str(model.env_id)


def _check_module(env_id: str, given: str) -> None:
    """Raise a ValueError if making the environment would import a module that only a file has named.

    `given` says how the id can be given instead.
    """
    if module := find_foreign_module(env_id):
        raise ValueError(
            f"the model names the environment {env_id}, whose module {module} is not imported, as it "
            f"could run any code. If you trust it, import {module} first, or give {given}."
        )


# -- finding the differences -------------------------------------------------------------------------


def read_origin(env: Any, given: str | None) -> tuple[str | None, EnvOrigin]:
    """Find the id of an environment, and how it differs from `gymnasium.make` of that id.

    Parameters
    ----------
    env : VecEnv
        The environment or environments.
    given : str or None
        A known id: returned if it only adds the module that registers the environment.
    """
    specs = env.get_attr("spec")
    if specs[0] is None:
        return None, EnvOrigin()
    own = str(specs[0].id)
    env_id = given if given is not None and given.endswith(f":{own}") else own
    inner = getattr(env.unwrapped, "envs", [])
    limits = [find_time_limit(one) for one in inner] or [None] * len(specs)
    around = [(type(one).__name__, what_changes(one)) for one in wrappers_around(env)]
    changes = [(name, changed) for name, changed in around if changed]
    made = cache(_made)
    found = [_difference(*pair, made) for pair in zip(specs, limits, strict=True)]
    if any(one != found[0] for one in found):
        changes.append(("environments that differ from each other", "dynamics"))
    return env_id, EnvOrigin(found[0].kwargs, (*found[0].changes, *changes))


def _difference(spec: EnvSpec | None, limit: int | None, made: Any) -> EnvOrigin:
    """What a specification, and the smallest `limit` of steps if known, add to the registered ones.

    `made` is `_made`, whose results are kept.
    """
    if spec is None:
        return EnvOrigin(changes=(("an environment without an id", "all"),))
    plain = gym.registry.get(spec.id)
    known = {} if plain is None else plain.kwargs
    given = {name: value for name, value in spec.kwargs.items() if name not in WITHOUT_EFFECT}
    steps = given.pop("max_episode_steps", spec.max_episode_steps)
    steps = steps if limit is None else limit
    given = {name: one for name, one in given.items() if not _is_same(known.get(name, given), one)}
    kwargs = {name: one for name, one in given.items() if is_plain(one)}
    if len(json.dumps(kwargs)) > MOST_CHARACTERS:
        kwargs = {}
    changes = [(f"the keyword argument {name}", "dynamics") for name in given if name not in kwargs]
    wrapped = [one for one in spec.additional_wrappers if one.entry_point not in PASSIVE]
    own, most = (), steps if plain is None else plain.max_episode_steps
    if wrapped or steps != most:  # the registered function may make an environment with wrappers
        own, most = made(spec.id, json.dumps(kwargs)) or (own, most)
    if steps != most:
        kwargs["max_episode_steps"] = -1 if steps is None else int(steps)
    if tuple(one.entry_point for one in wrapped[: len(own)]) == own:
        wrapped = wrapped[len(own) :]
    return EnvOrigin(kwargs, (*changes, *((one.name, _kind_of(_class_of(one))) for one in wrapped)))


def _made(env_id: str, kwargs: str) -> tuple[tuple[str, ...], int | None] | None:
    """Make an environment with keyword arguments in JSON: its wrappers' classes, and its time limit.

    Returns None if that fails.
    """
    try:
        env = gym.make(env_id, **json.loads(kwargs))
        names = [one.entry_point for one in env.spec.additional_wrappers] if env.spec else []
        limit = find_time_limit(env)
        env.close()
        return tuple(one for one in names if one not in PASSIVE), limit
    except Exception:  # of any environment
        return None


def wrappers_around(env: Any) -> Iterator[Any]:
    """The wrappers around a vectorised environment, SB3's and Gymnasium's."""
    while isinstance(env, sb3.VecEnvWrapper):
        yield env
        env = env.venv
    if isinstance(env, GymnasiumVecEnv):
        yield from wrappers_of(env.env)


def what_changes(wrapper: Any) -> str:
    """What a wrapper changes, one of `oda_rl.agents.schema.CHANGED`; "" for nothing."""
    kind = type(wrapper)
    if kind in PASSIVE_AROUND or f"{kind.__module__}:{kind.__name__}" in PASSIVE:
        return ""
    if kind is sb3.VecNormalize and not wrapper.norm_obs:
        return "rewards" if wrapper.norm_reward else ""
    return _kind_of(kind)


def _class_of(wrapper: WrapperSpec) -> Any:
    module, _, name = wrapper.entry_point.partition(":")
    return getattr(sys.modules.get(module), name, None)


def _kind_of(wrapper: Any) -> str:
    """What a class of wrappers changes."""
    for changed, kinds in KINDS.items():
        if isinstance(wrapper, type) and issubclass(wrapper, kinds):
            return changed
    return "all"


def _is_same(one: Any, other: Any) -> bool:
    try:
        return bool(one is other or one == other)
    except ValueError:  # arrays
        return False

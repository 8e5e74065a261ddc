"""Names and units of observations and actions, which Gymnasium's environments do not provide."""

import sys
from collections.abc import Sequence
from importlib import import_module

import gymnasium as gym
from gymnasium.envs.registration import ENV_ID_RE, EnvSpec

# Modules that only register environments: a model file may name them
REGISTERING = frozenset(["oda_rl.envs", "ale_py", "minigrid"])

_NAMES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "CartPole": (
        ("cart position (m)", "cart velocity (m/s)", "pole angle (rad)", "pole velocity (rad/s)"),
        ("push left", "push right"),
    ),
    "MountainCar": (("position", "velocity"), ("push left", "coast", "push right")),
    "MountainCarContinuous": (("position", "velocity"), ("force",)),
    "Acrobot": (
        ("cos angle 1", "sin angle 1", "cos angle 2", "sin angle 2", "velocity 1", "velocity 2"),
        ("torque -1", "torque 0", "torque +1"),
    ),
    "Pendulum": (("cos angle", "sin angle", "velocity (rad/s)"), ("torque (N m)",)),
    "LunarLander": (
        ("x", "y", "x velocity", "y velocity", "angle", "angular velocity", "left leg", "right leg"),
        ("nothing", "left engine", "main engine", "right engine"),
    ),
    "CartPoleSwingup": (
        (
            "position",
            "velocity",
            "sin angle",
            "cos angle",
            "pole velocity (rad/s)",
            "time",
            "near",
            "slow",
        ),
        ("push left", "coast", "push right"),
    ),
    "Catch": ((), ("left", "stay", "right")),
    "FrozenLake": (("state",), ("left", "down", "right", "up")),
    "FrozenLake8x8": (("state",), ("left", "down", "right", "up")),
    "CliffWalking": (("state",), ("up", "right", "down", "left")),
    "Taxi": (("state",), ("south", "north", "east", "west", "pick up", "drop off")),
    "Blackjack": (("player", "dealer", "usable ace"), ("stick", "hit")),
}


def observation_names(env_id: str | None, n_features: int) -> list[str]:
    """Names of the coordinates of an observation, with units if they have any.

    Parameters
    ----------
    env_id : str or None
        Id of the environment, of any version and namespace.
    n_features : int
        Number of names.

    Returns
    -------
    list of str
        `observation[0]` and so on for an unknown environment.

    Examples
    --------
    >>> observation_names("CartPole-v1", 4)[2]
    'pole angle (rad)'
    """
    names = _lookup(env_id)[0]
    return list(names) if len(names) == n_features else [f"observation[{j}]" for j in range(n_features)]


def action_names(
    env_id: str | None, n_actions: int, otherwise: Sequence[str] | None = None
) -> list[str]:
    """Names of discrete actions, or of the coordinates of continuous ones.

    Parameters
    ----------
    env_id : str or None
        Id of the environment, of any version and namespace.
    n_actions : int
        Number of names.
    otherwise : sequence of str, optional
        Names for an unknown environment; `action 0` and so on by default.

    Returns
    -------
    list of str
    """
    names = _lookup(env_id)[1]
    if len(names) == n_actions:
        return list(names)
    return [f"action {a}" for a in range(n_actions)] if otherwise is None else list(otherwise)


def find_env_spec(env_id: str) -> EnvSpec:
    """Find Gymnasium's specification of an environment, after importing the module that registers it.

    Parameters
    ----------
    env_id : str
        Id of the environment, or "module:id".

    Returns
    -------
    gymnasium.envs.registration.EnvSpec

    Raises
    ------
    ModuleNotFoundError
        If there is no such module.
    gymnasium.error.Error
        If there is no such environment.

    Examples
    --------
    >>> find_env_spec("oda_rl.envs:oda_rl/CartPole-v1").max_episode_steps
    500
    """
    module, _, name = env_id.rpartition(":")
    if module:
        import_module(module)
    return gym.spec(name)


def is_env_id(text: str) -> bool:
    """Whether a text has the form of an id that Gymnasium accepts: `[module:][namespace/]name[-v1]`.

    >>> is_env_id("my_envs.mazes:Maze-v0"), is_env_id("a b")
    (True, False)
    """
    module, _, name = text.rpartition(":")
    if ENV_ID_RE.fullmatch(text):  # Gymnasium accepts colons in names, too
        return True
    dotted = all(part.isidentifier() for part in module.split("."))
    return dotted and ENV_ID_RE.fullmatch(name) is not None


def find_foreign_module(env_id: str) -> str | None:
    """The module in an id `module:id`, unless it is imported already, or known to register environments.

    To make the environment would import that module, which can run any code.

    >>> find_foreign_module("my_envs:Maze-v0"), find_foreign_module("oda_rl.envs:oda_rl/Catch-v0")
    ('my_envs', None)
    """
    module = env_id.rpartition(":")[0]
    return module if module and module not in REGISTERING and module not in sys.modules else None


def _lookup(env_id: str | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    found = ENV_ID_RE.fullmatch(env_id.rpartition(":")[2]) if env_id and is_env_id(env_id) else None
    name = found["name"] if found else ""
    return _NAMES.get(name.removesuffix("Friction"), ((), ()))

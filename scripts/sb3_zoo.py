"""Agents of Stable-Baselines3 with the hyperparameters that RL Zoo publishes for them.

The hyperparameters, and their source, are in sb3_zoo.toml next to this file.
"""

import tomllib
import warnings
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import stable_baselines3
import torch
from gymnasium.envs.registration import parse_env_id
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

ZOO: dict[str, dict[str, dict[str, Any]]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)
"""Options by algorithm, and by environment without its namespace, version and "Friction"."""


# Algorithms whose models can be loaded
SB3_CLASSES = (*ZOO, "TD3", "DDPG")


def find_zoo_options(algorithm: str, env_id: str) -> dict[str, Any]:
    """Return RL Zoo's hyperparameters of an algorithm for an environment of any version.

    They are a copy, of numbers, strings and lists. A compiled twin has those of its original, the
    cart-pole with friction those of CartPole. If RL Zoo lists nothing, the result is empty, which means
    SB3's defaults. Raises a ValueError if there is no such algorithm here.

    >>> find_zoo_options("A2C", "oda_rl/CartPole-v1")
    {'n_envs': 8, 'ent_coef': 0.0}
    """
    if algorithm not in ZOO:
        raise ValueError(f"algorithm must be one of {list(ZOO)}, got {algorithm!r}.")
    name = parse_env_id(env_id)[1].removesuffix("Friction")
    return deepcopy(ZOO[algorithm].get(name, {}))


def make_zoo_agent(
    algorithm: str, env_id: str, seed: int, options: dict[str, Any] | None = None
) -> BaseAlgorithm:
    """Make an SB3 agent, on its own environments, with hyperparameters in RL Zoo's notation.

    By default these are those of `find_zoo_options`. Raises a ValueError if there is no such algorithm
    here, sb3-contrib is not installed (QRDQN), or the algorithm does not support the action space.
    """
    given = find_zoo_options(algorithm, env_id) if options is None else options
    kind = find_class(algorithm)
    # A copy, because SB3 adds to the dictionaries that it is given.
    chosen = {name: _as_sb3_has_it(value) for name, value in deepcopy(given).items()}
    # Without a render mode: SB3 would set one, which costs some environments time at every step.
    environment: VecEnv = make_vec_env(partial(gym.make, env_id), chosen.pop("n_envs", 1), seed=seed)
    if chosen.pop("normalize", False):
        environment = VecNormalize(environment, gamma=chosen.get("gamma", 0.99))
    try:
        with warnings.catch_warnings():  # a batch that is larger than the rollout means all of it
            warnings.filterwarnings("ignore", "You have specified a mini-batch size", UserWarning)
            return kind("MlpPolicy", environment, seed=seed, device="cpu", **chosen)
    except AssertionError:  # raised by SB3 for an unsupported action space
        space = environment.action_space
        environment.close()
        raise ValueError(f"{algorithm} does not take actions in {space}.") from None


def _as_sb3_has_it(value: Any) -> Any:
    """Replace the name of a schedule, or of an activation function, by the object itself."""
    if isinstance(value, str) and value.startswith("lin_"):
        return LinearSchedule(float(value.removeprefix("lin_")), 0.0, 1.0)
    if isinstance(value, dict) and "activation_fn" in value:
        return value | {"activation_fn": getattr(torch.nn, value["activation_fn"])}
    return value


def find_class(algorithm: str) -> type[BaseAlgorithm]:
    """Return the class of an SB3 algorithm; ValueError if it is unknown here, or not installed."""
    if algorithm not in SB3_CLASSES:
        raise ValueError(f"algorithm must be one of {list(SB3_CLASSES)}, got {algorithm!r}.")
    if algorithm != "QRDQN":
        return getattr(stable_baselines3, algorithm)
    try:
        from sb3_contrib import QRDQN
    except ImportError:
        raise ValueError("QRDQN needs sb3-contrib: pip install sb3-contrib.") from None
    return QRDQN

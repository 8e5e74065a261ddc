"""Agents of Stable-Baselines3 with the hyperparameters that RL Zoo publishes for them.

They are in sb3_zoo.toml beside this file, which names their source.
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
    Path(__file__).with_suffix(".toml").read_text()
)
"""By the name of the algorithm, and of the environment without namespace, version and "Friction"."""


# Of which models can be loaded
SB3_CLASSES = (*ZOO, "TD3", "DDPG")


def find_zoo_options(algorithm: str, env_id: str) -> dict[str, Any]:
    """RL Zoo's hyperparameters of an algorithm for an environment of any version: numbers, words, lists.

    A compiled twin has those of its original, the cart-pole with friction those of CartPole. A copy;
    empty where the Zoo lists nothing, which leaves SB3's defaults. ValueError if there is no such
    algorithm here.

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
    """An SB3 agent with hyperparameters as the Zoo writes them, on environments of its own.

    They are those of `find_zoo_options` if not given. ValueError if there is no such algorithm here,
    sb3-contrib is not installed (QRDQN), or the algorithm has no use for the spaces of the environment.
    """
    told = find_zoo_options(algorithm, env_id) if options is None else options
    kind = find_class(algorithm)
    # SB3 adds to the dictionaries that it is given.
    chosen = {name: _as_sb3_has_it(value) for name, value in deepcopy(told).items()}
    # Without a render mode: SB3 asks for pictures, which some environments pay for at every step.
    environment: VecEnv = make_vec_env(partial(gym.make, env_id), chosen.pop("n_envs", 1), seed=seed)
    if chosen.pop("normalize", False):
        environment = VecNormalize(environment, gamma=chosen.get("gamma", 0.99))
    try:
        with warnings.catch_warnings():  # the Zoo's batch is larger than the rollout: it means all of it
            warnings.filterwarnings("ignore", "You have specified a mini-batch size", UserWarning)
            return kind("MlpPolicy", environment, seed=seed, device="cpu", **chosen)
    except AssertionError:  # what SB3 raises
        space = environment.action_space
        environment.close()
        raise ValueError(f"{algorithm} does not take actions in {space}.") from None


def _as_sb3_has_it(value: Any) -> Any:
    """A schedule, and a function of a network, in place of its name."""
    if isinstance(value, str) and value.startswith("lin_"):
        return LinearSchedule(float(value.removeprefix("lin_")), 0.0, 1.0)
    if isinstance(value, dict) and "activation_fn" in value:
        return value | {"activation_fn": getattr(torch.nn, value["activation_fn"])}
    return value


def find_class(algorithm: str) -> type[BaseAlgorithm]:
    """The class of an SB3 algorithm; ValueError if it is not known here, or not installed."""
    if algorithm not in SB3_CLASSES:
        raise ValueError(f"algorithm must be one of {list(SB3_CLASSES)}, got {algorithm!r}.")
    if algorithm != "QRDQN":
        return getattr(stable_baselines3, algorithm)
    try:
        from sb3_contrib import QRDQN
    except ImportError:
        raise ValueError("QRDQN needs sb3-contrib: pip install sb3-contrib.") from None
    return QRDQN

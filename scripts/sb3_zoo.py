"""Agents of Stable-Baselines3 with the hyperparameters that RL Zoo publishes for them.

Source: RL Baselines3 Zoo 2.9.2 (MIT licence, https://github.com/DLR-RM/rl-baselines3-zoo), the files
hyperparams/ppo.yml, a2c.yml, dqn.yml and qrdqn.yml, without `n_timesteps`: whoever compares chooses the
steps. As in those files, "lin_0.001" falls along a line from 0.001 to 0 over the run, and `normalize`
means SB3's VecNormalize of observations and rewards.
"""

import warnings
from copy import deepcopy
from typing import Any

import stable_baselines3
from gymnasium.envs.registration import parse_env_id
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

_CART_POLE_DQN: dict[str, Any] = {
    "learning_rate": 2.3e-3,
    "batch_size": 64,
    "buffer_size": 100_000,
    "learning_starts": 1000,
    "gamma": 0.99,
    "target_update_interval": 10,
    "train_freq": 256,
    "gradient_steps": 128,
    "exploration_fraction": 0.16,
    "exploration_final_eps": 0.04,
    "policy_kwargs": {"net_arch": [256, 256]},
}
_MOUNTAIN_CAR_DQN: dict[str, Any] = {
    "learning_rate": 4e-3,
    "batch_size": 128,
    "buffer_size": 10_000,
    "learning_starts": 1000,
    "gamma": 0.98,
    "target_update_interval": 600,
    "train_freq": 16,
    "gradient_steps": 8,
    "exploration_fraction": 0.2,
    "exploration_final_eps": 0.07,
    "policy_kwargs": {"net_arch": [256, 256]},
}
# DQN has the same for Acrobot and LunarLander.
_ACROBOT_DQN: dict[str, Any] = {
    "learning_rate": 6.3e-4,
    "batch_size": 128,
    "buffer_size": 50_000,
    "learning_starts": 0,
    "gamma": 0.99,
    "target_update_interval": 250,
    "train_freq": 4,
    "gradient_steps": -1,
    "exploration_fraction": 0.12,
    "exploration_final_eps": 0.1,
    "policy_kwargs": {"net_arch": [256, 256]},
}
# A2C has the same for LunarLanderContinuous and, but for gamma and n_envs, for Pendulum.
_CONTINUOUS_A2C: dict[str, Any] = {
    "normalize": True,
    "ent_coef": 0.0,
    "max_grad_norm": 0.5,
    "n_steps": 8,
    "gae_lambda": 0.9,
    "vf_coef": 0.4,
    "use_rms_prop": True,
    "normalize_advantage": False,
    "learning_rate": "lin_7e-4",
    "use_sde": True,
    "policy_kwargs": {"log_std_init": -2.0, "ortho_init": False},
}
_LUNAR_LANDER_PPO: dict[str, Any] = {
    "n_envs": 16,
    "n_steps": 1024,
    "batch_size": 64,
    "gae_lambda": 0.98,
    "gamma": 0.999,
    "n_epochs": 4,
    "ent_coef": 0.01,
}


def _with_quantiles(options: dict[str, Any], n_quantiles: int) -> dict[str, Any]:
    return {**options, "policy_kwargs": {**options["policy_kwargs"], "n_quantiles": n_quantiles}}


ZOO: dict[str, dict[str, dict[str, Any]]] = {
    "PPO": {
        "CartPole": {
            "n_envs": 8,
            "n_steps": 32,
            "batch_size": 256,
            "gae_lambda": 0.8,
            "gamma": 0.98,
            "n_epochs": 20,
            "ent_coef": 0.0,
            "learning_rate": "lin_0.001",
            "clip_range": "lin_0.2",
        },
        "MountainCar": {
            "normalize": True,
            "n_envs": 16,
            "n_steps": 16,
            "gae_lambda": 0.98,
            "gamma": 0.99,
            "n_epochs": 4,
            "ent_coef": 0.0,
        },
        "Acrobot": {
            "normalize": True,
            "n_envs": 16,
            "n_steps": 256,
            "gae_lambda": 0.94,
            "gamma": 0.99,
            "n_epochs": 4,
            "ent_coef": 0.0,
        },
        "Pendulum": {
            "n_envs": 4,
            "n_steps": 1024,
            "gae_lambda": 0.95,
            "gamma": 0.9,
            "n_epochs": 10,
            "ent_coef": 0.0,
            "learning_rate": 1e-3,
            "clip_range": 0.2,
            "use_sde": True,
            "sde_sample_freq": 4,
        },
        "MountainCarContinuous": {
            "normalize": True,
            "n_envs": 1,
            "n_steps": 8,
            "batch_size": 256,
            "gamma": 0.9999,
            "learning_rate": 7.77e-5,
            "ent_coef": 0.00429,
            "clip_range": 0.1,
            "n_epochs": 10,
            "gae_lambda": 0.9,
            "max_grad_norm": 5.0,
            "vf_coef": 0.19,
            "use_sde": True,
            "policy_kwargs": {"log_std_init": -3.29, "ortho_init": False},
        },
        "LunarLander": _LUNAR_LANDER_PPO,
        "LunarLanderContinuous": _LUNAR_LANDER_PPO,
    },
    "A2C": {
        "CartPole": {"n_envs": 8, "ent_coef": 0.0},
        "MountainCar": {"normalize": True, "n_envs": 16, "ent_coef": 0.0},
        "Acrobot": {"normalize": True, "n_envs": 16, "ent_coef": 0.0},
        "Pendulum": {**_CONTINUOUS_A2C, "n_envs": 8, "gamma": 0.9},
        "MountainCarContinuous": {
            "normalize": True,
            "n_envs": 4,
            "n_steps": 100,
            "ent_coef": 0.0,
            "use_sde": True,
            "sde_sample_freq": 16,
            "policy_kwargs": {"log_std_init": 0.0, "ortho_init": False},
        },
        "LunarLander": {
            "n_envs": 8,
            "gamma": 0.995,
            "n_steps": 5,
            "learning_rate": "lin_0.00083",
            "ent_coef": 1e-5,
        },
        "LunarLanderContinuous": {**_CONTINUOUS_A2C, "n_envs": 4, "gamma": 0.99},
    },
    "DQN": {
        "CartPole": _CART_POLE_DQN,
        "MountainCar": _MOUNTAIN_CAR_DQN,
        "Acrobot": _ACROBOT_DQN,
        "LunarLander": _ACROBOT_DQN,
    },
    "QRDQN": {
        "CartPole": _with_quantiles(_CART_POLE_DQN, 10),
        "MountainCar": _with_quantiles(_MOUNTAIN_CAR_DQN, 25),
        "Acrobot": _with_quantiles(_ACROBOT_DQN, 25),
        "LunarLander": {
            "learning_rate": "lin_1.5e-3",
            "batch_size": 128,
            "buffer_size": 100_000,
            "learning_starts": 10_000,
            "gamma": 0.995,
            "target_update_interval": 1,
            "train_freq": 256,
            "gradient_steps": -1,
            "exploration_fraction": 0.24,
            "exploration_final_eps": 0.18,
            "policy_kwargs": {"net_arch": [256, 256], "n_quantiles": 170},
        },
    },
}
"""By the name of the algorithm, and of the environment without namespace, version and "Friction"."""


def find_zoo_options(algorithm: str, env_id: str) -> dict[str, Any]:
    """RL Zoo's hyperparameters of an algorithm for an environment, as plain numbers, words and lists.

    Parameters
    ----------
    algorithm : {"PPO", "A2C", "DQN", "QRDQN"}
        Which.
    env_id : str
        For which environment, of any version; a compiled twin has the hyperparameters of its original,
        and the cart-pole with friction those of CartPole.

    Returns
    -------
    dict
        A copy. Empty where the Zoo lists nothing, which leaves SB3's defaults, as the Zoo does.

    Raises
    ------
    ValueError
        If there is no such algorithm here.

    Examples
    --------
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
    """An SB3 agent with RL Zoo's hyperparameters, on environments of its own.

    Parameters
    ----------
    algorithm : {"PPO", "A2C", "DQN", "QRDQN"}
        Which; QRDQN needs sb3-contrib.
    env_id : str
        Environment to learn from.
    seed : int
        Seeds the agent and its environments.
    options : dict, optional
        Hyperparameters as the Zoo writes them; `find_zoo_options` if not given.

    Returns
    -------
    stable_baselines3.common.base_class.BaseAlgorithm

    Raises
    ------
    ValueError
        If there is no such algorithm here, sb3-contrib is not installed, or the algorithm has no use for
        the spaces of the environment.
    """
    told = find_zoo_options(algorithm, env_id) if options is None else options
    kind = _find_class(algorithm)
    # SB3 adds to the dictionaries that it is given.
    chosen = {name: _schedule(value) for name, value in deepcopy(told).items()}
    # Without a render mode: SB3 asks for pictures, which some environments pay for at every step.
    environment: VecEnv = make_vec_env(
        env_id, chosen.pop("n_envs", 1), seed=seed, env_kwargs={"render_mode": None}
    )
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


def _schedule(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("lin_"):
        return LinearSchedule(float(value.removeprefix("lin_")), 0.0, 1.0)
    return value


def _find_class(algorithm: str) -> type[BaseAlgorithm]:
    if algorithm not in ZOO:
        raise ValueError(f"algorithm must be one of {list(ZOO)}, got {algorithm!r}.")
    if algorithm != "QRDQN":
        return getattr(stable_baselines3, algorithm)
    try:
        from sb3_contrib import QRDQN
    except ImportError:
        raise ValueError("QRDQN needs sb3-contrib: pip install sb3-contrib.") from None
    return QRDQN

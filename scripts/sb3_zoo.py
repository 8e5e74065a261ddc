"""Agents of Stable-Baselines3 with the hyperparameters that RL Zoo publishes for them.

Source: DLR-RM/rl-baselines3-zoo, hyperparams/ppo.yml and hyperparams/dqn.yml.
"""

from typing import Any

from stable_baselines3 import DQN, PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

ZOO: dict[tuple[str, str], dict[str, Any]] = {
    ("PPO", "CartPole-v1"): {
        "n_envs": 8,
        "n_steps": 32,
        "batch_size": 256,
        "gae_lambda": 0.8,
        "gamma": 0.98,
        "n_epochs": 20,
        "ent_coef": 0.0,
        "learning_rate": LinearSchedule(0.001, 0.0, 1.0),
        "clip_range": LinearSchedule(0.2, 0.0, 1.0),
    },
    ("PPO", "Acrobot-v1"): {
        "normalize": True,
        "n_envs": 16,
        "n_steps": 256,
        "gae_lambda": 0.94,
        "gamma": 0.99,
        "n_epochs": 4,
        "ent_coef": 0.0,
    },
    ("PPO", "MountainCar-v0"): {
        "normalize": True,
        "n_envs": 16,
        "n_steps": 16,
        "gae_lambda": 0.98,
        "gamma": 0.99,
        "n_epochs": 4,
        "ent_coef": 0.0,
    },
    ("PPO", "Pendulum-v1"): {
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
    ("DQN", "CartPole-v1"): {
        "n_envs": 1,
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
    },
}
_ALIASES = {"CartPoleFriction-v0": "CartPole-v1"}


def make_zoo_agent(algorithm: str, env_id: str, seed: int) -> BaseAlgorithm:
    """An SB3 agent with RL Zoo's hyperparameters.

    Parameters
    ----------
    algorithm : {"PPO", "DQN"}
        Which.
    env_id : str
        For which environment; a compiled twin has the hyperparameters of its original, and the cart-pole
        with friction those of CartPole.
    seed : int
        Seeds the agent and its environments.

    Returns
    -------
    stable_baselines3.common.base_class.BaseAlgorithm

    Raises
    ------
    ValueError
        If there are no hyperparameters for the pair here.
    """
    name = env_id.removeprefix("oda_rl/")
    try:
        options = dict(ZOO[algorithm, _ALIASES.get(name, name)])
    except KeyError:
        raise ValueError(
            f"no hyperparameters for {algorithm} on {env_id}; there are {list(ZOO)}."
        ) from None
    environment: VecEnv = make_vec_env(env_id, options.pop("n_envs"), seed=seed)
    if options.pop("normalize", False):
        environment = VecNormalize(environment, gamma=options["gamma"])
    kind = {"PPO": PPO, "DQN": DQN}[algorithm]
    return kind("MlpPolicy", environment, seed=seed, device="cpu", **options)

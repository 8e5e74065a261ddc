"""Agents of Stable-Baselines3 with the hyperparameters that RL Zoo publishes for them.

Source: DLR-RM/rl-baselines3-zoo, hyperparams/ppo.yml and hyperparams/dqn.yml.
"""

from typing import Any

from stable_baselines3 import DQN, PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.utils import LinearSchedule

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


def make_zoo_agent(algorithm: str, env_id: str, seed: int) -> BaseAlgorithm:
    """An SB3 agent with RL Zoo's hyperparameters.

    Parameters
    ----------
    algorithm : {"PPO", "DQN"}
        Which.
    env_id : str
        For which environment.
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
    try:
        options = dict(ZOO[algorithm, env_id])
    except KeyError:
        raise ValueError(
            f"no hyperparameters for {algorithm} on {env_id}; there are {list(ZOO)}."
        ) from None
    environment = make_vec_env(env_id, options.pop("n_envs"), seed=seed)
    kind = {"PPO": PPO, "DQN": DQN}[algorithm]
    return kind("MlpPolicy", environment, seed=seed, device="cpu", **options)

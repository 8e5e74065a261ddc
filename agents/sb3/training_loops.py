"""The two loops of training: one environment stepped directly, or several as a VecEnv.

Both call the callbacks as SB3's own algorithms do, after every step of the environment; the first leaves
out steps at which no callback would look, and counts them.
"""

from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv

from oda_rl.agents.sb3.callback_schedule import calls_until_look, count_calls

if TYPE_CHECKING:
    from oda_rl.agents.sb3.algorithm import OnlineAlgorithm


def run_single(
    model: "OnlineAlgorithm",
    env: gym.Env,
    total_timesteps: int,
    callback: BaseCallback,
    log_interval: int | None,
    only_scaling: bool = False,
) -> bool:
    """Step one environment directly: the vectorised one around it costs as much as all the rest.

    With `only_scaling` it ends with the learner's warm-up. Returns whether the callbacks let it go on.
    """
    action = model.next_actions[0]
    callback.on_rollout_start()
    missed, look = 0, calls_until_look(callback, model.num_timesteps)
    go_on = True
    while go_on and model.num_timesteps < total_timesteps:
        if only_scaling and model.learner.is_scaled:
            break
        taken = model.decode(0, action)
        observation, reward, terminated, truncated, info = env.step(taken)
        ended = terminated or truncated
        model.num_timesteps += 1
        action = model.observe(0, observation, float(reward), terminated, ended)
        if ended:
            info["TimeLimit.truncated"] = truncated and not terminated
            info["terminal_observation"] = observation
            observation, _ = env.reset()
            action = model.begin(0, observation)
        model.next_actions[0] = action
        model._last_obs = observation[None]
        if missed + 1 < look and not ended and model.num_timesteps < total_timesteps:
            missed += 1
            continue
        count_calls(callback, missed)
        step = {
            "actions": np.array([taken]),
            "new_obs": model._last_obs,
            "rewards": np.array([reward], dtype=np.float32),
            "dones": np.array([ended]),
            "infos": [info],
        }
        callback.update_locals(step)
        go_on = callback.on_step()
        missed, look = 0, look and calls_until_look(callback, model.num_timesteps)
        if ended:
            finish_episodes(model, callback, log_interval, step)
    count_calls(callback, missed)  # the warm-up may end between two looks
    return go_on


def run_vectorised(
    model: "OnlineAlgorithm",
    env: VecEnv,
    total_timesteps: int,
    callback: BaseCallback,
    log_interval: int | None,
) -> None:
    """Step several environments, which take turns at the learner."""
    callback.on_rollout_start()
    go_on = True
    while go_on and model.num_timesteps < total_timesteps:
        taken = np.array([model.decode(e, action) for e, action in enumerate(model.next_actions)])
        observations, rewards, dones, infos = env.step(taken)
        new_obs = np.asarray(observations)
        model.num_timesteps += model.n_envs
        for e in range(model.n_envs):
            ended = bool(dones[e])
            terminated = ended and not infos[e].get("TimeLimit.truncated", False)
            seen = infos[e]["terminal_observation"] if ended else new_obs[e]
            action = model.observe(e, seen, float(rewards[e]), terminated, ended)
            model.next_actions[e] = model.begin(e, new_obs[e]) if ended else action
        model._last_obs = new_obs
        step = {
            "actions": taken,
            "new_obs": new_obs,
            "rewards": rewards,
            "dones": dones,
            "infos": infos,
        }
        callback.update_locals(step)
        go_on = callback.on_step()
        if dones.any():
            finish_episodes(model, callback, log_interval, step)


def finish_episodes(
    model: "OnlineAlgorithm", callback: BaseCallback, log_interval: int | None, step: dict[str, Any]
) -> None:
    """Count the episodes that ended in this step, and log when it is time."""
    model._update_info_buffer(step["infos"], step["dones"])
    before = model._episode_num
    model._episode_num += int(step["dones"].sum())
    callback.on_rollout_end()
    if log_interval and before // log_interval < model._episode_num // log_interval:
        model.dump_logs()
    callback.on_rollout_start()

"""Many episodes at once in compiled code: the same returns as one after the other in Gymnasium's own."""

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from oda_rl.agents import TwoTimescaleQ
from oda_rl.agents.sb3.evaluation import CompiledVecEnv, make_evaluation_envs

IDS = ["CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Acrobot-v1", "Pendulum-v1"]


@pytest.mark.parametrize("name", IDS)
def test_it_is_what_stable_baselines_makes_of_gymnasiums_own(name):
    ours, theirs = make_evaluation_envs(name, 3, seed=7), make_vec_env(name, 3, seed=7)
    assert isinstance(ours, CompiledVecEnv)
    assert ours.env_is_wrapped(Monitor) == [True] * 3
    np.testing.assert_array_equal(ours.reset(), theirs.reset())
    ends = 0
    for _ in range(1100):
        actions = np.array([theirs.action_space.sample() for _ in range(3)])
        *found, infos = ours.step(actions)
        *expected, their_infos = theirs.step(actions)
        for column, wanted in zip(found, expected, strict=True):
            np.testing.assert_array_equal(column, wanted)
            assert column.dtype == wanted.dtype
        for info, wanted in zip(infos, their_infos, strict=True):
            assert info.keys() == wanted.keys()
            assert info["TimeLimit.truncated"] == wanted["TimeLimit.truncated"]
            if "episode" in wanted:
                ends += 1
                assert [info["episode"][k] for k in "rl"] == [wanted["episode"][k] for k in "rl"]
                np.testing.assert_array_equal(
                    info["terminal_observation"], wanted["terminal_observation"]
                )
    assert ends >= 3


def test_a_policy_has_the_returns_that_it_has_one_step_at_a_time():
    model = TwoTimescaleQ(env="CartPole-v1", seed=0, growth_steps=2000).learn(6_000)
    together, _ = evaluate_policy(
        model, make_evaluation_envs("CartPole-v1", 8, seed=5), 8, return_episode_rewards=True
    )
    alone = []
    for i in range(8):
        env = gym.make("CartPole-v1")
        (observation, _), total, ended = env.reset(seed=5 + i), 0.0, False
        while not ended:
            action, _ = model.predict(observation, deterministic=True)
            observation, reward, terminated, truncated, _ = env.step(int(action))
            total, ended = total + reward, terminated or truncated
        alone.append(total)
    assert sorted(together) == sorted(alone)


def test_where_nothing_is_compiled_it_is_what_stable_baselines_makes():
    envs = make_evaluation_envs("CartPole-v0", 2, seed=0)
    assert type(envs) is DummyVecEnv
    assert envs.env_is_wrapped(Monitor) == [True, True]
    with pytest.raises(ValueError, match="with compiled dynamics, got 'CartPole-v1'"):
        CompiledVecEnv("CartPole-v1", 2)
    with pytest.raises(ValueError, match="n_envs must be at least 1"):
        CompiledVecEnv("oda_rl/CartPole-v1", 0)

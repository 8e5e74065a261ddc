"""Vector environments of Gymnasium are learned from as those of Stable-Baselines3 are."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import DictInfoToList, NormalizeObservation
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv

from oda_rl.agents import TwoTimescaleQ, UniformGridQ
from oda_rl.agents.sb3.gymnasium_vector import GymnasiumVecEnv


def vector(env_id, mode, n_envs=3):
    kind = {"autoreset_mode": mode}
    return gym.make_vec(env_id, n_envs, vectorization_mode="sync", vector_kwargs=kind)


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("env_id", ["CartPole-v1", "Blackjack-v1"])
def test_every_number_is_that_of_a_vec_env(env_id, mode):
    ours = GymnasiumVecEnv(vector(env_id, mode))
    theirs = DummyVecEnv([lambda: gym.make(env_id)] * 3)
    rng = np.random.default_rng(0)
    for envs in (ours, theirs):
        envs.seed(5)
    first, second = ours.reset(), theirs.reset()
    for _ in range(300):
        for a, b in zip(np.atleast_2d(first), np.atleast_2d(second), strict=True):
            np.testing.assert_array_equal(a, b)
        actions = rng.integers(2, size=3)
        first, rewards, dones, infos = ours.step(actions)
        second, *expected = theirs.step(actions)
        np.testing.assert_array_equal(rewards, expected[0])
        np.testing.assert_array_equal(dones, expected[1])
        for info, other in zip(infos, expected[2], strict=True):
            assert info.get("TimeLimit.truncated", False) == other["TimeLimit.truncated"]
            seen = info.get("terminal_observation", ()), other.get("terminal_observation", ())
            np.testing.assert_array_equal(*map(np.asarray, seen))


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_the_same_is_learned(mode):
    learned = TwoTimescaleQ(env=vector("FrozenLake-v1", mode), seed=1).learn(3_000)
    other = TwoTimescaleQ(env=make_vec_env("FrozenLake-v1", 3), seed=1).learn(3_000)
    np.testing.assert_array_equal(learned.learner.q_values, other.learner.q_values)
    assert learned.ep_info_buffer[-1]["r"] == other.ep_info_buffer[-1]["r"]


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_infos_may_be_a_list(mode):
    listed = DictInfoToList(vector("FrozenLake-v1", mode))
    learned = UniformGridQ(env=listed, seed=1).learn(600)
    other = UniformGridQ(env=vector("FrozenLake-v1", mode), seed=1).learn(600)
    np.testing.assert_array_equal(learned.learner.weights, other.learner.weights)


def test_nothing_is_learned_from_steps_that_only_reset():
    envs = gym.make_vec("CartPole-v1", 2)  # its own vector environment, which resets a step later
    model = UniformGridQ(env=envs, seed=0, warmup_steps=2).learn(2_000)
    assert model.env_id == "CartPole-v1"
    begun = model._episode_num
    unfinished = int(model.env._begins.sum())
    # every episode but those that have just ended is followed by one such step
    assert model.learner.n_learned >= 2_000 - (begun - unfinished) - 4
    assert model.learner.n_learned <= 2_000 - (begun - unfinished)


class Refusing(gym.vector.VectorWrapper):
    """Resets all environments or none."""

    def reset(self, *, seed=None, options=None):
        assert options is None
        return super().reset(seed=seed)


@pytest.mark.parametrize("wrapper", [NormalizeObservation, Refusing])
def test_wrappers_need_not_reset_some_of_the_environments(wrapper):
    envs = wrapper(vector("CartPole-v1", AutoresetMode.NEXT_STEP))
    model = UniformGridQ(env=envs, seed=0, warmup_steps=2).learn(900)
    resets = model._episode_num - int(model.env._begins.sum())
    assert resets > 10
    assert 900 - resets - 6 <= model.learner.n_learned <= 900 - resets


def test_returns_of_episodes_are_rounded_as_the_monitor_does():
    envs = GymnasiumVecEnv(
        gym.make_vec("Pendulum-v1", 2, vectorization_mode="sync", max_episode_steps=3)
    )
    envs.seed(0)
    envs.reset()
    for _ in range(3):
        _, _, _, infos = envs.step(np.zeros((2, 1), dtype=np.float32))
    for info in infos:
        assert info["episode"]["r"] == round(info["episode"]["r"], 6) != 0.0
        assert type(info["episode"]["r"]) is float
        assert info["episode"]["l"] == 3


def test_an_unknown_mode_is_refused():
    envs = vector("CartPole-v1", AutoresetMode.NEXT_STEP)
    envs.metadata = {}
    with pytest.raises(ValueError, match="does not declare its autoreset mode"):
        TwoTimescaleQ(env=envs)


@pytest.mark.parametrize("env", [3, gym.Env, gym.spec("CartPole-v1"), ["CartPole-v1"]])
def test_what_is_no_environment_is_refused(env):
    with pytest.raises(TypeError, match=r"env must be the id of an environment, .* got"):
        TwoTimescaleQ(env=env)


def test_more_environments_than_a_file_may_have_are_refused():
    envs = GymnasiumVecEnv(vector("CartPole-v1", AutoresetMode.SAME_STEP, 1))
    envs.num_envs = 20_000
    with pytest.raises(ValueError, match="env has 20,000 environments; at most 16,384 are accepted"):
        TwoTimescaleQ(env=envs)

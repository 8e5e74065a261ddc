import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import DiscretizeAction, FlattenObservation

from oda_rl.envs.spaces import check_discrete_action_space, check_observation_space


def test_supported_spaces_are_returned():
    box, discrete = spaces.Box(-np.inf, np.inf, (3,)), spaces.Discrete(4, start=1)
    assert check_observation_space(box) is box
    assert check_discrete_action_space(discrete) is discrete


def test_the_advice_works():
    env = gym.make("Pendulum-v1")
    with pytest.raises(ValueError, match="DiscretizeAction"):
        check_discrete_action_space(env.action_space)
    assert check_discrete_action_space(DiscretizeAction(env, bins=3).action_space).n == 3

    env = gym.make("FrozenLake-v1")
    with pytest.raises(ValueError, match="FlattenObservation"):
        check_observation_space(env.observation_space)
    assert check_observation_space(FlattenObservation(env).observation_space).shape == (16,)


def test_a_box_without_dimension():
    with pytest.raises(ValueError, match="ReshapeObservation"):
        check_observation_space(spaces.Box(-1.0, 1.0, ()))

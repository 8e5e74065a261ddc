import gymnasium as gym
import pytest
from gymnasium import spaces

from oda_rl.envs.spaces import check_discrete_action_space


def test_supported_spaces_are_returned():
    discrete = spaces.Discrete(4, start=1)
    assert check_discrete_action_space(discrete) is discrete


@pytest.mark.skipif(not hasattr(gym.wrappers, "DiscretizeAction"), reason="Gymnasium has it since 1.2.1")
def test_the_advice_works():
    env = gym.make("Pendulum-v1")
    with pytest.raises(ValueError, match="DiscretizeAction"):
        check_discrete_action_space(env.action_space)
    assert check_discrete_action_space(gym.wrappers.DiscretizeAction(env, bins=3).action_space).n == 3

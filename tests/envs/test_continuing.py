"""Where an environment stands, captured and restored."""

import gymnasium as gym
import pytest

from oda_rl.envs.continuing import capture, restore


@pytest.mark.parametrize("has_all", [True, False])
def test_taxi_of_any_version(has_all):
    """Gymnasium's Taxi of before has no steps that go astray."""
    env, twin = gym.make("Taxi"), gym.make("Taxi")
    for one in (env, twin):
        one.reset(seed=0)
        if not has_all and hasattr(one.unwrapped, "fickle_step"):
            one.unwrapped.reset = lambda **_: (0, {})
            del one.unwrapped.fickle_step
    env.unwrapped.s = 123
    assert restore(twin, capture(env))
    assert twin.unwrapped.s == 123
    assert hasattr(twin.unwrapped, "fickle_step") == hasattr(env.unwrapped, "fickle_step")

import gymnasium as gym
import numpy as np
import pytest

import oda_rl.envs  # noqa: F401
from oda_rl.envs import rollout


@pytest.mark.parametrize("name", ["CartPole-v1", "MountainCarContinuous-v0", "Acrobot-v1"])
def test_the_environment_goes_on_from_python(name):
    """More episodes than one block of starts has, and then steps and resets from Python."""
    env, twin = (gym.make(f"oda_rl/{name}", max_episode_steps=8) for _ in range(2))
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(2500)]
    rollout(env, actions[:2300], seed=3)
    twin.reset(seed=3)
    for action in actions[:2300]:
        _, _, terminated, truncated, _ = twin.step(action)
        if terminated or truncated:
            twin.reset()
    for action in actions[2300:]:
        observation, *outcome, _ = twin.step(action)
        ours, *our_outcome, _ = env.step(action)
        np.testing.assert_array_equal(ours, observation)
        assert our_outcome == outcome
        if outcome[1] or outcome[2]:
            np.testing.assert_array_equal(env.reset()[0], twin.reset()[0])


def test_without_a_time_limit():
    transitions = rollout(gym.make("oda_rl/Pendulum-v1").unwrapped, np.zeros((1000, 1)), seed=0)
    assert not transitions.truncated.any()
    np.testing.assert_array_equal(transitions.observations[1:], transitions.next_observations[:-1])


def test_no_actions():
    assert len(rollout(gym.make("oda_rl/CartPole-v1"), np.zeros(0, dtype=int)).rewards) == 0


def test_errors():
    with pytest.raises(ValueError, match="env must have compiled dynamics"):
        rollout(gym.make("CartPole-v1"), [0])
    env = gym.make("oda_rl/CartPole-v1")
    for actions in ([2], [-1], [0.5], [np.nan]):
        with pytest.raises(ValueError, match=r"actions must all be in Discrete\(2\)"):
            rollout(env, actions)
    spaces = gym.spaces
    for space in (spaces.MultiDiscrete([2, 2]), spaces.MultiBinary(2)):
        env.unwrapped.action_space = space
        assert len(rollout(env, [[0, 1], [1, 1]]).rewards) == 2
        with pytest.raises(ValueError, match="actions must all be in Multi"):
            rollout(env, [[0, 1], [1, 2]])
    for actions in (3, np.zeros((5, 3))):
        with pytest.raises(ValueError, match="do not fit a sequence"):
            rollout(env, actions)

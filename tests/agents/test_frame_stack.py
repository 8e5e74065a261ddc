"""Stacked frames: every number has the bounds of its own coordinate."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecMonitor

from oda_rl.agents import TwoTimescaleAC, UniformGridQ
from oda_rl.agents.encoding import make_codec
from oda_rl.agents.observations import ObservationCodec
from oda_rl.agents.sb3.preparation import find_bounds


class Still(gym.Env):
    """Shows its `space` and does nothing."""

    action_space = spaces.Discrete(2)

    def __init__(self, space):
        self.observation_space = space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}


def stacked(space, n, **options):
    return VecFrameStack(DummyVecEnv([lambda: Still(space)]), n, **options)


@pytest.mark.parametrize("wrap", [lambda env: env, VecMonitor])
def test_frames_one_after_the_other_have_bounds_one_after_the_other(wrap):
    env = wrap(
        stacked(spaces.Box(np.array([-1.0, -np.inf]), np.array([2.0, np.inf]), dtype=np.float64), 3)
    )
    model = TwoTimescaleAC(env=env)
    np.testing.assert_array_equal(model.learner.scale.low, [-1.0, -np.inf] * 3)
    np.testing.assert_array_equal(model.learner.scale.high, [2.0, np.inf] * 3)


def test_bounds_that_were_given_are_those_of_a_grid():
    env = stacked(spaces.Box(np.array([-1.0, -5.0]), np.array([2.0, 5.0]), dtype=np.float64), 2)
    learner = UniformGridQ(env=env, bins=2).learner
    np.testing.assert_array_equal(learner._warm_up.upper, [2.0, 5.0, 2.0, 5.0])


@pytest.mark.parametrize("order", ["first", "last"])
def test_bounds_are_in_the_order_of_the_numbers_whatever_the_axis(order):
    high = np.arange(1.0, 7.0).reshape(2, 3)
    env = stacked(spaces.Box(-high, high, dtype=np.float64), 2, channels_order=order)
    _, found = find_bounds(env, ObservationCodec(env.observation_space))
    frames = np.concatenate([high, high], axis=0 if order == "first" else 1)
    np.testing.assert_array_equal(found, frames.ravel())


def test_each_part_of_a_dict_is_stacked_by_itself():
    def box(shape, *high):
        return spaces.Box(-np.reshape(high, shape), np.reshape(high, shape), dtype=np.float64)

    parts = {"place": box(2, 1.0, 100.0), "map": box((2, 2), 1.0, 2.0, 3.0, 4.0)}
    env = stacked(spaces.Dict(parts), 2, channels_order={"place": None, "map": "first"})
    model = TwoTimescaleAC(env=env)
    high = {"map": [1.0, 2.0, 3.0, 4.0] * 2, "place": [1.0, 100.0] * 2}
    expected = np.concatenate([high[name] for name in env.observation_space])
    np.testing.assert_array_equal(model.learner.scale.high, expected)
    np.testing.assert_array_equal(model.learner.scale.low, -expected)


def test_what_is_stacked_beside_an_image_has_its_bounds():
    image = spaces.Box(0, 255, (30, 30, 1), np.uint8)
    speed = spaces.Box(np.array([-1.0, -9.0]), np.array([1.0, 9.0]), dtype=np.float64)
    env = stacked(spaces.Dict(image=image, speed=speed), 2)
    _, high = find_bounds(env, make_codec(env.observation_space, False))
    np.testing.assert_array_equal(high[-4:], [1.0, 9.0, 1.0, 9.0])
    assert np.isinf(high[:-4]).all()


def test_differences_of_goals_have_no_bounds():
    box = spaces.Box(np.array([-1.0, -np.inf]), np.array([2.0, 5.0]), dtype=np.float64)
    env = stacked(spaces.Dict(achieved_goal=box, desired_goal=box), 2)
    codec = ObservationCodec(env.observation_space)
    ends = {
        name: (low, high)
        for name, low, high in zip(codec.names(None), *find_bounds(env, codec), strict=True)
    }
    own = [(-1.0, 2.0), (-np.inf, 5.0)] * 2
    for j in range(4):
        assert ends[f"achieved_goal[{j}]"] == own[j]
        assert ends[f"desired_goal[{j}] - achieved_goal[{j}]"] == (-np.inf, np.inf)


def test_without_frames_bounds_are_those_of_the_space():
    env = DummyVecEnv([lambda: Still(spaces.Box(-1.0, 3.0, (2,)))])
    codec = ObservationCodec(env.observation_space)
    for bounds in (find_bounds(env, codec), find_bounds(None, codec)):
        np.testing.assert_array_equal(bounds, [[-1.0, -1.0], [3.0, 3.0]])

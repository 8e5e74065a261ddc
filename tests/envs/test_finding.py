import gymnasium as gym
import numpy as np
import pytest
from gymnasium import wrappers
from stable_baselines3.common.monitor import Monitor

import oda_rl.envs  # noqa: F401
from oda_rl.envs import find_dynamics, find_twin, get_elapsed_steps, hand_back
from oda_rl.envs.classic import CartPole, MountainCar

ID = "oda_rl/CartPole-v1"


class PaidMountainCar(MountainCar):
    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, reward + 1.0, *rest


class HeavyCartPole(CartPole):
    def get_parameters(self):
        parameters = list(super().get_parameters())
        parameters[2] = 5.0
        return parameters


class OddLimit(wrappers.TimeLimit):
    pass


def test_found_behind_wrappers_that_look_on():
    env = gym.make(ID)
    for wrapped in (env, env.unwrapped, Monitor(env), Monitor(wrappers.TimeLimit(env, 900))):
        dynamics = find_dynamics(wrapped)
        assert dynamics.env is env.unwrapped
        assert dynamics.time_limit == (None if wrapped is env.unwrapped else 500)
    assert find_dynamics(wrappers.TimeLimit(env, 90)).time_limit == 90


@pytest.mark.parametrize(
    "wrap",
    [
        lambda env: wrappers.TransformReward(env, lambda reward: 2 * reward),
        lambda env: Monitor(wrappers.ClipReward(env, 0, 1)),
        lambda env: wrappers.TimeLimit(wrappers.NormalizeObservation(env), 50),
        lambda env: OddLimit(env, 50),
        lambda env: gym.Wrapper(env),
    ],
)
def test_not_found_behind_others(wrap):
    assert find_dynamics(wrap(gym.make(ID))) is None


def test_not_found_where_the_kernels_do_not_tell_all():
    assert find_dynamics(gym.make("CartPole-v1")) is None
    assert find_dynamics(PaidMountainCar()) is None
    assert find_dynamics(gym.make(ID, render_mode="human")) is None
    changed = CartPole()
    changed.step = lambda action: None
    assert find_dynamics(changed) is None
    assert find_dynamics(gym.make(ID, render_mode="rgb_array")) is not None


def test_found_with_the_parameters_of_now():
    assert find_dynamics(HeavyCartPole()).parameters[2] == 5.0
    env = CartPole()
    env.gravity = 3.7
    assert find_dynamics(env).parameters[0] == 3.7


def test_sizes():
    sizes = {
        "CartPole-v1": (4, 4, 1, 4),
        "CartPoleFriction-v0": (4, 4, 1, 4),
        "MountainCar-v0": (2, 1, 1, 2),
        "MountainCarContinuous-v0": (3, 1, 1, 2),
        "Acrobot-v1": (4, 8, 1, 6),
        "Pendulum-v1": (2, 2, 1, 3),
    }
    for name, wanted in sizes.items():
        d = find_dynamics(gym.make(f"oda_rl/{name}"))
        assert (d.state_size, d.start_size, d.action_size, d.observation_size) == wanted


def test_handing_back():
    env = Monitor(gym.make(ID))
    env.reset(seed=0)
    assert get_elapsed_steps(env) == 0
    hand_back(env, [0.0, 0.0, 0.01, 0.0], 498)
    assert get_elapsed_steps(env) == 498
    assert env.step(1)[3] is False
    np.testing.assert_allclose(env.unwrapped.get_state(), [0.0, 0.195, 0.01, -0.29], atol=0.01)
    assert env.step(0)[3] is True


def test_handing_back_refuses_what_does_not_fit():
    env = gym.make(ID)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"state must have shape \(4,\), not \(3,\)"):
        hand_back(env, [0.0, 0.0, 0.0], 0)
    with pytest.raises(ValueError, match="env must have compiled dynamics"):
        hand_back(gym.make("CartPole-v1"), [0.0] * 4, 0)


def test_a_twin_is_found_only_where_it_is_equal(monkeypatch):
    assert find_twin("CartPole-v1") == ID == find_twin(ID)
    assert find_twin("CartPole-v0") is None  # of another length
    assert find_twin("FrozenLake-v1") is None
    changed = dict(gym.registry)
    monkeypatch.setattr(gym.envs.registration, "registry", changed)
    monkeypatch.setattr(gym, "registry", changed)
    gym.register("CartPole-v1", HeavyCartPole, max_episode_steps=500)
    assert find_twin("CartPole-v1") == "CartPole-v1"  # compiled, but not the same task

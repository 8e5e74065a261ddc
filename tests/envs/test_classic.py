"""The compiled tasks against Gymnasium's own, bit by bit.

Random actions alone never leave the valley or swing the acrobot up, so each is held for a while.
"""

import copy
import pickle
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import oda_rl.envs

IDS = ["CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Acrobot-v1", "Pendulum-v1"]
ALL = [*(f"oda_rl/{name}" for name in IDS), "oda_rl/CartPoleFriction-v0"]
# Steps that are compared, and where episodes are cut if not at the task's own limit
LENGTHS = {
    "CartPole-v1": (20_000, 500),
    "MountainCar-v0": (20_000, 200),
    "MountainCarContinuous-v0": (20_000, 999),
    "Acrobot-v1": (10_000, 100),
    "Pendulum-v1": (20_000, 200),
}


def random_actions(space, n, seed=0):
    """Held for 1, 5 or 40 steps. Continuous ones are at times beyond their limits."""
    rng = np.random.default_rng(seed)
    if isinstance(space, gym.spaces.Discrete):
        drawn = rng.integers(space.n, size=n)
    else:
        drawn = (rng.uniform(-1.3, 1.3, (n, 1)) * space.high).astype(space.dtype)
    return np.repeat(drawn, rng.choice([1, 5, 40], n), axis=0)[:n]


def play(env, actions, time_limit):
    """Step an environment: a column of everything that it returns."""
    observation, elapsed = env.reset(seed=7)[0], 0
    seen = []
    for action in actions:
        following, reward, terminated, _, _ = env.step(action)
        elapsed += 1
        truncated = elapsed >= time_limit
        seen.append((observation, following, reward, terminated, truncated))
        observation = following
        if terminated or truncated:
            observation, elapsed = env.reset()[0], 0
    return [np.array(column) for column in zip(*seen, strict=True)]


@pytest.mark.parametrize("name", IDS)
def test_episodes_are_equal_to_the_last_bit(name):
    n, limit = LENGTHS[name]
    theirs, ours = gym.make(name).unwrapped, gym.make(f"oda_rl/{name}").unwrapped
    actions = random_actions(theirs.action_space, n)
    columns = play(ours, actions, limit)
    for column, wanted in zip(columns, play(theirs, actions, limit), strict=True):
        np.testing.assert_array_equal(column, wanted)
        assert column.dtype == wanted.dtype
    np.testing.assert_array_equal(ours.state, theirs.state)
    assert ours.np_random.random() == theirs.np_random.random()
    assert columns[3].any() or name in ("Acrobot-v1", "Pendulum-v1")


@pytest.mark.parametrize(
    ("name", "reach"),
    [
        ("CartPole-v1", [3.0, 4.0, 0.3, 4.0]),
        ("MountainCar-v0", [1.2, 0.1]),
        ("MountainCarContinuous-v0", [1.2, 0.1]),
        ("Acrobot-v1", [4.0, 4.0, 14.0, 30.0]),
        ("Pendulum-v1", [20.0, 9.0]),
    ],
)
def test_single_steps_are_equal_everywhere(name, reach):
    """From states all over the space, also where episodes end, angles wrap and speeds are limited."""
    theirs, ours = gym.make(name).unwrapped, gym.make(f"oda_rl/{name}").unwrapped
    actions = random_actions(theirs.action_space, 3000, seed=2)
    ends = 0
    states = np.random.default_rng(3).uniform(-1, 1, (3000, len(reach)))
    for state, action in zip(states, actions, strict=True):
        for env in (theirs, ours):
            env.reset(seed=0)
            env.state = state * reach
        expected, found = theirs.step(action), ours.step(action)
        np.testing.assert_array_equal(found[0], expected[0])
        assert found[1:] == expected[1:]
        np.testing.assert_array_equal(ours.state, theirs.state)
        ends += found[2]
    assert ends > 20 or name == "Pendulum-v1"


@pytest.mark.parametrize("name", IDS)
def test_registered_as_gymnasium_has_them(name):
    ours, theirs = gym.spec(f"oda_rl/{name}"), gym.spec(name)
    assert ours.max_episode_steps == theirs.max_episode_steps
    assert ours.reward_threshold == theirs.reward_threshold
    env, original = gym.make(ours), gym.make(theirs)
    assert env.observation_space == original.observation_space
    assert env.action_space == original.action_space


def test_friction_is_registered():
    spec = gym.spec("oda_rl/CartPoleFriction-v0")
    assert (spec.max_episode_steps, spec.reward_threshold) == (1000, 975.0)


def warnings_of_checker(name):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(gym.make(name).unwrapped)
    return {str(warning.message) for warning in caught}


@pytest.mark.parametrize("name", ALL)
def test_gymnasiums_checker_has_nothing_to_say(name):
    """Nothing but what it says of the original's spaces: infinite bounds, torques not normalised."""
    original = name.removeprefix("oda_rl/")
    allowed = warnings_of_checker("CartPole-v1" if "Friction" in name else original)
    assert warnings_of_checker(name) <= allowed


@pytest.mark.parametrize("name", ALL)
def test_rendering(name):
    env = gym.make(name, render_mode="rgb_array")
    env.reset(seed=0)
    env.action_space.seed(0)
    before = env.render()
    for _ in range(30):
        env.step(env.action_space.sample())
    after = env.render()
    assert after.dtype == np.uint8
    assert after.shape == before.shape
    assert after.shape[2] == 3
    assert (after != before).any()
    env.close()


@pytest.mark.parametrize("name", IDS)
def test_options_of_reset(name):
    options = {"x_init": 0.3, "y_init": 0.2} if name == "Pendulum-v1" else {"low": -0.3, "high": -0.2}
    ours, theirs = gym.make(f"oda_rl/{name}"), gym.make(name)
    np.testing.assert_array_equal(
        ours.reset(seed=3, options=options)[0], theirs.reset(seed=3, options=options)[0]
    )


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_copies_go_on_alike(name, duplicate):
    env = gym.make(name)
    env.reset(seed=0)
    env.step(env.action_space.sample())
    twin = duplicate(env)
    for action in random_actions(env.action_space, 6):
        np.testing.assert_array_equal(env.step(action)[0], twin.step(action)[0])
    np.testing.assert_array_equal(env.reset()[0], twin.reset()[0])


@pytest.mark.parametrize(
    ("name", "arguments", "attributes"),
    [
        ("CartPole-v1", {"sutton_barto_reward": True}, {"gravity": 5.0, "tau": 0.03}),
        ("CartPole-v1", {}, {"kinematics_integrator": "semi-implicit euler"}),
        ("MountainCar-v0", {"goal_velocity": 0.03}, {"force": 0.002}),
        ("MountainCarContinuous-v0", {"goal_velocity": 0.01}, {"power": 0.003}),
        ("Pendulum-v1", {"g": 3.7}, {"m": 0.8, "max_speed": 5.0}),
        ("Acrobot-v1", {}, {"book_or_nips": "nips", "LINK_MASS_2": 0.7}),
    ],
)
def test_arguments_and_attributes_count(name, arguments, attributes):
    theirs, ours = gym.make(name, **arguments), gym.make(f"oda_rl/{name}", **arguments)
    for attribute, value in attributes.items():
        setattr(theirs.unwrapped, attribute, value)
        setattr(ours.unwrapped, attribute, value)
    actions = random_actions(theirs.action_space, 2000)
    limit = theirs.spec.max_episode_steps
    expected = play(theirs, actions, limit)
    for column, wanted in zip(play(ours, actions, limit), expected, strict=True):
        np.testing.assert_array_equal(column, wanted)


def test_noise_on_the_torque_is_refused():
    env = gym.make("oda_rl/Acrobot-v1")
    env.unwrapped.torque_noise_max = 0.5
    with pytest.raises(ValueError, match=r"torque_noise_max must be 0 .* got 0\.5"):
        env.reset()


@pytest.mark.parametrize("sutton_barto_reward", [False, True])
def test_a_fallen_pole_earns_what_it_earns_in_gymnasium(sutton_barto_reward):
    rewards = []
    for name in ("CartPole-v1", "oda_rl/CartPole-v1"):
        env = gym.make(name, sutton_barto_reward=sutton_barto_reward).unwrapped
        env.reset(seed=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rewards.append([env.step(1)[1] for _ in range(30)])
    assert rewards[0] == rewards[1]
    assert len(set(rewards[1])) == 2


def test_names():
    for name in oda_rl.envs.__all__:
        assert getattr(oda_rl.envs, name).__name__ == name
        assert name in dir(oda_rl.envs)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        oda_rl.envs.nothing  # noqa: B018

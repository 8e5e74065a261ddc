"""Deep sea, catch and the swing-up against slow twins, written from bsuite's definitions."""

import math

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

import oda_rl.envs

IDS = ("oda_rl/DeepSea-v0", "oda_rl/Catch-v0", "oda_rl/CartPoleSwingup-v0")


def play(env, actions, seed=0):
    """One episode: the observations, from the first on, the rewards, and whether it has ended."""
    observations, rewards, terminated = [env.reset(seed=seed)[0]], [], False
    for action in actions:
        assert not terminated
        observation, reward, terminated, truncated, _ = env.step(action)
        assert not truncated
        observations.append(observation)
        rewards.append(reward)
    return observations, rewards, terminated


@pytest.mark.parametrize("name", IDS)
def test_gymnasium_finds_nothing_wrong(name):
    env = gym.make(name)
    check_env(env.unwrapped, skip_render_check=True)
    assert oda_rl.envs.find_dynamics(env) is not None


def test_gymnasium_finds_nothing_wrong_with_a_board():
    check_env(gym.make("oda_rl/DeepSea-v0", size=3, stochastic=True, observation="board").unwrapped)


# -- deep sea ------------------------------------------------------------------------------------


def slow_dive(rightward, actions):
    """Row, column and reward of every step of the deterministic sea."""
    size, column, told = len(rightward), 0, []
    for row, action in enumerate(actions):
        right = action == rightward[row, column]
        reward = float(right and column == size - 1) - (0.01 / size if right else 0.0)
        column = min(column + 1, size - 1) if right else max(column - 1, 0)
        told.append((row + 1, column, reward))
    return told


@settings(max_examples=30, deadline=None)
@given(size=st.integers(1, 7), seed=st.integers(0, 100), data=st.data())
def test_deep_sea(size, seed, data):
    actions = data.draw(st.lists(st.integers(0, 1), min_size=size, max_size=size))
    boards = gym.make("oda_rl/DeepSea-v0", size=size, mapping_seed=seed, observation="board")
    numbers = gym.make("oda_rl/DeepSea-v0", size=size, mapping_seed=seed)
    seen, rewards, terminated = play(boards, actions)
    places, same_rewards, _ = play(numbers, actions)
    assert terminated
    assert rewards == same_rewards
    assert seen[0][0, 0] == seen[0].sum() == 1
    assert places[0] == 0
    told = slow_dive(boards.unwrapped.rightward, actions)
    for board, place, reward, (row, column, wanted) in zip(
        seen[1:], places[1:], rewards, told, strict=True
    ):
        assert reward == pytest.approx(wanted)
        expected = np.zeros((size, size))
        if row < size:
            expected[row, column] = 1
            assert place == row * size + column
        np.testing.assert_array_equal(board, expected)


def test_only_who_always_goes_right_finds_the_treasure():
    env = gym.make("oda_rl/DeepSea-v0", size=5)
    rightward = env.unwrapped.rightward
    assert 0 < rightward.mean() < 1
    assert sum(play(env, np.diag(rightward))[1]) == pytest.approx(0.99)
    for wrong in range(5):
        actions = np.diag(rightward).copy()
        actions[wrong] = 1 - actions[wrong]
        assert sum(play(env, actions)[1]) <= 0.0


def test_the_stochastic_sea_slips_and_has_noise_at_both_ends():
    size, episodes = 4, 4000
    env = gym.make("oda_rl/DeepSea-v0", size=size, stochastic=True, mapping_seed=None)
    env.reset(seed=0)
    reached, left, right = 0, [], []
    for _ in range(episodes):
        env.reset()
        for _ in range(size - 1):
            env.step(1)
        before = env.unwrapped.get_state()[1]
        reward = env.step(1)[1] + 0.01 / size
        if before == size - 1:
            reached += 1
            right.append(reward - 1)
        else:
            assert before == 0 or reward == 0
        env.reset()
        left.append([env.step(0)[1] for _ in range(size)][-1])
    # the way of three steps to the right, each of which slips once in N
    assert reached / episodes == pytest.approx((1 - 1 / size) ** (size - 1), abs=0.03)
    for noise in (left, right):
        assert np.mean(noise) == pytest.approx(0, abs=0.08)
        assert np.std(noise) == pytest.approx(1, abs=0.08)
    assert abs(np.corrcoef(left[1:], left[:-1])[0, 1]) < 0.06


def test_deep_sea_refuses_what_makes_no_sense():
    for options, message in (({"size": 0}, "size"), ({"observation": "pixels"}, "'number' or 'board'")):
        with pytest.raises(ValueError, match=message):
            gym.make("oda_rl/DeepSea-v0", **options)


# -- catch ---------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(rows=st.integers(2, 10), columns=st.integers(1, 6), seed=st.integers(0, 99), data=st.data())
def test_catch(rows, columns, seed, data):
    actions = data.draw(st.lists(st.integers(0, 2), min_size=rows - 1, max_size=rows - 1))
    seen, rewards, terminated = play(
        gym.make("oda_rl/Catch-v0", rows=rows, columns=columns), actions, seed
    )
    ball, paddle = int(seen[0][0].argmax()), columns // 2
    for row, board in enumerate(seen):
        expected = np.zeros((rows, columns))
        expected[row, ball] = expected[rows - 1, paddle] = 1
        np.testing.assert_array_equal(board, expected)
        if row < rows - 1:
            paddle = min(max(paddle + actions[row] - 1, 0), columns - 1)
    assert terminated
    assert rewards == [0.0] * (rows - 2) + [1.0 if paddle == ball else -1.0]


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("DeepSea", [11, 0, 1]),
        ("DeepSea", [0, -1, 1]),
        ("DeepSea", [0.5, 0, 1]),
        ("Catch", [0, 0, 5]),
        ("Catch", [0, np.nan, 0]),
    ],
)
def test_states_beyond_the_board_are_refused(name, bad):
    env = gym.make(f"oda_rl/{name}-v0").unwrapped
    env.reset(seed=0)
    with pytest.raises(ValueError, match="integers from 0 to"):
        env.set_state(bad)


@pytest.mark.parametrize("name", ["DeepSea", "Catch"])
def test_who_steps_on_after_the_end_gets_nothing(name):
    env = gym.make(f"oda_rl/{name}-v0").unwrapped
    env.reset(seed=0)
    while not env.step(0)[2]:
        pass
    before = env.get_state()
    assert env.step(0)[1:3] == (0.0, True)
    np.testing.assert_array_equal(env.get_state(), before)


def test_balls_fall_in_every_column():
    env = gym.make("oda_rl/Catch-v0")
    env.reset(seed=0)
    columns = [int(env.reset()[0][0].argmax()) for _ in range(500)]
    assert np.bincount(columns, minlength=5).min() > 70


# -- the swing-up --------------------------------------------------------------------------------


def slow_swing(state, action):
    """One step of Euler's method, as Barto, Sutton and Anderson (1983) have the cart-pole."""
    x, x_dot, theta, theta_dot, time = state
    total, force = 1.1, 10.0 * (action - 1)
    temp = (force + 0.05 * theta_dot**2 * math.sin(theta)) / total
    theta_acc = (9.8 * math.sin(theta) - math.cos(theta) * temp) / (
        0.5 * (4 / 3 - 0.1 * math.cos(theta) ** 2 / total)
    )
    x_acc = temp - 0.05 * theta_acc * math.cos(theta) / total
    theta = (theta + 0.01 * theta_dot) % (2 * math.pi)
    return [x + 0.01 * x_dot, x_dot + 0.01 * x_acc, theta, theta_dot + 0.01 * theta_acc, time + 0.01]


@pytest.mark.parametrize("height", [0.0, 0.5, 0.95])
def test_swing_up(height):
    env = gym.make("oda_rl/CartPoleSwingup-v0", height_threshold=height)
    env.reset(seed=0)
    rng, paid = np.random.default_rng(0), 0
    for _ in range(2000):
        env.reset()
        state = rng.uniform([-3, -3, 0, -2, 0], [3, 3, 2 * math.pi, 2, 10.005])
        env.unwrapped.set_state(state)
        action = int(rng.integers(3))
        observation, reward, terminated, _, _ = env.step(action)
        x, x_dot, theta, theta_dot, time = slow_swing(state, action)
        np.testing.assert_allclose(env.unwrapped.get_state(), [x, x_dot, theta, theta_dot, time])
        signs = [1 if abs(value) < 1 else -1 for value in (x, theta_dot)]
        expected = [x / 3, x_dot / 3, math.sin(theta), math.cos(theta), theta_dot, time / 10, *signs]
        np.testing.assert_allclose(observation, expected, rtol=1e-6, atol=1e-6)
        upright = math.cos(theta) > height and signs == [1, 1]
        assert reward == pytest.approx(upright - 0.1 * abs(action - 1))
        assert terminated == (time > 10 or abs(x) > 3)
        paid += upright
    assert paid > 10


def test_who_keeps_still_earns_nothing_for_ten_seconds():
    observations, rewards, terminated = play(gym.make("oda_rl/CartPoleSwingup-v0"), [1] * 1001)
    assert terminated
    assert set(rewards) == {0.0}
    assert observations[0][3] < -0.99

"""An environment that a user might have made."""

import warnings

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from oda_rl.envs import CompiledEnv, StartBlock, find_dynamics, hand_back


class Raft(CompiledEnv):
    """A raft on a river of two dimensions, with noise from a generator in the state."""

    metadata = {"render_modes": []}  # noqa: RUF012
    state_size = 3
    start_low, start_high = (-0.5, -0.5, 1.0), (0.5, 0.5, 1000.0)

    def __init__(self, current=0.1, action_space=None):
        self.current = current
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = gym.spaces.Discrete(3, start=-1) if action_space is None else action_space

    def get_parameters(self):
        return [self.current]

    @staticmethod
    def reset_kernel(parameters, state, start, observation):
        state[:] = start
        state[2] = np.floor(start[2])
        observation[:] = state[:2].astype(np.float32)

    @staticmethod
    def step_kernel(parameters, state, action, observation):
        state[2] = (state[2] * 16807.0) % 2147483647.0
        noise = state[2] / 2147483647.0 - 0.5
        state[0] = min(max(state[0] + parameters[0] + 0.1 * noise, -1.0), 1.0)
        state[1] = min(max(state[1] + 0.2 * (action[0] - 1.0), -1.0), 1.0)
        observation[:] = state[:2].astype(np.float32)
        return state[1], state[0] == 1.0


def test_the_checker_is_content():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(Raft(), skip_render_check=True)


def test_compiled_and_stepped_are_the_same():
    """What a compiled loop does by hand: the functions, starts drawn ahead, the way back to Python."""
    env, twin = gym.wrappers.TimeLimit(Raft(), 10), gym.wrappers.TimeLimit(Raft(), 10)
    env.reset(seed=2)
    twin.reset(seed=2)
    dynamics = find_dynamics(env)
    block, state, observation = StartBlock(dynamics.env, 200), dynamics.env.get_state(), np.zeros(2)
    used, elapsed, ends = 0, 0, set()
    for action in np.random.default_rng(0).integers(-1, 2, size=500):
        found = dynamics.step(
            dynamics.parameters, state, dynamics.env.encode_action(action), observation
        )
        expected, *outcome, truncated, _ = twin.step(action)
        np.testing.assert_array_equal(observation, expected)
        assert found == tuple(outcome)
        elapsed += 1
        if found[1] or truncated:
            ends.add((found[1], truncated))
            dynamics.reset(dynamics.parameters, state, block.rows[used], observation)
            used, elapsed = used + 1, 0
            np.testing.assert_array_equal(observation, twin.reset()[0])
    assert {(True, False), (False, True)} <= ends
    block.rewind_to(used)
    hand_back(env, state, elapsed)
    np.testing.assert_array_equal(env.step(0)[0], twin.step(0)[0])
    np.testing.assert_array_equal(env.reset()[0], twin.reset()[0])


def test_reset_is_needed():
    for call in (lambda env: env.step(0), lambda env: env.get_state()):
        with pytest.raises(gym.error.ResetNeeded, match=r"Call reset\(\) before"):
            call(Raft())


@pytest.mark.parametrize("action", [-2, 2, 0.5, "left"])
def test_bad_actions_are_refused(action):
    env = Raft()
    env.reset(seed=0)
    with pytest.raises(gym.error.InvalidAction, match="is not in Discrete"):
        env.step(action)


def test_actions_are_encoded():
    assert Raft().encode_action(-1) == [0.0]
    assert Raft().encode_action(np.array(1)) == [2.0]
    box = Raft(action_space=gym.spaces.Box(-1, 1, (2, 1), np.float32))
    np.testing.assert_array_equal(box.encode_action([[0.1], [5]]), [np.float32(0.1), 5.0])
    with pytest.raises(gym.error.InvalidAction, match=r"action must have shape \(2, 1\), not \(2,\)"):
        box.encode_action(np.zeros(2))
    multi = Raft(action_space=gym.spaces.MultiDiscrete([3, 4], start=[1, 5]))
    np.testing.assert_array_equal(multi.encode_action(np.array([3, 5])), [2.0, 0.0])
    assert find_dynamics(multi).action_size == 2
    with pytest.raises(ValueError, match="action space Text"):
        find_dynamics(Raft(action_space=gym.spaces.Text(3)))


def test_what_is_missing_is_named():
    class Bare(CompiledEnv):
        state_size = 2
        step_kernel = staticmethod(Raft.step_kernel)

    with pytest.raises(TypeError, match="Bare must define reset_kernel, start_low, start_high; see"):
        Bare()


def test_a_kernel_may_return_whole_numbers_and_draw_its_starts():
    class Coin(CompiledEnv):
        state_size = 1
        observation_space = gym.spaces.Box(0, 1, (1,), np.float32)
        action_space = gym.spaces.Discrete(2)

        def draw_starts(self, generator, n):
            return generator.integers(2, size=(n, 1))

        @staticmethod
        def reset_kernel(parameters, state, start, observation):
            state[0] = observation[0] = start[0]

        @staticmethod
        def step_kernel(parameters, state, action, observation):
            return 1 if action[0] == state[0] else 0, True

    env = Coin()
    starts = [env.reset(seed=seed)[0][0] for seed in range(100)]
    assert 30 < sum(starts) < 70
    assert env.step(int(env.get_state()[0]))[1:3] == (1.0, True)


def test_state_can_be_set():
    env = Raft()
    env.reset(seed=0)
    env.set_state([0.1, 0.2, 3.0])
    state = env.get_state()
    env.step(1)
    np.testing.assert_array_equal(state, [0.1, 0.2, 3.0])
    with pytest.raises(ValueError, match="state must have shape"):
        env.set_state([0.0])


def test_travels_to_other_processes_by_value():
    env = cloudpickle.loads(cloudpickle.dumps(Raft(current=0.3)))
    twin = Raft(current=0.3)
    env.reset(seed=1)
    twin.reset(seed=1)
    np.testing.assert_array_equal(env.step(0)[0], twin.step(0)[0])

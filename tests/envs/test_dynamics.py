import os
import pickle
import subprocess
import sys

import cloudpickle
import gymnasium as gym
import numba
import numpy as np
import pytest
from gymnasium import wrappers
from stable_baselines3.common.monitor import Monitor

import oda_rl.envs  # noqa: F401
from oda_rl.envs import (
    CompiledFunction,
    StartBlock,
    find_dynamics,
    find_twin,
    get_elapsed_steps,
    hand_back,
)
from oda_rl.envs.classic import CartPole, MountainCar

IDS = ["CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Acrobot-v1", "Pendulum-v1"]


def double(parameters, state, action, observation):
    state[0] = 2.0 * state[0] + action[0]
    return parameters[0], state[0] > 10.0


def test_called_from_python_and_from_compiled_code():
    function = CompiledFunction(double, "step")
    state = np.array([1.0])
    assert function(np.array([0.5]), state, np.array([3.0]), np.empty(0)) == (0.5, False)
    assert state[0] == 5.0
    assert isinstance(numba.typeof(function), numba.types.FunctionType)
    call = numba.njit(lambda f, p, s, a, o: f(p, s, a, o))
    assert call(function, np.array([0.5]), state, np.array([3.0]), np.empty(0)) == (0.5, True)


def test_all_have_one_type():
    kinds = {
        (numba.typeof(d.step), numba.typeof(d.reset))
        for d in (find_dynamics(gym.make(f"oda_rl/{name}")) for name in IDS)
    }
    assert len(kinds) == 1


def test_kind_must_be_known():
    with pytest.raises(ValueError, match="kind must be 'step' or 'reset', not 'jump'"):
        CompiledFunction(double, "jump")


@pytest.mark.parametrize("module", [pickle, cloudpickle])
def test_pickles_without_its_machine_code(module):
    function = CompiledFunction(double, "step")
    function.compiled  # noqa: B018
    twin = module.loads(module.dumps(function))
    assert twin._compiled is None
    assert twin(np.ones(1), np.ones(1), np.zeros(1), np.empty(0)) == (1.0, False)


@pytest.mark.parametrize("name", [*IDS, "CartPoleFriction-v0"])
def test_a_block_of_starts_is_what_resets_would_have_drawn(name):
    env, twin = gym.make(f"oda_rl/{name}"), gym.make(f"oda_rl/{name}")
    env.reset(seed=5)
    twin.reset(seed=5)
    dynamics = find_dynamics(env)
    block = StartBlock(dynamics.env, 20)
    assert block.rows.shape == (20, dynamics.start_size)
    state, observation = np.empty(dynamics.state_size), np.empty(dynamics.observation_size)
    for row in block.rows[:7]:
        dynamics.reset(dynamics.parameters, state, row, observation)
        np.testing.assert_array_equal(observation, twin.reset()[0])
        np.testing.assert_array_equal(state, twin.unwrapped.get_state())
    block.rewind_to(7)
    np.testing.assert_array_equal(env.reset()[0], twin.reset()[0])
    with pytest.raises(ValueError, match="used must be from 0 to 20, not 21"):
        block.rewind_to(21)
    with pytest.raises(ValueError, match="size must be 1 or more, not 0"):
        StartBlock(dynamics.env, 0)


CODE = """
import sys, gymnasium as gym, numpy as np, oda_rl.envs
from oda_rl.envs import find_dynamics, kernels
for name in sys.argv[1:]:
    d = find_dynamics(gym.make(f"oda_rl/{name}"))
    states, seen = np.zeros((2, d.state_size)), np.zeros((2, d.observation_size))
    actions, rewards, ends = np.zeros((2, d.action_size)), np.zeros(2), np.zeros(2, dtype=bool)
    kernels.step_many(d.step, d.parameters, states, actions, seen, rewards, ends)
    stats = [kernels.step_many.stats, d.step.compiled.stats]
    print(*(f"{s.cache_hits.total()}/{s.cache_misses.total()}" for s in stats))
"""


def test_a_second_process_compiles_nothing(tmp_path):
    """Nor does a loop that was compiled for one environment have to be for another."""
    said = []
    for names in (["CartPole-v1"], ["Pendulum-v1", "CartPole-v1"]):
        done = subprocess.run(
            [sys.executable, "-c", CODE, *names],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        )
        said += done.stdout.splitlines()
    assert said == ["0/1 0/1", "1/0 0/1", "1/0 1/0"]


# -- behind wrappers ------------------------------------------------------------------------------

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


def test_a_broken_cache_of_an_environment_is_made_anew(tmp_path):
    code = (
        "import gymnasium as gym, oda_rl.envs as e;"
        "print(e.find_dynamics(gym.make('oda_rl/MountainCar-v0')).reset.compiled is not None)"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}

    def run():
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        )
        assert done.stdout == "True\n"
        return done.stderr

    assert "Warning" not in run()
    files = [*tmp_path.rglob("*.nb?")]
    assert files
    for path in files:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert run().count("RuntimeWarning") == 1
    assert "Warning" not in run()


def test_an_episode_of_any_length_is_gone_on_with():
    env = Monitor(gym.make("oda_rl/CartPole-v1", max_episode_steps=2**41))
    env.reset(seed=0)
    hand_back(env, np.zeros(4), 2**40, total=7.0)  # as many numbers would not fit into memory
    env = pickle.loads(pickle.dumps(env))
    assert sum(env.rewards) == 7.0
    terminated = False
    while not terminated:
        _, _, terminated, _, info = env.step(0)
    more = info["episode"]["l"] - 2**40
    assert 0 < more < 50
    assert info["episode"]["r"] == 7.0 + more

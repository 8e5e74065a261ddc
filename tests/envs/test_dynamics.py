import os
import pickle
import subprocess
import sys

import cloudpickle
import gymnasium as gym
import numba
import numpy as np
import pytest

import oda_rl.envs  # noqa: F401
from oda_rl.envs import CompiledFunction, StartBlock, find_dynamics

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
import gymnasium as gym, numpy as np, oda_rl.envs
from oda_rl.envs import find_dynamics, kernels
d = find_dynamics(gym.make("oda_rl/{name}"))
states, seen = np.zeros((2, d.state_size)), np.zeros((2, d.observation_size))
actions, rewards, ends = np.zeros((2, d.action_size)), np.zeros(2), np.zeros(2, dtype=bool)
kernels.step_many(d.step, d.parameters, states, actions, seen, rewards, ends)
stats = [kernels.step_many.stats, d.step.compiled.stats]
print(*(f"{{s.cache_hits.total()}}/{{s.cache_misses.total()}}" for s in stats))
"""


def test_a_second_process_compiles_nothing(tmp_path):
    """Nor does a loop that was compiled for one environment have to be for another."""
    said = []
    for name in ("CartPole-v1", "CartPole-v1", "Pendulum-v1"):
        done = subprocess.run(
            [sys.executable, "-c", CODE.format(name=name)],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        )
        said.append(done.stdout.strip())
    assert said == ["0/1 0/1", "1/0 1/0", "1/0 0/1"]


def test_importing_compiles_and_loads_nothing_heavy():
    code = (
        "import sys, gymnasium, oda_rl.envs; print({'numba', 'stable_baselines3'} & set(sys.modules));"
        "from oda_rl.envs.classic import CartPole; print(CartPole._compiled_step._compiled);"
        "print('stable_baselines3' in sys.modules, 'oda_rl.agents' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:3] == ["set()", "None", "False False"]

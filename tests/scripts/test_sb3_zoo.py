"""Agents of SB3 with RL Zoo's hyperparameters."""

import sys
from copy import deepcopy
from pathlib import Path

import gymnasium as gym
import pytest
from stable_baselines3.common.vec_env import VecNormalize

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
try:
    import sb3_zoo
finally:
    sys.path.pop(0)

VERSIONS = {"CartPole": 1, "Acrobot": 1, "Pendulum": 1, "MountainCar": 0, "MountainCarContinuous": 0}
BOX2D = {"LunarLander": 3, "LunarLanderContinuous": 3, "BipedalWalker": 3}
PAIRS = [(algorithm, name) for algorithm, listed in sb3_zoo.ZOO.items() for name in listed]


@pytest.mark.parametrize(("algorithm", "name"), PAIRS)
def test_what_is_listed_makes_an_agent(algorithm, name):
    if name not in VERSIONS:
        pytest.importorskip("Box2D" if name in BOX2D else "mujoco")
    if algorithm == "QRDQN":
        pytest.importorskip("sb3_contrib")
    env_id = f"{name}-v{(VERSIONS | BOX2D).get(name, 5)}"
    before = deepcopy(sb3_zoo.ZOO)
    model = sb3_zoo.make_zoo_agent(algorithm, env_id, seed=0)
    assert before == sb3_zoo.ZOO
    options = sb3_zoo.find_zoo_options(algorithm, env_id)
    assert type(model).__name__ == algorithm
    assert model.n_envs == options.get("n_envs", 1)
    assert isinstance(model.get_env(), VecNormalize) == options.get("normalize", False)
    for key in ("gamma", "n_steps", "batch_size", "buffer_size", "ent_coef"):
        if key in options:
            assert getattr(model, key) == options[key]
    if "activation_fn" in options.get("policy_kwargs", {}):
        layer = model.policy.mlp_extractor.policy_net[1]
        assert type(layer).__name__ == options["policy_kwargs"]["activation_fn"]
    model.get_env().close()


def test_schedules_fall_to_zero_along_a_line():
    model = sb3_zoo.make_zoo_agent("PPO", "CartPole-v1", seed=0)
    assert [model.lr_schedule(left) for left in (1.0, 0.5, 0.0)] == pytest.approx([1e-3, 5e-4, 0.0])
    assert [model.clip_range(left) for left in (1.0, 0.5, 0.0)] == pytest.approx([0.2, 0.1, 0.0])


def test_twins_have_the_options_of_their_originals():
    for twin in ("oda_rl/CartPole-v1", "oda_rl/CartPoleFriction-v0"):
        assert sb3_zoo.find_zoo_options("PPO", twin) == sb3_zoo.find_zoo_options("PPO", "CartPole-v1")


def test_what_the_zoo_does_not_list_has_the_defaults_of_sb3():
    assert sb3_zoo.find_zoo_options("PPO", "Blackjack-v1") == {}
    gym.register("Unlisted-v0", "gymnasium.envs.classic_control:CartPoleEnv", max_episode_steps=20)
    try:
        assert sb3_zoo.make_zoo_agent("PPO", "Unlisted-v0", seed=0).n_steps == 2048
    finally:
        gym.registry.pop("Unlisted-v0")


def test_what_cannot_be_made():
    with pytest.raises(ValueError, match=r"algorithm must be one of .*, got 'TD3'"):
        sb3_zoo.find_zoo_options("TD3", "Pendulum-v1")
    with pytest.raises(ValueError, match=r"DQN does not take actions in Box\(-2.0, 2.0"):
        sb3_zoo.make_zoo_agent("DQN", "Pendulum-v1", seed=0)

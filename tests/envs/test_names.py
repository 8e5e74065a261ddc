import gymnasium as gym
import pytest

from oda_rl.envs.names import (
    action_names,
    find_env_spec,
    find_foreign_module,
    is_env_id,
    observation_names,
)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "MountainCar-v0", "Acrobot-v1"])
def test_names_fit_the_environment(env_id):
    env = gym.make(env_id)
    n, n_actions = env.observation_space.shape[0], int(env.action_space.n)
    assert len(set(observation_names(env_id, n))) == n
    assert len(set(action_names(env_id, n_actions))) == n_actions
    assert "observation[0]" not in observation_names(env_id, n)
    assert "action 0" not in action_names(env_id, n_actions)


def test_unknown_environments_get_numbers():
    assert observation_names("Own/Thing-v3", 2) == ["observation[0]", "observation[1]"]
    assert action_names(None, 2) == ["action 0", "action 1"]


def test_namespaces_do_not_matter():
    assert observation_names("oda_rl/CartPole-v1", 4) == observation_names("CartPole-v1", 4)


def test_a_wrapped_environment_of_another_size_gets_numbers():
    assert observation_names("CartPole-v1", 3) == [f"observation[{j}]" for j in range(3)]


def test_ids_with_the_module_that_registers_them():
    env_id = "oda_rl.envs:oda_rl/CartPole-v1"
    assert find_env_spec(env_id).id == "oda_rl/CartPole-v1"
    assert observation_names(env_id, 4) == observation_names("CartPole-v1", 4)
    with pytest.raises(ModuleNotFoundError, match="nowhere_at_all"):
        find_env_spec("nowhere_at_all:Thing-v0")
    with pytest.raises(gym.error.NameNotFound, match="Nothing"):
        find_env_spec("Nothing-v0")


MALFORMED = ["", "a b", "x\n:CartPole-v1", '"""\n:CartPole-v1', "a.:A/B-v1", "Cart*/Pole-v1"]


@pytest.mark.parametrize("env_id", MALFORMED)
def test_no_part_of_an_id_may_have_other_characters(env_id):
    assert not is_env_id(env_id)
    assert observation_names(env_id, 4)[0] == "observation[0]"


@pytest.mark.parametrize(
    "env_id", ["CartPole-v1", "ale_py:ALE/Pong-v5", "my_envs.mazes:A/B-v0", "a:b:c-v0", "Maze"]
)
def test_ids_that_gymnasium_accepts(env_id):
    assert is_env_id(env_id)


def test_modules_that_an_environment_would_import():
    assert find_foreign_module("never_imported.by_this:Maze-v0") == "never_imported.by_this"
    for known in (
        "CartPole-v1",
        "oda_rl.envs:oda_rl/Catch-v0",
        "minigrid:MiniGrid-Empty-5x5-v0",
        f"{__name__}:A-v0",
    ):
        assert find_foreign_module(known) is None

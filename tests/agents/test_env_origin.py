"""How the environment of a training differs from `gymnasium.make` of its id, and what follows."""

import io
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import wrappers
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecMonitor, VecNormalize

import oda_rl.envs  # noqa: F401
from oda_rl.agents import TwoTimescaleQ
from oda_rl.agents.distill import distill, shrink
from oda_rl.agents.explain import explain_policy
from oda_rl.agents.sb3 import saving
from oda_rl.agents.sb3.env_origin import EnvOrigin, find_environment, find_plain_id
from oda_rl.storage import ModelFileError

QUICK = {"warmup_steps": 200, "growth_steps": 600, "growth_cells": 5, "max_cells": 10}


def rescaled(env_id="MountainCar-v0", **kwargs):
    ends = np.float32(-1.0), np.float32(1.0)
    return wrappers.RescaleObservation(gym.make(env_id, **kwargs), *ends)


def reloaded(model):
    file = io.BytesIO()
    model.save(file)
    file.seek(0)
    return type(model).load(file)


@pytest.fixture
def registered():
    """The id of an environment whose function adds wrappers."""
    gym.register("Rescaled-v0", rescaled)
    yield "Rescaled-v0"
    gym.registry.pop("Rescaled-v0")


PLAIN = [
    lambda: "CartPole-v1",
    lambda: gym.make("CartPole-v1", render_mode="rgb_array"),
    lambda: wrappers.RecordEpisodeStatistics(Monitor(gym.make("CartPole-v1"))),
    lambda: wrappers.TimeLimit(gym.make("CartPole-v1"), 1000),  # the inner limit holds
    lambda: VecMonitor(make_vec_env("CartPole-v1", 2)),
    lambda: VecNormalize(make_vec_env("CartPole-v1", 1), norm_obs=False, norm_reward=False),
    lambda: gym.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync"),
    lambda: gym.make_vec("CartPole-v1", num_envs=2, vectorization_mode="vector_entry_point"),
]


@pytest.mark.parametrize("make", PLAIN)
def test_an_environment_that_its_id_makes_again(make):
    model = TwoTimescaleQ(env=make())
    assert model.env_origin == EnvOrigin()
    assert find_environment(model) == ("CartPole-v1", {})
    assert b"env_origin" not in saved(model)  # such files are as those of earlier versions


def saved(model):
    file = io.BytesIO()
    model.save(file)
    return np.load(io.BytesIO(file.getvalue()))["header.json"]


ARGUMENTS = [
    (lambda: gym.make("FrozenLake-v1", is_slippery=False), {"is_slippery": False}),
    (lambda: gym.make("FrozenLake-v1", desc=["SF", "FG"]), {"desc": ["SF", "FG"]}),
    (lambda: gym.make("CartPole-v1", max_episode_steps=50), {"max_episode_steps": 50}),
    (lambda: wrappers.TimeLimit(gym.make("oda_rl/CartPole-v1"), 50), {"max_episode_steps": 50}),
    (lambda: gym.make("CartPole-v1").unwrapped, {"max_episode_steps": -1}),
    (lambda: gym.make_vec("CartPole-v1", 2, sutton_barto_reward=True), {"sutton_barto_reward": True}),
]


@pytest.mark.parametrize(("make", "kwargs"), ARGUMENTS)
def test_keyword_arguments_are_stored(make, kwargs):
    model = TwoTimescaleQ(env=make())
    assert model.env_origin == EnvOrigin(kwargs)
    again = reloaded(model)
    assert again.env_origin == model.env_origin
    assert find_environment(again) == (model.env_id, kwargs)
    assert again.observation_names == TwoTimescaleQ(env=model.env_id).observation_names


CHANGES = [
    (rescaled, ("RescaleObservation", "observations")),
    (
        lambda: wrappers.RescaleAction(gym.make("MountainCarContinuous-v0"), -2.0, 2.0),
        ("RescaleAction", "actions"),
    ),
    (lambda: wrappers.NormalizeReward(gym.make("MountainCar-v0")), ("NormalizeReward", "rewards")),
    (lambda: VecNormalize(make_vec_env("MountainCar-v0", 1)), ("VecNormalize", "observations")),
    (lambda: VecFrameStack(make_vec_env("MountainCar-v0", 1), 2), ("VecFrameStack", "observations")),
    (
        lambda: wrappers.vector.NormalizeObservation(gym.make_vec("MountainCar-v0", 2)),
        ("NormalizeObservation", "observations"),
    ),
    (
        lambda: gym.make("FrozenLake-v1", desc=np.array([["S", "F"], ["F", "G"]])),
        ("the keyword argument desc", "dynamics"),
    ),
    (
        lambda: DummyVecEnv(
            [lambda: gym.make("FrozenLake-v1"), lambda: gym.make("FrozenLake-v1", is_slippery=False)]
        ),
        ("environments that differ from each other", "dynamics"),
    ),
]


@pytest.mark.parametrize(("make", "change"), CHANGES)
def test_other_changes_are_named(make, change):
    model = reloaded(TwoTimescaleQ(env=make()))
    assert model.env_origin.changes == (change,)
    with pytest.raises(ValueError, match=f"with {change[0]}; {change[0]} cannot be restored"):
        find_environment(model)
    if change[1] == "rewards":
        assert find_environment(model, exactly=False) == (model.env_id, {})


def test_a_registered_function_that_adds_wrappers_makes_a_plain_environment(registered):
    for env in (registered, gym.make(registered), make_vec_env(registered, 2)):
        model = TwoTimescaleQ(env=env)
        assert (model.env_id, model.env_origin) == (registered, EnvOrigin())
    more = TwoTimescaleQ(env=wrappers.TimeAwareObservation(gym.make(registered)))
    assert more.env_origin.changes == (("TimeAwareObservation", "observations"),)


def test_names_of_changed_observations_have_no_units():
    changed = wrappers.TransformObservation(gym.make("MountainCar-v0"), lambda x: 2.0 * x, None)
    table = explain_policy(TwoTimescaleQ(env=changed, seed=0, **QUICK).learn(800))
    assert table.feature_names == ["observation[0]", "observation[1]"]
    assert table.action_names == ["push left", "coast", "push right"]
    for kept in (VecNormalize(make_vec_env("MountainCar-v0", 1), norm_obs=normal) for normal in (0, 1)):
        assert TwoTimescaleQ(env=kept).observation_names == ["position", "velocity"]


def test_the_environment_that_was_learned_from_last_is_stored():
    model = TwoTimescaleQ(env="FrozenLake-v1", seed=0)
    model.set_env(gym.make("FrozenLake-v1", is_slippery=False))
    assert model.env_origin == EnvOrigin()
    model.learn(50)
    assert reloaded(model).env_origin == EnvOrigin({"is_slippery": False})
    model.set_env("FrozenLake-v1")
    assert model.learn(50).env_origin == EnvOrigin()


def test_a_file_with_other_values_is_refused():
    model = TwoTimescaleQ(env="CartPole-v1")
    for origin in (
        EnvOrigin({"a": np.zeros(2)}),
        EnvOrigin({}, (("Wrapper", "nothing"),)),
        EnvOrigin({"a": [[[[[1]]]]]}),
    ):
        model.env_origin = origin
        with pytest.raises(ModelFileError, match="env_origin"):
            reloaded(model)


@pytest.mark.parametrize(
    "env_id", ["a b", '"""\nimport os\n""":CartPole-v1', "*/ int i; /*:CartPole-v1"]
)
def test_a_file_with_a_malformed_id_is_neither_read_nor_written(env_id, monkeypatch):
    model = TwoTimescaleQ(env="CartPole-v1")
    model.env_id = env_id
    with pytest.raises(ValueError, match="env_id must be an id of Gymnasium, or module:id, got"):
        reloaded(model)
    monkeypatch.setattr(saving, "is_env_id", lambda text: True)
    with pytest.raises(
        ModelFileError, match=r"'env_id' is .*; expected None or an id of Gymnasium, or module:id"
    ):
        reloaded(model)


def test_no_module_is_imported_because_a_file_names_it():
    model = TwoTimescaleQ(env="CartPole-v1")
    for module in ("oda_rl.envs", "json"):  # known, and imported already
        model.env_id = f"{module}:CartPole-v1"
        assert find_environment(reloaded(model)) == (model.env_id, {})
        assert find_plain_id(model, "env") == model.env_id
    model.env_id = "never_imported:CartPole-v1"
    for asked in (find_environment, partial(find_plain_id, name="env"), partial(shrink, rounds=1)):
        with pytest.raises(
            ValueError, match=r"CartPole-v1, whose module never_imported is not imported"
        ):
            asked(reloaded(model))


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: gym.make("FrozenLake-v1", map_name="8x8"), r"FrozenLake-v1\(map_name='8x8'\)"),
        (lambda: wrappers.TimeAwareObservation(gym.make("CartPole-v1")), "with TimeAwareObservation"),
        (lambda: wrappers.TransformReward(gym.make("CartPole-v1"), abs), "with TransformReward"),
    ],
)
def test_no_copies_are_made_of_an_environment_that_its_id_does_not_make_again(make, what):
    with pytest.raises(ValueError, match=f"env must be the id of a registered environment.* {what}"):
        distill(lambda observation: 0, make(), rounds=1)
    with pytest.raises(ValueError, match=f"env must be the id of a registered environment.* {what}"):
        shrink(lambda observation: 0, make(), rounds=1)


def test_an_agent_is_not_shrunk_in_another_environment_than_its_own():
    teacher = TwoTimescaleQ(env=gym.make("FrozenLake-v1", is_slippery=False))
    with pytest.raises(ValueError, match=r"env must be the id .* FrozenLake-v1.is_slippery=False"):
        shrink(teacher, rounds=1)

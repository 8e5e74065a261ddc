"""Going on from a file, exactly."""

import copy
import inspect
import io
import json
import pickle
from contextlib import suppress

import gymnasium as gym
import numpy as np
import pytest
from environments import IdentityEnv, SpacesEnv, StatesEnv
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback, CheckpointCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import DummyVecEnv

import oda_rl.agents as agents
from oda_rl.agents import TileCodingSarsa, TwoTimescaleAC, TwoTimescaleQ, UniformGridQ
from oda_rl.agents.codebook_rl.state import NOWHERE
from oda_rl.agents.learner import DivergenceError
from oda_rl.storage import ModelFileError

SMALL = {
    "growth_steps": 600,
    "growth_cells": 10,
    "max_cells": 25,
    "warmup_steps": 200,
    "samples_per_cell": 8,
}
TREE = {**SMALL, "tree": True, "growth_cells": 40, "max_cells": 80}
# oda_rl/CartPole-v1 is compiled; of Gymnasium's classic control the state is known, too
CASES = [
    (TwoTimescaleQ, SMALL, "oda_rl/CartPole-v1", 1, 1400),
    (TwoTimescaleQ, SMALL, "oda_rl/Pendulum-v1", 1, 1400),
    (TwoTimescaleQ, {**SMALL, "codebook": "per_action"}, "oda_rl/CartPole-v1", 3, 150),
    (TwoTimescaleQ, TREE, "oda_rl/MountainCar-v0", 1, 2000),
    (TwoTimescaleQ, {**SMALL, "bifurcation": "perturb"}, "CartPole-v1", 1, 1000),
    (TwoTimescaleAC, SMALL, "oda_rl/Acrobot-v1", 1, 120),
    (TwoTimescaleAC, TREE, "oda_rl/CartPole-v1", 3, 1700),
    # in the second episode of a warm-up, whose returns count
    (TwoTimescaleAC, {"warmup_steps": 500}, "oda_rl/Pendulum-v1", 1, 350),
    (TwoTimescaleAC, SMALL, "oda_rl/MountainCar-v0", 2, 2000),  # holds actions, and goes on to do so
    (TwoTimescaleQ, SMALL, "MountainCarContinuous-v0", 1, 1500),
    *((TwoTimescaleQ, {}, env_id, 1, 703) for env_id in ("FrozenLake-v1", "Taxi", "CliffWalking")),
    (UniformGridQ, {}, "Blackjack-v1", 2, 700),
    (UniformGridQ, {}, "oda_rl/CartPole-v1", 1, 700),
    (agents.SOMQ, {"n_cells": 30}, "Acrobot-v1", 1, 1200),
    (agents.TileCodingSarsa, {"learning_rate_by": "visits"}, "oda_rl/CartPole-v1", 1, 1500),
    (agents.FourierSarsa, {"order": 2}, "MountainCar-v0", 2, 1300),
    (agents.KernelQ, {"warmup_steps": 200, "max_points": 20}, "oda_rl/CartPole-v1", 1, 405),
]


def to_bytes(model):
    file = io.BytesIO()
    model.save(file)
    return file.getvalue()


def from_bytes(model, content, env=None, **options):
    return type(model).load(io.BytesIO(content), env=env, **options)


def make_env(env_id, n_envs):
    return make_vec_env(env_id, n_envs, seed=3) if n_envs > 1 else env_id


@pytest.mark.parametrize(("kind", "options", "env_id", "n_envs", "cut"), CASES)
def test_a_training_cut_in_two_is_the_training(kind, options, env_id, n_envs, cut):
    def begin():
        return kind(env=make_env(env_id, n_envs), seed=1, **options)

    whole = begin().learn(cut + 1_000)
    first = begin().learn(cut, planned_timesteps=cut + 1_000)
    stored = to_bytes(first)
    second = from_bytes(first, stored, make_env(env_id, n_envs))
    assert to_bytes(second) == stored
    for model in (first, second):  # in the process, and from the file
        model.learn(model.remaining_timesteps, reset_num_timesteps=False)
        assert to_bytes(model) == to_bytes(whole)


def test_a_model_and_its_file(tmp_path):
    model = TwoTimescaleQ(env="CartPole-v1", seed=0, **SMALL).learn(5_000)
    model.save(tmp_path / "model")
    loaded = TwoTimescaleQ.load(tmp_path / "model")
    observations = np.random.default_rng(0).uniform(-1, 1, (1000, 4)).astype(np.float32)
    expected, _ = model.predict(observations, deterministic=True)
    np.testing.assert_array_equal(loaded.predict(observations, deterministic=True)[0], expected)
    assert len(set(expected.tolist())) == 2
    for name in ("num_timesteps", "seed", "config", "observation_space", "action_space"):
        assert getattr(loaded, name) == getattr(model, name)
    with pytest.raises(ValueError, match="Observation spaces do not match"):
        TwoTimescaleQ.load(tmp_path / "model", env="Acrobot-v1")
    with np.load(tmp_path / "model.npz", allow_pickle=False) as content:
        assert json.loads(content["header.json"])["kind"] == "TwoTimescaleQ"
        arrays = [content[name] for name in content.files if name != "header.json"]
        assert all(array.dtype.kind in "fiub" for array in arrays)


def test_a_full_cartpole_model_is_small():
    model = TwoTimescaleQ(env="oda_rl/CartPole-v1", seed=0, growth_cells=125, samples_per_cell=5)
    model.learn(12_000)
    assert model.n_cells == 125
    assert len(to_bytes(model)) < 42_000, "values and traces of 125 cells"


def test_saving_in_the_middle_changes_nothing(tmp_path):
    def make():
        return TwoTimescaleAC(env="oda_rl/CartPole-v1", seed=1, **SMALL)

    saved = make().learn(2_500, callback=CheckpointCallback(700, str(tmp_path), "model"))
    assert to_bytes(saved) == to_bytes(make().learn(2_500))
    # SB3's callback calls it .zip, and users leave that out
    for name in ("model_1400_steps", "model_1400_steps.zip", "model_1400_steps.npz"):
        model = TwoTimescaleAC.load(tmp_path / name, env="oda_rl/CartPole-v1")
    assert model.remaining_timesteps == 1_100
    model.learn(1_100, reset_num_timesteps=False)
    assert to_bytes(model) == to_bytes(saved)


def test_a_training_that_is_stopped_goes_on():
    class Stop(BaseCallback):
        def _on_step(self):
            if self.num_timesteps == 1_000:
                self.model.stop()
            return True

    whole = UniformGridQ(env="oda_rl/CartPole-v1", seed=0).learn(3_000)
    model = UniformGridQ(env="oda_rl/CartPole-v1", seed=0).learn(3_000, callback=Stop())
    assert model.num_timesteps == 1_000
    model.learn(model.remaining_timesteps, reset_num_timesteps=False)
    assert to_bytes(model) == to_bytes(whole)


def test_two_models_of_a_file_go_on_alike():
    """Of another environment the episode cannot be gone on with, but its random stream can."""
    model = TwoTimescaleQ(env=IdentityEnv(), seed=None, **SMALL).learn(1_500)
    stored, files = to_bytes(model), []
    for seed in (None, None, 5):
        options = {} if seed is None else {"seed": seed}
        one = from_bytes(model, stored, IdentityEnv(), **options)
        assert one._last_obs is None, "it has to be reset"
        drawn = one.predict(np.zeros((50, 1), np.float32))[0]
        one.learn(1_000, reset_num_timesteps=False)
        files.append((drawn.tolist(), to_bytes(one)))
    assert files[0] == files[1]
    assert files[0][1] != files[2][1]


def test_the_environment_may_be_given_later_be_another_or_be_more():
    model = UniformGridQ(env="oda_rl/CartPole-v1", seed=0).learn(1_500)
    stored = to_bytes(model)
    later = from_bytes(model, stored)
    assert to_bytes(later) == stored, "nothing is lost without an environment"
    later.set_env(gym.make("oda_rl/CartPole-v1"))
    again = from_bytes(model, stored, "oda_rl/CartPole-v1", force_reset=True)
    for one in (model, later, again):
        one.learn(1_000, reset_num_timesteps=False)
    assert to_bytes(later) == to_bytes(model) != to_bytes(again)
    more = from_bytes(model, stored, make_vec_env("oda_rl/CartPole-v1", 3, seed=0))
    np.testing.assert_array_equal(more.learner.weights, from_bytes(model, stored).learner.weights)
    assert more.learn(999).num_timesteps == 999


def test_another_number_of_environments_keeps_what_steps_still_owe():
    model = TwoTimescaleQ(env="oda_rl/CartPole-v1", seed=0, **TREE).learn(2_400)
    more = from_bytes(model, to_bytes(model), make_vec_env("oda_rl/CartPole-v1", 2, seed=0))
    np.testing.assert_array_equal(more.learner.q_values, model.learner.q_values)


def test_hyperparameters_change_where_they_can():
    model = TwoTimescaleQ(env="oda_rl/CartPole-v1", seed=0, **SMALL).learn(2_000)
    stored = to_bytes(model)
    other = from_bytes(model, stored, gamma=0.5, max_cells=60, verbose=0)
    assert (other.gamma, other.max_cells) == (0.5, 60)
    np.testing.assert_array_equal(other.learner.q_values, model.learner.q_values)
    other.set_env(gym.make("oda_rl/CartPole-v1"))
    assert other.learn(20_000, reset_num_timesteps=False).n_cells > 25
    for options, message in [
        ({"growth_cells": 2}, "growth_cells cannot be changed once values are learned"),
        ({"local_model": "constant"}, "local_model cannot be changed once the model has been created"),
        ({"max_cells": 10}, "max_cells must be at least"),
        ({"gamma": 2}, r"gamma must be a number in \[0, 1\) or None, got 2"),
    ]:
        with pytest.raises(ValueError, match=message):
            from_bytes(model, stored, **options)
    with pytest.raises(TypeError, match="no hyperparameter 'gama'"):
        from_bytes(model, stored, gama=0.5)


@pytest.mark.parametrize(
    "place",
    [
        *("memory/reach", "memory/total", "memory/told", "memory/lost", "memory/noise"),
        *("warm_up/coarse", "warm_up/steps", "figures"),
    ],
)
def test_a_file_without_an_entry_is_refused(place, monkeypatch):
    model = TwoTimescaleAC(env="oda_rl/Pendulum-v1", seed=0, **SMALL).learn(1_000)
    learned = model.learner.get_state()
    *around, name = place.split("/")
    del (learned[around[0]] if around else learned)[name]
    monkeypatch.setattr(model.learner, "get_state", lambda: learned)
    with pytest.raises(ModelFileError, match=f"'learner/{place}' is missing"):
        from_bytes(model, to_bytes(model))


def test_a_file_without_a_hyperparameter_or_a_figure_is_refused(monkeypatch):
    model = TwoTimescaleAC(env="oda_rl/Pendulum-v1", seed=0, **SMALL).learn(1_000)
    known, learned = model.config.to_dict(), model.learner.get_state()
    shorter = {**learned, "figures": learned["figures"][:-1]}
    with monkeypatch.context() as patch:
        patch.setattr(model.learner, "get_state", lambda: shorter)
        content = to_bytes(model)
    with pytest.raises(ModelFileError, match="figures"):
        from_bytes(model, content)
    del known["gamma_halving"]
    monkeypatch.setattr(type(model.config), "to_dict", lambda config: known)
    content = to_bytes(model)
    monkeypatch.undo()
    with pytest.raises(ModelFileError, match="'hyperparameters/gamma_halving' is missing"):
        from_bytes(model, content)


def test_attributes_of_sb3_can_be_read_and_set_by_callbacks():
    class Change(BaseCallback):
        def _on_step(self):
            if self.num_timesteps == 2_000:
                self.model.gamma, self.model.learning_rate = 0.9, 0.02
            return True

    model = TwoTimescaleQ(env="oda_rl/CartPole-v1", seed=0, **SMALL)
    assert (model.gamma, model.learning_rate, model.exploration_rate) == (0.99, 0.1, 1.0)
    rates = model.learn(2_000).learner.codebook["rate"].copy()
    changed = TwoTimescaleQ(env="oda_rl/CartPole-v1", seed=0, **SMALL)
    changed.learn(2_000, callback=Change())
    assert (changed.gamma, changed.config.gamma, changed.exploration_rate < 1.0) == (0.9, 0.9, True)
    np.testing.assert_allclose(changed.learner.codebook["rate"], 0.2 * rates)
    assert from_bytes(changed, to_bytes(changed)).gamma == 0.9
    with pytest.raises(ValueError, match="gamma must be a number"):
        model.gamma = "high"
    with pytest.raises(ValueError, match="optimism cannot be changed once values are learned"):
        model.optimism = 2.0
    told = (
        r"exploration_rate of \w+ cannot be set: .*; it follows the hyperparameters of the exploration"
    )
    with pytest.raises(AttributeError, match=told):
        model.exploration_rate = 0.5


def test_repr_is_one_line():
    model = UniformGridQ(env="oda_rl/CartPole-v1", seed=0, bins=2).learn(100)
    assert repr(model) == (
        "UniformGridQ(env='oda_rl/CartPole-v1', n_cells=16, num_timesteps=100, gamma=0.99, "
        "learning_rate=0.1, bins=2)"
    )
    assert "LinearLearner, n_cells=16" in repr(model.policy)
    table = spaces.Box(0.0, np.arange(1.0, 5.0).reshape(2, 2), dtype=np.float64)
    model.policy.observation_space = table
    assert repr(model.policy).endswith("Box(0.0, [[1. 2.] [3. 4.]], (2, 2), float64) -> Discrete(2))")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"total_timesteps": "many"}, "total_timesteps must be an integer of at least 0, got 'many'"),
        ({"total_timesteps": float("nan")}, "total_timesteps"),
        ({"total_timesteps": -1}, "total_timesteps"),
        ({"total_timesteps": 10, "log_interval": 0}, "log_interval"),
        ({"total_timesteps": 10, "callback_every": 2.5}, "callback_every"),
        ({"total_timesteps": 10, "planned_timesteps": None, "log_interval": "4"}, "log_interval"),
    ],
)
def test_counts_are_checked_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        UniformGridQ(env="oda_rl/CartPole-v1").learn(**arguments)


@pytest.mark.parametrize("seed", ["4", -1, 0.5, float("nan"), [1]])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises(ValueError, match="seed must be an integer of at least 0, got"):
        UniformGridQ(env="CartPole-v1", seed=seed)
    assert UniformGridQ(env="CartPole-v1", seed=np.int64(4)).seed == 4


def test_the_window_of_episodes_is_checked_by_name():
    with pytest.raises(ValueError, match="stats_window_size must be an integer of at least 0, got -1"):
        UniformGridQ(env="CartPole-v1", stats_window_size=-1)


def test_counts_may_be_whole_floats():
    model = UniformGridQ(env="oda_rl/CartPole-v1", seed=0)
    model.learn(1e3, planned_timesteps=3e3, log_interval=2.0)
    loaded = from_bytes(model, to_bytes(model))
    assert type(loaded.remaining_timesteps) is int
    assert loaded.remaining_timesteps == 2_000


def test_kernel_q_keeps_its_last_good_state_after_a_divergence():
    model = agents.KernelQ(env=IdentityEnv(), seed=0, warmup_steps=100).learn(500)
    points = model.learner.dictionary.copy()
    model.set_env(_Rich())
    with pytest.raises(DivergenceError):
        model.learn(500)
    stored = to_bytes(model)
    np.testing.assert_array_equal(model.learner.dictionary, points)
    for one in (model, from_bytes(model, stored, IdentityEnv())):
        one.set_env(IdentityEnv())
        assert one.learn(200).num_timesteps == 200


class _Rich(IdentityEnv):
    """Pays far too much."""

    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, 1e12, *rest


@pytest.mark.parametrize("kind", [TwoTimescaleAC, UniformGridQ])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int8, np.bool_, np.float16])
def test_boxes_of_any_dtype_are_stored(kind, dtype, tmp_path):
    env = SpacesEnv(spaces.Box(0, 1, (3,), dtype), spaces.Discrete(2))
    model = kind(env=env, seed=0).learn(150)
    model.save(tmp_path / "model")
    loaded = kind.load(tmp_path / "model", env=env)
    assert loaded.observation_space == env.observation_space
    np.testing.assert_equal(loaded.learner.get_state(), model.learner.get_state())


# Gymnasium 1.1 has `Discrete` of one dtype alone
SHORT = {"dtype": np.int8} if "dtype" in inspect.signature(spaces.Discrete).parameters else {}


@pytest.mark.parametrize(
    "space",
    [
        spaces.MultiDiscrete([3, 4], np.int32),
        spaces.Discrete(5, **SHORT),
        spaces.Discrete(3, start=-(2**40)),
    ],
    ids=str,
)
@pytest.mark.parametrize("of", ["observations", "actions"])
def test_discrete_spaces_of_any_dtype_are_stored(space, of, tmp_path):
    other = spaces.Discrete(2)
    env = SpacesEnv(space, other) if of == "observations" else SpacesEnv(other, space)
    TwoTimescaleQ(env=DummyVecEnv([lambda: env, lambda: copy.copy(env)]), seed=0).learn(50)
    TwoTimescaleQ(env=env, seed=0).learn(50).save(tmp_path / "model")
    TwoTimescaleQ.load(tmp_path / "model", env=env).learn(50, reset_num_timesteps=False)


class _Sentinels(SpacesEnv):
    """Tells 1e38 for what is unknown, later on; pays what is asked for."""

    def __init__(self, space, reward):
        super().__init__(space, spaces.Discrete(2))
        self.reward, self.steps = reward, 0

    def step(self, action):
        observation, _, *rest = super().step(action)
        self.steps += 1
        if self.steps > 1500 and self.steps % 3 == 0 and isinstance(self.observation_space, spaces.Box):
            observation[1] = 1e38
        return observation, self.reward * np.sin(self.steps), *rest


@pytest.mark.parametrize("reward", [1.0, 1e24, 1e300])
@pytest.mark.parametrize("space", [spaces.Box(-1.0, 1.0, (2,)), spaces.Discrete(5)], ids=str)
def test_what_was_learned_from_the_largest_numbers_can_be_stored(space, reward, tmp_path):
    brief = {"warmup_steps": 300, "growth_steps": 600, "max_cells": 25, "growth_cells": 10}
    for kind, options in ((TwoTimescaleAC, brief), (TwoTimescaleQ, brief), (TileCodingSarsa, {})):
        model = kind(env=_Sentinels(space, reward), seed=0, **options)
        with suppress(DivergenceError):
            model.learn(6000)
        model.save(tmp_path / "model")
        seen = space.sample()
        loaded = kind.load(tmp_path / "model")
        assert loaded.predict(seen, deterministic=True) == model.predict(seen, deterministic=True)


EXTREMES = [
    (TwoTimescaleAC, {"learning_rate": 1.0, "learning_rate_power": 0.0}),
    (TwoTimescaleQ, {"learning_rate_min": 1.0, "learning_rate_by": "global"}),
    (TwoTimescaleAC, {"slow_every": np.inf}),
    (TwoTimescaleQ, {"slow_every": np.inf, "optimism": 1e6}),
    (TwoTimescaleAC, {"perturbation": 5.0, "bifurcation": "perturb", "cooling": 0.98}),
    (TwoTimescaleQ, {"perturbation": 5.0, "bifurcation": "perturb", "min_temperature": 1e-40}),
]


@pytest.mark.parametrize(("kind", "options"), EXTREMES)
def test_what_was_learned_with_extreme_hyperparameters_can_be_stored(kind, options):
    model = kind(env="oda_rl/CartPole-v1", seed=0, **SMALL, **options).learn(4_000)
    content = to_bytes(model)
    assert to_bytes(kind.load(io.BytesIO(content), env="oda_rl/CartPole-v1")) == content


class _Still(SpacesEnv):
    """Hardly ever moves."""

    def step(self, action):
        observation, *rest = super().step(action)
        return 0.01 * observation, *rest


def test_long_traces_can_be_stored(tmp_path):
    env = _Still(spaces.Box(-1.0, 1.0, (2,)), spaces.Discrete(2))
    model = TwoTimescaleAC(env=env, seed=0, trace_decay=0.99, **SMALL).learn(6900)
    while model.learner.memory.trace_scale[0] > 1.3e-60:
        model.learn(10, reset_num_timesteps=False)
    assert np.abs(model.learner.slow.codebook.payload).max() > NOWHERE
    model.save(tmp_path / "model")
    assert to_bytes(TwoTimescaleAC.load(tmp_path / "model")) == to_bytes(model)


def test_parts_of_observations_may_have_any_name(tmp_path):
    names = ("is there?", "", "a/b", "a")
    space = spaces.Dict({name: spaces.Box(-1.0, 1.0, (2,)) for name in names})
    model = TwoTimescaleAC(env=SpacesEnv(space, spaces.Discrete(2)), seed=0).learn(50)
    model.save(tmp_path / "model")
    assert TwoTimescaleAC.load(tmp_path / "model").observation_space == space


@pytest.mark.parametrize(
    ("pos", "goal"),
    [
        (spaces.Box(-1.0, 1.0, (1,)), spaces.Box(-9.0, 9.0, (2,))),
        (spaces.Discrete(3), spaces.Discrete(2)),
        (spaces.Box(-1.0, 1.0, (1,)), spaces.Box(0, 255, (24, 24), np.uint8)),
    ],
    ids=["numbers", "table", "image"],
)
def test_parts_of_observations_keep_their_order(pos, goal):
    def make(**parts):  # Gymnasium keeps the order of keyword arguments, but sorts a dictionary
        space = spaces.Dict(**parts)
        return StatesEnv(space, lambda state: int(np.ravel(state["pos"])[0] > 0), n_actions=2)

    def answers(model):
        chosen = [model.predict(one, deterministic=True)[0] for one in samples]
        rows = [model.observations.encode(one).tolist() for one in samples]
        return list(model.observation_space), list(map(int, chosen)), rows

    model = TwoTimescaleQ(env=make(pos=pos, goal=goal), seed=0, **SMALL).learn(1_500)
    samples = [model.observation_space.sample() for _ in range(100)]
    expected = answers(model)
    assert expected[0] == ["pos", "goal"]
    taken = TwoTimescaleQ(env=make(goal=goal, pos=pos), seed=1, **SMALL)
    taken.set_parameters(model.get_parameters())
    for env in (None, make(pos=pos, goal=goal), make(goal=goal, pos=pos)):
        loaded = from_bytes(model, to_bytes(model), env)
        assert answers(loaded) == answers(taken) == expected
    for other in (loaded, taken):  # both in environments of the other order
        other.learn(100, reset_num_timesteps=False)
        assert to_bytes(from_bytes(other, to_bytes(other))) == to_bytes(other)


def test_learning_nothing_leaves_a_model_that_can_be_stored(tmp_path):
    model = TwoTimescaleAC(env="CartPole-v1", seed=0, **SMALL).learn(300).learn(0)
    model.save(tmp_path / "model")
    assert to_bytes(TwoTimescaleAC.load(tmp_path / "model", env="CartPole-v1")) == to_bytes(model)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
@pytest.mark.parametrize("of", ["verbose", "tensorboard_log", "set_logger"])
def test_a_copy_of_a_model_that_logs_goes_on(of, duplicate, tmp_path, capsys):
    options = {"verbose": 1} if of == "verbose" else {}
    options |= {"tensorboard_log": str(tmp_path)} if of == "tensorboard_log" else {}
    model = TwoTimescaleQ(env="CartPole-v1", seed=0, **SMALL, **options)
    if of == "set_logger":
        model.set_logger(configure(str(tmp_path), ["csv"]))
    twin = duplicate(model.learn(500))
    for one in (model, twin):
        one.learn(1_500, reset_num_timesteps=False)
    assert to_bytes(twin) == to_bytes(model)


@pytest.mark.parametrize("path", [3, None, b"model.npz"])
def test_a_path_is_a_path(path):
    with pytest.raises(TypeError, match=r"path must be a str, a path or a binary file, got"):
        TwoTimescaleAC(env="CartPole-v1").save(path)
    with pytest.raises(TypeError, match=r"path must be a str, a path or a binary file, got"):
        TwoTimescaleAC.load(path)


def test_the_module_that_registers_an_environment_is_remembered(tmp_path):
    env_id = "oda_rl.envs:oda_rl/Catch-v0"
    model = TwoTimescaleQ(env=env_id, seed=0).learn(10)
    assert model.env_id == env_id
    model.save(tmp_path / "model")
    assert TwoTimescaleQ.load(tmp_path / "model").env_id == env_id
    assert TwoTimescaleQ(env="CartPole-v1").env_id == "CartPole-v1"

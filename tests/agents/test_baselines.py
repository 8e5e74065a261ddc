"""The baselines as agents: they learn, repeat themselves, and survive being written to a file."""

import io
import json

import gymnasium as gym
import numpy as np
import pytest
from environments import BrokenEnv, SpacesEnv, corridor_env, identity_env
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

import oda_rl.envs  # noqa: F401
from oda_rl.agents import SOMQ, BadTransitionError, FourierSarsa, KernelQ, TileCodingSarsa, UniformGridQ
from oda_rl.agents.callbacks import CodebookCallback, KeepBestCallback

ALL = [UniformGridQ, SOMQ, TileCodingSarsa, FourierSarsa]
each = pytest.mark.parametrize("kind", ALL)
TASKS = ["oda_rl/CartPole-v1", "oda_rl/MountainCar-v0", "oda_rl/Acrobot-v1"]


def make_model(kind, env="CartPole-v1", seed=0, **options):
    if env in ("oda_rl/Acrobot-v1",):
        options = {"angles": ((0, 1), (2, 3)), **options}
    return kind(env=env, seed=seed, **{"warmup_steps": 300, **options})


def assert_same_learning(first, second):
    np.testing.assert_equal(first.learner.get_state(), second.learner.get_state())


@each
@pytest.mark.parametrize("start", [0, -2])
def test_identity(kind, start):
    model = make_model(kind, identity_env(start=start), gamma=0.5).learn(6_000)
    assert isinstance(model, BaseAlgorithm)
    assert evaluate_policy(model, Monitor(identity_env(start=start)), 10)[0] > 17.0


@each
def test_corridor(kind):
    model = make_model(kind, corridor_env(), initial_value=0.0, exploration_initial_eps=0.5)
    model.learn(8_000)
    assert evaluate_policy(model, Monitor(corridor_env()), 1)[0] == 1.0


@each
def test_same_seed_same_result(kind):
    first, second = (make_model(kind).learn(2_000) for _ in range(2))
    assert_same_learning(first, second)
    other = make_model(kind, seed=1).learn(2_000)
    assert not np.array_equal(first.learner.weights, other.learner.weights)


@each
@pytest.mark.parametrize("task", TASKS)
def test_compiled_loop_is_the_loop_in_python(kind, task):
    """Past the warm-up, blocks of random numbers, and starts of episodes."""
    options = {} if kind is FourierSarsa else {"learning_rate_by": "visits"}
    fused, stepped = (make_model(kind, task, **options) for _ in range(2))
    fused.learn(3_000)
    fused.learn(2_000, reset_num_timesteps=False)
    stepped.learn(3_000, callback_every=1)
    stepped.learn(2_000, callback_every=1, reset_num_timesteps=False)
    assert_same_learning(fused, stepped)
    one, other = fused.get_env().envs[0], stepped.get_env().envs[0]
    assert one.get_episode_rewards() == other.get_episode_rewards()
    np.testing.assert_array_equal(fused._last_obs, stepped._last_obs)


def test_same_as_on_gymnasiums_own_environment():
    fused = make_model(TileCodingSarsa, "oda_rl/CartPole-v1").learn(4_000)
    assert_same_learning(fused, make_model(TileCodingSarsa, "CartPole-v1").learn(4_000))


@each
@pytest.mark.parametrize("steps", [100, 3_000])
def test_save_and_load(tmp_path, kind, steps):
    options = {"map_steps": 1_000} if kind is SOMQ else {}
    model = make_model(kind, **options).learn(steps)
    model.save(tmp_path / "model")
    loaded = kind.load(tmp_path / "model", env="CartPole-v1")
    assert_same_learning(model, loaded)
    assert loaded.config == model.config
    assert loaded.n_parameters == model.n_parameters
    points = np.random.default_rng(0).uniform(-1, 1, (500, 4)).astype(np.float32)
    expected, _ = model.predict(points, deterministic=True)
    np.testing.assert_array_equal(loaded.predict(points, deterministic=True)[0], expected)
    loaded.learn(1_000, reset_num_timesteps=False)
    assert loaded.num_timesteps == steps + 1_000
    assert (loaded.learner.weights != model.learner.weights).any()


@each
def test_a_loaded_model_goes_on_as_the_saved_one_would(kind):
    """From where an episode begins: those under way are not in the file."""
    model = make_model(kind, "oda_rl/CartPole-v1").learn(2_000)
    file = io.BytesIO()
    model.save(file)
    file.seek(0)
    loaded = kind.load(file, env="oda_rl/CartPole-v1")
    for each_model in (model, loaded):
        each_model.get_env().seed(5)
        each_model.get_env().reset()
        each_model._last_obs = None
        each_model.learn(2_000)
    assert_same_learning(model, loaded)


def test_a_file_holds_plain_arrays_and_the_kind(tmp_path):
    make_model(UniformGridQ).learn(1_000).save(tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz", allow_pickle=False) as content:
        assert json.loads(content["header.json"])["kind"] == "UniformGridQ"
        arrays = [content[name] for name in content.files if name != "header.json"]
        assert all(array.dtype.kind in "fiub" for array in arrays)
    with pytest.raises(ValueError, match="contains a UniformGridQ, not a SOMQ"):
        SOMQ.load(tmp_path / "model.npz")


@each
def test_several_environments_and_callbacks(tmp_path, kind):
    model = make_model(kind, make_vec_env("CartPole-v1", 3, seed=0))
    callback = EvalCallback(make_vec_env("CartPole-v1", 1), n_eval_episodes=1, eval_freq=300, verbose=0)
    model.learn(2_000, callback=callback)
    assert callback.last_mean_reward > 0
    model.save(tmp_path / "model.npz")
    loaded = kind.load(tmp_path / "model.npz", env="CartPole-v1")
    loaded.learn(500, reset_num_timesteps=False)


@each
def test_the_agents_own_callbacks(kind):
    best = KeepBestCallback(Monitor(gym.make("oda_rl/CartPole-v1")), n_eval_episodes=2, eval_freq=500)
    model = make_model(kind, "oda_rl/CartPole-v1")
    model.learn(3_000, callback=[CodebookCallback(), best], callback_every=500)
    assert best.best_mean_reward > 0
    model.learn(500, reset_num_timesteps=False)


@each
def test_sizes(kind):
    model = make_model(kind).learn(1_000)
    location = model.learner.features.location.size if kind is SOMQ else 0
    assert model.n_parameters == model.n_cells * 2 + location + 2 * 4
    assert model.learner.weights.shape == (model.n_cells, 2)
    assert (model.learner._weights.weight != model.learner._initial_weights()).any()
    figures = model.learner.figures()
    assert 700 <= figures["train/n_updates"] < 750, "starts of episodes count in the warm-up"
    assert 0.0 < figures["train/learning_rate"] <= model.config.learning_rate
    assert 0.0 <= figures["rollout/exploration_rate"] <= 0.1


def test_centres_of_cells_are_in_the_units_of_the_environment():
    model = make_model(UniformGridQ, "MountainCar-v0", bins=(2, 3)).learn(400)
    cells = model.learner.codevectors
    np.testing.assert_allclose(cells[0], [-0.75, -0.07 * 2 / 3], rtol=1e-5)
    np.testing.assert_allclose(cells[-1], [0.15, 0.07 * 2 / 3], rtol=1e-5)
    actions, _ = model.predict(cells.astype(np.float32), deterministic=True)
    np.testing.assert_array_equal(actions, model.learner.weights.argmax(axis=1))


@each
@pytest.mark.parametrize("at", [50, 1_000])
@pytest.mark.parametrize("nonsense", [{"observation": np.nan}, {"reward": np.inf}])
def test_nonsense_from_the_environment(kind, at, nonsense):
    model = make_model(kind, BrokenEnv(at, **nonsense))
    for greedy in (True, False):  # also of what has learned nothing yet
        with pytest.raises(ValueError, match="NaN"):
            model.predict(np.array([np.nan]), deterministic=greedy)
    with pytest.raises(BadTransitionError, match=f"must be finite.*at step {at} of the training"):
        model.learn(2_000)
    assert np.isfinite(model.learner.weights).all()
    with pytest.raises(ValueError, match="NaN"):
        model.learn(2_000).predict(np.array([np.nan]), deterministic=True)


@each
def test_unknown_hyperparameters_and_policies(kind):
    with pytest.raises(TypeError, match="gama"):
        kind(env="CartPole-v1", gama=0.9)
    with pytest.raises(ValueError, match="LinearPolicy"):
        kind("MlpLstmPolicy", "CartPole-v1")


@pytest.mark.parametrize("kind", [UniformGridQ, SOMQ, TileCodingSarsa, FourierSarsa, KernelQ])
def test_a_coordinate_may_have_one_value_alone(kind, tmp_path):
    low, high = np.array([-1.0, 3.0]), np.array([1.0, 3.0])
    env = SpacesEnv(spaces.Box(low, high, dtype=np.float64), spaces.Discrete(2))
    model = kind(env=env, seed=0, warmup_steps=50).learn(100)
    assert np.isfinite(model.learner.action_values(np.array([[0.5, 3.0], [0.5, 3.1]]))).all()
    model.save(tmp_path / "model")
    kind.load(tmp_path / "model", env=env).learn(100, reset_num_timesteps=False)
    with pytest.raises(ValueError, match="observation_low must be below observation_high"):
        kind(env=env, observation_low=(-1.0, 2.0), observation_high=(1.0, 2.0))

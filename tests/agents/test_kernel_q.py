"""Kernel Q-learning: it learns, repeats itself, and survives being written to a file."""

import io

import gymnasium as gym
import numpy as np
import pytest
from environments import BrokenEnv, IdentityEnv, corridor_env
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

import oda_rl.envs  # noqa: F401
from oda_rl.agents import BadTransitionError, KernelQ
from oda_rl.agents.baselines import preset
from oda_rl.agents.models import load_model


def make_model(env="CartPole-v1", seed=0, **options):
    return KernelQ(env=env, seed=seed, **{"warmup_steps": 200, **options})


def assert_same_learning(first, second):
    np.testing.assert_equal(first.learner.get_state(), second.learner.get_state())


@pytest.mark.parametrize("start", [0, -2])
def test_identity(start):
    model = make_model(IdentityEnv(start=start), gamma=0.5).learn(4_000)
    assert isinstance(model, BaseAlgorithm)
    assert evaluate_policy(model, Monitor(IdentityEnv(start=start)), 10)[0] > 17.0


def test_corridor():
    """The reward comes at the end: values must travel."""
    env = corridor_env()
    check_env(env)
    model = make_model(env, exploration_initial_eps=0.5, bandwidth=0.1, parsimony=0.005).learn(4_000)
    assert evaluate_policy(model, Monitor(corridor_env()), 1)[0] == 1.0


def test_cart_pole_with_few_points():
    model = KernelQ(env="CartPole-v1", seed=100, **preset("KernelQ", "CartPole-v1")).learn(20_000)
    assert evaluate_policy(model, Monitor(gym.make("CartPole-v1")), 10)[0] > 450.0
    assert model.n_cells <= 300
    assert model.n_parameters == model.n_cells * 6 + 9
    assert len(set(model.bandwidth_history_)) > 1
    points = model.learner.dictionary
    assert points.shape == (model.n_cells, 4)
    assert np.abs(points[:, 2]).max() < 0.3  # radians, and not parts of the range


def test_the_bandwidth_stays_within_reach():
    """Rewards that are all the same ask for a kernel as wide as can be."""
    model = make_model("MountainCar-v0", reach=2.0, bandwidth=0.3).learn(3_000)
    assert 0.5 < model.bandwidth_history_.max() < 0.7
    assert model.bandwidth_history_.min() > 0.13


def test_the_chain_moves_at_random():
    """One move in ten goes the other way, unless moves are told to follow the error always."""

    def count_narrowed(**options):
        models = (make_model("MountainCar-v0", seed, **options).learn(2_000) for seed in range(3))
        return sum(int((np.diff(model.bandwidth_history_) < 0.0).sum()) for model in models)

    assert count_narrowed(move_probability=1.0) == 0 < count_narrowed()


def test_the_bandwidth_stays_if_told():
    model = make_model(adapt_bandwidth=False, bandwidth=0.4).learn(1_500)
    assert set(model.bandwidth_history_) == {0.4}


def test_values_are_those_of_the_expansion():
    model = make_model().learn(3_000)
    machine, looks = model.learner.machine, model.learner.range
    observation = np.array([[0.01, 0.2, -0.03, 0.4], [0.5, -0.2, 0.1, 0.0]], dtype=np.float32)
    scaled = (observation - looks.low) * looks.inverse
    square = ((scaled[:, None] - machine.points) ** 2).sum(-1)
    expected = np.exp(-square / (2 * machine.value_of("bandwidth") ** 2)) @ machine.weights
    np.testing.assert_allclose(model.learner.action_values(observation), expected)
    greedy, _ = model.predict(observation, deterministic=True)
    np.testing.assert_array_equal(greedy, expected.argmax(1))


def test_same_seed_same_result():
    first, second = (make_model().learn(2_000) for _ in range(2))
    assert_same_learning(first, second)
    other = make_model(seed=1).learn(2_000)
    assert not np.array_equal(first.bandwidth_history_, other.bandwidth_history_) or (
        first.n_cells != other.n_cells
    )


def test_any_environment_of_the_same_dynamics_gives_the_same():
    assert_same_learning(
        make_model("oda_rl/CartPole-v1").learn(2_000, callback_every=1000),
        make_model("oda_rl/CartPole-v1").learn(2_000),
    )


@pytest.mark.parametrize("steps", [100, 2_007])
def test_a_model_is_the_same_from_its_file(steps, tmp_path):
    """In the warm-up, and with transitions that wait."""
    model = make_model().learn(steps)
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model.npz", env="CartPole-v1")
    assert type(again) is KernelQ
    assert_same_learning(model, again)
    file = io.BytesIO()
    model.save(file)
    file.seek(0)
    assert_same_learning(model, KernelQ.load(file))
    again.learn(500, reset_num_timesteps=False)
    assert again.num_timesteps == steps + 500


@pytest.mark.parametrize(
    ("env_id", "bandwidth"), [("CartPole-v1", 0.3), ("Acrobot-v1", 1.0), ("MountainCar-v0", 0.3)]
)
def test_a_model_of_points_that_almost_coincide_goes_on_from_its_file(env_id, bandwidth):
    model = make_model(f"oda_rl/{env_id}", parsimony=0.0, bandwidth=bandwidth)
    for _ in range(3):
        model.learn(1_000, reset_num_timesteps=False)
        file = io.BytesIO()
        model.save(file)
        file.seek(0)
        again = KernelQ.load(file, env=f"oda_rl/{env_id}")
        assert_same_learning(model, again)
        for one in (model, again):
            one.learn(500, reset_num_timesteps=False)
        assert_same_learning(model, again)


def test_several_environments_take_turns():
    env = make_vec_env("CartPole-v1", n_envs=3, seed=0)
    model = make_model(env).learn(3_000)
    assert model.num_timesteps == 3_000
    assert model.learner.n_learned > 2_500
    assert model.n_cells > 1


def test_callbacks_and_logs(tmp_path):
    evaluation = Monitor(gym.make("CartPole-v1"))
    callback = EvalCallback(evaluation, eval_freq=500, n_eval_episodes=1, verbose=0)
    model = make_model(tensorboard_log=str(tmp_path)).learn(1_200, callback=callback, log_interval=5)
    assert callback.last_mean_reward > 0
    figures = model.learner.figures()
    assert figures["kernel/n_points"] == model.n_cells
    assert list(tmp_path.glob("KernelQ_1/events*"))


def test_bad_input():
    with pytest.raises(BadTransitionError, match="observation"):
        make_model(BrokenEnv(at=700, observation=np.nan)).learn(2_000)
    with pytest.raises(BadTransitionError, match="reward"):
        make_model(BrokenEnv(at=700, reward=np.inf)).learn(2_000)
    model = make_model().learn(500)
    with pytest.raises(ValueError, match="NaN"):
        model.predict(np.full(4, np.nan))
    with pytest.raises(ValueError, match="Discrete"):
        make_model("Pendulum-v1")


def test_a_range_that_does_not_fit():
    with pytest.raises(ValueError, match="observation_low must be 4 numbers"):
        make_model(observation_low=(0.0,))


def test_mini_batches_are_small_enough_for_the_matrix_of_their_points():
    with pytest.raises(ValueError, match=r"batch_size must be an integer in \[1, 10000\], got 10001"):
        make_model(batch_size=10_001)
    assert make_model(batch_size=10_000).learn(250).num_timesteps == 250

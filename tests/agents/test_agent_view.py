"""What is drawn of an agent is what it knows."""

import numpy as np
import pytest
from environments import IdentityEnv
from matplotlib import use
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.monitor import Monitor

import oda_rl.envs  # noqa: F401
from oda_rl.agents import SOMQ, FourierSarsa, TileCodingSarsa, TwoTimescaleQ, UniformGridQ
from oda_rl.plotting import (
    plot_annealing,
    plot_partition,
    plot_policy_map,
    plot_value_map,
    view_of,
)

use("Agg")
from matplotlib import pyplot as plt

QUICK = {"warmup_steps": 200, "growth_steps": 2000, "growth_cells": 20, "max_cells": 30}


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def car():
    return TwoTimescaleQ(env="oda_rl/MountainCar-v0", seed=0, **QUICK).learn(20_000)


@pytest.fixture(scope="module")
def pendulum():
    return TwoTimescaleQ(env="oda_rl/Pendulum-v1", seed=0, **QUICK).learn(6_000)


def test_the_view_has_the_cells_in_the_units_of_the_environment(car):
    view = view_of(car)
    np.testing.assert_array_equal(view.codevectors, car.learner.codevectors)
    np.testing.assert_array_equal(view.weights, car.learner.codebook["visits"].sum(axis=0))
    assert view.feature_names == ["position", "velocity"]
    assert view.label_names == ["push left", "coast", "push right"]
    nearest = view.distance(view.codevectors).argmin(axis=1)
    np.testing.assert_array_equal(nearest, np.arange(car.n_cells))
    own = ((view.codevectors[3] - view.codevectors[5]) / car.learner.scale.scale) ** 2
    assert view.distance(view.codevectors[3:4])[0, 5] == pytest.approx(own.sum())


def test_values_and_actions_are_those_of_the_agent(car):
    view = view_of(car)
    points = np.random.default_rng(0).uniform([-1.2, -0.07], [0.6, 0.07], (50, 2))
    actions, _ = car.predict(points.astype(np.float32), deterministic=True)
    np.testing.assert_array_equal(view.decisions(points), actions)
    values = car.learner.action_values(points.astype(np.float32))
    assert values.shape == (50, 3)
    np.testing.assert_array_equal(values.argmax(axis=1), actions)
    np.testing.assert_allclose(view.values(points), values.max(axis=1))


def test_values_are_the_shares_of_the_cells_times_what_they_say(car):
    learner, book = car.learner, car.learner.codebook
    point = np.array([-0.5, 0.01], dtype=np.float32)
    z = (point - learner.scale.centre) / learner.scale.scale
    away = ((book.codevectors - z) ** 2).sum(axis=1)
    share = np.exp(-(away - away.min()) / (car.config.softness * learner.temperature))
    share[away - away.min() > 8.0 * car.config.softness * learner.temperature] = 0.0
    share /= share.sum()
    q = book["q"].reshape(3, 3, -1)
    expected = [share @ (q[a, 0] + z @ q[a, 1:]) for a in range(3)]
    np.testing.assert_allclose(learner.action_values(point[None])[0], expected, rtol=1e-6)


def test_looking_leaves_the_training_as_it_is():
    watched, other = (TwoTimescaleQ(env="CartPole-v1", seed=0, **QUICK) for _ in range(2))
    for _ in range(3):
        watched.learn(1_500, reset_num_timesteps=False)
        plot_value_map(watched)
        plot_policy_map(watched)
        other.learn(1_500, reset_num_timesteps=False)
    np.testing.assert_array_equal(watched.learner.q_values, other.learner.q_values)


def test_an_agent_that_has_learned_nothing_yet():
    model = TwoTimescaleQ(env="CartPole-v1", seed=0)
    np.testing.assert_array_equal(
        model.learner.action_values(np.zeros((3, 4), np.float32)), np.zeros((3, 2))
    )
    for draw in (plot_value_map, plot_policy_map, plot_partition, plot_annealing):
        with pytest.raises(ValueError, match="the model has learned nothing yet"):
            draw(model)


def test_observations_must_be_finite(car):
    with pytest.raises(ValueError, match="NaN"):
        car.learner.action_values(np.array([[np.nan, 0.0]], dtype=np.float32))


def test_continuous_actions_are_part_of_the_cells(pendulum):
    view = view_of(pendulum)
    assert view.feature_names == ["cos angle", "sin angle", "velocity (rad/s)", "action"]
    assert view.n_valued == 3
    points = np.random.default_rng(0).uniform(-1.0, 1.0, (20, 3))
    actions, _ = pendulum.predict(points.astype(np.float32), deterministic=True)
    np.testing.assert_allclose(view.decisions(points), actions[:, 0], atol=1e-6)
    assert view.values(points).shape == (20,)
    nearest = view.distance(view.codevectors).argmin(axis=1)
    np.testing.assert_array_equal(nearest, np.arange(pendulum.n_cells))
    ax = plot_policy_map(pendulum, (0, 2))
    assert [other.get_ylabel() for other in ax.figure.axes[1:]] == ["action"]
    assert plot_partition(pendulum, dimensions=(2, 3)).get_ylabel() == "action"


@pytest.mark.parametrize("kind", [UniformGridQ, SOMQ, TileCodingSarsa, FourierSarsa])
def test_maps_of_the_baselines(kind):
    model = kind(env="oda_rl/MountainCar-v0", seed=0, warmup_steps=200).learn(3_000)
    view = view_of(model)
    low, high = view.limits()
    points = np.random.default_rng(0).uniform(low, high, (30, 2))
    actions, _ = model.predict(points.astype(np.float32), deterministic=True)
    np.testing.assert_array_equal(view.decisions(points), actions)
    values = model.learner.action_values(points.astype(np.float32))
    np.testing.assert_array_equal(values.argmax(axis=1), actions)
    ax = plot_value_map(model, codebook=True)
    assert ax.get_xlabel() == "position"
    if kind in (UniformGridQ, SOMQ):
        nearest = view.distance(model.learner.codevectors).argmin(axis=1)
        np.testing.assert_array_equal(nearest, np.arange(model.n_cells))
        plot_partition(model)
    else:
        with pytest.raises(ValueError, match="no cells"):
            plot_partition(model)


def test_cells_of_a_grid_are_rectangles():
    model = UniformGridQ(env="oda_rl/MountainCar-v0", bins=(3, 4), seed=0, warmup_steps=200).learn(1_000)
    ax = plot_partition(model)
    (cells,) = (c for c in ax.collections if c.get_zorder() == 0)
    sizes = [np.ptp(path.vertices, axis=0) for path in cells.get_paths()]
    assert len(sizes) == 12
    inner = np.array([1.8 / 3, 0.14 / 4])
    assert (np.min(sizes, axis=0) <= inner * (1.0 + 1e-9)).all()
    assert np.sum([np.prod(size) for size in sizes]) == pytest.approx(
        np.diff(ax.get_xlim())[0] * np.diff(ax.get_ylim())[0]
    )


@pytest.mark.parametrize("n_envs", [1, 3])
def test_the_learning_curve_is_that_of_the_monitors(n_envs):
    env = make_vec_env(IdentityEnv, n_envs, seed=0)
    model = TwoTimescaleQ(env=env, seed=0, **QUICK).learn(1_200)
    steps, returns = model.learning_curve()
    assert len(returns) == model._episode_num
    assert (np.diff(steps) >= 0).all()
    assert steps[-1] <= 1_200
    assert sorted(returns) == sorted(np.concatenate(env.env_method("get_episode_rewards")))


def test_the_learning_curve_of_a_long_training_is_that_of_its_latest_episodes(monkeypatch):
    def train(env):
        return TwoTimescaleQ(env=env, seed=0, **QUICK).learn(1_200)

    every = train(Monitor(IdentityEnv())).learning_curve()
    monkeypatch.setattr("oda_rl.envs.wrapper_chain.EPISODES", 10)
    steps, returns = train(IdentityEnv()).learning_curve()
    assert 10 <= len(steps) < 20 < len(every[0])
    np.testing.assert_array_equal([steps, returns], np.array(every)[:, -len(steps) :])


def test_the_history_is_drawn_with_the_returns(car):
    axes = plot_annealing(car)
    assert [ax.get_ylabel() for ax in axes] == ["codevectors", "distortion", "temperature", "return"]
    np.testing.assert_array_equal(
        axes[0].get_lines()[0].get_ydata(), [level.n_codevectors for level in car.history_]
    )


def test_a_model_from_a_file_is_drawn_alike(car, tmp_path):
    path = tmp_path / "car.npz"
    car.save(path)
    again = TwoTimescaleQ.load(path)
    view, other = view_of(car), view_of(again)
    np.testing.assert_array_equal(view.labels, other.labels)
    assert view.title == other.title
    assert len(plot_annealing(again)) == 3  # returns are not in the file

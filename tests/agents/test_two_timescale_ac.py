"""TwoTimescaleAC: tasks whose answer is known, files, loops, callbacks."""

import random

import gymnasium as gym
import numpy as np
import pytest
from environments import (
    IdentityEnv,
    SpacesEnv,
    corridor_env,
    identity_env,
    pair_env,
    toll_env,
    track_env,
)
from gymnasium import spaces
from quick_models import assert_same_learning, maker
from stable_baselines3.common.callbacks import CheckpointCallback, EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

import oda_rl.envs  # noqa: F401
from oda_rl.agents import TwoTimescaleAC, TwoTimescaleQ
from oda_rl.agents.callbacks import CodebookCallback
from oda_rl.agents.explain import explain_observation, explain_policy
from oda_rl.agents.explain.reports import explanation_sheets, explanation_summary
from oda_rl.agents.models import load_model

QUICK = {"warmup_steps": 200, "growth_steps": 2000, "growth_cells": 8, "max_cells": 20}
make_model = maker(TwoTimescaleAC, **QUICK)


# -- tasks whose answer is known ---------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"softness": 0.0}, {"local_model": "constant"}, {"tree": True}])
def test_identity(options):
    model = make_model(identity_env(), gamma=0.5, **options).learn(15_000)
    mean, _ = evaluate_policy(model, Monitor(identity_env()), 20)
    assert mean > 17.0, "of 20, with cells that may straddle a boundary; chance is 6.7"


@pytest.mark.parametrize("action_space", [spaces.MultiBinary(2), spaces.MultiDiscrete([2, 2])])
def test_combined_actions(action_space):
    model = make_model(pair_env(action_space), gamma=0.0).learn(15_000)
    mean, _ = evaluate_policy(model, Monitor(pair_env(action_space)), 20)
    assert mean > 17.0


def test_parts_of_an_action_are_learned_by_themselves():
    """Twelve parts: by their 4,096 combinations hardly one would come twice."""
    model = make_model(pair_env(spaces.MultiBinary(12)), gamma=0.0).learn(20_000)
    mean, _ = evaluate_policy(model, Monitor(pair_env(spaces.MultiBinary(12))), 5)
    assert mean > 15.0, "of 20; chance is 10"
    assert model.learner.sizes.n_actions == 24


@pytest.mark.parametrize("offset", [10.0, 1000.0])
@pytest.mark.parametrize(("make_env", "least"), [(identity_env, 17.0), (track_env, -0.5)])
def test_what_all_rewards_have_in_common_tells_nothing(make_env, least, offset):
    """Though values of 100 times as much are to be learned, and more of them as gamma rises."""
    model = make_model(make_env(offset=offset)).learn(15_000)
    mean, _ = evaluate_policy(model, Monitor(make_env()), 20)
    assert mean > least, "chance is 6.7, and about -3"
    values = model.learner.state_values([[-0.5], [0.5]])
    np.testing.assert_allclose(values, 100.0 * offset, atol=150.0)


def test_rewards_of_episodes_that_end_have_nothing_in_common():
    model = make_model(identity_env(ends=True, offset=1000.0)).learn(5_000)
    assert (model.learner.state_values(np.linspace(-1.0, 1.0, 9)[:, None]) < 50_000.0).all()


def test_values_of_a_corridor():
    """The critic learns what the policy, which goes to the right, is worth: gamma^(steps to the end)."""
    model = make_model(corridor_env(), gamma=0.8, max_cells=8, softness=0.0).learn(30_000)
    points = np.arange(4.0)[:, None]
    np.testing.assert_array_equal(model.predict(points, deterministic=True)[0], 1)
    learner = model.learner
    z = (points - learner.scale.centre) / learner.scale.scale
    nearest = np.abs(z - learner.codebook.codevectors.T).argmin(axis=1)
    b, w = learner.codebook["v"][:, nearest]
    np.testing.assert_allclose(b + w * z[:, 0], 0.8 ** np.array([3, 2, 1, 0]), atol=0.1)


def test_moves_that_cost_are_made_for_the_goal_at_their_end():
    """An actor that learns from costs before it has seen the goal stays where it is."""
    model = make_model(toll_env(), gamma=0.99).learn(20_000)
    mean, _ = evaluate_policy(model, Monitor(toll_env()), n_eval_episodes=1)
    assert mean == pytest.approx(10.0 - 11 * 0.1)


@pytest.mark.parametrize("options", [{}, {"softness": 0.0}, {"tree": True}])
def test_points_of_a_box(options):
    """The wanted point of each coordinate is where its own observation is between the bounds."""
    low, high = (-1.0, 2.0), (3.0, 2.5)
    model = make_model(track_env(low, high), gamma=0.0, growth_cells=4, **options).learn(20_000)
    states = np.random.default_rng(0).uniform(-0.9, 0.9, (200, 2)).astype(np.float32)
    found, _ = model.predict(states, deterministic=True)
    away = np.abs((found - low) / np.subtract(high, low) - 0.5 * (states + 1.0))
    assert away.mean() < 0.1, "of the range; always in the middle it is 0.23"
    middles, deviations = model.learner.distributions(states)
    np.testing.assert_allclose(found, middles, rtol=1e-6)
    drawn = np.array([model.predict(states[:5])[0] for _ in range(500)])
    assert (drawn >= model.action_space.low).all()
    assert (drawn <= model.action_space.high).all()
    np.testing.assert_allclose(drawn.std(axis=0), deviations[:5], rtol=0.2)
    assert model.action_space.contains(model.predict(states[0])[0])


def test_the_greedy_action_is_the_most_probable_and_others_are_drawn():
    model = make_model(identity_env(), gamma=0.5, learning_rate=0.02).learn(700)
    points = np.linspace(-1, 1, 7, dtype=np.float32)[:, None]
    probabilities = model.learner.probabilities(points)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_array_equal(
        model.predict(points, deterministic=True)[0], probabilities.argmax(axis=1)
    )
    drawn = np.array([model.predict(points)[0] for _ in range(2_000)])
    found = (drawn[..., None] == np.arange(3)).mean(axis=0)
    np.testing.assert_allclose(found, probabilities, atol=0.05)
    assert probabilities.min(axis=1).max() > 0.05, "the test is about something"


def test_the_codebook_grows_by_the_warm_up_alone():
    """Learning begins with the first step after it, over cells where the warm-up was."""
    model = make_model(identity_env(), warmup_steps=500, growth_cells=20, max_cells=20).learn(500)
    assert not model.learner.is_exploring
    assert model.n_cells > 12
    assert model.learner.n_learned < 100, "the beginnings of episodes count as observations"
    gaps = np.diff(np.sort(model.learner.codevectors[:, 0]), prepend=-1.0, append=1.0)
    assert gaps.max() < 0.4, "observations are uniform in [-1, 1]: 0.1 would be even"


@pytest.mark.parametrize(("planned", "expected"), [(50, 600), (8_000, 800), (1_000_000, 3_000)])
def test_the_warm_up_of_a_short_run_is_short(planned, expected):
    model = TwoTimescaleAC(env="CartPole-v1", seed=0).learn(50, planned_timesteps=planned)
    left, most = model.learner.warm_up_left
    assert expected - 60 <= left == most <= expected - 50, "a reset is an observation, too"


def test_a_warm_up_that_has_begun_becomes_longer_with_the_run(tmp_path):
    whole = TwoTimescaleAC(env="oda_rl/CartPole-v1", seed=0).learn(8_000)
    part = TwoTimescaleAC(env="oda_rl/CartPole-v1", seed=0).learn(100)
    part.save(tmp_path / "part.npz")
    part = TwoTimescaleAC.load(tmp_path / "part.npz", env="oda_rl/CartPole-v1")
    assert_same_learning(part.learn(7_900, reset_num_timesteps=False), whole)


@pytest.mark.parametrize("kind", [TwoTimescaleAC, TwoTimescaleQ])
def test_nothing_global_is_drawn_from_or_seeded(kind):
    before, alone = np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    kind(env=IdentityEnv(), seed=0, **QUICK).learn(1_000).predict(np.zeros(1, dtype=np.float32))
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    assert random.getstate() == alone


# -- one agent among the others ----------------------------------------------------------------------


@pytest.mark.parametrize(("low", "high"), [(-1, np.inf), (-np.inf, 1), (-np.inf, np.inf), (1, 1)])
def test_boxes_of_actions_have_bounds(low, high):
    env = SpacesEnv(spaces.Box(-1, 1, (2,)), spaces.Box(np.float32([0, low]), np.float32([1, high])))
    with pytest.raises(ValueError, match=r"Action space Box.*must be b"):
        TwoTimescaleAC(env=env)


def test_hyperparameters_are_its_own():
    with pytest.raises(TypeError, match="optimism"):
        TwoTimescaleAC(env="CartPole-v1", optimism=1.0)
    with pytest.raises(ValueError, match="actor_rate must be a number in"):
        TwoTimescaleAC(env="CartPole-v1", actor_rate=-1.0)


@pytest.mark.parametrize("name", ["CartPole-v1", "MountainCarContinuous-v0"])
def test_same_seed_same_result_in_all_loops(name):
    compiled = make_model(f"oda_rl/{name}").learn(6_000)
    stepped = make_model(f"oda_rl/{name}").learn(6_000, callback_every=1)
    own = make_model(name).learn(6_000)
    vectorised = make_model(make_vec_env(name, 1, seed=0)).learn(6_000)
    for other in (stepped, own):
        assert_same_learning(compiled, other)
    assert vectorised.n_cells > 10


def test_save_and_load(tmp_path):
    model = make_model("CartPole-v1").learn(5_000)
    model.save(tmp_path / "model.npz")
    loaded = load_model(tmp_path / "model.npz", env="CartPole-v1")
    assert isinstance(loaded, TwoTimescaleAC)
    assert_same_learning(model, loaded)
    assert loaded.config == model.config
    points = np.random.default_rng(0).uniform(-1, 1, (500, 4)).astype(np.float32)
    np.testing.assert_array_equal(
        loaded.learner.probabilities(points), model.learner.probabilities(points)
    )
    loaded.learn(3_000, reset_num_timesteps=False)
    assert loaded.num_timesteps == 8_000
    with pytest.raises(ValueError, match="TwoTimescaleAC"):
        TwoTimescaleQ.load(tmp_path / "model.npz")


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1"])
def test_several_environments_and_callbacks(name, tmp_path):
    model = make_model(make_vec_env(name, 3, seed=0), tensorboard_log=str(tmp_path / "logs"))
    evaluation = EvalCallback(Monitor(gym.make(name)), n_eval_episodes=2, eval_freq=1_000)
    checkpoints = CheckpointCallback(1_000, str(tmp_path / "kept"))
    model.learn(6_000, callback=[evaluation, checkpoints, CodebookCallback()])
    assert np.isfinite(evaluation.last_mean_reward)
    assert len(list((tmp_path / "kept").iterdir())) == 2
    assert list((tmp_path / "logs").glob("*/events*"))


def test_a_box_is_saved_and_explained(tmp_path):
    model = make_model("oda_rl/Pendulum-v1").learn(6_000)
    model.save(tmp_path / "model.npz")
    loaded = load_model(tmp_path / "model.npz", env="oda_rl/Pendulum-v1")
    states = np.random.default_rng(0).uniform(-1, 1, (100, 3)).astype(np.float32)
    np.testing.assert_array_equal(
        loaded.predict(states, deterministic=True)[0], model.predict(states, deterministic=True)[0]
    )
    assert_same_learning(loaded, model)
    assert_same_learning(make_model("oda_rl/Pendulum-v1").learn(6_000), model)
    text = str(model.cells())
    assert "greedy torque" in text
    assert "deviation" in text
    why = explain_observation(model, states[0])
    point, deviation = model.learner.distributions(states[:1])
    np.testing.assert_allclose(why.action, point[0])
    np.testing.assert_allclose(why.deviation, deviation[0])
    parts = [one.weight * one.values[0] for one in why.contributions]
    np.testing.assert_allclose(sum(parts), model.learner.state_values(states[:1])[0], rtol=1e-6)
    text = explanation_summary(explain_policy(model), why)
    assert f"(standard deviation {deviation[0, 0]:.3g})" in text
    assert "Q " not in text + str(explanation_sheets(explain_policy(model), why)[0])


def test_several_coordinates_are_explained_and_drawn():
    model = make_model(track_env((-1.0, 2.0), (3.0, 2.5))).learn(4_000)
    assert "greedy action[0], action[1]" in str(model.cells())
    why = explain_observation(model, np.zeros(2))
    parts = [
        f"action[{j}] = {why.action[j]:.3g} (standard deviation {why.deviation[j]:.3g})" for j in (0, 1)
    ]
    assert f": {', '.join(parts)}, value " in explanation_summary(explain_policy(model), why)
    view = model.view()
    assert view.labels.shape == view.weights.shape == (model.n_cells,)
    np.testing.assert_array_equal(
        view.values(view.codevectors),
        model.learner.state_values(view.codevectors.astype(np.float32)),
    )


def test_cells_are_explained():
    model = make_model("oda_rl/CartPole-v1").learn(6_000)
    text = str(model.cells())
    assert "pole angle" in text
    assert "push" in text
    assert "probability" in text
    state = np.array([0.1, -0.2, 0.03, 0.1], dtype=np.float32)
    why = explain_observation(model, state)
    assert why.probability == pytest.approx(model.learner.probabilities(state[None]).max())
    assert why.value == pytest.approx(model.learner.state_values(state[None])[0])
    sheet = explanation_sheets(explain_policy(model), why)[0]
    assert "preference push left" in sheet.header


def test_cartpole():
    model = TwoTimescaleAC(env="oda_rl/CartPole-v1", seed=0).learn(50_000)
    mean, _ = evaluate_policy(model, Monitor(gym.make("oda_rl/CartPole-v1")), 20)
    assert mean > 475.0

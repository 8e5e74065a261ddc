"""The agent on a tree, as its user sees it."""

import io

import gymnasium as gym
import numpy as np
import pytest
from environments import BrokenEnv, IdentityEnv, SpacesEnv, fixed_env, identity_env, track_env
from gymnasium import spaces
from quick_models import assert_same_learning, maker
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from tree_learners import HIGH, LOW, depth_of, make_points

import oda_rl.envs  # noqa: F401
from oda_rl.agents import BadTransitionError, TwoTimescaleConfig, TwoTimescaleQ
from oda_rl.agents.actions import ActionCodec
from oda_rl.agents.callbacks import CodebookCallback, KeepBestCallback
from oda_rl.agents.codebook_rl.learner import TwoTimescaleLearner
from oda_rl.agents.codebook_rl.state import BRANCH_WIDTH
from oda_rl.agents.explain import explain_observation

QUICK = {
    "tree": True,
    "warmup_steps": 200,
    "growth_steps": 3000,
    "growth_cells": 60,
    "max_cells": 150,
    "growth_fraction": 1.0,
    "samples_per_cell": 3,
}
make_model = maker(TwoTimescaleQ, **QUICK)


# -- tasks whose answer is known ---------------------------------------------------------------------


@pytest.mark.parametrize("softness", [0.0, 2.0])
@pytest.mark.parametrize("local_model", ["constant", "linear"])
def test_identity(softness, local_model):
    model = make_model(identity_env(), softness=softness, local_model=local_model, gamma=0.5)
    model.learn(15_000)
    assert model.learner.tree.n_branches > 5
    assert evaluate_policy(model, Monitor(identity_env()), 20)[0] > 18.0, "of 20; chance is 6.7"


def test_continuous_actions():
    """The right action is a function of the observation; always the middle costs 1.67."""
    model = make_model(track_env(), gamma=0.0, action_weight=1.0, growth_cells=80).learn(15_000)
    assert model.learner.tree.n_branches > 5
    assert evaluate_policy(model, Monitor(track_env()), 20)[0] > -0.5


def test_several_environments():
    env = make_vec_env(IdentityEnv, n_envs=4, seed=0)
    model = make_model(env, gamma=0.5).learn(15_000)
    assert evaluate_policy(model, make_vec_env(IdentityEnv, n_envs=4, seed=1), 20)[0] > 17.0


def test_cartpole_improves():
    model = TwoTimescaleQ(env="oda_rl/CartPole-v1", seed=0, tree=True).learn(60_000)
    assert model.n_cells > 200
    assert evaluate_policy(model, Monitor(gym.make("oda_rl/CartPole-v1")), 10)[0] > 150.0


def test_a_tree_of_one_branch_learns_what_the_flat_codebook_learns():
    """All cells are near then: another way to compute the same numbers."""
    options = {**QUICK, "growth_cells": 8, "max_cells": BRANCH_WIDTH, "growth_steps": 500}
    learners = [
        TwoTimescaleLearner(
            2,
            ActionCodec(spaces.Discrete(3)),
            1,
            LOW,
            HIGH,
            TwoTimescaleConfig(**{**options, "tree": tree}),
            seed=0,
        )
        for tree in (False, True)
    ]
    points = make_points(2_000, 0)
    actions = [[learner.begin(0, points[0])] for learner in learners]
    for t, point in enumerate(points[1:]):
        reward, ended = float(point[0] > 0.0), t % 50 == 49
        for learner, taken in zip(learners, actions, strict=True):
            taken.append(learner.step(0, point, reward, ended, ended))
            if ended:
                learner.begin(0, point)
    flat, tree = (learner.codebook for learner in learners)
    assert len(flat) == BRANCH_WIDTH
    assert actions[0] == actions[1]
    np.testing.assert_allclose(tree.codevectors, flat.codevectors, rtol=1e-9)
    np.testing.assert_allclose(tree.weights, flat.weights, rtol=1e-9)
    np.testing.assert_allclose(tree["q"], flat["q"], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("task", ["oda_rl/CartPole-v1", "oda_rl/Pendulum-v1"])
def test_explanations_ask_the_cells_that_the_agent_asks(task):
    model = make_model(task).learn(9_000)
    learner, rng = model.learner, np.random.default_rng(0)
    for _ in range(20):
        state = rng.normal(scale=[1.0, 1.0, 0.1, 1.0])
        if task == "oda_rl/Pendulum-v1":
            state = np.array([np.cos(state[0]), np.sin(state[0]), state[1]])
        state = state.astype(np.float32)
        why = explain_observation(model, state)
        action, _ = model.predict(state, deterministic=True)
        np.testing.assert_allclose(why.action, action, rtol=1e-6)
        cost = learner.n_distances
        active = np.flatnonzero(learner.active_cells(state))
        assert learner.n_distances == cost
        assert 0 < len(active) < model.n_cells
        assert {one.number for one in why.contributions} <= set(active.tolist())


# -- what it costs -----------------------------------------------------------------------------------


def test_a_thousand_cells_cost_a_few_dozen_distances():
    costs = {}
    for cells in (125, 1000):
        model = make_model(
            "oda_rl/CartPole-v1",
            growth_cells=cells,
            max_cells=cells,
            growth_steps=40_000,
            samples_per_cell=1,
        )
        model.learn(50_000)
        assert 0.95 * cells <= model.n_cells <= cells
        learner = model.learner
        assert np.bincount(learner.tree.branch).max() <= BRANCH_WIDTH
        costs[cells] = learner.n_distances
        assert learner.figures()["oda/n_distances"] == learner.n_distances
    assert costs[1000] < 60.0
    assert costs[1000] < 2.0 * costs[125], "the flat codebook costs 8 times as much"


def test_more_branches_cost_more():
    costs = []
    for near_branches in (1, 2, 4):
        model = make_model("oda_rl/CartPole-v1", near_branches=near_branches).learn(8_000)
        learner = model.learner
        costs.append(learner.n_distances)
        assert costs[-1] <= near_branches * BRANCH_WIDTH + 3 * depth_of(learner.tree)
    assert costs == sorted(costs)


def test_cost_before_and_after_looking():
    model = make_model()
    assert model.learner.n_distances == model.n_cells == 0
    model.learn(6_000)
    stored = io.BytesIO()
    model.save(stored)
    stored.seek(0)
    loaded = TwoTimescaleQ.load(stored)
    assert loaded.learner.n_distances == model.learner.n_distances
    loaded.predict(np.zeros(4, np.float32))
    assert 1 < loaded.learner.n_distances < 3 * BRANCH_WIDTH + 2 * depth_of(loaded.learner.tree)


def test_n_parameters_counts_the_planes():
    model = make_model().learn(6_000)
    inner = model.learner.tree.n_branches - 1
    assert inner > 3
    # for each cell a location and two linear functions; for each plane a normal, an offset, two sides
    assert model.n_parameters == model.n_cells * (4 + 2 * 5) + 2 * 4 + 1 + inner * (4 + 1 + 2)


# -- the loops ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "options"),
    [
        ("oda_rl/CartPole-v1", {}),
        ("oda_rl/CartPole-v1", {"softness": 0.0, "local_model": "constant", "trace_decay": 0.0}),
        ("oda_rl/MountainCar-v0", {"learning_rate_by": "global"}),
        ("oda_rl/Acrobot-v1", {}),
        ("oda_rl/Pendulum-v1", {}),
    ],
)
def test_the_compiled_loop_makes_the_same_steps(task, options):
    fused, stepped = make_model(task, **options), make_model(task, **options)
    fused.learn(9_000)
    stepped.learn(9_000, callback_every=1)
    assert fused.learner.tree.n_branches > 8
    assert_same_learning(fused, stepped)
    assert fused.learner.n_distances == stepped.learner.n_distances


def test_same_seed_same_result():
    assert_same_learning(make_model().learn(5_000), make_model().learn(5_000))


def test_looking_and_saving_do_not_change_the_training():
    quiet, watched = make_model("oda_rl/CartPole-v1"), make_model("oda_rl/CartPole-v1")
    quiet.learn(9_000)
    for _ in range(9):
        watched.learn(1_000, callback=CodebookCallback(), reset_num_timesteps=False)
        watched.predict(np.zeros((3, 4), np.float32), deterministic=False)
        assert watched.learner.q_values.shape == (watched.n_cells, 2)
        watched.save(io.BytesIO())
    # the exploration of a run in parts falls otherwise, but not in how many numbers it draws
    again = make_model("oda_rl/CartPole-v1")
    for _ in range(9):
        again.learn(1_000, reset_num_timesteps=False)
    assert_same_learning(watched, again)


# -- files -------------------------------------------------------------------------------------------


def test_save_and_load(tmp_path):
    model = make_model().learn(6_000)
    model.save(tmp_path / "model")
    loaded = TwoTimescaleQ.load(tmp_path / "model")
    assert_same_learning(model, loaded)
    assert loaded.learner.tree.n_branches == model.learner.tree.n_branches > 5
    points = np.random.default_rng(0).uniform(-1, 1, (1000, 4)).astype(np.float32)
    expected, _ = model.predict(points, deterministic=True)
    np.testing.assert_array_equal(loaded.predict(points, deterministic=True)[0], expected)
    assert len(set(expected.tolist())) == 2


@pytest.mark.parametrize("steps", [100, 1_500, 5_000])
@pytest.mark.parametrize("terminates", [True, False])
def test_learning_resumes_exactly_from_a_file(tmp_path, steps, terminates):
    """Where the environment allows it: here its episodes last one step."""
    model = make_model(fixed_env(terminates)).learn(steps)
    model.save(tmp_path / "model.npz")
    loaded = TwoTimescaleQ.load(tmp_path / "model.npz", env=model.get_env().envs[0])
    state = model.get_env().envs[0].unwrapped.np_random.bit_generator.state
    model.learn(2_000)
    loaded.get_env().envs[0].unwrapped.np_random.bit_generator.state = state
    loaded.learn(2_000)
    assert_same_learning(model, loaded)


def test_episodes_under_way_are_cut_short_by_a_file(tmp_path):
    """What the traces had still to do is in the file, to the last bit."""
    model = make_model(IdentityEnv(length=10**9), gamma=0.9).learn(6_000)
    model.save(tmp_path / "model.npz")
    loaded = TwoTimescaleQ.load(tmp_path / "model.npz", env=IdentityEnv(length=10**9))
    other = TwoTimescaleQ.load(tmp_path / "model.npz", env=IdentityEnv(length=10**9))
    assert model.learner._storage.ledger.owed.any()
    point = np.array([0.3], dtype=np.float32)
    for learner in (model.learner, loaded.learner, other.learner):
        learner.begin(0, point)
    np.testing.assert_array_equal(model.learner.codebook["q"], loaded.learner.codebook["q"])
    assert_same_learning(loaded, other)


def test_load_with_another_number_of_environments(tmp_path):
    make_model().learn(5_000).save(tmp_path / "model.npz")
    loaded = TwoTimescaleQ.load(tmp_path / "model.npz", env=make_vec_env("CartPole-v1", 3))
    loaded.learn(600, reset_num_timesteps=False)
    assert loaded.num_timesteps == 5_600


def test_the_best_policy_is_given_back():
    model = make_model("oda_rl/CartPole-v1")
    keeper = KeepBestCallback(Monitor(gym.make("oda_rl/CartPole-v1")), 5, eval_freq=4_000)
    model.learn(12_000, callback=keeper)
    mean, _ = evaluate_policy(model, Monitor(gym.make("oda_rl/CartPole-v1")), 20)
    assert keeper.best_timesteps % 4_000 == 0
    assert mean > 0.5 * keeper.best_mean_reward
    model.learn(500, reset_num_timesteps=False)


# -- bad input ---------------------------------------------------------------------------------------


def test_nonsense_from_the_environment():
    model = make_model(BrokenEnv(5_000, reward=np.nan), gamma=0.5)
    with pytest.raises(BadTransitionError, match=r"reward nan.*at step 5000 of the training"):
        model.learn(8_000)
    for array in model.learner.get_state()["slow"]["codebook"].values():
        assert np.isfinite(array).all()
    with pytest.raises(ValueError, match="NaN"):
        model.predict(np.array([np.nan], np.float32))


def test_constant_observations_are_survived():
    env = SpacesEnv(spaces.Box(-np.inf, np.inf, (2,), np.float32), spaces.Discrete(2))
    env.observation_space.sample = lambda: np.ones(2, dtype=np.float32)
    model = make_model(env).learn(4_000)
    assert np.isfinite(model.learner.codevectors).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"codebook": "per_action"}, "tree=True needs codebook='shared', got 'per_action'"),
        ({"bifurcation": "perturb"}, "tree=True needs bifurcation='critical', got 'perturb'"),
        ({"tree": "yes"}, "tree must be True or False, got 'yes'"),
        ({"tree": False, "near_branches": 3}, "near_branches must be None unless tree=True, got 3"),
        ({"near_branches": 2.5}, r"near_branches must be an integer in \[1, 64\] or None, got 2.5"),
        ({"near_branches": 0}, r"near_branches must be an integer in \[1, 64\] or None, got 0"),
    ],
)
def test_what_does_not_go_with_a_tree(options, message):
    with pytest.raises(ValueError, match=message):
        make_model(**options)


def test_a_state_of_the_warm_up_leaves_no_branches_behind():
    early, grown = make_model().learn(100), make_model().learn(4000)
    assert grown.learner.tree.n_branches > 1
    grown.learner.set_state(early.learner.get_state())
    assert grown.learner.tree.n_branches == 1
    assert grown.learner.figures() == early.learner.figures()

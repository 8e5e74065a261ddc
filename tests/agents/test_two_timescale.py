import io
import json
import os

import gymnasium as gym
import numpy as np
import pytest
from environments import BrokenEnv, CorridorEnv, FixedEnv, IdentityEnv, PairEnv, SpacesEnv, TrackEnv
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from oda_rl import storage
from oda_rl.agents import BadTransitionError, TwoTimescaleQ

QUICK = {
    "warmup_steps": 200,
    "growth_steps": 2000,
    "growth_cells": 10,
    "max_cells": 20,
    "growth_fraction": 1.0,
}


def make_model(env, **options):
    return TwoTimescaleQ(env=env, seed=0, **{**QUICK, **options})


def arrays_of(model):
    arrays = model.learner.get_state()["slow"].get("codebook", {})
    return arrays


def assert_same_learning(first, second):
    a, b = arrays_of(first), arrays_of(second)
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


# -- tasks whose answer is known ---------------------------------------------------------------------


@pytest.mark.parametrize("codebook", ["shared", "per_action"])
@pytest.mark.parametrize("softness", [0.0, 2.0])
@pytest.mark.parametrize("bifurcation", ["critical", "perturb"])
@pytest.mark.parametrize("local_model", ["constant", "linear"])
def test_identity(codebook, softness, bifurcation, local_model):
    # A codebook for each action has a third of the cells for each, and boundaries that do not meet.
    cells = 20 if codebook == "shared" else 90
    model = make_model(
        IdentityEnv(),
        codebook=codebook,
        softness=softness,
        bifurcation=bifurcation,
        local_model=local_model,
        growth_cells=cells // 2,
        max_cells=cells,
        gamma=0.5,
    )
    model.learn(12_000)
    mean, _ = evaluate_policy(model, Monitor(IdentityEnv()), 20)
    assert mean > 17.0, "of 20, with cells that may straddle a boundary; chance is 6.7"


@pytest.mark.parametrize(
    "action_space",
    [spaces.MultiDiscrete([2, 2], start=[3, -1]), spaces.MultiBinary(2)],
    ids=["MultiDiscrete", "MultiBinary"],
)
def test_combined_actions(action_space):
    model = make_model(PairEnv(action_space), gamma=0.5).learn(12_000)
    assert evaluate_policy(model, Monitor(PairEnv(action_space)), 20)[0] > 19.0
    actions, _ = model.predict(np.zeros((5, 2), np.float32))
    assert actions.shape == (5, 2)
    assert actions.dtype == action_space.dtype


@pytest.mark.parametrize("local_model", ["constant", "linear"])
@pytest.mark.parametrize("softness", [0.0, 1.0])
@pytest.mark.parametrize(("low", "high"), [((-2.0,), (2.0,)), ((0.0, -1.0), (1.0, 3.0))])
def test_continuous_actions(low, high, softness, local_model):
    """The right action is a function of the observation; always the middle costs 1.67 per coordinate."""
    model = TwoTimescaleQ(
        env=TrackEnv(low, high),
        seed=0,
        warmup_steps=200,
        max_cells=80,
        gamma=0.0,
        action_weight=1.0,
        softness=softness,
        local_model=local_model,
    )
    model.learn(15_000)
    mean, _ = evaluate_policy(model, Monitor(TrackEnv(low, high)), 20)
    assert mean > -0.7 * len(low)
    assert model.learner.codevectors.shape == (model.n_cells, 2 * len(low))
    acted = model.learner.codevectors[:, len(low) :]
    assert (acted >= low).all()
    assert (acted <= high).all()


def test_continuous_actions_from_a_file_and_from_several_environments(tmp_path):
    def make():
        return make_vec_env(TrackEnv, n_envs=3)

    model = make_model(make()).learn(6_000)
    model.save(tmp_path / "model.npz")
    loaded = TwoTimescaleQ.load(tmp_path / "model.npz", env=make())
    points = np.random.default_rng(0).uniform(-1, 1, (100, 1)).astype(np.float32)
    actions, _ = model.predict(points, deterministic=True)
    assert actions.shape == (100, 1)
    assert actions.dtype == np.float32
    np.testing.assert_array_equal(actions, loaded.predict(points, deterministic=True)[0])
    loaded.learn(300, reset_num_timesteps=False)
    explored, _ = model.predict(points)
    assert all(model.action_space.contains(action) for action in explored)


def test_costs_are_minimised():
    class Costs(gym.RewardWrapper):
        def reward(self, reward):
            return -reward

    model = make_model(Costs(IdentityEnv()), minimise=True, gamma=0.5).learn(12_000)
    assert evaluate_policy(model, Monitor(IdentityEnv()), 20)[0] > 17.0


def test_average_reward():
    """A choice now of 1 for ever or of 0 for ever: the average and the differential values are known."""
    model = make_model(
        IdentityEnv(), criterion="average", average_rate=0.01, exploration_fraction=0.1
    ).learn(30_000)
    assert evaluate_policy(model, Monitor(IdentityEnv()), 20)[0] > 17.0
    assert model.learner.average_reward == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize("learning_rate_by", ["cell", "global"])
def test_corridor_values(learning_rate_by):
    """The value of the way to the end is gamma to the number of steps left."""
    model = make_model(CorridorEnv(), softness=0.0, gamma=0.9, learning_rate_by=learning_rate_by)
    model.learn(20_000)
    assert evaluate_policy(model, Monitor(CorridorEnv()), 5)[0] == 1.0
    cells, q = model.learner.codevectors[:, 0], model.learner.q_values
    for room in range(4):
        nearest = np.abs(cells - room).argmin()
        assert q[nearest, 1] == pytest.approx(0.9 ** (3 - room), abs=0.1)


def test_bootstrapping_stops_at_the_end_but_not_at_a_time_limit():
    """A reward of 1 for ever is worth 1 / (1 - gamma), a single one is worth 1."""
    values = {}
    for terminates in (True, False):
        model = make_model(FixedEnv(terminates), gamma=0.9, optimism=0.5, learning_rate_power=0.0)
        model.learn(8_000)
        values[terminates] = model.learner.q_values.max(axis=1).mean()
    assert values[True] == pytest.approx(1.0, abs=0.05)
    assert values[False] == pytest.approx(10.0, abs=0.5)


def test_actions_that_do_not_start_at_zero():
    env = IdentityEnv(start=5)
    model = make_model(env, gamma=0.5).learn(8_000)
    action, _ = model.predict(np.array([0.9], dtype=np.float32), deterministic=True)
    assert action == 7
    assert evaluate_policy(model, Monitor(IdentityEnv(start=5)), 10)[0] > 17.0


def test_cartpole_improves():
    """A short run: far above the 22 steps of random actions. The full one is `make train`."""
    model = TwoTimescaleQ(env="CartPole-v1", seed=0).learn(30_000)
    assert evaluate_policy(model, Monitor(gym.make("CartPole-v1")), 10)[0] > 150.0
    assert model.n_cells <= 125


# -- the interface -----------------------------------------------------------------------------------


def test_is_an_sb3_algorithm():
    model = make_model("CartPole-v1")
    assert isinstance(model, BaseAlgorithm)
    assert model.get_env().num_envs == 1
    assert model.get_vec_normalize_env() is None
    assert model.get_parameters() == {}


def test_policy_comes_first_as_in_sb3():
    assert TwoTimescaleQ("CodebookPolicy", "CartPole-v1").n_envs == 1
    with pytest.raises(ValueError, match="env="):
        TwoTimescaleQ("CartPole-v1")


def test_learning_goes_on():
    model = make_model("CartPole-v1")
    model.learn(500)
    model.learn(500, reset_num_timesteps=False)
    assert model.num_timesteps == 1000
    whole = make_model("CartPole-v1", exploration_fraction=0.0)
    parts = make_model("CartPole-v1", exploration_fraction=0.0)
    whole.learn(6_000)
    parts.learn(2_500)
    parts.learn(3_500, reset_num_timesteps=False)
    assert_same_learning(whole, parts)


def test_without_an_environment():
    model = TwoTimescaleQ(env=None)
    with pytest.raises(ValueError, match="set_env"):
        model.learn(10)


def test_set_env():
    model = make_model("CartPole-v1").learn(500)
    other = gym.make("CartPole-v1")
    model.set_env(other)
    model.learn(500)
    with pytest.raises(ValueError, match="Observation spaces do not match"):
        model.set_env(gym.make("Acrobot-v1"))


@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: VecNormalize(v, norm_obs=False)])
def test_several_environments(wrap):
    env = wrap(make_vec_env(IdentityEnv, n_envs=4, seed=0))
    model = make_model(env, gamma=0.5).learn(8_000)
    assert model.num_timesteps == 8_000
    mean, _ = evaluate_policy(model, make_vec_env(IdentityEnv, n_envs=4, seed=1), 20)
    assert mean > 17.0


def test_one_environment_learns_the_same_stepped_directly_or_as_a_vecenv():
    direct = make_model(make_vec_env("CartPole-v1", 1, seed=3))
    wrapped = make_model(
        VecNormalize(make_vec_env("CartPole-v1", 1, seed=3), norm_obs=False, norm_reward=False)
    )
    direct.learn(4_000)
    wrapped.learn(4_000)
    assert_same_learning(direct, wrapped)


# -- predict -----------------------------------------------------------------------------------------


def test_predict_shapes():
    model = make_model("CartPole-v1").learn(3_000)
    one, state = model.predict(np.zeros(4, dtype=np.float32), deterministic=True)
    assert one.shape == ()
    assert state is None
    many, _ = model.predict(np.zeros((7, 4)), deterministic=True)
    assert many.shape == (7,)
    assert many.dtype.kind == "i"


def test_predict_before_learning():
    action, _ = make_model("CartPole-v1").predict(np.zeros(4))
    assert action in (0, 1)


@pytest.mark.parametrize("shape", [(3,), (2, 5), (1, 2, 4), ()])
def test_predict_names_both_shapes(shape):
    with pytest.raises(ValueError, match=r"\(4,\) or \(n, 4\) is expected") as caught:
        make_model("CartPole-v1").predict(np.zeros(shape))
    assert str(shape) in str(caught.value)


def test_predict_refuses_nan():
    model = make_model("CartPole-v1").learn(3_000)
    with pytest.raises(ValueError, match="NaN"):
        model.predict(np.array([0.0, np.nan, 0.0, 0.0]))


def test_predicting_does_not_change_the_training():
    quiet, asked = make_model("CartPole-v1"), make_model("CartPole-v1")
    quiet.learn(3_000)
    quiet.learn(1_000, reset_num_timesteps=False)
    asked.learn(3_000)
    for _ in range(10):
        asked.predict(np.zeros(4), deterministic=False)
    asked.learn(1_000, reset_num_timesteps=False)
    assert_same_learning(quiet, asked)


@pytest.mark.parametrize("bifurcation", ["critical", "perturb"])
def test_saving_does_not_change_the_training(bifurcation):
    quiet = make_model("CartPole-v1", bifurcation=bifurcation)
    saved = make_model("CartPole-v1", bifurcation=bifurcation)
    for steps in (600, 1_000, 1_000, 1_000):
        quiet.learn(steps, reset_num_timesteps=False)
        saved.learn(steps, reset_num_timesteps=False)
        saved.save(io.BytesIO())
    assert_same_learning(quiet, saved)


def test_stochastic_predictions_explore():
    model = make_model(IdentityEnv(), exploration_initial_eps=0.5, exploration_final_eps=0.5).learn(
        4_000
    )
    actions, _ = model.predict(np.full((1000, 1), 0.9), deterministic=False)
    greedy, _ = model.predict(np.full((1, 1), 0.9), deterministic=True)
    assert 0.55 < (actions == greedy[0]).mean() < 0.78, "half greedy, a third of the rest by chance"


# -- seeds -------------------------------------------------------------------------------------------


def test_same_seed_same_result():
    assert_same_learning(make_model("CartPole-v1").learn(5_000), make_model("CartPole-v1").learn(5_000))


def test_another_seed_another_result():
    first = make_model("CartPole-v1").learn(3_000)
    second = TwoTimescaleQ(env="CartPole-v1", seed=1, **QUICK).learn(3_000)
    assert not np.array_equal(first.learner.scale.scale, second.learner.scale.scale)


def test_global_generators_are_left_alone():
    np.random.seed(7)  # noqa: NPY002
    expected = np.random.random(3)  # noqa: NPY002
    np.random.seed(7)  # noqa: NPY002
    make_model("CartPole-v1").learn(1_000)
    np.testing.assert_array_equal(np.random.random(3), expected)  # noqa: NPY002


# -- the codebook ------------------------------------------------------------------------------------


@pytest.mark.parametrize("bifurcation", ["critical", "perturb"])
@pytest.mark.parametrize("codebook", ["shared", "per_action"])
def test_max_cells_is_kept_when_learning_ends(bifurcation, codebook):
    model = make_model("CartPole-v1", bifurcation=bifurcation, codebook=codebook, samples_per_cell=2)
    model.learn(8_000)
    levels = model.learner.annealer.history
    assert max(level.n_codevectors for level in levels) <= 20
    assert 5 < model.n_cells <= 20
    assert 0 < levels[0].n_samples_seen < levels[-1].n_samples_seen < 8_000
    assert model.learner.codebook.weights.sum() == pytest.approx(1.0)


def test_codevectors_are_in_the_units_of_the_environment():
    model = make_model(IdentityEnv()).learn(4_000)
    cells = model.learner.codevectors
    assert cells.shape == (model.n_cells, 1)
    assert -1.0 <= cells.min() < -0.4
    assert 0.4 < cells.max() <= 1.0


def test_given_scale_is_used():
    model = make_model("CartPole-v1", observation_scale=(1.0, 2.0, 3.0, 4.0)).learn(1_000)
    np.testing.assert_array_equal(model.learner.scale.scale, [1.0, 2.0, 3.0, 4.0])


def test_constant_observations_are_survived():
    space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    env = SpacesEnv(space, spaces.Discrete(2))
    env.observation_space.sample = lambda: np.ones(2, dtype=np.float32)
    model = make_model(env).learn(4_000)
    assert np.isfinite(model.learner.codevectors).all()


@pytest.mark.parametrize(("local_model", "numbers"), [("constant", 2), ("linear", 2 * 5)])
def test_n_parameters_counts_what_is_needed_to_act(local_model, numbers):
    model = make_model("CartPole-v1", local_model=local_model).learn(4_000)
    assert model.n_parameters == model.n_cells * (4 + numbers) + 2 * 4 + 1


# -- files -------------------------------------------------------------------------------------------


def test_save_and_load(tmp_path):
    model = make_model("CartPole-v1").learn(5_000)
    model.save(tmp_path / "model")
    loaded = TwoTimescaleQ.load(tmp_path / "model")
    observations = np.random.default_rng(0).uniform(-1, 1, (1000, 4)).astype(np.float32)
    expected, _ = model.predict(observations, deterministic=True)
    np.testing.assert_array_equal(loaded.predict(observations, deterministic=True)[0], expected)
    assert len(set(expected.tolist())) == 2
    assert_same_learning(model, loaded)
    assert loaded.num_timesteps == 5_000
    assert loaded.seed == 0
    assert loaded.config == model.config
    assert loaded.observation_space == model.observation_space
    assert loaded.action_space == model.action_space


def test_save_and_load_a_file_object():
    model = make_model("CartPole-v1").learn(1_000)
    buffer = io.BytesIO()
    model.save(buffer)
    buffer.seek(0)
    assert_same_learning(model, TwoTimescaleQ.load(buffer))


@pytest.mark.parametrize("steps", [100, 1_000, 4_000])
def test_learning_resumes_exactly_from_a_file(tmp_path, steps):
    """Where the environment allows it: here its episodes last one step."""
    model = make_model(FixedEnv(terminates=True)).learn(steps)
    model.save(tmp_path / "model.npz")
    loaded = TwoTimescaleQ.load(tmp_path / "model.npz", env=model.get_env().envs[0])
    state = model.get_env().envs[0].unwrapped.np_random.bit_generator.state
    model.learn(1_500, reset_num_timesteps=True)
    loaded.get_env().envs[0].unwrapped.np_random.bit_generator.state = state
    loaded.learn(1_500, reset_num_timesteps=True)
    assert_same_learning(model, loaded)


def test_load_with_another_number_of_environments(tmp_path):
    make_model("CartPole-v1").learn(4_000).save(tmp_path / "model.npz")
    loaded = TwoTimescaleQ.load(tmp_path / "model.npz", env=make_vec_env("CartPole-v1", 3))
    loaded.learn(600, reset_num_timesteps=False)
    assert loaded.num_timesteps == 4_600


def test_load_refuses_another_environment(tmp_path):
    make_model("CartPole-v1").learn(500).save(tmp_path / "model.npz")
    with pytest.raises(ValueError, match="Observation spaces do not match"):
        TwoTimescaleQ.load(tmp_path / "model.npz", env="Acrobot-v1")


def test_load_refuses_other_models(tmp_path):
    storage.save(tmp_path / "other", "SomethingElse", {})
    with pytest.raises(ValueError, match="holds a SomethingElse, not a TwoTimescaleQ"):
        TwoTimescaleQ.load(tmp_path / "other")


def test_a_model_file_is_plain(tmp_path):
    make_model("CartPole-v1").learn(3_000).save(tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz", allow_pickle=False) as content:
        header = json.loads(content["header.json"])
        assert header["kind"] == "TwoTimescaleQ"
        arrays = [content[name] for name in content.files if name != "header.json"]
        assert all(array.dtype.kind in "fiub" for array in arrays)


def test_a_full_cartpole_model_is_small(tmp_path):
    model = TwoTimescaleQ(env="CartPole-v1", seed=0, growth_cells=125, samples_per_cell=5)
    model.learn(12_000)
    assert model.n_cells == 125
    model.save(tmp_path / "model.npz")
    assert os.path.getsize(tmp_path / "model.npz") < 42_000, "values and traces of 125 cells"


# -- bad input ---------------------------------------------------------------------------------------

BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)
TWO = spaces.Discrete(2)


@pytest.mark.parametrize(
    ("observation_space", "action_space", "message"),
    [
        (spaces.Text(5), TWO, r"Text.*not supported; Discrete, .*TransformObservation"),
        (spaces.Discrete(10**9), TWO, r"Discrete\(1000000000\) has more states.*100,000"),
        (BOX, spaces.Tuple((TWO, TWO)), r"Tuple.*is not supported; Discrete.*TransformAction"),
        (BOX, spaces.Box(-np.inf, np.inf, (1,)), r"Action space Box.*must be bounded.*RescaleAction"),
    ],
)
def test_unsupported_spaces(observation_space, action_space, message):
    with pytest.raises(ValueError, match=message):
        make_model(SpacesEnv(observation_space, action_space))


@pytest.mark.parametrize("at", [50, 3_000])
@pytest.mark.parametrize(
    ("nonsense", "message"),
    [
        ({"observation": np.nan}, r"observation \[nan\]"),
        ({"observation": np.inf}, r"observation \[inf\]"),
        ({"reward": np.nan}, "reward nan"),
        ({"reward": -np.inf}, "reward -inf"),
    ],
)
def test_nonsense_from_the_environment(tmp_path, at, nonsense, message):
    model = make_model(BrokenEnv(at, **nonsense), gamma=0.5)
    with pytest.raises(BadTransitionError, match=rf"{message}.*at step {at} of the training"):
        model.learn(8_000)
    assert model.num_timesteps == at
    model.save(tmp_path / "model.npz")
    loaded = TwoTimescaleQ.load(tmp_path / "model.npz")
    for array in arrays_of(loaded).values():
        assert np.isfinite(array).all()
    model.learn(8_000)  # the environment has recovered
    assert evaluate_policy(model, Monitor(IdentityEnv()), 10)[0] > 17.0


def test_nonsense_from_one_of_several_environments():
    env = DummyVecEnv([IdentityEnv, lambda: BrokenEnv(400, reward=np.nan)])
    with pytest.raises(BadTransitionError, match="reward nan"):
        make_model(env).learn(8_000)


def test_unknown_hyperparameter():
    with pytest.raises(TypeError, match="gama"):
        TwoTimescaleQ(env="CartPole-v1", gama=0.9)

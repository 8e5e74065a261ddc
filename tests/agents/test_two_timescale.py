import itertools

import gymnasium as gym
import numpy as np
import pytest
from environments import (
    BrokenEnv,
    IdentityEnv,
    SpacesEnv,
    corridor_env,
    fixed_env,
    identity_env,
    pair_env,
    track_env,
)
from gymnasium import spaces
from quick_models import arrays_of, assert_same_learning, maker
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from oda_rl.agents import BadTransitionError, TwoTimescaleAC, TwoTimescaleQ

QUICK = {"warmup_steps": 200, "growth_steps": 2000, "growth_cells": 10, "max_cells": 20}
make_model = maker(TwoTimescaleQ, **QUICK, growth_fraction=1.0)


# -- tasks whose answer is known ---------------------------------------------------------------------


def half_of(*choices):
    """Of all combinations of pairs those with an even number of seconds: any two occur together."""
    places = (one for one in itertools.product((0, 1), repeat=len(choices)) if sum(one) % 2 == 0)
    return [tuple(pair[i] for pair, i in zip(choices, one, strict=True)) for one in places]


@pytest.mark.parametrize(
    ("codebook", "softness", "bifurcation", "local_model"),
    half_of(("shared", "per_action"), (0.0, 2.0), ("critical", "perturb"), ("constant", "linear")),
)
def test_identity(codebook, softness, bifurcation, local_model):
    # A codebook for each action has a third of the cells for each, and boundaries that do not meet.
    cells = 20 if codebook == "shared" else 90
    model = make_model(
        identity_env(),
        codebook=codebook,
        softness=softness,
        bifurcation=bifurcation,
        local_model=local_model,
        growth_cells=cells // 2,
        max_cells=cells,
        gamma=0.5,
    )
    model.learn(60_000)
    mean, _ = evaluate_policy(model, Monitor(identity_env()), 20)
    assert mean > 17.0, "of 20, with cells that may straddle a boundary; chance is 6.7"


@pytest.mark.parametrize(
    "action_space",
    [spaces.MultiDiscrete([2, 2], start=[3, -1]), spaces.MultiBinary(2)],
    ids=["MultiDiscrete", "MultiBinary"],
)
def test_combined_actions(action_space):
    model = make_model(pair_env(action_space), gamma=0.5).learn(12_000)
    assert evaluate_policy(model, Monitor(pair_env(action_space)), 20)[0] > 19.0
    actions, _ = model.predict(np.zeros((5, 2), np.float32))
    assert actions.shape == (5, 2)
    assert actions.dtype == action_space.dtype


@pytest.mark.parametrize(
    ("bounds", "softness", "local_model"),
    half_of((((-2.0,), (2.0,)), ((0.0, -1.0), (1.0, 3.0))), (0.0, 1.0), ("constant", "linear")),
)
def test_continuous_actions(bounds, softness, local_model):
    """The right action is a function of the observation; always the middle costs 1.67 per coordinate."""
    low, high = bounds
    model = TwoTimescaleQ(
        env=track_env(low, high),
        seed=0,
        warmup_steps=200,
        max_cells=80,
        gamma=0.0,
        action_weight=1.0,
        softness=softness,
        local_model=local_model,
    )
    # Constants that overlap take longer. A cell that split near a bound may lie beyond it, later on.
    model.learn(25_000 if softness and local_model == "constant" else 15_000)
    mean, _ = evaluate_policy(model, Monitor(track_env(low, high)), 20)
    assert mean > -0.7 * len(low)
    assert model.learner.codevectors.shape == (model.n_cells, 2 * len(low))
    acted = model.learner.codevectors[:, len(low) :]
    assert (acted >= low).all()
    assert (acted <= high).all()


def test_continuous_actions_that_do_not_move_anything(tmp_path):
    """With cells of all actions alike, actions at the bounds left -1.4 of 20 steps; random ones -3.3."""
    model = TwoTimescaleQ(env=track_env(), seed=100).learn(15_000)
    mean, _ = evaluate_policy(model, Monitor(track_env()), 20)
    assert mean > -0.5
    model.save(tmp_path / "model")
    points = np.linspace(-1.0, 1.0, 9)[:, None]
    again = TwoTimescaleQ.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(points)[0], model.predict(points)[0])
    assert again.learner.action_weight == 1.0


def test_continuous_actions_from_a_file_and_from_several_environments(tmp_path):
    def make():
        return make_vec_env(track_env, n_envs=3)

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


@pytest.mark.parametrize("learning_rate_by", ["cell", "global"])
def test_corridor_values(learning_rate_by):
    """The value of the way to the end is gamma to the number of steps left."""
    model = make_model(corridor_env(), softness=0.0, gamma=0.9, learning_rate_by=learning_rate_by)
    model.learn(20_000)
    assert evaluate_policy(model, Monitor(corridor_env()), 5)[0] == 1.0
    cells, q = model.learner.codevectors[:, 0], model.learner.q_values
    for room in range(4):
        nearest = np.abs(cells - room).argmin()
        assert q[nearest, 1] == pytest.approx(0.9 ** (3 - room), abs=0.1)


def test_bootstrapping_stops_at_the_end_but_not_at_a_time_limit():
    """A reward of 1 for ever is worth 1 / (1 - gamma), a single one is worth 1."""
    values = {}
    for terminates in (True, False):
        model = make_model(fixed_env(terminates), gamma=0.9, optimism=0.5, learning_rate_power=0.0)
        model.learn(8_000)
        values[terminates] = model.learner.q_values.max(axis=1).mean()
    assert values[True] == pytest.approx(1.0, abs=0.05)
    assert values[False] == pytest.approx(10.0, abs=0.5)


def test_rewards_that_end_episodes_are_not_expected_for_ever():
    """In a bandit values begin at the largest reward, not at what it would come to if it came again."""
    model = TwoTimescaleQ(env=identity_env(2, length=1, ends=True), seed=0).learn(20_000)
    assert evaluate_policy(model, Monitor(identity_env(2, length=1, ends=True)), 200)[0] > 0.97
    assert model.learner.q_values.max() < 1.5, "100 if it came again for ever"


class NoisyRewards(gym.Wrapper):
    """Rewards with normal noise of standard deviation 2."""

    def reset(self, *, seed=None, options=None):
        self.noise = np.random.default_rng(seed) if seed is not None else self.noise
        return self.env.reset(seed=seed, options=options)

    def step(self, action):
        observation, reward, *ends = self.env.step(action)
        return observation, reward + self.noise.normal(0.0, 2.0), *ends


def test_lucky_rewards_are_not_expected_for_ever():
    """Values that began at 800 left .9 of 20, and were still at 200; they are right at 100."""
    model = TwoTimescaleQ(env=NoisyRewards(identity_env()), seed=0).learn(10_000)
    assert evaluate_policy(model, Monitor(identity_env()), 20)[0] > 14.0
    assert model.learner.q_values.max() < 110.0


def test_actions_that_do_not_start_at_zero():
    env = identity_env(start=5)
    model = make_model(env, gamma=0.5).learn(8_000)
    action, _ = model.predict(np.array([0.9], dtype=np.float32), deterministic=True)
    assert action == 7
    assert evaluate_policy(model, Monitor(identity_env(start=5)), 10)[0] > 17.0


def test_cartpole_improves():
    """A short run: far above the 22 steps of random actions. The full one is `make train`."""
    model = TwoTimescaleQ(env="oda_rl/CartPole-v1", seed=0).learn(30_000)
    assert evaluate_policy(model, Monitor(gym.make("oda_rl/CartPole-v1")), 10)[0] > 150.0
    assert model.n_cells <= 125


# -- the interface -----------------------------------------------------------------------------------


def test_is_an_sb3_algorithm():
    model = make_model("CartPole-v1")
    assert isinstance(model, BaseAlgorithm)
    assert model.get_env().num_envs == 1
    assert model.get_vec_normalize_env() is None
    assert set(model.get_parameters()) >= {"learner", "hyperparameters"}
    assert model.predict(np.zeros(4))[0] in (0, 1), "before it has learned"
    assert TwoTimescaleQ("CodebookPolicy", "CartPole-v1").n_envs == 1, "the policy comes first"
    for name in ("MlpPolicy", "CnnPolicy", "MultiInputPolicy"):
        model = TwoTimescaleQ(name, "CartPole-v1")
        assert type(model.policy).__name__ == "CodebookPolicy", "by whatever name SB3 has"
    with pytest.raises(ValueError, match="env="):
        TwoTimescaleQ("CartPole-v1")
    with pytest.raises(ValueError, match="set_env"):
        TwoTimescaleQ(env=None).learn(10)


def test_set_env():
    model = make_model("CartPole-v1").learn(500)
    model.set_env(gym.make("CartPole-v1"))
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


def test_predict():
    model = make_model("CartPole-v1").learn(3_000)
    one, state = model.predict(np.zeros(4, dtype=np.float32), deterministic=True)
    assert one.shape == ()
    assert state is None
    many, _ = model.predict(np.zeros((7, 4)), deterministic=True)
    assert many.shape == (7,)
    assert many.dtype.kind == "i"
    with pytest.raises(ValueError, match="NaN"):
        model.predict(np.array([0.0, np.nan, 0.0, 0.0]))


@pytest.mark.parametrize("shape", [(3,), (2, 5), (1, 2, 4), ()])
def test_predict_names_both_shapes(shape):
    with pytest.raises(ValueError, match=r"must have shape \(4,\) or \(n, 4\)") as caught:
        make_model("CartPole-v1").predict(np.zeros(shape))
    assert str(shape) in str(caught.value)


def test_predicting_does_not_change_the_training():
    quiet, asked = make_model("CartPole-v1"), make_model("CartPole-v1")
    quiet.learn(3_000)
    quiet.learn(1_000, reset_num_timesteps=False)
    asked.learn(3_000)
    for _ in range(10):
        asked.predict(np.zeros(4), deterministic=False)
    asked.learn(1_000, reset_num_timesteps=False)
    assert_same_learning(quiet, asked)


def test_stochastic_predictions_explore():
    half = {"exploration_initial_eps": 0.5, "exploration_final_eps": 0.5}
    model = make_model(identity_env(), **half).learn(4_000)
    actions, _ = model.predict(np.full((1000, 1), 0.9), deterministic=False)
    greedy, _ = model.predict(np.full((1, 1), 0.9), deterministic=True)
    assert 0.55 < (actions == greedy[0]).mean() < 0.78, "half greedy, a third of the rest by chance"


# -- seeds -------------------------------------------------------------------------------------------


def test_same_seed_same_result():
    assert_same_learning(make_model("CartPole-v1").learn(5_000), make_model("CartPole-v1").learn(5_000))


def test_another_seed_another_result():
    first = make_model("CartPole-v1").learn(3_000)
    second = make_model("CartPole-v1", seed=1).learn(3_000)
    assert not np.array_equal(first.learner.scale.scale, second.learner.scale.scale)


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
    model = make_model(identity_env()).learn(4_000)
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


# -- bad input ---------------------------------------------------------------------------------------

BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)
TWO = spaces.Discrete(2)


@pytest.mark.parametrize(
    ("observation_space", "action_space", "message"),
    [
        (spaces.Text(5), TWO, r"Text.*not supported; Discrete, .*TransformObservation"),
        (spaces.Discrete(10**9), TWO, r"Discrete\(1000000000\) has more states.*100,000"),
        (spaces.Discrete(10**5), spaces.Discrete(101), r"100,000 states and 101 actions.*10,000,000"),
        (BOX, spaces.Tuple((TWO, TWO)), r"Tuple.*is not supported; Discrete.*TransformAction"),
        (BOX, spaces.Box(-np.inf, np.inf, (1,)), r"Action space Box.*must be bounded.*TransformAction"),
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


@pytest.mark.parametrize("kind", [np.bool_, int, lambda end: np.array([end]), lambda end: end or None])
def test_ends_may_be_told_as_in_a_vector(kind):
    class Told(gym.Wrapper):
        def step(self, action):
            observation, reward, terminated, truncated, info = super().step(action)
            return observation, reward, kind(terminated), kind(truncated), info

    plain, told = (
        TwoTimescaleAC(env=env, seed=0, warmup_steps=200).learn(1000)
        for env in (gym.make("CartPole-v1"), Told(gym.make("CartPole-v1")))
    )
    points = np.random.default_rng(0).normal(size=(20, 4))
    np.testing.assert_array_equal(told.learner.state_values(points), plain.learner.state_values(points))


def test_a_codebook_grows_as_long_in_many_short_calls():
    """The planned end of each call is so near that growth would be over at once."""

    def steps_before_learning(first=50, **options):
        model = TwoTimescaleQ(env="oda_rl/CartPole-v1", seed=0, **settings, **options).learn(first)
        while model.learner.n_learned == 0:
            model.learn(50, reset_num_timesteps=False)
        return model.num_timesteps

    settings = {"warmup_steps": 400, "samples_per_cell": 5}
    assert steps_before_learning() >= 400 + 0.2 * 5 * 400
    assert steps_before_learning(first=600) >= 400 + 0.2 * 5 * 400
    assert steps_before_learning(growth_fraction=0.0) < 500

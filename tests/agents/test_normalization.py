"""Normalised observations and rewards: agents learn from those of the environment."""

import io

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces, wrappers
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecMonitor, VecNormalize

from oda_rl.agents import TwoTimescaleAC, TwoTimescaleQ
from oda_rl.agents.distill.teacher import Teacher
from oda_rl.agents.export.program import policy_program
from oda_rl.agents.observations import BadTransitionError, ObservationCodec
from oda_rl.agents.sb3.gymnasium_vector import GymnasiumVecEnv
from oda_rl.agents.sb3.normalization import (
    Normalization,
    find_normalization,
    find_original_rewards,
)
from oda_rl.storage import ModelFileError

# Soon after the warm-up, before differences of rounding have grown
STEPS = 1510
STATES = np.random.default_rng(0).uniform([-1.2, -0.07], [0.6, 0.07], (200, 2)).astype(np.float32)


def car():
    return gym.make("MountainCar-v0")


class Parts(gym.Env):
    """A number, another that is not to be normalised, and a kind; the reward depends on the first."""

    observation_space = spaces.Dict(
        a=spaces.Box(-50.0, 50.0, (1,)), b=spaces.Box(-1.0, 1.0, (2,)), c=spaces.Discrete(3)
    )
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._seen(), {}

    def step(self, action):
        return self._seen(), 0.0, False, False, {}

    def _seen(self):
        a = self.np_random.normal(20.0, 5.0, 1).astype(np.float32)
        return {"a": a, "b": np.array([0.5, -0.5], dtype=np.float32), "c": 1}


def several(wrap):
    return GymnasiumVecEnv(wrap(gym.make_vec("MountainCar-v0", 2)))


def one(wrap):
    return DummyVecEnv([lambda: wrap(car())])


@pytest.mark.parametrize(
    "normalised",
    [
        lambda: VecNormalize(DummyVecEnv([car])),
        lambda: VecMonitor(VecNormalize(DummyVecEnv([car]))),
        lambda: one(lambda env: wrappers.NormalizeReward(wrappers.NormalizeObservation(env))),
        lambda: one(
            lambda env: wrappers.TimeLimit(
                wrappers.NormalizeObservation(wrappers.NormalizeReward(env)), 200
            )
        ),
    ],
)
def test_what_is_learned_does_not_depend_on_the_normalisation(normalised):
    env = normalised()
    model = TwoTimescaleAC(env=env, seed=0).learn(STEPS)
    plain = TwoTimescaleAC(env=VecMonitor(DummyVecEnv([car])), seed=0).learn(STEPS)
    assert model.learner.is_scaled
    statistics = model.observations.normalization.statistics()
    mean, deviation = statistics["observation"]
    shown = ((STATES - mean) / deviation).astype(np.float32)
    np.testing.assert_allclose(model.observations.normalization.undo(shown), STATES, atol=1e-6)
    np.testing.assert_allclose(model.learner.scale.centre, plain.learner.scale.centre, atol=1e-3)
    assert model.n_cells == plain.n_cells
    own, others = (one.learner.probabilities(STATES) for one in (model, plain))
    np.testing.assert_allclose(own, others, atol=0.02)
    assert np.ptp(own) > 0.1
    assert np.mean(model.predict(shown, deterministic=True)[0] == own.argmax(axis=1)) > 0.98

    file = io.BytesIO()
    model.save(file)
    file.seek(0)
    again = TwoTimescaleAC.load(file)  # without the environment, the statistics are those of the file
    parameters = model.get_parameters()
    again.set_parameters(parameters)
    for (key, found), (name, stored) in zip(
        statistics.items(), again.observations.normalization.statistics().items(), strict=True
    ):
        assert key == name
        np.testing.assert_array_equal(found, stored)
    np.testing.assert_array_equal(
        again.predict(shown, deterministic=True)[0], model.predict(shown, deterministic=True)[0]
    )
    teacher = Teacher(again, ObservationCodec(car().observation_space), again.actions)
    labels = teacher.label(STATES, len(STATES))[0]
    assert np.mean(labels == again.predict(shown, deterministic=True)[0]) > 0.98
    if model.observation_space == car().observation_space:
        again.set_env(DummyVecEnv([car]))  # which shows its own observations
        found = again.predict(STATES, deterministic=True)[0]
        np.testing.assert_array_equal(found, model.predict(shown, deterministic=True)[0])


def test_statistics_are_those_of_the_moment_also_in_a_training_that_goes_on():
    env = VecNormalize(DummyVecEnv([car] * 2), training=False)
    model = TwoTimescaleQ(env=env, seed=0).learn(2000)
    assert model.learner.is_scaled
    at = np.array([[-0.5, 0.0]], dtype=np.float32)
    before = model.predict(env.normalize_obs(at), deterministic=True)[0]
    env.obs_rms.mean, env.obs_rms.var = np.array([3.0, -1.0]), np.array([100.0, 0.04])
    np.testing.assert_array_equal(model.predict(env.normalize_obs(at), deterministic=True)[0], before)
    model.learn(2000, reset_num_timesteps=False)
    assert np.abs(model.learner.scale.centre - [-0.5, 0.0]).max() < 0.3


def test_programs_take_the_observations_of_the_environment():
    model = TwoTimescaleAC(env=VecNormalize(DummyVecEnv([car])), seed=0).learn(STEPS)
    (mean, deviation) = model.observations.normalization.statistics()["observation"]
    program, shown = policy_program(model), (STATES - mean) / deviation
    assert (
        np.mean(program.decide(STATES.astype(float)) == model.predict(shown, deterministic=True)[0])
        > 0.98
    )


def test_keys_of_a_dict_that_are_normalised():
    env = VecNormalize(DummyVecEnv([Parts]), norm_obs_keys=["a"])
    model = TwoTimescaleAC(env=env, seed=0).learn(1200)
    row = model.observations.encode_many(env.reset(), 1)[0]
    np.testing.assert_allclose(
        row, [env.get_original_obs()["a"][0, 0], 0.5, -0.5, 0.0, 1.0, 0.0], atol=1e-4
    )
    assert model.learner.scale.high[0] == 50.0


@pytest.mark.parametrize(
    ("env", "observations", "rewards"),
    [
        (lambda: DummyVecEnv([car]), False, False),
        (lambda: VecNormalize(DummyVecEnv([car]), norm_obs=False), False, True),
        (lambda: VecNormalize(DummyVecEnv([car]), norm_reward=False), True, False),
        (lambda: VecFrameStack(VecNormalize(DummyVecEnv([car])), 2), False, True),
        (lambda: VecNormalize(VecFrameStack(DummyVecEnv([car]), 2)), True, True),
        (
            lambda: one(lambda e: wrappers.TransformReward(wrappers.NormalizeReward(e), abs)),
            False,
            False,
        ),
        (
            lambda: one(lambda e: wrappers.ClipReward(wrappers.NormalizeObservation(e), -1, 1)),
            True,
            False,
        ),
        (lambda: DummyVecEnv([lambda: wrappers.NormalizeObservation(car())] * 2), False, False),
        (lambda: several(wrappers.vector.NormalizeObservation), True, False),
    ],
)
def test_what_other_wrappers_change_after_it_is_not_undone(env, observations, rewards):
    made = env()
    assert (find_normalization(made) is not None) == observations
    assert (find_original_rewards(made) is not None) == rewards


@pytest.mark.parametrize(
    "normalised",
    [
        lambda: VecNormalize(DummyVecEnv([car])),
        lambda: one(wrappers.NormalizeReward),
        lambda: several(wrappers.vector.NormalizeReward),
    ],
)
def test_rewards_before_their_normalisation(normalised):
    env = normalised()
    env.reset()
    for _ in range(20):
        _, rewards, _, _ = env.step(np.zeros(env.num_envs, dtype=int))
        assert abs(rewards[0] + 1.0) > 0.01
        assert find_original_rewards(env)(rewards)[0] == pytest.approx(-1.0, abs=1e-6)


def test_normalised_frames_that_are_stacked_have_no_bounds():
    model = TwoTimescaleAC(env=VecFrameStack(VecNormalize(DummyVecEnv([car])), 2))
    assert not np.isfinite(model.learner.scale.low).any()
    assert model.observation_names[0] == "observation[0]"
    assert TwoTimescaleAC(env=VecNormalize(DummyVecEnv([car]))).observation_names[0] == "position"
    own = TwoTimescaleAC(env=VecNormalize(VecFrameStack(DummyVecEnv([car]), 2)))
    np.testing.assert_allclose(own.learner.scale.high, [0.6, 0.07, 0.6, 0.07])


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.nan, np.inf])
def test_a_file_with_a_deviation_that_is_none_is_refused(wrong):
    model, file = TwoTimescaleAC(env=VecNormalize(DummyVecEnv([car])), seed=0).learn(700), io.BytesIO()
    known = {"observation": (np.zeros(2), np.array([1.0, wrong]))}
    model.observations.normalization = Normalization(None, known)
    model.save(file)
    file.seek(0)
    with pytest.raises(ModelFileError, match="normalization/observation/deviation"):
        TwoTimescaleAC.load(file)


def test_nothing_is_lost_where_an_environment_returns_nan():
    class Broken(gym.ObservationWrapper):
        steps = 0

        def observation(self, observation):
            self.steps += 1
            return observation * (np.nan if self.steps > STEPS else 1.0)

    env = VecNormalize(DummyVecEnv([lambda: Broken(car())]))
    model, file = TwoTimescaleAC(env=env, seed=0), io.BytesIO()
    with np.errstate(invalid="ignore"), pytest.raises(BadTransitionError, match=r"finite|NaN"):
        model.learn(2000)
    assert np.isnan(env.obs_rms.mean).all()
    model.save(file)
    file.seek(0)
    again = TwoTimescaleAC.load(file)
    shown = np.zeros((1, 2), dtype=np.float32)
    assert again.predict(shown, deterministic=True)[0] == model.predict(shown, deterministic=True)[0]


@pytest.mark.parametrize("shown", [np.zeros((5, 3)), "a", [np.nan, 0.0]])
def test_observations_that_are_none_are_refused(shown):
    model = TwoTimescaleAC(env=VecNormalize(DummyVecEnv([car])), seed=0).learn(700)
    with pytest.raises(ValueError, match="observation"):
        model.predict(shown)

"""Images and other large Boxes, reduced to principal components: learned, stored, refused."""

import io

import numpy as np
import pytest
from environments import SquareEnv
from gymnasium import spaces
from sklearn.decomposition import PCA
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

from oda_rl._schema import anything
from oda_rl.agents import TwoTimescaleAC
from oda_rl.agents.codecs import COMPONENTS, Components, PrincipalCodec
from oda_rl.agents.distill import distill
from oda_rl.agents.explain import explain_policy
from oda_rl.agents.export import policy_program
from oda_rl.agents.observations import BadTransitionError
from oda_rl.storage import ModelFileError, load, save


def test_components_are_those_of_the_images():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 3)) * [9.0, 4.0, 1.0] @ rng.normal(size=(3, 600)) + 5.0
    found, twin = Components.of(rows), PCA(3, svd_solver="full").fit(rows)
    assert found.axes.shape == (3, 600), "the rest is no thousandth of the variance"
    np.testing.assert_allclose(found.mean, twin.mean_)
    np.testing.assert_allclose(np.abs((found.axes * twin.components_).sum(axis=1)), 1.0, rtol=1e-6)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_images_that_are_few_or_alike(n):
    alike = np.ones((n, 600))
    assert not Components.of(alike).axes.any()
    different = Components.of(np.random.default_rng(0).normal(size=(n, 600)))
    assert 1 <= len(different.axes) <= n
    assert np.isfinite(different.axes).all()


def test_only_large_parts_are_reduced():
    image, speed = spaces.Box(0, 255, (30, 30, 1), np.uint8), spaces.Box(-1.0, 1.0, (2,))
    space = spaces.Dict(camera=image, gear=spaces.Discrete(3), speed=speed)
    assert PrincipalCodec.suits(space)
    assert not PrincipalCodec.suits(spaces.Dict(gear=spaces.Discrete(900), speed=speed))
    space.seed(0)
    several = [space.sample() for _ in range(20)]
    joined = {key: np.stack([one[key] for one in several]) for key in space}
    codec = PrincipalCodec(space, PrincipalCodec(space).learned(joined, 20))
    n = len(codec.components["0"].axes)
    assert codec.names(None) == [
        *(f"camera, component {j}" for j in range(n)),
        *(f"gear = {k}" for k in range(3)),
        *("speed[0]", "speed[1]"),
    ]
    rows = codec.encode_many(joined, 20)
    assert rows.shape == (20, codec.n_features) == (20, n + 5)
    np.testing.assert_allclose(rows[:, -2:], joined["speed"])
    np.testing.assert_allclose(rows[:, :n].mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(codec.encode(several[3]), rows[3])
    assert np.isinf(codec.low[:n]).all()
    assert codec.low[-2:].tolist() == [-1.0, -1.0]


def test_an_agent_learns_from_images_goes_on_and_is_stored():
    env = Monitor(SquareEnv(24))
    model = TwoTimescaleAC(env=env, seed=0).learn(12_000)
    assert 1 < model.observations.n_features <= COMPONENTS
    mean, _ = evaluate_policy(model, env, 20)
    assert mean > 12.0, "a random policy has 6.7 of 20"
    first, again = (TwoTimescaleAC(env=SquareEnv(24), seed=0).learn(3_000) for _ in range(2))
    np.testing.assert_equal(again.learner.get_state(), first.learner.get_state())
    file = io.BytesIO()
    model.save(file)
    file.seek(0)
    loaded = TwoTimescaleAC.load(file, env=env)
    images = np.stack([env.observation_space.sample() for _ in range(50)])
    np.testing.assert_array_equal(loaded.predict(images)[0], model.predict(images)[0])
    assert loaded.learn(100, reset_num_timesteps=False).num_timesteps == 12_100
    taken = TwoTimescaleAC(env=env, seed=1)
    taken.set_parameters(model.get_parameters())
    np.testing.assert_array_equal(
        taken.predict(images, deterministic=True)[0], model.predict(images, deterministic=True)[0]
    )
    assert model.n_parameters > 576 * (1 + model.observations.n_features)
    assert explain_policy(model).feature_names[0] == "observation, component 0"
    for refused in (policy_program, lambda one: distill(one, env, rounds=1, steps_per_round=100)):
        with pytest.raises(ValueError, match=r"reduced to principal components; Boxes of up to 512"):
            refused(model)


@pytest.mark.parametrize("length", [1_200, 3_000])
@pytest.mark.parametrize("n_envs", [1, 3])
def test_the_first_thousand_steps_count_whatever_the_length_of_the_training(n_envs, length):
    model = TwoTimescaleAC(env=make_vec_env(SquareEnv, n_envs), seed=0)
    seen = []
    model.learn(length, callback=lambda found, _: seen.append(found["self"].num_timesteps) or True)
    assert model.num_timesteps == length
    assert seen[0] == 1_000 // n_envs * n_envs + n_envs


def learned(model):
    """What has been learned, without the planned length of the training."""
    found = model.get_parameters()
    return {**found, "learner": {**found["learner"], "horizon": None}}


def test_a_training_in_pieces_learns_the_same_as_a_whole_one():
    whole = TwoTimescaleAC(env=SquareEnv(), seed=0).learn(4_500, planned_timesteps=20_000)
    pieces = TwoTimescaleAC(env=SquareEnv(), seed=0)
    for n in (0, 1, 99, 700, 300, 3_400):
        pieces.learn(n, reset_num_timesteps=False, planned_timesteps=20_000)
    assert pieces.num_timesteps == 4_500
    np.testing.assert_equal(learned(pieces), learned(whole))


def test_a_training_that_is_stopped_before_components_are_known_continues_exactly():
    class Stopping(SquareEnv):
        n_steps = 0

        def step(self, action):
            self.n_steps += 1
            if self.n_steps == 400:
                model.stop()
            return super().step(action)

    whole = TwoTimescaleAC(env=SquareEnv(), seed=0).learn(1_500)
    model = TwoTimescaleAC(env=Stopping(), seed=0)
    model.learn(1_500)
    assert model.num_timesteps == 400
    assert model.observations.n_features == 1
    model.learn(model.remaining_timesteps, reset_num_timesteps=False)
    np.testing.assert_equal(model.get_parameters(), whole.get_parameters())


def test_a_model_that_lacks_components_has_learned_nothing_and_says_so(tmp_path):
    model = TwoTimescaleAC(env=SquareEnv(), seed=0).learn(300)
    assert model.env.action_space.contains(model.predict(model.env.reset())[0][0])
    with pytest.raises(ValueError, match="has learned nothing yet"):
        model.cells()
    model.save(tmp_path / "model")
    again = [TwoTimescaleAC.load(tmp_path / "model", env=SquareEnv()) for _ in range(2)]
    for one in again:
        one.learn(1_100, reset_num_timesteps=False)
        assert one.observations.n_features > 1
    np.testing.assert_equal(again[0].get_parameters(), again[1].get_parameters())
    again[0].set_parameters(model.get_parameters())
    assert again[0].observations.n_features == 1
    assert again[0].learn(1_100).observations.n_features > 1


def test_images_that_are_no_numbers_are_refused():
    class Broken(SquareEnv):
        def __init__(self):
            super().__init__()
            self.observation_space = spaces.Box(-np.inf, np.inf, self.observation_space.shape)

        def _observe(self):
            super()._observe()
            return np.full(self.observation_space.shape, np.nan, np.float32)

    with pytest.raises(BadTransitionError, match="NaN or infinity"):
        TwoTimescaleAC(env=Broken(), seed=0).learn(200)


def test_components_of_a_file_are_checked(tmp_path):
    path = tmp_path / "model.npz"
    TwoTimescaleAC(env=SquareEnv(), seed=0).learn(1_100).save(path)
    for change, message in (
        (lambda state: state["components"]["0"].update(axes=np.zeros((1, 5))), "axes"),
        (lambda state: state["components"]["0"].update(axes=np.zeros((0, 576))), "axes"),
        (lambda state: state["components"].update({"7": state["components"]["0"]}), "components"),
    ):
        state = load(path, "TwoTimescaleAC", anything)
        change(state)
        save(path.with_name("changed.npz"), "TwoTimescaleAC", state)
        with pytest.raises(ModelFileError, match=message):
            TwoTimescaleAC.load(path.with_name("changed.npz"))

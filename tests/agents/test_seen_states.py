"""Large observations that recur are numbered as states: learned, stored, given up, refused."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

from oda_rl._schema import anything
from oda_rl.agents import TwoTimescaleAC, TwoTimescaleQ, codecs
from oda_rl.agents.callbacks import KeepBestCallback
from oda_rl.agents.codecs import PrincipalCodec, SeenStatesCodec
from oda_rl.agents.distill import distill
from oda_rl.agents.explain import explain_observation
from oda_rl.agents.export import policy_program
from oda_rl.agents.observations import BadTransitionError
from oda_rl.storage import ModelFileError, load, save


class Rooms(gym.Env):
    """Places in a ring, each an image of its own; the reward is in the place opposite to the first one.

    After `quiet` steps, images are those of a camera with noise.
    """

    observation_space = spaces.Box(0, 255, (24, 24), np.uint8)
    action_space = spaces.Discrete(3)
    n = 12

    def __init__(self, quiet=10**9):
        self.quiet, self.n_steps = quiet, 0
        self.images = np.random.default_rng(5).integers(0, 255, (self.n, 24, 24)).astype(np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.t = 0, 0
        return self.observe(), {}

    def observe(self):
        image = self.images[self.place].copy()
        if self.n_steps >= self.quiet:
            image[0] = self.np_random.integers(0, 255, 24)
        return image

    def step(self, action):
        self.n_steps, self.t = self.n_steps + 1, self.t + 1
        self.place = (self.place + [-1, 1, 0][action]) % self.n
        done = self.place == self.n // 2
        return self.observe(), float(done), done, self.t >= 50, {}


@pytest.mark.parametrize("n_envs", [1, 3])
def test_images_that_recur_are_learned_as_states_and_stored(n_envs, tmp_path):
    whole = TwoTimescaleAC(env=make_vec_env(Rooms, n_envs), seed=0).learn(6_000)
    assert whole.observations.is_table
    assert len(whole.observations.states) == Rooms.n
    assert evaluate_policy(whole, Monitor(Rooms()), 5)[0] == 1.0
    parts = TwoTimescaleAC(env=make_vec_env(Rooms, n_envs), seed=0)
    for steps in (300, 2_700, 3_000):
        parts.learn(steps, reset_num_timesteps=False, planned_timesteps=6_000)
        parts.save(tmp_path / "model")
    np.testing.assert_equal(parts.get_parameters(), whole.get_parameters())
    again, images = TwoTimescaleAC.load(tmp_path / "model"), Rooms().images
    expected = whole.predict(images, deterministic=True)[0]
    np.testing.assert_array_equal(again.predict(images, deterministic=True)[0], expected)
    taken = TwoTimescaleAC(env=make_vec_env(Rooms, n_envs), seed=1)
    taken.set_parameters(whole.get_parameters())
    np.testing.assert_array_equal(taken.predict(images, deterministic=True)[0], expected)
    assert taken.learn(99).num_timesteps == 99
    assert explain_observation(again, images[3]).feature_names == ("state",)
    assert whole.action_space.contains(int(again.predict(images[0] + 1)[0])), "an unknown image"
    assert len(again.observations.states) == Rooms.n
    for refused in (policy_program, lambda one: distill(one, Rooms(), rounds=1, steps_per_round=100)):
        with pytest.raises(ValueError, match=r"not supported for observations .* Boxes of up to 512"):
            refused(whole)


def test_the_table_is_that_of_a_discrete_space():
    """The first thousand steps apart, which are used to find out that the images recur."""

    class Numbered(gym.ObservationWrapper):
        observation_space = spaces.Discrete(codecs.MOST_SEEN + 1)

        def observation(self, image):
            return seen.setdefault(image.tobytes(), len(seen))

    seen = {}
    model = TwoTimescaleQ(env=Rooms(), seed=0).learn(1_000, planned_timesteps=4_000)
    assert model.learner.n_learned == 0
    model.learn(3_000, reset_num_timesteps=False, planned_timesteps=4_000)
    numbered = TwoTimescaleQ(env=Numbered(Rooms()), seed=0).learn(3_000)
    np.testing.assert_array_equal(model.learner.q_values, numbered.learner.q_values)


def test_what_recurs():
    space, rng = Rooms.observation_space, np.random.default_rng(0)
    noise = rng.integers(0, 255, (1_000, 24, 24)).astype(np.uint8)
    walk = noise[np.abs(np.cumsum(rng.choice([-1, 1], 1_000)))]
    assert SeenStatesCodec.recur(space, walk, 1_000)
    assert not SeenStatesCodec.recur(space, noise, 1_000)
    assert not SeenStatesCodec.recur(space, noise[:1].repeat(1_000, axis=0), 1_000), "all are equal"
    first = np.concatenate([walk[:500], noise[:500]])
    assert not SeenStatesCodec.recur(space, first, 1_000), "no longer"


def test_observations_that_are_not_finite_are_refused():
    class Broken(Rooms):
        observation_space = spaces.Box(0.0, 1.0, (24, 24))

        def observe(self):
            image = super().observe() / np.float32(255.0)
            return image * np.float32(np.nan) if self.n_steps == 1_500 else image

    model = TwoTimescaleAC(env=Broken(), seed=0)
    with pytest.raises(BadTransitionError, match="NaN or infinity"):
        model.learn(3_000)
    assert 1_490 < model.num_timesteps <= 1_500
    assert model.observations.is_table
    with pytest.raises(ValueError, match="NaN or infinity"):
        model.predict(np.full((24, 24), np.inf, dtype=np.float32))


def test_observations_that_recur_no_longer_are_reduced_to_components(monkeypatch):
    monkeypatch.setattr(codecs, "MOST_SEEN", 100)
    env = Rooms(quiet=2_000)
    keeper = KeepBestCallback(Monitor(Rooms()), 2, eval_freq=500)
    model = TwoTimescaleAC(env=env, seed=0).learn(5_000, callback=keeper)
    assert model.num_timesteps == 5_000
    assert isinstance(model.observations, PrincipalCodec)
    assert keeper.best_timesteps == 0 or keeper.best_timesteps > 3_000
    assert model.observations.n_features > 1


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda state: state.update(states=state["states"][[0, 0]]), "equal digests"),
        (lambda state: state.update(one_hot=True), "states"),
        (lambda state: state.update(states=np.arange(20_000)), "too many"),
        (lambda state: state.update(states=state["states"] * 0.5), "states"),
        (lambda state: state.update(components={"0": {"mean": np.ones(576)}}), "components"),
    ],
)
def test_states_of_an_edited_file_are_refused(edit, message, tmp_path):
    model = TwoTimescaleQ(env=Rooms(), seed=0).learn(1_500)
    model.save(tmp_path / "model.npz")
    state = load(tmp_path / "model.npz", "TwoTimescaleQ", anything)
    edit(state)
    save(tmp_path / "edited.npz", "TwoTimescaleQ", state)
    with pytest.raises(ModelFileError, match=message):
        TwoTimescaleQ.load(tmp_path / "edited.npz")

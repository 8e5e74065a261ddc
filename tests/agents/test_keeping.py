"""Callbacks that keep what was learned: snapshots, and the best policy."""

import gymnasium as gym
import numpy as np
import pytest
from environments import identity_env
from PIL import Image
from quick_models import make_model
from stable_baselines3.common.monitor import Monitor

import oda_rl.envs  # noqa: F401
from oda_rl.agents import KernelQ, TwoTimescaleAC, TwoTimescaleQ, UniformGridQ
from oda_rl.agents.callbacks import CodebookCallback, KeepBestCallback, SnapshotCallback
from oda_rl.plotting import animate_codebook


def test_snapshots_are_what_had_been_learned():
    snapshots = SnapshotCallback(every=1_000)
    model = make_model().learn(3_500, callback=[snapshots, CodebookCallback()])
    assert [steps for steps, _ in snapshots.snapshots] == [1_000, 2_000, 3_000, 3_500]
    views = snapshots.views()
    early = make_model()
    early.learn(3_500, callback=lambda seen, _: early.num_timesteps < 2_000)
    np.testing.assert_array_equal(views[1].codevectors, early.learner.codevectors)
    points = np.zeros((3, 4))
    np.testing.assert_array_equal(views[1].values(points), early.view().values(points))
    np.testing.assert_array_equal(views[-1].codevectors, model.learner.codevectors)
    assert views[0].title.startswith("1,000 steps")


def test_there_is_nothing_to_be_drawn_of_a_training_that_never_began():
    assert SnapshotCallback().views() == []


def test_snapshots_further_and_further_apart():
    snapshots = SnapshotCallback(every=300, stretch=1.5)
    make_model().learn(4_000, callback=snapshots)
    steps = [steps for steps, _ in snapshots.snapshots]
    assert steps == [300, 750, 1425, 2438, 3957, 4000]
    with pytest.raises(ValueError, match="stretch"):
        SnapshotCallback(stretch=0.5)
    with pytest.raises(ValueError, match="every"):
        SnapshotCallback(every=0)


def test_snapshots_make_an_animation(tmp_path):
    snapshots = SnapshotCallback(every=1_000)
    make_model("oda_rl/MountainCar-v0").learn(3_000, callback=snapshots)
    actions, values = animate_codebook(snapshots, tmp_path / "car.gif", dpi=30, hold=0.0)
    with Image.open(tmp_path / "car.gif") as gif:
        assert gif.n_frames == 3
    assert actions.get_xlabel() == values.get_xlabel() == "position"
    assert values.get_title(loc="right").startswith("3,000 steps")
    early, _ = animate_codebook(snapshots.views()[:1], tmp_path / "early.gif", dpi=30, hold=0.0)
    assert early.get_legend() is None  # nothing has been decided
    assert len(early.collections[0].get_offsets()) == len(snapshots.views()[0].codevectors)


def test_an_animation_of_continuous_actions_has_one_scale_for_each_side(tmp_path):
    snapshots = SnapshotCallback(every=1_500)
    make_model("oda_rl/Pendulum-v1").learn(4_500, callback=snapshots)
    axes = animate_codebook(snapshots, tmp_path / "pendulum.gif", dpi=30, hold=0.0)
    scales = [ax.get_ylabel() for ax in axes[0].figure.axes if ax not in list(axes)]
    assert sorted(scales) == ["action", "value of the greedy action"]


class ForgetfulKeeper(KeepBestCallback):
    """Pretends that the second evaluation was the best."""

    def _on_step(self):
        before = self.n_calls // self.eval_freq
        go_on = super()._on_step()
        if self.n_calls % self.eval_freq == 0 and before == 2:
            self.best_mean_reward = np.inf
            self.at_best = self.model.learner.q_values
        return go_on


def test_keep_best_gives_the_best_policy_back():
    keeper = ForgetfulKeeper(Monitor(identity_env()), eval_freq=1_500, n_eval_episodes=5)
    model = make_model(identity_env(), gamma=0.5).learn(6_000, callback=keeper)
    assert keeper.best_timesteps in (1_500, 3_000)
    if keeper.best_timesteps == 3_000:
        np.testing.assert_array_equal(model.learner.q_values, keeper.at_best)
    assert model.num_timesteps == 6_000
    model.learn(500, reset_num_timesteps=False)  # and can go on


def test_keep_best_prefers_the_later_of_equals():
    class Always(KeepBestCallback):
        def _on_step(self):
            self.best_mean_reward = -1.0  # so that every evaluation is a new best one
            return super()._on_step()

    keeper = Always(Monitor(identity_env()), eval_freq=1_000, n_eval_episodes=2)
    make_model(identity_env()).learn(3_000, callback=keeper)
    assert keeper.best_timesteps == 3_000


def test_keep_best_without_restoring():
    kept, last = make_model(identity_env()), make_model(identity_env())
    keeper = KeepBestCallback(Monitor(identity_env()), eval_freq=1_500, n_eval_episodes=2, restore=False)
    kept.learn(4_000, callback=keeper)
    last.learn(4_000)
    np.testing.assert_array_equal(kept.learner.q_values, last.learner.q_values)


def test_keep_best_starts_anew_for_another_model(tmp_path):
    keeper = KeepBestCallback(Monitor(identity_env()), 2, eval_freq=1_000, log_path=str(tmp_path))
    first = make_model(identity_env()).learn(3_000, callback=keeper)
    first.learn(500, callback=keeper, reset_num_timesteps=False)
    assert keeper.best is not None, "the same model goes on"
    assert keeper.evaluations_timesteps == [1_000, 2_000, 3_000]
    other, alone = (make_model(identity_env(), max_cells=12) for _ in range(2))
    other.learn(400, callback=keeper)  # ends before an evaluation
    assert (keeper.best, keeper.best_timesteps, keeper.best_mean_reward) == (None, 0, -np.inf)
    assert keeper.evaluations_timesteps == []
    alone.learn(400)
    assert other.n_cells == alone.n_cells
    np.testing.assert_array_equal(other.learner.codevectors, alone.learner.codevectors)


def test_evaluations_that_cannot_be_written_end_no_training(tmp_path):
    (tmp_path / "evaluations.npz").mkdir()
    keeper = KeepBestCallback(Monitor(identity_env()), 2, eval_freq=500, log_path=str(tmp_path))
    model = make_model(identity_env())
    with pytest.warns(RuntimeWarning, match="evaluations are not written to .*evaluations.npz") as told:
        model.learn(1_000, callback=keeper)
    assert len([one for one in told if "evaluations" in str(one.message)]) == 1
    assert (model.num_timesteps, keeper.evaluations_timesteps) == (1_000, [500, 1_000])
    (tmp_path / "evaluations.npz").rmdir()
    model.learn(500, callback=keeper, reset_num_timesteps=False)
    with np.load(tmp_path / "evaluations.npz") as written:
        assert written["timesteps"].tolist() == [500, 1_000, 1_500]


class LaterMixed(gym.Env):
    """One-hot observations, until some of them are mixtures."""

    observation_space = gym.spaces.Box(0.0, 1.0, (9,))
    action_space = gym.spaces.Discrete(2)

    def __init__(self, n_one_hot):
        self.left = n_one_hot

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observe(), {}

    def observe(self):
        self.left -= 1
        one = np.eye(9, dtype=np.float32)[self.np_random.integers(9)]
        return one if self.left > 0 else 0.5 * one

    def step(self, action):
        return self.observe(), float(action), bool(self.np_random.random() < 0.1), False, {}


def test_keep_best_forgets_the_table_of_observations_that_are_no_states():
    keeper = KeepBestCallback(Monitor(LaterMixed(10**9)), 2, eval_freq=400)
    model = TwoTimescaleQ(env=LaterMixed(900), seed=0).learn(1_000, callback=keeper)
    assert not model.encoding.one_hot
    assert (keeper.best, keeper.best_timesteps) == (None, 0)
    assert model.predict(0.5 * np.eye(9)[0], deterministic=True)[0] in (0, 1)


def test_keep_best_can_go_back_to_before_the_scale_was_frozen():
    class First(KeepBestCallback):
        def _on_step(self):
            go_on = super()._on_step()
            self.best_mean_reward = np.inf
            return go_on

    keeper = First(Monitor(identity_env()), eval_freq=1, n_eval_episodes=1)
    model = make_model(identity_env()).learn(300, callback=keeper)
    assert keeper.best_timesteps == 1
    model.learn(3_000)
    assert model.n_cells > 1


@pytest.mark.parametrize("kind", [TwoTimescaleAC, TwoTimescaleQ, UniformGridQ, KernelQ])
def test_a_policy_of_the_warm_up_is_given_back_without_the_episode_under_way(kind, tmp_path):
    """What is remembered of that episode is of a codebook that the policy does not have."""
    model = kind(env="oda_rl/CartPole-v1", seed=0)
    keeper = KeepBestCallback(Monitor(gym.make("CartPole-v1")), 1, eval_freq=500, restore=False)
    model.learn(500, callback=keeper)
    model.learn(8_000, reset_num_timesteps=False)
    keeper.give_back()
    model.save(tmp_path / "model.npz")
    loaded = kind.load(tmp_path / "model.npz", env="oda_rl/CartPole-v1")
    for one in (model, loaded):
        one.get_env().seed(5)
        one.learn(3_000, reset_num_timesteps=False)
    observations = np.random.default_rng(0).normal(size=(100, 4))
    np.testing.assert_array_equal(
        model.learner.action_values(observations), loaded.learner.action_values(observations)
    )

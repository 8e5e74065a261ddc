"""The compiled loop makes the same steps as the loop in Python."""

import ast
import os
import signal
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from quick_models import assert_same_learning, maker
from stable_baselines3.common.callbacks import (
    BaseCallback,
    CheckpointCallback,
    EvalCallback,
    StopTrainingOnMaxEpisodes,
)
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.monitor import Monitor

import oda_rl.envs  # noqa: F401
from oda_rl.agents import TileCodingSarsa, TwoTimescaleAC, TwoTimescaleQ
from oda_rl.agents.callbacks import CodebookCallback, SnapshotCallback

SHORT = {"warmup_steps": 200, "growth_steps": 2000, "growth_cells": 10, "max_cells": 20}
TASKS = ["oda_rl/CartPole-v1", "oda_rl/MountainCar-v0", "oda_rl/Acrobot-v1", "oda_rl/Pendulum-v1"]
make_model = maker(TwoTimescaleQ, "oda_rl/CartPole-v1", **SHORT, growth_fraction=1.0)


def assert_same(first, second):
    assert_same_learning(first, second)
    assert_same_episodes(first, second)
    assert first.num_timesteps == second.num_timesteps
    assert first._episode_num == second._episode_num
    np.testing.assert_array_equal(first._last_obs, second._last_obs)


def assert_same_episodes(first, second):
    for one, other in zip(first.get_env().envs, second.get_env().envs, strict=True):
        # To the six digits that Monitor reports: Python's own sum is more exact from 3.12 on
        returns = [np.round(env.get_episode_rewards(), 6) for env in (one, other)]
        np.testing.assert_array_equal(*returns)
        assert one.get_episode_lengths() == other.get_episode_lengths()
        assert one.get_total_steps() == other.get_total_steps()


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("options", [{}, {"codebook": "per_action", "bifurcation": "perturb"}])
def test_same_as_step_by_step(task, options):
    """Past the warm-up, several temperatures, blocks of random numbers, and starts of episodes."""
    steps = 9_000
    fused, stepped = make_model(task, **options), make_model(task, **options)
    fused.learn(steps)
    stepped.learn(steps, callback_every=1)
    assert_same(fused, stepped)


def test_same_as_on_gymnasiums_own_environment():
    fused, other = make_model(), make_model("CartPole-v1")
    fused.learn(9_000)
    other.learn(9_000)
    assert_same(fused, other)


@pytest.mark.parametrize("parts", [(150, 4_850), (1_234, 3_766), (4_999, 1)])
def test_python_and_compiled_loop_hand_over_to_each_other(parts):
    mixed, stepped = make_model(exploration_fraction=0.0), make_model(exploration_fraction=0.0)
    stepped.learn(6_000, callback_every=1)
    mixed.learn(parts[0])
    mixed.learn(parts[1], reset_num_timesteps=False)
    mixed.learn(500, reset_num_timesteps=False, callback_every=1)
    mixed.learn(500, reset_num_timesteps=False)
    assert_same(mixed, stepped)


def test_an_interrupt_waits_until_compiled_code_has_ended(monkeypatch):
    model = make_model().learn(500)
    play, made = model.learner.play, []

    def interrupted(*what):
        signal.raise_signal(signal.SIGINT)
        made.append(play(*what))
        return made[-1]

    monkeypatch.setattr(model.learner, "play", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            model.learn(500, reset_num_timesteps=False)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(made) == 1
    assert made[0] > 0


class Clock(BaseCallback):
    """Notes when it was called."""

    def __init__(self):
        super().__init__()
        self.times, self.calls, self.episodes = [], [], 0

    def _on_step(self):
        self.times.append(self.num_timesteps)
        self.calls.append(self.n_calls)
        self.episodes += int(self.locals["dones"].sum())
        assert len(self.locals["infos"]) == len(self.locals["dones"])
        return True


def test_callbacks_count_every_step():
    clock = Clock()
    model = make_model().learn(5_500, callback=[clock], callback_every=500)
    assert clock.times == clock.calls
    assert clock.times[-11:] == list(range(500, 5_501, 500))
    assert clock.episodes == model._episode_num == len(model.get_env().envs[0].get_episode_rewards())


def test_frequencies_are_kept(tmp_path):
    evaluation = EvalCallback(
        Monitor(gym.make("CartPole-v1")),
        eval_freq=2_000,
        n_eval_episodes=1,
        verbose=0,
        log_path=str(tmp_path),
    )
    checkpoint = CheckpointCallback(3_000, str(tmp_path), name_prefix="m")
    make_model().learn(7_000, callback=[evaluation, checkpoint])
    assert evaluation.evaluations_timesteps == [2_000, 4_000, 6_000]
    assert sorted(p.name for p in tmp_path.glob("*.zip")) == ["m_3000_steps.zip", "m_6000_steps.zip"]


def test_stop_on_max_episodes():
    model = make_model()
    model.learn(50_000, callback=StopTrainingOnMaxEpisodes(100), callback_every=100)
    assert 100 <= model._episode_num < 115


def test_wrapped_environments_are_stepped_from_python():
    class Halved(gym.RewardWrapper):
        def reward(self, reward):
            return 0.5 * reward

    model = make_model(Halved(gym.make("oda_rl/CartPole-v1"))).learn(3_000)
    episodes = model.get_env().envs[0]
    np.testing.assert_allclose(
        np.array(episodes.get_episode_rewards()), 0.5 * np.array(episodes.get_episode_lengths())
    )


def test_without_a_monitor():
    from stable_baselines3.common.vec_env import DummyVecEnv

    bare = DummyVecEnv([lambda: gym.make("oda_rl/CartPole-v1")])
    fused, stepped = make_model(bare), make_model()
    fused.learn(4_000)
    stepped.learn(4_000, callback_every=1)
    for name, array in fused.learner.get_state()["slow"]["codebook"].items():
        np.testing.assert_array_equal(array, stepped.learner.get_state()["slow"]["codebook"][name])


def make_several(kind, task, n_envs, **options):
    limits = iter(range(90, 90 + n_envs))  # of another length in each

    def make():
        return gym.make(task, max_episode_steps=next(limits))

    return kind(env=make_vec_env(make, n_envs, seed=7), seed=0, **options)


@pytest.mark.parametrize("task", ["oda_rl/CartPole-v1", "oda_rl/Pendulum-v1"])
@pytest.mark.parametrize("kind", [TwoTimescaleQ, TwoTimescaleAC])
def test_several_environments_are_stepped_as_from_python(kind, task):
    """Rewards that float32 cannot hold, blocks of random numbers, codebooks that change in a round."""
    fused, stepped = (make_several(kind, task, 3, **SHORT) for _ in range(2))
    fused.learn(9_000)
    stepped.learn(9_000, callback_every=1)
    assert_same(fused, stepped)
    for name, array in stepped.learner.get_state()["memory"].items():
        np.testing.assert_array_equal(fused.learner.get_state()["memory"][name], array, err_msg=name)


def test_several_environments_of_a_baseline():
    fused, stepped = (make_several(TileCodingSarsa, "oda_rl/CartPole-v1", 3) for _ in range(2))
    fused.learn(9_000)
    stepped.learn(9_000, callback_every=1)
    assert_same_episodes(fused, stepped)
    np.testing.assert_array_equal(fused.learner.weights, stepped.learner.weights)


def test_several_environments_are_handed_over(tmp_path):
    task = "oda_rl/CartPole-v1"
    mixed, stepped = (make_several(TwoTimescaleAC, task, 3, **SHORT) for _ in range(2))
    stepped.learn(6_000, callback_every=1)
    mixed.learn(3_000, CheckpointCallback(500, str(tmp_path)), planned_timesteps=6_000)
    mixed.learn(600, reset_num_timesteps=False, callback_every=1, planned_timesteps=6_000)
    mixed.learn(2_400, reset_num_timesteps=False)
    assert_same(mixed, stepped)


def test_callbacks_of_several_environments():
    """Where they are due is told in steps of all environments, or in calls; most calls are left out."""
    watched, stepped = (make_several(TwoTimescaleAC, "oda_rl/CartPole-v1", 3, **SHORT) for _ in range(2))
    snapshots = [SnapshotCallback(1_000), SnapshotCallback(1_000)]
    watched.learn(5_001, [snapshots[0], CodebookCallback(2_000)])
    stepped.learn(5_001, [snapshots[1], CodebookCallback(2_000)], callback_every=1)
    taken = [[steps for steps, _ in one.snapshots] for one in snapshots]
    assert taken[0] == taken[1] == [1_002, 2_004, 3_006, 4_008, 5_001]
    assert snapshots[0].n_calls == snapshots[1].n_calls == 1_667
    assert_same(watched, stepped)
    clock = Clock()
    watched.learn(3_000, clock, callback_every=100, reset_num_timesteps=False)
    assert clock.calls[-1] == 1_000
    assert np.diff(clock.times).tolist() == [300] * (len(clock.times) - 1)


def test_environments_of_several_kinds_are_stepped_from_python():
    made = iter(["oda_rl/CartPole-v1", "CartPole-v1"])
    mixed = TwoTimescaleQ(env=make_vec_env(lambda: gym.make(next(made)), 2, seed=7), seed=0, **SHORT)
    same = TwoTimescaleQ(env=make_vec_env("CartPole-v1", 2, seed=7), seed=0, **SHORT)
    assert_same(mixed.learn(4_000), same.learn(4_000))


class Meddling(BaseCallback):
    """Notes the state of the last environment every 1,000 calls, and changes all at call 4,000."""

    def __init__(self, change):
        super().__init__()
        self.change, self.states = change, []

    def _on_step(self):
        envs = [one.unwrapped for one in self.training_env.envs]
        if self.n_calls % 1_000 == 0:
            self.states.append(tuple(envs[-1].get_state()))
        if self.n_calls == 4_000:
            for one, wrapped in zip(envs, self.training_env.envs, strict=True):
                self.change(one, wrapped)
        return True


def lighten(env, _):
    env.gravity, env.force_mag = 1.0, 2.0


CHANGES = [
    lighten,
    lambda env, _: env.set_state([0.0, 0.0, 0.1, 0.0]),
    lambda _, wrapped: wrapped.reset(seed=7),
]


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("change", CHANGES)
def test_what_a_callback_changes_in_an_environment_holds_from_then_on(change, n_envs):
    models, states = [], []
    for callback_every in (1, 1_000):
        env = make_vec_env("oda_rl/CartPole-v1", n_envs, seed=0)
        meddling = Meddling(change)
        model = make_model(env)
        models.append(model.learn(6_000 * n_envs, meddling, callback_every=callback_every))
        states.append(meddling.states)
    assert_same_learning(*models)
    assert models[0]._episode_num == models[1]._episode_num
    assert states[0] == states[1]
    assert len(set(states[0])) == 6


@pytest.mark.parametrize("n_envs", [1, 3])
def test_an_evaluation_in_the_environments_of_the_training_does_not_fail(n_envs):
    model = make_model(make_vec_env("oda_rl/CartPole-v1", n_envs, seed=0))
    model.learn(6_000, EvalCallback(model.get_env(), eval_freq=1_000, n_eval_episodes=2, verbose=0))
    assert model.learn(1_000, reset_num_timesteps=False).num_timesteps >= 7_000


PLAIN = """
import numpy as np
import oda_rl.envs
from oda_rl import ODAClassifier, ODAPartition
from oda_rl.agents import FourierSarsa, TwoTimescaleAC

X = np.random.default_rng(0).uniform(size=(40, 2))
y = (X[:, 0] > 0.5).astype(int)
small = {"warmup_steps": 60, "growth_steps": 100, "growth_cells": 6, "max_cells": 10}
partition = ODAPartition(4, divergence="kl", random_state=0).fit(X)
classifier = ODAClassifier(6, validation=None, random_state=0).partial_fit(X, y)
actor = TwoTimescaleAC(env="oda_rl/Pendulum-v1", seed=0, **small).learn(250)
sarsa = FourierSarsa(env="oda_rl/CartPole-v1", seed=0).learn(100)
found = [
    partition.codevectors_,
    classifier.predict_proba(X),
    actor.learner.codebook.codevectors,
    actor.predict(X[:, [0, 0, 1]].astype(np.float32), deterministic=True)[0],
    sarsa.learner.action_values(X[:, [0, 1, 0, 1]]),
]
"""


def test_without_compilation_the_same_is_learned_in_plain_python():
    code = f"{PLAIN}\nprint([values.ravel().tolist() for values in found])"
    plain = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    names = {}
    exec(PLAIN, names)
    for values, compiled in zip(ast.literal_eval(plain.stdout), names["found"], strict=True):
        np.testing.assert_allclose(values, compiled.ravel(), rtol=1e-6, atol=1e-9)

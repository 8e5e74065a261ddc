"""SB3's callbacks work unchanged, and ours do what they say."""

import gymnasium as gym
import numpy as np
import pytest
from environments import IdentityEnv
from quick_models import make_model
from stable_baselines3.common.callbacks import (
    BaseCallback,
    CheckpointCallback,
    EvalCallback,
    ProgressBarCallback,
    StopTrainingOnMaxEpisodes,
    StopTrainingOnRewardThreshold,
)
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.monitor import Monitor

import oda_rl.envs  # noqa: F401
from oda_rl.agents import TwoTimescaleQ
from oda_rl.agents.callbacks import CodebookCallback
from oda_rl.agents.sb3 import callback_schedule
from oda_rl.agents.sb3.callback_schedule import ProgressBar, count_calls, make_callback

COMPILED = "oda_rl/CartPole-v1"


class Witness(BaseCallback):
    """Notes what a callback of SB3 may rely on."""

    def __init__(self, stop_at=None):
        super().__init__()
        self.stop_at = stop_at
        self.events, self.dones, self.infos = [], [], []

    def _on_training_start(self):
        self.events.append("training_start")
        assert self.locals["total_timesteps"] > 0

    def _on_rollout_start(self):
        self.events.append("rollout_start")

    def _on_rollout_end(self):
        self.events.append("rollout_end")

    def _on_training_end(self):
        self.events.append("training_end")

    def _on_step(self):
        n = self.training_env.num_envs
        for name in ("actions", "rewards", "dones", "new_obs"):
            assert len(self.locals[name]) == n
        self.dones.append(self.locals["dones"].copy())
        self.infos += [info for info in self.locals["infos"] if "terminal_observation" in info]
        return self.num_timesteps != self.stop_at


@pytest.mark.parametrize("n_envs", [1, 3])
def test_order_of_events(n_envs):
    witness = Witness()
    model = make_model(make_vec_env("CartPole-v1", n_envs, seed=0)).learn(600, callback=witness)
    assert witness.n_calls == 600 // n_envs
    assert witness.events[:2] == ["training_start", "rollout_start"]
    assert witness.events[-1] == "training_end"
    assert witness.events.count("rollout_end") == sum(d.any() for d in witness.dones)
    assert len(witness.infos) == sum(d.sum() for d in witness.dones) == model._episode_num
    assert all("TimeLimit.truncated" in info and "episode" in info for info in witness.infos)


class Stores(BaseCallback):
    """Stores what is in one of its locals at each step."""

    def __init__(self, name):
        super().__init__()
        self.name, self.found = name, []

    def _on_step(self):
        self.found += list(self.locals[self.name])
        return True


class Reuses(IdentityEnv):
    """Returns the same array at each step."""

    def _observe(self):
        self.buffer = vars(self).get("buffer", np.zeros(1, dtype=np.float32))
        self.buffer[:] = super()._observe()
        return self.buffer


def test_observations_that_callbacks_store_stay_as_they_are():
    stored, fresh = Stores("new_obs"), Stores("new_obs")
    make_model(Reuses()).learn(300, callback=stored)
    make_model(IdentityEnv()).learn(300, callback=fresh)
    np.testing.assert_array_equal(stored.found, fresh.found)


def test_all_infos_say_whether_a_time_limit_was_reached():
    short, ended = {"max_episode_steps": 20}, []
    envs = gym.make_vec("CartPole-v1", 1, vectorization_mode="sync", **short)
    for env in (gym.make("CartPole-v1", **short), gym.make(COMPILED, **short), envs):
        infos = Stores("infos")
        make_model(env).learn(3_000, callback=infos)
        limits = [info["TimeLimit.truncated"] for info in infos.found]  # at every step, as in SB3
        at_ends = [info["TimeLimit.truncated"] for info in infos.found if "episode" in info]
        assert sum(limits) == sum(at_ends)
        ended.append(at_ends)
    assert ended[0] == ended[1] == ended[2]
    assert set(ended[0]) == {False, True}


def test_a_callback_stops_the_training():
    model = make_model()
    model.learn(1_000, callback=Witness(stop_at=123))
    assert model.num_timesteps == 123


@pytest.mark.parametrize("at", [0, 100, 1_000])
@pytest.mark.parametrize(("env_id", "n_envs"), [("CartPole-v1", 1), ("CartPole-v1", 2), (COMPILED, 2)])
def test_an_environment_that_a_callback_sets_is_learned_from_at_once(env_id, n_envs, at):
    class Harder(BaseCallback):
        def _on_training_start(self):
            if at == 0:
                self.model.set_env(short)

        def _on_step(self):
            if self.num_timesteps == at:
                self.model.set_env(short)
            return True

    def make(limit):
        return make_vec_env(env_id, n_envs, seed=0, env_kwargs={"max_episode_steps": limit})

    short = make(5)
    model = make_model(make(500)).learn(2_000, callback=Harder(), callback_every=100)
    assert model.num_timesteps == 2_000
    lengths = [n for one in short.get_attr("episode_lengths") for n in one]
    assert set(lengths) == {5}
    assert len(lengths) == (2_000 - at) // 5
    model.learn(100, reset_num_timesteps=False)
    assert sum(map(len, short.get_attr("episode_lengths"))) == len(lengths) + 20


def test_a_callback_that_sets_an_environment_may_stop_the_training():
    def stop(locals_, globals_):
        locals_["self"].set_env(gym.make("CartPole-v1"))
        return False

    assert make_model().learn(1_000, callback=stop).num_timesteps == 1


def test_a_function_as_callback():
    seen = []
    make_model().learn(50, callback=lambda locals_, globals_: seen.append(locals_["dones"]) or True)
    assert len(seen) == 50


def test_eval_callback_and_reward_threshold(tmp_path):
    stop = StopTrainingOnRewardThreshold(reward_threshold=20.0, verbose=0)
    evaluation = EvalCallback(
        Monitor(gym.make("CartPole-v1")),
        callback_on_new_best=stop,
        eval_freq=500,
        best_model_save_path=str(tmp_path),
        log_path=str(tmp_path),
        verbose=0,
    )
    model = make_model().learn(20_000, callback=evaluation)
    assert 500 <= model.num_timesteps < 20_000
    assert evaluation.best_mean_reward >= 20.0
    assert TwoTimescaleQ.load(tmp_path / "best_model").n_cells == model.n_cells


def test_checkpoint_callback(tmp_path):
    make_model().learn(1_000, callback=CheckpointCallback(400, str(tmp_path), name_prefix="m"))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["m_400_steps.zip", "m_800_steps.zip"]
    assert TwoTimescaleQ.load(tmp_path / "m_800_steps.zip").num_timesteps == 800


@pytest.mark.parametrize(("name", "shown"), [(None, "TwoTimescaleQ"), ("mine", "mine")])
def test_stop_on_max_episodes(name, shown, capsys):
    model = make_model(make_vec_env("CartPole-v1", 2, seed=0))
    model.learn(10_000, callback=StopTrainingOnMaxEpisodes(5, verbose=1), tb_log_name=name)
    assert 10 <= model._episode_num <= 11
    assert f"the {shown} model reached max_episodes=5" in " ".join(capsys.readouterr().out.split())


def test_progress_bar(capsys):
    make_model().learn(300, callback=ProgressBarCallback())
    make_model().learn(300, progress_bar=True)
    printed = capsys.readouterr()
    assert "300/300" in printed.out + printed.err


class CountingBar(ProgressBar):
    """Notes how often it was called, and what it shows in the end."""

    called = shown = 0

    def _on_step(self):
        CountingBar.called += 1
        return super()._on_step()

    def _on_training_end(self):
        CountingBar.shown = self.pbar.n
        super()._on_training_end()


@pytest.mark.parametrize("env", ["CartPole-v1", "oda_rl/CartPole-v1"])
def test_a_progress_bar_counts_all_steps_in_few_calls(env, monkeypatch):
    monkeypatch.setattr(callback_schedule, "ProgressBar", CountingBar)
    model, counted, CountingBar.called = make_model(env), [], 0
    model.learn(4000, progress_bar=True)
    assert CountingBar.shown == 4000
    assert CountingBar.called < model._episode_num + 200
    model.learn(500, callback=lambda *_: counted.append(1) or True, progress_bar=True, callback_every=1)
    assert (CountingBar.shown, len(counted)) == (500, 500)


def test_a_progress_bar_is_told_ten_times_a_second(monkeypatch):
    """However short the episodes are, at whose ends all callbacks are called; by the clock here."""
    model, ticks, told = make_model(), iter(range(10**6)), []
    monkeypatch.setattr(callback_schedule.time, "monotonic", lambda: next(ticks) / 100)
    bar = make_callback(None, progress_bar=True)
    model.learn(20, callback=bar)
    bar.pbar.display = lambda: told.append(bar.pbar.n)
    first = bar.pbar.n
    for _ in range(1000):
        count_calls(bar, 7)
        bar.on_step()
    assert bar.pbar.n == first + 8000
    assert 180 <= len(told) <= 210


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"log_freq": 0}, "log_freq"),
        ({"figure_freq": -1}, "figure_freq"),
        ({"max_cost": 2.0}, "max_cost"),
    ],
)
def test_codebook_callback_refuses_nonsense(options, name):
    with pytest.raises(ValueError, match=name):
        CodebookCallback(**options)


def test_verbose_codebook_callback_prints_each_temperature_once(capsys):
    callback = CodebookCallback(1_500, verbose=1)
    for _ in range(2):  # a second model's temperatures are printed from the first one on
        model = make_model().learn(2_000, callback=callback)
        model.learn(1_000, callback=callback, reset_num_timesteps=False)
        lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("T ")]
        assert len(lines) == len(model.learner.annealer.history) > 0

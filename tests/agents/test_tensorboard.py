"""What a training writes for TensorBoard, and when it draws."""

import csv
import sys
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from quick_models import make_model
from stable_baselines3.common.callbacks import (
    EvalCallback,
    LogEveryNTimesteps,
)
from stable_baselines3.common.logger import configure
from stable_baselines3.common.monitor import Monitor
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

import oda_rl.envs  # noqa: F401
from oda_rl.agents import FourierSarsa, TwoTimescaleQ, UniformGridQ
from oda_rl.agents.callbacks import CodebookCallback, KeepBestCallback
from oda_rl.agents.sb3 import callbacks
from oda_rl.agents.sb3.tensorboard import Board

PICTURES = {"codebook/greedy_actions", "codebook/value", "codebook/cells_against_temperature"}
TAGS = {
    "oda/temperature",
    "oda/n_codevectors",
    "oda/distortion",
    "oda/n_splits",
    "oda/n_merges",
    "rollout/ep_rew_mean",
    "rollout/ep_len_mean",
    "rollout/exploration_rate",
    "time/fps",
    "train/td_error",
    "train/learning_rate",
    "train/n_updates",
}


def read_tags(folder):
    events = EventAccumulator(str(folder))
    events.Reload()
    return events


def test_tensorboard_tags(tmp_path):
    model = make_model()
    model.set_logger(configure(str(tmp_path), ["tensorboard"]))
    model.learn(3_000, callback=[CodebookCallback(500), LogEveryNTimesteps(1_000)], log_interval=None)
    model.logger.close()
    events = read_tags(tmp_path)
    assert set(events.Tags()["scalars"]) >= TAGS
    assert [point.step for point in events.Scalars("rollout/ep_rew_mean")] == [1_000, 2_000, 3_000]
    cells = [point.value for point in events.Scalars("oda/n_codevectors")]
    assert cells[-1] == model.n_cells
    temperatures = [point.value for point in events.Scalars("oda/temperature")]
    assert temperatures == sorted(temperatures, reverse=True)


def test_tensorboard_log_by_path(tmp_path):
    model = make_model(tensorboard_log=str(tmp_path)).learn(500, log_interval=1)
    assert model.logger.dir is not None
    assert [path.name for path in tmp_path.iterdir()] == ["TwoTimescaleQ_1"]


def test_logged_returns_are_those_of_the_episodes(tmp_path):
    model = make_model(Monitor(gym.make("CartPole-v1"), str(tmp_path / "monitor")))
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(2_000, log_interval=10)
    model.logger.close()
    with open(tmp_path / "progress.csv") as file:
        last = list(csv.DictReader(file))[-1]
    episodes = int(last["time/episodes"])
    returns = model.get_env().envs[0].get_episode_rewards()[:episodes]
    assert float(last["rollout/ep_rew_mean"]) == pytest.approx(np.mean(returns[-100:]))
    assert episodes % 10 == 0


def watch(tmp_path, algorithm=TwoTimescaleQ, env="CartPole-v1", steps=3_000, others=(), **options):
    """A short training with a TensorBoard; what is in its file."""
    quick = algorithm is TwoTimescaleQ
    model = make_model(env) if quick else algorithm(env=env, seed=0, warmup_steps=200)
    model.set_logger(configure(str(tmp_path), ["tensorboard"]))
    callback = CodebookCallback(**options)
    model.learn(steps, callback=[*others, callback])
    model.logger.close()
    events = EventAccumulator(str(tmp_path), size_guidance={"images": 0, "histograms": 0})
    events.Reload()
    return model, callback, events


def hyperparameters(events):
    """The session's hyperparameters, and the tags of the metrics."""
    found = events.summary_metadata
    content = {tag: metadata.plugin_data.content for tag, metadata in found.items()}
    session = HParamsPluginData.FromString(content["_hparams_/session_start_info"]).session_start_info
    experiment = HParamsPluginData.FromString(content["_hparams_/experiment"]).experiment
    return session.hparams, [info.name.tag for info in experiment.metric_infos]


def test_everything_is_there_at_the_end(tmp_path):
    evaluation = EvalCallback(
        Monitor(gym.make("CartPole-v1")), eval_freq=1_000, n_eval_episodes=1, verbose=0
    )
    model, callback, events = watch(tmp_path, others=[evaluation], dimensions=(2, 3))
    tags = events.Tags()
    assert set(tags["images"]) == PICTURES
    assert set(tags["histograms"]) == {"cells/q", "cells/log10_visits", "cells/td_error"}
    assert [event.step for event in events.Images("codebook/value")] == [3_000]
    final = events.Histograms("cells/q")[-1].histogram_value
    q = model.learner.q_values
    assert (final.num, final.min, final.max) == (q.size, pytest.approx(q.min()), pytest.approx(q.max()))
    assert events.Histograms("cells/td_error")[-1].histogram_value.num <= model.n_cells
    assert events.Scalars("oda/n_codevectors")[-1].value == model.n_cells
    assert events.Scalars("oda/n_codevectors")[-1].step == 3_000
    settings, metrics = hyperparameters(events)
    assert settings["algorithm"].string_value == "TwoTimescaleQ"
    assert settings["max_cells"].number_value == 20
    assert settings["gamma"].number_value == model.gamma == 0.99
    assert metrics == ["rollout/ep_rew_mean", "time/fps", "oda/n_codevectors", "eval/mean_reward"]
    assert set(metrics) <= set(tags["scalars"])
    assert callback.seconds["at_end"] > 0.0


def test_the_projector_has_a_row_for_each_cell(tmp_path):
    model, _, _ = watch(tmp_path)
    folder = tmp_path / "3000" if (tmp_path / "3000").exists() else tmp_path / "03000"
    points = np.loadtxt(folder / "codebook" / "tensors.tsv")
    np.testing.assert_allclose(points, model.learner.codebook.codevectors)
    with open(folder / "codebook" / "metadata.tsv") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert list(rows[0]) == ["action", "visits", "value", "level"]
    greedy = model.learner.greedy(model.learner.codevectors.astype(np.float32))
    assert [row["action"] for row in rows] == [["push left", "push right"][a] for a in greedy]
    visits = model.learner.codebook["visits"].sum(axis=0)
    np.testing.assert_allclose([float(row["visits"]) for row in rows], visits, atol=0.5)
    levels = [int(row["level"]) for row in rows]
    assert levels == sorted(levels)
    assert levels[0] == 0
    assert f"{folder.name}/codebook/tensors.tsv" in (tmp_path / "projector_config.pbtxt").read_text()


def test_the_projector_wants_three_dimensions(tmp_path):
    model, _, _ = watch(tmp_path, env="oda_rl/MountainCar-v0")
    points = np.loadtxt(next(tmp_path.glob("*/codebook/tensors.tsv")))
    np.testing.assert_allclose(points[:, :2], model.learner.codebook.codevectors)
    np.testing.assert_array_equal(points[:, 2:], np.zeros((model.n_cells, 1)))


def test_the_cells_of_a_tree_are_told_by_their_branches(tmp_path):
    model = TwoTimescaleQ(env="oda_rl/MountainCar-v0", seed=0, tree=True)
    model.set_logger(configure(str(tmp_path), ["tensorboard"]))
    model.learn(4_000, callback=CodebookCallback(figure_freq=0))
    model.logger.close()
    with open(next(tmp_path.glob("*/codebook/metadata.tsv"))) as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert [int(row["branch"]) for row in rows] == model.learner.codebook.labels.tolist()


@pytest.mark.parametrize(
    ("seconds", "pictures", "histograms"),
    [(0.001, {1_000, 2_000, 3_000}, {1_500, 3_000}), (1_000.0, {3_000}, {3_000})],
)
def test_pictures_during_the_training_keep_to_their_times(
    tmp_path, monkeypatch, seconds, pictures, histograms
):
    """By a clock that runs a second for each look at it, and `seconds` for each drawing."""
    now = 0.0

    def clock():
        nonlocal now
        now += 1.0
        return now

    def slow(draw):
        def drawn(board):
            nonlocal now
            now += seconds - 1.0
            draw(board)

        return drawn

    monkeypatch.setattr(callbacks, "time", SimpleNamespace(perf_counter=clock))
    monkeypatch.setattr(callbacks, "FIRST_GUESS", {"pictures": seconds, "histograms": seconds})
    for name in ("write_pictures", "write_histograms"):
        monkeypatch.setattr(Board, name, slow(getattr(Board, name)))
    options = {"log_freq": 500, "figure_freq": 1_000, "histogram_freq": 1_500, "max_cost": 1.0}
    _, _, events = watch(tmp_path, **options)
    assert {event.step for event in events.Images("codebook/value")} == pictures
    assert {event.step for event in events.Histograms("cells/q")} == histograms


def test_a_policy_from_the_warm_up_is_given_back_before_the_end_and_not_drawn(tmp_path):
    class First(KeepBestCallback):
        def _on_step(self):
            go_on = super()._on_step()
            self.best_mean_reward = np.inf
            return go_on

    keeper = First(Monitor(gym.make("CartPole-v1")), eval_freq=1, n_eval_episodes=1)
    model, _, events = watch(tmp_path, steps=300, others=[keeper])
    assert keeper.best_timesteps == 1
    assert not model.learner.is_scaled
    assert events.Tags()["images"] == []
    assert not (tmp_path / "projector_config.pbtxt").exists()


def test_what_costs_too_much_waits_for_the_end(tmp_path):
    _, callback, events = watch(
        tmp_path, log_freq=100, figure_freq=100, histogram_freq=100, max_cost=0.0
    )
    assert [event.step for event in events.Images("codebook/value")] == [3_000]
    assert callback.seconds["pictures"] == 0.0


def test_what_is_not_wanted_is_not_written(tmp_path):
    options = {"figure_freq": 0, "histogram_freq": 0, "embedding": False, "hparams": False}
    model, _, events = watch(tmp_path, **options)
    tags = events.Tags()
    assert not tags["images"]
    assert not tags["histograms"]
    assert model.learner.td_errors is None
    assert [path for path in tmp_path.iterdir() if "tfevents" not in path.name] == []
    assert "_hparams_/experiment" not in events.summary_metadata


@pytest.mark.parametrize("algorithm", [UniformGridQ, FourierSarsa])
def test_of_the_baselines_what_they_have(tmp_path, algorithm):
    model, _, events = watch(tmp_path, algorithm, steps=1_000)
    tags = events.Tags()
    assert set(tags["images"]) == PICTURES - {"codebook/cells_against_temperature"}
    assert "cells/q" in tags["histograms"]
    assert "cells/td_error" not in tags["histograms"]
    assert not [tag for tag in tags["scalars"] if tag.startswith("oda/")]
    assert not (tmp_path / "projector_config.pbtxt").exists()
    assert hyperparameters(events)[0]["algorithm"].string_value == type(model).__name__


def test_continuous_actions_on_the_board(tmp_path):
    model, _, events = watch(tmp_path, env="oda_rl/Pendulum-v1")
    assert set(events.Tags()["images"]) == PICTURES
    with open(next(tmp_path.glob("*/codebook/metadata.tsv"))) as file:
        actions = [float(row["action"]) for row in csv.DictReader(file, delimiter="\t")]
    assert len(actions) == model.n_cells
    assert max(np.abs(actions)) <= 2.0


def test_without_a_tensorboard_nothing_is_drawn(tmp_path):
    model = make_model()
    model.set_logger(configure(str(tmp_path), ["csv"]))
    callback = CodebookCallback(500)
    model.learn(2_000, callback=callback)
    model.logger.close()
    assert [path.name for path in tmp_path.iterdir()] == ["progress.csv"]
    assert model.learner.td_errors is None


def test_matplotlib_is_not_imported_for_numbers(tmp_path, monkeypatch):
    loaded = [name for name in sys.modules if name.split(".")[0] == "matplotlib"]
    for name in {"matplotlib", *loaded}:
        monkeypatch.setitem(sys.modules, name, None)  # importing it would raise an error
    _, _, events = watch(tmp_path, figure_freq=0)
    assert events.Tags()["histograms"]

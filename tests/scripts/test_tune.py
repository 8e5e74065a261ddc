"""The search for hyperparameters."""

import json
import shlex
import socket
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import tyro
from environments import SpacesEnv
from gymnasium import spaces

from oda_rl.agents import TwoTimescaleAC, TwoTimescaleQ

optuna = pytest.importorskip("optuna")
OperationalError = pytest.importorskip("sqlalchemy").exc.OperationalError

BRIEFLY = ("--env-id", "oda_rl/CartPole-v1", "--algorithm", "TwoTimescaleAC", "--n-jobs", 1)
STEPS = ("--total-timesteps", 1200, "--rungs", 3, "--eval-episodes", 2, "--seeds", 100)


@pytest.fixture
def tuning(module):
    return module("benchmarks.tuning")


@pytest.fixture
def task(tuning):
    return tuning.Task("TwoTimescaleAC", "oda_rl/CartPole-v1", 1200, (100, 101), 3, 2)


def test_the_same_command_goes_on_with_the_study(run, tmp_path, monkeypatch):
    own = ("--storage", f"sqlite:///{tmp_path / 'the db' / 'study.db'}", "--log-dir", tmp_path)
    typed = [*BRIEFLY, *STEPS, *own, "--n-trials", 2, "--report-seeds", 0]
    monkeypatch.setattr(sys, "argv", ["tune.py", *map(str, typed)])
    code, output = run("tune", *typed)
    assert code == 0, output
    told_next = [shlex.split(line) for line in output.splitlines() if "study.db" in line]
    changed = [*BRIEFLY, *STEPS, *own, "--report-seeds", 0, "--n-trials", 4]
    assert told_next[0] == ["python", "scripts/tune.py", *map(str, changed)]
    assert told_next[1] == ["optuna-dashboard", own[1]]
    assert "trial 1: " in output
    assert "defaults" in output
    name = "TwoTimescaleAC-oda_rl/CartPole-v1-1200-seeds-100-rungs-3-episodes-2"
    study = optuna.load_study(study_name=name, storage=own[1])
    assert len(study.trials) == 2
    told = json.loads((tmp_path / f"{name.replace('/', '-')}.json").read_text())
    assert told["value"] == study.best_value
    assert f"--gamma {told['hyperparameters']['gamma']:.6g}" in output
    code, output = run("tune", *BRIEFLY, *STEPS, *own, "--n-trials", 3, "--report-seeds")
    assert code == 0, output
    assert "trial 2: " in output
    assert "trial 1: " not in output
    tried = [trial.params for trial in optuna.load_study(study_name=name, storage=own[1]).trials]
    assert len(tried) == 3
    assert tried[1] != tried[2]


BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)


@pytest.mark.parametrize("kind", [TwoTimescaleAC, TwoTimescaleQ])
@pytest.mark.parametrize(
    ("seen", "actions"),
    [
        (BOX, spaces.Discrete(3)),
        (BOX, spaces.Box(-2.0, 1.0, (1,), np.float32)),
        (BOX, spaces.MultiDiscrete([2, 3])),
        (BOX, spaces.MultiBinary(6)),
        (spaces.Discrete(5), spaces.Discrete(3)),
    ],
    ids=["discrete", "box", "multi-discrete", "multi-binary", "table"],
)
def test_the_first_trial_has_the_defaults(kind, seen, actions, module):
    own = module("common.search_spaces")
    env = SpacesEnv(seen, actions)
    model, study = kind(env=env, seed=0), optuna.create_study()
    study.enqueue_trial(own.defaults_of(model))
    space = own.space_of(model)
    tried = kind(env=env, seed=0, **own.suggest(study.ask(), space))
    assert tried.learner.sizes == model.learner.sizes
    assert tried.learner.slow.plan == model.learner.slow.plan
    for name in ("settings", "counters"):
        given, found = (getattr(one.learner.numbers, name) for one in (model, tried))
        np.testing.assert_array_equal(found, given)
    for name in own.to_hyperparameters(dict.fromkeys(space, 0.0)):
        assert getattr(model.config, name) in (None, getattr(tried.config, name))
    for name, value in own.defaults_of(model).items():
        assert space[name].low <= value <= space[name].high


def test_the_default_warm_up_depends_on_the_run(module):
    model = TwoTimescaleAC(env="CartPole-v1", seed=0)
    model.learner.set_horizon(10_000)
    assert module("common.search_spaces").defaults_of(model)["warmup_steps"] == 1_000


@pytest.mark.parametrize("kind", [TwoTimescaleAC, TwoTimescaleQ])
def test_what_has_no_effect_in_a_table_is_not_searched(kind, module):
    own = module("common.search_spaces")

    def learned(**options):
        model = kind(env="FrozenLake-v1", seed=0, **options).learn(1_000)
        return model, model.learner.codebook["q"].tobytes()

    model, usual = learned()
    whole = own.SPACES[kind.__name__]
    left_out = whole.keys() - own.space_of(model).keys()
    assert {"softness", "max_cells", "warmup_steps"} <= left_out
    lowest = own.to_hyperparameters({name: whole[name].low for name in left_out})
    assert learned(**lowest)[1] == usual
    if kind is TwoTimescaleQ:
        assert own.space_of(model).keys() == {"one_minus_gamma", "one_minus_trace_decay"}


def test_rungs_make_the_training_that_is_not_divided(tuning, task):
    options, models = {"gamma": 0.98}, []
    for rung in (1, 2, 3):
        value, models = tuning.train_rung(task, options, rung, models)
    whole, _ = tuning.train_rung(replace(task, rungs=1), options, 1, [])
    assert value == whole


def test_a_trial_of_a_process_that_is_no_more_is_made_again(tuning):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    study = optuna.create_study(direction="maximize")
    for pid in (gone.pid, "1"):
        trial = study.ask()
        trial.suggest_float("gamma", 0.9, 0.99)
        trial.set_user_attr(tuning.OWNER, f"{socket.gethostname()}:{pid}")
    assert tuning.requeue_lost(study) == 1
    states = [trial.state.name for trial in study.trials]
    assert states == ["FAIL", "RUNNING", "WAITING"]
    again = study.ask()
    assert again.suggest_float("gamma", 0.9, 0.99) == study.trials[0].params["gamma"]


def test_a_trial_made_again_has_the_values_that_were_planned_for_it(tuning, monkeypatch):
    waited = []
    monkeypatch.setattr(tuning.time, "sleep", waited.append)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    study = optuna.create_study(direction="maximize")
    for owner in ({tuning.OWNER: f"{socket.gethostname()}:{gone.pid}"}, {}):  # {}: killed before it
        study.enqueue_trial({"gamma": 0.95, "softness": 3.0})
        trial = study.ask()
        for name, value in owner.items():
            trial.set_user_attr(name, value)
        trial.suggest_float("gamma", 0.9, 0.99)  # and then killed
        assert tuning.requeue_lost(study) == 1
        again = study.ask()
        assert again.suggest_float("gamma", 0.9, 0.99) == 0.95
        assert again.suggest_float("softness", 1.0, 4.0) == 3.0
        study.tell(again, 0.0)
    assert waited == [tuning.PATIENCE]


def test_a_trial_that_has_just_begun_is_not_taken_for_a_lost_one(tuning, monkeypatch):
    study = optuna.create_study(direction="maximize")
    first, begun = study.ask(), []

    def meanwhile(_):
        first.set_user_attr(tuning.OWNER, f"{socket.gethostname()}:1")
        begun.append(study.ask())

    monkeypatch.setattr(tuning.time, "sleep", meanwhile)
    assert tuning.requeue_lost(study) == 0
    assert [trial.state.name for trial in study.trials] == ["RUNNING"] * 2


def test_a_storage_that_others_are_making_is_opened_again(tuning, tmp_path, monkeypatch):
    opened, real = [], optuna.storages.get_storage

    def busy(url):
        opened.append(url)
        if len(opened) < 3:
            raise OperationalError("CREATE TABLE", {}, Exception("table already exists"))
        return real(url)

    monkeypatch.setattr(optuna.storages, "get_storage", busy)
    monkeypatch.setattr(tuning.time, "sleep", lambda _: None)
    url = f"sqlite:///{tmp_path / 'db' / 'study.db'}"
    storage = tuning.open_storage(url)
    assert opened == [url] * 3
    assert optuna.create_study(storage=storage).trials == []


def test_what_does_not_get_better_is_pruned(tuning, task, monkeypatch):
    rungs = []

    def made(task, options, rung, models):
        rungs.append(rung)
        return -float(len(rungs)), [b""]

    monkeypatch.setattr(tuning, "train_rung", made)
    study = optuna.create_study(
        direction="maximize", pruner=optuna.pruners.SuccessiveHalvingPruner(1, reduction_factor=2)
    )
    ended = list(tuning.search(study, task, {}, 4, tuning.Workers()))
    assert [trial.state.name for trial in ended] == ["COMPLETE"] + ["PRUNED"] * 3
    assert rungs == [1, 2, 3, 1, 1, 1]


def test_a_pruned_trial_is_no_result(run, script, tuning, tmp_path, monkeypatch):
    monkeypatch.setattr(script("tune"), "warm_up", lambda plan: None)
    monkeypatch.setattr(tuning, "train_rung", lambda *_: (2.5, [b""]))
    monkeypatch.setattr(optuna.Trial, "should_prune", lambda trial: trial.number == 0)
    own = ("--storage", f"sqlite:///{tmp_path / 'study.db'}", "--log-dir", tmp_path)
    typed = [*BRIEFLY, *STEPS, *own, "--report-seeds"]
    code, output = run("tune", *typed, "--n-trials", 1)
    assert code == 1
    assert "trial 0: pruned" in output
    assert "No trial is complete: 1 trial pruned." in output
    code, output = run("tune", *typed, "--n-trials", 2)
    assert code == 0
    assert "trial 1: 2.500" in output


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.8, "0.800"), (0.75, "0.750"), (-22.25, "-22.25"), (-322.71, "-322.7"), (-1106.8, "-1107")],
)
def test_small_returns_have_more_decimals(value, text, module):
    assert module("common.tables").return_text(value) == text


def test_seeds_by_which_is_chosen_are_not_reported(run, tmp_path):
    code, output = run("tune", *BRIEFLY, "--seeds", 3, "--storage", f"sqlite:///{tmp_path}/x.db")
    assert code == 2
    assert "--report-seeds must differ from --seeds" in output
    assert not (tmp_path / "x.db").exists()


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        (("--algorithm", "TwoTimescaleQ"), "--algorithm TwoTimescaleAC (got TwoTimescaleQ)"),
        (("--env-id", "oda_rl/Acrobot-v1"), "--env-id oda_rl/CartPole-v1 (got oda_rl/Acrobot-v1)"),
        (("--seeds", 100, 102), "--seeds 100 (got 100 102)"),
        (("--rungs", 2, "--eval-episodes", 3), "--rungs 3 (got 2), --eval-episodes 2 (got 3)"),
    ],
)
def test_a_study_has_one_task(changed, named, run, script, tmp_path):
    own = ("--storage", f"sqlite:///{tmp_path / 'study.db'}", "--log-dir", tmp_path)
    tune = script("tune")
    typed = [str(word) for word in (*BRIEFLY, *STEPS, *own, "--study-name", "mine")]
    args = tyro.cli(tune.Args, args=typed)
    task, _, defaults = tune.prepare(args)
    study = tune.make_study(args, task, defaults)
    assert (
        tune.make_study(replace(args, n_trials=60, report_seeds=(1,)), task, {}).trials == study.trials
    )
    code, output = run("tune", *typed, *changed)
    assert (code, output.count("\n")) == (2, 1)
    assert f"The trials of the study mine have {named}; give the same, or another" in output
    assert [trial.state.name for trial in study.trials] == ["WAITING"]


def test_a_study_without_a_stored_task_is_refused(run, tmp_path):
    url = f"sqlite:///{tmp_path / 'study.db'}"
    optuna.create_study(study_name="old", storage=url).enqueue_trial({"gamma": 0.9})
    code, output = run("tune", *BRIEFLY, *STEPS, "--storage", url, "--study-name", "old")
    assert code == 2
    assert "The study old does not contain its --env-id" in output


@pytest.mark.parametrize("storage", ["nowhere", "sqlite:////proc/study.db"])
def test_a_storage_that_cannot_be_is_named(storage, run, tuning, tmp_path, monkeypatch):
    monkeypatch.setattr(tuning, "OPENINGS", 1)
    code, output = run("tune", *BRIEFLY, *STEPS, "--storage", storage, "--log-dir", tmp_path)
    assert (code, f"The study cannot be stored in {storage}: " in output) == (2, True)

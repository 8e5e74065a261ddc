"""Attacks as `scripts/torture.py` makes them, on small models, and that each verdict can come about."""

import io
import multiprocessing
import os
import pickle
import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from oda_rl._jit import vector_kernel
from oda_rl.codebook.association import smallest

QUICK = ["ODAPartition, waiting", "ODAClassifier, stream", "Tree, waiting", "UniformGridQ", "KernelQ"]


@pytest.mark.parametrize("attack", ["edited files", "every number", "flipped bits", "cut files"])
def test_small_models_withstand(run, attack):
    code, told = run("torture", "--only", attack, "--trials", 50, "--models", *QUICK)
    assert code == 0, told
    assert "50 trials" in told
    assert "nothing went wrong" in told


def verdicts(module, trial, n=3):
    found = list(module("attacks.trials").run_trials(trial, range(n), [0]))
    return [outcome.verdict for outcome in found]


def test_a_crash_is_a_verdict_and_the_others_follow(module):
    def trial(number, rng, begin):
        begin("a model", "what was done")
        if number == 1:
            os.kill(os.getpid(), signal.SIGSEGV)
        return module("attacks.trials").Found("refused")

    assert verdicts(module, trial) == ["refused", "crash", "refused"]


def test_errors_and_code_that_runs_are_verdicts(module):
    def trial(number, rng, begin):
        begin("a model", "what was done")
        if number == 0:
            raise KeyError("raw")
        if number == 1:
            os.system("true")
        if number == 2:
            pickle.loads(pickle.dumps(Path("model.npz")))
        return Found("equal")

    Found = module("attacks.trials").Found
    assert verdicts(module, trial, 4) == ["raw error", "ran code", "ran code", "equal"]


def test_the_compiled_code_that_numba_reads_is_no_code_of_a_file(module, monkeypatch):
    smallest(np.ones(3), 3)  # compiled, and on the disk

    def trial(number, rng, begin):
        begin("a model", "a kernel is read from the disk")
        vector_kernel(smallest.py_func)(np.ones(3), 3)
        return module("attacks.trials").Found("equal")

    assert verdicts(module, trial, 1) == ["equal"]
    monkeypatch.setattr(module("attacks.trials"), "OWN_READING", ())
    assert verdicts(module, trial, 1) == ["ran code"]


def test_trials_that_nobody_asks_for_any_more_end(module):
    def trial(number, rng, begin):
        time.sleep(1e6 * number)
        return module("attacks.trials").Found("equal")

    trials = module("attacks.trials").run_trials(trial, range(3), [0])
    assert next(trials).verdict == "equal"
    trials.close()
    assert multiprocessing.active_children() == []


def test_trials_are_the_same_again(module):
    def trial(number, rng, begin):
        return module("attacks.trials").Found(str(rng.integers(10**9)))

    assert verdicts(module, trial) == verdicts(module, trial)


def test_edits_are_noticed(module):
    files, models = module("attacks.files"), module("attacks.models")
    kind, content = models.model_bytes(QUICK[0])
    answers, _ = files.reference(QUICK[0])
    assert files._judge(kind, content, answers)[0] == "equal"
    assert files._judge(kind, content[:-30], answers)[0] == "refused"
    opened = module("attacks.edits").Opened(content)
    opened.header["state"]["run"]["n_seen"] = -1
    found = files._judge(kind, opened.written(), answers)
    assert found.verdict == "refused"
    assert "'run/n_seen' is -1" in found.detail
    opened = module("attacks.edits").Opened(content)
    opened.arrays["run/buffer"] = opened.arrays["run/buffer"] + 1.0
    assert files._judge(kind, opened.written(), answers)[0] == "valid"
    assert all(np.isfinite(part).all() for part in answers)


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("TwoTimescaleQ, table", "learner/warm_up/scale", 1e-300),
        ("TwoTimescaleQ, table", "learner/warm_up/centre", 1.0),
        ("TwoTimescaleQ, table", "learner/warm_up/highest", 0.0),
        ("DistilledPolicy", "learner/high", -1e308),
        ("DistilledPolicy", "learner/high", -np.inf),
        ("DistilledPolicy", "learner/low", 1e80),
        ("TwoTimescaleQ, table", "learner/figures", -1.0),
        ("TwoTimescaleQ, table", "learner/counters", 0),
        ("TwoTimescaleQ, table", "learner/counters", 1),
        ("TwoTimescaleAC, tree", "learner/slow/codebook/payload", 1e9),
        ("TwoTimescaleAC, continuous", "learner/figures", 1.7e308),
        ("ODAPartition, stream", "fitted/weights_", 0.0),
        ("TwoTimescaleQ, tree", "learner/memory/norm", 0.0),
        ("TwoTimescaleQ, warming up", "learner/warm_up/seen", 1e150),
        ("TwoTimescaleQ, table", "hyperparameters/slow_a", 1.7e308),
        ("ODARegressor, stream", "run/scaling/high", -np.inf),
        ("ODARegressor, stream", "run/scaling/deviation", 1e-300),
        ("ODARegressor, stream", "run/scaling/mean", 1e100),
        ("Tree of outputs", "units/deviation", 1e-300),
        ("ODAPartition, stream", "run/buffer", 1e100),
        ("ODAPartition, stream", "fitted/scale_", 1e-300),
        ("Tree of outputs", "session/features/maps/0/fitted/map_/fitted/mean_", 1e100),
        ("Tree, waiting", "parameters/resolutions", 0),
        ("Tree, waiting", "parameters/layers", 2**31),
    ],
)
def test_numbers_that_lead_nowhere_are_refused(name, place, value, module):
    files, (kind, content) = module("attacks.files"), module("attacks.models").model_bytes(name)
    kind.load(io.BytesIO(content))
    opened = module("attacks.edits").Opened(content)
    if place in opened.arrays:
        opened.arrays[place] = np.full_like(opened.arrays[place], value)
    else:
        around, _, key = place.rpartition("/")
        opened.at(around)[key] = value
    found = files._judge(kind, opened.written(), [])
    assert found.verdict == "refused", found
    assert re.search(
        "learner/|resolution|buffer|scale_|weights_|scaling|units|layers|slow_a", found.detail
    )


def test_what_a_history_tells_takes_no_memory(module):
    files, name = module("attacks.files"), "ODAClassifier, stream"
    kind, content = module("attacks.models").model_bytes(name)
    opened = module("attacks.edits").Opened(content)
    opened.at("session/runs/0/1/annealer/history/0")[1] = 10**12  # codevectors
    found = files._judge(kind, opened.written(), files.reference(name)[0])
    assert found.verdict == "equal", found


def outcomes(attack, numbers):
    begun = []
    for number in numbers:
        rng = np.random.default_rng(number)
        yield attack(number, rng, lambda *told: begun.append(told))[0]
    assert len(begun) >= len(numbers)


def test_numbers_end_finite_or_in_a_named_error(module):
    estimators = module("attacks.estimators")
    found = list(outcomes(estimators.attack_with_numbers, range(170, 230, 13)))
    assert set(found) <= {"refused", "equal", "valid"}, found


@pytest.mark.parametrize("name", ["ODAClassifier", "Tree of classes"])
def test_classifiers_accept_the_values_that_their_parameters_are_changed_to(name, module):
    estimators = module("attacks.estimators")
    for parameter in ("rule", "local_model"):
        for value in estimators.OF_CLASSIFIERS[parameter]:
            model = estimators.SMALL[name]()
            [key] = [key for key in model.get_params() if key.rpartition("__")[2] == parameter]
            model.set_params(**{key: value})
            assert estimators.learn(model, name, "fit", np.arange(240)) == ""


def test_models_go_on_from_states_of_elsewhere(module):
    learners = module("attacks.learners")
    names = list(learners.CASES)
    some = [names.index(name) for name in ("TwoTimescaleQ", "UniformGridQ", "KernelQ")]
    assert set(outcomes(learners.attack_learners, some)) == {"equal"}
    assert set(outcomes(learners.attack_trainings, some)) == {"equal"}
    estimators = module("attacks.estimators")
    assert set(outcomes(estimators.attack_states, range(3))) <= {"equal", "refused"}


def test_half_learned_and_half_copied_models_are_noticed(module, monkeypatch):
    learners = module("attacks.learners")
    learner = learners.agents.UniformGridQ(env=learners.CART, seed=0).learner
    monkeypatch.setattr(type(learner), "set_state", lambda self, state: None)
    grid = list(learners.CASES).index("UniformGridQ")
    assert list(outcomes(learners.attack_learners, [grid])) == ["wrong"]
    estimators = module("attacks.estimators")
    for copy in estimators.COPIES:
        monkeypatch.setitem(estimators.COPIES, copy, clone)
    assert list(outcomes(estimators.attack_states, [0])) == ["wrong"]


def test_lies_of_environments_are_told_with_their_step(module):
    environments = module("attacks.environments")
    agents = 2 * len(environments.AGENTS)
    faults = [environments.FAULTS.index(one) for one in [("observation", "longer"), ("reward", "NaN")]]
    found = list(outcomes(environments.attack, [fault * agents + 8 for fault in faults]))
    assert found == ["refused", "refused"]


def test_threads_get_the_right_actions(module, monkeypatch):
    learners = module("attacks.learners")
    monkeypatch.setattr(learners, "ACTIONS", 4000)
    monkeypatch.setattr(learners, "LEARN_STEPS", 300)
    grid = learners.THREADED.index("UniformGridQ")
    assert list(outcomes(learners.attack_with_threads, [grid])) == ["equal"]


def test_commands_end_with_a_line_on_any_disk_and_from_any_file(module):
    commands = module("attacks.commands")
    module("oda_rl.agents.export")  # once for all children
    module("oda_rl.agents.models")
    numbers = [
        range(names.index("export to C"), len(names) * len(changes), len(names))
        for names, changes in [(commands.WRITING, commands.FAULTS), (commands.READING, commands.OTHERS)]
    ]
    full, *others = outcomes(commands.attack_disks, numbers[0])
    assert full in ("refused", "valid")  # by the bytes that a file may have
    assert set(others) == {"refused"}
    assert set(outcomes(commands.attack_readers, numbers[1])) == {"refused"}


def test_a_command_that_breaks_is_noticed(module):
    commands, trials = module("attacks.commands"), module("attacks.trials")
    judged = {
        (0, "written"): "valid",
        (2, "it cannot be"): "refused",
        (1, "Traceback (most recent call last):\nKeyError: 1"): "raw error",
        (1, ""): "wrong",
        (-11, ""): "crash",
        (None, ""): "hang",
    }
    for ended, verdict in judged.items():
        assert commands.judge(commands.Ended(*ended)).verdict == verdict
    broken = commands.Command(("export", "no-such.npz"), lambda: os.kill(os.getpid(), signal.SIGKILL))
    assert commands.judge(broken.wait()) == trials.Found("crash", "signal 9")


def test_a_command_that_hangs_is_killed_and_joined(module, tmp_path):
    (tmp_path / "hang.py").write_text("import time; time.sleep(600)")
    command = module("attacks.commands").Command([str(tmp_path / "hang")])
    assert command.wait(0.1).code is None
    assert command._process.exitcode == -signal.SIGKILL


def test_what_a_killed_command_leaves_is_looked_at(module, tmp_path):
    kills = module("attacks.kills")
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "steps-2000.npz").write_bytes(module("attacks.models").model_bytes(QUICK[0])[1])
    reached = 2000 + kills.SAVE_FREQ
    assert kills.check_files(tmp_path, reached) == ""
    assert kills.check_files(tmp_path, reached + 1) == f"step {reached + 1} was reached, 2000 is kept"
    (tmp_path / "config.json").write_text("{")
    assert "config.json cannot be read" in kills.check_files(tmp_path, 0)


def test_a_soak_counts_and_looks_at_what_was_learned(module, monkeypatch):
    soak = module("attacks.soak")
    for name in ("SAMPLES", "GROUPS"):
        monkeypatch.setattr(soak, name, getattr(soak, name)[:1000])
    monkeypatch.setattr(soak, "CHUNK", 1000)
    monkeypatch.setattr(soak, "TURNS", 1)
    monkeypatch.setattr(soak, "COPIES", 1)
    monkeypatch.setattr(soak, "TIMED", 0.0)
    at_first, _, times, saving, trouble = soak.soak_one("ODAPartition", 10_000)
    assert min(at_first, *times, saving) > 0.0
    assert trouble == ""
    model = soak.SOAKED["ODAPartition"][0]()
    soak.stream(model, 2000)
    assert soak.check(model, 2000) == ""
    assert soak.check(model, 3000) == "2000 are counted"
    model.codevectors_[0] = np.nan
    assert soak.check(model, 2000) == "not finite"

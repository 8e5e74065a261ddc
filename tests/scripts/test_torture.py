"""Attacks as `scripts/torture.py` makes them, on small models, and that each verdict can come about."""

import os
import signal

import numpy as np
import pytest

QUICK = ["ODAPartition, waiting", "ODAClassifier, stream", "Tree, waiting", "UniformGridQ", "KernelQ"]


@pytest.mark.parametrize("attack", ["edited files", "flipped bits", "cut files"])
def test_small_models_withstand(run, attack):
    code, told = run("torture", "--only", attack, "--trials", 150, "--models", *QUICK)
    assert code == 0, told
    assert "150 trials" in told
    assert "nothing went wrong" in told


def verdicts(module, trial, n=3):
    found = list(module("attacks.trials").run_trials(trial, range(n), [0]))
    return [outcome.verdict for outcome in found]


def test_a_crash_is_a_verdict_and_the_others_follow(module):
    def trial(number, rng, begin):
        begin("a model", "what was done")
        if number == 1:
            os.kill(os.getpid(), signal.SIGSEGV)
        return "refused", "", 0.0

    assert verdicts(module, trial) == ["refused", "crash", "refused"]


def test_errors_and_code_that_runs_are_verdicts(module):
    def trial(number, rng, begin):
        begin("a model", "what was done")
        if number == 0:
            raise KeyError("raw")
        if number == 1:
            os.system("true")
        return "equal", "", 0.0

    assert verdicts(module, trial) == ["raw error", "ran code", "equal"]


def test_trials_are_the_same_again(module):
    def trial(number, rng, begin):
        return str(rng.integers(10**9)), "", 0.0

    assert verdicts(module, trial) == verdicts(module, trial)


def test_edits_are_noticed(module):
    files, models = module("attacks.files"), module("attacks.models")
    kind, content = models.model_bytes(QUICK[0])
    answers, _ = files.honest(QUICK[0])
    assert files._judge(kind, content, answers)[0] == "equal"
    assert files._judge(kind, content[:-30], answers)[0] == "refused"
    opened = module("attacks.edits").Opened(content)
    opened.header["state"]["run"]["n_seen"] = -1
    verdict, told = files._judge(kind, opened.written(), answers)
    assert verdict == "refused"
    assert "'run/n_seen' is -1" in told
    opened = module("attacks.edits").Opened(content)
    opened.arrays["run/buffer"] = opened.arrays["run/buffer"] + 1.0
    assert files._judge(kind, opened.written(), answers)[0] == "valid"
    assert all(np.isfinite(part).all() for part in answers)


def outcomes(attack, numbers):
    begun = []
    for number in numbers:
        rng = np.random.default_rng(number)
        yield attack(number, rng, lambda *told: begun.append(told))[0]
    assert len(begun) == len(numbers)


def test_numbers_end_finite_or_in_a_named_error(module):
    numbers = module("attacks.numbers")
    found = list(outcomes(numbers.attack, range(170, 230, 13)))
    assert set(found) <= {"refused", "equal", "valid"}, found


def test_lies_of_environments_are_told_with_their_step(module):
    environments = module("attacks.environments")
    agents = 2 * len(environments.AGENTS)
    lies = [environments.LIES.index(lie) for lie in [("observation", "longer"), ("reward", "NaN")]]
    found = list(outcomes(environments.attack, [lie * agents + 8 for lie in lies]))
    assert found == ["refused", "refused"]


def test_threads_get_the_right_actions(module, monkeypatch):
    threads = module("attacks.threads")
    monkeypatch.setattr(threads, "ACTIONS", 4000)
    monkeypatch.setattr(threads, "LEARN_STEPS", 300)
    assert list(outcomes(threads.attack, [threads.NAMES.index("UniformGridQ")])) == ["equal"]

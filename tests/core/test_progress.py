"""What learning prints of itself."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_iris

from oda_rl import MultiResolutionODA, ODAClassifier, ODAPartition, ODARegressor
from oda_rl._jit import kernel
from oda_rl.estimators.progress import Progress, reporting

X, Y = load_iris(return_X_y=True)
ESTIMATORS = [
    (ODAPartition(4, random_state=0), []),
    (ODARegressor(6, random_state=0), ["pilot 2 of 2: T = ", "cells: T = "]),
    (ODAClassifier(random_state=0), ["without part 3 of 3: T = ", "all samples: T = "]),
    (MultiResolutionODA(ODAClassifier(), layers=2, random_state=0), ["layer 2, "]),
]
IDS = [type(model).__name__ for model, _ in ESTIMATORS]


@pytest.mark.parametrize(("model", "stages"), ESTIMATORS, ids=IDS)
def test_a_fit_tells_of_its_steps(model, stages, capsys):
    name = type(model).__name__
    quiet = model.set_params(verbose=0).fit(X, Y).predict(X)
    assert capsys.readouterr().out == ""
    np.testing.assert_array_equal(model.set_params(verbose=2).fit(X, Y).predict(X), quiet)
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith(f"[{name}] ") and line.endswith(" s") for line in lines)
    assert f"fitted {model.n_codevectors_} codevectors" in lines[-1]
    assert all(any(stage in line for line in lines) for stage in stages)


def test_every_temperature_has_a_line_or_few_have(capsys):
    model = ODAPartition(4, random_state=0, verbose=2).fit(X)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(model.history_) + 1
    for line, point in zip(lines, model.history_, strict=False):
        assert f"T = {point.temperature:.3g}, K = {point.n_codevectors}, " in line
    few = model.set_params(verbose=1).fit(X)
    assert few.n_codevectors_ == 4
    assert len(capsys.readouterr().out.splitlines()) < len(lines)


def test_a_stream_tells_of_its_steps_too(capsys):
    model = ODAPartition(4, random_state=0, verbose=2, n_warmup=20, forgetting=None)
    for chunk in np.array_split(np.random.default_rng(0).permutation(X), 5):
        model.partial_fit(chunk)
    assert len(capsys.readouterr().out.splitlines()) == len(model.history_)


def test_early_fits_of_a_stream_are_silent(capsys):
    samples = np.random.default_rng(0).permutation(X)[:70]
    model = ODAPartition(4, random_state=0, verbose=2).partial_fit(samples)
    assert model.n_codevectors_ == 4
    assert "T =" not in capsys.readouterr().out


def test_a_fit_after_a_verbose_stream_reports_its_own_seconds(capsys):
    model = ODAPartition(4, random_state=0, verbose=2).partial_fit(X)
    assert not hasattr(pickle.loads(pickle.dumps(model)), "_progress")
    model._progress.begun -= 1000.0
    model.fit(X)
    assert float(capsys.readouterr().out.split(", ")[-1].removesuffix(" s\n")) < 1000.0
    model.partial_fit(X)
    capsys.readouterr()
    model.set_params(verbose=0).fit(X)
    assert capsys.readouterr().out == ""


def test_a_word_while_compiling(capsys):
    scope = {}
    exec("def double(x):\n    return 2.0 * x", scope)  # without a file it is compiled every time
    with reporting(Progress("name"), 1):
        assert kernel(scope["double"])(3.0) == 6.0
    assert capsys.readouterr().out.startswith("[name] compiling: the first use")
    exec("def half(x):\n    return 0.5 * x", scope)
    assert kernel(scope["half"])(3.0) == 1.5
    assert capsys.readouterr().out == ""

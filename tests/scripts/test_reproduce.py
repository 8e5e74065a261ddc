"""The scripts that draw the papers' figures: that they run, and write what they promise."""

import runpy
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedKFold
from sklearn.neural_network import MLPClassifier

import oda_rl.envs  # noqa: F401

SCRIPTS = Path(__file__).parents[2] / "scripts" / "reproduce"
SHARED = ("common", "benchmarks", "sb3_zoo")


@pytest.mark.parametrize(
    "name", ["aggregation", "classification", "clustering", "kernels", "regression", "trees"]
)
def test_each_finds_what_it_shares_with_others(name, monkeypatch):
    """Python looks in the folder of a script alone: what it shares with those above it must find."""
    for one in [one for one in sys.modules if one.split(".")[0] in SHARED]:
        monkeypatch.delitem(sys.modules, one)
    elsewhere = [path for path in sys.path if not Path(path).is_relative_to(SCRIPTS.parent)]
    monkeypatch.setattr(sys, "path", [str(SCRIPTS), *elsewhere])
    runpy.run_path(str(SCRIPTS / f"{name}.py"), run_name="started")
    for one in [one for one in sys.modules if one.split(".")[0] in SHARED]:
        del sys.modules[one]


def make_coarse(script, monkeypatch):
    """Let the maps in its pictures have few points."""
    plane = script.plane
    monkeypatch.setattr(script, "plane", lambda samples, margin, n: plane(samples, margin, n // 5))


def few_folds(_, **options):
    return StratifiedKFold(2, **options)


def few_trees(_, **options):
    return RandomForestClassifier(5, **options)


def small_network(_, max_iter, **options):
    return MLPClassifier((5,), max_iter=max_iter // 20, **options)


def test_classification(tmp_path, run, script, monkeypatch):
    own = script("reproduce/classification")
    make_coarse(own, monkeypatch)
    monkeypatch.setattr(own, "StratifiedKFold", few_folds)
    monkeypatch.setattr(own, "RandomForestClassifier", few_trees)
    monkeypatch.setattr(own, "MLPClassifier", small_network)
    options = ("--datasets", "mixture", "--n-samples", 60, "--out", tmp_path)
    code, output = run("reproduce/classification", *options)
    assert code == 0
    assert str(tmp_path) in output
    for name in ("accuracy_by_samples_and_codevectors", "evolution", "poor_start"):
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    assert "| ODA |" in (tmp_path / "table.md").read_text()


def test_clustering(tmp_path, run, script, monkeypatch):
    make_coarse(script("reproduce/clustering"), monkeypatch)
    code, output = run(
        "reproduce/clustering", "--datasets", "gaussians", "--max-codevectors", 6, "--out", tmp_path
    )
    assert code == 0
    assert str(tmp_path) in output
    for name in ("distortion_by_samples", "distortion_by_codevectors", "evolution", "poor_start"):
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    table = (tmp_path / "table.md").read_text()
    for method in ("ODA", "ODA, finished", "sVQ", "DA", "k-means"):
        assert f"| Gaussians | {method} | 6 |" in table


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("aggregation", ("--seeds", "-1")),
        ("aggregation", ("--bins", "0")),
        ("aggregation", ("--total-timesteps", "0")),
        ("aggregation", ("--methods", "PPO")),
        ("aggregation", ("--t-min", "2")),
        ("classification", ("--datasets", "foo")),
        ("classification", ("--n-samples", "0")),
        ("clustering", ("--datasets", "foo")),
        ("clustering", ("--max-codevectors", "0")),
        ("kernels", ("--seeds", "0")),
        ("kernels", ("--loss", "foo")),
        ("kernels", ("--n-samples", "0")),
        ("regression", ("--counts", "1")),
        ("regression", ("--softness", "-1")),
        ("regression", ("--softness", "nan")),
        ("regression", ("--n-samples", "0")),
        ("trees", ("--repeats", "0")),
        ("trees", ("--seed", "-1")),
        ("trees", ("--n-samples", "0")),
    ],
)
def test_options_that_make_no_sense_are_refused(run, name, options):
    code, output = run(f"reproduce/{name}", *options)
    assert code == 2
    assert options[0] in output


def test_the_names_of_data_sets_are_those_of_the_script(run):
    _, output = run("reproduce/classification", "--datasets", "foo")
    assert all(name in output for name in ("mixture", "wbcd", "credit", "pima"))


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("aggregation", "--seeds"),
        ("classification", "--datasets"),
        ("clustering", "--datasets"),
        ("regression", "--counts"),
    ],
)
def test_an_empty_list_is_refused(run, tmp_path, name, option):
    code, output = run(f"reproduce/{name}", option, "--out", tmp_path)
    assert (code, output.strip()) == (
        1,
        f"{option} must have at least one value and no duplicates, got [].",
    )


def test_a_seed_that_counts_twice_is_refused(run, tmp_path):
    code, output = run("reproduce/trees", "--compared-seeds", 1, 1, "--out", tmp_path)
    assert (code, output.strip()) == (1, "--compared-seeds must have no duplicates, got [1, 1].")


def test_kernels(tmp_path, run):
    _, output = run("reproduce/kernels", "--seeds", 2, "--n-samples", 600, "--out", tmp_path)
    assert "BARRETTE from 1" in output
    for name in ("data", "paths"):
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000


def test_regression(tmp_path, run, script, monkeypatch):
    own = script("reproduce/regression")
    monkeypatch.setattr(own, "run_stream", partial(own.run_stream, passes=5))
    options = ("--counts", 2, 8, "--n-samples", 150)
    _, output = run("reproduce/regression", *options, "--out", tmp_path)
    assert str(tmp_path) in output
    for name in ("curve", "surface", "errors"):
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    assert "| 2-D | 0.2" in (tmp_path / "table.md").read_text()


def test_trees(tmp_path, run, script, monkeypatch):
    monkeypatch.setitem(script("reproduce/trees").COMPARED, "n_samples", 500)
    monkeypatch.setattr(sys.modules["trees_pictures"], "N_GRID", 60)
    few = ("--n-samples", 150, "--max-codevectors", 12, "--max-class-codevectors", 12, "--repeats", 1)
    _, output = run("reproduce/trees", *few, "--compared-seeds", 0, "--out", tmp_path)
    assert str(tmp_path) in output
    names = [path.name for path in sorted(tmp_path.glob("*.png"))]
    assert names[0] == "errors_over_time.png"
    assert [name[:4] for name in names[1:]] == [f"fig{i}" for i in range(3, 9)]
    assert all(path.stat().st_size > 10_000 for path in tmp_path.glob("*.png"))
    tables = (tmp_path / "tables.txt").read_text()
    assert "1-D then 2-D" in tables
    assert "right in the end" in tables


def test_an_interrupted_aggregation_ends_with_the_code_of_ctrl_c(tmp_path, run, script, monkeypatch):
    own = script("reproduce/aggregation")
    made = sys.modules["benchmarks.runs"].Made
    monkeypatch.setattr(
        own, "carry_out", lambda plans, *_, **__: made([[] for _ in plans], interrupted=True)
    )
    code, output = run("reproduce/aggregation", "--out", tmp_path, "--methods", "UniformGridQ")
    assert (code, "Interrupted." in output) == (130, True)


@pytest.mark.usefixtures("few_decisions")
def test_aggregation(tmp_path, run):
    code, output = run(
        "reproduce/aggregation",
        *("--out", tmp_path, "--methods", "TwoTimescaleQ", "--t-min", 0.3, 0.1, "--seeds", 0, 1),
        *("--total-timesteps", 13_000, "--eval-episodes", 2, "--n-jobs", 1),
    )
    assert code == 0, output
    assert str(tmp_path) in output
    assert (tmp_path / "timesteps.png").stat().st_size > 10_000
    assert "T_min 0.3" in (tmp_path / "table.md").read_text()


def test_readings_of_algorithm_2(module):
    literal = module("benchmarks.literal_q")
    short = replace(next(iter(literal.READINGS.values())), first_steps=300)
    readings = {"one": short, "in other units": replace(short, units="bounds", annealed_first=True)}
    for made in readings.values():
        found = literal.run(made, "oda_rl/CartPoleFriction-v0", 300, 1, 0)
        assert found == literal.run(made, "oda_rl/CartPoleFriction-v0", 300, 1, 0)
        assert 1 <= found["mean"] <= 1000


def test_algorithm_2_pays_costs_to_the_nearest_pair(module):
    """Along a course in which nothing is chosen at random, Q(h) is what its recursion comes to."""
    literal = module("benchmarks.literal_q")
    env = gym.make("oda_rl/CartPoleFriction-v0")
    learner = literal.LiteralQ(env, literal.Choices(every=10**6, epsilon=0.0, first_steps=500), 0)
    assert len(learner.book) == 32
    assert set(learner.book.codevectors[:, 4]) == {-10.0, 10.0}
    # Pull to the left costs nothing anywhere, so that it is taken until it fails
    learner.book["theta"][0] = np.where(learner.book.codevectors[:, 4] > 0.0, 1.0, 0.0)
    learner.learn(1)
    points = learner.book.codevectors
    while learner.book["theta"][0, points[:, 4] < 0.0].max() == 0.0:
        h = learner.nearest(learner.observation)[0][0]
        visits = learner.book["visits"][0, h]
        away = (np.append(learner.observation, -10.0) - points) ** 2
        assert h == away.sum(axis=1).argmin()
        learner.learn(1)
        assert learner.book["visits"][0, h] == visits + 1.0
    # The first failure: its cost moves Q(h) = 0 by alpha
    assert learner.book["theta"][0, h] == (visits + 1.0) ** (-2.0 / 3.0)

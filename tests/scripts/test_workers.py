"""Work is done the same wherever it is done, and whoever is lost costs only what it was doing."""

import importlib
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from concurrent.futures import Future
from functools import partial
from pathlib import Path

import cloudpickle
import numpy as np
import pytest
from joblib import parallel_config
from sklearn.datasets import load_iris
from sklearn.model_selection import cross_val_score

from oda_rl import MultiResolutionODA, ODAClassifier

cloudpickle.register_pickle_by_value(sys.modules[__name__])
ROOT = Path(__file__).parents[2]
# Workers watch themselves less often than every 20 ms, and not their code; nobody waits long for one.
CALM = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.comm.timeouts.connect": "5s",  # rather than 30: a worker that was killed is not there
}
RUNS = (
    *("--algorithms", "UniformGridQ", "--seeds", 0, "--total-timesteps", 1000, "--eval-freq", 500),
    *("--env-ids", "suite/DeepSea10-v0"),  # which only the scripts register
)


@pytest.fixture
def workers(module):
    return module("common.workers")


@pytest.fixture(scope="module")
def cluster():
    """Four workers; a task that two of them have not survived is given up.

    With fewer, a task might wait behind one that kills its worker twice, and be given up with it.
    """
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1, **CALM}),
        distributed.LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address=None) as made,
    ):
        yield made


def square(number):
    return number * number


def is_imported(name):
    return name in sys.modules


def fail():
    raise ValueError("it cannot be done")


def leave_a_note(folder, number):
    """Say who begins this, and take a while."""
    with (folder / "begun.txt").open("a") as notes:
        notes.write(f"{number} {os.getpid()}\n")
    time.sleep(0.2)
    return number


def die(_):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_every_piece_of_work_comes_back_under_its_key(workers, n_jobs):
    work = {f"of {i}": partial(square, i) for i in range(5)} | {"none": fail}
    with workers.open_workers(workers.Where(n_jobs)) as here:
        found = dict(here.results(work))
    assert {key: one.result() for key, one in found.items() if key != "none"} == {
        f"of {i}": i * i for i in range(5)
    }
    assert str(found["none"].exception()) == "it cannot be done"


def test_who_looks_at_no_more_results_has_no_more_made(workers):
    made = []
    with workers.open_workers(workers.Where(1)) as here:
        results = here.results({i: partial(made.append, i) for i in range(5)})
        next(results)
        results.close()
    assert made == [0]


def test_processes_that_are_killed_are_told(workers):
    with (
        workers.open_workers(workers.Where(2)) as here,
        pytest.raises(workers.WorkersLostError, match=r"killed|terminated"),
    ):
        list(here.results({i: partial(die, i) for i in range(3)}))


def test_processes_are_ended_with_their_work_and_not_robbed_of_it(workers):
    """The thread of a pool that ends its processes would stop at a cancelled future, and leave them."""

    class Pool:
        def __init__(self):
            self.futures = []

        def submit(self, function):
            self.futures.append(Future())
            if len(self.futures) == 1:
                self.futures[0].set_result(0)
            return self.futures[-1]

    pool = Pool()
    results = workers.Processes(pool, 2).results({i: partial(square, i) for i in range(3)})
    next(results)
    results.close()
    assert [future.cancelled() for future in pool.futures] == [False, False]


def numbers_of(folder):
    """What the runs in a folder have learned."""
    kept = {path.name: json.loads(path.read_text())["run"] for path in folder.glob("runs/*/*/*.json")}
    return {
        name: [run[part] for part in ("returns", "steps", "curve_returns", "numbers")]
        for name, run in kept.items()
    }


@pytest.mark.usefixtures("few_decisions")
def test_runs_are_the_same_on_a_cluster(run, cluster, tmp_path):
    """Those of processes are compared in `test_compare.py`."""
    told = {"here": ("--n-jobs", 1), "there": ("--dask", cluster.scheduler_address)}
    for name, where in told.items():
        code, output = run("compare", *RUNS, "--eval-episodes", 2, "--output", tmp_path / name, *where)
        assert code == 0, output
    assert f"1 run of 1,000 steps, on the workers of {cluster.scheduler_address}" in output
    here, there = (numbers_of(tmp_path / name) for name in told)
    assert len(here) == 1
    assert here == there


def test_estimators_are_the_same_on_a_cluster(cluster, module):
    where, data = module("common.workers"), load_iris(return_X_y=True)
    model = ODAClassifier(max_codevectors=9, random_state=0)
    tree = MultiResolutionODA(ODAClassifier(max_codevectors=4), layers=2, random_state=0)
    scores = cross_val_score(model, *data)
    grown = tree.fit(*data).predict_proba(data[0])
    with where.connect(cluster.scheduler_address) as client:
        imported = client.run(where.by_value(partial(is_imported, "oda_rl")))
    two = sorted(imported, key=lambda worker: not imported[worker])[:2]  # others would import it all
    with where.connect(cluster.scheduler_address), parallel_config("dask", workers=two):
        np.testing.assert_array_equal(cross_val_score(model, *data), scores)
        again = tree.set_params(n_jobs=4).fit(*data).predict_proba(data[0])
    np.testing.assert_array_equal(again, grown)


def test_a_worker_that_is_killed_costs_only_what_it_was_doing(workers, cluster, tmp_path):
    work = {i: partial(leave_a_note, tmp_path, i) for i in range(24)}
    with workers.open_workers(workers.Where(dask=cluster.scheduler_address)) as there:
        results = there.results(work)
        found = dict([next(results)])
        victim = int((tmp_path / "begun.txt").read_text().splitlines()[-1].split()[1])
        os.kill(victim, signal.SIGKILL)
        found |= dict(results)
    assert {key: one.result() for key, one in found.items()} == {i: i for i in range(24)}
    begun = [line.split() for line in (tmp_path / "begun.txt").read_text().splitlines()]
    twice = [number for number, times in Counter(number for number, _ in begun).items() if times > 1]
    assert len(twice) <= 4  # under way, or done by a worker that had not told yet
    for number in twice:
        assert str(victim) in [pid for one, pid in begun if one == number]


def test_work_that_kills_whoever_does_it_is_given_up_alone(workers, cluster):
    work = {"bad": partial(die, 0)} | {i: partial(square, i) for i in range(6)}
    with workers.open_workers(workers.Where(dask=cluster.scheduler_address)) as there:
        found = dict(there.results(work))
    assert type(found.pop("bad").exception()).__name__ == "KilledWorker"
    assert {key: one.result() for key, one in found.items()} == {i: i * i for i in range(6)}


def test_a_cluster_that_has_lost_all_workers_is_not_waited_for(workers, cluster, monkeypatch, tmp_path):
    monkeypatch.setattr(workers, "PATIENCE", 0.5)
    work = {i: partial(time.sleep, 4.0) for i in range(8)}
    with workers.open_workers(workers.Where(dask=cluster.scheduler_address)) as there:
        threading.Timer(0.5, cluster.scale, (0,)).start()
        with pytest.raises(workers.WorkersLostError, match="no worker"):
            list(there.results(work))


def test_no_cluster(workers, run, tmp_path):
    pytest.importorskip("distributed")
    with pytest.raises(
        workers.WorkersLostError, match=r"no Dask scheduler can be reached at tcp://127\.0\.0\.1:9"
    ):
        workers.connect("tcp://127.0.0.1:9", timeout=0.2)


def test_modules_that_travel_to_a_cluster_are_those_of_the_scripts(workers):
    for name in workers.OWN:
        module = importlib.import_module(name)
        assert ROOT / "scripts" in Path(module.__spec__.origin or next(iter(module.__path__))).parents

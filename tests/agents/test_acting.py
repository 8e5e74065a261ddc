"""Acting beside the learning, and copies of a learner."""

import copy
import io
import pickle
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest

import oda_rl.envs  # noqa: F401
from oda_rl.agents import SOMQ, FourierSarsa, TileCodingSarsa, TwoTimescaleQ, UniformGridQ

QUICK = {"warmup_steps": 200, "growth_steps": 2000, "growth_cells": 20, "max_cells": 30}
TREE = {**QUICK, "tree": True, "growth_cells": 60, "max_cells": 100, "samples_per_cell": 3}
TASKS = [
    ("oda_rl/CartPole-v1", QUICK),
    ("oda_rl/CartPole-v1", {**QUICK, "codebook": "per_action"}),
    ("oda_rl/CartPole-v1", TREE),
    ("oda_rl/Pendulum-v1", QUICK),
    ("oda_rl/Pendulum-v1", TREE),
]


def train(task, options, steps=6_000):
    return TwoTimescaleQ(env=task, seed=0, **options).learn(steps)


def points_of(model, n, seed=0):
    n_features = model.observation_space.shape[0]
    return np.random.default_rng(seed).uniform(-0.2, 0.2, (n, n_features)).astype(np.float32)


def assert_same(first, second):
    assert first.learner.get_state()["tally"].tolist() == second.learner.get_state()["tally"].tolist()
    a, b = (model.learner.get_state()["slow"]["codebook"] for model in (first, second))
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


@pytest.mark.parametrize(("task", "options"), TASKS)
def test_threads_do_not_disturb_each_other(task, options):
    model = train(task, options)
    points = points_of(model, 400)
    expected, _ = model.predict(points, deterministic=True)

    def act(_):
        return np.array([model.predict(point, deterministic=True)[0] for point in points])

    with ThreadPoolExecutor(6) as pool:
        for found in pool.map(act, range(12)):
            np.testing.assert_array_equal(found, expected)


def test_threads_that_have_ended_leave_nothing_behind():
    model = train(*TASKS[0])
    points, table = points_of(model, 4), model.learner._table
    searches = table.tally[0]
    for _ in range(20):
        with ThreadPoolExecutor(1) as pool:
            pool.submit(model.predict, points, deterministic=True).result()
    assert table.tally[0] == searches + 80
    assert len(table._tallies) == len(table._free) + 1 == 2


BASELINES = {
    **{kind: {} for kind in (UniformGridQ, TileCodingSarsa)},
    **{SOMQ: {"n_cells": 16}, FourierSarsa: {"order": 2}},
}


@pytest.mark.parametrize("kind", BASELINES)
def test_a_baseline_acts_with_scratch_arrays_of_each_thread(kind):
    """What two threads write to the same arrays goes wrong once in a million actions only."""
    model = kind(env="oda_rl/CartPole-v1", seed=0, warmup_steps=200, **BASELINES[kind]).learn(1000)
    points, learner = points_of(model, 50), model.learner
    expected, _ = model.predict(points, deterministic=True)
    for array in learner._scratch:
        array[:] = 77
    np.testing.assert_array_equal(model.predict(points, deterministic=True)[0], expected)
    learner.encode(points[0])
    assert all((array == 77).all() for array in learner._scratch)
    with ThreadPoolExecutor(2) as pool:
        own = [pool.submit(lambda: learner._reading.scratch.u.ctypes.data).result() for _ in range(2)]
    assert learner._reading.scratch.u.ctypes.data not in own


@pytest.mark.parametrize(("task", "options"), TASKS)
def test_acting_during_the_learning_changes_nothing(task, options):
    alone, watched = train(task, options), train(task, options)
    alone.learn(20_000, reset_num_timesteps=False)
    points = points_of(alone, 200)
    with ThreadPoolExecutor(2) as pool:
        learning = pool.submit(watched.learn, 20_000, reset_num_timesteps=False)
        while not learning.done():
            watched.predict(points, deterministic=True)
            watched.learner.action_values(points)
        learning.result()
    assert_same(alone, watched)


def pickled(model):
    return pickle.loads(pickle.dumps(model))


def by_joblib(model):
    stored = io.BytesIO()
    joblib.dump(model, stored)
    stored.seek(0)
    return joblib.load(stored)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, pickled, by_joblib])
@pytest.mark.parametrize(("task", "options"), TASKS)
def test_a_copy_of_a_learner_goes_on_exactly(task, options, duplicate):
    learner = train(task, options, 4_003).learner
    points = points_of(train(task, options, 1), 1_500, 1)
    twin = duplicate(learner)
    untouched = twin.codebook.codevectors
    for point in points:
        learner.step(0, point, float(point[0]), False, False)
    np.testing.assert_array_equal(twin.codebook.codevectors, untouched)
    for point in points:
        twin.step(0, point, float(point[0]), False, False)
    np.testing.assert_array_equal(twin.codebook["q"], learner.codebook["q"])
    np.testing.assert_array_equal(twin.codevectors, learner.codevectors)
    np.testing.assert_array_equal(twin.greedy(points), learner.greedy(points))

"""Streams that change: the detector, what estimators and trees do where it finds a change, files."""

import pickle
from copy import deepcopy

import numpy as np
import pytest
from model_files import reloaded
from sklearn.base import clone, is_classifier

from oda_rl import MultiResolutionODA, ODAClassifier, ODAPartition, ODARegressor
from oda_rl.estimators.drift import find_cut
from oda_rl.estimators.tree.session import TreeSession

SEEDS = {"random_state": 0}
CLASSIFIERS = [
    ODAClassifier(20, **SEEDS),
    ODAClassifier(20, local_model="linear", **SEEDS),
    MultiResolutionODA(ODAClassifier(), **SEEDS),
]


def swapped(n=1200, n_after=1500, seed=0):
    """Two blobs, whose classes change places."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n + n_after)
    X = rng.normal(size=(len(y), 2)) + 4.0 * y[:, None]
    return X, np.where(np.arange(len(y)) < n, y, 1 - y)


def test_a_cut_is_where_the_mean_changes():
    rng = np.random.default_rng(0)
    before, after = rng.random(600) < 0.1, rng.random(300) < 0.4
    cut, low, high = find_cut(np.concatenate([before, after]).astype(float))
    assert abs(cut - 600) < 60
    assert (low, high) == pytest.approx((0.1, 0.4), abs=0.06)


def test_windows_that_do_not_change_are_rarely_cut():
    found = [find_cut((np.random.default_rng(s).random(800) < 0.2).astype(float))[0] for s in range(200)]
    assert sum(cut > 0 for cut in found) <= 1
    assert find_cut(np.zeros(30))[0] == 0


@pytest.mark.parametrize("model", CLASSIFIERS)
def test_swapped_classes_are_followed(model):
    X, y = swapped()
    model = clone(model).partial_fit(X[:1200], y[:1200])
    assert model.drifts_ == []
    assert model.score(X[1200:], y[1200:]) < 0.05
    model.partial_fit(X[1200:2200], y[1200:2200])
    (drift,) = model.drifts_
    assert 1200 < drift.n_samples_seen < 1800
    assert drift.before < 0.1 < 0.3 < drift.after
    assert model.score(X[2200:], y[2200:]) > 0.97
    assert model.n_samples_seen_ == 2200


@pytest.mark.parametrize("model", CLASSIFIERS)
def test_a_change_right_after_a_fit_is_found(model):
    X, y = swapped()
    model = clone(model).fit(X[:1200], y[:1200]).partial_fit(X[1200:1600], y[1200:1600])
    (drift,) = model.drifts_
    assert 1200 < drift.n_samples_seen <= 1600
    assert drift.before < 0.3 < 0.9 < drift.after
    assert model.score(X[1600:], y[1600:]) > 0.97


@pytest.mark.parametrize(
    ("model", "times"),
    [
        (ODARegressor(kernel=None, **SEEDS), 2.0),
        (MultiResolutionODA(ODARegressor(), **SEEDS), 2.0),
        (MultiResolutionODA(ODAClassifier(), **SEEDS), 1.5),
    ],
)
def test_samples_from_before_the_end_of_a_slow_change_do_no_harm(model, times):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (4000, 2))
    is_new = rng.random(4000) < (np.arange(4000) - 1200) / 600
    y = np.where(is_new, np.cos(2.0 * X[:, 0]) - X[:, 1], np.sin(2.0 * X[:, 0]) + X[:, 1])
    y += 0.05 * rng.normal(size=4000)
    if is_classifier(model.get_params().get("estimator", model)):
        y = y > 0.0
    stream = clone(model).partial_fit(X[:2000], y[:2000])
    stored = reloaded(stream).partial_fit(X[2000:2150], y[2000:2150])
    stream.partial_fit(X[2000:2100], y[2000:2100]).partial_fit(X[2100:2150], y[2100:2150])
    np.testing.assert_allclose(stored.predict(X), stream.predict(X), rtol=1e-9)
    stream.partial_fit(X[2150:2400], y[2150:2400])
    (change,) = stream.drifts_
    assert 1200 < change.n_samples_seen <= 1920
    errors = [
        1.0 - one.score(X[2400:], y[2400:])
        for one in (stream, clone(model).fit(X[1800:2400], y[1800:2400]))
    ]
    assert errors[0] < times * errors[1]


def test_codevectors_of_clusters_that_leave_slowly_are_given_up():
    rng = np.random.default_rng(3)
    old, new = rng.normal(scale=4.0, size=(12, 2)), rng.normal((6.0, 0.0), 4.0, size=(12, 2))
    number, is_new = rng.integers(12, size=3600), rng.random(3600) < (np.arange(3600) - 1200) / 600
    X = np.where(is_new[:, None], new[number], old[number]) + 0.4 * rng.normal(size=(3600, 2))
    stream = ODAPartition(16, **SEEDS).partial_fit(X[:2400])
    stored = reloaded(stream).partial_fit(X[2400:2700])
    stream.partial_fit(X[2400:2650]).partial_fit(X[2650:2700])
    np.testing.assert_allclose(stored.codevectors_, stream.codevectors_, rtol=1e-9)
    (change,) = stream.drifts_
    assert 1200 < change.n_samples_seen < 2000
    fitted = ODAPartition(16, **SEEDS).fit(X[1800:2700])
    assert stream.score(X[2700:]) > 1.2 * fitted.score(X[2700:])  # mean divergences times -1


def test_a_tree_predicts_classes_that_come_after_its_fit():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 2000)
    X = rng.normal(size=(2000, 2)) + 6.0 * np.column_stack([y % 3, y // 3])
    first = np.flatnonzero(y[:800] < 2)
    tree = MultiResolutionODA(ODAClassifier(), **SEEDS).fit(X[first], y[first])
    assert tree.partial_fit(X[800:1500], y[800:1500]).score(X[1500:], y[1500:]) > 0.95


@pytest.mark.parametrize(
    ("model", "moved"),
    [
        (ODARegressor(20, **SEEDS), 0.0),
        (MultiResolutionODA(ODARegressor(), **SEEDS), 0.0),
        (ODAPartition(8, **SEEDS), 4.0),
        (MultiResolutionODA(**SEEDS), 4.0),
    ],
)
def test_a_stream_like_the_samples_of_a_fit_has_no_drift_and_another_has(model, moved):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (1400, 2))
    y = np.sin(3.0 * X[:, 0]) + 0.1 * rng.normal(size=1400)
    fitted = clone(model).fit(X[:500], y[:500])
    assert deepcopy(fitted).partial_fit(X[500:1100], y[500:1100]).drifts_ == []
    (drift,) = reloaded(fitted.partial_fit(X[500:1100] + moved, -y[500:1100])).drifts_
    assert 500 < drift.n_samples_seen <= 1012


def moving(seed, speed):
    """Three clusters of each of two classes, that walk in directions of their own."""
    rng = np.random.default_rng(seed)
    start, way = rng.uniform(-4.0, 4.0, (6, 2)), rng.normal(size=(6, 2))
    at = rng.integers(0, 6, 8000)
    gone = speed * np.arange(8000)[:, None] * way[at] / np.linalg.norm(way, axis=1)[at, None]
    return start[at] + gone + rng.normal(size=(8000, 2)), at % 2


def test_cells_forget_as_fast_as_clusters_move_and_nothing_where_they_stay():
    gained, lost = [], []
    for seed in (0, 1):
        for speed, differences in ((0.001, gained), (0.0, lost)):
            X, y = moving(seed, speed)
            never, model = (
                ODAClassifier(12, forgetting=f, random_state=0).partial_fit(X[:4000], y[:4000])
                for f in (None, "adwin")
            )
            assert (model.memory_ < 50.0) == (speed > 0.0)
            assert never.memory_ == np.inf
            differences.append(
                model.score(X[4000:5000], y[4000:5000]) - never.score(X[4000:5000], y[4000:5000])
            )
    assert min(gained) >= 0.0
    assert max(gained) > 0.05
    assert min(lost) > -0.01


def test_after_two_changes_a_stream_is_followed_before_the_annealing_would_be_done():
    """Each of three classes comes to the places of the next one in a third of a round."""
    rng = np.random.default_rng(0)
    y, n = rng.integers(3, size=4000), 4000
    angle = 2.0 * np.pi * (np.arange(n) / 1500.0 + y / 3.0)
    X = 3.0 * np.column_stack([np.cos(angle), np.sin(angle)]) + rng.normal(size=(n, 2))
    model, scores = ODAClassifier(random_state=0), []
    for start in range(0, n - 200, 100):
        part = slice(start, start + 100)
        scores.append(model.score(X[part], y[part]) if start else 0.0)
        model.partial_fit(X[part], y[part])
    assert np.mean(scores[20:]) > 0.65
    assert [model.converged_, len(model.drifts_)] == [True, 2]
    assert model.memory_ < 5.0
    single = deepcopy(model)
    for i in range(n - 200, n):
        single.partial_fit(X[i : i + 1], y[i : i + 1])
    model.partial_fit(X[n - 200 :], y[n - 200 :])
    np.testing.assert_allclose(single.predict_proba(X), model.predict_proba(X), atol=1e-9)


def test_what_moved_before_a_change_moves_after_it():
    X, y = moving(0, 0.001)
    y[5000:] = 1 - y[5000:]
    model = ODAClassifier(12, random_state=0).partial_fit(X[:5000], y[:5000])
    assert (model.drifts_, model.memory_ < 50.0) == ([], True)
    start = 5000
    while not model.drifts_:
        model.partial_fit(X[start : start + 64], y[start : start + 64])
        start += 64
    assert not model.converged_  # which would be needed to find that out again
    assert model.memory_ < 50.0


def test_logits_count_in_a_stream_where_they_help_and_go_where_they_do_not():
    rng = np.random.default_rng(0)
    X = rng.lognormal(0.0, 1.5, (3000, 8))  # long tails, and a boundary that is a plane of their ranks
    y = (np.log(X).sum(axis=1) + 0.3 * rng.normal(size=3000) > 0.0).astype(int)
    never, model = (
        ODAClassifier(local_model=local, random_state=0).partial_fit(X[:2000], y[:2000])
        for local in (None, "auto")
    )
    assert model.local_weights_[1] > 0.0
    assert model.score(X[2000:], y[2000:]) > never.score(X[2000:], y[2000:]) + 0.05
    again = pickle.loads(pickle.dumps(model))
    for i in range(2000, 2200):
        model.partial_fit(X[i : i + 1], y[i : i + 1])
    again.partial_fit(X[2000:2200], y[2000:2200])
    np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X), atol=1e-6)
    centers = rng.uniform(-3.0, 3.0, (12, 2))
    at = rng.integers(12, size=3000)
    model.fit(X[:100], y[:100])  # what a stream tried is gone
    islands = ODAClassifier(random_state=0)
    islands.partial_fit(centers[at] + 0.3 * rng.normal(size=(3000, 2)), at % 2)
    assert (islands.local_weights_, islands.n_local_cells_) == ((1.0, 0.0), 0)
    assert islands._session.mixing is None


def test_without_forgetting_nothing_begins_anew():
    X, y = swapped()
    model = ODAClassifier(20, forgetting=None, **SEEDS).partial_fit(X[:1200], y[:1200])
    assert model.partial_fit(X[1200:2200], y[1200:2200]).drifts_ == []


def test_regression_and_clusters_follow():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (2300, 2))
    y = np.where(np.arange(2300) < 1000, 1.0, -1.0) * np.sin(3.0 * X[:, 0])
    regressor = ODARegressor(20, **SEEDS).partial_fit(X[:1800], y[:1800])
    assert [1000 < drift.n_samples_seen < 1700 for drift in regressor.drifts_] == [True]
    assert regressor.score(X[1800:], y[1800:]) > 0.9
    moved = X + 5.0 * (np.arange(2300) >= 1000)[:, None]
    clusters = ODAPartition(8, **SEEDS).partial_fit(moved[:1800])
    assert len(clusters.drifts_) == 1
    assert np.abs(clusters.codevectors_ - 5.0).max() < 1.5


@pytest.mark.parametrize("scale", [[1.0], [1.0, 1000.0]])
def test_a_stream_of_clusters_is_near_its_fit(scale):
    """Distortions and densities, also with a single feature that matters."""
    X = np.random.default_rng(0).normal(size=(3000, len(scale))) * scale
    fit, stream = ODAPartition(20, **SEEDS).fit(X[:1500]), ODAPartition(20, **SEEDS)
    for x in X[:700]:
        stream.partial_fit(x[None])
    stream.partial_fit(X[700:1500])
    assert stream.score(X[1500:]) > 1.15 * fit.score(X[1500:])
    densities = [np.median(model.score_samples(X[1500:])) for model in (fit, stream)]
    assert densities[1] > densities[0] - 0.15
    assert stream.weights_.sum() == pytest.approx(1.0)


def test_a_stream_of_clusters_is_fitted_only_where_that_is_better():
    X = np.random.default_rng(0).normal(size=(300, 60))  # the more cells, the further are new samples
    stream, alone = ODAPartition(25, **SEEDS), ODAPartition(25, forgetting=None, **SEEDS)
    assert not stream.partial_fit(X).converged_
    np.testing.assert_array_equal(alone.partial_fit(X).codevectors_, stream.codevectors_)


def test_a_large_fit_is_not_replaced_by_that_of_a_stream():
    X = np.random.default_rng(0).normal(size=(3000, 1))
    fitted = ODAPartition(20, **SEEDS).fit(X[:1500])
    alone = ODAPartition(20, forgetting=None, **SEEDS).fit(X[:1500])
    stream = [model.partial_fit(X[1500:]).codevectors_ for model in (fitted, alone)]
    np.testing.assert_array_equal(*stream)


@pytest.mark.parametrize(
    "model", [CLASSIFIERS[0], CLASSIFIERS[2], ODARegressor(10, **SEEDS), ODAPartition(6, **SEEDS)]
)
def test_chunks_do_not_matter_and_files_go_on(model):
    X, y = swapped(700, 500)
    y = y.astype(float) if isinstance(model, ODARegressor) else y
    whole = clone(model).partial_fit(X, y)
    parts = clone(model)
    for rows in np.split(np.arange(len(X)), [1, 150, 713, 714, 1000]):
        if rows[0] == 1000:
            parts = reloaded(parts)
        parts.partial_fit(X[rows], y[rows])
    found = [[drift.n_samples_seen for drift in one.drifts_] for one in (whole, parts)]
    assert found[0] == found[1]
    assert len(found[0]) == (0 if isinstance(model, ODAPartition) else 1)
    assert [drift[1:] for drift in whole.drifts_] == [drift[1:] for drift in parts.drifts_]
    np.testing.assert_allclose(whole.codevectors_, parts.codevectors_, rtol=1e-6, atol=1e-9)


def test_one_sample_at_a_time_is_the_same_and_predictions_know_it():
    X, y = swapped(900, 500)
    whole = clone(CLASSIFIERS[0]).partial_fit(X, y)
    single, quick = clone(CLASSIFIERS[0]), 0
    for row, c in zip(X, y, strict=True):
        single.partial_fit(row[None, :], np.array([c]))
        before = single.predict_proba(X[:50])
        quick += single._session.live is not None
    assert quick > 1000
    assert [d.n_samples_seen for d in whole.drifts_] == [d.n_samples_seen for d in single.drifts_]
    assert whole.n_samples_seen_ == single.n_samples_seen_ == 1400
    np.testing.assert_allclose(whole.codevectors_, single.codevectors_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(whole.weights_, single.weights_, rtol=1e-6)
    np.testing.assert_allclose(before, whole.predict_proba(X[:50]), atol=1e-6)
    np.testing.assert_array_equal(single.predict(X), whole.predict(X))


def test_what_is_prepared_for_one_sample_follows_new_classes_and_limits():
    X, y = swapped(1500, 0)
    y[800::5] = 2
    whole, single = clone(CLASSIFIERS[0]), clone(CLASSIFIERS[0])
    for rows in np.split(np.arange(1500), [700, 1100]):
        for model in (whole, single):
            model.max_codevectors += 10
        whole.partial_fit(X[rows], y[rows])
        for i in rows:
            single.partial_fit(X[i : i + 1], y[i : i + 1])
    assert len(single._session.prepared.tables) == 3
    np.testing.assert_allclose(whole.codevectors_, single.codevectors_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(whole.predict_proba(X), single.predict_proba(X), atol=1e-6)


def test_copies_and_pickles_go_on_one_sample_at_a_time():
    X, y = swapped(900, 0)
    model = clone(CLASSIFIERS[0]).partial_fit(X[:600], y[:600])
    for i in range(600, 640):
        model.partial_fit(X[i : i + 1], y[i : i + 1])
    size = len(pickle.dumps(model))
    assert len(model.codevectors_) == len(model.predict(X)[: model.n_codevectors_])
    assert len(pickle.dumps(model)) == size  # nothing that can be told anew
    others = [pickle.loads(pickle.dumps(model)), deepcopy(model)]
    np.testing.assert_array_equal(others[0].codevectors_, model.codevectors_)
    for i in range(640, 900):
        for one in (model, *others):
            one.partial_fit(X[i : i + 1], y[i : i + 1])
            one.predict(X[:1])
    for one in others:
        np.testing.assert_array_equal(one.predict_proba(X), model.predict_proba(X))
        np.testing.assert_array_equal(one.codevectors_, model.codevectors_)


def test_a_tree_is_grown_anew_from_the_first_samples_of_a_stream():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (3000, 2))
    y = (np.hypot(*X.T) < 1.3).astype(int)
    never, model = (
        MultiResolutionODA(ODAClassifier(), forgetting=f, **SEEDS).partial_fit(X[:1100], y[:1100])
        for f in (None, "adwin")
    )
    assert model.score(X[1100:], y[1100:]) > never.score(X[1100:], y[1100:]) + 0.02
    fitted = MultiResolutionODA(ODAClassifier(), **SEEDS).fit(X[:2000], y[:2000])
    before = fitted.n_codevectors_
    assert fitted.partial_fit(X[2000:2600], y[2000:2600]).n_codevectors_ >= before


def test_a_tree_stands_soon_after_a_change_and_keeps_what_it_goes_over():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (8500, 2))
    y = (np.hypot(*X.T) < 1.3).astype(int)
    y[3000:] ^= 1
    model = MultiResolutionODA(ODAClassifier(), **SEEDS).partial_fit(X[:3200], y[:3200])
    assert len(model.drifts_) == 1
    assert model.score(X[7500:], y[7500:]) > 0.85
    model = reloaded(model.partial_fit(X[3200:5500], y[3200:5500]))
    assert len(model._watch.latest.last(5000).weight) >= 5500 - 3200
    model.partial_fit(X[5500:7500], y[5500:7500])
    assert model.score(X[7500:], y[7500:]) > 0.96
    assert len(model._watch.latest.last(5000).weight) == 1024


def waves(n, seed=100):
    """Three classes, in bands along a wave."""
    X = np.random.default_rng(seed).normal(size=(n, 4))
    return X, np.digitize(X[:, 0] + 1.5 * np.sin(2.0 * X[:, 1]), [-1.0, 1.0])


def test_a_tree_that_was_fitted_to_few_samples_learns_as_much_from_a_stream_as_without_the_fit():
    X, y = waves(3000)
    fitted = clone(CLASSIFIERS[2]).fit(X[:400], y[:400])
    before = fitted.score(X[1700:], y[1700:])
    fitted.partial_fit(X[400:1700], y[400:1700])
    stream = clone(CLASSIFIERS[2]).partial_fit(X[:1700], y[:1700])
    scores = [model.score(X[1700:], y[1700:]) for model in (fitted, stream)]
    assert scores[0] > max(before + 0.02, scores[1] - 0.01)
    assert fitted.drifts_ == []


def test_after_a_fit_chunks_do_not_matter_and_a_tree_that_is_stored_is_regrown_from_all_samples():
    X, y = waves(900)
    y[450::7] = 3  # a class that comes later
    fitted = clone(CLASSIFIERS[2]).fit(X[:333], y[:333])
    whole, parts = deepcopy(fitted).partial_fit(X[333:], y[333:]), reloaded(fitted)
    for rows in np.split(np.arange(333, 900), [1, 100, 190, 191, 300]):
        parts = reloaded(parts.partial_fit(X[rows], y[rows]))
    assert whole.history_[0].n_samples > 500 > fitted.history_[0].n_samples  # of the root
    np.testing.assert_array_equal(parts.codevectors_, whole.codevectors_)
    np.testing.assert_array_equal(parts.predict_proba(X), whole.predict_proba(X))


def test_a_small_fit_from_before_a_change_is_forgotten():
    X, y = swapped(200, 1800)
    model = clone(CLASSIFIERS[2]).fit(X[:200], y[:200]).partial_fit(X[200:1100], y[200:1100])
    assert [drift.n_samples_seen for drift in model.drifts_] == [200 + 128]
    assert model.tree_.layers[0].mass.sum() <= 900
    assert model.score(X[1100:], y[1100:]) > 0.97


def test_a_refined_fit_is_not_regrown():
    X, y = waves(1400)
    model = clone(CLASSIFIERS[2]).set_params(validation=None).fit(X[:400], y[:400])
    model.partial_fit(X[400:420], y[400:420])
    assert model.refine("0", X[:400], y[:400]).n_splits > 0
    before = [(point.path, point.temperature) for point in model.history_]
    model.partial_fit(X[420:], y[420:])
    assert [(point.path, point.temperature) for point in model.history_][: len(before)] == before


def test_a_tree_that_comes_out_worse_is_not_taken(monkeypatch):
    X, y = swapped(800, 0)
    model = clone(CLASSIFIERS[2]).partial_fit(X[:350], y[:350])

    def grow_root(self, layers, data):
        self.create_root(data)
        self.task.conclude(self.tree.layers[0], None)

    monkeypatch.setattr(TreeSession, "fit", grow_root)
    model.partial_fit(X[350:600], y[350:600])  # 384 and 512 come
    assert model.n_codevectors_ > 1
    assert model.score(X[600:], y[600:]) > 0.95


def test_a_sample_is_copied_and_what_was_told_stays():
    X, y = swapped(600, 0)
    model = clone(CLASSIFIERS[0]).partial_fit(X[:500], y[:500])
    weights, row, label = model.weights_, X[:1].copy(), y[:1].copy()
    told, other = weights.copy(), clone(CLASSIFIERS[0]).partial_fit(X[:500], y[:500])
    for i in range(500, 600):
        row[:], label[:] = X[i], y[i]
        model.partial_fit(row, label)
    np.testing.assert_array_equal(weights, told)
    other.partial_fit(X[500:], y[500:])
    row[:] = 1e9
    np.testing.assert_array_equal(other._watch.latest.last(100).samples, X[500:])
    np.testing.assert_array_equal(model._watch.latest.last(100).samples, X[500:])


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 1e80])
def test_one_wrong_sample_is_refused_and_leaves_nothing(wrong):
    X, y = swapped(600, 0)
    model = clone(CLASSIFIERS[0]).partial_fit(X[:550], y[:550]).partial_fit(X[550:551], y[550:551])
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match=r"X contains .* column 1 is"):
        model.partial_fit(np.array([[0.0, wrong]]), y[:1])
    assert model.n_samples_seen_ == 551
    np.testing.assert_array_equal(model.predict_proba(X), before)

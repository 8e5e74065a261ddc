"""Early fits of streams: while an estimator waits for more samples, a fit of those so far predicts."""

import numpy as np
import pytest
from model_files import reloaded
from sklearn.datasets import make_blobs, make_circles
from sklearn.decomposition import PCA

from oda_rl import MultiResolutionODA, ODAClassifier, ODAPartition, ODARegressor
from oda_rl.estimators import stream_watch
from oda_rl.estimators.drift import are_advancing

KINDS = {
    "classes": lambda **options: ODAClassifier(random_state=0, **options),
    "outputs": lambda **options: ODARegressor(random_state=0, **options),
    "cells": lambda **options: ODAPartition(random_state=0, **options),
    "tree of classes": lambda **options: MultiResolutionODA(ODAClassifier(), random_state=0, **options),
    "tree of outputs": lambda **options: MultiResolutionODA(ODARegressor(), random_state=0, **options),
}


def problem(kind, n, seed=0):
    """Samples of two rings, or of a wave: no plane separates or approximates them."""
    if "classes" in kind:
        return make_circles(n, noise=0.08, factor=0.5, random_state=seed)
    if kind == "cells":
        return make_blobs(n, 3, centers=6, cluster_std=0.8, random_state=seed)
    X = np.random.default_rng(seed).uniform(-3.0, 3.0, (n, 1))
    return X, np.sin(2.0 * X[:, 0])


def streamed(kind, X, y, chunk=10, **options):
    """A model that has learned from a stream, in chunks."""
    model = KINDS[kind](**options)
    for i in range(0, len(X), chunk):
        learn(model, X[i : i + chunk], y[i : i + chunk])
    return model


def learn(model, X, y, **options):
    """Learn from a chunk, with its targets if the model has any."""
    if isinstance(model, ODAPartition):
        return model.partial_fit(X)
    return model.partial_fit(X, y, **options)


@pytest.mark.parametrize(
    ("kind", "n", "least"),
    [
        ("classes", 40, 0.85),
        ("classes", 90, 0.95),
        ("outputs", 90, 0.95),
        ("outputs", 190, 0.95),
        ("tree of classes", 40, 0.75),
        ("tree of classes", 90, 0.9),
        ("tree of outputs", 140, 0.8),
    ],
)
def test_a_short_stream_is_learned(kind, n, least):
    X, y = problem(kind, n)
    X_test, y_test = problem(kind, 500, seed=1)
    model = streamed(kind, X, y)
    assert model.score(X_test, y_test) > least
    assert streamed(kind, X, y, forgetting=None).score(X_test, y_test) < 0.7 * least
    assert model.n_samples_seen_ == n


@pytest.mark.parametrize("kind", KINDS)
def test_after_the_warm_up_it_is_as_if_there_had_been_no_early_fit(kind, monkeypatch):
    X, y = problem(kind, 400)
    early = streamed(kind, X, y)
    monkeypatch.setattr(stream_watch, "EARLY_AT", 10_000)
    late = streamed(kind, X, y)
    assert early.n_samples_seen_ == late.n_samples_seen_ == 400
    if kind == "cells":  # their numbers are continued from the early fit
        np.testing.assert_array_equal(early.codevectors_, late.codevectors_)
    else:
        np.testing.assert_array_equal(early.predict(X), late.predict(X))


@pytest.mark.parametrize("kind", KINDS)
def test_chunks_and_files_make_no_difference_to_early_fits(kind):
    X, y = problem(kind, 330)
    model, known = KINDS[kind](), {"classes": [0, 1]} if "classes" in kind else {}
    for i in range(len(X)):
        learn(model, X[i : i + 1], y[i : i + 1], **known)
        if i + 1 in (50, 140, 330):
            model = reloaded(model)
            other = streamed(kind, X[: i + 1], y[: i + 1], chunk=i + 1)
            np.testing.assert_allclose(model.predict(X), other.predict(X), rtol=1e-9)
            assert model.n_samples_seen_ == i + 1


def test_classes_with_few_samples_wait():
    X, y = problem("classes", 60)
    rare = np.flatnonzero(y == 1)[4:]  # four samples of class 1
    X, y = np.delete(X, rare, axis=0), np.delete(y, rare)
    assert streamed("classes", np.tile(X, (3, 1))[:90], np.tile(y, 3)[:90]).n_codevectors_ >= 2
    model = streamed("classes", X, y)
    assert model.temperature_ == np.inf
    assert model.history_ == []


def test_a_class_may_appear_after_an_early_fit():
    X, y = problem("classes", 300)
    y[200:][X[200:, 0] > 0.3] = 2
    for kind in ("classes", "tree of classes"):
        model = streamed(kind, X[:210], y[:210], chunk=1)
        assert model.predict_proba(X).shape == (300, 3)
        model.partial_fit(X[210:], y[210:])
        np.testing.assert_array_equal(model.classes_, [0, 1, 2])
        assert np.isfinite(model.predict_proba(X)).all()


def test_given_feature_maps_wait_for_their_samples():
    X, y = problem("classes", 200)
    X = np.hstack([10.0 * X, np.random.default_rng(0).normal(size=(200, 58))])
    tree = {"resolutions": [PCA(40, random_state=0)], "random_state": 0}
    model = MultiResolutionODA(ODAClassifier(), **tree)
    for rows in (slice(0, 1), slice(1, 20), slice(20, 99)):
        assert model.partial_fit(X[rows], y[rows]).n_codevectors_ == 1
    assert model.partial_fit(X[99:], y[99:]).n_codevectors_ > 1


def test_a_long_warm_up_ends_with_the_last_fit():
    X, y = problem("outputs", 1200)
    model = streamed("outputs", X, y, n_warmup=5000)
    assert model.score(*problem("outputs", 500, seed=1)) > 0.95


@pytest.mark.parametrize(("n", "k"), [(70, 6), (130, 8), (250, 8)])
@pytest.mark.parametrize("scale", [None, "standard"])
def test_cells_of_a_short_stream_are_those_of_a_fit(n, k, scale):
    X = np.random.default_rng(0).uniform(size=(n + 500, 2)) * [1.0, 3.0]
    stream = ODAPartition(scale=scale, random_state=0)
    for x in X[:n]:
        stream.partial_fit(x[None])
    assert stream.n_codevectors_ == k
    fit = ODAPartition(k, scale=scale, random_state=0).fit(X[:n])
    assert mean_distance(stream, X[n:]) < 1.4 * mean_distance(fit, X[n:])


def mean_distance(model, X):
    """Mean squared distance of samples from their nearest codevector, in units of the data."""
    return ((X[:, None] - model.codevectors_[None]) ** 2).sum(axis=2).min(axis=1).mean()


def test_a_stream_of_many_cells_grows_from_the_beginning_and_keeps_their_numbers():
    X = np.random.default_rng(0).exponential(size=(1500, 1))
    model, sizes = ODAPartition(40, random_state=0), []
    for i in range(0, 1500, 10):
        before = dict(zip(model.cell_ids_, model.codevectors_, strict=True)) if i else {}
        model.partial_fit(X[i : i + 10])
        sizes.append(model.n_codevectors_)
        assert len(set(model.cell_ids_.tolist())) == len(model.cell_ids_) <= 40
        assert model.cell_ids_.max() < 40
        if i in (130, 520, 1030):  # just after a fit: a number has stayed with the nearest cell
            after = dict(zip(model.cell_ids_, model.codevectors_, strict=True))
            moved = [abs(after[c] - before[c])[0] for c in before if c in after]
            assert len(moved) > 0.5 * len(before)
            assert np.median(moved) < 0.3
    assert sizes[5] <= sizes[10] <= sizes[20] <= sizes[40] <= sizes[80] <= 40
    assert sizes[10] >= 6
    assert sizes[60] > 30


@pytest.mark.parametrize("options", [{"rehearse": False}, {"finish": False}, {"max_codevectors": 500}])
def test_cells_whose_annealing_goes_on_are_not_fitted_early(options):
    X, _ = problem("cells", 90)
    model = ODAPartition(random_state=0).set_params(**options).partial_fit(X)
    assert model.n_codevectors_ == 1


def test_samples_that_advance_are_not_fitted_early():
    X = np.cumsum(np.random.default_rng(0).exponential(size=(90, 1)), axis=0)
    assert ODAPartition(random_state=0).partial_fit(X).n_codevectors_ == 1
    plane = ODARegressor(random_state=0).partial_fit(X, np.sin(0.3 * X[:, 0]))
    assert plane.temperature_ == np.inf


@pytest.mark.parametrize("d", [1, 10, 100])
def test_samples_in_random_order_rarely_seem_to_advance(d):
    for n in (32, 64, 128, 256):
        rngs = [np.random.default_rng(seed) for seed in range(200)]
        assert np.mean([are_advancing(rng.normal(size=(n, d))) for rng in rngs]) < 0.03
        if n > 32 or d < 100:  # a few of so many features are beyond by chance
            assert are_advancing(np.arange(n)[:, None] + rngs[0].normal(size=(n, d)))


def changing(kind, n):
    """A stream that changes after 1,500 samples: classes are swapped, or a wave has another phase."""
    X, y = problem(kind, n)
    later = np.arange(n) >= 1500
    return X, np.where(later, 1 - y, y) if "classes" in kind else np.sin(2.0 * X[:, 0] + 1.5 * later)


@pytest.mark.parametrize("kind", ["classes", "outputs", "tree of classes"])
def test_soon_after_a_change_the_samples_since_are_fitted(kind):
    X, y = changing(kind, 2600)
    model = streamed(kind, X[:1560], y[:1560])
    assert len(model.drifts_) == 1
    assert model.score(X[2100:], y[2100:]) > 0.85
    again = reloaded(model)
    for rows in (slice(1560, 1700), slice(1700, 1900), slice(1900, 2100)):
        model.partial_fit(X[rows], y[rows])
        for i in range(rows.start, rows.stop):
            again.partial_fit(X[i : i + 1], y[i : i + 1])
        np.testing.assert_allclose(again.predict(X), model.predict(X), rtol=1e-9)
        assert model.score(X[2100:], y[2100:]) > 0.9
        assert model.n_samples_seen_ == again.n_samples_seen_ == rows.stop
    assert len(model.drifts_) == 1

"""The number of clusters, and which they are."""

import pickle

import numpy as np
import pytest
from model_files import reloaded
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score

from oda_rl import ODAPartition
from oda_rl.codebook.schedule import PathPoint
from oda_rl.estimators.clusters import choose_clusters


def ring(n, k):
    angles = 2.0 * np.pi * np.arange(k) / k
    centres = np.column_stack([np.cos(angles), np.sin(angles)])
    return make_blobs(n, 2, centers=5.0 * centres, cluster_std=0.4, random_state=1)


def path(*counts):
    """K at temperatures 1, 1/2, 1/4, ..."""
    return [PathPoint(0.5**i, k, 1.0, 0, 0.0, (), np.empty((0, 1))) for i, k in enumerate(counts)]


@pytest.mark.parametrize(
    ("counts", "n_samples", "wanted"),
    [
        ((1, 1, 1, 1), 100, 1),
        ((1, 2, 3, 3, 3, 4, 5), 100, 3),
        ((1, 2, 2, 3, 3, 4, 5), 100, 3),
        ((1, 2, 2, 30, 30, 30, 31), 100, 2),
        ((1, 2, 3, 3, 2, 2, 3), 100, 2),  # a third that merges again was too early
    ],
)
def test_k_that_lasts_longest(counts, n_samples, wanted):
    assert choose_clusters(path(*counts), 0.5 ** len(counts), n_samples, 40) == wanted


def test_the_last_k_lasts_until_it_would_split():
    assert choose_clusters(path(1, 2, 2, 3), 0.12, 100, 3) == 2
    assert choose_clusters(path(1, 2, 2, 3), 0.001, 100, 3) == 3


@pytest.mark.parametrize("k", [3, 6])
def test_finds_blobs(k):
    samples, labels = ring(60 * k, k)
    model = ODAPartition(20, random_state=0).fit(samples)
    assert model.n_clusters_ == k
    assert adjusted_rand_score(labels, model.labels_) > 0.95
    np.testing.assert_array_equal(model.predict_clusters(samples), model.labels_)
    read = reloaded(model)
    assert read.n_clusters_ == k
    np.testing.assert_array_equal(read.predict_clusters(samples), model.labels_)


def test_clusters_that_are_not_round_and_overlap():
    rng = np.random.default_rng(100)
    samples = np.concatenate([rng.normal(m, (6.0, 0.5), (300, 2)) for m in [(0, -3), (2, 0), (0, 3)]])
    labels = np.repeat([0, 1, 2], 300)
    model = ODAPartition(20, random_state=0).fit(samples)
    assert model.n_clusters_ == 3
    assert adjusted_rand_score(labels, model.labels_) > 0.95


def test_clusters_are_those_of_the_samples_that_were_fitted():
    samples, _ = ring(300, 4)
    model = ODAPartition(12, random_state=0).fit(samples)
    wanted = ODAPartition(12, random_state=0).fit(samples).labels_
    samples[:] = 0.0
    np.testing.assert_array_equal(model.labels_, wanted)


def test_a_pickle_holds_clusters_and_no_samples():
    samples, _ = ring(2000, 4)
    model = ODAPartition(12, random_state=0).fit(samples)
    text = pickle.dumps(model)
    assert samples.tobytes()[:1000] not in text
    np.testing.assert_array_equal(pickle.loads(text).labels_, model.labels_)


def test_learning_goes_on_and_samples_are_forgotten():
    samples, _ = ring(2000, 4)
    model = ODAPartition(12, random_state=0).fit(samples)
    assert model.n_clusters_ == 4
    model.partial_fit(samples)
    assert not hasattr(model, "labels_")
    assert model.predict_clusters(samples).max() < model.n_clusters_


def test_of_another_divergence_the_path_tells():
    samples, labels = ring(600, 3)
    model = ODAPartition(12, divergence="kl", random_state=0).fit(samples - samples.min() + 1.0)
    assert model.n_clusters_ == 3
    assert adjusted_rand_score(labels, model.labels_) > 0.95


def test_of_a_stream():
    samples, labels = ring(2000, 4)
    model = ODAPartition(12, random_state=0).partial_fit(np.tile(samples, (4, 1)))
    assert model.n_clusters_ == 4
    assert adjusted_rand_score(labels, model.predict_clusters(samples)) > 0.95


def test_cells_of_a_stream_that_merged_again_are_no_clusters():
    """There are 6 cells three times before they stay."""
    centers = np.random.default_rng(5)
    centers = centers.normal(0.0, 5.0, (centers.integers(3, 8), 2))
    samples, labels = make_blobs(1500, 2, centers=centers, cluster_std=0.6, random_state=5)
    model = ODAPartition(14, cooling=0.8, n_warmup=20, forgetting=None, random_state=5)
    model.partial_fit(samples)
    counts = [point.n_codevectors for point in model.history_]
    assert min(counts[counts.index(6) :]) < 6 == model.n_clusters_
    assert adjusted_rand_score(labels, model.predict_clusters(samples)) > 0.99


def test_cells_merge_to_clusters_of_any_shape():
    for make in (make_moons, make_circles):
        options = {"factor": 0.5} if make is make_circles else {}
        X, kind = make(500, noise=0.05, random_state=100, **options)
        model = ODAPartition(max_codevectors=20, random_state=100).fit(X)
        cluster = model.merge_cells(X, 2)
        assert adjusted_rand_score(kind, cluster[model.predict(X)]) == 1.0
        assert adjusted_rand_score(kind, model.predict_clusters(X)) < 0.9  # round ones are others
        assert (model.merge_cells(X) == cluster).all(), "as many as there are"
        assert set(model.merge_cells(X, 5).tolist()) == set(range(5))
        assert set(model.merge_cells(X, 1).tolist()) == {0}
        np.testing.assert_array_equal(model.merge_cells(X, 20), np.arange(20))
    with pytest.raises(ValueError, match="n_clusters must be from 1 to 20"):
        model.merge_cells(X, 21)


@pytest.mark.parametrize("max_codevectors", [20, 60])
def test_cells_of_one_cluster_merge_to_one(max_codevectors):
    """Outer cells, which hold few samples with hardly any between them, are no clusters."""
    rng = np.random.default_rng(100)
    X = rng.normal(size=(900, 2))
    model = ODAPartition(max_codevectors=max_codevectors, random_state=100).fit(X)
    assert set(model.merge_cells(X).tolist()) == {0}
    kind = rng.integers(3, size=900)
    X += 8.0 * np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])[kind]
    model = ODAPartition(max_codevectors=max_codevectors, random_state=100).fit(X)
    for n_clusters in (None, 3):
        cluster = model.merge_cells(X, n_clusters)[model.predict(X)]
        assert adjusted_rand_score(kind, cluster) > 0.98

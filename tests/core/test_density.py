"""Densities over cells, of all samples and of classes: each integrates to one (Theorems 4, 7, 8, 9)."""

import numpy as np
import pytest
from model_files import with_header
from sklearn.datasets import make_blobs

from oda_rl import MultiResolutionODA, ODAClassifier, ODAPartition
from oda_rl.quantization import StochasticVQ

N_POINTS = 100_000


@pytest.mark.parametrize("d", [1, 2, 5])
def test_the_histogram_of_voronoi_cells_is_a_density(d):
    """Theorem 4: it integrates to one over its box; of uniform samples it is flat."""
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(1000, d))
    model = ODAPartition(6, random_state=0).fit(samples)
    points = rng.uniform(-3.0, 4.0, (100_000, d))
    density, error = model.histogram_density(points, box=[[-3.0] * d, [4.0] * d], n_draws=50_000, seed=1)
    assert density.mean() * 7.0**d == pytest.approx(1.0, abs=0.03)
    assert 0.0 < error.max() < 0.1
    flat = ODAPartition(4, random_state=0).fit(rng.uniform(size=(4000, d)))
    inside = rng.uniform(0.2, 0.8, (100, d))
    box = None if d == 1 else [[0.0] * d, [1.0] * d]
    np.testing.assert_allclose(flat.histogram_density(inside, box)[0], 1.0, rtol=0.1)
    assert flat.histogram_density(np.full((1, d), 5.0))[0] == 0.0
    with pytest.raises(ValueError, match="box must be"):
        model.histogram_density(points, box=[[0.0] * d])


def two_classes(d):
    """Two Gaussians of unit variance along each coordinate, one with a third of the samples."""
    samples, labels = make_blobs([800, 400], d, centers=[[-1.5] * d, [1.5] * d], random_state=0)
    lower, upper = samples.min(axis=0) - 1.0, samples.max(axis=0) + 1.0
    points = np.random.default_rng(1).uniform(lower, upper, (N_POINTS, d))
    return samples, labels, np.stack([lower, upper]), points


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("scale", ["within", None])
def test_the_mixtures_of_classes_are_densities(d, scale):
    """Theorem 7, with Gaussians in the place of cells; by Bayes' rule they give the probabilities."""
    samples, labels, box, points = two_classes(d)
    model = ODAClassifier(20, scale=scale, local_model=None, random_state=0).fit(samples, labels)
    density = model.class_density(points)
    integral = density.mean(axis=0) * np.prod(box[1] - box[0])
    np.testing.assert_allclose(integral, 1.0, atol=0.02 if d < 5 else 0.1)
    joint = model.class_density(samples) * [2 / 3, 1 / 3]
    proba = joint / joint.sum(axis=1, keepdims=True)
    least = 1.0 / (len(samples) + 2.0)  # for the class that has not been seen there (Laplace)
    np.testing.assert_allclose(
        model.predict_proba(samples), least + (1.0 - 2.0 * least) * proba, atol=1e-6
    )


@pytest.mark.parametrize("d", [1, 2, 5])
def test_the_leaves_of_a_tree_are_densities(d):
    """Theorem 8 for all samples, Theorem 9 for classes: the densities add up to that of all."""
    samples, labels, box, points = two_classes(d)
    tree = MultiResolutionODA(ODAClassifier(), layers=2, random_state=0).fit(samples, labels)
    volume = np.prod(box[1] - box[0])
    density, error = tree.histogram_density(points, box, n_draws=50_000)
    classes, same = tree.class_density(points, box, n_draws=50_000)
    assert density.mean() * volume == pytest.approx(1.0, abs=0.05)
    np.testing.assert_allclose(classes.mean(axis=0) * volume, 1.0, atol=0.1)
    np.testing.assert_array_equal(error, same)
    np.testing.assert_allclose(classes @ [2 / 3, 1 / 3], density, rtol=1e-6)
    assert np.all(tree.class_density(box[1:] + 1.0, box)[0] == 0.0)


def test_densities_that_there_are_not_are_refused():
    samples, labels, _, _ = two_classes(2)
    shared = ODAClassifier(20, mode="majority", random_state=0).fit(samples, labels)
    with pytest.raises(ValueError, match="mode='majority'"):
        shared.class_density(samples)


@pytest.mark.filterwarnings("ignore:feature")  # 0.1 varies by rounding
@pytest.mark.parametrize("value", [0.0, 0.1, -3.0, 1e9])
@pytest.mark.parametrize("divergence", ["squared_euclidean", "kl"])
def test_a_constant_feature_leaves_the_density_of_the_others(value, divergence):
    X = np.random.default_rng(0).uniform(2.0, 4.0, size=(300, 2))
    beside = np.c_[X, np.full(len(X), value if divergence == "squared_euclidean" else abs(value))]
    model = ODAPartition(1, divergence=divergence, random_state=0)
    expected = model.fit(X).histogram_density(X)[0]
    found = model.fit(beside).histogram_density(beside)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("kind", ["exponential", "standard_cauchy"])
def test_the_density_of_new_samples_stays_plausible_where_a_cell_has_a_single_sample(kind):
    rng = np.random.default_rng(101)
    X, new = (getattr(rng, kind)(size=(2000, 1)) for _ in range(2))
    model = ODAPartition(20, random_state=0).fit(X)
    assert (model.spreads_ == 0.0).any()
    found = model.score_samples(new)
    if kind == "exponential":
        assert -1.05 < found.mean() < -0.95  # of the distribution itself -1.0
        assert found.min() > -20.0
    else:  # the tails still fall like Gaussians
        assert found.mean() > -1e5
    alone = model.codevectors_[(model.spreads_ == 0.0)[:, 0]]
    assert model.score_samples(alone).max() < np.median(found) - 1.0
    assert (ODAPartition(3).fit([[1.0, 2.0]]).score_samples([[1.0, 2.0], [3.0, 4.0]]) > -10.0).all()


def test_the_density_of_well_separated_cells_is_that_of_their_samples():
    """However far apart they are: their distance counts only where there are few samples."""
    rng = np.random.default_rng(100)
    X, new = (rng.normal(size=(400, 2)) + 1e3 * rng.integers(3, size=(400, 1)) for _ in range(2))
    found = ODAPartition(3, random_state=0).fit(X).score_samples(new).mean()
    assert found == pytest.approx(-np.log(2.0 * np.pi * np.e) - np.log(3.0), abs=0.4)


def test_a_model_file_keeps_the_number_of_samples_behind_the_density(tmp_path):
    X = np.random.default_rng(0).exponential(size=(300, 2))
    heavy = np.r_[np.ones(200), np.zeros(100)]
    model = ODAPartition(20, random_state=0).fit(X, sample_weight=heavy)
    same = ODAPartition(20, random_state=0).fit(X[:200])
    assert model.n_fitted_ == 200
    density = model.score_samples(X)
    np.testing.assert_array_equal(density, same.score_samples(X))
    loaded = ODAPartition.load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.score_samples(X), density)
    assert not hasattr(model.partial_fit(X), "n_fitted_")


def test_the_density_of_a_stream_after_a_fit_does_not_count_repetitions(tmp_path):
    """Cells of few samples keep the variances expected of them, though a fit repeats its samples."""
    X = np.random.default_rng(100).normal(size=(2000, 2))
    new = np.random.default_rng(1).normal(size=(500, 2))
    model = ODAPartition(100, random_state=0).fit(X)
    fitted = model.score_samples(new).mean()
    model.partial_fit(X[:1])
    model.partial_fit(X[1:3])
    found = model.score_samples(new)
    assert found.mean() == pytest.approx(fitted, abs=1.0)
    assert model.n_samples_seen_ > 10_000
    loaded = ODAPartition.load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.score_samples(new), found)
    np.testing.assert_array_equal(
        loaded.partial_fit(X).score_samples(new), model.partial_fit(X).score_samples(new)
    )


def test_the_density_of_stochastic_vector_quantization_counts_no_repetitions(tmp_path):
    X = np.random.default_rng(100).normal(size=(400, 2))
    model = StochasticVQ(100, random_state=0).fit(X)
    fitted = model.score_samples(X)
    again = model.partial_fit(X[:1]).score_samples(X)
    assert np.abs(again - fitted).mean() < 0.2
    loaded = StochasticVQ.load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.score_samples(X), again)


def test_the_density_after_a_drift_counts_only_the_samples_since_the_restart(tmp_path):
    rng = np.random.default_rng(0)
    X, far = rng.normal(size=(1500, 2)), rng.normal(size=(300, 2)) + 20.0
    model = ODAPartition(30, random_state=0).fit(X)
    for n in range(1, 129):
        model.partial_fit(far[n - 1 : n])
    assert len(model.drifts_) == 1
    counts = []
    with_header(model.save(tmp_path / "model"), lambda header: counts.append(header) or header)
    assert 64 <= counts[0]["state"]["fitted"]["n_distinct"] <= 128
    assert counts[0]["state"]["fitted"]["n_samples_seen_"] > 10_000

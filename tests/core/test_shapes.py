"""Clusters of elliptic shapes, out of the codebooks of a path."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.metrics import adjusted_rand_score

from oda_rl import ODAPartition
from oda_rl._statistics import gaps_of_repeated
from oda_rl.codebook.schedule import PathPoint
from oda_rl.estimators.shapes import Shapes, find_shapes


def point(codevectors):
    return PathPoint(1.0, len(codevectors), 1.0, 0, 0.0, (), np.asarray(codevectors, dtype=float))


def annealed(samples, k=20):
    return ODAPartition(k, random_state=0).fit(samples).history_


def found_in(samples, weight=None):
    shapes = find_shapes(annealed(samples), samples, np.ones(len(samples)) if weight is None else weight)
    return shapes, shapes.predict(samples)


@pytest.mark.parametrize("one_for_all", [True, False])
def test_densities_are_those_of_gaussians(one_for_all):
    rng = np.random.default_rng(0)
    covariances = [np.cov(rng.normal(size=(3, 9))) for _ in range(2)]
    covariances[1] = covariances[0] if one_for_all else covariances[1]
    whiten = np.array([np.linalg.inv(np.linalg.cholesky(c)).T for c in covariances])
    share, centres, x = np.array([0.3, 0.7]), rng.normal(size=(2, 3)), rng.normal(size=(5, 3))
    log_weights = np.log(share) - 0.5 * np.linalg.slogdet(np.array(covariances))[1]
    shapes = Shapes(centres, whiten[:1] if one_for_all else whiten, log_weights)
    wanted = [
        np.log(p) + multivariate_normal(mean, c).logpdf(x)
        for p, mean, c in zip(share, centres, covariances, strict=True)
    ]
    constant = 1.5 * np.log(2.0 * np.pi)
    np.testing.assert_allclose(shapes.log_densities(x).T - constant, wanted, rtol=1e-9)


def test_one_gaussian_is_one_cluster():
    samples = np.random.default_rng(100).normal(size=(500, 3)) @ np.diag([5.0, 1.0, 0.2])
    assert len(found_in(samples)[0].centres) == 1


def test_shapes_may_differ_cross_and_lie_far_off():
    rng = np.random.default_rng(101)
    samples = rng.normal(size=(800, 2)) * np.repeat([[9.0, 0.3], [0.3, 9.0]], 400, axis=0) + 1e6
    shapes, found = found_in(samples)
    assert len(shapes.centres) == 2
    assert len(shapes.whiten) == 2
    assert adjusted_rand_score(np.repeat([0, 1], 400), found) > 0.8


def test_more_features_than_samples():
    rng = np.random.default_rng(102)
    centres = rng.normal(size=(3, 400))
    samples = centres[np.arange(90) % 3] + 0.3 * rng.normal(size=(90, 400))
    shapes, found = found_in(samples)
    assert adjusted_rand_score(np.arange(90) % 3, found) == 1.0
    assert shapes.whiten.shape[2] < 10


@pytest.mark.parametrize(("n", "d"), [(2, 4), (3, 3), (310, 400)])
def test_few_samples_of_more_features(n, d):
    samples = np.random.default_rng(105).normal(size=(n, d))
    model = ODAPartition(random_state=0).fit(samples)
    assert 1 <= model.n_clusters_ <= n
    np.testing.assert_array_equal(model.predict_clusters(samples), model.labels_)
    two = ODAPartition(random_state=0).fit([[0.0, 0.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0]])
    assert 1 <= two.n_clusters_ <= 2


def test_weights_count_as_repeated_samples():
    rng = np.random.default_rng(103)
    samples = np.concatenate([rng.normal(m, 1.0, (100, 2)) for m in (0.0, 6.0)])
    weight = rng.integers(1, 4, 200)
    history = annealed(samples, 8)
    weighted = find_shapes(history, samples, weight.astype(float))
    repeated = np.repeat(samples, weight, axis=0)
    again = find_shapes(history, repeated, np.ones(len(repeated)))
    ordered = [np.sort(one.centres, axis=0) for one in (weighted, again)]
    np.testing.assert_allclose(*ordered, atol=0.02)


def test_constant_features_and_equal_samples():
    rng = np.random.default_rng(104)
    samples = np.concatenate([rng.normal(m, 1.0, (100, 2)) for m in (0.0, 9.0)])
    widened = np.column_stack([samples, np.ones(200), samples[:, 0]])
    assert len(found_in(widened)[0].centres) == 2
    same = np.ones((20, 2))
    assert find_shapes([point(same[:1])], same, np.ones(20)) is None
    assert find_shapes([], samples, np.ones(200)) is None


@pytest.mark.parametrize("kind", ["rounded", "mostly rounded", "a line", "a flag", "categories"])
def test_repeated_values_are_no_clusters(kind):
    rng = np.random.default_rng(105)
    group = np.arange(600) % 3
    samples = rng.normal(size=(600, 2)) + 6.0 * np.array([[0, 0], [1, 0], [0, 1]])[group]
    if "rounded" in kind:
        samples = np.round(samples) * 0.1
        samples[::2] *= 1.0 + 1e-15  # equal but for the last bit
        if kind == "mostly rounded":
            samples[:6] += 0.02 * rng.normal(size=(6, 2))
    elif kind == "a line":
        samples = np.round(rng.normal(size=(600, 1)) + 10.0 * group[:, None])
    else:
        more = rng.random((600, 1)) < 0.05 if kind == "a flag" else np.eye(4)[rng.integers(0, 4, 600)]
        samples = np.hstack([samples, more])
    shapes, found = found_in(samples)
    assert len(shapes.centres) == 3
    assert adjusted_rand_score(group, found) > 0.95


def test_gaps_between_repeated_values_alone():
    rng = np.random.default_rng(100)
    few, many = 0.5 * rng.integers(0, 9, 100), rng.normal(size=100)
    twice = np.repeat(many[:70], 2)[:100]
    columns = few, many, np.ones(100), np.where(few > 2.0, 7.0, 0.0), twice
    found = gaps_of_repeated(np.column_stack(columns))
    np.testing.assert_allclose(found[:4], [0.5, 0.0, 0.0, 7.0])
    assert 0.0 < found[4] < 0.1

"""The kernels of trees against slow twins, and what growing a tree asks of its resolutions."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import load_iris

from oda_rl import MultiResolutionODA, ODAClassifier
from oda_rl.codebook.divergences import get_divergence
from oda_rl.datasets import make_gaussian_classes
from oda_rl.estimators.tree import kernels

SQUARED = get_divergence("squared_euclidean")


def layer(seed, d=3):
    """Cells of a layer: children of three parents, of which the second has none."""
    rng = np.random.default_rng(seed)
    count = np.array([3, 0, 4])
    first = np.cumsum(count) - count
    location = rng.uniform(0.1, 2.0, (d, count.sum()))
    samples = rng.uniform(0.1, 2.0, (50, d))
    return rng, samples, location, first, count


@pytest.mark.parametrize("divergence", ["squared_euclidean", "kl"])
def test_samples_descend_to_the_nearest_child(divergence):
    metric = get_divergence(divergence)
    rng, samples, location, first, count = layer(0)
    at = rng.integers(-1, 3, len(samples))
    found, closest = at.copy(), np.full(len(samples), np.nan)
    kernels.nearest_child(metric.kind, samples, location, first, count, found, closest)
    away = metric(samples, location.T)
    for t, cell in enumerate(at):
        children = [] if cell < 0 else list(range(first[cell], first[cell] + count[cell]))
        if not children:
            assert found[t] == -1
            continue
        assert found[t] == min(children, key=lambda i, t=t: away[t, i])
        assert closest[t] == pytest.approx(away[t, found[t]], abs=1e-12)


def test_the_first_of_equally_near_children_is_taken():
    location = np.array([[1.0, -1.0, 1.0]])
    at, closest = np.zeros(1, dtype=np.int64), np.zeros(1)
    first, count = np.array([0]), np.array([3])
    kernels.nearest_child(SQUARED.kind, np.zeros((1, 1)), location, first, count, at, closest)
    assert at[0] == 0


def test_densities_come_from_all_codevectors_that_share_a_region():
    """Equation 35, written down."""
    rng, samples, location, first, count = layer(1)
    parent = np.repeat(np.arange(3), count)
    own = np.array([0, 1, 1, 2, 0, 2, 2])
    share, width = rng.uniform(0.1, 1.0, 7), np.array([0.3, 1.0, 0.7])
    at = rng.integers(-1, 7, len(samples))
    out = np.full((len(samples), 3), np.nan)
    kernels.mixture_log_joint(
        SQUARED.kind, samples, at, parent, first, count, location, own, share, width, out
    )
    for t, cell in enumerate(at):
        if cell < 0:
            assert np.isnan(out[t]).all()
            continue
        p = parent[cell]
        density = np.zeros(3)
        for i in np.flatnonzero(parent == p):
            distance = ((samples[t] - location[:, i]) ** 2).sum()
            density[own[i]] += share[i] * np.exp(-distance / width[p])
        with np.errstate(divide="ignore"):
            np.testing.assert_allclose(out[t], np.log(density), atol=1e-10)


class Counting(TransformerMixin, BaseEstimator):
    """A map that counts the rows it is asked for."""

    rows = 0

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        Counting.rows += len(X)
        return np.tanh(X)


def test_a_fit_maps_its_samples_once_for_each_resolution():
    X, y = make_gaussian_classes()
    template = ODAClassifier(scale=None)
    model = MultiResolutionODA(template, layers=3, resolutions=[Counting(), None], random_state=0)
    Counting.rows = 0
    model.fit(X, y)
    assert len(X) <= Counting.rows <= len(X) + 2
    plain = MultiResolutionODA(template, layers=3, resolutions=[np.tanh, None], random_state=0)
    np.testing.assert_array_equal(model.predict(X), plain.fit(X, y).predict(X))


def test_classes_may_have_any_type():
    X, y = load_iris(return_X_y=True)
    names = load_iris().target_names
    models = [
        MultiResolutionODA(ODAClassifier(), random_state=0).fit(X, target)
        for target in (y, y.astype(np.uint8), y.tolist(), names[y], y.astype(float))
    ]
    for model in models:
        np.testing.assert_array_equal(
            np.searchsorted(model.classes_, model.predict(X)), models[0].predict(X)
        )
    with pytest.raises(ValueError, match="Unknown label type"):
        models[0].fit(X, X[:, 0])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        models[0].fit(X, y[:-1])


def test_seeds_may_come_from_numpy():
    X, y = make_gaussian_classes()
    for same in (3, np.int64(3)):
        model = MultiResolutionODA(ODAClassifier(), random_state=same).fit(X, y)
        expected = MultiResolutionODA(ODAClassifier(), random_state=3).fit(X, y)
        np.testing.assert_array_equal(model.codevectors_, expected.codevectors_)
    one, other = (
        MultiResolutionODA(ODAClassifier(), random_state=np.random.RandomState(3)).fit(X, y)
        for _ in range(2)
    )
    np.testing.assert_array_equal(one.codevectors_, other.codevectors_)

"""Children of a tree's cells where many samples are the same, as with few values of each feature."""

import numpy as np
import pytest

from oda_rl import MultiResolutionODA, ODAClassifier


def counted(n, seed):
    """Three features of three and two values; each of the 12 combinations has a share of the class 1."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, 3, n), rng.integers(0, 2, n), rng.integers(0, 2, n)])
    share = np.array([0.1, 0.9, 0.2, 0.75, 0.95, 0.3, 0.05, 0.6, 0.85, 0.15, 0.7, 0.25])
    told = share[4 * X[:, 0] + 2 * X[:, 1] + X[:, 2]]
    return X.astype(float), (rng.uniform(size=n) < told).astype(int), told


@pytest.mark.parametrize("seed", [100, 101, 102])
def test_what_classes_have_of_the_same_samples_is_told(seed):
    (X, y, _), (other, labels, told) = counted(1500, seed), counted(3000, seed + 50)
    best = np.mean((told > 0.5) == labels)
    tree = MultiResolutionODA(ODAClassifier(), random_state=0).fit(X, y)
    assert tree.score(other, labels) > best - 0.03


def test_a_point_with_two_classes_is_of_the_likelier():
    X = np.repeat([[0.0, 0.0], [1.0, 2.0]], 100, axis=0)
    y = np.r_[np.arange(100) < 30, np.arange(100) < 80].astype(int)
    tree = MultiResolutionODA(ODAClassifier(), random_state=0).fit(X, y)
    np.testing.assert_array_equal(tree.predict([[0.0, 0.0], [1.0, 2.0]]), [0, 1])
    np.testing.assert_allclose(tree.predict_proba([[0.0, 0.0], [1.0, 2.0]])[:, 1], [0.3, 0.8], atol=0.1)

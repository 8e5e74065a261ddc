"""Classes that come after a fit: their share of cells, in any chunks, and no false alarm of a change."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oda_rl import ODAClassifier
from oda_rl.estimators.classification.annealing import capacities_of_stream


def late(seed):
    """Samples of three classes, of which the first 300 have the labels of two."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2000, 4))
    y = np.digitize(X[:, 0] + 1.5 * np.sin(2.0 * X[:, 1]), [-1, 1])
    y[:300] = np.minimum(y[:300], 1)
    return X, y


@given(st.lists(st.integers(1, 60), min_size=1, max_size=8), st.integers(8, 200))
def test_shares_of_classes_keep_their_cells_and_do_not_exceed_the_maximum(sizes, maximum):
    shares = capacities_of_stream(sizes, maximum)
    assert min(shares) >= 1
    assert sum(shares) <= maximum
    if sum(sizes) <= maximum:
        assert all(share >= size for share, size in zip(shares, sizes, strict=True))
        assert sum(shares) > maximum - len(sizes)


@pytest.mark.parametrize(("seed", "n_fitted"), [(103, 0), (101, 300)])
def test_a_class_after_a_fit_is_learned_alike_in_any_chunks(seed, n_fitted):
    X, y = late(seed)
    found = []
    for chunk in (10, 1100):
        model = ODAClassifier(random_state=0)
        if n_fitted > 0:
            model.fit(X[:n_fitted], y[:n_fitted])
        for start in range(n_fitted, 1100, chunk):
            stop = min(start + chunk, 1100)
            model.partial_fit(X[start:stop], y[start:stop])
        found.append(model.predict_proba(X))
        assert model.n_codevectors_ <= 120
    np.testing.assert_allclose(found[1], found[0], atol=1e-9)


def test_a_class_that_anneals_among_others_is_not_taken_for_a_quick_change():
    X, y = late(101)
    model = ODAClassifier(random_state=0).fit(X[:300], y[:300])
    model.partial_fit(X[300:1600], y[300:1600])
    assert model.memory_ == np.inf
    assert model.score(X[1600:], y[1600:]) > 0.9

"""A fit solves its systems in one thread, and leaves the number of them as it was."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from oda_rl import MultiResolutionODA, ODAClassifier, ODARegressor
from oda_rl.estimators.classification import logistic

X = np.random.default_rng(0).normal(size=(400, 2))


def blas_threads():
    return {found["num_threads"] for found in threadpool_info() if found["user_api"] == "blas"}


@pytest.mark.parametrize("make", [ODAClassifier, ODARegressor])
def test_a_fit_has_one_thread(make):
    seen = []

    def watched(rows):
        seen.append(blas_threads())
        return rows

    with threadpool_limits(2, "blas"):
        if blas_threads() != {2}:
            pytest.skip("BLAS has one thread here")
        MultiResolutionODA(make(), resolutions=[watched], layers=1).fit(X[:40], X[:40, 0] > 0.0)
        assert seen[0] == {1}
        assert blas_threads() == {2}


def test_a_stream_that_solves_has_one_thread(monkeypatch):
    seen, solve = [], np.linalg.eigh

    def watched(matrix):
        if len(matrix) > X.shape[1] + 1:  # no covariances
            seen.append(blas_threads())
        return solve(matrix)

    monkeypatch.setattr(np.linalg, "eigh", watched)
    with threadpool_limits(2, "blas"):
        if blas_threads() != {2}:
            pytest.skip("BLAS has one thread here")
        MultiResolutionODA(ODARegressor(), random_state=0).partial_fit(X, X[:, 0])
    assert seen
    assert all(threads == {1} for threads in seen)


def test_a_stream_of_single_samples_has_one_thread_where_it_is_fitted(monkeypatch):
    seen, minimize = [], logistic.minimize

    def watched(*given, **named):
        seen.append(blas_threads())
        return minimize(*given, **named)

    monkeypatch.setattr(logistic, "minimize", watched)
    model = ODAClassifier(random_state=0)
    y = (X[:, 0] > 0.0).astype(np.int64)
    with threadpool_limits(2, "blas"):
        if blas_threads() != {2}:
            pytest.skip("BLAS has one thread here")
        for t in range(256):
            model.partial_fit(X[t : t + 1], y[t : t + 1])
        assert blas_threads() == {2}
    assert seen
    assert all(threads == {1} for threads in seen)


def test_a_tree_that_waits_for_more_samples_has_one_thread(monkeypatch):
    seen, solve = [], np.linalg.eigh

    def watched(matrix):
        seen.append(blas_threads())
        return solve(matrix)

    monkeypatch.setattr(np.linalg, "eigh", watched)
    model = MultiResolutionODA(ODAClassifier(), random_state=0)
    with threadpool_limits(2, "blas"):
        if blas_threads() != {2}:
            pytest.skip("BLAS has one thread here")
        for t in range(20):
            model.partial_fit(X[t : t + 1], X[t : t + 1, 0] > 0.0, classes=[False, True])
    assert seen
    assert all(threads == {1} for threads in seen)

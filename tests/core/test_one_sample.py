"""Single samples of a stream: what is quick is the same as what is not."""

import pickle
from copy import deepcopy

import numpy as np
import pytest
from sklearn.base import clone

from oda_rl import ODAPartition, ODARegressor

SEEDS = {"random_state": 0}
MODELS = [
    ODAPartition(6, **SEEDS),
    ODAPartition(6, scale="standard", finish=False, **SEEDS),
    ODAPartition(5, divergence="kl", rehearse=False, **SEEDS),
    ODARegressor(10, **SEEDS),
    ODARegressor(10, local_model="constant", forgetting=None, **SEEDS),
]


def changing(n=600, n_after=600, n_outputs=0):
    """Samples with outputs, or none; at a change all are moved, and outputs of the other sign."""
    rng = np.random.default_rng(0)
    X = rng.uniform(1.0, 3.0, (n + n_after, 2))
    later = np.arange(n + n_after) >= n
    y = np.where(later, -1.0, 1.0)[:, None] * np.sin(3.0 * X[:, :1] + np.arange(max(1, n_outputs)))
    return X + 5.0 * later[:, None], (y[:, 0] if n_outputs == 0 else y)


def learned(model, X, y, rows):
    """A model that has learned from some of the rows at once."""
    return model.partial_fit(X[rows], *(() if isinstance(model, ODAPartition) else (y[rows],)))


@pytest.fixture
def slow(monkeypatch):
    """The samples that were learned from the slow way."""
    found = []
    for kind in (ODAPartition, ODARegressor):
        learn = kind._learn

        def noted(self, data, learn=learn):
            found.append(len(data.weight))
            learn(self, data)

        monkeypatch.setattr(kind, "_learn", noted)
    return found


@pytest.mark.parametrize(
    ("model", "n_outputs"),  # partitions have no outputs
    [(model, n) for model in MODELS for n in ([0] if isinstance(model, ODAPartition) else [0, 2])],
)
def test_single_samples_are_learned_as_chunks_are(model, n_outputs, slow):
    X, y = changing(n_outputs=n_outputs)
    whole = learned(clone(model), X, y, slice(None))
    single = clone(model)
    slow.clear()
    for i in range(len(X)):
        learned(single, X, y, slice(i, i + 1))
        if i % 8 == 0:
            single.predict(X[:1])
        if i in (150, 500):
            single = pickle.loads(pickle.dumps(single)) if i == 150 else deepcopy(single)
    assert slow.count(1) < 300  # warming up, and after the change again
    found = [[d.n_samples_seen for d in one.drifts_] for one in (whole, single)]
    assert found[0] == found[1]
    assert len(found[0]) == (model.forgetting is not None)
    np.testing.assert_allclose(single.codevectors_, whole.codevectors_, rtol=1e-7)
    np.testing.assert_allclose(single.weights_, whole.weights_, rtol=1e-7)
    np.testing.assert_allclose(single.predict(X), whole.predict(X), rtol=1e-7, atol=1e-9)
    assert single.n_samples_seen_ == whole.n_samples_seen_ == len(X)
    assert single.history_[-1].n_codevectors == whole.history_[-1].n_codevectors


@pytest.mark.parametrize("model", MODELS[2:4])
def test_what_is_wrong_is_refused_and_leaves_nothing(model):
    X, y = changing()
    model = learned(clone(model), X, y, slice(0, 500))
    learned(model, X, y, slice(500, 501))
    before = model.predict(X)
    wrong = [(np.array([[1.0, np.nan]]), np.ones(1)), (X[:1], np.array([np.inf]))]
    for sample, output in wrong[: 1 if isinstance(model, ODAPartition) else 2]:
        with pytest.raises(ValueError, match=r"NaN|inf"):
            learned(model, sample, output, slice(None))
    assert model.n_samples_seen_ == 501
    np.testing.assert_array_equal(model.predict(X), before)


def test_what_was_told_of_a_partition_stays_and_is_told_anew():
    X, _ = changing()
    model = ODAPartition(6, **SEEDS).fit(X[:400])
    told, labels = model.codevectors_.copy(), model.labels_
    given = model.codevectors_
    for i in range(400, 700):
        model.partial_fit(X[i : i + 1])
    np.testing.assert_array_equal(given, told)
    assert not np.array_equal(model.codevectors_, told)
    assert len(labels) == 400
    assert not hasattr(model, "labels_")
    nearest = ((X[:, None] - model.codevectors_) ** 2).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(model.predict(X), nearest)
    model.partial_fit(X[700:701])
    np.testing.assert_array_equal(model.predict(X[:50]), nearest[:50])
    assert model.weights_.sum() == pytest.approx(1.0)

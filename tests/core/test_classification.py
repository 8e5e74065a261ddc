"""The classifier: what it promises of fits, streams, files, rules, modes and rejected samples."""

import io

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_moons

from oda_rl import ODAClassifier

CENTRES = [(0.0, 0.0), (4.0, 0.0), (0.0, 3.0), (4.0, 4.0)]


def blobs(n=100, seed=0):
    """Four blobs of three classes."""
    rng = np.random.default_rng(seed)
    samples = np.concatenate([rng.normal(c, 0.3, (n, 2)) for c in CENTRES])
    order = rng.permutation(len(samples))
    return samples[order], np.repeat([0, 1, 2, 0], n)[order]


@pytest.mark.parametrize("mode", ["conditional", "majority", "lvq"])
@pytest.mark.parametrize("rule", ["bayes", "nearest"])
def test_modes_and_rules(mode, rule):
    X, y = make_moons(400, noise=0.1, random_state=0)
    model = ODAClassifier(mode=mode, rule=rule, random_state=0).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.97
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[proba.argmax(axis=1)], model.predict(X))
    assert model.weights_.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("mode", ["conditional", "majority", "lvq"])
def test_a_stream_learns_one_and_predicts_one(mode):
    X, y = make_moons(1000, noise=0.1, random_state=0)
    model = ODAClassifier(mode=mode, max_codevectors=40, random_state=0)
    right = 0
    for i in range(len(X)):
        if i > 0:
            right += model.predict(X[i : i + 1])[0] == y[i]
        model.partial_fit(X[i : i + 1], y[i : i + 1], classes=[0, 1])
    assert right > 0.8 * len(X)
    for _ in range(10):
        model.partial_fit(X, y)
    assert model.score(X, y) > 0.97
    assert model.n_samples_seen_ == 11 * len(X)


@pytest.mark.parametrize("fine_tune", ["lvq1", "glvq", "grlvq", "gmlvq"])
def test_fine_tuning(fine_tune):
    X, y = load_iris(return_X_y=True)
    model = ODAClassifier(fine_tune=fine_tune, random_state=0).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.92
    assert model.relevances_.sum() == pytest.approx(1.0)
    model.partial_fit(X, y)
    assert model.score(X, y) > 0.92


def test_classes_come_late():
    X, y = blobs()
    model = ODAClassifier(random_state=0)
    model.partial_fit(X[y == 1], y[y == 1])
    np.testing.assert_array_equal(model.classes_, [1])
    model.partial_fit(X[y == 2], y[y == 2])
    for _ in range(5):
        model.partial_fit(X, y)
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])
    assert model.score(X, y) > 0.99


@pytest.mark.parametrize("mode", ["conditional", "majority", "lvq"])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_file_goes_on_where_it_was(mode, streamed):
    X, y = blobs()
    names = np.array(["red", "green", "blue"])[y]
    model = ODAClassifier(mode=mode, random_state=0)
    if streamed:
        model.partial_fit(X[:250], names[:250])
    else:
        model.fit(X, names)
    file = io.BytesIO()
    model.save(file)
    file.seek(0)
    read = ODAClassifier.load(file)
    np.testing.assert_array_equal(read.predict_proba(X), model.predict_proba(X))
    assert len(read.history_) == len(model.history_)
    for m in (model, read):
        m.partial_fit(X, names)
    np.testing.assert_array_equal(read.codevectors_, model.codevectors_)
    np.testing.assert_array_equal(read.predict(X), model.predict(X))


def test_rejects_what_is_far_away():
    X, y = blobs()
    for model in (ODAClassifier(reject=0.02, random_state=0), ODAClassifier(reject=0.02)):
        model.fit(X, y)
        assert (model.predict(X) == -1).mean() < 0.06
        np.testing.assert_array_equal(model.predict([[50.0, 50.0], [2.0, -20.0]]), -1)
        np.testing.assert_array_equal(model.predict([CENTRES[1]]), 1)

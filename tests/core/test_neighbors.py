"""Stored samples beside the cells of a classifier: their formula, where they help, and how they go."""

import pickle

import numpy as np
import pytest
from model_files import reloaded

from oda_rl import ODAClassifier
from oda_rl.estimators.classification import neighbors
from oda_rl.estimators.classification.neighbors import Neighbors
from oda_rl.estimators.feature_scaling import NO_SCALING, Scaling
from oda_rl.estimators.targets import Data


def board(n, seed, fields=10):
    """A chess board with more fields than there will be cells."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, fields, (n, 2))
    return X, (np.floor(X).sum(axis=1) % 2).astype(int)


def fitted(n=1500, **options):
    return ODAClassifier(20, **{"random_state": 0, **options}).fit(*board(n, 100))


def test_votes_are_those_of_the_equation():
    """Against a slow twin: weights that fall to exp(-2), and half a vote for all classes alike."""
    rng = np.random.default_rng(1)
    data = Data(rng.normal(size=(40, 3)), rng.integers(0, 4, 40), rng.uniform(0.5, 2.0, 40))
    scaling = Scaling(np.ones(3), np.diag([1.0, 2.0, 0.5]), np.diag([1.0, 0.5, 2.0]))
    samples = rng.normal(size=(7, 3))
    found = Neighbors(data, scaling, 5).log_proba(samples, 4)
    for row, x in zip(found, samples, strict=True):
        distance = np.linalg.norm(data.samples - (x - 1.0) * [1.0, 2.0, 0.5], axis=1)
        nearest = sorted(range(40), key=distance.__getitem__)[:5]
        votes = np.full(4, 0.5 / 4)
        for i in nearest:
            fall = np.exp(-2.0 * (distance[i] / distance[nearest[-1]]) ** 2)
            votes[data.targets[i]] += data.weight[i] * fall
        np.testing.assert_allclose(row, np.log(votes / votes.sum()), rtol=1e-12)


def test_samples_at_one_place_all_count():
    data = Data(np.zeros((6, 2)), np.array([0, 0, 0, 0, 1, 1]), np.ones(6))
    found = Neighbors(data, NO_SCALING, 6).log_proba(np.zeros((1, 2)), 2)
    np.testing.assert_allclose(np.exp(found), [[4.25 / 6.5, 2.25 / 6.5]])


def test_neighbors_come_where_boundaries_are_too_fine_for_cells():
    test = board(1000, 101)
    cells, both = fitted(neighbors=None), fitted()
    assert cells.n_neighbors_ == 0 < both.n_neighbors_
    assert both.score(*test) > cells.score(*test) + 0.05
    rows = np.arange(len(test[1]))
    losses = [-model.predict_log_proba(test[0])[rows, test[1]].mean() for model in (cells, both)]
    assert losses[1] < 0.8 * losses[0]
    np.testing.assert_array_equal(both.predict(test[0]), both.predict_proba(test[0]).argmax(axis=1))
    one_by_one = [both.predict_proba(x[None])[0] for x in test[0][:50]]
    np.testing.assert_allclose(one_by_one, both.predict_proba(test[0][:50]), rtol=1e-9)


@pytest.mark.parametrize(
    "options", [{"neighbors": None}, {"rule": "nearest"}, {"divergence": "kl"}, {"validation": None}]
)
def test_no_neighbors_where_none_are_wanted(options):
    assert fitted(600, **options).n_neighbors_ == 0


def test_no_neighbors_where_cells_are_as_good():
    rng = np.random.default_rng(3)
    for n in (40, 1000):
        labels = rng.integers(0, 3, n)
        X = rng.normal(size=(n, 4)) + 2.0 * labels[:, None]
        model = ODAClassifier(random_state=0).fit(X, labels)
        cells = ODAClassifier(neighbors=None, random_state=0).fit(X, labels)
        assert model.n_neighbors_ == 0
        np.testing.assert_array_equal(model.predict_proba(X), cells.predict_proba(X))


def test_they_are_refused_by_another_name():
    with pytest.raises(ValueError, match=r"'neighbors' parameter .* must be .*'auto'.* or None. Got 5"):
        fitted(neighbors=5)


def test_files_and_copies_have_them():
    model, (X, _) = fitted(), board(200, 102)
    for other in (reloaded(model), pickle.loads(pickle.dumps(model))):
        assert other.n_neighbors_ == model.n_neighbors_ > 0
        np.testing.assert_array_equal(other.predict_proba(X), model.predict_proba(X))


def test_only_so_many_numbers_are_stored(monkeypatch):
    monkeypatch.setattr(neighbors, "NUMBERS", 1600)
    model = fitted()
    assert model.n_neighbors_ > 0
    assert model._session.neighbors.data.samples.size == 1600


def test_weights_are_copies():
    """A sample of weight two is as good as two samples."""
    X, y = board(1200, 100)
    twice = np.arange(1200) % 3 == 0
    weighted = ODAClassifier(20, random_state=0).fit(X, y, 1.0 + twice)
    copied = ODAClassifier(20, random_state=0).fit(
        np.concatenate([X, X[twice]]), np.concatenate([y, y[twice]])
    )
    assert weighted.n_neighbors_ == copied.n_neighbors_ > 0
    found = [model._session.neighbors.data for model in (weighted, copied)]
    np.testing.assert_allclose(found[1].weight, found[0].weight)


def test_a_stream_keeps_them_until_it_changes():
    model, (X, y) = fitted(), board(2000, 103)
    model.partial_fit(X[:500], y[:500])
    assert model.n_neighbors_ > 0
    changed = model.partial_fit(X, 1 - y)
    assert len(changed.drifts_) > 0
    assert changed.n_neighbors_ == 0


def test_a_new_class_is_not_outvoted():
    model, (X, y) = fitted(), board(300, 104)
    model.partial_fit(X + 30.0, np.full(300, 2))
    assert model.n_neighbors_ == 0
    assert model.score(X + 30.0, np.full(300, 2)) > 0.9
    assert model.score(X, y) > 0.5


def test_any_number_of_folds_will_do(monkeypatch):
    """Each holds out a sample at least; here whatever lowers their loss is kept."""
    for name, value in {"MOST_TRIED": 4, "CLEARLY": 1.0, "Z": -np.inf}.items():
        monkeypatch.setattr(neighbors, name, value)
    assert fitted(validation=5).n_neighbors_ > 0

"""Local logits of the classifier: ranks, the mixture of linear logits, what it gains, streams, files."""

import pickle

import numpy as np
import pytest
from model_files import reloaded
from scipy.special import log_softmax, softmax
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from oda_rl import ODAClassifier
from oda_rl.estimators.classification import stream
from oda_rl.estimators.classification.local_logits import LogitTrial
from oda_rl.estimators.classification.logistic import fit_logistic
from oda_rl.estimators.targets import Data


def skewed(n=900, seed=0):
    """Three classes whose logits are linear in the logarithms of features of all sizes."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 6))
    logits = z[:, :3] * [2.0, 2.0, 2.0] + 0.5 * z[:, 3:]
    y = (logits + rng.gumbel(size=(n, 3))).argmax(axis=1)
    return np.exp(z * [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]), y


def with_unseen(proba, n_seen):
    """Laplace's rule: each class shares 1 / (n + 2), spread so that all but one have it together."""
    each = 1.0 / ((proba.shape[1] - 1) * (n_seen + 2.0))
    return proba * (1.0 - proba.shape[1] * each) + each


def proba_of(run, inputs, n_seen):
    """The softmax of the mixture of linear logits, for features and effects (n_samples, n_inputs)."""
    d, m = run.n_inputs, run.n_outputs
    z = (inputs - run.scaling.mean[:d]) / run.scaling.deviation[:d]
    d2 = ((z[:, None] - run.book.codevectors[:, :d]) ** 2).sum(axis=2)
    share = np.exp(-(d2 - d2.min(axis=1, keepdims=True)) / run.gating_temperature)
    share /= share.sum(axis=1, keepdims=True)
    theta = run.book["theta"].reshape(m, d + 1, -1)
    proba = softmax(
        np.einsum("ni,cji,nj->nc", share, theta, np.column_stack([np.ones(len(z)), z])), axis=1
    )
    return with_unseen(proba, n_seen)


def test_probabilities_are_the_softmax_of_the_mixture_of_linear_logits():
    X, y = skewed(300)
    model = ODAClassifier(local_model="linear", random_state=0).fit(X, y)
    proba = proba_of(model._session.local.run, model._session.local.ranks(X), 300)
    np.testing.assert_allclose(model.predict_proba(X), proba, atol=1e-9)
    np.testing.assert_array_equal(model.decision_function(X).argmax(axis=1), proba.argmax(axis=1))


def coded(n, seed=0):
    """Three classes by numbers of kinds without an order, and by one number that has an order."""
    rng = np.random.default_rng(seed)
    kinds, z = rng.integers(0, 8, (n, 3)), rng.normal(size=n)
    of_kinds = np.random.default_rng(0).normal(size=(3, 8, 3))
    logits = 2.0 * sum(own[kinds[:, j]] for j, own in enumerate(of_kinds)) + z[:, None] * [
        1.0,
        0.0,
        -1.0,
    ]
    return np.column_stack([kinds, z]), (logits + rng.gumbel(size=(n, 3))).argmax(axis=1)


def test_numbers_of_kinds_count_by_their_effects():
    """Effects of the ranks are further features of the logits: in batches, streams and files."""
    (X, y), (X_test, y_test) = coded(1000), coded(1000, 1)
    model = ODAClassifier(local_model="linear", random_state=0).fit(X, y)
    run, scores = model._session.local.run, model._session.local.ranks(X)
    feature, knots, values = run.effects
    assert set(feature.tolist()) >= {0, 1, 2}
    effects = [np.interp(scores[:, j], knots[:, k], values[:, k]) for k, j in enumerate(feature)]
    proba = proba_of(run, np.column_stack([scores, *effects]), 1000)
    np.testing.assert_allclose(model.predict_proba(X), proba, atol=1e-9)
    line = LogisticRegression().fit(X, y).score(X_test, y_test)
    before = model.score(X_test, y_test)
    assert before > line + 0.15
    read = reloaded(model)
    for one in (model, read):
        one.partial_fit(X_test[:200], y_test[:200])
    assert model.score(X_test[200:], y_test[200:]) > before - 0.05
    found = model.predict(X)
    np.testing.assert_array_equal(found, [model.predict(X[i : i + 1])[0] for i in range(1000)])
    np.testing.assert_array_equal(read.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_models_say_what_the_regression_found(n_classes):
    X, y = skewed(300)
    y = np.minimum(y, n_classes - 1)
    model = ODAClassifier(local_model="linear", random_state=0).fit(X, y)
    local, data = model._session.local, Data(X, y, np.ones(len(y)))
    for kept in (None, np.arange(6) != 3):
        for cells in (1, 5):
            local.fit(data, LogitTrial(cells, 1.0, kept))
            basis = local.run.basis(local.side_by_side(data))
            found = log_softmax(fit_logistic(basis, y, data.weight, 1.0)(basis), axis=1)
            # Shares below a thousandth count nothing in the regression.
            np.testing.assert_allclose(local.view.log_proba(X), found, atol=1e-9 if cells == 1 else 0.02)


def test_many_cells_learn_a_fine_pattern_go_on_and_are_stored():
    """Beyond a hundred they are split, not annealed; later samples and files find them as others."""
    rng = np.random.default_rng(100)
    X = rng.uniform(0.0, 8.0, (5000, 2))
    y = ((np.floor(X[:, 0]) + np.floor(X[:, 1])) % 2).astype(int)  # a chess board
    model = ODAClassifier(local_model="linear", random_state=0).fit(X[:400], y[:400])
    model._session.neighbors = None
    model._session.local.fit(Data(X[:4000], y[:4000], np.ones(4000)), LogitTrial(250, 100.0))
    model.partial_fit(X[:1], y[:1])
    assert model.n_local_cells_ == 250
    assert model.score(X[4000:], y[4000:]) > 0.9
    read = reloaded(model)
    np.testing.assert_array_equal(read.predict_proba(X), model.predict_proba(X))
    for one in (model, read):
        one.partial_fit(X[4000:], y[4000:])
    assert model.n_local_cells_ == 250
    np.testing.assert_array_equal(read.predict_proba(X), model.predict_proba(X))


def test_logits_are_mixed_in_where_they_help():
    X, y = skewed(900, 100)
    X_test, y_test = skewed(900, 101)
    scores = {
        name: ODAClassifier(local_model=name, random_state=0).fit(X, y).score(X_test, y_test)
        for name in ("auto", "linear", None)
    }
    assert scores["auto"] > scores[None] + 0.05
    assert scores["auto"] > scores["linear"] - 0.02
    alone = ODAClassifier(local_model=None, random_state=0).fit(X, y)
    assert alone.local_weights_ == (1.0, 0.0)
    assert alone.n_local_cells_ == 0


def test_a_stream_of_logits():
    """They learn, in any chunks; a class that comes late begins them anew; a file goes on exactly."""
    X, y = skewed(1500)
    early = y < 2
    model = ODAClassifier(local_model="linear", random_state=0)
    model.partial_fit(X[early], y[early])
    assert model.score(X[early], y[early]) > 0.8
    for part in np.split(np.arange(len(X)), [*range(1, 150), 170, 900]):
        model.partial_fit(X[part], y[part])
    whole = ODAClassifier(local_model="linear", random_state=0)
    whole.partial_fit(X[early], y[early]).partial_fit(X, y)
    np.testing.assert_allclose(whole.predict_proba(X), model.predict_proba(X), atol=1e-9)
    X_test, y_test = skewed(900, 1)
    density = ODAClassifier(local_model=None, random_state=0).partial_fit(X, y)
    assert model.score(X_test, y_test) > max(0.72, density.score(X_test, y_test))
    read = reloaded(model)
    np.testing.assert_array_equal(read.predict_proba(X), model.predict_proba(X))
    for one in (model, read):
        one.partial_fit(X[:300], y[:300])
    np.testing.assert_array_equal(read.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("local_model", ["auto", "linear"])
def test_predictions_of_single_samples_are_those_of_all_and_of_the_latest_logits(local_model):
    X, y = skewed(500)
    model = ODAClassifier(local_model=local_model, random_state=0).fit(X[:300], y[:300])
    assert model.local_weights_[1] > 0.0
    for t in range(300, 500):
        model.partial_fit(X[t : t + 1], y[t : t + 1])
        if t % 20 == 0:
            found = model.predict(X)
            np.testing.assert_array_equal(found, pickle.loads(pickle.dumps(model)).predict(X))
            np.testing.assert_array_equal(found, [model.predict(X[i : i + 1])[0] for i in range(500)])
            likely = model.predict_proba(X).argmax(axis=1)
            np.testing.assert_array_equal(found, model.classes_[likely])


@pytest.mark.parametrize("n", [4, 6, 12])
def test_a_file_of_no_more_samples_than_cells_is_read(n, tmp_path):
    for seed in range(100, 104):
        samples = np.random.default_rng(seed).normal(size=(n, 2))
        model = ODAClassifier(random_state=0).fit(samples, np.arange(n) % 2)
        again = ODAClassifier.load(model.save(tmp_path / "model"))
        np.testing.assert_array_equal(again.predict_proba(samples), model.predict_proba(samples))


def curved(n, seed=0):
    """Two classes that a sine and a product of features separate."""
    X = np.random.default_rng(seed).normal(size=(n, 6))
    return X, (np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] > 0.0).astype(int)


def test_a_stream_is_fitted_where_that_is_better_on_its_latest_samples():
    X, y = curved(3000)
    X_test, y_test = X[2000:], y[2000:]
    fitted = ODAClassifier(random_state=0).fit(X[:1024], y[:1024]).score(X_test, y_test)
    whole, single, never = (
        ODAClassifier(random_state=0, forgetting=f) for f in ("adwin", "adwin", None)
    )
    whole.partial_fit(X[:1400], y[:1400])
    never.partial_fit(X[:1400], y[:1400])
    for start in range(0, 1400, 7):
        single.partial_fit(X[start : start + 7], y[start : start + 7])
    np.testing.assert_allclose(single.predict_proba(X), whole.predict_proba(X), rtol=1e-9)
    assert whole.score(X_test, y_test) > fitted - 0.03
    assert whole.score(X_test, y_test) > never.score(X_test, y_test) + 0.05
    again = reloaded(whole).partial_fit(X[1400:2048], y[1400:2048])
    np.testing.assert_array_equal(
        again.predict_proba(X), whole.partial_fit(X[1400:2048], y[1400:2048]).predict_proba(X)
    )
    # Cells of the logits rest, and the logits go on.
    book = whole._session.local.run.book
    cells, models = book.codevectors.copy(), book["theta"].copy()
    whole.partial_fit(X[2048:2304], y[2048:2304])
    book = whole._session.local.run.book
    np.testing.assert_array_equal(book.codevectors, cells)
    assert not np.array_equal(book["theta"], models)


def test_the_last_fit_of_a_stream_is_of_all_but_an_eighth_unless_features_are_many(monkeypatch):
    monkeypatch.setattr(stream, "FIT_AT", (64, 512))
    X, y = curved(2500)
    models = {}
    for most in (6, 5):
        monkeypatch.setattr(stream, "MOST_FEATURES", most)
        models[most] = ODAClassifier(random_state=0)
        for start in range(0, 512, 64):
            models[most].partial_fit(X[start : start + 64], y[start : start + 64])
    assert [model._session.n_fitted for model in models.values()] == [448, 64]
    assert [model.n_samples_seen_ for model in models.values()] == [512, 512]
    fitted, never = (model.score(X[512:], y[512:]) for model in models.values())
    assert fitted > never + 0.05


@pytest.mark.parametrize(
    "options",
    [
        {"local_model": "linear"},
        {"mode": "majority"},
        {"mode": "lvq", "n_passes": 1},
        {"rule": "nearest"},
    ],
)
def test_streams_of_all_kinds_are_fitted(options):
    X, y = curved(1600)
    model, never = (
        ODAClassifier(random_state=0, forgetting=f, validation=2, **options).partial_fit(
            X[:600], y[:600]
        )
        for f in ("adwin", None)
    )
    assert model._session.n_fitted >= 256
    assert model.drifts_ == []
    assert model.score(X[600:], y[600:]) > never.score(X[600:], y[600:]) + 0.02
    again = reloaded(model)
    np.testing.assert_array_equal(
        again.partial_fit(X[600:700], y[600:700]).predict_proba(X[:100]),
        model.partial_fit(X[600:700], y[600:700]).predict_proba(X[:100]),
    )


def test_logits_alone_begin_again_where_a_stream_changes_quickly():
    X, y = curved(1000)
    model = ODAClassifier(local_model="linear", random_state=0).fit(X[:600], y[:600])
    model._session.following.memory = 1.0  # as where classes move by their width within a few samples
    model.partial_fit(X[600:], y[600:])
    assert model.local_weights_ == (0.0, 1.0)
    assert model._session.n_fitted == 0


def test_the_first_samples_after_a_fit_to_few_are_not_taken_for_a_quick_change():
    X, y = make_classification(1500, 20, n_informative=8, n_classes=4, random_state=100)
    order = np.random.default_rng(100).permutation(1500)
    X, y = X[order], y[order]
    model = ODAClassifier(local_model=None, validation=2, random_state=100).fit(X[:500], y[:500])
    model.partial_fit(X[500:], y[500:])
    assert model.memory_ == np.inf
    assert model.drifts_ == []


def test_a_stream_is_not_fitted_where_that_is_no_better():
    rng = np.random.default_rng(0)
    model = ODAClassifier(random_state=0).partial_fit(
        rng.normal(size=(1100, 3)), rng.integers(0, 2, 1100)
    )
    assert model.local_weights_[1] == 0.0
    assert model._session.n_fitted == 0


def test_logits_of_a_fit_are_dropped_where_a_stream_changes_quickly():
    X, y = curved(1000)
    model = ODAClassifier(random_state=0).fit(X[:600], y[:600])
    assert model.n_local_cells_ > 0
    model._session.following.memory = 1.0  # as where classes move by their width within a few samples
    model.partial_fit(X[600:], y[600:])
    assert model.n_local_cells_ == 0
    again = reloaded(model)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))

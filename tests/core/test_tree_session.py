"""Trees that grow by streams, and go on from their files."""

from copy import deepcopy

import numpy as np
import pytest
from made_trees import TEMPLATES, made, problem
from model_files import reloaded
from sklearn.datasets import load_iris, make_friedman1

from oda_rl import MultiResolutionODA, ODAPartition, ODARegressor
from oda_rl.estimators.tree import Layer

# -- streams -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TEMPLATES)
def test_chunks_make_no_difference(name):
    X, y = problem(name, 200)  # grown anew at 128 and 192
    trees = []
    for size in (1, 7, 200):
        model = made(name, layers=2, max_children=3, estimator__n_warmup=60)
        for start in range(0, len(X), size):
            model.partial_fit(X[start : start + size], y[start : start + size])
        trees.append(model)
    assert trees[0].n_codevectors_ > 2
    for other in trees[1:]:
        np.testing.assert_allclose(other.codevectors_, trees[0].codevectors_)
        np.testing.assert_allclose(other.predict(X), trees[0].predict(X), atol=1e-9)


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_prediction_between_samples_is_that_of_the_whole_tree(name):
    """For a single sample only the cells on its way are brought up to date."""
    X, y = problem(name, 400)
    model = made(name, layers=3, max_children=3, forgetting=None).fit(X[:360], y[:360])
    assert len(model.tree_.layers) > 2
    for i in range(360, 400):
        model.partial_fit(X[i : i + 1], y[i : i + 1])
        rows = [i, 0, i, 1]
        single = [model.predict(X[row : row + 1])[0] for row in rows]
        np.testing.assert_array_equal(single, deepcopy(model).predict(X[rows]))


def test_a_stream_learns_what_data_at_hand_teach():
    X, y = problem("nearest", 3000)
    stream = made("nearest", max_children=4).partial_fit(X, y)
    at_hand = made("nearest", max_children=4).fit(X, y)
    assert stream.score(X, y) > at_hand.score(X, y) - 0.03
    assert stream.n_samples_seen_ == 3000
    assert stream.tree_.layers[0].mass[0] == 3000


def test_no_sample_is_wasted():
    X, y = problem("bayes", 4000)
    model = made("bayes", layers=1, max_children=3).fit(X, y)
    before = model.tree_.layers[1].mass.copy()
    model.partial_fit(X[:500], y[:500])
    assert (model.tree_.layers[1].mass - before).sum() == pytest.approx(500)


def test_classes_may_come_at_any_time():
    X, y = load_iris(return_X_y=True)
    names = np.array(["b", "c", "a"])[y]
    model = made("nearest", layers=2, max_children=4)
    order = np.random.default_rng(0).permutation(100)
    model.partial_fit(np.tile(X[order], (5, 1)), np.tile(names[order], 5))
    assert list(model.classes_) == ["b", "c"]
    for _ in range(8):
        model.partial_fit(X, names)
    assert list(model.classes_) == ["a", "b", "c"]
    assert model.score(X, names) > 0.9
    assert model.predict_proba(X).shape == (150, 3)


def test_before_the_warm_up_there_is_the_root():
    X, y = problem("linear")
    model = made("linear", forgetting=None).partial_fit(X[:50], y[:50])
    assert model.n_codevectors_ == 1
    design = np.column_stack([np.ones(50), X[:50]])
    flat = np.mean((y[:50] - y[:50].mean()) ** 2)
    least = np.mean((y[:50] - design @ np.linalg.lstsq(design, y[:50], rcond=None)[0]) ** 2)
    error = np.mean((model.predict(X[:50]) - y[:50]) ** 2)
    assert least <= error < 0.5 * (flat + least)


# -- storing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("resolutions", [None, [1, None]])
def test_a_stored_tree_goes_on_exactly(name, resolutions, tmp_path):
    X, y = problem(name, 400)
    model = made(name, layers=2, max_children=3, resolutions=resolutions)
    for end in (60, 220):
        model.partial_fit(X[: end // 2], y[: end // 2])
        again = MultiResolutionODA.load(model.save(tmp_path / "tree.npz"))
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        more = X[end // 2 : end], y[end // 2 : end]
        again.partial_fit(*more)
        model.partial_fit(*more)
        np.testing.assert_array_equal(again.codevectors_, model.codevectors_)
    assert again.n_codevectors_ > 1
    assert [p._replace(seconds=0.0) for p in again.history_] == [
        p._replace(seconds=0.0) for p in model.history_
    ]
    assert again.n_presented_ == model.n_presented_


def test_a_fitted_tree_is_stored_with_names_and_labels(tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = problem("bayes", 300)
    frame = pandas.DataFrame(X, columns=["left", "right"])
    names = np.array(["no", "yes"])[y]
    model = made("bayes", layers=[{"max_codevectors": 5}, Layer()]).fit(frame, names)
    again = MultiResolutionODA.load(model.save(tmp_path / "tree"))
    assert list(again.feature_names_in_) == ["left", "right"]
    np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))
    assert again.score(frame, names) == model.score(frame, names)


def test_own_functions_are_given_again(tmp_path):
    X, y = problem("nearest", 300)
    model = made("nearest", resolutions=[np.abs, None]).fit(X, y)
    path = model.save(tmp_path / "tree.npz")
    with pytest.raises(ValueError, match="pass it to load"):
        MultiResolutionODA.load(path)
    again = MultiResolutionODA.load(path, resolutions=[np.abs, None])
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_foreign_files_are_refused(tmp_path):
    path = ODAPartition(2).fit([[0.0], [1.0], [5.0]]).save(tmp_path / "flat.npz")
    with pytest.raises(ValueError, match="contains a ODAPartition, not a MultiResolutionODA"):
        MultiResolutionODA.load(path)
    (tmp_path / "text.npz").write_text("not a model")
    with pytest.raises(ValueError, match=r"text\.npz"):
        MultiResolutionODA.load(tmp_path / "text.npz")


def test_features_of_outputs_count_as_their_slopes_are_steep():
    X, y = make_friedman1(600, random_state=100)  # five of ten features matter
    test = make_friedman1(500, random_state=101)
    model = MultiResolutionODA(ODARegressor(), random_state=0).fit(X, y)
    features = model.tree_.features
    points = features(0, X)  # features, and effects of some of them
    assert points[:, 5:10].std(axis=0).max() < 0.3 * points[:, :5].std(axis=0).max()
    assert model.score(*test) > 0.85
    assert reloaded(model).score(*test) == model.score(*test)
    few = MultiResolutionODA(ODARegressor(), random_state=0).fit(X[:90], y[:90])
    counts = np.diag(few.tree_.features.scalings[0].matrix) * X[:90].std(axis=0)
    np.testing.assert_allclose(counts, 1.0)

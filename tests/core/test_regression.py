"""The regressor: accuracy, streams, weights, files and models of one's own."""

import io
import pickle

import numpy as np
import pytest
from model_files import reloaded
from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.tree import DecisionTreeRegressor

from oda_rl import ODARegressor
from oda_rl.datasets import curve, make_curve, make_surface
from oda_rl.estimators.regression.local_models import Quadratic

TARGETS = {"constant": 1.3, "linear": 0.5}


def error(model, X, y):
    return float(((model.predict(X) - y) ** 2).mean())


@pytest.mark.parametrize("local_model", TARGETS)
@pytest.mark.parametrize(
    "make", [make_curve, make_surface, lambda n, seed: make_friedman1(n, noise=1.0, random_state=seed)]
)
def test_better_than_a_tree_with_as_many_leaves(make, local_model):
    X, y = make(400, 100)
    X_test, y_test = make(1000, 101)
    model = ODARegressor(40, local_model=local_model, random_state=0).fit(X, y)
    tree = DecisionTreeRegressor(max_leaf_nodes=model.n_codevectors_, random_state=0).fit(X, y)
    assert model.n_codevectors_ <= 40
    assert error(model, X_test, y_test) < TARGETS[local_model] * error(tree, X_test, y_test)


@pytest.mark.parametrize("local_model", TARGETS)
def test_a_stream_becomes_as_good_as_a_tree(local_model):
    X, y = make_surface(1200, 100)
    model = ODARegressor(40, local_model=local_model, random_state=0)
    rng = np.random.default_rng(0)
    for _ in range(25):
        order = rng.permutation(len(X))
        model.partial_fit(X[order], y[order])
    tree = DecisionTreeRegressor(max_leaf_nodes=model.n_codevectors_, random_state=0).fit(X, y)
    X_test, y_test = make_surface(1000, 101)
    assert error(model, X_test, y_test) < error(tree, X_test, y_test)


def test_irrelevant_inputs_are_found():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (250, 4)) * [1.0, 100.0, 1.0, 1.0] + [0.0, 5.0, 0.0, 0.0]
    model = ODARegressor(20, random_state=0).fit(X, np.sin(3.0 * X[:, 0]))
    assert model.relevance_[0] == 1.0
    assert model.relevance_[1:].max() < 0.1


def test_local_models_in_the_units_of_the_data():
    """A plane: every cell has its slopes and its value there."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (500, 2)) * [10.0, 0.1] + [3.0, 0.0]
    plane = X @ [2.0, -300.0] + 7.0
    model = ODARegressor(10, random_state=0).fit(X, plane)
    np.testing.assert_allclose(model.coef_, np.tile([2.0, -300.0], (10, 1)), rtol=0.02)
    np.testing.assert_allclose(model.values_, model.codevectors_ @ [2.0, -300.0] + 7.0, atol=0.2)
    constant = ODARegressor(10, local_model="constant", softness=1.0, random_state=0).fit(X, plane)
    assert not constant.coef_.any()
    assert np.corrcoef(constant.values_, constant.codevectors_ @ [2.0, -300.0])[0, 1] > 0.95


def heavy_tails(n, seed):
    """Inputs of which a few lie hundreds of deviations out, as occupancies of houses do."""
    rng = np.random.default_rng(seed)
    X = np.exp(rng.normal(size=(n, 4)) * [0.3, 0.3, 0.8, 0.3])
    y = np.log(X[:, 0]) - np.log(X[:, 1]) + 0.1 * rng.normal(size=n)
    X[rng.choice(n, 4, replace=False), 1] = [1243.0, 599.0, 230.0, 60.0]
    return X, y


@pytest.mark.parametrize("softness", [1.0, "auto"])
def test_predictions_stay_near_the_outputs_seen(softness):
    X, y = heavy_tails(600, 100)
    X_test, y_test = heavy_tails(600, 101)
    model = ODARegressor(20, softness=softness, random_state=0).fit(X, y)
    assert model.score(X_test, y_test) > 0.7
    margin = 0.1 * np.ptp(y) + 1e-9
    far = model.predict(np.vstack([1e6 * X_test, -1e6 * X_test]))
    assert y.min() - margin <= far.min() <= far.max() <= y.max() + margin


def test_a_stream_stays_near_the_outputs_seen():
    X, y = heavy_tails(600, 100)
    model = ODARegressor(20, random_state=0)
    for start in range(0, 600, 50):
        model.partial_fit(X[start : start + 50], y[start : start + 50])
    again = io.BytesIO()
    model.save(again)
    again.seek(0)
    for one in (model, ODARegressor.load(again)):
        assert np.abs(one.predict(1e6 * X)).max() <= np.abs(y).max() + 0.1 * np.ptp(y)


def test_more_cells_than_samples_can_tell_do_not_harm():
    errors = np.zeros(2)
    for seed in (100, 102):
        X, y = make_friedman1(200, noise=0.5, random_state=seed)
        test = make_friedman1(500, random_state=seed + 1)
        few, many = (ODARegressor(k, random_state=0).fit(X, y) for k in (15, 200))
        assert many.n_codevectors_ < 40
        errors += [error(model, *test) for model in (few, many)]
    assert errors[1] < 1.15 * errors[0]


def test_hard_cells_with_constant_models_say_their_values():
    X, y = make_curve(500)
    model = ODARegressor(12, local_model="constant", softness=0, random_state=0).fit(X, y)
    cells = model.association(X)
    np.testing.assert_array_equal(np.sort(cells, axis=1)[:, -1], 1.0)
    np.testing.assert_allclose(model.predict(X), model.values_[cells.argmax(axis=1)], rtol=1e-10)
    assert model.association(X).shape == (500, model.n_codevectors_)


def test_several_outputs():
    X, y = make_surface(400)
    both = np.column_stack([y, 1000.0 * X[:, 0]])
    model = ODARegressor(30, random_state=0).fit(X, both)
    assert model.values_.shape == (30, 2)
    assert model.coef_.shape == (30, 2, 2)
    assert model.score(X, both) > 0.95
    with pytest.raises(ValueError, match="2 outputs, as in earlier calls, got 1"):
        model.partial_fit(X, y)


@pytest.mark.parametrize("local_model", ["constant", "linear", Quadratic()])
def test_chunks_do_not_matter(local_model):
    X, y = make_surface(240)
    whole = ODARegressor(6, local_model=local_model, random_state=0).partial_fit(X, y)
    for chunk in (1, 7):
        parts = ODARegressor(6, local_model=local_model, random_state=0)
        for start in range(0, len(X), chunk):
            parts.partial_fit(X[start : start + chunk], y[start : start + chunk])
        np.testing.assert_array_equal(whole.codevectors_, parts.codevectors_)
        np.testing.assert_array_equal(whole.predict(X), parts.predict(X))
        assert whole.n_samples_seen_ == parts.n_samples_seen_ == 240


def test_same_seed_same_result_and_data_unchanged():
    X, y = make_surface(200)
    X_before, y_before = X.copy(), y.copy()
    one = ODARegressor(10, random_state=3).fit(X, y)
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    two = clone(one).fit(X, y)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    np.testing.assert_array_equal(X, X_before)
    np.testing.assert_array_equal(y, y_before)


def test_a_stream_of_one_and_the_same_sample():
    model = ODARegressor(n_warmup=5, random_state=0)
    for _ in range(20):
        model.partial_fit([[1.0, 2.0]], [3.0])
    assert model.predict([[1.0, 2.0]]) == pytest.approx(3.0)
    assert model.n_samples_seen_ == 20
    X, y = make_surface(5000)
    assert model.partial_fit(X, y).score(X, y) > 0.8


def test_constant_inputs_and_outputs():
    X = np.column_stack([np.linspace(0.0, 1.0, 100), np.full(100, 5.0)])
    model = ODARegressor(5, random_state=0).fit(X, X[:, 0])
    assert model.score(X, X[:, 0]) > 0.99
    same = ODARegressor(5, random_state=0).fit(X, np.full(100, 2.0))
    np.testing.assert_allclose(same.predict(X), 2.0)
    one = ODARegressor(random_state=0).fit([[1.0]], [4.0])
    assert one.predict([[2.0]]) == pytest.approx(4.0)


def test_weights_choose_the_branch():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (600, 1))
    up = np.arange(600) % 2 == 0
    y = np.where(up, 1.0, -1.0)
    model = ODARegressor(5, random_state=0).fit(X, y, sample_weight=np.where(up, 9.0, 1.0))
    np.testing.assert_allclose(model.predict(X).mean(), 0.8, atol=0.05)
    none = ODARegressor(5, random_state=0).fit(X, y, sample_weight=up.astype(float))
    np.testing.assert_allclose(none.predict(X), 1.0, atol=1e-6)


def test_history():
    X, y = make_curve(800)
    model = ODARegressor(30, random_state=0).fit(X, y)
    counts = [point.n_codevectors for point in model.history_]
    assert counts[0] == 1
    assert counts[-1] <= 30
    assert model.history_[-1].unexplained < 0.2 < model.history_[0].unexplained
    assert all(len(point.codevectors) == point.n_codevectors for point in model.history_)
    assert all(0.0 <= point.codevectors.min() <= 9.5 for point in model.history_)


def noisy_sine(n, seed):
    """A sine whose noise has a deviation of 0.1 below zero, and of 0.5 above."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, 1))
    return X, np.sin(3.0 * X[:, 0]) + np.where(X[:, 0] < 0.0, 0.1, 0.5) * rng.normal(size=n)


@pytest.mark.parametrize("learned", ["fit", "partial_fit"])
def test_deviations_are_those_of_the_noise(learned):
    X, y = noisy_sine(1500, 100)
    model = ODARegressor(15, random_state=0)
    getattr(model, learned)(X, y)
    X_test, y_test = noisy_sine(2000, 101)
    mean, std = model.predict(X_test, return_std=True)
    np.testing.assert_array_equal(mean, model.predict(X_test))
    assert 0.92 < np.mean(np.abs(y_test - mean) < 2.0 * std) < 0.985
    quiet, loud = std[X_test[:, 0] < -0.2].mean(), std[X_test[:, 0] > 0.2].mean()
    assert 0.09 < quiet < 0.3
    assert 0.4 < loud < 0.65


def test_deviations_of_several_outputs_are_in_their_units():
    X, y = make_friedman1(600, noise=1.0, random_state=100)
    both = np.column_stack([y, 1000.0 * np.random.default_rng(0).normal(size=600)])
    mean, std = ODARegressor(20, random_state=0).fit(X, both).predict(X, return_std=True)
    assert mean.shape == std.shape == (600, 2)
    assert 1.0 < std[:, 0].mean() < 2.5
    assert 900.0 < std[:, 1].mean() < 1150.0
    early = ODARegressor(local_model="constant").partial_fit(X[:30], both[:30])
    np.testing.assert_allclose(early.predict(X[:2], return_std=True)[1], [both[:30].std(axis=0)] * 2)


@pytest.mark.parametrize("local_model", ["constant", "linear", "own"])
@pytest.mark.parametrize("n", [40, 300])
def test_files_go_on_exactly(local_model, n, tmp_path):
    own = Quadratic() if local_model == "own" else None
    X, y = make_surface(400)
    model = ODARegressor(6, local_model=own or local_model, random_state=0).partial_fit(X[:n], y[:n])
    again = reloaded(model, local_model=own)
    np.testing.assert_array_equal(model.predict(X), again.predict(X))
    model.partial_fit(X[n:], y[n:])
    again.partial_fit(X[n:], y[n:])
    np.testing.assert_array_equal(model.predict(X), again.predict(X))
    assert len(model.history_) == len(again.history_)
    path = model.save(tmp_path / "model")
    assert path.suffix == ".npz"
    assert pickle.loads(pickle.dumps(model)).predict(X[:1]) == model.predict(X[:1])


def test_files_say_what_they_need():
    X, y = make_curve(200)
    own, known = io.BytesIO(), io.BytesIO()
    ODARegressor(3, local_model=Quadratic(), random_state=0).fit(X, y).save(own)
    ODARegressor(3, random_state=0).fit(X, y).save(known)
    own.seek(0)
    known.seek(0)
    with pytest.raises(ValueError, match="local_model must be given if, and only if"):
        ODARegressor.load(own)
    with pytest.raises(ValueError, match="saved with 'linear'"):
        ODARegressor.load(known, local_model=Quadratic())


def test_a_model_of_ones_own():
    X, y = make_curve(300)
    quadratic = ODARegressor(16, local_model=Quadratic(), random_state=0).fit(X, y)
    assert quadratic.score(X, y) > 0.9
    assert not hasattr(quadratic, "coef_")
    points = quadratic.codevectors_
    assert np.corrcoef(quadratic.values_, curve(points))[0, 1] > 0.95
    mean, std = quadratic.predict(X, return_std=True)
    assert np.mean(np.abs(y - mean) < 2.0 * std) > 0.9
    assert std.mean() < 1.2 * np.sqrt(np.mean((y - mean) ** 2))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"local_model": object()}, "local_model"),
    ],
)
def test_parameters_out_of_range(parameters, message):
    with pytest.raises(ValueError, match=message):
        ODARegressor(**parameters).fit([[0.0], [1.0]], [0.0, 1.0])


def test_weights_must_not_all_be_zero():
    with pytest.raises(ValueError, match=r"non-zero|positive for at least one"):
        ODARegressor().fit([[0.0], [1.0]], [0.0, 1.0], sample_weight=[0.0, 0.0])
    with pytest.raises(ValueError, match="Negative"):
        ODARegressor().fit([[0.0], [1.0]], [0.0, 1.0], sample_weight=[1.0, -1.0])


def test_a_stream_refuses_outputs_that_are_no_numbers():
    X, y = make_curve(300)
    model = ODARegressor(5, random_state=0).partial_fit(X, y)
    y[3] = np.nan
    with pytest.raises(ValueError, match=r"y contains NaN .*SimpleImputer"):
        model.partial_fit(X, y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.partial_fit(X, y[:-1])


def skewed(n, seed):
    """A product of logarithms of inputs, and a sum of the inputs themselves."""
    rng = np.random.default_rng(seed)
    X = np.exp(rng.normal(size=(n, 4)))
    noise = 0.3 * rng.normal(size=n)
    return X, np.log(X[:, 0]) * np.log(X[:, 1]) + noise, X[:, 0] - 2.0 * X[:, 1] + noise


@pytest.mark.parametrize("local_model", TARGETS)
def test_skewed_inputs_count_by_their_ranks_where_that_helps(local_model):
    X, y, plain = skewed(1600, 100)
    model = ODARegressor(local_model=local_model, random_state=0).fit(X[:600], y[:600])
    assert model.score(X[600:], y[600:]) > 0.85
    other = ODARegressor(local_model=local_model, random_state=0).fit(X[:600], plain[:600])
    assert other.score(X[600:], plain[600:]) > 0.85  # of a sum of them, no single one decides


def test_few_inputs_far_out_tell_a_plane_where_they_lie_on_it():
    rng = np.random.default_rng(102)
    X = np.column_stack([np.exp(2.0 * rng.normal(size=600)), rng.normal(size=600)])
    y = X[:, 0] + 3.0 * np.sin(2.0 * X[:, 1]) + 0.5 * rng.normal(size=600)
    model = ODARegressor(kernel=None, random_state=0).fit(X[:400], y[:400])
    inside = y[400:] < y[:400].max()
    assert error(model, X[400:][inside], y[400:][inside]) < 0.01 * y[400:][inside].var()
    highest = y[:400].max() + 0.1 * np.ptp(y[:400])
    assert model.predict([[1e9, 0.0]])[0] <= highest + 1e-9


def test_models_of_ranked_inputs_are_told_in_the_units_of_the_data():
    X, y, _ = skewed(1000, 100)
    model = ODARegressor(20, softness=0.0, random_state=0).fit(X, y)
    inner = (model.codevectors_ < np.quantile(X, 0.9, axis=0)).all(axis=1)
    at, step = model.codevectors_[inner], 0.02 * np.eye(4)
    np.testing.assert_allclose(model.predict(at), model.values_[inner], atol=1e-6)
    for j in range(4):
        ahead, behind = at + step[j] * at, at - step[j] * at
        told = (model.predict(ahead) - model.predict(behind)) / (ahead - behind)[:, j]
        assert np.median(np.abs(told - model.coef_[inner, j])) < 0.3
    again = reloaded(model)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    for one in (model, again):
        one.partial_fit(X[:300], y[:300])
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    model._run.scaling.knots[:] = model._run.scaling.knots[::-1].copy()
    wrong = io.BytesIO()
    model.save(wrong)
    with pytest.raises(ValueError, match="knots"):
        ODARegressor.load(io.BytesIO(wrong.getvalue()))

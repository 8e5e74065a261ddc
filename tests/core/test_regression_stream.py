"""The first samples of a regressor's stream: what they may tell of scales, and what not."""

import copy
import pickle
from functools import cache

import numpy as np
import pytest
from model_files import reloaded
from sklearn.datasets import make_friedman3

from oda_rl import ODARegressor
from oda_rl.estimators.regression.local_models import Quadratic
from oda_rl.streaming import Stream

SLOPES = np.array([2.0, -1.0, 0.0])


def function(X):
    return np.sin(2.0 * X[:, 0]) + X[:, 1]


def streamed(X, y, local_model="linear"):
    """A model that has learned from samples in pieces."""
    model = ODARegressor(local_model=local_model, random_state=0)
    for start in range(0, len(X), 50):
        model.partial_fit(X[start : start + 50], y[start : start + 50])
    return model


@cache
def usual_score(local_model):
    return streamed(*ordinary(), local_model).score(*ordinary(500, seed=1))


def ordinary(n=500, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    return X, function(X)


@pytest.mark.parametrize("local_model", ["linear", "constant"])
def test_a_stream_after_a_fit_does_not_ruin_it(local_model):
    X, y = make_friedman3(1000, random_state=0)
    # with other seeds the fit may find no effects, and all that a stream of constants learns is worse
    fitted = ODARegressor(20, local_model=local_model, forgetting=None, random_state=5)
    fitted.fit(X[:300], y[:300])
    assert fitted.softness_ > 1.0  # the models of cells that overlap a lot cancel each other
    assert fitted.score(X[700:], y[700:]) > 0.9
    single, whole = copy.deepcopy(fitted), copy.deepcopy(fitted)
    whole.partial_fit(X[300:400], y[300:400])
    for x, value in zip(X[300:400], y[300:400], strict=True):
        single.partial_fit(x[None], [value])
    np.testing.assert_allclose(single.predict(X), whole.predict(X), rtol=1e-9)
    assert whole.score(X[700:], y[700:]) > 0.75
    assert reloaded(whole).partial_fit(X[400:700], y[400:700]).score(X[700:], y[700:]) > 0.75


@pytest.mark.parametrize("local_model", ["linear", "constant"])
def test_a_stream_is_as_good_as_a_fit_of_its_samples(local_model):
    X, y = make_friedman3(2000, random_state=0)
    fitted = ODARegressor(local_model=local_model, kernel=None, random_state=0).fit(X[:1100], y[:1100])
    stream = streamed(X[:1100], y[:1100], local_model)
    best = fitted.score(X[1500:], y[1500:])
    assert 0.98 < best < stream.score(X[1500:], y[1500:]) + 0.01
    # Further samples of the same kind do not harm, and cells stay where they are.
    before = stream.codevectors_.copy()
    stream.partial_fit(X[1100:1500], y[1100:1500])
    np.testing.assert_array_equal(stream.codevectors_, before)
    assert stream.score(X[1500:], y[1500:]) > best - 0.005
    assert stream.n_samples_seen_ == 1500
    assert stream.drifts_ == []


def test_a_fit_of_few_samples_is_renewed_in_a_stream_and_one_of_many_is_not():
    X, y = make_friedman3(2200, random_state=0)
    few, many = (ODARegressor(random_state=0).fit(X[:n], y[:n]) for n in (40, 600))
    cells = many.codevectors_.copy()
    for model in (few, many):
        model.partial_fit(X[1000:1300], y[1000:1300])
    assert few.score(X[1300:], y[1300:]) > 0.9
    np.testing.assert_array_equal(many.codevectors_, cells)


def test_without_forgetting_a_stream_is_never_fitted_and_its_cells_move():
    X, y = make_friedman3(500, random_state=0)
    model = ODARegressor(forgetting=None, random_state=0).fit(X[:200], y[:200])
    cells = model.codevectors_.copy()
    model.partial_fit(X[200:], y[200:])
    assert not np.array_equal(model.codevectors_[: len(cells)], cells[: len(model.codevectors_)])


@pytest.mark.parametrize("step", [0.01, 1.0])
def test_a_stream_in_the_order_of_time_is_fitted_only_where_that_is_better(step):
    """Cells of a fit would rest, and one of them would take all inputs to come."""
    X = step * np.repeat(np.arange(600 if step < 1.0 else 30), 1 if step < 1.0 else 20)[:, None]
    y = 5.0 * np.sin(X[:, 0]) if step < 1.0 else X[:, 0] ** 1.5
    y = y + 0.3 * np.random.default_rng(0).normal(size=len(y))
    errors = {}
    for forgetting in ("adwin", None):
        model, found = ODARegressor(forgetting=forgetting, random_state=0), []
        for start in range(0, len(X), 5):
            piece = slice(start, start + 5)
            if start >= 256:
                found.append(np.abs(model.predict(X[piece]) - y[piece]).mean())
            model.partial_fit(X[piece], y[piece])
        errors[forgetting] = np.mean(found)
        # What came long ago is still predicted.
        assert np.abs(model.predict(X[:256]) - y[:256]).mean() < 3.0
    assert errors["adwin"] < 1.1 * errors[None]


@pytest.mark.parametrize(("local_model", "wild"), [("linear", 1e2), ("linear", 1e6), ("constant", 1e6)])
def test_a_wild_input_among_the_first_does_not_set_the_scale(local_model, wild):
    X, y = ordinary()
    X_test, y_test = ordinary(500, seed=1)
    X[50] = wild
    model = streamed(X, y, local_model)
    assert model.score(X_test, y_test) > usual_score(local_model) - 0.03
    np.testing.assert_array_equal(reloaded(model).predict(X), model.predict(X))


def test_later_inputs_may_lie_anywhere():
    steps = np.arange(4000.0)
    X = np.column_stack([steps, np.random.default_rng(0).normal(size=4000)])
    model = streamed(X, 0.01 * steps + X[:, 1])
    np.testing.assert_allclose(model.predict(X[-50:]), 0.01 * steps[-50:] + X[-50:, 1], atol=0.1)
    assert np.isinf(model._run.scaling.low[:2]).all()


def rising(n, high, seed=0):
    """Samples of a sine on a slope, with first inputs from 0 to `high`; the second does not matter."""
    X = np.random.default_rng(seed).uniform(0.0, [high, 9.0], (n, 2))
    return X, np.sin(X[:, 0]) + X[:, 0]


def test_a_stream_after_a_fit_learns_outside_the_range_of_the_fit():
    model = ODARegressor(kernel=None, random_state=0).fit(*rising(600, 3.0))
    X, y = rising(6000, 9.0, seed=1)
    X_test, y_test = rising(500, 9.0, seed=2)
    X_far = X_test * 100.0
    before = model.predict(X_far)
    for start in range(0, len(X), 500):
        np.testing.assert_array_equal(model.predict(X_far), before)  # predictions widen nothing
        model.partial_fit(X[start : start + 500], y[start : start + 500])
        before = model.predict(X_far)
    assert model.score(X_test, y_test) > 0.9


@pytest.mark.parametrize("kernel", [None, "auto"])
def test_how_a_fitted_range_widens_does_not_depend_on_chunks_or_files(kernel):
    fitted = ODARegressor(12, kernel=kernel, random_state=0).fit(*rising(300, 3.0))
    X, y = rising(120, 9.0, seed=1)
    X[50, 0] = 1e9
    whole, single, files = (copy.deepcopy(fitted) for _ in range(3))
    whole.partial_fit(X, y)
    for i in range(len(X)):
        single.partial_fit(X[i : i + 1], y[i : i + 1])
    for start in range(0, len(X), 40):
        files = reloaded(files.partial_fit(X[start : start + 40], y[start : start + 40]))
    for model in (single, files):
        np.testing.assert_allclose(model.codevectors_, whole.codevectors_, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(model.predict(2.0 * X), whole.predict(2.0 * X), rtol=1e-9)


@pytest.mark.parametrize("wild", [1e3, 1e9, 1e60])
def test_one_wild_input_after_a_fit_does_little_harm(wild):
    fitted = ODARegressor(12, forgetting=None, random_state=0).fit(*rising(300, 3.0))
    X, y = rising(100, 3.0, seed=1)
    usual = copy.deepcopy(fitted).partial_fit(X, y).score(X, y)
    X[50] = wild
    model = fitted.partial_fit(X, y)
    X_test, y_test = rising(200, 3.0, seed=2)
    assert model.score(X_test, y_test) > usual - 0.02 > 0.9


def test_an_input_that_hardly_ever_differs_is_not_wild():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random(3000) < 0.02, rng.normal(size=3000)]).astype(float)
    X[7, 0] = 1.0
    model = streamed(X, 3.0 * X[:, 0] * X[:, 1])
    rare = X[:, 0] > 0.0
    assert model.score(X[rare], 3.0 * X[rare, 1]) > 0.95


def sloping(n, seed=0, noise=0.3):
    """Samples of a plane: its slopes, 5 at the origin."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, X @ SLOPES + 5.0 + noise * rng.normal(size=n)


def waiting(X, y, sample_weight=None, **options):
    """A model whose samples all wait: without a watch of the stream there are no early fits."""
    options = {"forgetting": None} | options
    return ODARegressor(random_state=0, **options).partial_fit(X, y, sample_weight)


def test_samples_that_wait_tell_a_plane():
    model = waiting(*sloping(60))
    X_test, y_test = sloping(500, seed=1)
    assert model.score(X_test, y_test) > 0.95
    assert model.temperature_ == np.inf
    assert model.history_ == []
    np.testing.assert_array_equal(model.association(X_test), 1.0)


@pytest.mark.parametrize("local_model", ["constant", Quadratic()])
def test_models_that_are_not_linear_predict_the_mean_of_samples_that_wait(local_model):
    X, y = sloping(60)
    model = waiting(X, y, local_model=local_model)
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_array_equal(mean, np.average(np.column_stack([X, y]), axis=0)[-1])
    np.testing.assert_allclose(std, y.std())


def test_the_first_cell_tells_the_plane():
    X, y = sloping(60, noise=0.0)
    model = waiting(X, y)
    np.testing.assert_allclose(model.codevectors_[0], X.mean(axis=0))
    np.testing.assert_allclose(model.values_, model.predict(model.codevectors_))
    np.testing.assert_allclose(model.coef_[0], SLOPES, atol=0.05)
    inside = model.codevectors_ + 0.1
    np.testing.assert_allclose(model.predict(inside), model.values_ + 0.1 * model.coef_.sum())


def test_a_stream_is_predicted_well_from_the_first_samples_on():
    X, y = sloping(100)
    model = Stream(ODARegressor(random_state=0))
    errors = []
    for x, output in zip(X.tolist(), y.tolist(), strict=True):
        sample = dict(enumerate(x))
        errors.append(output - model.predict_one(sample))
        model.learn_one(sample, output)
    assert np.square(errors[10:]).mean() < 0.1 * y.var()


@pytest.mark.parametrize("chunk", [1, 7, 60])
def test_the_plane_is_that_of_the_samples_however_they_came(chunk):
    X, y = sloping(150)
    model = ODARegressor(random_state=0, forgetting=None)
    for start in range(0, 120, chunk):
        stop = min(start + chunk, 120)
        model.partial_fit(X[start:stop], y[start:stop]).predict(X)
    assert model.score(X, y) > 0.95
    np.testing.assert_array_equal(model.predict(X), waiting(X[:120], y[:120]).predict(X))


def test_what_is_learned_later_does_not_depend_on_what_was_asked():
    X, y = sloping(400)
    asked, other = ODARegressor(random_state=0), ODARegressor(random_state=0)
    for i in range(len(X)):
        asked.partial_fit(X[i : i + 1], y[i : i + 1]).predict(X)
        other.partial_fit(X[i : i + 1], y[i : i + 1])
        if i == 100:
            assert asked.score(X, y) > 0.95
    np.testing.assert_array_equal(asked.codevectors_, other.codevectors_)
    np.testing.assert_array_equal(asked.predict(X), other.predict(X))


def test_samples_that_were_dropped_are_in_no_plane():
    X, y = sloping(7)
    model = ODARegressor(n_warmup=8, random_state=0)
    model.partial_fit(np.ones((7, 3)), np.full(7, 9.0))
    np.testing.assert_allclose(model.predict(X), 9.0)
    model.partial_fit(np.ones((1, 3)), [9.0])  # all the same: one stands for all
    model.partial_fit(X[:6], y[:6])
    expected = waiting(np.vstack([np.ones((1, 3)), X[:6]]), np.r_[9.0, y[:6]])
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    assert np.ptp(model.predict(X)) > 1.0


@pytest.mark.parametrize("n", [20, 60, 150])
@pytest.mark.parametrize("wild", [1e2, 1e6, 1e60])
def test_a_wild_input_among_samples_that_wait_does_no_harm(wild, n):
    X, y = sloping(n, noise=0.1)
    X_test, y_test = sloping(500, seed=1)
    usual = waiting(X, y).score(X_test, y_test)
    X[5, 1] = wild
    model = waiting(X, y)
    assert model.score(X_test, y_test) > usual - 0.05 > 0.8
    beyond = 0.1 * np.ptp(y)
    far = model.predict([[-wild, 0.0, wild], [wild, -wild, 0.0]])
    assert y.min() - beyond <= far.min() <= far.max() <= y.max() + beyond


def test_deviations_before_the_cells_are_those_of_new_samples():
    X, y = sloping(40, noise=0.5)
    X_test, y_test = sloping(2000, seed=1, noise=0.5)
    model = waiting(X, np.column_stack([y, 10.0 * y]))
    mean, std = model.predict(X_test, return_std=True)
    found = np.sqrt(((mean - np.column_stack([y_test, 10.0 * y_test])) ** 2).mean(axis=0))
    np.testing.assert_allclose(std[0], found, rtol=0.2)
    np.testing.assert_array_equal(std, np.tile(std[0], (len(std), 1)))


def test_weights_count_while_samples_wait():
    X, y = sloping(60)
    bent = np.where(np.arange(60) < 30, y, -y)
    weight = np.where(np.arange(60) < 30, 1.0, 1e-6)
    assert waiting(X, bent, weight).score(X[:30], y[:30]) > 0.9
    np.testing.assert_allclose(
        waiting(X, bent, 7.0 * weight).predict(X), waiting(X, bent, weight).predict(X)
    )


@pytest.mark.parametrize(
    "copied", [reloaded, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))]
)
@pytest.mark.parametrize("asked", [False, True])
def test_copies_of_models_whose_samples_wait(copied, asked):
    X, y = sloping(120)
    model = waiting(X[:90], y[:90])
    if asked:
        model.predict(X)
    other = copied(model)
    assert other.score(X, y) > 0.95
    np.testing.assert_array_equal(other.predict(X), model.predict(X))
    np.testing.assert_array_equal(
        other.partial_fit(X[90:], y[90:]).predict(X), model.partial_fit(X[90:], y[90:]).predict(X)
    )


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "inputs",
    [
        lambda X: np.column_stack([X, X, np.full(len(X), 1e9)]),
        lambda X: np.column_stack([X, np.random.default_rng(2).normal(size=(len(X), 100))]),
        lambda X: 1e73 * X,
        lambda X: X + 1e9,
    ],
    ids=["collinear and constant", "more features than samples", "huge", "far from the origin"],
)
def test_planes_of_awkward_inputs(inputs):
    X, y = sloping(200)
    X = inputs(X)
    for n in range(1, 5):
        found = waiting(X[:n], y[:n]).predict(X)
        beyond = 0.1 * np.ptp(y[:n]) + 1e-9
        assert y[:n].min() - beyond <= found.min() <= found.max() <= y[:n].max() + beyond
    assert waiting(X[:80], y[:80]).score(X[80:], y[80:]) > 0.4


@pytest.mark.filterwarnings("error")
def test_a_plane_over_samples_that_do_not_differ_is_level():
    X, y = sloping(8)
    np.testing.assert_allclose(waiting(X, np.full(8, 3.0)).predict(X), 3.0)
    np.testing.assert_allclose(waiting(np.ones((8, 3)), y).predict(X), y.mean())
    mean, std = waiting(X[:1], y[:1]).predict(X, return_std=True)
    np.testing.assert_allclose(mean, y[0])
    np.testing.assert_array_equal(std, 0.0)

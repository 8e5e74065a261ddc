"""The kernel machines: against NumPy with direct solves, and what they are for."""

import itertools
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_friedman1, make_moons, make_regression
from sklearn.metrics import log_loss

from oda_rl import KernelSGDClassifier, KernelSGDRegressor, storage
from oda_rl._schema import anything
from oda_rl.datasets import make_multidist


def likeliest_bandwidth(x):
    """The maximum of the leave-one-out likelihood, by trying."""
    square = ((x[:, None] - x[None]) ** 2).sum(-1)
    np.fill_diagonal(square, np.inf)
    tried = np.geomspace(0.05, 2.0, 60)
    score = [np.log(np.exp(-square / (2 * d * d)).mean(1) / d ** x.shape[1]).mean() for d in tried]
    return tried[np.argmax(score)]


@pytest.mark.parametrize("begin", [0.05, 1.0, 5.0])
def test_the_bandwidth_becomes_the_likeliest(begin):
    x, y, *_ = make_multidist(3000, seed=100)
    model = KernelSGDClassifier(bandwidth=begin, window=1000, random_state=0).fit(x, y)
    assert model.bandwidth_ == pytest.approx(likeliest_bandwidth(x[:1000]), rel=0.25)
    assert model.bandwidth_history_[-1] == model.bandwidth_
    steps = np.diff(np.log(model.bandwidth_history_)) / np.log(1.15)
    np.testing.assert_allclose(steps, np.round(steps), atol=1e-8)
    assert np.abs(steps).max() < 1.5


@pytest.mark.parametrize("begin", [0.05, 5.0])
def test_by_the_loss_a_poor_bandwidth_is_mended(begin):
    x, y, *_ = make_multidist(3000, seed=100)
    options = {"bandwidth": begin, "random_state": 0, "max_points": 500}
    fixed = KernelSGDClassifier(adapt=(), **options).fit(x, y)
    moving = KernelSGDClassifier(fitness="loss", **options).fit(x, y)
    assert 0.1 < moving.bandwidth_ < 2.0
    assert moving.history_["loss"][-60:].mean() < 0.8 * fixed.history_["loss"][-60:].mean()


def test_without_adaptation_the_bandwidth_stays():
    x, y, *_ = make_multidist(500)
    model = KernelSGDClassifier(bandwidth=0.7, adapt=()).fit(x, y)
    assert set(model.bandwidth_history_) == {0.7}


def test_a_poor_stepsize_and_a_poor_regularisation_are_mended():
    x, y, *_ = make_multidist(3000, seed=100)
    for poor in ({"stepsize": 0.01}, {"stepsize": 20.0}, {"regularization": 0.02}):
        (name,) = poor
        fixed = KernelSGDClassifier(bandwidth=0.3, adapt=(), random_state=0, **poor).fit(x, y)
        moving = KernelSGDClassifier(bandwidth=0.3, adapt=name, random_state=0, **poor).fit(x, y)
        assert moving.history_["loss"][-60:].mean() < 0.95 * fixed.history_["loss"][-60:].mean()
        assert len(set(moving.history_[name])) > 3


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_it_classifies(loss):
    x, y = make_moons(3000, noise=0.2, random_state=0)
    model = KernelSGDClassifier(loss, random_state=0).fit(x[:2000], y[:2000])
    assert model.score(x[2000:], y[2000:]) > 0.95
    assert model.n_points_ == len(model.dictionary_) < 200
    values = model.decision_function(x)
    np.testing.assert_array_equal(values > 0, model.predict(x) == 1)
    if loss == "logistic":
        sure = model.predict_proba(x[2000:])
        np.testing.assert_allclose(sure.sum(1), 1.0)
        np.testing.assert_allclose(np.exp(model.predict_log_proba(x[2000:])), sure)
        assert -np.log(sure[np.arange(1000), y[2000:]]).mean() < 0.45  # of a coin: 0.69
    else:
        assert not hasattr(model, "predict_proba")


@pytest.mark.parametrize("kind", [KernelSGDClassifier, KernelSGDRegressor])
def test_features_of_other_units_count_for_as_much(kind, tmp_path):
    x, y, *_ = make_multidist(800, seed=100)
    units = np.array([1e9, 1e-9])
    plain = kind(scale="standard", random_state=0).fit(x, y)
    model = kind(random_state=0).fit(x * units, y)
    np.testing.assert_allclose(model.dictionary_, plain.dictionary_ * units, rtol=1e-6)
    assert model.score(x * units, y) == pytest.approx(plain.score(x, y), abs=0.02)
    stream = kind(scale=x.std(axis=0) * units, random_state=0)
    stream.partial_fit(x[:400] * units, y[:400])
    stream = kind.load(stream.save(tmp_path / "stream"))
    stream.partial_fit(x[400:] * units, y[400:])
    whole = kind(scale=x.std(axis=0), random_state=0).partial_fit(x, y)
    np.testing.assert_allclose(stream.predict(x * units), whole.predict(x), atol=1e-3)
    with pytest.warns(UserWarning, match="feature 0 has a standard deviation of .*, and feature 1"):
        kind(random_state=0).partial_fit(x * units, y)
    with pytest.raises(ValueError, match="scale must be 2 finite numbers"):
        kind(scale=[1.0, -1.0]).fit(x, y)


def test_it_regresses_and_huber_bears_outliers():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (3000, 1))
    clean = np.sin(2 * x[:, 0])
    y = clean + np.where(rng.random(3000) < 0.1, 20.0, 0.0)
    options = {"bandwidth": 0.3, "adapt": (), "stepsize": 0.1, "random_state": 0}
    squared = KernelSGDRegressor(**options).fit(x, y)
    huber = KernelSGDRegressor("huber", huber_width=0.2, **options).fit(x, y)
    assert KernelSGDRegressor(**options).fit(x, clean).score(x, clean) > 0.98
    error = [np.abs(model.predict(x) - clean).mean() for model in (huber, squared)]
    assert error[0] < 0.2 < 1.0 < error[1]


def test_a_width_of_huber_that_is_far_too_small_is_named():
    rng = np.random.default_rng(100)
    x = rng.normal(size=(1500, 3))
    y = 300.0 * (np.sin(2.0 * x[:, 0]) + x[:, 1] * x[:, 2])

    def score(width, learn="fit", chunk=1000):
        model = KernelSGDRegressor("huber", huber_width=width, random_state=0)
        for i in range(0, 1000, chunk):
            getattr(model, learn)(x[i : i + chunk], y[i : i + chunk])
        return model.score(x[1000:], y[1000:])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert score("auto") > 0.9
        assert score(300.0) > 0.9
        assert score(300.0, "partial_fit") > 0.85
    for given in ((1.0,), (1.0, "partial_fit"), ("auto", "partial_fit", 1)):
        with pytest.warns(UserWarning, match="huber_width is about [12].. times smaller") as caught:
            assert score(*given) < 0.2
        assert len(caught) == 1
    with pytest.raises(ValueError, match="'huber_width' parameter of KernelSGDRegressor must be"):
        score("standard")


@pytest.mark.parametrize("classes", [None, range(5)])
@pytest.mark.parametrize("sizes", [(1,), (3, 40, 0), (64,)])
def test_chunks_make_no_difference(classes, sizes):
    x, y, *_ = make_multidist(640)
    whole = KernelSGDClassifier(random_state=0).partial_fit(x, y, classes)
    parts, t = KernelSGDClassifier(random_state=0), 0
    for size in itertools.cycle(sizes):
        if t >= 640:
            break
        if size:
            parts.partial_fit(x[t : t + size], y[t : t + size], classes)
        t += size
    np.testing.assert_array_equal(whole.decision_function(x), parts.decision_function(x))
    assert parts.n_samples_seen_ == 640


@pytest.mark.parametrize("chunk", [1, 50])
@pytest.mark.parametrize("options", [{}, {"batch_size": 16, "stepsize": 6.0}])
def test_outputs_that_are_too_small_to_be_learned_are_named(chunk, options):
    X = np.random.default_rng(0).normal(size=(100, 2))

    def learn(y):
        model = KernelSGDRegressor(random_state=0, **options)
        for i in range(0, 100, chunk):
            model.partial_fit(X[i : i + chunk], y[i : i + chunk])
        return model

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learn(3.0 * X[:, 0])
        learn(np.ones(100))
        learn(np.zeros(100))
    with pytest.warns(UserWarning, match="too small to be learned: divide y") as caught:
        model = learn(1e-3 * X[:, 0])
    assert model.n_points_ == 0
    assert len(caught) == 1
    with pytest.warns(UserWarning, match="parsimony=2 is too large .* well below"):
        KernelSGDRegressor(parsimony=2.0, random_state=0).fit(X, X[:, 0])


@pytest.mark.parametrize("unit", [1e-50, 0.001, 0.02, 1e6])
@pytest.mark.filterwarnings("error")
def test_a_classifier_is_the_same_in_any_unit(unit):
    x, y = make_moons(2000, noise=0.2, random_state=100)
    model = KernelSGDClassifier(random_state=0).fit(x * unit, y)
    assert model.score(x * unit, y) > 0.965
    plain = KernelSGDClassifier(random_state=0).fit(x, y)
    assert model.bandwidth_ == pytest.approx(unit * plain.bandwidth_)
    assert 0.1 < plain.bandwidth_ < 0.7
    own = KernelSGDClassifier(bandwidth=0.1 * unit, adapt=()).fit(x * unit, y)
    assert own.bandwidth_ == 0.1 * unit


def loss_of(model, x, y):
    """The log loss, or that of the hinge for two classes."""
    if model.loss == "logistic":
        return log_loss(y, model.predict_proba(x))
    return np.maximum(0.0, 1.0 - np.where(y == 1, 1.0, -1.0) * model.decision_function(x)).mean()


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("chunk", [None, 50])
@pytest.mark.filterwarnings("error")
def test_classes_in_many_features_are_learned(loss, chunk):
    x = np.random.default_rng(107).normal(size=(2500, 20))
    y = (x[:, :5].sum(axis=1) > 0.0).astype(int)
    model = KernelSGDClassifier(loss, random_state=100)
    if chunk is None:
        model.fit(x[:1500], y[:1500])
    else:
        for i in range(0, 1500, chunk):
            model.partial_fit(x[i : i + chunk], y[i : i + chunk])
    assert model.score(x[1500:], y[1500:]) > 0.92
    assert loss_of(model, x[1500:], y[1500:]) < (0.25 if chunk is None else 0.35)
    assert model.n_points_ < 500


def test_probabilities_of_ten_classes_have_the_right_size():
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(100).permutation(len(x))
    train, test = order[:1200], order[1200:]
    model = KernelSGDClassifier("logistic", random_state=100).fit(x[train], y[train])
    assert model.score(x[test], y[test]) > 0.965
    assert log_loss(y[test], model.predict_proba(x[test])) < 0.15
    # Labels by chance: no factor makes them certain, and many passes only a little.
    chance = np.random.default_rng(101).integers(0, 2, len(x))
    for n_passes in (1, 5):
        model = KernelSGDClassifier("logistic", n_passes=n_passes, random_state=100)
        model.fit(x[train[:400]], chance[train[:400]])
        assert log_loss(chance[test], model.predict_proba(x[test])) < 0.8


def test_a_given_bandwidth_stays_that_of_the_paper():
    x, y, *_ = make_multidist(500, seed=100)
    plain = KernelSGDClassifier("logistic", bandwidth=1.0, n_passes=2, random_state=0).fit(x, y)
    paper = KernelSGDClassifier(
        loss="logistic", bandwidth=1.0, fitness="likelihood", parsimony=0.04, n_passes=2, random_state=0
    )
    np.testing.assert_array_equal(plain.dual_coef_, paper.fit(x, y).dual_coef_)
    np.testing.assert_array_equal(plain.bandwidth_history_, paper.bandwidth_history_)
    assert len(set(plain.bandwidth_history_)) > 1
    with pytest.raises(ValueError, match="'fitness' parameter of KernelSGDRegressor must be"):
        KernelSGDRegressor(fitness="auto").fit(x, y)


@pytest.mark.parametrize("n", [2, 5, 14, 40])
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.filterwarnings("error", "ignore:nothing was learned")
def test_a_classifier_of_few_samples(n, loss):
    x = np.random.default_rng(100).normal(size=(n, 3))
    y = x[:, 0] > np.median(x[:, 0])
    model = KernelSGDClassifier(loss, n_passes=3, random_state=0).fit(x, y)
    assert np.isfinite(model.decision_function(x)).all()
    assert model.bandwidth_ > 0.0


@pytest.mark.parametrize("loss", ["squared", "huber"])
@pytest.mark.filterwarnings("error")
def test_a_regressor_is_the_same_in_any_unit(loss, tmp_path):
    x, y = make_friedman1(900, noise=0.5, random_state=100)
    unit, zero = np.array([1e-6, 1e3]), np.array([0.0, 5e4])
    found = []
    for a, b, c in ((1.0, np.ones(2), 0.0), (1e-4, unit, zero)):
        outputs = y[:, None] * b + c
        model = KernelSGDRegressor(loss, random_state=0).fit(x[:600] * a, outputs[:600])
        assert model.score(x[600:] * a, outputs[600:]) > 0.8
        square = ((x[:5, None] * a - model.dictionary_) ** 2).sum(-1)
        values = np.exp(-square / (2 * model.bandwidth_**2)) @ model.dual_coef_
        np.testing.assert_allclose(model.predict(x[:5] * a), model.intercept_ + values, rtol=1e-6)
        found.append(model)
    # Rounding decides between points that are equally important.
    values = (found[1].predict(x * 1e-4) - zero) / unit
    np.testing.assert_allclose(values, found[0].predict(x), atol=0.05 * y.std())
    again = KernelSGDRegressor.load(model.save(tmp_path / "model"))
    for one in (model, again):
        one.partial_fit(x[600:] * a, outputs[600:])
    np.testing.assert_array_equal(again.predict(x * a), model.predict(x * a))


def test_smooth_functions_of_several_features_and_wavy_ones_of_one():
    def score(x, y, **options):
        return (
            KernelSGDRegressor(random_state=0, **options).fit(x[500:], y[500:]).score(x[:500], y[:500])
        )

    x, y = make_friedman1(1500, noise=0.5, random_state=100)
    assert score(x, y) > 0.85
    assert score(*make_regression(1500, 8, noise=5.0, random_state=100)) > 0.98
    x = np.random.default_rng(100).uniform(-2.0, 2.0, (1500, 1))
    assert score(x, 500.0 + np.sin(10.0 * x[:, 0])) > 0.98
    few = KernelSGDRegressor().fit([[1.0], [2.0], [4.0]], [1.0, 2.0, 3.0])
    assert few.bandwidth_ == pytest.approx(np.std([1.0, 2.0, 4.0]))
    assert KernelSGDRegressor().fit([[1.1], [1.1]], [1.0, 3.0]).bandwidth_ == 1.0


def test_the_bandwidth_of_a_regressor_adapts_to_a_stream_alone():
    x = np.random.default_rng(100).normal(size=(1500, 2))
    y = np.sin(3.0 * x[:, 0])
    model = KernelSGDRegressor(n_passes=2, random_state=0).fit(x[:500], y[:500])
    assert len(set(model.bandwidth_history_)) == 1
    assert len(set(model.partial_fit(x[500:], y[500:]).bandwidth_history_)) > 1
    fixed = KernelSGDRegressor(adapt=(), random_state=0).fit(x[:500], y[:500])
    assert len(set(fixed.partial_fit(x[500:], y[500:]).bandwidth_history_)) == 1


def test_units_with_which_a_stream_learns_nothing_are_named():
    x, y = make_moons(600, noise=0.2, random_state=100)
    with pytest.warns(
        UserWarning, match="standard deviations of about 0.0007.*: give scale or bandwidth"
    ):
        KernelSGDClassifier(random_state=0).partial_fit(x * 1e-3, y)
    with pytest.warns(UserWarning, match="y has a mean of 5.* subtract the mean"):
        KernelSGDRegressor(random_state=0).partial_fit(x, y + 5.0)
    model = KernelSGDClassifier(parsimony=10.0, random_state=0).partial_fit(x[:490], y[:490])
    with pytest.warns(UserWarning, match="nothing was learned, as parsimony drops all points"):
        model.partial_fit(x[490:], y[490:])
    with pytest.warns(
        UserWarning, match="the end of the set of values around the initial bandwidth of 1e"
    ):
        KernelSGDClassifier(bandwidth=1e9, ratio=10.0, random_state=0).fit(x, y)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_the_last_function_follows_a_change_sooner_than_the_average(loss):
    X = np.random.default_rng(0).normal(size=(2000, 2))
    y = (X[:, 0] > 0.0) ^ (X[:, 1] > 0.0) ^ (np.arange(2000) >= 1500)
    options = {"loss": loss, "bandwidth": 1.0, "random_state": 0}
    last = KernelSGDClassifier(average=False, **options).partial_fit(X, y)
    mean = KernelSGDClassifier(**options).partial_fit(X, y)
    new = X[1500:], y[1500:]
    assert last.score(*new) > 0.9 > 0.75 > mean.score(*new)


def test_it_learns_from_one_sample_at_a_time():
    x, y, probe, labels = make_multidist(3000, seed=100)
    model = KernelSGDClassifier(random_state=0)
    for i in range(3000):
        model.partial_fit(x[i : i + 1], y[i : i + 1])
        if i == 9:  # the first mini-batch is not full
            assert model.score(x[:10], y[:10]) > 0.5
    assert model.score(probe, labels) > 0.85


def test_classes_may_come_later():
    x, y, probe, labels = make_multidist(3000, seed=100)
    order = np.argsort(np.where(y < 2, 0, 1), kind="stable")
    early = y[order] < 2
    model = KernelSGDClassifier(random_state=0).partial_fit(x[order][early], 2 * y[order][early])
    before = model.decision_function(probe)
    assert list(model.classes_) == [0, 2]
    model.partial_fit(x[order][~early][:1], 2 * y[order][~early][:1])
    assert len(model.classes_) == 3
    after = model.decision_function(probe)
    np.testing.assert_allclose(after[:, 1] - after[:, 0], before, atol=0.2)
    model.partial_fit(x, 2 * y)
    assert list(model.classes_) == [0, 2, 4, 6, 8]
    assert model.score(probe, 2 * labels) > 0.85


@pytest.mark.parametrize("make", [KernelSGDClassifier, KernelSGDRegressor])
def test_a_model_goes_on_from_its_file(make, tmp_path):
    x, y, *_ = make_multidist(900)
    y = np.array(list("abcde"))[y] if make is KernelSGDClassifier else y * 0.5
    adapt = ("bandwidth", "stepsize", "regularization")
    model = make(adapt=adapt, random_state=np.random.RandomState(0), window=300)
    model.partial_fit(x[:500], y[:500])
    again = make.load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.predict(x), model.predict(x))
    for one in (model, again):
        one.partial_fit(x[500:], y[500:])
    np.testing.assert_array_equal(again.dual_coef_, model.dual_coef_)
    np.testing.assert_array_equal(again.bandwidth_history_, model.bandwidth_history_)
    assert again.get_params()["adapt"] == adapt
    other = KernelSGDRegressor if make is KernelSGDClassifier else KernelSGDClassifier
    with pytest.raises(ValueError, match="contains a"):
        other.load(tmp_path / "model.npz")


def test_same_seed_same_result_and_the_data_stay():
    x, y, *_ = make_multidist(400)
    x.flags.writeable = False
    one, two, other = (KernelSGDClassifier(random_state=s).fit(x, y) for s in (1, 1, 2))
    np.testing.assert_array_equal(one.dual_coef_, two.dual_coef_)
    assert one.dual_coef_.shape != other.dual_coef_.shape or np.any(one.dual_coef_ != other.dual_coef_)


def test_the_dictionary_has_a_limit():
    x, y, *_ = make_multidist(500)
    model = KernelSGDClassifier(bandwidth=0.05, adapt=(), max_points=30).fit(x, y)
    assert model.n_points_ == 30
    free = KernelSGDClassifier(bandwidth=0.05, adapt=()).fit(x, y)
    assert free.n_points_ > 100


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"regularization": 0.2}, "stepsize \\* regularization"),
        ({"adapt": ("width",)}, "adapt must be a subset of"),
    ],
)
def test_bad_parameters(given, message):
    x, y, *_ = make_multidist(20)
    with pytest.raises(ValueError, match=message):
        KernelSGDClassifier(**given).fit(x, y)


def test_bad_outputs():
    model = KernelSGDRegressor().partial_fit(np.zeros((2, 1)), np.zeros((2, 2)))
    with pytest.raises(ValueError, match="y must have 2 outputs"):
        model.partial_fit(np.zeros((2, 1)), np.zeros((2, 3)))


def test_a_file_must_have_all_parameters_and_no_others(tmp_path):
    x, y, *_ = make_multidist(50)
    model = KernelSGDClassifier(random_state=0).fit(x, y)
    state = storage.load(model.save(tmp_path / "model"), "KernelSGDClassifier", anything)
    parameters = dict(state["parameters"])
    state["parameters"] = parameters | {"bandwith": 1.0}
    with pytest.raises(ValueError, match="'parameters/bandwith' is unknown"):
        KernelSGDClassifier.load(storage.save(tmp_path / "more", "KernelSGDClassifier", state))
    del parameters["bandwidth"]
    state["parameters"] = parameters
    with pytest.raises(ValueError, match=r"fewer\.npz .*'parameters/bandwidth' is missing"):
        KernelSGDClassifier.load(storage.save(tmp_path / "fewer", "KernelSGDClassifier", state))


@pytest.mark.parametrize("make", [KernelSGDClassifier, KernelSGDRegressor])
def test_a_file_of_data_far_from_the_origin_is_read(make, tmp_path):
    rng = np.random.default_rng(100)
    x = rng.normal(size=(400, 3)) + 1e9
    y = rng.integers(0, 2, 400)
    model = make(random_state=0).fit(x, y)
    again = make.load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.predict(x), model.predict(x))


@pytest.mark.parametrize("make", [KernelSGDClassifier, KernelSGDRegressor])
def test_a_stream_without_parsimony_goes_on_from_its_file(make, tmp_path):
    rng = np.random.default_rng(100)
    x = np.cumsum(rng.normal(size=(4000, 1)), axis=0)
    y = np.sin(x[:, 0] / 5.0)
    y = y > 0.0 if make is KernelSGDClassifier else y
    model = make(parsimony=0.0, random_state=0)
    for t in range(0, 4000, 500):
        model.partial_fit(x[t : t + 500], y[t : t + 500])
        again = make.load(model.save(tmp_path / "model"))
        np.testing.assert_array_equal(again.predict(x), model.predict(x))
        model = again
    assert model.score(x[-500:], y[-500:]) > 0.7


def test_a_wrong_inverse_in_a_file_is_computed_anew(tmp_path):
    x, y, *_ = make_multidist(400)
    model = KernelSGDClassifier(bandwidth=0.5, adapt=(), random_state=0).fit(x, y)
    state = storage.load(model.save(tmp_path / "model"), "KernelSGDClassifier", anything)
    right = state["machine"]["inverse"].copy()
    state["machine"]["inverse"] *= -2.0
    again = KernelSGDClassifier.load(storage.save(tmp_path / "wrong", "KernelSGDClassifier", state))
    np.testing.assert_array_equal(again.predict(x), model.predict(x))
    again.save(tmp_path / "again")
    state = storage.load(tmp_path / "again", "KernelSGDClassifier", anything)
    np.testing.assert_allclose(state["machine"]["inverse"], right, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("make", [lambda: KernelSGDClassifier("logistic"), KernelSGDRegressor])
def test_weights_of_a_fit_are_relative_to_their_mean(make):
    rng = np.random.default_rng(0)
    x, weight = rng.normal(size=(200, 2)), rng.uniform(0.5, 2.0, 200)
    y = (x[:, 0] > 0.0).astype(int)
    models = [make().set_params(random_state=0).fit(x, y, unit * weight) for unit in (1.0, 0.005)]
    np.testing.assert_allclose(models[0].dual_coef_, models[1].dual_coef_, rtol=1e-6)
    assert models[1].score(x, y) > 0.7
    single, double = (make().set_params(random_state=0) for _ in range(2))
    np.testing.assert_array_equal(
        single.fit(x, y).dual_coef_, double.fit(x, y, np.full(200, 4.0)).dual_coef_
    )

"""Numbers that no estimator can learn from are refused by name, or do no harm."""

import tracemalloc

import numpy as np
import pytest

from oda_rl import (
    KernelSGDClassifier,
    KernelSGDRegressor,
    MultiResolutionODA,
    ODAClassifier,
    ODAPartition,
    ODARegressor,
)
from oda_rl.quantization import LVQ, DeterministicAnnealing, StochasticVQ

X = np.random.default_rng(0).normal(size=(120, 2))
LABELS = (X[:, 0] > 0.0).astype(int)
MAKERS = {
    "ODAPartition": (lambda: ODAPartition(4, n_warmup=40, random_state=0), None),
    "StochasticVQ": (lambda: StochasticVQ(3, random_state=0), None),
    "DeterministicAnnealing": (lambda: DeterministicAnnealing(3), None),
    "LVQ": (lambda: LVQ(2, random_state=0), LABELS),
    "ODAClassifier": (lambda: ODAClassifier(4, n_warmup=40, random_state=0), LABELS),
    "KernelSGDClassifier": (lambda: KernelSGDClassifier(random_state=0), LABELS),
    "ODARegressor": (lambda: ODARegressor(4, n_warmup=40, random_state=0), X[:, 0]),
    "KernelSGDRegressor": (lambda: KernelSGDRegressor(random_state=0), X[:, 0]),
}
REGRESSORS = ["ODARegressor", "KernelSGDRegressor"]


def learn(name, X, method="fit", y=None):
    make, own = MAKERS[name]
    model = make()
    if not hasattr(model, method):
        pytest.skip("learns in one go")
    return getattr(model, method)(X, own if y is None else y)


@pytest.mark.parametrize("name", ["ODAClassifier", "ODARegressor"])
def test_a_fit_of_many_features_needs_no_second_moments_for_each_cell_it_tries(name):
    d = 300
    X = np.random.default_rng(0).normal(size=(40, d))
    X[20:, 0] += 10.0
    model = ODAClassifier(random_state=0) if name == "ODAClassifier" else ODARegressor(random_state=0)
    model.fit(X, (X[:, 0] > 5.0).astype(int))  # imports and compilation take memory too
    tracemalloc.start()
    try:
        model.fit(X, (X[:, 0] > 5.0).astype(int))
        most = tracemalloc.get_traced_memory()[1] / (8 * d**2)
    finally:
        tracemalloc.stop()
    assert most < 25  # 40 if each trial had them
    model.partial_fit(X, (X[:, 0] > 5.0).astype(int))
    assert model.score(X, (X[:, 0] > 5.0).astype(int)) > 0.9


def test_cells_of_a_stream_with_many_features_have_few_second_moments():
    X = np.random.default_rng(0).normal(size=(50, 400))
    regressor = ODARegressor(n_warmup=30, random_state=0)
    classifier = ODAClassifier(local_model="linear", n_warmup=30, random_state=0)
    for part in (slice(0, 40), slice(40, 50)):
        regressor.partial_fit(X[part], X[part, 0])
        classifier.partial_fit(X[part], X[part, 0] > 0.0)
    for run in (regressor._run, classifier._session.local.run):
        assert run.annealer.max_codevectors == 6
        assert run.book.payload[run.book.rows("gain")].size < 1_000_000
    tried = ODAClassifier(n_warmup=30, random_state=0).partial_fit(X, X[:, 0] > 0.0)
    assert not tried._session.local.is_ready  # there are more features than samples


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("name", MAKERS)
def test_values_whose_squares_are_infinite_are_named(name, method):
    huge = X.copy()
    huge[7, 1] = -1e160
    with pytest.raises(
        ValueError, match=r"X contains numbers beyond 1e\+75: column 1 is -1e\+160 in row 7"
    ):
        learn(name, huge, method)


@pytest.mark.parametrize("name", MAKERS)
def test_values_whose_squares_vanish_count_as_the_same(name):
    for method in ("fit", "partial_fit") if name != "DeterministicAnnealing" else ("fit",):
        model = learn(name, 1e-160 * X, method)
        assert np.isfinite(model.predict(X)).all()
        assert np.isfinite(model.predict(1e-160 * X)).all()


@pytest.mark.parametrize("name", REGRESSORS)
def test_outputs_are_within_bounds(name):
    with pytest.raises(ValueError, match=r"y contains numbers beyond 1e\+75: -?1\.\d*e\+160"):
        learn(name, X, y=np.where(np.arange(len(X)) == 3, 1.5e160, X[:, 0]))


def test_targets_that_are_no_numbers_or_no_classes_are_named():
    days = np.datetime64("2020-01-01") + LABELS
    for model in (ODARegressor(), MultiResolutionODA(ODARegressor()), KernelSGDRegressor()):
        for outputs in (X[:, 0].astype(str), days, X.astype(str)):
            for method in (model.fit, model.partial_fit):
                with pytest.raises(ValueError, match="y must be numbers, got an array of"):
                    method(X, outputs)
    for model in (ODAClassifier(), MultiResolutionODA(ODAClassifier())):
        for method in (model.fit, model.partial_fit):
            with pytest.raises(ValueError, match=r"y must be classes that are .* of datetime64\[D\]"):
                method(X, days)
        assert model.fit(X, days.astype(str)).classes_.tolist() == ["2020-01-01", "2020-01-02"]


def test_predictions_too_are_of_numbers_within_bounds():
    for name in ("ODAPartition", "KernelSGDRegressor"):
        with pytest.raises(ValueError, match="X contains numbers beyond"):
            learn(name, X).predict(1e100 * X)


def test_weights_are_within_bounds():
    weight = np.ones(len(X))
    weight[:60] = 1e-300  # as good as absent
    lone = ODAPartition(4, random_state=0).fit(X, sample_weight=weight)
    rest = ODAPartition(4, random_state=0).fit(X[60:])
    np.testing.assert_array_equal(lone.codevectors_, rest.codevectors_)
    for model in (ODAPartition(4), KernelSGDRegressor()):
        with pytest.raises(ValueError, match=r"sample_weight must be at most 1e\+30, got 1e\+300"):
            model.fit(X, X[:, 0], sample_weight=np.full(len(X), 1e300))


@pytest.mark.parametrize("name", ["ODAPartition", "StochasticVQ", "LVQ", "KernelSGDClassifier"])
def test_features_of_unlike_scales_are_told_of(name):
    unlike = X * [1e9, 1e-9]
    with pytest.warns(
        UserWarning, match="feature 0 has a standard deviation of .*, and feature 1 .* rescale"
    ):
        learn(name, unlike, "partial_fit" if name in ("LVQ", "KernelSGDClassifier") else "fit")


def test_a_scale_is_as_good_as_features_that_are_alike(recwarn):
    labels = ODAPartition(4, scale=[1e9, 1e-9], random_state=0).fit_predict(X * [1e9, 1e-9])
    np.testing.assert_array_equal(labels, ODAPartition(4, random_state=0).fit_predict(X))
    assert not [one for one in recwarn if one.category is UserWarning]


def test_a_function_that_grows_without_bound_is_an_error():
    model = KernelSGDRegressor(stepsize=50.0, adapt=(), random_state=0)
    with pytest.raises(ValueError, match=r"diverged with stepsize=50\.0: lower the stepsize"):
        model.fit(np.repeat(X, 30, axis=0), np.repeat(X[:, 0], 30))
    assert not hasattr(model, "dictionary_")


@pytest.mark.parametrize("finish", [False, True])
def test_cells_follow_data_that_jump(finish):
    rng = np.random.default_rng(0)
    model = ODAPartition(8, finish=finish, random_state=0)
    model.partial_fit(rng.normal(size=(6000, 2)))
    after = 1000.0 + rng.normal(size=(12000, 2))
    model.partial_fit(after)
    assert len(np.unique(model.predict(after))) >= 7
    assert ((after - model.codevectors_[model.predict(after)]) ** 2).sum(axis=1).mean() < 1.0


@pytest.mark.parametrize("name", ["ODAPartition", "DeterministicAnnealing", "ODARegressor"])
def test_samples_so_far_out_that_few_digits_are_left(name):
    model = learn(name, X + 1e17)
    assert np.isfinite(model.codevectors_).all()
    assert np.isfinite(model.predict(X + 1e17)).all()


@pytest.mark.parametrize("name", ["ODAPartition", "ODAClassifier", "ODARegressor"])
@pytest.mark.parametrize("cut", [7, 60])
def test_a_stream_cut_in_its_first_samples_goes_on(name, cut, tmp_path):
    make, y = MAKERS[name]
    parts = [slice(0, cut), slice(cut, None)]
    whole, half = make(), make()
    for part in parts:
        whole.partial_fit(X[part], None if y is None else y[part])
    half.partial_fit(X[parts[0]], None if y is None else y[parts[0]])
    half = type(half).load(half.save(tmp_path / "half"))
    half.partial_fit(X[parts[1]], None if y is None else y[parts[1]])
    np.testing.assert_array_equal(whole.predict(X), half.predict(X))
    assert [p.n_samples_seen for p in whole.history_] == [p.n_samples_seen for p in half.history_]


@pytest.mark.parametrize("name", REGRESSORS)
def test_outputs_of_single_precision_are_learned_from_as_they_are(name, recwarn):
    y = X[:, 0].astype(np.float32)
    narrow, wide = learn(name, X, y=y), learn(name, X, y=y.astype(np.float64))
    np.testing.assert_array_equal(narrow.predict(X), wide.predict(X))
    assert not [one for one in recwarn if one.category is RuntimeWarning]

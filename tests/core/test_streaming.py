"""The adapter to river's interface, with and without river."""

import copy
import pickle
from collections import defaultdict

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import SGDClassifier

from oda_rl import ODAClassifier, ODAPartition, ODARegressor
from oda_rl.streaming import Stream


def samples(n=400, seed=0):
    rng = np.random.default_rng(seed)
    for a, b in rng.uniform(-1.0, 1.0, (n, 2)):
        yield {"a": float(a), "b": float(b)}, float(3.0 * a - b)


def test_a_regressor_learns_one_by_one_as_it_does_from_arrays():
    stream, patient = (Stream(ODARegressor(8, random_state=0), block=block) for block in (1, 32))
    for x, y in samples():
        stream.learn_one(x, y)
        patient.learn_one(x, y)
    X = np.array([[x["a"], x["b"]] for x, _ in samples()])
    y = np.array([y for _, y in samples()])
    model = ODARegressor(8, random_state=0).partial_fit(X, y)
    assert patient._n_learned == 384  # some wait, until somebody wants the estimator
    assert patient.estimator.n_samples_seen_ == 400
    for (x, _), expected in zip(samples(), model.predict(X), strict=True):
        assert stream.predict_one(x) == patient.predict_one(x) == expected
    assert np.abs(model.predict(X) - y).max() < 0.1


def test_a_sample_that_cannot_be_learned_from_leaves_those_that_wait_with_it():
    stream = Stream(ODAPartition(4, divergence="kl", random_state=0))
    for x, _ in samples():
        stream.learn_one({"a": 2.0 + x["a"], "b": 2.0 + x["b"]})
    before = stream.estimator.n_samples_seen_
    stream.learn_one({"a": 1.0, "b": -1.0})  # waits
    stream.learn_one({"a": 1.0, "b": 2.0})
    with pytest.raises(ValueError, match="at least 0"):
        stream.estimator  # noqa: B018
    assert stream.estimator.n_samples_seen_ == before + 1
    with pytest.raises(ValueError, match="finite"):
        stream.learn_one({"a": 1.0, "b": float("inf")})


def test_the_order_of_features_does_not_matter_and_samples_are_not_changed():
    one, other = Stream(ODARegressor(4, random_state=0)), Stream(ODARegressor(4, random_state=0))
    for x, y in samples():
        before = copy.deepcopy(x)
        one.learn_one(x, y)
        other.learn_one(dict(reversed(x.items())), y)
        assert x == before
        assert one.predict_one(x) == other.predict_one(x)
        assert x == before


def test_missing_features_count_as_their_mean_and_new_ones_not_at_all():
    stream = Stream(ODARegressor(4, random_state=0), block=1)
    for x, y in samples():
        stream.learn_one(x, y)
    mean = {"a": 0.5, "b": float(np.mean([x["b"] for x, _ in samples()]))}
    expected = pytest.approx(stream.predict_one(mean))
    assert stream.predict_one({"a": 0.5}) == expected
    assert stream.predict_one({"a": 0.5, "b": float("nan"), "c": 7.0}) == expected


def test_missing_features_are_replaced_by_the_mean_of_earlier_samples_whatever_the_block():
    rng, streams = np.random.default_rng(0), []
    present = rng.uniform(size=(100, 2)) < 0.7
    for block in (1, 7, 200):
        streams.append(Stream(ODAPartition(4, n_warmup=20, random_state=0), block=block))
        for x, both in zip(samples(100), present, strict=True):
            kept = {name: x[0][name] for name, here in zip("ab", both, strict=True) if here}
            streams[-1].learn_one(kept if streams[-1].features else x[0])
    for stream in streams[1:]:
        found, expected = stream.estimator.codevectors_, streams[0].estimator.codevectors_
        np.testing.assert_array_equal(found, expected)
    stream = Stream(ODAPartition(1, random_state=0))
    for x in ({"a": 1000.0, "b": 0.0}, {"a": 2000.0, "b": 3.0}, {"b": 6.0}):
        stream.learn_one(x)
    np.testing.assert_array_equal(stream.estimator.codevectors_, [[1500.0, 3.0]])


def test_several_outputs_are_dictionaries():
    stream = Stream(ODARegressor(4, random_state=0))
    assert stream.predict_one({"a": 0.0}) == 0.0
    for x, y in samples():
        stream.learn_one(x, {"sum": y, "minus": -y})
    found = stream.predict_one({"a": 1.0, "b": 0.0})
    assert found["sum"] == pytest.approx(3.0, abs=0.1)
    assert found["minus"] == pytest.approx(-3.0, abs=0.1)


def test_a_prediction_knows_all_samples_before_it():
    waiting, single = (Stream(ODAClassifier(n_warmup=20, random_state=0), block=b) for b in (16, 1))
    for i, (x, y) in enumerate(samples()):
        if i % 7 == 0:
            assert waiting.predict_proba_one(x) == pytest.approx(single.predict_proba_one(x))
            assert waiting._n_learned == single._n_learned == i
        for stream in (waiting, single):
            stream.learn_one(x, y > 0)


def test_a_clusterer_gives_cells():
    stream = Stream(ODAPartition(3, random_state=0))
    assert stream.predict_one({"a": 0.0}) == 0
    for x, _ in samples(2000):
        stream.learn_one(x)
    assert isinstance(stream.predict_one({"a": 1.0, "b": 1.0}), int)
    assert stream.predict_one({"a": 1.0, "b": 1.0}) != stream.predict_one({"a": -1.0, "b": -1.0})


def test_a_classifier_gives_classes_and_probabilities():
    stream = Stream(SGDClassifier(loss="log_loss", random_state=0), classes=["no", "yes"])
    assert stream.predict_one({"a": 1.0}) is None
    assert stream.predict_proba_one({"a": 1.0}) == {}
    for x, y in samples():
        stream.learn_one(x, "yes" if y > 0 else "no")
    assert stream.predict_one({"a": 1.0, "b": 0.0}) == "yes"
    shares = stream.predict_proba_one({"a": -1.0, "b": 0.0})
    assert set(shares) == {"no", "yes"}
    assert shares["no"] > 0.5
    assert sum(shares.values()) == pytest.approx(1.0)


def test_weights():
    stream = Stream(ODARegressor(4, random_state=0))
    stream.learn_one({"a": 1.0}, 2.0, w=0.0)
    assert stream.predict_one({"a": 1.0}) == 0.0
    stream.learn_one({"a": 1.0}, 2.0, w=1.0)
    stream.learn_one({"a": 1.0}, 8.0, w=2.0)
    assert stream.predict_one({"a": 1.0}) == pytest.approx(6.0)


def test_classes_may_come_later():
    stream = Stream(ODAClassifier(4, random_state=0))
    for x, y in samples():
        stream.learn_one(x, "yes" if y > 0 else "no")
    stream.learn_one({"a": 5.0, "b": 5.0}, "perhaps")
    assert set(stream.predict_proba_one({"a": 5.0, "b": 5.0})) == {"no", "perhaps", "yes"}


def test_pickle_and_clone():
    stream = Stream(ODARegressor(4, random_state=0))
    for x, y in samples():
        stream.learn_one(x, y)
    again = pickle.loads(pickle.dumps(stream))
    assert again.predict_one({"a": 0.3, "b": 0.1}) == stream.predict_one({"a": 0.3, "b": 0.1})
    assert stream.clone().predict_one({"a": 0.3, "b": 0.1}) == 0.0
    same = stream.clone({"block": 1}, include_attributes=True)
    assert same.block == 1
    assert same.predict_one({"a": 0.3, "b": 0.1}) == stream.predict_one({"a": 0.3, "b": 0.1}) != 0.0
    same.learn_one({"a": 9.0, "b": 9.0}, -9.0)
    assert stream.estimator.n_samples_seen_ == 400


def test_what_cannot_be_wrapped():
    with pytest.raises(TypeError, match="partial_fit"):
        Stream(object())
    with pytest.raises(AttributeError, match="predict_proba"):
        Stream(ODARegressor()).predict_proba_one({"a": 1.0})
    with pytest.raises(ValueError, match="at least one feature"):
        Stream(ODARegressor()).learn_one({}, 1.0)


@pytest.mark.parametrize("estimator", [ODAClassifier(), ODARegressor(), ODAPartition()])
def test_rivers_own_checks(estimator):
    checks = pytest.importorskip("river.checks")
    stream = Stream(clone(estimator).set_params(random_state=0))
    for check in checks.yield_checks(stream):
        check(stream.clone())


@pytest.mark.parametrize("wanted", [False, True])
def test_a_pipeline_of_river_is_cloned(wanted):
    preprocessing = pytest.importorskip("river.preprocessing")
    pipeline = preprocessing.StandardScaler() | Stream(ODARegressor(4, random_state=0))
    for x, y in samples():
        pipeline.learn_one(x, y)
    other = pipeline.clone(include_attributes=wanted)
    assert (other.predict_one(x) == pipeline.predict_one(x)) == wanted


def test_progressive_validation_with_river():
    evaluate = pytest.importorskip("river.evaluate")
    metrics = pytest.importorskip("river.metrics")
    preprocessing = pytest.importorskip("river.preprocessing")
    regressor = preprocessing.StandardScaler() | Stream(ODARegressor(8, random_state=0))
    mae = evaluate.progressive_val_score(samples(1000), regressor, metrics.MAE())
    assert mae.get() < 0.5
    labelled = [(x, y > 0) for x, y in samples(1000)]
    classifier = Stream(SGDClassifier(loss="log_loss", random_state=0), classes=[False, True])
    pipeline = preprocessing.StandardScaler() | classifier
    assert evaluate.progressive_val_score(labelled, pipeline, metrics.Accuracy()).get() > 0.9
    clusterer = preprocessing.StandardScaler() | Stream(ODAPartition(3, random_state=0))
    for x, _ in samples(1000):
        clusterer.learn_one(x)
    assert clusterer.predict_one(x) in (0, 1, 2)


def test_the_first_sample_tells_features_and_outputs_once_it_is_one():
    stream = Stream(ODARegressor(4, random_state=0))
    with pytest.raises(TypeError, match=r"x must be a mapping of features to numbers, got \[1\.0\]"):
        stream.learn_one([1.0], 1.0)
    with pytest.raises(ValueError, match=r"finite numbers, .* got 'red' for 'colour'"):
        stream.learn_one({"colour": "red"}, 1.0)
    with pytest.raises(ValueError, match=r"y must be a mapping of \['s'\] to numbers, got {'s': None}"):
        stream.learn_one({"a": 1.0}, {"s": None})
    for x, y in samples():
        stream.learn_one(x, y)
    with pytest.raises(ValueError, match=r"y must be a number, got {'s': 1.0}"):
        stream.learn_one({"a": 1.0, "b": 0.0}, {"s": 1.0})
    assert stream.features == ["a", "b"]
    assert stream.predict_one({"a": 1.0, "b": 0.0}) == pytest.approx(3.0, abs=0.1)


def test_classes_are_numbers_alone_or_texts_alone_in_a_block_too():
    stream = Stream(ODAClassifier(4, random_state=0))
    for x, y in samples():
        stream.learn_one(x, int(y > 0))
    stream.learn_one({"a": 1.0, "b": 0.0}, 1)  # waits
    with pytest.raises(ValueError, match="only numbers or only strings, got 0 and 'yes'"):
        stream.learn_one({"a": 1.0, "b": 0.0}, "yes")
    assert stream.predict_one({"a": 1.0, "b": 0.0}) == 1
    assert stream.estimator.n_samples_seen_ == 401
    with pytest.raises(ValueError, match=r"y must be a number or text, got \[1\]"):
        stream.learn_one({"a": 1.0, "b": 0.0}, [1])


def test_a_dictionary_with_defaults_is_not_changed():
    stream = Stream(ODARegressor(4, random_state=0))
    for x, y in samples():
        stream.learn_one(x, y)
    x = defaultdict(float, {"a": 1.0})
    assert stream.predict_one(x) == stream.predict_one({"a": 1.0, "b": 0.0})
    assert dict(x) == {"a": 1.0}


def test_arguments_are_named():
    for w in (-1.0, float("nan"), float("inf"), "1"):
        with pytest.raises(ValueError, match="w must be a non-negative and finite number"):
            Stream(ODARegressor()).learn_one({"a": 1.0}, 1.0, w)
    with pytest.raises(ValueError, match=r"classes must be None for ODARegressor.*, got \[0, 1\]"):
        Stream(ODARegressor(), classes=[0, 1])
    for classes in ("ab", 5, ["a", 1], [[0, 1]], [0.0, float("nan")]):
        with pytest.raises(
            ValueError, match="classes must be a list of only finite numbers or only strings"
        ):
            Stream(ODAClassifier(), classes=classes)

"""The classifier: what it promises of fits, streams, files, rules, modes and rejected samples."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from model_files import reloaded
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_moons
from sklearn.model_selection import StratifiedKFold, train_test_split

from oda_rl import MultiResolutionODA, ODAClassifier
from oda_rl.datasets import make_gaussian_classes

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
    models = [
        ODAClassifier(mode=mode, rule=rule, random_state=seed).fit(X[::2], y[::2]) for seed in range(3)
    ]
    assert np.median([model.score(X[1::2], y[1::2]) for model in models]) > 0.97
    model = models[0]
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[proba.argmax(axis=1)], model.predict(X))
    assert model.weights_.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("mode", ["conditional", "majority", "lvq"])
def test_a_stream_learns_one_and_predicts_one(mode):
    X, y = make_moons(300, noise=0.1, random_state=0)
    model = ODAClassifier(mode=mode, max_codevectors=40, random_state=0)
    right = 0
    for i in range(len(X)):
        if i > 0:
            right += model.predict(X[i : i + 1])[0] == y[i]
        model.partial_fit(X[i : i + 1], y[i : i + 1], classes=[0, 1])
    assert right > 0.8 * len(X)
    for _ in range(5):
        model.partial_fit(X, y)
    assert model.score(X, y) > 0.97
    assert model.n_samples_seen_ == 6 * len(X)


@pytest.mark.parametrize("fine_tune", ["lvq1", "glvq"])
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
    X, y = blobs(50)
    names = np.array(["red", "green", "blue"])[y]
    model = ODAClassifier(mode=mode, random_state=0)
    if streamed:
        model.partial_fit(X[:140], names[:140])
    else:
        model.fit(X, names)
    read = reloaded(model)
    np.testing.assert_array_equal(read.predict_proba(X), model.predict_proba(X))
    assert len(read.history_) == len(model.history_)
    for m in (model, read):
        m.partial_fit(X, names)
    np.testing.assert_array_equal(read.codevectors_, model.codevectors_)
    np.testing.assert_array_equal(read.predict(X), model.predict(X))


@pytest.mark.parametrize("changed", [{}, {"verbose": 1}, {"reject": 0.1}, {"random_state": 1}])
def test_a_copy_goes_on_the_same_way(changed):
    X, y = load_digits(return_X_y=True)
    model = ODAClassifier(local_model=None, validation=None, random_state=0).fit(X[:300], y[:300])
    copy = pickle.loads(pickle.dumps(model)).set_params(**changed)
    for one in (model, copy):
        one.partial_fit(X[300:600], y[300:600])
    np.testing.assert_array_equal(copy.codevectors_, model.codevectors_)


def test_rejects_what_is_far_away():
    X, y = blobs()
    for model in (ODAClassifier(reject=0.02, random_state=0), ODAClassifier(reject=0.02)):
        model.fit(X, y)
        assert (model.predict(X) == -1).mean() < 0.06
        np.testing.assert_array_equal(model.predict([[50.0, 50.0], [2.0, -20.0]]), -1)
        np.testing.assert_array_equal(model.predict([CENTRES[1]]), 1)
    named = ODAClassifier(reject=0.02, reject_label="far").fit(X, y)
    assert named.predict([CENTRES[1], (50.0, 50.0)]).tolist() == [1, "far"]


@pytest.mark.parametrize("label", [np.nan, -np.inf, np.int64(-7), True, "far", np.str_("far")])
def test_the_label_of_rejected_samples_is_stored(label):
    X, y = blobs(20)
    model = ODAClassifier(reject=0.02, reject_label=label, random_state=0).fit(X, y)
    found = [one.predict([CENTRES[1], (50.0, 50.0)]).tolist() for one in (model, reloaded(model))]
    np.testing.assert_equal(found, [[1, label]] * 2)


@pytest.mark.parametrize("label", [("far",), 2**70, b"far", 1j, []])
def test_other_labels_of_rejected_samples_are_refused(label):
    for learn in ("fit", "partial_fit"):
        model = ODAClassifier(reject_label=label)
        with pytest.raises(ValueError, match="reject_label must be a number of 64 bits or a text, got"):
            getattr(model, learn)(*blobs(20))


def test_rejected_samples_have_texts_if_classes_have():
    X, y = blobs(20)
    names = np.array(["a", "b", "c"])[y]
    model = ODAClassifier(random_state=0).fit(X, names)
    for learn in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match="reject_label must be a string, such as 'rejected'"):
            getattr(ODAClassifier(reject=0.02), learn)(X, names)
    with pytest.raises(ValueError, match="reject_label must be a string"):
        model.set_params(reject=0.02).predict(X)
    model.set_params(reject_label="nowhere")
    assert model.predict([CENTRES[1], (50.0, 50.0)]).tolist() == ["b", "nowhere"]
    assert model.score([CENTRES[1], (50.0, 50.0)], ["b", "b"]) == 0.5


@pytest.mark.parametrize("scale", ["minmax", "standard", "within"])
def test_features_stay_scaled_as_a_fit_found_them(scale):
    X, y = blobs()
    model = ODAClassifier(scale=scale, random_state=0).fit(X, y)
    copy, before = reloaded(model), model.codevectors_
    for learner in (model, copy):
        learner.partial_fit([[100.0, -100.0]], [0])  # further out than all others
    np.testing.assert_array_equal(model.codevectors_, copy.codevectors_)
    moved = np.linalg.norm(model.codevectors_ - before, axis=1) > 1e-9
    assert moved.sum() <= 1  # the codevector that is nearest to it
    np.testing.assert_array_equal(model.predict_proba(X), copy.predict_proba(X))


@pytest.mark.parametrize("chunk", [1, 37])
def test_ranges_of_features_may_grow_in_any_chunks(chunk):
    X, y = blobs(90)
    X *= np.linspace(1.0, 5.0, len(X))[:, None]
    whole = ODAClassifier(scale="minmax", random_state=0)
    parts = ODAClassifier(scale="minmax", random_state=0)
    for size, model in ((1000, whole), (chunk, parts)):
        for start in range(0, len(X), size):
            model.partial_fit(X[start : start + size], y[start : start + size], classes=[0, 1, 2])
    np.testing.assert_allclose(parts.codevectors_, whole.codevectors_, rtol=1e-9)
    np.testing.assert_allclose(parts.predict_proba(X), whole.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize("chunk", [1, 7])
def test_chunks_do_not_matter(chunk):
    X, y = blobs()
    whole = ODAClassifier(random_state=0).partial_fit(X, y)
    parts = ODAClassifier(random_state=0)
    for start in range(0, len(X), chunk):
        parts.partial_fit(X[start : start + chunk], y[start : start + chunk], classes=[0, 1, 2])
    assert whole.n_codevectors_ == parts.n_codevectors_
    np.testing.assert_allclose(whole.codevectors_, parts.codevectors_, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    "kind", [{"mode": "lvq"}, {"fine_tune": "lvq1", "rule": "nearest", "max_codevectors": 12}]
)
@pytest.mark.parametrize("weighted", [False, True])
def test_neither_chunks_nor_samples_of_weight_zero_matter_to_lvq(kind, weighted):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 3))
    y = (X[:, 0] + 0.5 * rng.normal(size=700) > 0).astype(int) + (X[:, 1] > 1.0)
    weight = rng.integers(0, 3, 700).astype(float) if weighted else np.ones(700)
    models = []
    for chunk in (10, 700):
        model = ODAClassifier(local_model=None, random_state=0, **kind)
        for start in range(0, len(X), chunk):
            rows = slice(start, start + chunk)
            model.partial_fit(X[rows], y[rows], sample_weight=weight[rows])
        models.append(model)
    used = weight > 0.0
    model = ODAClassifier(local_model=None, random_state=0, **kind)
    models.append(model.partial_fit(X[used], y[used], sample_weight=weight[used]))
    for model in models[1:]:
        np.testing.assert_allclose(model.codevectors_, models[0].codevectors_, rtol=1e-6, atol=1e-9)
        np.testing.assert_array_equal(model.predict(X), models[0].predict(X))
    assert models[0].converged_ or "mode" in kind or weighted


@pytest.mark.parametrize("mode", ["conditional", "majority"])
@pytest.mark.parametrize("chunk", [1, 37])
def test_classes_may_come_late_in_any_chunks(mode, chunk):
    X, y = blobs(80)
    order = np.concatenate([np.flatnonzero(y != 0), np.flatnonzero(y == 0)])
    X, y = X[order], np.array(["b", "c", "d"])[(y[order] + 2) % 3]  # the first of the names comes last
    X, y = np.concatenate([X, X + 9.0]), np.concatenate([y, np.full(len(y), "a")])
    whole = ODAClassifier(mode=mode, random_state=0).partial_fit(X, y, classes=["c"])
    parts = ODAClassifier(mode=mode, random_state=0)
    for start in range(0, len(X), chunk):
        own = X[start : start + chunk], y[start : start + chunk]
        parts.partial_fit(*own, classes=["c"] if start == 0 else None)
    assert parts.drifts_ == whole.drifts_
    assert whole.drifts_ or mode != "majority"
    assert parts.codevector_labels_.tolist() == whole.codevector_labels_.tolist()
    np.testing.assert_allclose(parts.codevectors_, whole.codevectors_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(parts.predict_proba(X), whole.predict_proba(X), atol=1e-6)
    np.testing.assert_array_equal(reloaded(parts).predict(X), parts.predict(X))


def test_what_judges_a_partition_may_meet_a_new_class():
    X, y = blobs(200)
    model = ODAClassifier(mode="majority", random_state=0).partial_fit(X[:200], y[:200] + 1)
    model.partial_fit(X[200:210], np.zeros(10, dtype=y.dtype))  # in the middle of a piece
    np.testing.assert_array_equal(reloaded(model).predict_proba(X), model.predict_proba(X))
    model.partial_fit(X[210:], y[210:] + 1)
    assert model.score(X, y + 1) > 0.9


def wide(n, d, signal, seed):
    """Two classes of normal samples in many features, whose means are so far apart."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    return rng.normal(size=(n, d)) + signal / np.sqrt(d) * np.where(y == 1, 1.0, -1.0)[:, None], y


def log_loss_of(model, X, y):
    return -np.log(np.maximum(model.predict_proba(X)[np.arange(len(y)), y], 1e-15)).mean()


@pytest.mark.parametrize("options", [{}, {"local_model": None}, {"mode": "majority"}])
def test_more_features_than_samples_give_no_certainty(options):
    losses, drawn = [], []
    for seed in range(3):
        X, y = wide(160, 150, 0.0, seed)
        model = ODAClassifier(random_state=0, **options).fit(X[:80], y[:80])
        losses.append(log_loss_of(model, X[80:], y[80:]))
        drawn.append(model.local_weights_[0])
        joint = model._session.log_joint(X, model._distance(X)[1])
        np.testing.assert_array_equal(model.predict(X), joint.argmax(axis=1))
    assert max(losses) < 0.9  # that of a coin is .69
    assert max(drawn) < 1.0
    X, y = wide(160, 150, 6.0, 3)
    model = ODAClassifier(random_state=0, **options).fit(X[:80], y[:80])
    if options.get("mode") is None:
        assert log_loss_of(model, X[80:], y[80:]) < 0.1  # clear classes are told with certainty


def test_how_sure_it_is_goes_along_with_it():
    X, y = wide(80, 150, 0.0, 0)
    model = ODAClassifier(local_model=None, random_state=0).fit(X, y)
    power, none = model.local_weights_
    assert (power < 1.0, none) == (True, 0.0)
    for one in (model, reloaded(model)):
        assert one.local_weights_ == (power, 0.0)
        np.testing.assert_array_equal(one.predict_proba(X), model.predict_proba(X))
        np.testing.assert_allclose(one.predict_log_proba(X), np.log(model.predict_proba(X)))
    model.partial_fit(X[:3], y[:3])
    assert model.local_weights_ == (power, 0.0)
    assert ODAClassifier(random_state=0).partial_fit(X[:30], y[:30]).local_weights_[0] == 1.0


def test_k_never_exceeds_its_limit():
    X, y = make_moons(600, noise=0.3, random_state=0)
    for model in (ODAClassifier(11, validation=None).fit(X, y), ODAClassifier(11)):
        for _ in range(5):
            model.partial_fit(X, y)
            assert model.n_codevectors_ <= 11
    X3, y3 = np.concatenate([X, X + 10.0]), np.concatenate([y, y + 2])
    for _ in range(10):
        model.partial_fit(X3, y3)
    assert model.n_codevectors_ <= 11
    assert model.score(X3, y3) > 0.75


def test_annealing_from_far_outside():
    """Fig. 1d: the first samples lie far from the others."""
    rng = np.random.default_rng(0)
    X, y = make_moons(500, noise=0.1, random_state=0)
    model = ODAClassifier(40, random_state=0)
    model.partial_fit(rng.normal(30.0, 0.1, (200, 2)), rng.integers(0, 2, 200))
    for _ in range(20):
        model.partial_fit(X, y)
    assert model.score(X, y) > 0.95


def test_history_and_stages():
    X, y = make_moons(300, noise=0.1, random_state=0)
    model = ODAClassifier(random_state=0).fit(X, y)
    history = model.history_
    assert len(list(model.staged_predict(X))) == len(history)
    assert all(a.temperature > b.temperature for a, b in pairwise(history))
    assert history[0].n_codevectors == 2
    assert history[-1].n_codevectors == model.n_codevectors_
    assert history[-1].loss <= min(point.loss for point in history) + 1e-3


@pytest.mark.parametrize("stream", [False, True])
def test_the_history_of_a_shared_partition_has_the_labels_of_the_majority(stream):
    X, y = blobs()
    model = ODAClassifier(mode="majority", rule="nearest", random_state=0)
    model = reloaded(model.partial_fit(X, y) if stream else model.fit(X, y))
    scaling, scores = model._session.scaling, []
    for point, predicted in zip(model.history_, model.staged_predict(X), strict=True):
        scores.append((predicted == y).mean())
        apart = scaling(X)[:, None] - scaling(point.codevectors)
        nearest = (apart**2).sum(axis=2).argmin(axis=1)
        for i, label in enumerate(point.labels):
            votes = np.bincount(y[nearest == i], minlength=3)
            assert votes[label] == votes.max() or votes.max() < 0.75 * votes.sum()
    assert scores[0] == 0.5  # one codevector, with the label of two of the four blobs
    assert scores[-1] > 0.95


def test_weights_of_classes_move_the_decision():
    X, y = make_moons(400, noise=0.6, random_state=0)
    shares = [
        (ODAClassifier(class_weight=weight, random_state=0).fit(X, y).predict(X) == 1).mean()
        for weight in ({0: 10.0, 1: 1.0}, None, {0: 1.0, 1: 10.0})
    ]
    assert shares[0] < shares[1] - 0.1 < shares[2] - 0.2


@pytest.mark.parametrize("mode", ["conditional", "majority"])
def test_other_divergences(mode):
    X, y = load_iris(return_X_y=True)
    for divergence in ("kl", "itakura_saito"):
        model = ODAClassifier(divergence=divergence, mode=mode, random_state=0).fit(X, y)
        assert model.score(X, y) > 0.9
        model.partial_fit(X, y)
        assert model.score(X, y) > 0.85


def test_one_class_and_equal_samples():
    model = ODAClassifier().fit([[1.0], [2.0], [3.0]], ["only"] * 3)
    np.testing.assert_array_equal(model.predict([[9.0]]), ["only"])
    model = ODAClassifier().fit([[1.0]] * 5 + [[2.0]] * 5, [0] * 5 + [1] * 5)
    np.testing.assert_array_equal(model.predict([[1.0], [2.0]]), [0, 1])


def test_the_callers_arrays_are_left_alone():
    X, y = blobs()
    weight = np.ones(len(X))
    before = X.copy(), y.copy(), weight.copy()
    ODAClassifier(random_state=0).fit(X, y, weight).partial_fit(X, y, sample_weight=weight).predict(X)
    for array, was in zip((X, y, weight), before, strict=True):
        np.testing.assert_array_equal(array, was)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fine_tune": "glvq", "divergence": "kl"}, "needs divergence='squared_euclidean'"),
        ({"fine_tune": "glvq", "mode": "majority"}, "fine_tune must be None with mode='majority'"),
    ],
)
def test_errors_name_the_parameter(options, message):
    X, y = blobs(5)
    with pytest.raises(ValueError, match=message):
        ODAClassifier(**options).fit(X, y)


def test_balanced_weights_need_all_samples():
    with pytest.raises(ValueError, match="class_weight='balanced'"):
        ODAClassifier(class_weight="balanced").partial_fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize("weight", [0.0, -1.0, np.nan, np.inf, "a", True])
@pytest.mark.parametrize("model", [ODAClassifier(), MultiResolutionODA(ODAClassifier())])
def test_weights_of_classes_that_are_none_are_refused_by_name(model, weight):
    X, y = np.arange(6.0)[:, None], [0, 1, 2, 0, 1, 2]
    weighted = {"class_weight": {0: 2.0, 1: 1, 2: weight}}
    inner = {f"estimator__{name}": value for name, value in weighted.items()}
    model = clone(model).set_params(**(inner if isinstance(model, MultiResolutionODA) else weighted))
    for learn in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match=r"class_weight must have numbers .* for the class 2"):
            learn(X, y)


def test_fine_tuning_is_kept_only_where_it_helps():
    """Frauds are rare: what moves codevectors of the many towards them errs more than it gains."""
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(900, 6)), rng.normal(0.8, 2.0, size=(60, 6))])
    y = np.repeat([0, 1], [900, 60])
    options = {"rule": "nearest", "validation": 3, "random_state": 0}
    scores = {v: ODAClassifier(fine_tune=v, **options).fit(X, y).score(X, y) for v in (None, "glvq")}
    assert scores["glvq"] >= scores[None] - 0.01


def test_the_final_fit_does_not_contradict_its_validation():
    """A choice whose widths do not fit the final cells gives way to one that does."""
    from oda_rl.estimators.classification.annealing import ClassData, anneal
    from oda_rl.estimators.classification.fitting import confirm
    from oda_rl.estimators.classification.validation import Choice

    X, y = make_moons(400, noise=0.1, random_state=0)
    model = ODAClassifier(random_state=0)
    settings = model._settings(begin=True).annealing._replace(max_codevectors=40)
    data = ClassData(X, y, np.ones(400), 2, False)
    runs = anneal(data, settings, np.random.default_rng(0))
    told = Choice(10**9, 0.0, 1e6, (0.05,))
    choice, cells = confirm(data, runs, told, settings)
    joint = data.book(cells, choice.own, choice.factor).log_joint
    codevectors = np.concatenate([c.codevectors for c in cells])
    assert choice.factor < 5.0
    assert (joint(settings.divergence(X, codevectors)).argmax(axis=1) == y).mean() > 0.98


def test_final_cells_may_be_those_of_another_temperature(tmp_path):
    """Where what validation said of the last one does not hold, there are more cells, or fewer."""
    X, y = make_gaussian_classes(2000)
    X, _, y, _ = train_test_split(X, y, train_size=800, stratify=y, random_state=0)
    train, test = list(StratifiedKFold(5, shuffle=True, random_state=2).split(X, y))[2]
    model = ODAClassifier(random_state=2).fit(X[train], y[train])
    assert model.score(X[test], y[test]) > 0.85
    model.save(tmp_path / "model.npz")
    other = ODAClassifier.load(tmp_path / "model.npz")
    for one in (model, other):
        one.partial_fit(X[test], y[test])
    np.testing.assert_array_equal(model.predict_proba(X), other.predict_proba(X))


def test_a_stream_finds_how_wide_classes_are():
    for seed in range(2):
        X = np.random.default_rng(seed).uniform(size=(3000, 10))
        y = X[:, :5].sum(axis=1) > 2.5
        never, model = (ODAClassifier(forgetting=f, random_state=0) for f in (None, "adwin"))
        scores = [m.partial_fit(X[:2000], y[:2000]).score(X[2000:], y[2000:]) for m in (never, model)]
        assert scores[1] > scores[0] + 0.01
    again = reloaded(model).partial_fit(X[2000:2500], y[2000:2500])
    model.partial_fit(X[2000:2500], y[2000:2500])
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_widths_are_not_chosen_without_samples_of_a_rare_class():
    """A width that never predicts a class has the least loss on samples of the others."""
    rng = np.random.default_rng(1)
    y = (np.arange(10_000) % 1000 == 500).astype(int)
    X = rng.normal(size=(len(y), 4)) + 3.0 * np.outer(y, [1, 1, 0, 0])
    rare = rng.normal(size=(500, 4)) + np.array([3.0, 3.0, 0.0, 0.0])
    model = ODAClassifier(random_state=0).partial_fit(X, y)
    chunked = ODAClassifier(random_state=0)
    for start in range(0, len(X), 700):
        chunked.partial_fit(X[start : start + 700], y[start : start + 700], classes=[0, 1])
    np.testing.assert_array_equal(chunked.predict_proba(rare), model.predict_proba(rare))
    assert model.predict(rare).mean() > 0.5

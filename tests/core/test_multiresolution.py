"""Trees of cells: how they grow, what they tell, how they are stored."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_trees import TEMPLATES, made, problem
from model_files import reloaded
from sklearn.datasets import load_digits, load_iris
from sklearn.metrics import log_loss

from oda_rl import MultiResolutionODA, ODAClassifier, ODAPartition, ODARegressor
from oda_rl.estimators.tree import Layer
from oda_rl.estimators.tree.pruning import least_as_good


def nearest_leaf_by_hand(model, x):
    """Equation 37, written with the public tree: from the root to the nearest child."""
    tree, cell = model.tree_, model.tree_.path(model.tree_.leaves()[0])[0]
    while tree.children(cell):
        children = tree.children(cell)
        scaled = tree.features(cell.layer, x[None, :])
        location = tree.layers[cell.layer + 1].location
        distance = [((scaled[0] - location[:, child.number]) ** 2).sum() for child in children]
        cell = children[int(np.argmin(distance))]
    return cell


# -- growing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TEMPLATES)
def test_samples_go_to_the_nearest_child_layer_by_layer(name):
    X, y = problem(name)
    model = made(name, max_children=4).fit(X, y)
    leaves = model.tree_.leaves()
    found = model.apply(X[:60])
    assert [leaves[i] for i in found] == [nearest_leaf_by_hand(model, x) for x in X[:60]]


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_cells_of_a_layer_account_for_all_samples(name):
    X, y = problem(name)
    model = made(name).fit(X, y)
    assert model.weights_.sum() == pytest.approx(1.0)
    assert model.n_codevectors_ == len(model.codevectors_) == model.tree_.n_leaves
    means = [X[model.apply(X) == i].mean(axis=0) for i in range(model.n_codevectors_)]
    np.testing.assert_allclose(model.codevectors_, means)
    for above, below in zip(model.tree_.layers[:-1], model.tree_.layers[1:], strict=True):
        split = above.count > 0
        np.testing.assert_allclose(
            np.bincount(below.parent, below.mass, len(above))[split], above.mass[split]
        )


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("way", ["fit", "stream"])
def test_the_error_never_rises_when_a_cell_splits(name, way):
    X, y = problem(name, 600 if way == "fit" else 300)
    model = made(name, max_children=3)
    model = model.fit(X, y) if way == "fit" else model.partial_fit(X, y)
    assert len(model.history_) > 1
    if way == "stream":
        assert all(point.loss <= point.loss_before * (1 + 1e-9) for point in model.history_)
    tree = model.tree_
    for point in model.history_:  # a split of a fit may pay by those below it alone
        cell = tree.cell(point.path)
        below = sum(tree.layers[at].loss[number] for at, number in tree.leaves_below(cell))
        assert below <= tree.layers[cell.layer].loss[cell.number] * (1 + 1e-9)


@pytest.mark.parametrize("unit", [2.0**-190, 2.0**-30, 2.0**190])
def test_the_unit_of_the_data_does_not_matter(unit):
    X, _ = problem("clusterer")
    model, scaled = made("clusterer").fit(X), made("clusterer").fit(unit * X)
    np.testing.assert_array_equal(scaled.apply(unit * X), model.apply(X))
    np.testing.assert_array_equal(scaled.codevectors_, unit * model.codevectors_)


def test_a_split_that_helps_with_those_below_it_alone_is_kept():
    rng = np.random.default_rng(0)
    X = np.repeat([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]], 40, axis=0)
    X = X * [3.0, 1.0] + 0.1 * rng.normal(size=X.shape)  # the first split is along the first feature
    y = (X[:, 0] > 0) ^ (X[:, 1] > 0)
    template = ODAClassifier(rule="nearest", scale=None)
    two = MultiResolutionODA(template, layers=2, max_children=2, random_state=0).fit(X, y)
    assert two.score(X, y) == 1.0
    assert [point.loss for point in two.history_] == sorted(p.loss for p in two.history_)[::-1]
    one = MultiResolutionODA(template, layers=1, max_children=2, random_state=0).fit(X, y)
    assert one.n_codevectors_ == 1  # of no use


def test_noise_is_pruned_by_samples_left_out():
    rng = np.random.default_rng(0)
    X, noise = rng.uniform(-1.0, 1.0, (2000, 2)), rng.uniform(size=2000) < 0.3
    y = (X[:, 0] > 0) ^ noise
    pruned = MultiResolutionODA(ODAClassifier(), random_state=0).fit(X[:1000], y[:1000])
    assert [point.n_leaves for point in pruned.history_[-1:]] == [pruned.n_codevectors_]
    kept = MultiResolutionODA(ODAClassifier(), validation=None, random_state=0).fit(X[:1000], y[:1000])
    assert pruned.n_codevectors_ < 0.5 * kept.n_codevectors_
    assert pruned.score(X[1000:], y[1000:]) > 0.03 + kept.score(X[1000:], y[1000:])
    X = X[:600]
    signal = MultiResolutionODA(ODARegressor(), random_state=0)
    assert signal.fit(X, np.sin(3.0 * X[:, 0])).n_codevectors_ > 5
    assert signal.fit(X, rng.normal(size=600)).n_codevectors_ < 5


def test_noise_of_few_samples_is_pruned():
    """Predictions are those of the class frequencies, or of the mean, and given parts count."""
    rng = np.random.default_rng(100)
    X, y = rng.normal(size=(90, 5)), (rng.uniform(size=90) < 0.3).astype(int)
    for validation in ("auto", 2):
        tree = MultiResolutionODA(ODAClassifier(), validation=validation, random_state=0).fit(X, y)
        assert tree.n_codevectors_ == 1
    output = rng.normal(size=80)
    assert MultiResolutionODA(ODARegressor(), random_state=0).fit(X[:80], output).n_codevectors_ == 1
    few = MultiResolutionODA(ODAClassifier(), random_state=0).fit(X[:39], y[:39])
    assert few.n_codevectors_ > 1  # too few to judge splits


def test_probabilities_of_regions_are_drawn_towards_those_above():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 2))
    y = (X[:, 0] * X[:, 1] + 0.7 * rng.normal(size=900) > 0.0).astype(int)
    own = ODAClassifier()
    model = MultiResolutionODA(own, max_children=2, random_state=0).fit(X[:250], y[:250])
    tree, s = model.tree_, model._session.task.smoothing
    model._session.task.power = power = 0.7
    assert s >= 15.0  # few samples cannot show that less would do
    assert model.n_layers_ > 1
    z, at = tree.features(0, X[600:]), np.zeros(300, dtype=int)
    votes = np.bincount(y[:250]) * (1.0 + 0.5 / 250)
    expected = np.tile(votes / votes.sum(), (300, 1))
    for region, cells in itertools.pairwise(tree.layers):
        for t, place in enumerate(at):
            if place < 0 or region.count[place] == 0:
                at[t] = -1
                continue
            own = slice(region.first[place], region.first[place] + region.count[place])
            distance = ((z[t] - cells.location[:, own].T) ** 2).sum(axis=1)
            density = cells.share[own] * np.exp(-distance / region.width[place])
            p = np.bincount(cells.own[own], density, 2) ** power
            share = region.mass[place] / (region.mass[place] + s)
            expected[t] += share * (p / p.sum() - expected[t])
            at[t] = own.start + distance.argmin()
    np.testing.assert_allclose(model.predict_proba(X[600:]), expected, atol=1e-9)
    nearest = MultiResolutionODA(ODAClassifier(rule="nearest"), random_state=0).fit(X, y)
    np.testing.assert_array_equal(nearest.predict(X), nearest.codevector_labels_[nearest.apply(X)])


def test_more_layers_make_the_training_error_smaller():
    X, y = problem("constant", 1000)
    scores = [made("constant", layers=n, max_children=4).fit(X, y).score(X, y) for n in (1, 2, 3)]
    assert scores[0] < scores[1] < scores[2]
    assert scores[2] > 0.95


def test_branches_grow_where_the_errors_are():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (1500, 2))
    y = np.where(X[:, 0] < 0.5, 0.0, np.sin(40.0 * X[:, 0]))
    model = made("constant", max_children=3, layers=4, max_leaves=30).fit(X, y)
    assert (model.codevectors_[:, 0] > 0.5).mean() > 0.7


def test_cells_of_one_class_are_not_split():
    X, y = problem("nearest")
    model = made("nearest", min_support=2, layers=4).fit(X, y)
    for above, below in zip(model.tree_.layers[:-1], model.tree_.layers[1:], strict=True):
        for number in np.flatnonzero(above.count > 0):
            assert above.tally[number].min() > 0.0
            children = below.label[below.parent == number]
            assert len(np.unique(children)) > 1


def test_limits_of_layers_are_kept():
    X, _ = problem("clusterer", 2000)
    layers = [Layer(max_codevectors=3), {"max_codevectors": 5, "min_support": 400}]
    model = made("clusterer", layers=layers, min_support=2).fit(X)
    first, second = model.tree_.layers[0], model.tree_.layers[1]
    assert first.count[0] == 3
    assert second.count.max() <= 5
    assert (second.support[second.count > 0] >= 400).all()
    assert made("clusterer", max_leaves=7).fit(X).n_codevectors_ <= 7
    warm = made("clusterer", layers=[{"t_min": 1e9}]).fit(X)
    assert warm.n_codevectors_ == 1
    few = made("clusterer", layers=[{"max_samples": 500}]).fit(X)
    assert few.n_presented_ <= 500
    coarse = made("clusterer", min_improvement=0.9).fit(X)
    assert coarse.n_codevectors_ < made("clusterer").fit(X).n_codevectors_


@pytest.mark.parametrize("name", TEMPLATES)
def test_any_number_of_threads_gives_the_same_tree(name):
    X, y = problem(name)
    one, two = (made(name, layers=2, n_jobs=n).fit(X, y) for n in (1, 2))
    assert two.n_codevectors_ > 16  # of several cells, each of which may have a thread
    np.testing.assert_array_equal(one.codevectors_, two.codevectors_)
    np.testing.assert_array_equal(one.predict(X), two.predict(X))


def test_each_layer_reads_its_own_resolution():
    X, y = problem("nearest", 1500)
    seen = []

    def first_only(samples):
        seen.append(samples.shape)
        return samples[:, :1]

    model = made("nearest", layers=2, resolutions=[first_only, None]).fit(X, y)
    assert model.tree_.layers[1].location.shape[0] == 1
    assert model.tree_.layers[2].location.shape[0] == 2
    assert seen
    moved = X.copy()
    moved[:, 1] += 100.0
    scaled = model.tree_.features(0, X), model.tree_.features(0, moved)
    np.testing.assert_array_equal(*scaled)
    assert model.score(X, y) > made("nearest", layers=1, resolutions=[[0]]).fit(X, y).score(X, y)


def test_a_tree_is_level_with_the_flat_classifier_on_digits():
    X, y = load_digits(return_X_y=True)
    model = MultiResolutionODA(
        ODAClassifier(), layers=2, max_children=20, resolutions=[16, None], random_state=0
    ).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.92


@settings(max_examples=15, deadline=None)
@given(st.integers(2, 40), st.integers(1, 4), st.integers(0, 10**6))
def test_any_data_give_a_tree(n, d, seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, (n, d)).astype(float)
    y = rng.integers(0, 3, n)
    for name in ("clusterer", "nearest", "constant"):
        model = made(name, min_support=1).fit(X, y)
        assert 1 <= model.n_codevectors_ <= n
        assert len(model.predict(X)) == n


# -- refining ------------------------------------------------------------------------------------


def test_refining_lowers_the_error_of_one_region_only():
    X, y = problem("constant", 1500)
    model = made("constant", layers=1, max_children=4).fit(X, y)
    before, at = model.predict(X), model.apply(X)
    told = model.refine("0.2", X, y, target_error=0.001)
    inside = at == 2
    assert told.error <= 0.001 < told.error_before
    assert told.error == pytest.approx(np.mean((model.predict(X)[inside] - y[inside]) ** 2))
    assert model.n_codevectors_ == 4 + told.n_leaves_gained
    np.testing.assert_array_equal(model.predict(X)[~inside], before[~inside])


def test_refining_the_root_tells_nearly_all_samples_right():
    X, y = problem("nearest", 400)
    model = made("nearest", layers=1, max_children=4, validation=None).fit(X, y)
    told = model.refine("0", X, y)
    assert told.error <= 0.01
    assert model.score(X, y) == pytest.approx(1.0 - told.error)


def noisy_waves(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    return X, np.sin(9.0 * X[:, 0]) * np.cos(7.0 * X[:, 1]) + 0.3 * rng.normal(size=n)


def names_of_samples(model, X):
    leaves = model.tree_.leaves()
    return [model.tree_.name(leaves[k]) for k in model.apply(X)]


@pytest.mark.parametrize("stream", [False, True])
def test_refining_does_not_learn_noise(stream):
    X, y = noisy_waves(800, 102)
    given, left_out = (X[:300], y[:300]), (X[300:], y[300:])
    own = MultiResolutionODA(ODARegressor(), layers=2, max_children=4, resolutions=[None])
    own.set_params(forgetting=None, random_state=0)
    model = own.partial_fit(*given) if stream else own.fit(*given)
    n_leaves, n_splits, before = model.n_codevectors_, len(model.history_), model.score(*left_out)
    told = model.refine("0", *given, max_splits=20)
    assert model.score(*left_out) > before
    assert model.n_codevectors_ == n_leaves + told.n_leaves_gained < 100
    assert len(model.history_) == n_splits + told.n_splits
    assert model.history_[-1].n_leaves == model.n_codevectors_
    known = {model.tree_.name(model.tree_.cell(point.path)) for point in model.history_}
    inner = {name.rpartition(".")[0] for name in map(model.tree_.name, model.tree_.leaves())}
    assert inner <= known
    if not stream:  # there, a split leaf forgets the samples that its candidate did not keep
        assert told.error == pytest.approx(np.mean((model.predict(given[0]) - given[1]) ** 2))
    np.testing.assert_array_equal(reloaded(model).predict(left_out[0]), model.predict(left_out[0]))
    model.partial_fit(*left_out)
    assert model.tree_.layers[0].mass.sum() == pytest.approx(len(X))


def test_refining_without_validation_goes_on_to_the_error_asked_for():
    X, y = noisy_waves(120, 101)
    own = MultiResolutionODA(ODARegressor(), layers=1, max_children=4, validation=None)
    assert own.set_params(random_state=0).fit(X, y).refine("0", X, y, target_error=0.01).error <= 0.01


def test_refining_a_region_keeps_the_splits_before_it():
    X, y = noisy_waves(300, 102)
    model = MultiResolutionODA(ODARegressor(), layers=2, max_children=3, validation=None)
    before = names_of_samples(model.set_params(resolutions=[None], random_state=0).fit(X, y), X)
    model._session.settings = model._session.settings._replace(validation=3)
    for name in ("0.2", "0.0"):
        model.refine(name, X, y, max_splits=10)
    for old, new in zip(before, names_of_samples(model, X), strict=True):
        assert new == old or (old[:3] in ("0.0", "0.2") and new.startswith(old))


def test_refining_needs_a_cell_and_samples_in_it():
    X, y = problem("nearest", 400)
    model = made("nearest", layers=1, max_children=4).fit(X, y)
    with pytest.raises(ValueError, match=r"no cell '0\.9'"):
        model.refine("0.9", X, y)
    with pytest.raises(ValueError, match="a name such as"):
        model.refine("root", X, y)
    with pytest.raises(ValueError, match="a name such as"):
        model.refine(0, X, y)
    outside = X[model.apply(X) != 1]
    with pytest.raises(ValueError, match=r"no sample in the cell '0\.1'"):
        model.refine("0.1", outside, y[model.apply(X) != 1])
    with pytest.raises(ValueError, match=r"known classes .* got 7"):
        model.refine("0", X, np.full(len(X), 7))


# -- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": 0}, "layers must be at least 1"),
        ({"layers": 1001}, "layers must be at most 1000"),
        ({"layers": []}, "layers must be a number of layers or a list"),
        ({"layers": [{"depth": 3}]}, "layers must be dicts with the keys"),
        ({"layers": [{"t_min": -1.0}]}, "t_min"),
        ({"layers": 1, "resolutions": [1, None]}, "at most 1 items"),
        ({"resolutions": "pca"}, "resolutions must be None or a list"),
        ({"resolutions": [object()]}, "resolution 0 must be"),
        ({"estimator": ODAClassifier(mode="lvq")}, "mode must be left at 'conditional'"),
        ({"estimator": ODAClassifier(reject=0.1)}, "reject must be left at None"),
        ({"estimator": ODAPartition(bifurcation="perturb")}, "bifurcation must be left"),
        ({"estimator": ODARegressor(local_model="cubic")}, "local_model"),
    ],
)
def test_bad_parameters_are_named(options, message):
    X, y = problem("nearest", 60)
    with pytest.raises(ValueError, match=message):
        MultiResolutionODA(**{"estimator": ODAClassifier(), **options}).fit(X, y)


def test_other_estimators_are_refused():
    with pytest.raises(TypeError, match="ODAPartition, ODAClassifier, ODARegressor"):
        MultiResolutionODA(object()).fit([[0.0], [1.0]])


def test_negative_data_for_kl_are_refused():
    with pytest.raises(ValueError, match="outside the domain"):
        MultiResolutionODA(ODAPartition(divergence="kl")).fit([[1.0], [-1.0]])


def test_training_twice_gives_the_same_tree_and_leaves_the_data_alone():
    X, y = problem("bayes", 500)
    kept = X.copy()
    X.flags.writeable = False
    trees = [made("bayes").fit(X, y).codevectors_ for _ in range(2)]
    np.testing.assert_array_equal(*trees)
    np.testing.assert_array_equal(X, kept)


def test_leaves_as_features():
    X, y = load_iris(return_X_y=True)
    model = MultiResolutionODA(ODAClassifier(), random_state=0).set_output(transform="pandas")
    found = model.fit_transform(X, y)
    assert list(found.columns) == list(model.get_feature_names_out())
    np.testing.assert_array_equal(found.to_numpy().argmax(axis=1), model.apply(X))
    np.testing.assert_array_equal(found.to_numpy().sum(axis=1), np.ones(len(X)))


def test_probabilities_are_smoothed_no_more_than_samples_left_out_tell():
    rng = np.random.default_rng(100)
    best = rng.uniform(size=200)
    noise = 0.1 * rng.standard_normal(200)
    noise -= noise.mean()
    error = noise.std() / np.sqrt(200)  # of the mean difference
    as_good, worse = best + noise + 0.9 * error, best + noise + 1.1 * error
    assert least_as_good(np.stack([as_good, best])) == 0
    assert least_as_good(np.stack([worse, best])) == 1
    assert least_as_good(np.stack([worse, as_good, best])) == 1
    assert least_as_good(np.stack([best, best])) == 0


def _judged(seed, X, y, n):
    """A tree of classes grown from `n` samples, and its accuracy and log loss on the others."""
    tree = MultiResolutionODA(ODAClassifier(), resolutions=[None], random_state=seed).fit(X[:n], y[:n])
    return tree, tree.score(X[n:], y[n:]), log_loss(y[n:], tree.predict_proba(X[n:]))


def test_regions_have_fewer_codevectors_if_more_only_learn_noise():
    """A line between two classes, with 30 % of the labels wrong: 8 codevectors had .57 and .88."""
    rng = np.random.default_rng(100)
    X = rng.normal(size=(3000, 10))
    y = ((X[:, 0] + X[:, 1] > 0.0) ^ (rng.uniform(size=3000) < 0.3)).astype(int)
    tree, accuracy, loss = _judged(100, X, y, 1000)
    assert accuracy > 0.64
    assert loss < 0.66
    assert tree.history_[0].n_children <= 4
    with_one = MultiResolutionODA(ODAClassifier(), layers=[{"max_codevectors": 1}], random_state=0)
    assert with_one.fit(X, y).n_codevectors_ == 2  # limits that are given are not exceeded


def test_features_that_repeat_each_other_do_not_make_a_tree_too_sure():
    rng = np.random.default_rng(100)
    y = rng.integers(0, 3, 1600)
    X = np.tile(rng.normal(size=(1600, 2)) + y[:, None], (1, 20))
    tree, accuracy, loss = _judged(100, X, y, 600)
    assert accuracy > 0.66
    assert loss < 0.75
    assert tree._session.task.power < 1.0
    np.testing.assert_array_equal(reloaded(tree).predict_proba(X), tree.predict_proba(X))


def test_samples_left_out_do_not_determine_scales_of_many_features():
    """They then seemed to be classified without errors."""
    rng = np.random.default_rng(100)
    X = rng.normal(size=(400, 150))
    assert _judged(100, X, (X @ rng.normal(size=150) > 0.0).astype(int), 100)[2] < np.log(2.0)

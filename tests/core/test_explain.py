"""Reading models: text, rules, tables, the way of a sample, pictures."""

import csv
import json

import matplotlib
import numpy as np
import pytest
from model_files import reloaded
from sklearn.datasets import load_iris, make_friedman1
from sklearn.exceptions import NotFittedError

from oda_rl import KernelSGDRegressor, MultiResolutionODA, ODAClassifier, ODAPartition, ODARegressor
from oda_rl.explain import (
    errors,
    explain,
    plot_path,
    plot_tree,
    report,
    rules,
    rules_text,
    table,
    tree_text,
)
from oda_rl.inspect.model import view_of
from oda_rl.inspect.table import counted
from oda_rl.resolutions import EffectMap

matplotlib.use("Agg")
IRIS = load_iris()
NAMES = ["sepal length", "sepal width", "petal length", "petal width"]


@pytest.fixture(scope="module")
def classifier():
    template = ODAClassifier(rule="nearest")
    return MultiResolutionODA(template, max_children=3, random_state=0).fit(IRIS.data, IRIS.target)


@pytest.fixture(scope="module")
def regressor():
    X = np.random.default_rng(0).uniform(0.0, 1.0, (400, 2))
    model = MultiResolutionODA(ODARegressor(), layers=2, max_children=3, random_state=0)
    return model.fit(X, np.sin(6.0 * X[:, 0])), X


@pytest.fixture(scope="module")
def clusterer():
    return MultiResolutionODA(ODAPartition(), layers=2, max_children=3, random_state=0).fit(IRIS.data)


def follow(rule, x):
    """The leaf that nested rules lead to, by the codevectors' inequalities alone."""
    while "children" in rule:
        inside = [
            child
            for child in rule["children"]
            if all(
                sum(c * x[NAMES.index(name)] for name, c in one["coefficients"].items()) < one["bound"]
                for one in child["conditions"]
            )
        ]
        assert len(inside) == 1
        rule = inside[0]
    return rule


def test_reports_add_up(classifier):
    cells = {one.name: one for one in report(classifier)}
    root = cells["0"]
    assert root.n_samples == 150
    assert root.error == pytest.approx(1.0 - classifier.score(IRIS.data, IRIS.target))
    np.testing.assert_allclose(root.codevector, IRIS.data.mean(axis=0))
    for name, one in cells.items():
        children = [cells[f"{name}.{i}"] for i in range(one.n_children)]
        if children:
            assert sum(child.n_samples for child in children) == one.n_samples
            assert sum(child.share_of_error for child in children) == pytest.approx(one.share_of_error)


def test_errors_are_where_samples_are_told_wrong(classifier):
    wrong = classifier.predict(IRIS.data) != IRIS.target
    leaves = [one.name for one in report(classifier) if one.n_children == 0]
    found = errors(classifier, n=None)
    assert sum(one.error * one.n_samples for one in found) == pytest.approx(wrong.sum())
    assert {one.name for one in found} <= set(leaves)
    assert [one.share_of_error for one in found] == sorted(
        (o.share_of_error for o in found), reverse=True
    )
    again = errors(classifier, IRIS.data, IRIS.target, n=None)
    assert {one.name: one.error for one in again} == pytest.approx(
        {one.name: one.error for one in found}
    )
    with pytest.raises(ValueError, match="y must be given"):
        errors(classifier, IRIS.data)


def test_errors_of_a_regressor_are_in_squared_units_of_y(regressor):
    model, X = regressor
    y = np.sin(6.0 * X[:, 0])
    assert report(model)[0].error == pytest.approx(np.mean((model.predict(X) - y) ** 2), rel=1e-6)


def test_errors_of_a_partition_are_divergences(clusterer):
    assert report(clusterer)[0].error == pytest.approx(-clusterer.score(IRIS.data))
    worst = errors(clusterer, IRIS.data, n=3)
    assert len(worst) == 3
    assert worst[0].share_of_error >= worst[2].share_of_error > 0.0


def test_the_way_of_a_sample_leads_to_its_leaf(classifier):
    leaves = classifier.tree_.leaves()
    for i in (0, 60, 77, 120):
        x = IRIS.data[i]
        why = explain(classifier, x, NAMES)
        assert why.prediction == classifier.predict(x[None, :])[0] == why.steps[-1].decision
        leaf = leaves[classifier.apply(x[None, :])[0]]
        assert why.steps[-1].name == ".".join(map(str, (0, *classifier.tree_.numbers(leaf))))
        for before, after in zip(why.steps[:-1], why.steps[1:], strict=True):
            assert after.name.rpartition(".")[0] == before.name
            assert after.margin >= 0.0
            assert after.n_samples <= before.n_samples
            assert after.probabilities.sum() == pytest.approx(1.0)
        text = str(why)
        assert "petal width" in text
        assert text.endswith(f"prediction: {why.prediction}")


def test_explanations_of_outputs_and_partitions(regressor, clusterer):
    model, X = regressor
    why = explain(model, X[3])
    assert why.prediction == pytest.approx(model.predict(X[3:4])[0])
    assert isinstance(why.steps[-1].decision, float)
    cluster = explain(clusterer, IRIS.data[5])
    assert cluster.steps[-1].decision is None
    assert cluster.prediction == clusterer.predict(IRIS.data[5:6])[0]


def test_counterfactuals_change_the_prediction_as_they_are_printed(classifier, clusterer):
    n_changes = 0
    for model in (classifier, clusterer):
        for x in IRIS.data[[20, 77, 110]]:
            why = explain(model, x, NAMES, counterfactuals=True)
            for change in why.counterfactuals:
                there, before = x.copy(), x.copy()
                there[NAMES.index(change.feature)] += change.rounded
                before[NAMES.index(change.feature)] += 0.999 * change.change
                assert model.predict(there[None])[0] == change.decision != why.prediction
                assert model.predict(before[None])[0] == why.prediction
                assert f"{change.feature} {change.rounded:+.15g} would" in str(why)
                n_changes += 1
    assert n_changes > 10
    assert explain(classifier, IRIS.data[77]).counterfactuals == ()


@pytest.mark.parametrize("divergence", ["kl", "itakura_saito"])
def test_counterfactuals_and_pictures_of_trees_stay_inside_the_domain(divergence):
    X = np.random.default_rng(0).gamma(1.0, size=(300, 3)) * [1.0, 2.0, 0.1]
    X = np.maximum(X, 1e-3)
    y = (X[:, 0] > 1.0).astype(int)
    for template, targets in (
        (ODAClassifier(divergence=divergence), y),
        (ODAPartition(divergence=divergence), None),
    ):
        model = MultiResolutionODA(template, random_state=0).fit(X, targets)
        changes = [one for x in X[:8] for one in explain(model, x, counterfactuals=True).counterfactuals]
        assert len(changes) > 4
        low, high = view_of(model).limits()
        model.predict(np.vstack([low, high]))  # raises an error outside the domain


def test_rules_lead_where_the_model_does(classifier):
    nested = rules(classifier, NAMES)
    json.dumps(nested)
    told = [follow(nested, x)["decision"] for x in IRIS.data]
    np.testing.assert_array_equal(told, classifier.predict(IRIS.data))


def test_texts_name_every_cell(classifier):
    names = [one.name for one in report(classifier)]
    lines = tree_text(classifier, NAMES).splitlines()
    assert [line.strip().partition(":")[0] for line in lines] == names
    assert len(tree_text(classifier, depth=1).splitlines()) == 1 + classifier.tree_.layers[0].count[0]
    n_leaves = sum(one.n_children == 0 for one in report(classifier))
    assert rules_text(classifier, NAMES).count(", error ") == n_leaves


def test_a_single_feature_gives_intervals():
    X = np.array([[0.0], [1.0], [10.0], [11.0], [20.0], [21.0]] * 20)
    model = MultiResolutionODA(ODAClassifier(rule="nearest"), random_state=0).fit(X, X[:, 0] // 10)
    text = rules_text(model, ["width"])
    assert "width < 5.5" in text
    assert "5.5 <= width < 15.5" in text
    assert "15.5 <= width" in text


def test_resolutions_without_a_way_back_have_no_inequalities():
    model = MultiResolutionODA(ODAClassifier(), layers=1, resolutions=[np.abs], random_state=0)
    nested = rules(model.fit(IRIS.data, IRIS.target))
    assert all("conditions" not in child for child in nested["children"])


def test_tables_have_a_row_for_each_codevector(classifier, tmp_path):
    columns = table(classifier, NAMES)
    order = np.lexsort(columns["petal length"][None])
    mine = np.column_stack([columns[name] for name in NAMES])[order]
    theirs = classifier.codevectors_[np.lexsort(classifier.codevectors_[:, 2][None])]
    np.testing.assert_allclose(mine, theirs)
    assert sum(columns["weight"]) == pytest.approx(1.0)
    with open(table(classifier, NAMES, all_cells=True).to_csv(tmp_path / "new" / "tree.csv")) as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(report(classifier))
    assert rows[0]["cell"] == "0"
    assert float(rows[0]["petal width"]) == pytest.approx(IRIS.data[:, 3].mean())


def test_tables_of_flat_codebooks(tmp_path):
    flat = ODAClassifier(random_state=0).fit(IRIS.data, IRIS.target)
    columns = table(flat, NAMES)
    np.testing.assert_array_equal(columns["label"], flat.codevector_labels_)
    np.testing.assert_array_equal(columns["petal width"], flat.codevectors_[:, 3])
    line = ODARegressor(4, random_state=0).fit(IRIS.data[:, :1], IRIS.data[:, 1])
    np.testing.assert_array_equal(table(line)["value"], line.predict(line.codevectors_))


def test_a_table_as_a_data_frame(regressor):
    pytest.importorskip("pandas")
    frame = table(regressor[0], ["a", "b"]).to_pandas("cell")
    assert frame.index.name == "cell"
    assert {"weight", "value", "a", "b"} <= set(frame.columns)


def test_wrong_names_and_samples_are_refused(classifier):
    with pytest.raises(ValueError, match="feature_names must have 4 names, got 1"):
        tree_text(classifier, ["only"])
    with pytest.raises(ValueError, match="one sample"):
        explain(classifier, IRIS.data)
    with pytest.raises(ValueError, match=r"no cell '0\.7'"):
        report(classifier, "0.7")
    with pytest.raises(ValueError, match="image_shape must have 4 pixels"):
        plot_path(classifier, IRIS.data[0], image_shape=(3, 3))


@pytest.mark.parametrize("read", [tree_text, rules, rules_text, report, errors, plot_tree])
def test_only_a_fitted_tree_is_read_as_one(read):
    flat = ODAPartition(3, random_state=0).fit(IRIS.data)
    with pytest.raises(ValueError, match="must be a MultiResolutionODA, got ODAPartition"):
        read(flat)
    with pytest.raises(NotFittedError):
        read(MultiResolutionODA(ODAPartition()))


@pytest.mark.parametrize("read", [explain, plot_path])
def test_only_a_tree_has_a_way_from_its_root(read):
    flat = ODAPartition(3, random_state=0).fit(IRIS.data)
    with pytest.raises(ValueError, match="must be a MultiResolutionODA, got ODAPartition"):
        read(flat, IRIS.data[0])


def test_pictures_show_every_cell(classifier, regressor, clusterer):
    from matplotlib import pyplot as plt

    for model in (classifier, regressor[0], clusterer):
        ax = plot_tree(model)
        dots = max(len(c.get_offsets()) for c in ax.collections)
        assert dots == len(report(model))
        assert f"{model.n_codevectors_} leaves" in ax.get_title(loc="left")
    path = plot_path(classifier, IRIS.data[0], NAMES)
    assert len(path.get_yticklabels()) == 4
    image = plot_path(classifier, IRIS.data[0], image_shape=(2, 2))
    assert len(image.get_images()) == 1 + len(explain(classifier, IRIS.data[0]).steps)
    plt.close("all")


def test_every_class_of_a_tree_has_a_colour_of_its_own():
    from matplotlib import pyplot as plt

    X = np.repeat(np.arange(26.0), 5)[:, None]
    ax = plot_tree(MultiResolutionODA(ODAClassifier(), layers=1, random_state=0).fit(X, X[:, 0]))
    legend = ax.get_legend()
    assert len(legend.get_texts()) == 26
    assert len({tuple(dot.get_facecolor()[0]) for dot in legend.legend_handles}) == 26
    plt.close("all")


def test_one_of_something_is_told_as_one():
    assert [counted(n, "cell") for n in (0, 1, 1_200)] == ["0 cells", "1 cell", "1,200 cells"]


def test_values_in_tables_are_predictions_that_can_be():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    model = ODARegressor(6, random_state=0).fit(x, x**2)  # cells that overlap: each alone is far out
    columns = table(model)
    found = np.stack([columns["value[0]"], columns["value[1]"]], axis=1)
    np.testing.assert_array_equal(found, model.predict(model.codevectors_))
    assert -1.0 < found.min() < found.max() < 15.0


def test_models_of_data_frames_are_read_without_warnings(recwarn):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(IRIS.data, columns=NAMES)
    kinds = (ODAClassifier(4, random_state=0), IRIS.target), (ODARegressor(4), IRIS.data[:, 0])
    for own, y in kinds:
        for model in (
            own.fit(frame, y),
            MultiResolutionODA(own, layers=1, random_state=0).fit(frame, y),
        ):
            points = frame.to_numpy()[:5]
            assert "petal width" in list(table(model))
            assert np.isfinite(view_of(model).values(points)).all()
        explain(model, frame.iloc[0], counterfactuals=True)
        errors(model, frame, y)
    assert not [str(one.message) for one in recwarn if "feature names" in str(one.message)]


def test_a_way_through_many_features_shows_those_furthest_off():
    from matplotlib import pyplot as plt

    x = np.random.default_rng(0).normal(size=(60, 100))
    x[:30, 7] += 40.0
    model = MultiResolutionODA(ODAClassifier(), layers=1, random_state=0).fit(x, np.arange(60) < 30)
    ax = plot_path(model, x[0])
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert len(labels) == 30
    assert any(label.startswith("x[7] = ") for label in labels)
    assert ax.get_title(loc="left") == "30 of 100 features"
    plt.close("all")


def test_a_single_cell_is_told_as_one():
    from matplotlib import pyplot as plt

    model = MultiResolutionODA(ODAClassifier(), random_state=0).fit(IRIS.data[:1], ["only"])
    assert str(table(model)).startswith("MultiResolutionODA: 1 cell\n")
    assert str(table(ODAPartition(1).fit(IRIS.data))).startswith("ODAPartition: 1 cell\n")
    assert tree_text(model).startswith("0: 1 sample (100.0 %)")
    assert plot_tree(model).get_title(loc="left") == "1 leaf, error 0"
    plt.close("all")


def test_what_has_no_cells_has_no_table():
    with pytest.raises(TypeError, match="must be an estimator with cells, got KernelSGDRegressor"):
        table(KernelSGDRegressor())


def _drawn(local_model, seed=0, **options):
    """A tree whose outputs are drawn towards the regions above, and its samples."""
    X, y = make_friedman1(360, n_features=6, random_state=seed, noise=1.0)
    model = MultiResolutionODA(ODARegressor(local_model=local_model), random_state=0, **options)
    return model.fit(X, y), X, y


def _squares(model, X, y):
    return (model.predict(X) - y) ** 2


@pytest.mark.parametrize(
    ("local_model", "resolutions"),
    [("constant", [None]), ("linear", [None]), ("linear", [2, None])],
)
def test_tables_of_drawn_trees_tell_what_is_predicted(local_model, resolutions):
    model, X, y = _drawn(local_model, resolutions=resolutions, layers=2)
    assert model._session.task.smoothing > 0.0
    columns = table(model)
    np.testing.assert_allclose(columns["value"], model.predict(model.codevectors_))
    np.testing.assert_allclose(columns["value"], model.values_)
    assert report(model)[0].error == pytest.approx(_squares(model, X, y).mean())
    found, again = errors(model, n=None), errors(model, X, y, n=None)
    assert [one.name for one in found] == [one.name for one in again]
    assert [one.error for one in found] == pytest.approx([one.error for one in again])
    assert errors(reloaded(model))[0].error == found[0].error
    told = model.refine("0", X, y, max_splits=2)
    assert told.n_splits <= 2
    assert told.error_before == pytest.approx(sum(one.error * one.weight for one in found))
    assert told.error == pytest.approx(_squares(model, X, y).mean())
    assert report(model)[0].error == pytest.approx(_squares(model, X, y).mean())


def test_the_errors_of_drawn_trees_go_on_with_a_stream():
    X, y = make_friedman1(360, n_features=6, random_state=0, noise=1.0)
    own = ODARegressor(local_model="constant")
    model = MultiResolutionODA(own, layers=1, resolutions=[None], forgetting=None, random_state=0)
    model.fit(X[:330], y[:330]).partial_fit(X[330:], y[330:])
    assert model._session.task.smoothing > 0.0
    assert report(model)[0].error == pytest.approx(_squares(model, X, y).mean())


def test_cells_of_ways_have_the_values_of_their_samples():
    model, X, _ = _drawn("constant", resolutions=[EffectMap()], layers=2)
    outside = model.apply(model.codevectors_) != np.arange(model.n_codevectors_)
    assert outside.any()
    np.testing.assert_allclose(model.view().labels[model.apply(X)], model.predict(X))
    why = explain(model, X[np.flatnonzero(outside[model.apply(X)])[0]])
    assert why.steps[-1].decision == pytest.approx(why.prediction)


def test_errors_of_drawn_classes_are_those_of_predictions():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 2))
    y = (X[:, 0] + 0.8 * rng.normal(size=200) > 0.0).astype(int)
    model = MultiResolutionODA(ODAClassifier(), validation=None, random_state=0).fit(X, y)
    drawn = MultiResolutionODA(ODAClassifier(), random_state=0).fit(X, y)
    assert (model.predict(X) != drawn.predict(X)).any()
    for one in (model, drawn):
        assert report(one)[0].error == pytest.approx(1.0 - one.score(X, y))
        found, again = (errors(one, *given, n=None) for given in ((), (X, y)))
        assert [leaf.name for leaf in found] == [leaf.name for leaf in again]


def test_errors_take_the_targets_that_fit_takes(classifier):
    model, X, y = _drawn("constant", resolutions=[None], layers=1)
    for own, samples, given in ((model, X, y), (classifier, IRIS.data, IRIS.target)):
        names = [one.name for one in errors(own, samples, given)]
        assert [one.name for one in errors(own, samples, given[:, None])] == names
        for wrong in (given[:-1], given[:, None, None], np.stack([given, given], axis=1)):
            with pytest.raises(ValueError, match="y must have shape"):
                errors(own, samples, wrong)
    with pytest.raises(ValueError, match="y must have only the known classes"):
        errors(classifier, IRIS.data, np.full(150, 7))
    with pytest.raises(ValueError, match="y contains NaN"):
        errors(model, X, np.full(len(X), np.nan))
    for n in (-1, 0, 1.5, True):
        with pytest.raises(ValueError, match="n must be"):
            errors(model, n=n)

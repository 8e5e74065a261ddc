import sys
from collections import namedtuple
from dataclasses import replace

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from matplotlib import pyplot as plt  # noqa: E402
from matplotlib.collections import PolyCollection  # noqa: E402
from matplotlib.contour import ContourSet  # noqa: E402
from matplotlib.path import Path  # noqa: E402
from PIL import Image  # noqa: E402
from sklearn.exceptions import NotFittedError  # noqa: E402

from oda_rl import MultiResolutionODA, ODAClassifier, ODAPartition, ODARegressor  # noqa: E402
from oda_rl.explain import plot_path, plot_tree  # noqa: E402
from oda_rl.plotting import (  # noqa: E402
    View,
    animate_codebook,
    plot_annealing,
    plot_codebook,
    plot_learning_curve,
    plot_partition,
    plot_policy_map,
    plot_value_map,
)
from oda_rl.quantization import StochasticVQ  # noqa: E402


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def view_at(points, **others):
    """A view with codevectors at these points (n, d), without labels unless they are given."""
    n, d = np.shape(points)
    common = {"weights": np.ones(n), "labels": None, "label_names": []}
    common |= {"feature_names": list("abcd"[:d])}
    ends = {"low": np.full(d, -np.inf), "high": np.full(d, np.inf)}
    return View(codevectors=np.asarray(points, dtype=float), **ends, **common | others)


def test_codebook_draws_every_codevector_in_its_colour_and_place():
    codevectors = np.random.default_rng(0).normal(size=(20, 3))
    view = view_at(codevectors, labels=np.arange(20) % 2, label_names=["left", "right"])
    ax = plot_codebook(view, dimensions=(2, 0))
    np.testing.assert_array_equal(ax.collections[0].get_offsets(), codevectors[:, [2, 0]])
    first, second = ax.collections[0].get_facecolors()[:2]
    assert not np.array_equal(first, second)
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["left", "right"]
    for handle, colour in zip(ax.get_legend().legend_handles, (first, second), strict=True):
        np.testing.assert_array_equal(handle.get_facecolor()[0], colour)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("c", "a")


def test_codebooks_of_all_kinds_of_estimators(partition, classifier, data):
    X, _ = data
    ax = plot_codebook(partition)
    np.testing.assert_array_equal(ax.collections[0].get_offsets(), partition.codevectors_)
    assert ax.get_legend() is None
    ax = plot_codebook(classifier, label_names=["1", "2"], feature_names=["p", "q"])
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["1", "2"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("p", "q")
    model = ODARegressor(6, random_state=0).fit(X, X[:, 0])
    ax = plot_codebook(model)
    np.testing.assert_array_equal(ax.collections[0].get_array(), model.predict(model.codevectors_))
    assert ax.figure.axes[-1].get_ylabel() == "prediction at the codevector"


def test_a_view_without_codevectors_has_no_codebook():
    with pytest.raises(ValueError, match="View has no codevectors to plot"):
        plot_codebook(view_at(np.empty((0, 2))))


def test_without_matplotlib_what_to_install_is_named(partition, data, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    draw = (
        lambda: plot_partition(partition),
        lambda: plot_annealing(partition),
        lambda: plot_codebook(partition),
        lambda: plot_learning_curve([1, 2], [0.0, 1.0]),
        lambda: animate_codebook(partition, tmp_path / "cells.gif"),
    )
    for one in draw:
        with pytest.raises(ImportError, match=r"plots need matplotlib: pip install 'oda_rl\[agents\]'"):
            one()


def test_area_follows_the_weight():
    ax = plot_codebook(view_at([[0.0, 0.0], [1.0, 1.0]], weights=np.array([0.9, 0.1])))
    small, large = np.sort(ax.collections[0].get_sizes())
    assert large > 3 * small


def test_unknown_dimension():
    with pytest.raises(ValueError, match="from 0 to 1"):
        plot_codebook(view_at(np.zeros((3, 2))), dimensions=(0, 5))
    with pytest.raises(ValueError, match=r"two different indices from 0 to 1, got \(1, 1\)"):
        plot_codebook(view_at(np.zeros((3, 2))), dimensions=(1, 1))
    with pytest.raises(ValueError, match="a single dimension need neither dimensions"):
        plot_codebook(view_at(np.zeros((3, 1))), dimensions=(0, 0))


def test_learning_curve_has_the_moving_average():
    steps, returns = np.arange(1, 101) * 10, np.arange(100.0)
    _, ax = plt.subplots()
    assert plot_learning_curve(steps, returns, [500], [40.0], window=10, ax=ax) is ax
    points, mean, greedy = ax.get_lines()
    np.testing.assert_array_equal(points.get_ydata(), returns)
    np.testing.assert_allclose(mean.get_ydata(), np.arange(91) + 4.5)
    np.testing.assert_array_equal(mean.get_xdata(), steps[9:])
    np.testing.assert_array_equal(greedy.get_ydata(), [40.0])


def test_a_run_shorter_than_the_window():
    assert len(plot_learning_curve([10], [1.0]).get_lines()) == 1


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2)) * [2.0, 1.0]
    return X, np.where(X[:, 0] * X[:, 1] > 0.0, "same", "other")


@pytest.fixture(scope="module")
def partition(data):
    return ODAPartition(max_codevectors=12, random_state=0).fit(data[0])


@pytest.fixture(scope="module")
def classifier(data):
    return ODAClassifier(max_codevectors=24, rule="nearest", random_state=0).fit(*data)


def polygons(ax):
    (cells,) = (c for c in ax.collections if isinstance(c, PolyCollection) and c.get_zorder() == 0)
    return cells, [path.vertices[:-1] for path in cells.get_paths()]


def area(polygon):
    x, y = polygon.T
    return 0.5 * abs(x @ np.roll(y, -1) - y @ np.roll(x, -1))


def rectangle(ax):
    return np.diff(ax.get_xlim())[0] * np.diff(ax.get_ylim())[0]


def test_cells_fill_the_plane_and_contain_the_samples_that_they_should(data, partition):
    ax = plot_partition(partition, data[0])
    _, cells = polygons(ax)
    assert len(cells) == partition.n_codevectors_
    assert sum(area(cell) for cell in cells) == pytest.approx(rectangle(ax))
    found = np.full(len(data[0]), -1)
    for i, cell in enumerate(cells):
        found[Path(cell).contains_points(data[0])] = i
    np.testing.assert_array_equal(found, partition.predict(data[0]))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("feature 0", "feature 1")


@pytest.mark.parametrize("divergence", ["kl", "itakura_saito"])
def test_cells_of_other_divergences_are_those_of_predict(divergence):
    X = np.random.default_rng(1).gamma(3.0, size=(300, 2))
    model = ODAPartition(max_codevectors=8, divergence=divergence, random_state=0).fit(X)
    _, cells = polygons(plot_partition(model))
    inside = np.array([Path(cell).contains_points(X) for cell in cells])
    seen = inside.any(axis=0)
    assert seen.mean() > 0.9
    np.testing.assert_array_equal(inside.argmax(axis=0)[seen], model.predict(X)[seen])


def test_a_cell_has_the_colour_of_its_class(data, classifier):
    ax = plot_partition(classifier, *data, label_names=["different", "alike"])
    cells, shapes = polygons(ax)
    faces = cells.get_facecolor()
    assert len(np.unique(faces, axis=0)) == 2
    by_class = {}
    for shape, face in zip(shapes, faces, strict=True):
        inside = Path(shape).contains_points(data[0])
        for label in np.unique(classifier.predict(data[0][inside])):
            by_class.setdefault(label, set()).add(tuple(face))
    assert by_class.keys() == {"same", "other"}
    assert all(len(colours) == 1 for colours in by_class.values())
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["different", "alike"]


def test_a_slice_shows_the_cells_that_it_cuts_with_their_codevectors():
    X = np.random.default_rng(0).normal(size=(500, 4))
    model = ODAPartition(max_codevectors=30, random_state=0).fit(X)
    at = np.array([0.5, np.nan, np.nan, -0.5])
    ax = plot_partition(model, dimensions=(2, 1), at=at)
    _, cells = polygons(ax)
    assert 1 < len(cells) < 30
    assert sum(area(cell) for cell in cells) == pytest.approx(rectangle(ax))
    middles = np.array([cell.mean(axis=0) for cell in cells])
    points = np.column_stack(
        [np.full(len(cells), 0.5), middles[:, 1], middles[:, 0], np.full(len(cells), -0.5)]
    )
    own = model.predict(points)
    drawn = ax.collections[-1].get_offsets()
    np.testing.assert_allclose(drawn, model.codevectors_[own][:, [2, 1]])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("feature 2", "feature 1")


def test_a_policy_map_has_the_colours_of_predict(data, classifier):
    ax = plot_policy_map(classifier, resolution=40)
    (image,) = ax.get_images()
    shown = image.get_array()
    left, right, bottom, top = image.get_extent()
    x = left + (np.arange(40) + 0.5) / 40 * (right - left)
    y = bottom + (np.arange(40) + 0.5) / 40 * (top - bottom)
    grid = np.column_stack([part.ravel() for part in np.meshgrid(x, y)])
    predicted = np.searchsorted(classifier.classes_, classifier.predict(grid)).reshape(40, 40)
    np.testing.assert_array_equal(shown, predicted)


def test_a_value_map_of_a_regressor_is_its_prediction(data):
    X = data[0]
    model = ODARegressor(max_codevectors=10, random_state=0).fit(X, 3.0 * X[:, 0])
    ax = plot_value_map(model, codebook=True)
    (filled,) = (c for c in ax.collections if isinstance(c, ContourSet))
    x = np.linspace(-2.0, 2.0, 9)
    points = np.column_stack([x, np.zeros(9)])
    steps = filled.levels
    for point, value in zip(points, model.predict(points), strict=True):
        k = np.searchsorted(steps, value) - 1
        assert filled.get_paths()[k].contains_point(point)
    assert [a.get_ylabel() for a in ax.figure.axes if a is not ax] == ["prediction"]


def test_a_view_of_anything_can_be_drawn():
    view = View(
        codevectors=np.array([[0.0, 0.0], [1.0, 1.0]]),
        weights=np.ones(2),
        labels=np.array([0.3, 0.7]),
        feature_names=["a", "b"],
        label_names=["level"],
        low=np.full(2, -np.inf),
        high=np.full(2, np.inf),
        distance=lambda X: np.abs(X[:, :1] - [0.0, 1.0]),
    )
    _, cells = polygons(plot_partition(view))
    assert len(cells) == 2


def test_dimensions_that_tell_the_classes_apart_are_drawn():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    X[:, 0] *= 3.0
    y = (X[:, 1] + X[:, 3] > 0.0).astype(int)
    model = ODAClassifier(max_codevectors=60, random_state=0).fit(X, y)
    ax = plot_partition(model)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("feature 1", "feature 3")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, X: plot_partition(m, dimensions=(0, 0)), "two different indices from 0 to 1"),
        (lambda m, X: plot_partition(m, dimensions=(0, 2)), "two different indices from 0 to 1"),
        (lambda m, X: plot_partition(m, X[:, :1]), r"X must have shape \(n_samples, 2\)"),
        (lambda m, X: plot_partition(m, X, X[:5, 0]), r"y must have shape \(400,\)"),
        (lambda m, X: plot_partition(m, at=[1.0]), "at must be 2 finite numbers"),
        (lambda m, X: plot_partition(m, feature_names=["x"]), "feature_names must have 2"),
        (lambda m, X: plot_value_map(m), "has no values"),
        (lambda m, X: plot_policy_map(m), "no decisions to plot"),
        (lambda m, X: plot_annealing([]), "no history"),
        (lambda m, X: plot_annealing(m, axes=[plt.figure().subplots()]), "axes must be 3"),
        (lambda m, X: plot_annealing(m, which=["return"]), "which must be a subset of"),
        (lambda m, X: animate_codebook(m, "codebook.png"), r"end in \.gif"),
        (lambda m, X: animate_codebook([], "codebook.gif"), "nothing to animate"),
    ],
)
def test_nonsense_is_refused_by_name(data, partition, call, message):
    with pytest.raises(ValueError, match=message):
        call(partition, data[0])


def test_what_is_no_model_is_refused():
    with pytest.raises(TypeError, match="or a View, got list"):
        plot_partition([1.0])
    with pytest.raises(NotFittedError):
        plot_partition(ODAPartition())
    single = ODAPartition(2).fit(np.arange(20.0)[:, None])
    with pytest.raises(ValueError, match="at least two dimensions"):
        plot_partition(single, dimensions=(0, 1))
    with pytest.raises(ValueError, match="at least two dimensions"):
        animate_codebook(single, "codebook.gif")


# -- a single dimension ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def curve():
    x = np.random.default_rng(0).uniform(0.0, 6.0, (200, 1))
    return x, np.sin(x[:, 0]), np.where(x[:, 0] < 3.0, "left", "right")


def test_the_cells_of_a_single_feature_are_bands(curve):
    x, y, side = curve
    model = ODAPartition(5, random_state=0).fit(x)
    ax = plot_partition(model, x)
    (cells,) = (c for c in ax.collections if isinstance(c, PolyCollection))
    bands = np.sort([np.unique(path.vertices[:, 0]) for path in cells.get_paths()], axis=0)
    middles = np.sort(model.codevectors_[:, 0])
    np.testing.assert_allclose(bands[1:, 0], 0.5 * (middles[1:] + middles[:-1]))
    np.testing.assert_allclose(bands[:-1, 1], bands[1:, 0])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("feature 0", "weight")
    dots = ax.collections[-1].get_offsets()
    np.testing.assert_allclose(dots, np.column_stack([model.codevectors_[:, 0], model.weights_]))
    ax = plot_partition(ODAClassifier(8, random_state=0).fit(x, side), x, side)
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["class left", "class right"]
    model = ODARegressor(4, random_state=0).fit(x, y)
    plot_partition(model, x, y.reshape(-1, 1))  # a column, as in fit
    with pytest.raises(ValueError, match=r"y must have shape \(200,\)"):
        plot_partition(model, x, y[:3])


def test_predictions_of_a_single_feature_are_curves(curve):
    x, y, side = curve
    model = ODARegressor(8, random_state=0).fit(x, y)
    for ax in (plot_partition(model, x, y), plot_value_map(model, codebook=True, resolution=50)):
        along, values = ax.get_lines()[0].get_data()
        np.testing.assert_array_equal(values, model.predict(along[:, None]))
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("feature 0", "prediction")
        dots = ax.collections[-1].get_offsets()
        np.testing.assert_allclose(dots[:, 1], model.predict(model.codevectors_))
    sides = ODAClassifier(8, random_state=0).fit(x, side)
    (image,) = plot_policy_map(sides, codebook=True, resolution=40).get_images()
    low, high = image.get_extent()[:2]
    middles = low + (np.arange(40) + 0.5) / 40 * (high - low)
    expected = np.searchsorted(sides.classes_, sides.predict(middles[:, None]))
    np.testing.assert_array_equal(image.get_array()[0], expected)
    assert plot_value_map(sides).get_ylabel() == "probability of the likeliest class"


def test_each_output_of_a_single_feature_has_a_curve(curve):
    x, y, _ = curve
    both = np.column_stack([y, 2.0 + x[:, 0]])
    model = ODARegressor(8, random_state=0).fit(x, both)
    ax = plot_partition(model, x, both)
    for k, line in enumerate(ax.get_lines()):
        along, values = line.get_data()
        np.testing.assert_array_equal(values, model.predict(along[:, None])[:, k])
    shown = [drawn.get_offsets() for drawn in ax.collections if len(drawn.get_offsets()) > 1]
    expected = [*both.T, *model.predict(model.codevectors_).T]
    for dots, heights in zip(shown, expected, strict=True):
        np.testing.assert_allclose(dots[:, 1], heights)
    low, high = ax.get_ylim()
    assert low < both.min() < both.max() < high
    assert ax.get_ylabel() == "prediction"
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["output 0", "output 1"]
    ax = plot_partition(model, x, y, label_names=["sine", "line"])
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["sine", "line"]
    with pytest.raises(ValueError, match=r"y must have shape \(200,\) or \(200, 2\), .* \(200, 3\)"):
        plot_partition(model, x, np.zeros((200, 3)))


def test_the_annealing_is_that_of_the_history(partition):
    cells, distortion, temperature = plot_annealing(partition)
    history = partition.history_
    np.testing.assert_array_equal(cells.get_lines()[0].get_ydata(), [p.n_codevectors for p in history])
    np.testing.assert_array_equal(cells.get_lines()[0].get_xdata(), [p.temperature for p in history])
    assert cells.xaxis_inverted()
    np.testing.assert_array_equal(distortion.get_lines()[0].get_ydata(), [p.distortion for p in history])
    np.testing.assert_array_equal(
        temperature.get_lines()[0].get_xdata(), [p.n_samples_seen for p in history]
    )
    assert len(plot_annealing(partition, returns=([10, 20], [1.0, 2.0]))) == 4


def test_bifurcations_and_phases(partition):
    tree, phase = plot_annealing(partition, which=["bifurcation", "phase"])
    history = partition.history_
    for line, point in zip(tree.get_lines(), history, strict=True):
        assert set(line.get_xdata()) == {point.temperature}
        assert any(np.array_equal(line.get_ydata(), row) for row in point.codevectors.T)
    entropy = next(ax for ax in phase.figure.axes if ax.get_ylabel() == "entropy H")
    np.testing.assert_array_equal(entropy.get_lines()[0].get_ydata(), [p.entropy for p in history])
    drawn = phase.get_lines()[0].get_ydata()
    np.testing.assert_array_equal(drawn, [p.expected_distortion for p in history])


def test_annealing_of_the_other_estimators(data, classifier):
    assert plot_annealing(classifier)[1].get_ylabel() == "loss on samples left out"
    model = StochasticVQ(4, random_state=0).fit(data[0])
    (error,) = plot_annealing(model)
    np.testing.assert_array_equal(
        error.get_lines()[0].get_ydata(), [p.distortion for p in model.history_]
    )


def test_the_animation_has_a_picture_for_each_temperature(data, partition, tmp_path):
    path = tmp_path / "made" / "codebook.gif"
    few = ODAPartition(max_codevectors=3, random_state=0).fit(data[0])
    (ax,) = animate_codebook(few, path, data[0], dpi=30, hold=0.0)
    with Image.open(path) as gif:
        assert gif.n_frames == len(few.history_)
        assert gif.info["loop"] == 0
    assert [entry.name for entry in path.parent.iterdir()] == ["codebook.gif"]
    _, cells = polygons(ax)
    assert len(cells) == few.history_[-1].n_codevectors
    animate_codebook(partition, path, dpi=30, hold=0.0, max_frames=3)
    with Image.open(path) as gif:
        assert gif.n_frames == 3


def test_codevectors_of_a_classifier_grow_with_their_classes(classifier, tmp_path):
    (ax,) = animate_codebook(classifier, tmp_path / "classes.gif", dpi=30, hold=0.0, max_frames=2)
    assert {text.get_text() for text in ax.get_legend().get_texts()} == {"class same", "class other"}


def test_drawing_changes_nothing(data, classifier):
    X = data[0].copy()
    before = classifier.codevectors_.copy()
    plot_partition(classifier, X)
    np.testing.assert_array_equal(X, data[0])
    np.testing.assert_array_equal(classifier.codevectors_, before)


def test_names_with_dollars_that_enclose_no_formula_are_written_as_they_are(data):
    X, y = data
    names, classes = ["$_{$ of 1 US$", "$x^2$"], np.where(y == "same", "in $_{$", "b")
    model = ODAClassifier(4, random_state=0).fit(X, classes)
    ax = plot_partition(model, X, classes, feature_names=names)
    ax.figure.canvas.draw()
    assert ax.get_xlabel().replace("\\", "") == names[0]
    assert ax.get_ylabel() == names[1]
    tree = MultiResolutionODA(ODAClassifier(), layers=1, random_state=0).fit(X, classes)
    plot_tree(tree).figure.canvas.draw()
    plot_path(tree, X[0], names).figure.canvas.draw()


def test_maps_are_as_wide_as_samples(data, classifier):
    X, y = data
    tree = MultiResolutionODA(ODAClassifier(), layers=1, random_state=0).fit(X, y)
    for draw in (plot_policy_map, plot_value_map):
        for model in (classifier, tree):
            ax = draw(model, X=X)
            low, high = np.array([ax.get_xlim(), ax.get_ylim()]).T
            assert (low < X.min(axis=0)).all()
            assert (high > X.max(axis=0)).all()
        with pytest.raises(ValueError, match=r"X must have shape \(n_samples, 2\) and finite numbers"):
            draw(classifier, X=np.full((3, 2), np.nan))


TREES = ["Spruce/Fir", "Lodgepole Pine", "Ponderosa Pine", "Cottonwood/Willow"]


def drawn_in(figure, artist):
    """Whether all of an artist is inside the figure."""
    found, page = artist.get_window_extent(), figure.bbox
    return found.x0 >= -1 and found.y0 >= -1 and found.x1 <= page.x1 + 1 and found.y1 <= page.y1 + 1


def classes_view(names):
    """A view with one codevector for each class, on a square grid."""
    points = np.array([[i // 6, i % 6] for i in range(len(names))], dtype=float)
    return view_at(
        points,
        labels=np.arange(len(names)),
        label_names=list(names),
        distance=lambda X: ((X[:, None] - points) ** 2).sum(axis=2),
        decisions=lambda X: ((X[:, None] - points) ** 2).sum(axis=2).argmin(axis=1),
    )


@pytest.mark.parametrize(
    "names",
    [
        [f"class {name}" for name in TREES],
        [f"class {i}: category" for i in range(10)],
        [f"class number {i}" for i in range(26)],
        [
            f"a name that is longer than any legend could be wide, and then some more, {i}"
            for i in range(5)
        ],
    ],
)
@pytest.mark.parametrize("draw", [plot_partition, plot_policy_map, plot_codebook])
def test_a_legend_lists_all_labels_and_leaves_the_axes_most_of_the_figure(draw, names):
    ax = draw(classes_view(names))
    figure = ax.figure
    figure.canvas.draw()
    assert len(ax.get_legend().get_texts()) == len(names)
    assert drawn_in(figure, ax.get_legend())
    assert ax.get_position().width > 0.75
    assert ax.get_position().height > 0.5


def test_a_legend_of_very_many_labels_counts_those_that_are_not_listed():
    ax = plot_policy_map(classes_view([f"class {i}" for i in range(100)]))
    ax.figure.canvas.draw()
    *listed, last = (text.get_text() for text in ax.get_legend().get_texts())
    assert last == f"and {100 - len(listed)} more"
    assert drawn_in(ax.figure, ax.get_legend())
    assert ax.get_position().height > 0.5


def test_a_legend_fits_a_figure_without_a_layout_engine():
    figure = plt.figure(figsize=(4.8, 3.8))
    ax = figure.add_axes((0.16, 0.14, 0.82, 0.73))
    plot_partition(classes_view([f"class {name}" for name in TREES]), ax=ax)
    figure.canvas.draw()
    assert len(ax.get_legend().get_texts()) == 4
    assert drawn_in(figure, ax.get_legend())


def test_a_class_that_is_called_class_is_not_called_so_twice(data):
    X, y = data
    model = ODAClassifier(4, random_state=0).fit(X, np.where(y == "same", "class 1", "Classic"))
    assert model.view().label_names == ["class Classic", "class 1"]


@pytest.mark.parametrize("draw", [plot_partition, plot_policy_map, plot_value_map, plot_codebook])
def test_names_of_features_longer_than_the_axes_are_shortened(classifier, draw):
    name = "a very long name of a feature that goes on and on, in (kilometres per hour) per (s m^2)"
    names = [name, name.upper()]
    ax = draw(classifier, feature_names=names)
    ax.figure.canvas.draw()
    for axis, full in zip((ax.xaxis, ax.yaxis), names, strict=True):
        assert drawn_in(ax.figure, axis.label)
        start, end = axis.label.get_text().split("…")
        assert full.startswith(start)
        assert full.endswith(end)
        assert len(start + end) > 25


def test_codevectors_with_one_dimension_are_drawn_with_their_values():
    points, values = np.arange(6.0)[:, None], np.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0])
    ax = plot_codebook(view_at(points, values=lambda X: values[X[:, 0].astype(int)]))
    np.testing.assert_array_equal(ax.collections[0].get_offsets(), np.column_stack([points, values]))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("a", "value")
    ax = plot_codebook(view_at(points, weights=values))
    np.testing.assert_array_equal(ax.collections[0].get_offsets()[:, 1], values)
    assert ax.get_ylabel() == "weight"


def test_dates_are_written_in_full():
    X = np.column_stack([20240101.0 + np.arange(300), np.random.default_rng(0).normal(size=300)])
    ax = plot_partition(ODAPartition(max_codevectors=4, random_state=0).fit(X))
    ax.figure.canvas.draw()
    assert not ax.xaxis.get_offset_text().get_text()
    assert "20240200" in [text.get_text() for text in ax.get_xticklabels()]


def test_a_short_range_of_temperatures_has_more_than_one_number():
    Record = namedtuple("Record", "temperature n_codevectors distortion n_samples_seen")
    records = [Record(t, 1, t, i) for i, t in enumerate((1.05, 0.9, 0.75, 0.56))]
    cells, _, temperature = plot_annealing(records)
    for axis in (cells.xaxis, temperature.yaxis):
        low, high = sorted(axis.get_view_interval())
        assert sum(low <= tick <= high for tick in axis.get_majorticklocs()) > 2
    low, high = cells.get_ylim()
    assert [tick for tick in cells.yaxis.get_majorticklocs() if low <= tick <= high] == [1.0]


def test_a_curve_without_episodes_has_no_numbers():
    ax = plot_learning_curve([], [])
    assert not len(ax.get_xticks())
    assert ax.texts[0].get_text() == "no episode has ended"


@pytest.mark.parametrize("n", [4, 26])
def test_a_tree_with_long_names_of_classes_is_as_wide_as_its_figure(n):
    rng = np.random.default_rng(0)
    y = rng.integers(0, n, 300)
    X = rng.normal(size=(300, 2)) + 5.0 * np.column_stack([y % 6, y // 6])
    names = np.array([f"a class with a very long name, and that is number {i}" for i in range(n)])
    tree = MultiResolutionODA(ODAClassifier(), layers=1, random_state=0).fit(X, names[y])
    ax = plot_tree(tree)
    ax.figure.canvas.draw()
    assert len(ax.get_legend().get_texts()) == n
    assert drawn_in(ax.figure, ax.get_legend())
    assert ax.get_position().width > 0.8
    path = plot_path(tree, X[0], ["a feature with a very long name that no axis could show"] * 2)
    path.figure.canvas.draw()
    assert path.get_position().width > 0.25


def test_the_title_of_an_animation_is_above_a_wide_legend(tmp_path):
    view = replace(classes_view([f"class {name}" for name in TREES]), title="growing")
    (ax,) = animate_codebook([view], tmp_path / "growth.gif", dpi=30, hold=0.0, max_frames=2)
    ax.figure.canvas.draw()
    (title,) = ax.findobj(lambda one: getattr(one, "get_text", str)() == "growing")
    assert not title.get_window_extent().overlaps(ax.get_legend().get_window_extent())

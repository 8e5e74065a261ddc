import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from matplotlib import pyplot as plt  # noqa: E402

from oda_rl.plotting import plot_codebook, plot_learning_curve  # noqa: E402


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def test_codebook_draws_every_codevector_in_its_colour_and_place():
    codevectors = np.random.default_rng(0).normal(size=(20, 3))
    labels = np.arange(20) % 2
    weights = np.full(20, 0.05)
    ax = plot_codebook(codevectors, labels, weights, dimensions=(2, 0), label_names=["left", "right"])
    drawn = np.concatenate([c.get_offsets() for c in ax.collections])
    np.testing.assert_allclose(np.sort(drawn, axis=0), np.sort(codevectors[:, [2, 0]], axis=0))
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["left", "right"]
    assert ax.get_xlabel() == "observation[2]"


def test_area_follows_the_weight():
    ax = plot_codebook([[0.0, 0.0], [1.0, 1.0]], [0, 0], [0.9, 0.1])
    small, large = np.sort(ax.collections[0].get_sizes())
    assert large > 3 * small


def test_unknown_dimension():
    with pytest.raises(ValueError, match="from 0 to 1"):
        plot_codebook(np.zeros((3, 2)), np.zeros(3, dtype=int), np.ones(3), dimensions=(0, 5))


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

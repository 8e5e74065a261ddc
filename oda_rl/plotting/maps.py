"""Maps of cells, decisions and values over any two dimensions, with the others fixed."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from oda_rl._validation import check_at_least
from oda_rl.inspect.model import View, view_of
from oda_rl.inspect.planes import Plane, cells_in, make_line, make_plane, samples_of
from oda_rl.plotting import lines, style
from oda_rl.plotting.parts import (
    add_scale,
    draw_cells,
    draw_codevectors,
    draw_decisions,
    draw_dots,
    draw_samples,
    draw_values,
    name_axes,
)


def plot_codebook(
    model: Any,
    dimensions: tuple[int, int] | None = None,
    feature_names: Sequence[str] | None = None,
    label_names: Sequence[str] | None = None,
    ax: Any = None,
) -> Any:
    """Draw all codevectors over two of their dimensions: colour by label, area by weight.

    Codevectors with a single dimension are drawn at the height of their values, or of their weights if
    the model has no values.

    Parameters
    ----------
    model : estimator, agent or View
        Classes and greedy actions each have a colour; values and continuous actions are shown on a scale
        of colours.
    dimensions, feature_names, label_names, ax
        As for `plot_partition`.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If `dimensions` do not fit the model, or it has no codevectors.

    Examples
    --------
    >>> import numpy as np
    >>> from oda_rl import ODAPartition
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> ax = plot_codebook(ODAPartition(max_codevectors=5, random_state=0).fit(X))
    """
    view = view_of(model).renamed(feature_names, label_names)
    if not len(view.codevectors):
        raise ValueError(f"{type(model).__name__} has no codevectors to plot.")
    if make_line(view, dimensions, None) is None:
        shown = list(make_plane(view, dimensions, None).dimensions)
        points, names = view.codevectors[:, shown], [view.feature_names[j] for j in shown]
    else:
        name, heights = "weight", view.weights
        if view.values is not None:
            name, heights = view.value_name, view.values(view.codevectors)
        points = np.column_stack([view.codevectors[:, 0], heights])
        names = [view.feature_names[0], name]
    ax = style.new_axes(ax)
    draw_dots(ax, view, points, np.arange(len(points)), alone=True)
    style.name_axes(ax, names)
    return ax


def plot_partition(
    model: Any,
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    dimensions: tuple[int, int] | None = None,
    at: ArrayLike | None = None,
    feature_names: Sequence[str] | None = None,
    label_names: Sequence[str] | None = None,
    ax: Any = None,
) -> Any:
    """Draw the cells in a plane, coloured by label, and their codevectors, with areas by weight.

    Cells are drawn exactly, as polygons, for every Bregman divergence. With more than two dimensions
    the picture is a slice through the plane in which all other coordinates are those of `at`. It shows
    the cells that meet this plane and the codevectors of these cells.

    Of a model with a single dimension, the cells are bands. Its codevectors are drawn at the height of
    their predictions, of continuous actions, or else of their weights, and samples below them, or at the
    height of their outputs. Of a regressor with several outputs, each has a curve.

    Parameters
    ----------
    model : estimator, agent or View
        The cells of clusterers have a single colour. Those of classifiers are coloured by the class of
        the codevector, those of regressors by the value, those of agents by the greedy action at the
        codevector. Cells of an agent with continuous actions may lie in the joint space of observations
        and actions.
    X : array-like of shape (n_samples, n_features), optional
        Samples to draw below the codevectors.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs), optional
        Classes or outputs of the samples, for their colours; several outputs with a single dimension.
    dimensions : (int, int), optional
        The dimensions to draw, horizontally and vertically. By default the two with the largest mutual
        information with the labels, or, without labels or with few codevectors, those of the largest
        variance of the codevectors.
    at : array-like of shape (n_features,), optional
        A point of the slice; its entries for `dimensions` are ignored. By default the weighted mean of
        the codevectors.
    feature_names, label_names : sequence of str, optional
        Names for the axes and the legend, instead of the model's own; the curves of several outputs
        have as many `label_names`.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If `dimensions`, `at`, X or y do not fit the model, or it has no cells with a centre, as with
        tile coding.

    Examples
    --------
    >>> import numpy as np
    >>> from oda_rl import ODAPartition
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> model = ODAPartition(max_codevectors=5, random_state=0).fit(X)
    >>> ax = plot_partition(model, X)
    """
    view = view_of(model).renamed(feature_names, label_names)
    if view.distance is None or not len(view.codevectors):
        raise ValueError(f"{type(model).__name__} has no cells with codevectors to plot.")
    samples = samples_of(view, X)
    line = make_line(view, dimensions, at, samples)
    if line is not None:
        return lines.draw_partition(style.new_axes(ax), view, line, samples, y)
    plane = make_plane(view, dimensions, at, samples)
    ax = style.new_axes(ax)
    polygons = cells_in(plane, view.distance)
    met = np.array(sorted(polygons), dtype=np.int64)
    norm = draw_cells(ax, view, [polygons[i] for i in met], met)
    if samples is not None:
        draw_samples(ax, view, samples[:, list(plane.dimensions)], y, norm)
    draw_codevectors(ax, view, plane, met)
    name_axes(ax, view, plane)
    return ax


def plot_value_map(
    model: Any,
    dimensions: tuple[int, int] | None = None,
    at: ArrayLike | None = None,
    codebook: bool = False,
    levels: int = 24,
    resolution: int = 120,
    feature_names: Sequence[str] | None = None,
    ax: Any = None,
    X: ArrayLike | None = None,
) -> Any:
    """Draw a model's value over two dimensions, in their own units, with the others fixed.

    The value of an agent is that of the greedy policy, max over a of Q(x, a). That of a regressor is its
    first output, that of a classifier the probability of the likeliest class. With a single dimension it
    is a curve.

    Parameters
    ----------
    model : agent, estimator or View
        The fitted model.
    dimensions, at, feature_names, ax
        As for `plot_partition`.
    codebook : bool, default=False
        Whether to draw the codevectors, too, with areas by weight; with more than two dimensions, those
        whose cells meet the plane.
    levels : int, default=24
        Number of colour steps.
    resolution : int, default=120
        Points along each side.
    X : array-like of shape (n_samples, n_features), optional
        Samples that must lie within the limits of the picture, in addition to the codevectors.

    Returns
    -------
    matplotlib.axes.Axes
        The axes of the map; a colour bar is next to them.

    Raises
    ------
    ValueError
        If `dimensions`, `at` or X do not fit, or the model has no values, like a clusterer.
    """
    check_at_least(2, levels=levels, resolution=resolution)
    view = view_of(model).renamed(feature_names)
    if view.values is None:
        raise ValueError(
            f"{type(model).__name__} has no values to plot; agents, classifiers and regressors have "
            "them."
        )
    where = view, dimensions, at, samples_of(view, X), view.n_valued
    line = make_line(*where)
    if line is not None:
        return lines.draw_values(style.new_axes(ax), view, line, codebook, resolution)
    plane = make_plane(*where)
    values = np.asarray(view.values(plane.grid(resolution)), dtype=float)
    ax = style.new_axes(ax)
    drawn = draw_values(ax, plane, values.reshape(resolution, resolution), levels)
    add_scale(drawn, ax, view)
    return _finish(ax, view, plane, codebook)


def plot_policy_map(
    model: Any,
    dimensions: tuple[int, int] | None = None,
    at: ArrayLike | None = None,
    codebook: bool = False,
    resolution: int = 200,
    feature_names: Sequence[str] | None = None,
    label_names: Sequence[str] | None = None,
    ax: Any = None,
    X: ArrayLike | None = None,
) -> Any:
    """Draw a model's decisions over two dimensions, in their own units, with the others fixed.

    These are the greedy actions of an agent, or the decision regions of a classifier. With a single
    dimension they are bands, or a curve of continuous actions.

    Parameters
    ----------
    model : agent, classifier or View
        The fitted model.
    dimensions, at, feature_names, label_names, ax
        As for `plot_partition`.
    codebook, resolution, X
        As for `plot_value_map`.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If `dimensions`, `at` or X do not fit, or the model has no decisions, like a regressor.
    """
    check_at_least(2, resolution=resolution)
    view = view_of(model).renamed(feature_names, label_names)
    if view.decisions is None:
        raise ValueError(
            f"{type(model).__name__} has no decisions to plot; agents and classifiers have them."
        )
    where = view, dimensions, at, samples_of(view, X), view.n_valued
    line = make_line(*where)
    if line is not None:
        return lines.draw_policy(style.new_axes(ax), view, line, codebook, resolution)
    plane = make_plane(*where)
    decided = np.asarray(view.decisions(plane.grid(resolution))).reshape(resolution, resolution)
    ax = style.new_axes(ax)
    draw_decisions(ax, view, plane, decided)
    return _finish(ax, view, plane, codebook)


def _finish(ax: Any, view: View, plane: Plane, codebook: bool) -> Any:
    if codebook:
        draw_codevectors(ax, view, plane)
    name_axes(ax, view, plane)
    return ax

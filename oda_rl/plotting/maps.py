"""Maps of cells, decisions and values over any two dimensions, with the others fixed."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oda_rl._validation import check_at_least
from oda_rl.inspect.model import View, indices_of, view_of
from oda_rl.inspect.planes import Plane, cells_in, make_plane, samples_of
from oda_rl.plotting import style


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

    Parameters
    ----------
    model : estimator, agent or View
        The cells of clusterers have a single colour. Those of classifiers are coloured by the class of
        the codevector, those of regressors by the value, those of agents by the greedy action at the
        codevector. Cells of an agent with continuous actions may lie in the joint space of observations
        and actions.
    X : array-like of shape (n_samples, n_features), optional
        Samples to draw below the codevectors.
    y : array-like of shape (n_samples,), optional
        Classes or outputs of the samples, for their colours.
    dimensions : (int, int), optional
        The dimensions to draw, horizontally and vertically. By default the two with the largest mutual
        information with the labels, or, without labels or with few codevectors, those of the largest
        variance of the codevectors.
    at : array-like of shape (n_features,), optional
        A point of the slice; its entries for `dimensions` are ignored. By default the weighted mean of
        the codevectors.
    feature_names, label_names : sequence of str, optional
        Names for the axes and the legend, instead of the model's own.
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
    plane = make_plane(view, dimensions, at, samples)
    ax = style.new_axes(ax)
    polygons = cells_in(plane, view.distance)
    met = np.array(sorted(polygons), dtype=np.int64)
    norm = _draw_cells(ax, view, [polygons[i] for i in met], met)
    if samples is not None:
        _draw_samples(ax, view, samples[:, list(plane.dimensions)], y, norm)
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
    first output, that of a classifier the probability of the likeliest class.

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
    plane = make_plane(view, dimensions, at, samples_of(view, X), view.n_valued)
    if view.values is None:
        raise ValueError(
            f"{type(model).__name__} has no values to plot; agents, classifiers and regressors have "
            "them."
        )
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

    These are the greedy actions of an agent, or the decision regions of a classifier.

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
    plane = make_plane(view, dimensions, at, samples_of(view, X), view.n_valued)
    if view.decisions is None:
        raise ValueError(
            f"{type(model).__name__} has no decisions to plot; agents and classifiers have them."
        )
    decided = np.asarray(view.decisions(plane.grid(resolution))).reshape(resolution, resolution)
    ax = style.new_axes(ax)
    draw_decisions(ax, view, plane, decided)
    return _finish(ax, view, plane, codebook)


def _finish(ax: Any, view: View, plane: Plane, codebook: bool) -> Any:
    if codebook:
        draw_codevectors(ax, view, plane)
    name_axes(ax, view, plane)
    return ax


# -- parts, which animations use as well -----------------------------------------------------------


def draw_values(ax: Any, plane: Plane, values: Any, levels: int, limits: Any = None) -> Any:
    """Fill the plane with `levels` steps of colour; `values` belong to the points of `Plane.grid`."""
    along = plane.along(len(values))
    for side in along:  # contours end at the outermost points: move these to the border
        side[0], side[-1] = side[0] - 0.5 * (side[1] - side[0]), side[-1] + 0.5 * (side[1] - side[0])
    least, most = (float(values.min()), float(values.max())) if limits is None else limits
    if most - least < 1e-12 * max(1.0, abs(least)):
        least, most = least - 0.5, most + 0.5
    steps = np.linspace(least, most, levels + 1)
    return ax.contourf(*along, np.clip(values, least, most), steps, cmap=style.SEQUENTIAL, zorder=0)


def add_scale(drawn: Any, ax: Any, view: View) -> None:
    """Add a colour bar next to `ax` for `drawn`, the return value of `draw_values`."""
    from matplotlib.ticker import MaxNLocator

    style.add_colorbar(drawn, ax, view.value_name, ticks=MaxNLocator(7))


def draw_decisions(ax: Any, view: View, plane: Plane, decided: Any, legend: bool = True) -> Any:
    """Fill the plane with the colours of `decided`, the decisions at the points of `Plane.grid`.

    With `legend`, a legend or a colour bar explains the colours.
    """
    from matplotlib.colors import ListedColormap

    common = {"origin": "lower", "extent": plane.extent, "aspect": "auto", "zorder": 0}
    if not np.issubdtype(decided.dtype, np.integer):
        ends: dict[str, float] = {}
        if view.n_valued is not None and view.n_features > view.n_valued:  # the bounds of the action
            ends = {"vmin": view.low[view.n_valued], "vmax": view.high[view.n_valued]}
        drawn = ax.imshow(decided, cmap="RdBu_r", alpha=0.85, **ends, **common)
        if legend:
            style.add_colorbar(drawn, ax, view.label_names[0])
        return drawn
    palette = style.label_colours(len(view.label_names))
    tints = ListedColormap([(0.8, 0.8, 0.8), *(style.tinted(colour) for colour in palette)])
    ends = {"vmin": -1.5, "vmax": len(palette) - 0.5}
    drawn = ax.imshow(decided, cmap=tints, interpolation="nearest", **ends, **common)
    if legend:
        found = np.unique(decided)
        style.add_label_legend(ax, view.label_names, palette, found[found >= 0])
    return drawn


def draw_codevectors(ax: Any, view: View, plane: Plane, which: NDArray[np.int64] | None = None) -> None:
    """Draw the codevectors `which` with colours by label and areas by weight, and a legend of classes.

    By default these are the codevectors whose cells meet the plane, or all of them if the plane lacks
    some of their dimensions.
    """
    if not len(view.codevectors):
        return
    if which is None:
        which = np.arange(len(view.codevectors))
        if view.distance is not None and len(plane.at) == view.n_features:
            which = np.array(sorted(cells_in(plane, view.distance)), dtype=np.int64)
    points = view.codevectors[which][:, list(plane.dimensions)]
    colours: Any = style.INK if view.labels is not None else style.PALETTE[0]
    if view.has_classes:
        assert view.labels is not None
        palette = style.label_colours(len(view.label_names))
        own = view.labels[which]
        colours = [palette[label] for label in own]
        style.add_label_legend(ax, view.label_names, palette, np.unique(own))
    size = style.areas(view.weights)[which]
    ax.scatter(*points.T, s=size, c=colours, edgecolors="white", linewidths=0.7, zorder=3)


def name_axes(ax: Any, view: View, plane: Plane) -> None:
    """Set the names and limits of both axes."""
    ax.set(xlim=(plane.low[0], plane.high[0]), ylim=(plane.low[1], plane.high[1]))
    for axis, k in zip((ax.xaxis, ax.yaxis), plane.dimensions, strict=True):
        style.name_axis(axis, view.feature_names[k])
        style.plain_numbers(axis)


def _draw_cells(ax: Any, view: View, polygons: list[Any], which: NDArray[np.int64]) -> Any:
    """Draw the polygons of the cells `which`; returns the norm of the colours if labels are values."""
    from matplotlib.collections import PolyCollection

    cells = PolyCollection(polygons, edgecolors="white", linewidths=1.0, zorder=0)
    if view.labels is None:
        cells.set(facecolor=style.CELL, edgecolor=style.EDGE, linewidth=0.6)
    elif view.has_classes:
        palette = style.label_colours(len(view.label_names))
        cells.set_facecolor([style.tinted(palette[label]) for label in view.labels[which]])
    else:
        cells.set(array=view.labels[which].astype(float), cmap=style.SEQUENTIAL)
        style.add_colorbar(cells, ax, view.label_names[0])
    ax.add_collection(cells, autolim=False)
    return cells.norm if cells.get_array() is not None else None


def _draw_samples(ax: Any, view: View, points: Any, y: Any, norm: Any) -> None:
    dots: dict[str, Any] = {"s": 7.0, "linewidths": 0.0, "alpha": 0.6, "zorder": 1}
    if y is None:
        ax.scatter(*points.T, color=style.INK, **dots)
        return
    targets = np.asarray(y)
    if targets.shape != (len(points),):
        raise ValueError(
            f"y must have shape ({len(points)},), one for each sample; got {targets.shape}."
        )
    if view.classes is not None:
        palette = [*style.label_colours(len(view.label_names)), style.INK]  # -1, no known class, is last
        colours = [palette[label] for label in indices_of(view.classes, targets)]
        ax.scatter(*points.T, c=colours, **dots)
    else:
        ax.scatter(*points.T, c=targets.astype(float), cmap=style.SEQUENTIAL, norm=norm, **dots)

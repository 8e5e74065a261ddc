"""A partition in the plane: its cells, its codevectors, and the data."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oda_rl.plotting import style
from oda_rl.plotting.planes import Plane, cells_in, make_plane
from oda_rl.plotting.views import View, _index, view_of


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
    the picture is a slice: those cells are seen, and only their codevectors, that meet the plane in
    which all other coordinates are those of `at`.

    Parameters
    ----------
    model : estimator, agent or View
        Clusterers have one colour, classifiers that of each codevector's class, regressors that of the
        cell's value, agents that of the greedy action at the codevector. An agent with continuous
        actions has cells in the space of observations and actions together.
    X : array-like of shape (n_samples, n_features), optional
        Samples to draw below the codevectors.
    y : array-like of shape (n_samples,), optional
        Their classes or outputs, for their colours.
    dimensions : (int, int), optional
        Which to draw, horizontally and vertically; by default the two that tell most about the labels
        (by mutual information), or the first two where there are no labels.
    at : array-like of shape (n_features,), optional
        Where the slice lies; its entries for `dimensions` mean nothing. By default the mean of the
        codevectors.
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
        If dimensions, place or samples do not fit the model, or it has no cells with a centre, like tile
        coding.

    Examples
    --------
    >>> import numpy as np
    >>> from oda_rl import ODAPartition
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> model = ODAPartition(max_codevectors=5, random_state=0).fit(X)
    >>> ax = plot_partition(model, X)
    """
    view = renamed(view_of(model), feature_names, label_names)
    if view.distance is None or not len(view.codevectors):
        raise ValueError(f"a {type(model).__name__} has no cells with codevectors that could be drawn.")
    samples = None if X is None else _check_samples(X, view)
    plane = make_plane(view, dimensions, at, samples)
    ax = style.new_axes(ax)
    polygons = cells_in(plane, view.distance)
    seen = np.array(sorted(polygons), dtype=np.int64)
    norm = _draw_cells(ax, view, [polygons[i] for i in seen], seen)
    if samples is not None:
        classes = getattr(model, "classes_", None)
        _draw_samples(ax, view, samples[:, list(plane.dimensions)], y, classes, norm)
    draw_codevectors(ax, view, plane, seen)
    name_axes(ax, view, plane)
    return ax


def renamed(view: View, feature_names: Sequence[str] | None, label_names: Sequence[str] | None) -> View:
    """The view with other names.

    Raises
    ------
    ValueError
        If there are fewer names than features or labels.
    """
    from dataclasses import replace

    if feature_names is not None:
        if len(feature_names) != view.n_features:
            raise ValueError(
                f"feature_names must have {view.n_features} names, got {len(feature_names)}."
            )
        view = replace(view, feature_names=list(feature_names))
    if label_names is not None:
        if len(label_names) < len(view.label_names):
            raise ValueError(
                f"label_names must have {len(view.label_names)} names, got {len(label_names)}."
            )
        view = replace(view, label_names=list(label_names))
    return view


def draw_codevectors(ax: Any, view: View, plane: Plane, which: NDArray[np.int64]) -> Any:
    """The codevectors `which`, coloured by label, areas by weight; a legend if there are classes."""
    points = view.codevectors[which][:, list(plane.dimensions)]
    colours: Any = style.INK
    if view.has_classes:
        assert view.labels is not None
        palette = style.label_colours(len(view.label_names))
        own = view.labels[which]
        colours = [palette[label] for label in own]
        style.add_label_legend(ax, view.label_names, palette, np.unique(own))
    elif view.labels is None:
        colours = style.PALETTE[0]
    size = style.areas(view.weights)[which]
    return ax.scatter(*points.T, s=size, c=colours, edgecolors="white", linewidths=0.7, zorder=3)


def name_axes(ax: Any, view: View, plane: Plane) -> None:
    """Names and limits of both axes."""
    i, j = plane.dimensions
    ax.set_xlabel(view.feature_names[i])
    ax.set_ylabel(view.feature_names[j])
    ax.set_xlim(plane.low[0], plane.high[0])
    ax.set_ylim(plane.low[1], plane.high[1])


def _draw_cells(ax: Any, view: View, polygons: list[Any], which: NDArray[np.int64]) -> Any:
    """The polygons of the cells `which`; returns the scale of the colours if labels are numbers."""
    from matplotlib.collections import PolyCollection

    cells = PolyCollection(polygons, edgecolors="white", linewidths=1.0, zorder=0)
    if view.labels is None:
        cells.set_facecolor(style.CELL)
        cells.set_edgecolor(style.EDGE)
        cells.set_linewidth(0.6)
    elif view.has_classes:
        palette = style.label_colours(len(view.label_names))
        cells.set_facecolor([style.tinted(palette[label]) for label in view.labels[which]])
    else:
        cells.set_array(view.labels[which].astype(float))
        cells.set_cmap(style.SEQUENTIAL)
        ax.figure.colorbar(cells, ax=ax, label=view.label_names[0])
    ax.add_collection(cells, autolim=False)
    return cells.norm if cells.get_array() is not None else None


def _draw_samples(ax: Any, view: View, points: Any, y: Any, classes: Any, norm: Any) -> None:
    style_of: dict[str, Any] = {"s": 7.0, "linewidths": 0.0, "alpha": 0.6, "zorder": 1}
    targets = None if y is None else np.asarray(y)
    if targets is None:
        ax.scatter(*points.T, color=style.INK, **style_of)
        return
    if targets.shape != (len(points),):
        raise ValueError(
            f"y must have shape ({len(points)},), one for each sample; got {targets.shape}."
        )
    if view.has_classes and classes is not None:
        palette = style.label_colours(len(view.label_names))
        known = _index(classes, targets)
        colours = [palette[label] if label >= 0 else style.INK for label in known]
        ax.scatter(*points.T, c=colours, **style_of)
    else:
        ax.scatter(*points.T, c=targets.astype(float), cmap=style.SEQUENTIAL, norm=norm, **style_of)


def _check_samples(X: ArrayLike, view: View) -> NDArray[np.float64]:
    samples = np.asarray(X, dtype=float)
    if samples.ndim != 2 or samples.shape[1] != view.n_features:
        raise ValueError(f"X must have shape (n_samples, {view.n_features}), got {samples.shape}.")
    return samples

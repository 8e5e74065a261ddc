"""Maps over any two dimensions, the others fixed: of values, and of what is decided."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from oda_rl._validation import check_at_least
from oda_rl.plotting import style
from oda_rl.plotting.partitions import draw_codevectors, name_axes, renamed
from oda_rl.plotting.planes import Plane, cells_in, make_plane
from oda_rl.plotting.views import View, view_of


def plot_value_map(
    model: Any,
    dimensions: tuple[int, int] | None = None,
    at: ArrayLike | None = None,
    codebook: bool = False,
    levels: int = 24,
    resolution: int = 120,
    feature_names: Sequence[str] | None = None,
    ax: Any = None,
) -> Any:
    """Draw a model's value over two dimensions, in their own units, the others fixed.

    For an agent the value of the greedy policy, max over a of Q(x, a); for a regressor its (first)
    output, for a classifier the probability of the likeliest class.

    Parameters
    ----------
    model : agent, estimator or View
        What has been learned.
    dimensions : (int, int), optional
        Which to draw, horizontally and vertically; by default the two that tell most about the labels.
    at : array-like of shape (n_features,), optional
        The other coordinates; its entries for `dimensions` mean nothing. By default the mean of the
        codevectors.
    codebook : bool, default=False
        Whether to draw the codevectors, too, with areas by weight: with more than two dimensions, those
        whose cells meet the plane.
    levels : int, default=24
        Steps of the colours.
    resolution : int, default=120
        Points along each side.
    feature_names : sequence of str, optional
        Names for the axes, instead of the model's own.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes
        A colour bar stands beside it.

    Raises
    ------
    ValueError
        If dimensions or place do not fit, or the model has no values, like a clusterer.
    """
    view, plane = _prepare(model, dimensions, at, feature_names, None)
    if view.values is None:
        raise ValueError(
            f"a {type(model).__name__} has no values; agents, classifiers and regressors have."
        )
    check_at_least(2, levels=levels, resolution=resolution)
    values = np.asarray(view.values(plane.grid(resolution)), dtype=float)
    ax = style.new_axes(ax)
    drawn = draw_values(ax, plane, values.reshape(resolution, resolution), levels)
    add_scale(ax.figure, drawn, ax, view)
    if codebook:
        _draw_codebook(ax, view, plane)
    name_axes(ax, view, plane)
    return ax


def plot_policy_map(
    model: Any,
    dimensions: tuple[int, int] | None = None,
    at: ArrayLike | None = None,
    codebook: bool = False,
    resolution: int = 200,
    feature_names: Sequence[str] | None = None,
    label_names: Sequence[str] | None = None,
    ax: Any = None,
) -> Any:
    """Draw what a model decides over two dimensions, in their own units, the others fixed.

    For an agent the greedy action, for a classifier its regions of decision.

    Parameters
    ----------
    model : agent, classifier or View
        What has been learned.
    dimensions, at, codebook, resolution, feature_names, ax
        As for `plot_value_map`.
    label_names : sequence of str, optional
        Names of the actions or classes for the legend.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If dimensions or place do not fit, or the model decides nothing, like a regressor.
    """
    view, plane = _prepare(model, dimensions, at, feature_names, label_names)
    if view.decisions is None:
        raise ValueError(f"a {type(model).__name__} decides nothing; agents and classifiers do.")
    check_at_least(2, resolution=resolution)
    decided = np.asarray(view.decisions(plane.grid(resolution))).reshape(resolution, resolution)
    ax = style.new_axes(ax)
    draw_decisions(ax, view, plane, decided)
    if codebook:
        _draw_codebook(ax, view, plane)
    name_axes(ax, view, plane)
    return ax


def draw_values(ax: Any, plane: Plane, values: Any, levels: int, limits: Any = None) -> Any:
    """Fill the plane with colours between `levels` contours; `values` are those of `Plane.grid`."""
    n = len(values)
    along = [plane.low[j] + (np.arange(n) + 0.5) / n * (plane.high[j] - plane.low[j]) for j in (0, 1)]
    for side in along:  # contours end at the outermost points: let these be those of the border
        side[0], side[-1] = side[0] - 0.5 * (side[1] - side[0]), side[-1] + 0.5 * (side[1] - side[0])
    least, most = (float(values.min()), float(values.max())) if limits is None else limits
    if most - least < 1e-12 * max(1.0, abs(least)):
        least, most = least - 0.5, most + 0.5
    steps = np.linspace(least, most, levels + 1)
    return ax.contourf(*along, np.clip(values, least, most), steps, cmap=style.SEQUENTIAL, zorder=0)


def add_scale(figure: Any, drawn: Any, ax: Any, view: View) -> None:
    """A colour bar beside `ax` for what `draw_values` drew."""
    from matplotlib.ticker import MaxNLocator

    figure.colorbar(drawn, ax=ax, label=view.value_name, ticks=MaxNLocator(7))


def draw_decisions(ax: Any, view: View, plane: Plane, decided: Any, legend: bool = True) -> Any:
    """Fill the plane with the colours of `decided`, of the points of `Plane.grid`.

    `legend` says whether to tell what the colours mean: in a legend, or with a colour bar.
    """
    from matplotlib.colors import ListedColormap

    common = {"origin": "lower", "extent": plane.extent, "aspect": "auto", "zorder": 0}
    if not np.issubdtype(decided.dtype, np.integer):
        ends: dict[str, float] = {}
        if view.n_valued is not None and view.n_features > view.n_valued:  # those of the action
            ends = {"vmin": view.low[view.n_valued], "vmax": view.high[view.n_valued]}
        drawn = ax.imshow(decided, cmap="RdBu_r", alpha=0.85, **ends, **common)
        if legend:
            ax.figure.colorbar(drawn, ax=ax, label=view.label_names[0])
        return drawn
    palette = style.label_colours(len(view.label_names))
    tints = ListedColormap([(0.8, 0.8, 0.8), *(style.tinted(colour) for colour in palette)])
    ends = {"vmin": -1.5, "vmax": len(palette) - 0.5}
    drawn = ax.imshow(decided, cmap=tints, interpolation="nearest", **ends, **common)
    if legend:
        found = np.unique(decided)
        style.add_label_legend(ax, view.label_names, palette, found[found >= 0])
    return drawn


def _prepare(
    model: Any, dimensions: Any, at: Any, feature_names: Any, label_names: Any
) -> tuple[View, Plane]:
    view = renamed(view_of(model), feature_names, label_names)
    return view, make_plane(view, dimensions, at, most=view.n_valued)


def _draw_codebook(ax: Any, view: View, plane: Plane) -> None:
    """The codevectors whose cells meet the plane; all, if the plane has not all of their dimensions."""
    if not len(view.codevectors):
        return
    which = np.arange(len(view.codevectors))
    if view.distance is not None and len(plane.at) == view.n_features:
        which = np.array(sorted(cells_in(plane, view.distance)), dtype=np.int64)
    draw_codevectors(ax, view, plane, which)

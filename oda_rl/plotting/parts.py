"""Parts of maps, which animations and pictures of a single dimension use as well."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl._validation import targets_of
from oda_rl.inspect.model import View, indices_of
from oda_rl.inspect.planes import Line, Plane, cells_in
from oda_rl.plotting import style


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


def draw_decisions(ax: Any, view: View, plane: Plane | Line, decided: Any, legend: bool = True) -> Any:
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
    """Draw the codevectors `which` in a plane, as `draw_dots` does.

    By default these are the codevectors whose cells meet the plane, or all of them if the plane lacks
    some of their dimensions.
    """
    if not len(view.codevectors):
        return
    if which is None:
        which = np.arange(len(view.codevectors))
        if view.distance is not None and len(plane.at) == view.n_features:
            which = np.array(sorted(cells_in(plane, view.distance)), dtype=np.int64)
    draw_dots(ax, view, view.codevectors[which][:, list(plane.dimensions)], which)


def draw_dots(ax: Any, view: View, points: Any, which: NDArray[np.int64], alone: bool = False) -> None:
    """Draw the codevectors `which` at `points` (n, 2) of the picture, with a legend of classes.

    Their colours are those of the labels, their areas those of the weights. If they are `alone`, without
    cells or a curve that show labels which are values, these have a scale of colours, too, and the
    legend is inside the axes.
    """
    dots: Any = {"s": style.areas(view.weights)[which], "edgecolors": "white", "linewidths": 0.7}
    dots |= {"zorder": 3, "c": style.PALETTE[0] if view.labels is None else style.INK}
    if view.has_classes:
        assert view.labels is not None
        palette = style.label_colours(len(view.label_names))
        own = view.labels[which]
        ax.scatter(*points.T, **dots | {"c": [palette[label] for label in own]})
        if not alone:
            style.add_label_legend(ax, view.label_names, palette, np.unique(own))
            return
        style.add_inner_label_legend(ax, view.label_names, palette, np.unique(own), loc="best")
    elif alone and view.labels is not None:
        dots |= {"c": view.labels[which], "cmap": style.SEQUENTIAL}
        style.add_colorbar(ax.scatter(*points.T, **dots), ax, view.label_names[0])
    else:
        ax.scatter(*points.T, **dots)


def name_axes(ax: Any, view: View, plane: Plane) -> None:
    """Set the names and limits of both axes."""
    ax.set(xlim=(plane.low[0], plane.high[0]), ylim=(plane.low[1], plane.high[1]))
    style.name_axes(ax, [view.feature_names[k] for k in plane.dimensions])


def draw_cells(
    ax: Any, view: View, polygons: list[Any], which: NDArray[np.int64], **options: Any
) -> Any:
    """Draw the polygons of the cells `which`; returns the norm of the colours if labels are values."""
    from matplotlib.collections import PolyCollection

    cells = PolyCollection(polygons, edgecolors="white", linewidths=1.0, zorder=0, **options)
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


def draw_samples(ax: Any, view: View, points: Any, y: Any, norm: Any, **options: Any) -> None:
    """Draw samples at `points` (n, 2) of the picture, with the colours of `y` (n,) if it is given.

    `norm` is that of the colours of outputs.
    """
    dots: dict[str, Any] = {"s": 7.0, "linewidths": 0.0, "alpha": 0.6, "zorder": 1, **options}
    if y is None:
        ax.scatter(*points.T, **{"color": style.INK, **dots})
        return
    targets = targets_of(y, len(points))
    if view.classes is not None:
        palette = [*style.label_colours(len(view.label_names)), style.INK]  # -1, no known class, is last
        colours = [palette[label] for label in indices_of(view.classes, targets)]
        ax.scatter(*points.T, c=colours, **dots)
    else:
        ax.scatter(*points.T, c=targets.astype(float), cmap=style.SEQUENTIAL, norm=norm, **dots)

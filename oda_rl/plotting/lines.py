"""Pictures of models with a single dimension: cells as bands, values and predictions as curves."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oda_rl._types import Array
from oda_rl._validation import targets_of
from oda_rl.inspect.model import View
from oda_rl.inspect.planes import Line, intervals_in
from oda_rl.plotting import style
from oda_rl.plotting.parts import draw_cells, draw_decisions, draw_dots, draw_samples

# Points of a curve, if the caller gives no resolution
POINTS = 400
# Space above and below curves and dots, as a part of their range
SPACE = 0.08
# Height of samples without outputs, as a part of the picture's
BELOW = 0.02


def draw_partition(ax: Any, view: View, line: Line, X: Array | None, y: ArrayLike | None) -> Any:
    """Draw the cells as bands, and codevectors and samples above them; see `plot_partition`.

    Where labels are values, their heights show them, with the curve of actions or of each output.
    """
    assert view.distance is not None
    curve = view.labels is not None and not view.has_classes
    intervals = intervals_in(line, view.distance)
    bands = [np.array([[a, 0.0], [b, 0.0], [b, 1.0], [a, 1.0]]) for a, b in intervals.values()]
    which = np.array(list(intervals), dtype=np.int64)
    across = ax.get_xaxis_transform()
    draw_cells(ax, replace(view, labels=None) if curve else view, bands, which, transform=across)
    name, heights = _draw_curves(ax, view, line) if curve else ("weight", view.weights[:, None])
    shown = [heights, *(drawn.get_ydata()[:, None] for drawn in ax.get_lines())]
    if X is not None and curve and y is not None:
        outputs = targets_of(y, len(X), heights.shape[1]).astype(float).reshape(len(X), -1)
        colours = [style.INK] if heights.shape[1] == 1 else style.label_colours(heights.shape[1])
        for column, colour in zip(outputs.T, colours, strict=False):
            draw_samples(ax, view, np.column_stack([X[:, 0], column]), None, None, color=colour)
        shown.append(outputs)
    elif X is not None:
        below = np.column_stack([X[:, 0], np.full(len(X), BELOW)])
        draw_samples(ax, view, below, y, None, transform=across)
    for column in heights.T:
        draw_dots(ax, view, np.column_stack([view.codevectors[:, 0], column])[which], which)
    _frame(ax, view, line, name, np.concatenate(shown, axis=None), least=None if curve else 0.0)
    return ax


def draw_values(ax: Any, view: View, line: Line, codebook: bool, resolution: int) -> Any:
    """Draw the curve of the values, and with `codebook` the codevectors on it; see `plot_value_map`."""
    return _draw_function(ax, view, line, view.values, view.value_name, codebook, resolution)


def draw_policy(ax: Any, view: View, line: Line, codebook: bool, resolution: int) -> Any:
    """Draw the decisions as bands, or as a curve if they are values; see `plot_policy_map`."""
    assert view.decisions is not None
    decided = np.asarray(view.decisions(line.grid(resolution)))
    if not np.issubdtype(decided.dtype, np.integer):
        name = view.label_names[0]
        return _draw_function(ax, view, line, view.decisions, name, codebook, resolution)
    draw_decisions(ax, view, line, decided[None, :])
    if codebook:
        _draw_codevectors(ax, view, np.full(len(view.codevectors), 0.5))
    ax.set(yticks=[], ylim=(0.0, 1.0), xlim=line)
    style.name_axes(ax, view.feature_names[:1])
    return ax


def _draw_function(
    ax: Any, view: View, line: Line, function: Any, name: str, codebook: bool, resolution: int
) -> Any:
    """Draw the curve of a function of the dimension, and with `codebook` the codevectors on it."""
    shown = [_draw_curve(ax, line, function, resolution)]
    if codebook and view.n_features == 1 and len(view.codevectors):
        shown.append(np.asarray(function(view.codevectors), dtype=float))
        _draw_codevectors(ax, view, shown[-1])
    _frame(ax, view, line, name, np.concatenate(shown))
    return ax


def _draw_codevectors(ax: Any, view: View, heights: Array) -> None:
    """Draw all codevectors at these heights (n,), if they have no dimensions besides the drawn one."""
    if view.n_features == 1 and len(heights):
        points = np.column_stack([view.codevectors[:, 0], heights])
        draw_dots(ax, view, points, np.arange(len(points)))


def _draw_curve(ax: Any, line: Line, function: Any, n: int) -> Array:
    """Draw a function at n points, and return its values."""
    points = line.grid(n)
    values = np.asarray(function(points), dtype=float)
    ax.plot(points[:, 0], values, color=style.PALETTE[0], zorder=2)
    return values


def _draw_curves(ax: Any, view: View, line: Line) -> tuple[str, Array]:
    """Draw the function of which the labels are values, or all outputs of a regressor with a legend.

    Returns the name of the vertical axis, and the heights (n_codevectors, n_curves) of the codevectors.
    """
    if view.outputs is None:
        by_value = view.decisions is None
        _draw_curve(ax, line, view.values if by_value else view.decisions, POINTS)
        name = view.value_name if by_value else view.label_names[0]
        return name, np.asarray(view.labels, dtype=float)[:, None]
    points = line.grid(POINTS)
    values = view.outputs(points)
    n = values.shape[1]
    names = view.label_names if len(view.label_names) == n else [f"output {k}" for k in range(n)]
    curves = zip(values.T, style.label_colours(n), strict=True)
    handles = [ax.plot(points[:, 0], own, color=colour, zorder=2)[0] for own, colour in curves]
    style.add_legend(ax, handles, names)
    return view.value_name, view.outputs(view.codevectors)


def _frame(
    ax: Any, view: View, line: Line, name: str, shown: NDArray[Any], least: float | None = None
) -> None:
    """Set the names and limits of both axes for the heights `shown`, from `least` on if it is given."""
    low, high = float(shown.min()) if least is None else least, float(shown.max())
    space = SPACE * (high - low) if high > low else 0.5
    ax.set(xlim=line, ylim=(low - space if least is None else least, high + space))
    style.name_axes(ax, [view.feature_names[0], name])

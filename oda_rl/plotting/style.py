"""Common style of the plots: colours that are safe for colour-blind readers, axes and legends."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Okabe and Ito's palette without black, ordered so that the first few are far apart.
PALETTE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442")
# Colour map for numbers
SEQUENTIAL = "viridis"
# Part of a label's colour, the rest white, in areas that are drawn below points
TINT = 0.45
CELL = "#e8edf2"
EDGE = "#7a8794"
INK = "#22303c"
# Columns of a legend whose names are short; more if it is too tall otherwise, up to the largest number.
USUAL_COLUMNS, MOST_COLUMNS = 4, 12
# Letters of a name and size of the font in legends, tried in this order until all entries fit.
FITS = ((40, "medium"), (40, "small"), (24, "small"), (24, "x-small"), (12, "x-small"))
# Largest height of a legend, as a part of that of the axes
TALLEST = 0.4
# Widths of legends and names as parts of that of axes that a layout engine will make wider
ROOM = 1.08
# Names are not shortened further than this.
FEWEST_LETTERS = 8
# Points that a legend takes up at least, between it and the axes, and that a title takes up
LEAST_HEIGHT, GAP, TITLE = 20.0, 5.0, 16.0
# Points between the axes and a legend below them, which the numbers and the name of the axis take up
BELOW = 36.0
# Largest width and height of a legend inside the axes, as parts of theirs
INSIDE = 0.5


def label_colours(n_labels: int) -> list[str]:
    """A colour for each label as a hexadecimal text: of the palette, or of a colour map if too many."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    if n_labels <= len(PALETTE):
        return list(PALETTE[:n_labels])
    return [to_hex(colour) for colour in colormaps["turbo"](np.linspace(0.05, 0.95, n_labels))]


def tinted(colour: Any) -> tuple[float, float, float]:
    """A colour mixed with white, of which it makes up the part `TINT`."""
    from matplotlib.colors import to_rgb

    red, green, blue = (1.0 - TINT + TINT * channel for channel in to_rgb(colour))
    return red, green, blue


def areas(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Areas of markers by weight, in points squared; the largest one is smaller if there are many."""
    least, most = 12.0, max(24.0, min(220.0, 8000.0 / max(len(weights), 1)))
    heaviest = float(weights.max(initial=0.0))
    if heaviest <= 0.0:  # no weights are known
        return np.full(len(weights), 0.5 * (least + min(most, 100.0)))
    sized: NDArray[np.float64] = least + (most - least) * weights / heaviest
    return sized


def plain_log_axis(axis: Any) -> None:
    """Label a logarithmic axis with a few plain numbers such as 0.2 and 50, however short it is."""
    from matplotlib.ticker import AutoLocator, FormatStrFormatter, LogLocator, NullFormatter

    low, high = sorted(axis.get_view_interval())
    decades = np.log10(high / low) if low > 0.0 else 1.0
    locator: Any = LogLocator(subs=(1.0, 2.0, 5.0) if decades < 2.5 else (1.0,), numticks=12)
    found = locator.tick_values(low, high) if low > 0.0 else np.empty(0)
    if decades < 1.0 and np.count_nonzero((low <= found) & (found <= high)) < 2:
        locator = AutoLocator()  # a single number does not show the scale
    axis.set_major_locator(locator)
    axis.set_major_formatter(FormatStrFormatter("%g"))
    axis.set_minor_formatter(NullFormatter())


def pyplot() -> Any:
    """The module `matplotlib.pyplot`; without matplotlib, an ImportError that names what to install."""
    try:
        from matplotlib import pyplot as plt
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        needed = "plots need matplotlib: pip install 'oda_rl[agents]' or pip install matplotlib."
        raise ModuleNotFoundError(needed, name="matplotlib") from error
    return plt


def new_axes(ax: Any, size: tuple[float, float] | None = None) -> Any:
    """The given axes, or those of a new figure of this size in inches."""
    if ax is not None:
        return ax
    return pyplot().subplots(figsize=size, layout="constrained")[1]


def as_text(name: object) -> str:
    """A name as matplotlib can draw it: dollar signs that enclose no valid formula are escaped."""
    from matplotlib.mathtext import MathTextParser

    lines = str(name).split("\n")
    for i, line in enumerate(lines):
        try:
            if line.count("$") > 1:
                MathTextParser("path").parse(line)
        except ValueError:
            lines[i] = line.replace("$", r"\$")
    return "\n".join(lines)


def even_legend(legend: Any) -> None:
    """Give all dots in a legend the same size, whatever the areas of the markers."""
    for handle in legend.legend_handles:
        if hasattr(handle, "set_sizes"):
            handle.set_sizes([40.0])


def shortened(name: object, most: int) -> str:
    """A name of at most `most` letters, with "…" in the middle of a longer one (units are at ends)."""
    text = str(name)
    if len(text) <= most:
        return text
    end = (most - 1) // 3
    return f"{text[: most - 1 - end].rstrip()}…{text[len(text) - end :].lstrip()}"


def _room(ax: Any) -> Any:
    """The rectangle of the axes in pixels; with a layout engine, which enlarges them, by some more."""
    bounds = ax.get_window_extent()
    return bounds.expanded(ROOM, ROOM) if _has_layout(ax) else bounds


def _has_layout(ax: Any) -> bool:
    """Whether a layout engine will move the axes of this figure, to make room for legends and names."""
    from matplotlib.layout_engine import PlaceHolderLayoutEngine

    engine = ax.get_figure(root=True).get_layout_engine()
    return engine is not None and not isinstance(engine, PlaceHolderLayoutEngine)


def name_axis(axis: Any, name: object) -> None:
    """Write a name along an axis, shortened if it is longer than the axis."""
    side = "width" if axis.axis_name == "x" else "height"
    room = getattr(_room(axis.axes), side)
    text = str(name)
    while True:
        length = getattr(axis.set_label_text(as_text(text)).get_window_extent(), side)
        if length <= room or len(text) <= FEWEST_LETTERS:
            return
        fewer = min(len(text) - 1, int(len(text) * room / length))
        text = shortened(name, max(FEWEST_LETTERS, fewer))


def name_axes(ax: Any, names: Sequence[object]) -> None:
    """Write names along the horizontal axis and, if there are two, the vertical one; plain numbers."""
    for axis, name in zip((ax.xaxis, ax.yaxis), names, strict=False):
        name_axis(axis, name)
        plain_numbers(axis)


def add_colorbar(drawn: Any, ax: Any, name: object, **options: Any) -> None:
    """Add a colour bar for `drawn` beside the axes, with a name that is not longer than the bar."""
    bar = ax.figure.colorbar(drawn, ax=ax, **options)
    name_axis(bar.ax.yaxis, name)


def plain_numbers(axis: Any) -> None:
    """Write long whole numbers that differ little, such as dates, in full and not as differences."""
    low, high = sorted(axis.get_view_interval())
    largest = max(abs(low), abs(high))
    if 10.0 <= high - low < 0.01 * largest and largest < 1e12:
        axis.axes.ticklabel_format(axis=axis.axis_name, style="plain", useOffset=False)
        axis.get_major_locator().set_params(nbins=5)


def add_label_legend(ax: Any, names: Sequence[str], colours: Sequence[Any], labels: Any) -> None:
    """Add a legend with a dot for each of `labels` above the axes, where it hides nothing."""
    from matplotlib.lines import Line2D

    shape: Any = {"linestyle": "", "marker": "o", "markersize": 7}
    dots = [Line2D([], [], color=colours[label], label=str(names[label]), **shape) for label in labels]
    add_legend(ax, dots, [str(names[label]) for label in labels], handletextpad=0.1, columnspacing=1.2)


def add_inner_label_legend(
    ax: Any, names: Any, colours: Sequence[Any], labels: Any, **options: Any
) -> None:
    """Add a legend with a dot for each of `labels`; the `options` are those of `add_inner_legend`."""
    for label in labels:
        ax.scatter([], [], color=colours[label], label=str(names[label]))
    add_inner_legend(ax, **options)


def add_inner_legend(ax: Any, below: float = BELOW, **options: Any) -> None:
    """Add a legend of all labels inside the axes, or `below` points under them.

    It is under them if it is large, or covers dots everywhere inside.
    """
    handles, names = ax.get_legend_handles_labels()
    shown = [as_text(shortened(name, FITS[0][0])) for name in names]
    legend = ax.legend(handles, shown, frameon=False, **options)
    bounds, frame = legend.get_window_extent(), ax.get_window_extent()
    large = bounds.width > INSIDE * frame.width or bounds.height > INSIDE * frame.height
    if large or any(bounds.count_contains(ax.transData.transform(dots)) for dots in _dots_of(ax)):
        legend = add_legend(ax, handles, names, below)
    even_legend(legend)


def _dots_of(ax: Any) -> list[Any]:
    """The positions of all markers in the axes, one array for each label."""
    found = [np.ma.filled(drawn.get_offsets(), np.nan) for drawn in ax.collections]
    return [dots[np.isfinite(dots).all(axis=1)] for dots in found]


def add_legend(
    ax: Any, handles: Sequence[Any], names: Sequence[str], below: float | None = None, **options: Any
) -> Any:
    """Add a legend above the axes, or `below` points under them, and return it.

    It is as wide as the axes, and its height is at most `TALLEST` of theirs. For that it has fewer
    columns, smaller letters and shortened names. If this does not suffice, the last entry is the number
    of labels that are not listed.
    """
    from matplotlib.lines import Line2D
    from matplotlib.transforms import ScaledTranslation

    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (-0.02, 1.0)}
    if below is not None:
        shift = ScaledTranslation(0.0, -below / 72.0, ax.get_figure(root=True).dpi_scale_trans)
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0)}
        place["bbox_transform"] = ax.transAxes + shift
    make = partial(ax.legend, frameon=False, **place, **options)
    widest, tallest = _room_for_legend(ax, below)
    for letters, size in FITS:
        shown = [as_text(shortened(name, letters)) for name in names]
        single = make(handles, shown, fontsize=size)
        columns, height = _columns_of(single, widest, tallest)
        if height <= tallest:
            return make(handles, shown, fontsize=size, ncols=columns)
    rows = max(1, int(-(-len(names) // columns) * tallest / height))
    kept = max(1, rows * columns - 1)
    more = Line2D([], [], linestyle="none", marker="none")
    listed = [*shown[:kept], f"and {len(names) - kept} more"]
    return make([*handles[:kept], more], listed, fontsize=size, ncols=columns)


def _room_for_legend(ax: Any, below: float | None) -> tuple[float, float]:
    """Largest width and height of a legend, in pixels."""
    figure, frame = ax.get_figure(root=True), ax.get_window_extent()
    tallest = TALLEST * frame.height
    if not _has_layout(ax):
        point = figure.dpi / 72.0
        title = TITLE * any(ax.get_title(side) for side in ("left", "center", "right"))
        free = frame.y0 - below * point if below is not None else figure.bbox.y1 - frame.y1
        taken = GAP + title * (below is None)
        tallest = max(free - taken * point, LEAST_HEIGHT * point)
    return _room(ax).width, tallest


def _columns_of(single: Any, widest: float, tallest: float) -> tuple[int, float]:
    """The number of columns for a legend that was made with one, and its height then.

    The height is infinite if even one column is too wide.
    """
    bounds = single.get_window_extent()
    widths = np.array([text.get_window_extent().width for text in single.get_texts()])
    n = len(widths)
    letter = single.get_texts()[0].get_fontsize() * single.get_figure(root=True).dpi / 72.0 if n else 0.0
    pad, gap = 2.0 * single.borderpad * letter, single.columnspacing * letter
    beside = bounds.width - widths.max(initial=0.0) - pad
    found = (1, np.inf)
    for columns in range(1, min(n, MOST_COLUMNS) + 1):
        parts = [part.max() for part in np.array_split(widths, columns)]
        if sum(parts) + columns * beside + (columns - 1) * gap + pad > widest:
            continue
        if columns > USUAL_COLUMNS and found[1] <= tallest:
            break
        found = columns, -(-n // columns) * bounds.height / n
    return found

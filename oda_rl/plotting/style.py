"""Colours that all readers can tell apart, and axes that look alike in all pictures."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Okabe and Ito's palette without black, ordered so that the first few are far apart.
PALETTE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442")
# Of numbers
SEQUENTIAL = "viridis"
# Of a map, which lies below points, labels are this much of their colour
TINT = 0.45
CELL = "#e8edf2"
EDGE = "#7a8794"
INK = "#22303c"


def label_colours(n_labels: int) -> list[str]:
    """A colour for each label, as hexadecimal numbers: the palette's, or many of a colour map."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    if n_labels <= len(PALETTE):
        return list(PALETTE[:n_labels])
    return [to_hex(colour) for colour in colormaps["turbo"](np.linspace(0.05, 0.95, n_labels))]


def tinted(colour: Any, part: float = TINT) -> tuple[float, float, float]:
    """`part` of a colour, the rest white."""
    from matplotlib.colors import to_rgb

    red, green, blue = (1.0 - part + part * channel for channel in to_rgb(colour))
    return red, green, blue


def areas(weights: NDArray[np.float64], least: float = 12.0, most: float = 220.0) -> NDArray[np.float64]:
    """Areas of markers, in points squared: the heaviest has the most; of many, all are smaller."""
    most = max(2.0 * least, min(most, 8000.0 / max(len(weights), 1)))
    heaviest = float(weights.max(initial=0.0))
    if heaviest <= 0.0:  # nothing is known of them
        return np.full(len(weights), 0.5 * (least + min(most, 100.0)))
    sized: NDArray[np.float64] = least + (most - least) * weights / heaviest
    return sized


def plain_log_axis(axis: Any) -> None:
    """A few numbers such as 0.2 and 50 on a logarithmic axis, however short it is."""
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    low, high = sorted(axis.get_view_interval())
    decades = np.log10(high / low) if low > 0.0 else 1.0
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if decades < 2.5 else (1.0,), numticks=12))
    axis.set_major_formatter(FormatStrFormatter("%g"))
    axis.set_minor_formatter(NullFormatter())


def new_axes(ax: Any, size: tuple[float, float] | None = None) -> Any:
    """The axes given, or those of a new figure of that size in inches."""
    if ax is not None:
        return ax
    from matplotlib import pyplot as plt

    return plt.subplots(figsize=size, layout="constrained")[1]


def as_text(name: object) -> str:
    """A name as matplotlib can write it: dollars that enclose no formula are dollars."""
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
    """Dots of one size in a legend, whatever the areas of the markers."""
    for handle in legend.legend_handles:
        if hasattr(handle, "set_sizes"):
            handle.set_sizes([40.0])


def add_label_legend(ax: Any, names: Sequence[str], colours: Sequence[Any], labels: Any) -> None:
    """A legend with a dot for each of `labels`, above the axes, where nothing is hidden by it."""
    from matplotlib.lines import Line2D

    shape: Any = {"linestyle": "", "marker": "o", "markersize": 7}
    dots = [
        Line2D([], [], color=colours[label], label=as_text(names[label]), **shape) for label in labels
    ]
    ax.legend(
        handles=dots,
        loc="lower left",
        bbox_to_anchor=(-0.02, 1.0),
        ncols=min(len(dots), 4),
        frameon=False,
        handletextpad=0.1,
        columnspacing=1.2,
    )

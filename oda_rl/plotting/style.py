"""Common style of the plots: colours that are safe for colour-blind readers, axes and legends."""

from collections.abc import Sequence
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


def label_colours(n_labels: int) -> list[str]:
    """A colour for each label as a hexadecimal text: of the palette, or of a colour map if too many."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    if n_labels <= len(PALETTE):
        return list(PALETTE[:n_labels])
    return [to_hex(colour) for colour in colormaps["turbo"](np.linspace(0.05, 0.95, n_labels))]


def tinted(colour: Any, part: float = TINT) -> tuple[float, float, float]:
    """A colour mixed with white, of which it makes up `part`."""
    from matplotlib.colors import to_rgb

    red, green, blue = (1.0 - part + part * channel for channel in to_rgb(colour))
    return red, green, blue


def areas(weights: NDArray[np.float64], least: float = 12.0, most: float = 220.0) -> NDArray[np.float64]:
    """Areas of markers by weight, in points squared; the largest one is smaller if there are many."""
    most = max(2.0 * least, min(most, 8000.0 / max(len(weights), 1)))
    heaviest = float(weights.max(initial=0.0))
    if heaviest <= 0.0:  # no weights are known
        return np.full(len(weights), 0.5 * (least + min(most, 100.0)))
    sized: NDArray[np.float64] = least + (most - least) * weights / heaviest
    return sized


def plain_log_axis(axis: Any) -> None:
    """Label a logarithmic axis with a few plain numbers such as 0.2 and 50, however short it is."""
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    low, high = sorted(axis.get_view_interval())
    decades = np.log10(high / low) if low > 0.0 else 1.0
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if decades < 2.5 else (1.0,), numticks=12))
    axis.set_major_formatter(FormatStrFormatter("%g"))
    axis.set_minor_formatter(NullFormatter())


def new_axes(ax: Any, size: tuple[float, float] | None = None) -> Any:
    """The given axes, or those of a new figure of this size in inches."""
    if ax is not None:
        return ax
    from matplotlib import pyplot as plt

    return plt.subplots(figsize=size, layout="constrained")[1]


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


def add_label_legend(ax: Any, names: Sequence[str], colours: Sequence[Any], labels: Any) -> None:
    """Add a legend with a dot for each of `labels` above the axes, where it hides nothing."""
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

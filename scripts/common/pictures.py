"""Pictures: frames, axes, colours, samples and cells in the plane. Nothing is shown on a screen."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from oda_rl._types import Array, Labels
from oda_rl.storage import written_whole

BLUE, ORANGE, GREEN, PINK, GREY = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#555555"
# Colours of samples and of codevectors by class, and of codevectors without classes
CLASS_COLOURS = np.array(["#9ecae1", "#fdae6b", "#a1d99b", "#bcbddc", "#fa9fb5"])
CODE_COLOURS = np.array(["#08519c", "#a63603", "#006d2c", "#54278f", "#ae017e"])
CODE = "#d62728"


def light_frame(*panels: Axes) -> None:
    """Draw light grids, and no frame at the top and on the right."""
    for axes in panels:
        axes.grid(True, which="major", color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)


def small_frame(*panels: Axes) -> None:
    """Make the frame light, and the numbers on the axes small."""
    light_frame(*panels)
    for axes in panels:
        axes.tick_params(labelsize=8)


def no_ticks(*panels: Axes) -> None:
    """Make maps: the same scale for both coordinates, and no ticks."""
    for axes in panels:
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_aspect("equal")


class FewTicks(LogLocator):
    """Ticks at 1, 3, 10 and so on, or at few round numbers where the axis has less than a decade."""

    def __init__(self) -> None:
        super().__init__(subs=(1.0, 3.0))

    def tick_values(self, vmin: float, vmax: float) -> Any:
        """The places of the ticks from `vmin` to `vmax`."""
        narrow = 0.0 < vmin < vmax < 10.0 * vmin
        return (MaxNLocator(3) if narrow else super()).tick_values(vmin, vmax)


def plain_log_axis(axes: Axes, digits: str = ",.0f") -> None:
    """Make the x axis logarithmic, with plain numbers on it."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FewTicks())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:{digits}}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def number_axis(axes: Axes) -> None:
    """Make the x axis logarithmic, with plain, small numbers on it, and the frame light."""
    plain_log_axis(axes)
    small_frame(axes)


def grid_of(
    rows: int, columns: int, width: float, height: float, below: float = 0.0, **shared: Any
) -> tuple[Figure, Any]:
    """A figure and its panels (rows, columns) of `width` x `height` inches, with space `below` them.

    `shared` are the options `sharex` and `sharey` of `subplots`.
    """
    size = (width * columns, height * rows + below)
    return plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained", **shared)


def make_panels(n: int, columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """A figure with n panels of `width` x `height` inches, row by row, and space for a legend below."""
    columns = min(n, columns)
    rows = -(-n // columns)
    figure, panels = grid_of(rows, columns, width, height, below=0.5)
    for axes in panels.flat[n:]:
        axes.set_visible(False)
    return figure, list(panels.flat[:n])


def plane(samples: Array, margin: float, n: int) -> tuple[Array, Array, Array]:
    """A grid over samples in the plane: x and y of shape (n, n), and its points of shape (n * n, 2)."""
    low, high = samples.min(axis=0) - margin, samples.max(axis=0) + margin
    x, y = np.meshgrid(np.linspace(low[0], high[0], n), np.linspace(low[1], high[1], n))
    return x, y, np.column_stack([x.ravel(), y.ravel()])


def draw_cells(
    axes: Axes, samples: Array, labels: Labels, codevectors: Array, codevector_labels: Labels
) -> None:
    """Draw samples and codevectors of several classes in the plane."""
    axes.scatter(*samples.T, c=CLASS_COLOURS[labels], s=3, linewidths=0)
    colours = CODE_COLOURS[codevector_labels]
    axes.scatter(*codevectors.T, c=colours, s=26, edgecolors="white", linewidths=0.6)
    no_ticks(axes)


def draw_codevectors(axes: Axes, codevectors: Array, **options: Any) -> None:
    """Draw codevectors without classes."""
    options = {"color": CODE, "ms": 5, "mec": "white", "mew": 0.6} | options
    axes.plot(*codevectors.T, "o", **options)


def save(figure: Figure, path: Path, dpi: int = 150) -> None:
    """Write a picture atomically, and close its figure."""
    with written_whole(path) as part:
        figure.savefig(part, dpi=dpi)
    plt.close(figure)


def write_down(folder: Path, figures: Mapping[str, Figure], table: str = "", dpi: int = 150) -> None:
    """Write pictures under their names, and a table, which is also printed, as `table.md`."""
    for name, figure in figures.items():
        save(figure, folder / f"{name}.png", dpi)
    if table:
        (folder / "table.md").write_text(table, encoding="utf-8")
        print(table)
    print(f"written to {folder}: {', '.join(figures)}")

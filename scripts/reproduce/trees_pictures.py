"""The pictures of `trees.py`: cells layer by layer, and errors over samples and time."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba_array
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from sklearn.base import is_classifier
from sklearn.metrics import pairwise_distances_argmin

from common.pictures import (
    BLUE,
    CLASS_COLOURS,
    CODE,
    CODE_COLOURS,
    GREY,
    ORANGE,
    light_frame,
    no_ticks,
    plane,
)
from oda_rl._types import Array, Labels

Plane = tuple[Array, Array, Array]

LINES = ((1.6, "#333333"), (1.0, "#666666"), (0.6, "#999999"))
COLOURS = (GREY, BLUE, ORANGE)
WRONG, DISTORTION = "training error, %", "mean distortion"
N_GRID, N_SNAPSHOTS = 300, 3


def draw_figure(outcome: Any, samples: Array, labels: Labels) -> Figure:
    """Draw a figure of the paper: the growing cells, and error, K and temperature against samples."""
    n = max(len(outcome.prefixes), N_SNAPSHOTS)
    figure = plt.figure(figsize=(10.5, 6.6), layout="constrained")
    upper, lower = figure.subfigures(2, 1, height_ratios=(1.45, 1.0))
    panels = upper.subplots(1, n, squeeze=False)[0]
    grid = plane(samples, 0.1, N_GRID)
    if outcome.prefixes:
        for depth, axes in enumerate(panels[: len(outcome.prefixes)], start=1):
            _draw_tree(axes, outcome, depth, samples, labels, grid)
        for axes in panels[len(outcome.prefixes) :]:
            _draw_predictions(axes, outcome.model, samples, labels, grid)
    else:
        history = outcome.model.history_
        counts = np.array([point.n_codevectors for point in history])
        wanted = np.geomspace(max(2, counts[0]), counts[-1], n)
        for axes, k in zip(panels, wanted, strict=True):
            place = int(np.abs(counts - k).argmin())
            _draw_flat(axes, outcome, place, samples, labels, grid)
    what = WRONG if is_classifier(outcome.model) else DISTORTION
    _draw_curves(lower.subplots(1, 3), outcome, what)
    upper.suptitle(f"Fig. {outcome.case.figure}: {outcome.case.name}", fontsize=11)
    return figure


def _borders(axes: Axes, grid: Plane, cells: Labels, width: float, colour: str) -> None:
    """Draw lines where neighbouring points of the grid lie in different cells."""
    image = cells.reshape(grid[0].shape)
    for k in np.unique(image):
        axes.contour(*grid[:2], image == k, [0.5], colors=colour, linewidths=width)


def _draw_tree(
    axes: Axes,
    outcome: Any,
    layers: int,
    samples: Array,
    labels: Labels,
    grid: Plane,
) -> None:
    """Draw the cells of the first `layers` layers; lines of deeper layers are thinner."""
    model = outcome.prefixes[layers - 1]
    _draw_samples(axes, samples, labels if is_classifier(model) else None)
    for depth in range(layers, 0, -1):
        cells = outcome.prefixes[depth - 1].apply(grid[2])
        _borders(axes, grid, cells, *LINES[min(depth, 3) - 1])
    _draw_codevectors(axes, model.codevectors_, model.codevector_labels_, is_classifier(model))
    # The whole tree begins with the same splits; the time is that of its fastest fit.
    seconds = outcome.stages[len(model.history_)].seconds
    title = f"layer {layers}: K = {model.n_codevectors_}\n{model.n_presented_:,} samples"
    _finish(axes, f"{title}, {1e3 * seconds:.1f} ms")


def _draw_predictions(axes: Axes, model: Any, samples: Array, labels: Labels, grid: Plane) -> None:
    """Draw predictions: classes, or leaves in colours that distinguish neighbours."""
    classes = is_classifier(model)
    found = model.predict(grid[2]).reshape(grid[0].shape)
    palette = to_rgba_array(CLASS_COLOURS if classes else plt.get_cmap("tab20").colors)
    colours = palette[found % len(palette), :3]
    axes.pcolormesh(*grid[:2], colours, alpha=0.35, shading="nearest", rasterized=True)
    _draw_samples(axes, samples, labels if classes else None)
    _finish(axes, "predicted classes" if classes else "leaves")


def _draw_flat(
    axes: Axes, outcome: Any, place: int, samples: Array, labels: Labels, grid: Plane
) -> None:
    """Draw the cells at one temperature."""
    point, classes = outcome.model.history_[place], is_classifier(outcome.model)
    _draw_samples(axes, samples, labels if classes else None)
    _borders(axes, grid, pairwise_distances_argmin(grid[2], point.codevectors), *LINES[1])
    own = point.labels if classes else np.zeros(point.n_codevectors, dtype=np.int64)
    _draw_codevectors(axes, point.codevectors, own, classes)
    title = f"T = {point.temperature:.2g}, K = {point.n_codevectors}\n{point.n_samples_seen:,} samples"
    _finish(axes, f"{title}, {1e3 * point.seconds:.1f} ms")


def _draw_samples(axes: Axes, samples: Array, labels: Labels | None) -> None:
    colours = CLASS_COLOURS[0] if labels is None else CLASS_COLOURS[labels]
    axes.scatter(*samples.T, c=colours, s=5, linewidths=0)


def _draw_codevectors(axes: Axes, codevectors: Array, labels: Labels, classes: bool) -> None:
    colours = CODE_COLOURS[labels] if classes else CODE
    axes.scatter(*codevectors.T, c=colours, s=26, edgecolors="white", linewidths=0.6, zorder=3)


def _finish(axes: Axes, title: str) -> None:
    axes.set_title(title, fontsize=9)
    no_ticks(axes)


def _draw_curves(panels: Any, outcome: Any, what: str) -> None:
    stages = outcome.stages
    x = [stage.n_samples for stage in stages]
    columns = (
        (what, [stage.error for stage in stages]),
        ("codevectors K", [stage.k for stage in stages]),
        ("temperature T", [stage.temperature for stage in stages]),
    )
    for axes, (name, y) in zip(panels, columns, strict=True):
        line = "" if outcome.prefixes and name.startswith("temp") else "-"
        axes.plot(x, y, "o" + line, color=COLOURS[1], ms=3, lw=1.2)
        axes.set_xlabel("samples observed")
        axes.set_ylabel(name)
        light_frame(axes)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        if name in ("temperature T", DISTORTION):
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0.0)


def draw_times(outcomes: list[Any]) -> Figure:
    """Draw the errors of all models over time, clusterers and classifiers side by side."""
    figure, panels = plt.subplots(1, 2, figsize=(10.0, 4.0), layout="constrained")
    for axes, classes in zip(panels, (False, True), strict=True):
        chosen = [one for one in outcomes if is_classifier(one.model) == classes]
        for one, colour in zip(chosen, COLOURS, strict=True):
            stages = [stage for stage in one.stages if stage.seconds > 0.0]
            seconds = [1e3 * stage.seconds for stage in stages]
            errors = [stage.error for stage in stages]
            label = f"{one.case.name.split(', ')[1]}: K = {one.model.n_codevectors_}"
            axes.step(seconds, errors, where="post", color=colour, lw=1.3, marker="o", ms=3, label=label)
        axes.set_xscale("log")
        axes.set_xlabel("milliseconds")
        axes.set_ylabel(WRONG if classes else DISTORTION)
        if classes:
            axes.set_ylim(bottom=0.0)
        else:
            axes.set_yscale("log")
        axes.legend(frameon=False, fontsize=8)
        light_frame(axes)
    return figure

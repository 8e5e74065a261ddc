"""Animations of growing codebooks."""

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oda_rl._validation import check_at_least, check_positive
from oda_rl.inspect.model import View, evenly_spaced, view_of
from oda_rl.inspect.planes import Plane, make_plane, samples_of
from oda_rl.plotting import style
from oda_rl.plotting.maps import plot_partition
from oda_rl.plotting.parts import (
    add_scale,
    draw_codevectors,
    draw_decisions,
    draw_values,
    name_axes,
)
from oda_rl.storage import written_whole

# Points along each side of the maps
RESOLUTION = 100
LEVELS = 16
# Title of pictures in which all values are equal
NOTHING_YET = "all actions alike so far"
# The scale of colours ends at these quantiles of the values; values beyond them are clipped.
EXTREMES = (0.005, 0.995)


def animate_codebook(
    frames: Any,
    path: str | os.PathLike[str],
    X: ArrayLike | None = None,
    dimensions: tuple[int, int] | None = None,
    at: ArrayLike | None = None,
    fps: int = 8,
    hold: float = 3.0,
    max_frames: int = 72,
    feature_names: Sequence[str] | None = None,
    label_names: Sequence[str] | None = None,
    size: tuple[float, float] | None = None,
    dpi: float = 80.0,
) -> NDArray[Any]:
    """Write a GIF of a growing codebook, and return the axes of its last picture.

    For an estimator the pictures show the partition at every temperature of its `history_`. For an agent
    they show the greedy action with the codevectors, and in a second panel the value;
    `oda_rl.agents.callbacks.SnapshotCallback` collects the views of an agent during training.

    Parameters
    ----------
    frames : fitted estimator, or sequence of View
        What to show. The plane of all pictures is chosen by the last view.
    path : str or path
        The GIF to write, which loops for ever. Written under a temporary name, then renamed.
    X : array-like of shape (n_samples, n_features), optional
        Samples to draw in addition. Values are then not drawn.
    dimensions, at, feature_names, label_names
        As for `plot_partition`.
    fps : int, default=8
        Pictures per second.
    hold : float, default=3
        Seconds for which the last picture is shown.
    max_frames : int, default=72
        Largest number of pictures; if there are more views, evenly spaced ones are drawn.
    size : (float, float), optional
        Size of the picture in inches.
    dpi : float, default=80
        Pixels per inch.

    Returns
    -------
    ndarray of matplotlib.axes.Axes
        One, or two if values are drawn.

    Raises
    ------
    ValueError
        If there is nothing to show, or `path` does not end in .gif.
    """
    plt = style.pyplot()
    from matplotlib.animation import PillowWriter

    target = _gif_path(path)
    check_at_least(2, max_frames=max_frames)
    check_at_least(1, fps=fps)
    check_positive(dpi=dpi)
    views = evenly_spaced(_views(frames), max_frames)
    views = [view.renamed(feature_names, label_names) for view in views]
    if not views:
        raise ValueError("nothing to animate: no temperature has been finished yet.")
    maps = _Maps(views, dimensions, at, X)
    figure, axes = plt.subplots(
        1, maps.n_panels, figsize=size or (4.6 * maps.n_panels, 4.0), squeeze=False, layout="constrained"
    )
    writer = PillowWriter(fps=fps)
    with written_whole(target) as temporary:
        writer.setup(figure, temporary, dpi=dpi)
        maps.lay_out(figure, axes[0])
        for t in range(len(views)):
            maps.draw(t, axes[0])
            writer.grab_frame()
        for _ in range(int(hold * fps)):
            writer.grab_frame()
        writer.finish()
    return np.asarray(axes[0])


def _gif_path(path: str | os.PathLike[str]) -> Path:
    target = Path(path)
    if target.suffix.lower() != ".gif":
        raise ValueError(f"path must end in .gif, got {target.name}.")
    return target


class _Maps:
    """The pictures of an animation: their common plane and scale of colours, and how to draw each."""

    def __init__(self, views: list[View], dimensions: Any, at: Any, X: Any) -> None:
        last = views[-1]
        self.views = views
        self.samples = samples_of(last, X)
        self.plane: Plane = make_plane(last, dimensions, at, self.samples, most=last.n_valued)
        self.with_values = last.decisions is not None and last.values is not None and X is None
        self.n_panels = 2 if self.with_values else 1
        if self.with_values:
            grid, shape = self.plane.grid(RESOLUTION), (RESOLUTION, RESOLUTION)
            every: list[Any] = views
            self.values = [np.asarray(view.values(grid)).reshape(shape) for view in every]
            self.decided = [np.asarray(view.decisions(grid)).reshape(shape) for view in every]
            # extreme values in a few far corners, which are not learned, would take up the colours
            self.limits = tuple(np.quantile(self.values, EXTREMES))

    def draw(self, t: int, axes: Any) -> None:
        """Draw picture number t, with its title above the legend if they overlapped otherwise."""
        for ax in axes:
            ax.clear()
        ax, title = axes[-1], partial(axes[-1].set_title, self.views[t].title, loc="right", fontsize=10)
        written = title()
        self._draw_panels(t, axes)
        legend = ax.get_legend()
        if legend is not None and legend.get_window_extent().x1 > written.get_window_extent().x0:
            above = legend.get_window_extent().y1 - ax.get_window_extent().y1
            title(y=1.0, pad=above * 72.0 / ax.figure.dpi + 3.0)

    def _draw_panels(self, t: int, axes: Any) -> None:
        view = replace(self.views[t], reach=self.views[-1].limits(self.samples))
        if not self.with_values:
            plot_partition(view, self.samples, None, self.plane.dimensions, self.plane.at, ax=axes[0])
            return
        if np.ptp(self.values[t]) > 0.0:
            draw_decisions(axes[0], view, self.plane, self.decided[t], legend=False)
        else:  # all actions are equally good
            view = replace(view, labels=np.zeros(len(view.codevectors)))
            axes[0].set_facecolor(style.CELL)
            axes[0].set_title(NOTHING_YET, loc="left", fontsize=10)
        draw_codevectors(axes[0], view, self.plane)
        self.filled = draw_values(axes[1], self.plane, self.values[t], LEVELS, self.limits)
        for ax in axes:
            name_axes(ax, view, self.plane)

    def lay_out(self, figure: Any, axes: Any) -> None:
        """Add colour bars, and fix the layout of all pictures to that of the last one."""
        last = self.views[-1]
        self.draw(len(self.views) - 1, axes)
        if self.with_values:
            add_scale(self.filled, axes[1], last)
        if self.with_values and not last.has_classes:
            shown = draw_decisions(axes[0], last, self.plane, self.decided[-1], legend=False)
            style.add_colorbar(shown, axes[0], last.label_names[0])
            shown.remove()
        figure.canvas.draw()
        figure.set_layout_engine("none")


def _views(frames: Any) -> list[View]:
    """The given views, or those of an estimator or a callback."""
    try:
        given = frames if isinstance(frames, Sequence) else frames.views()
        return [view_of(frame) for frame in given]
    except (TypeError, AttributeError):
        raise TypeError(
            "frames must be a fitted estimator with a history_, or views of an agent from "
            f"SnapshotCallback, got {type(frames).__name__}."
        ) from None

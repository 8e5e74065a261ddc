"""Codebooks and learning curves, from arrays."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from oda_rl.plotting import style


def plot_codebook(
    codevectors: ArrayLike,
    labels: ArrayLike,
    weights: ArrayLike,
    dimensions: tuple[int, int] = (0, 1),
    feature_names: Sequence[str] | None = None,
    label_names: Sequence[str] | None = None,
    ax: Any = None,
) -> Any:
    """Draw a codebook over two of its dimensions: colour by label, area by weight.

    Parameters
    ----------
    codevectors : array-like of shape (n_codevectors, n_features)
        In the units that are to be shown.
    labels : array-like of shape (n_codevectors,)
        Integers from 0: classes, or greedy actions. Other numbers, such as continuous actions, are shown
        on a scale of colours.
    weights : array-like of shape (n_codevectors,)
        Probabilities, or visits.
    dimensions : (int, int), default=(0, 1)
        Which to draw, horizontally and vertically.
    feature_names, label_names : sequence of str, optional
        Names for the axes and the legend; for a scale of colours, `label_names` has its one name.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If a dimension does not exist.
    """
    points = np.atleast_2d(np.asarray(codevectors, dtype=float))
    names = feature_names or [f"observation[{j}]" for j in range(points.shape[1])]
    for dimension in dimensions:
        if not 0 <= dimension < points.shape[1]:
            raise ValueError(
                f"dimensions must be two numbers from 0 to {points.shape[1] - 1}, got {dimensions}."
            )
    classes, share = np.asarray(labels), np.asarray(weights, dtype=float)
    area = 15.0 + 250.0 * share / max(share.max(initial=0.0), 1e-12)
    ax = style.new_axes(ax)
    ax.set_xlabel(names[dimensions[0]])
    ax.set_ylabel(names[dimensions[1]])
    if not np.issubdtype(classes.dtype, np.integer):
        points_style: Any = {
            "s": area,
            "c": classes,
            "cmap": style.SEQUENTIAL,
            "edgecolors": "white",
            "linewidths": 0.5,
        }
        scale = ax.scatter(*points[:, dimensions].T, alpha=0.8, **points_style)
        ax.figure.colorbar(scale, ax=ax, label=label_names[0] if label_names else "action")
        return ax
    colours = style.label_colours(int(classes.max(initial=0)) + 1)
    for label in np.unique(classes):
        own = classes == label
        name = label_names[label] if label_names else f"action {label}"
        ax.scatter(
            *points[own][:, dimensions].T,
            s=area[own],
            alpha=0.7,
            edgecolors="white",
            linewidths=0.5,
            color=colours[label],
            label=name,
        )
    legend = ax.legend(loc="best", frameon=False)
    for handle in legend.legend_handles:
        handle.set_sizes([40.0])
    return ax


def plot_learning_curve(
    steps: ArrayLike,
    returns: ArrayLike,
    evaluation_steps: ArrayLike = (),
    evaluation_returns: ArrayLike = (),
    window: int = 20,
    ax: Any = None,
) -> Any:
    """Draw the returns of a run's episodes, their moving average, and greedy evaluations.

    Parameters
    ----------
    steps, returns : array-like of shape (n_episodes,)
        Environment steps at the end of each episode, and its return.
    evaluation_steps, evaluation_returns : array-like of shape (n_evaluations,), optional
        Steps and mean returns of evaluations.
    window : int, default=20
        Episodes to average over.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes
    """
    from matplotlib.ticker import EngFormatter

    x, y = np.asarray(steps, dtype=float), np.asarray(returns, dtype=float)
    ax = style.new_axes(ax)
    ax.plot(x, y, ".", color="C7", markersize=3, alpha=0.35, label="episodes")
    if len(y) >= window:
        mean = np.convolve(y, np.full(window, 1.0 / window), mode="valid")
        ax.plot(x[window - 1 :], mean, color="C0", label=f"mean of {window} episodes")
    if np.size(evaluation_steps):
        ax.plot(evaluation_steps, evaluation_returns, "o-", color="C1", markersize=4, label="greedy")
    ax.set_xlabel("environment steps")
    ax.set_ylabel("return")
    ax.xaxis.set_major_formatter(EngFormatter(sep=""))
    ax.legend(loc="best", frameon=False, markerscale=2)
    return ax

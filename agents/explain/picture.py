"""Explanations of a policy as a picture. Needs matplotlib."""

from typing import Any

import numpy as np

from oda_rl.agents.explain.records import Explanation, PolicyTable
from oda_rl.plotting import plot_codebook

# Cells that weigh less have no line in the picture.
LEAST_WEIGHT = 0.01


def plot_explanation(
    table: PolicyTable,
    explanation: Explanation | None = None,
    dimensions: tuple[int, int] | None = None,
    ax: Any = None,
) -> Any:
    """Draw the cells of a policy over two coordinates, and which of them decide in one state.

    Parameters
    ----------
    table : PolicyTable
        From `explain_policy`.
    explanation : Explanation, optional
        From `explain_observation`: its state is marked, with lines to the cells that speak, the wider
        the more they weigh.
    dimensions : (int, int), optional
        Coordinates to draw, horizontally and vertically; the last two by default.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If a dimension does not exist, or there are no cells.
    """
    if not table.cells:
        raise ValueError("there is nothing to draw: no cell has been visited yet.")
    n = len(table.feature_names)
    dimensions = dimensions or (max(n - 2, 0), n - 1)
    visits = np.array([cell.visits for cell in table.cells])
    actions = np.array([np.atleast_1d(cell.action)[0] for cell in table.cells])
    ax = plot_codebook(
        np.array([cell.codevector for cell in table.cells]),
        actions,
        np.ones(len(visits)) if np.isnan(visits).any() else visits,
        dimensions=dimensions,
        feature_names=table.feature_names,
        label_names=table.action_names,
        ax=ax,
    )
    ax.set_title(f"{table.env_id or table.algorithm}: greedy action in {len(table.cells)} cells")
    if explanation is not None:
        _mark(ax, table, explanation, list(dimensions))
    _legend_below(ax)
    return ax


def _mark(ax: Any, table: PolicyTable, explanation: Explanation, dimensions: list[int]) -> None:
    """The state, and lines to the cells that speak for it."""
    here = explanation.point[dimensions]
    for voice in explanation.voices:
        if voice.weight < LEAST_WEIGHT:
            continue
        there = voice.codevector[dimensions]
        width = 0.8 + 8.0 * voice.weight
        ax.plot(*zip(here, there, strict=True), color="0.25", linewidth=width, alpha=0.55, zorder=2.5)
    name = table.name_of(explanation.action)
    if table.is_continuous:
        name = f"{', '.join(table.action_names)} {name}"
    star: Any = {"marker": "*", "markersize": 14, "color": "gold", "markeredgecolor": "black"}
    ax.plot(*here, linestyle="none", zorder=4, label=f"this state: {name}", **star)


def _legend_below(ax: Any) -> None:
    """Where it hides no cell."""
    if not ax.get_legend_handles_labels()[1]:
        return
    legend = ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=4, frameon=False)
    for handle in legend.legend_handles:
        if hasattr(handle, "set_sizes"):
            handle.set_sizes([40.0])

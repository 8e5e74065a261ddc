"""Explanations of a policy as tables, sentences, Markdown, and as a picture (which needs matplotlib)."""

from typing import Any

import numpy as np

from oda_rl.agents.explain.decision import PolicyExplanation
from oda_rl.agents.explain.table import PolicyTable
from oda_rl.inspect.model import View
from oda_rl.inspect.table import Table, as_markdown, counted, numbers, percent

# If codevectors have more coordinates than this, tables of contributions leave them out.
MAX_FEATURES = 6
# Largest numbers of cells, and of changes of the observation, in the tables of one explanation
N_CELLS, N_CHANGES = 8, 6
# Cells with a smaller weight have no line in the picture.
LEAST_WEIGHT = 0.01


def policy_sheet(table: PolicyTable, n: int | None = None) -> Table:
    """The cells of a policy as a table.

    Parameters
    ----------
    table : PolicyTable
        From `explain_policy`.
    n : int, optional
        Rows; by default all cells.

    Returns
    -------
    Table
        Columns: the cell, its state, the greedy action there, the standard deviation of the continuous
        actions that an actor draws, the value, its margin over the second best action, and the share of
        the training steps spent there. If an actor draws discrete actions, there is the probability of
        the greedy one instead of a margin, and the value is that of the state.
    """
    cells = table.cells[:n]
    columns: dict[str, Any] = {"cell": [cell.number for cell in cells]}
    for j, name in enumerate(table.feature_names):
        columns[name] = [cell.codevector[j] for cell in cells]
    if cells and cells[0].own_action is not None:
        columns["its action"] = [table.name_of(cell.own_action) for cell in cells]
    greedy = ", ".join(table.action_names) if table.is_continuous else "action"
    columns[f"greedy {greedy}"] = [table.name_of(cell.action) for cell in cells]
    if cells and cells[0].deviation is not None:
        columns["deviation"] = [table.name_of(cell.deviation) for cell in cells]
    if table.has_probabilities:
        columns["probability"] = [cell.probability for cell in cells]
    if not all(np.isnan(cell.value) for cell in cells):
        columns["value"] = [cell.value for cell in cells]
    if not (table.is_continuous or table.has_probabilities):
        columns["margin"] = [cell.margin for cell in cells]
    if table.is_counted:
        columns["visits"] = [cell.visits for cell in cells]
    return Table(
        _title(table, len(cells)),
        columns,
        {
            "value": lambda values: numbers(values, float(np.ptp(values)) if values else None),
            "visits": percent,
            "probability": percent,
        },
    )


def policy_summary(table: PolicyTable) -> str:
    """Which actions the policy takes, and how many cells have most visits, in a sentence or two."""
    if not table.cells:
        return "No cell has been visited yet."
    words = []
    if not table.is_continuous:
        weights = [cell.visits if table.is_counted else 1.0 for cell in table.cells]
        shares = np.bincount([cell.action for cell in table.cells], weights, len(table.action_names))
        parts = zip(table.action_names, shares / np.sum(weights), strict=True)
        by = "visits" if table.is_counted else "cells"
        words.append(f"Greedy actions, by {by}: {', '.join(f'{a} {100 * p:.0f} %' for a, p in parts)}.")
    if table.is_counted:
        words.append(
            f"Half of all visits fall into {table.cells_for(0.5)} of the cells, 90 % into "
            f"{table.cells_for(0.9)}."
        )
    return " ".join(words)


def explanation_summary(table: PolicyTable, explanation: PolicyExplanation) -> str:
    """What the policy does in a state, and by how much it prefers that, in a sentence."""
    pairs = zip(explanation.feature_names, explanation.sample, strict=True)
    where = ", ".join(filter(None, (_coordinate_text(name, value) for name, value in pairs)))
    value = f"Q {explanation.value:.4g}"
    known = not np.isnan(explanation.value)
    if table.is_continuous:
        if explanation.deviation is not None:
            value = f"value {explanation.value:.4g}"
        worth = f", {value}" if known else ""
        return f"At {where}: {_point_text(table, explanation.action, explanation.deviation)}{worth}."
    action = table.name_of(explanation.action)
    if not np.isnan(explanation.probability):
        worth = f"; the value of the state is {explanation.value:.4g}" if known else ""
        return f"At {where}: {action}, with probability {explanation.probability:.3g}{worth}."
    if explanation.second is None:
        return f"At {where}: {action}, {value}, the only action."
    second = table.name_of(explanation.second)
    return f"At {where}: {action}, {value}, by a margin of {explanation.margin:.3g} over {second}."


def _point_text(table: PolicyTable, action: Any, deviation: Any = None) -> str:
    """A continuous action as text: its coordinates by name, with standard deviations if given."""
    texts = [f"{value:.3g}" for value in np.atleast_1d(action)]
    if deviation is not None:
        spreads = np.atleast_1d(deviation)
        pairs = zip(texts, spreads, strict=True)
        texts = [f"{text} (standard deviation {spread:.3g})" for text, spread in pairs]
    named = zip(table.action_names, texts, strict=True)
    return ", ".join(f"{name} = {text}" for name, text in named)


def _coordinate_text(name: str, value: float) -> str:
    """A coordinate of a state as text; for a one-hot one, such as "goal = 2", its name or nothing."""
    if " = " in name and value in (0.0, 1.0):
        return name if value else ""
    return f"{name} = {value:g}"


def explanation_sheets(
    table: PolicyTable,
    explanation: PolicyExplanation,
    n_cells: int = N_CELLS,
    n_changes: int = N_CHANGES,
) -> list[Table]:
    """Explain a decision of the policy by tables.

    Parameters
    ----------
    table : PolicyTable
        From `explain_policy`.
    explanation : PolicyExplanation
        From `explain_observation`.
    n_cells, n_changes : int
        Largest numbers of rows.

    Returns
    -------
    list of Table
        The contributions of the cells with the largest weights, and the sum of all; then the changes of
        the state that would change the action, or the values of other continuous actions.
    """
    sheets = [_contributions(table, explanation, n_cells)]
    if explanation.alternatives:
        sheets.append(_alternatives(table, explanation))
    elif explanation.counterfactuals:
        changes = explanation.counterfactuals[:n_changes]
        now = dict(zip(explanation.feature_names, explanation.sample, strict=True))
        columns = {
            "coordinate": [one.feature for one in changes],
            "now": [f"{now[one.feature]:g}" for one in changes],
            "change": [f"{one.rounded:+.15g}" for one in changes],
            "greedy action then": [table.name_of(one.decision) for one in changes],
        }
        sheets.append(Table("What would change the action, one coordinate at a time", columns))
    return sheets


def to_markdown(table: PolicyTable, explanation: PolicyExplanation | None = None) -> str:
    """Write a policy with all its cells, and one of its decisions, as a page of Markdown.

    Parameters
    ----------
    table : PolicyTable
        From `explain_policy`.
    explanation : PolicyExplanation, optional
        From `explain_observation`.

    Returns
    -------
    str
    """
    parts = [f"# {as_markdown(table.env_id or 'A policy')}: what {table.algorithm} does"]
    if explanation is not None:
        parts += ["## Why", as_markdown(explanation_summary(table, explanation))]
        for sheet in explanation_sheets(table, explanation):
            parts += [f"{as_markdown(sheet.title)}:", sheet.to_markdown()]
        parts.append("## All cells")
    sheet = policy_sheet(table)
    summary, title = as_markdown(policy_summary(table)), as_markdown(sheet.title)
    parts += [summary, f"{title}:", sheet.to_markdown()]
    return "\n\n".join(parts) + "\n"


def plot_explanation(
    table: PolicyTable,
    explanation: PolicyExplanation | None = None,
    dimensions: tuple[int, int] | None = None,
    ax: Any = None,
) -> Any:
    """Draw the cells of a policy over two coordinates, and which of them decide in one state.

    Cells of states with one coordinate, such as those of a table, are drawn with their values.

    Parameters
    ----------
    table : PolicyTable
        From `explain_policy`.
    explanation : PolicyExplanation, optional
        From `explain_observation`: its state is marked, with lines to the active cells, which are wider
        for larger weights.
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
    from oda_rl.plotting.maps import plot_codebook
    from oda_rl.plotting.style import BELOW, add_legend, even_legend

    if not table.cells:
        raise ValueError("nothing to plot: no cell has been visited yet.")
    n = len(table.feature_names)
    if dimensions is None and n > 1:
        dimensions = (n - 2, n - 1)
    view = _view_of(table)
    ax = plot_codebook(view, dimensions, ax=ax)
    ax.set_title(f"{table.env_id or table.algorithm}: greedy action in {len(table.cells)} cells")
    if explanation is not None:
        heights = view.weights if view.values is None else view.values(view.codevectors)
        by_number = dict(zip((cell.number for cell in table.cells), heights, strict=True))
        _mark_state(ax, table, explanation, dimensions, by_number)
    handles, names = ax.get_legend_handles_labels()
    if names:  # below, where it hides no cell
        even_legend(add_legend(ax, handles, names, BELOW))
    return ax


# -- parts -----------------------------------------------------------------------------------------


def _view_of(table: PolicyTable) -> View:
    """The cells of a policy, for `plot_codebook`; the values are known at the codevectors only."""
    n, values = len(table.feature_names), np.array([cell.value for cell in table.cells])
    return View(
        codevectors=np.array([cell.codevector for cell in table.cells]),
        weights=np.array([cell.visits if table.is_counted else 1.0 for cell in table.cells]),
        labels=np.array([np.atleast_1d(cell.action)[0] for cell in table.cells]),
        feature_names=table.feature_names,
        label_names=table.action_names,
        low=np.full(n, -np.inf),
        high=np.full(n, np.inf),
        values=None if np.isnan(values).all() else lambda codevectors: values,
    )


def _mark_state(
    ax: Any,
    table: PolicyTable,
    explanation: PolicyExplanation,
    dimensions: tuple[int, int] | None,
    heights: dict[int, float],
) -> None:
    """Mark the state with a star, and draw lines to its active cells.

    `heights` are the vertical positions by the number of the cell, if no dimensions are given, since
    states have one coordinate.
    """
    height = explanation.value
    if np.isnan(height):
        height = heights.get(explanation.contributions[0].number, 0.0)

    def place(point: Any, height: float) -> Any:
        return np.array([point[0], height]) if dimensions is None else point[list(dimensions)]

    here = place(explanation.point, height)
    for one in explanation.contributions:
        if one.weight >= LEAST_WEIGHT and (dimensions is not None or one.number in heights):
            there = place(one.codevector, heights.get(one.number, 0.0))
            line: Any = {"color": "0.25", "linewidth": 0.8 + 8.0 * one.weight, "alpha": 0.55}
            ax.plot(*zip(here, there, strict=True), zorder=2.5, **line)
    own = _point_text if table.is_continuous else PolicyTable.name_of
    name = own(table, explanation.action)
    star: Any = {"marker": "*", "markersize": 14, "color": "gold", "markeredgecolor": "black"}
    ax.plot(*here, linestyle="none", zorder=4, label=f"this state: {name}", **star)


def _title(table: PolicyTable, n: int) -> str:
    n_all = len(table.cells)
    chosen = "visited most" if table.is_counted else "of the largest margins"
    which = counted(n_all, "cell") if n == n_all else f"the {n} {chosen} of {n_all} cells"
    untouched = table.n_cells - n_all
    left_out = f" ({untouched} more were never visited)" if untouched else ""
    name = table.env_id or "an unnamed environment"
    return f"{name}, {table.algorithm}: {which}{left_out}"


def _contributions(table: PolicyTable, explanation: PolicyExplanation, n: int) -> Table:
    """The active cells with the largest weights, the others in one row, and the sum."""
    shown, others = explanation.contributions[:n], explanation.contributions[n:]
    more = [others] if others else []
    blank = [""] * (len(more) + 1)
    weights = [one.weight for one in shown] + [sum(one.weight for one in o) for o in more]
    # if each action has a codebook of its own, the weights of its cells sum to 1
    paired = shown[0].own_decision is not None
    whole = "1 each" if paired and not table.is_continuous else "1.000"
    columns: dict[str, Any] = {
        "cell": [*(str(one.number) for one in shown), *(f"{len(o)} others" for o in more), "all"],
        "weight": [*(f"{weight:.3f}" for weight in weights), whole],
    }
    features = table.feature_names if len(table.feature_names) <= MAX_FEATURES else []
    for j, name in enumerate(features):
        columns[name] = numbers([one.codevector[j] for one in shown]) + blank
    if paired:
        columns["its action"] = [table.name_of(one.own_decision) for one in shown] + blank
    valued = "Q" if explanation.deviation is None else "value"
    valued = valued if np.isnan(explanation.probability) else "preference"
    names = [valued] if table.is_continuous else [f"{valued} {name}" for name in table.action_names]
    values = np.array([one.values for one in shown])
    known = not np.isnan(values).all()
    spread = float(np.nanmax(values) - np.nanmin(values)) if known else 0.0
    for a, name in enumerate(names if known else []):
        together = [_mean([(one.weight, one.values[a]) for one in o]) for o in more]
        columns[name] = numbers([*values[:, a], *together, explanation.values[a]], spread)
    if explanation.second is not None and len(explanation.contributions) > 1:
        gains = [one.gain for one in shown] + [sum(one.gain for one in o) for o in more]
        columns[f"for {table.name_of(explanation.action)}"] = numbers([*gains, explanation.margin])
    sheet = Table("What the active cells contribute here", columns)
    alone = len(explanation.contributions) == 1
    return sheet.head(1, "What the active cell decides here") if alone else sheet


def _mean(weighted: list[tuple[float, float]]) -> float:
    """The weighted mean of the numbers that are not NaN; NaN if there are none."""
    known = np.array([pair for pair in weighted if not np.isnan(pair[1])]).reshape(-1, 2)
    total = known[:, 0].sum()
    return float(known[:, 0] @ known[:, 1] / total) if total > 0.0 else np.nan


def _alternatives(table: PolicyTable, explanation: PolicyExplanation) -> Table:
    others = explanation.alternatives
    values = np.array([explanation.value, *(value for _, value in others)])
    points = np.array([explanation.action, *(point for point, _ in others)])
    columns: dict[str, Any] = {"": ["greedy", *[""] * len(others)]}
    columns |= dict(zip(table.action_names, points.T, strict=True))
    return Table("What other actions are worth", {**columns, "Q": values, "less": values[0] - values})

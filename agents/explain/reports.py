"""Explanations of a policy as text tables and as Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, isnan, log10

import numpy as np
from numpy.typing import ArrayLike

from oda_rl.agents.explain.records import Explanation, PolicyTable

# Where codevectors have more coordinates, tables of voices leave them out; the table of cells has them.
MAX_FEATURES = 6
# Cells, and changes of the observation, that the tables of one explanation show
N_VOICES, N_FLIPS = 8, 6
# What is smaller is rounding.
LEAST_NUMBER = 1e-9


@dataclass(frozen=True)
class Sheet:
    """A table of strings.

    Attributes
    ----------
    title : str
        What it shows.
    header : list of str
        Names of the columns.
    rows : list of list of str
        The cells of the table.
    """

    title: str
    header: list[str]
    rows: list[list[str]]


def policy_sheet(table: PolicyTable, n: int | None = None) -> Sheet:
    """The cells of a policy as a table.

    Parameters
    ----------
    table : PolicyTable
        From `explain_policy`.
    n : int, optional
        Rows; by default all cells.

    Returns
    -------
    Sheet
        Columns: the cell, its state, the greedy action there, its value, its margin over the second best
        action, and the share of the training's steps spent there.
    """
    cells = table.cells[:n]
    columns: list[tuple[str, list[str]]] = [("cell", [str(cell.number) for cell in cells])]
    for j, name in enumerate(table.feature_names):
        columns.append((name, numbers([cell.codevector[j] for cell in cells])))
    if cells and cells[0].own_action is not None:
        columns.append(("its action", [table.name_of(cell.own_action) for cell in cells]))
    greedy = ", ".join(table.action_names) if table.is_continuous else "action"
    columns.append((f"greedy {greedy}", [table.name_of(cell.action) for cell in cells]))
    values = [cell.value for cell in cells]
    columns.append(("value", numbers(values, float(np.ptp(values)))))
    if not table.is_continuous:
        columns.append(("margin", numbers([cell.margin for cell in cells])))
    if cells and not isnan(cells[0].visits):
        columns.append(("visits", [f"{100.0 * cell.visits:.1f} %" for cell in cells]))
    return _sheet(_title(table, len(cells)), columns)


def policy_summary(table: PolicyTable) -> str:
    """Which actions the policy takes, and how many cells that needs, in a sentence or two."""
    if not table.cells:
        return "No cell has been visited yet."
    counted = not isnan(table.cells[0].visits)
    words = []
    if not table.is_continuous:
        shares = np.zeros(len(table.action_names))
        for cell in table.cells:
            shares[cell.action] += cell.visits if counted else 1.0 / len(table.cells)
        parts = [
            f"{name} {100 * share:.0f} %" for name, share in zip(table.action_names, shares, strict=True)
        ]
        where = "Greedy actions, by visits" if counted else "Greedy actions, by cells"
        words.append(f"{where}: {', '.join(parts)}.")
    if counted:
        words.append(
            f"Half of all visits are to {table.cells_for(0.5)} cells, 90 % to {table.cells_for(0.9)}."
        )
    return " ".join(words)


def explanation_summary(table: PolicyTable, explanation: Explanation) -> str:
    """What the policy does in a state, and by how much it prefers that, in a sentence."""
    seen = ", ".join(
        f"{name} = {value:g}"
        for name, value in zip(explanation.observation_names, explanation.observation, strict=True)
    )
    action = table.name_of(explanation.action)
    if table.is_continuous:
        return f"At {seen}: {', '.join(table.action_names)} {action}, Q {explanation.value:.4g}."
    if explanation.second is None:
        return f"At {seen}: {action}, Q {explanation.value:.4g}, the only action."
    return (
        f"At {seen}: {action}, Q {explanation.value:.4g}, by a margin of {explanation.margin:.3g} over "
        f"{table.name_of(explanation.second)}."
    )


def explanation_sheets(
    table: PolicyTable, explanation: Explanation, n_voices: int = N_VOICES, n_flips: int = N_FLIPS
) -> list[Sheet]:
    """Why the policy does what it does in a state, as tables.

    Parameters
    ----------
    table : PolicyTable
        From `explain_policy`.
    explanation : Explanation
        From `explain_observation`.
    n_voices, n_flips : int
        Rows at most.

    Returns
    -------
    list of Sheet
        What the weightiest cells say, with the sum of all; then what would change the action, or what
        other continuous actions are worth.
    """
    sheets = [_voices_sheet(table, explanation, n_voices)]
    if table.is_continuous:
        sheets.append(_alternatives_sheet(table, explanation))
    elif explanation.flips:
        flips = explanation.flips[:n_flips]
        columns = [
            ("coordinate", [flip.feature for flip in flips]),
            ("now", [_plain(_value_of(explanation, flip.feature)) for flip in flips]),
            ("change", [f"{flip.change:+.3g}" for flip in flips]),
            ("greedy action then", [table.name_of(flip.action) for flip in flips]),
        ]
        sheets.append(_sheet("What would change the action, one coordinate at a time", columns))
    return sheets


def to_markdown(table: PolicyTable, explanation: Explanation | None = None) -> str:
    """A policy with all its cells, and one decision of it, as a page of Markdown.

    Parameters
    ----------
    table : PolicyTable
        From `explain_policy`.
    explanation : Explanation, optional
        From `explain_observation`.

    Returns
    -------
    str
    """
    parts = [f"# {table.env_id or 'A policy'}: what {table.algorithm} does"]
    if explanation is not None:
        parts += ["## Why", explanation_summary(table, explanation)]
        for sheet in explanation_sheets(table, explanation):
            parts += [f"{sheet.title}:", _markdown_table(sheet)]
        parts.append("## All cells")
    sheet = policy_sheet(table)
    parts += [policy_summary(table), f"{sheet.title}:", _markdown_table(sheet)]
    return "\n\n".join(parts) + "\n"


# -- parts ---------------------------------------------------------------------------------------


def numbers(values: ArrayLike, size: float | None = None) -> list[str]:
    """A column of numbers with as many decimals as three digits of `size`, or of the largest, need."""
    found = np.asarray(values, dtype=float)
    largest = np.abs(found[np.isfinite(found)]).max(initial=0.0) if size is None else size
    decimals = max(2 - floor(log10(largest)), 0) if largest > LEAST_NUMBER else 0
    texts = [f"{value:.{decimals}f}" if np.isfinite(value) else "" for value in found]
    zero = f"{0.0:.{decimals}f}"
    return [zero if text == f"-{zero}" else text for text in texts]


def _title(table: PolicyTable, n: int) -> str:
    n_all = len(table.cells)
    counted = n_all > 0 and not isnan(table.cells[0].visits)
    chosen = "visited most" if counted else "of the largest margins"
    which = f"{n_all} cells" if n == n_all else f"the {n} {chosen} of {n_all} cells"
    untouched = table.n_cells - n_all
    left_out = f" ({untouched} more were never visited)" if untouched else ""
    name = table.env_id or "an environment without a name"
    return f"{name}, {table.algorithm}: {which}{left_out}"


def _plain(value: float) -> str:
    return f"{value:.3g}"


def _sheet(title: str, columns: Sequence[tuple[str, list[str]]]) -> Sheet:
    rows = [list(row) for row in zip(*(column for _, column in columns), strict=True)]
    return Sheet(title, [name for name, _ in columns], rows)


def _value_of(explanation: Explanation, name: str) -> float:
    return float(explanation.observation[explanation.observation_names.index(name)])


def _voices_sheet(table: PolicyTable, explanation: Explanation, n: int) -> Sheet:
    """The weightiest cells, what the others say together, and the sum."""
    voices, others = explanation.voices[:n], explanation.voices[n:]
    paired = voices[0].own_action is not None
    rest = sum(voice.weight for voice in others)
    extra = 1 + bool(others)
    labels = [f"{len(others)} others"] * bool(others) + ["all"]
    weights = [*(voice.weight for voice in voices), *[rest] * bool(others)]
    # in a codebook for each action the cells of each action share a weight of 1
    total = "1 each" if paired and not table.is_continuous else "1.000"
    columns = [
        ("cell", [*(str(voice.number) for voice in voices), *labels]),
        ("weight", [*(f"{weight:.3f}" for weight in weights), total]),
    ]
    if len(table.feature_names) <= MAX_FEATURES:
        for j, name in enumerate(table.feature_names):
            column = numbers([voice.codevector[j] for voice in voices])
            columns.append((name, column + [""] * extra))
    if paired:
        own = [table.name_of(voice.own_action) for voice in voices]
        columns.append(("its action", own + [""] * extra))
    names = ["Q"] if table.is_continuous else [f"Q {name}" for name in table.action_names]
    said = [[voice.values[a] for voice in voices] for a in range(len(names))]
    spread = float(np.nanmax(said) - np.nanmin(said))
    for a, name in enumerate(names):
        rest_says = [_mean([(voice.weight, voice.values[a]) for voice in others])] * bool(others)
        columns.append((name, numbers([*said[a], *rest_says, explanation.values[a]], spread)))
    if explanation.second is not None and len(explanation.voices) > 1:
        gains = [voice.for_action for voice in voices]
        gains += [sum(voice.for_action for voice in others)] * bool(others)
        name = f"for {table.name_of(explanation.action)}"
        columns.append((name, numbers([*gains, explanation.margin])))
    sheet = _sheet("What the cells say here", columns)
    if len(explanation.voices) == 1:  # it has the last word
        return Sheet("What the cell says here", sheet.header, sheet.rows[:1])
    return sheet


def _mean(weighted: list[tuple[float, float]]) -> float:
    """The weighted mean of the numbers that are known."""
    known = [(weight, value) for weight, value in weighted if not isnan(value)]
    total = sum(weight for weight, _ in known)
    return sum(weight * value for weight, value in known) / total if total > 0.0 else np.nan


def _alternatives_sheet(table: PolicyTable, explanation: Explanation) -> Sheet:
    points = [(explanation.action, explanation.value), *explanation.alternatives]
    columns: list[tuple[str, list[str]]] = [("", ["greedy", *[""] * len(explanation.alternatives)])]
    for j, name in enumerate(table.action_names):
        columns.append((name, numbers([point[j] for point, _ in points])))
    columns.append(("Q", numbers([value for _, value in points])))
    columns.append(("less", numbers([explanation.value - value for _, value in points])))
    return _sheet("What other actions are worth", columns)


def _markdown_table(sheet: Sheet) -> str:
    def line(cells: list[str]) -> str:
        return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"

    rule = "| " + " | ".join("---:" if _is_number(cell) else "---" for cell in sheet.rows[0]) + " |"
    return "\n".join([line(sheet.header), rule, *(line(row) for row in sheet.rows)])


def _is_number(text: str) -> bool:
    try:
        float(text.removesuffix("%"))
    except ValueError:
        return False
    return True

"""A distilled policy as one page: the formula of each action in each cell."""

from dataclasses import replace
from typing import Any

import numpy as np

from oda_rl.agents.distill.policy import DistilledPolicy
from oda_rl.inspect.table import Table, counted, percent


def formula_table(model: DistilledPolicy, digits: int = 3) -> Table:
    """Tabulate the formulas of a distilled policy, cell by cell.

    Parameters
    ----------
    model : DistilledPolicy
        The policy.
    digits : int, default=3
        Significant digits.

    Returns
    -------
    Table
        One row per cell: its share of the states of the fit, its location along the coordinates that
        the distance depends on, and a formula for the preference of each action, or for each coordinate
        of a continuous action. An action without a column has the preference 0. The title gives the
        units of the coordinates in the distance, and how far cells overlap.
    """
    program, learner = model.learner.program, model.learner
    near = np.flatnonzero(np.isfinite(program.scale))
    columns: dict[str, Any] = {"cell": list(range(model.n_cells))}
    if model.n_cells > 1:
        columns["states"] = learner.visits / learner.visits.sum()
    for j in near.tolist():
        columns[program.features[j]] = [f"{x:.{digits}g}" for x in program.codevectors[:, j]]
    for a, name in enumerate(program.action_names):
        texts = [_formula(model, i, a, digits) for i in range(model.n_cells)]
        if any(text != "0" for text in texts) or not learner.actions.n_actions > 1:
            columns[name] = texts
    return Table(_title(model, digits), columns, {"states": percent})


def with_formulas(model: DistilledPolicy, formulas: Table, cells: Table) -> Table:
    """Add the columns of a `formula_table` to a table that names a cell in its column "cell"."""
    shown = {"cell", "states", *model.learner.program.features}
    added = {
        f"{name} =": [formulas[name][i] for i in cells["cell"]] for name in formulas if name not in shown
    }
    return replace(cells, columns={**cells.columns, **added})


def draw_page(model: DistilledPolicy, digits: int = 3) -> Any:
    """Draw the text of `formula_table` as a figure of one page.

    Parameters
    ----------
    model, digits
        As for `formula_table`.

    Returns
    -------
    matplotlib.figure.Figure
    """
    from matplotlib.figure import Figure

    lines = str(formula_table(model, digits)).splitlines()
    width, height = max(map(len, lines)), len(lines)
    figure = Figure(figsize=(0.09 * width + 0.6, 0.19 * height + 0.6))
    place: Any = {"family": "monospace", "fontsize": 10, "va": "top", "linespacing": 1.3}
    figure.text(
        0.3 / figure.get_figwidth(), 1.0 - 0.25 / figure.get_figheight(), "\n".join(lines), **place
    )
    return figure


def _title(model: DistilledPolicy, digits: int) -> str:
    program = model.learner.program
    cells, numbers = counted(model.n_cells, "cell"), counted(program.n_numbers, "number")
    title = f"{program.name}: {cells}, {numbers}"
    if program.actions is not None:
        title += "; the action with the largest number is taken"
    if model.n_cells == 1:
        return title
    units = ", ".join(
        f"{scale:.{digits}g} {name}"
        for scale, name in zip(program.scale, program.features, strict=True)
        if np.isfinite(scale)
    )
    if program.temperature == 0.0:
        return f"{title}; the nearest cell decides, in units of {units}"
    return f"{title}; cells weigh exp(-d^2 / {program.temperature:.{digits}g}), in units of {units}"


def _formula(model: DistilledPolicy, cell: int, action: int, digits: int) -> str:
    """The preference of an action in a cell, as a sum of multiples of the observed coordinates."""
    program = model.learner.program
    slopes = program.slopes[cell, action] if program.slopes.size else np.zeros(len(program.features))
    parts = [(program.values[cell, action] - slopes @ program.codevectors[cell], "")]
    parts += [(w, f" {name}") for w, name in zip(slopes, program.features, strict=True)]
    # names such as "goal = 2", of one-hot coordinates, get brackets
    texts = [f"{w:+.{digits}g}{f' ({name[1:]})' if ' = ' in name else name}" for w, name in parts if w]
    return " ".join(texts).removeprefix("+") or "0"

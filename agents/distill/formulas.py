"""A distilled policy as one page: the formula of each action in each cell."""

from dataclasses import replace
from typing import Any

import numpy as np

from oda_rl.agents.sb3.distilled import DistilledPolicy
from oda_rl.inspect.table import Table, counted, percent


def formula_table(model: DistilledPolicy, digits: int = 3) -> Table:
    """What a distilled policy computes, cell by cell.

    Parameters
    ----------
    model : DistilledPolicy
        The policy.
    digits : int, default=3
        Significant digits.

    Returns
    -------
    Table
        A row for each cell: its share of the states that it was fitted to, its location, as far as that
        has a part in the distance, and the preference of each action, or each coordinate of an action,
        as a formula. An action without a formula has the preference 0. The title tells the rest: by how
        much each coordinate counts in the distance, and how far cells overlap.
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
    """A table with a row for each cell, found by its column "cell", with its `formula_table` added."""
    told_already = {"cell", "states", *model.learner.program.features}
    added = {
        f"{name} =": [formulas[name][i] for i in cells["cell"]]
        for name in formulas
        if name not in told_already
    }
    return replace(cells, columns={**cells.columns, **added})


def draw_page(model: DistilledPolicy, digits: int = 3) -> Any:
    """The same on a sheet of paper, as a picture.

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
    told = f"{program.name}: {cells}, {numbers}"
    if program.actions is not None:
        told += "; the action with the largest number is taken"
    if model.n_cells == 1:
        return told
    units = ", ".join(
        f"{scale:.{digits}g} {name}"
        for scale, name in zip(program.scale, program.features, strict=True)
        if np.isfinite(scale)
    )
    if program.temperature == 0.0:
        return f"{told}; the nearest cell decides, in units of {units}"
    return f"{told}; cells weigh exp(-d^2 / {program.temperature:.{digits}g}), in units of {units}"


def _formula(model: DistilledPolicy, cell: int, action: int, digits: int) -> str:
    """What a cell says of an action, as a sum of coordinates as they are observed."""
    program = model.learner.program
    slopes = program.slopes[cell, action] if program.slopes.size else np.zeros(len(program.features))
    parts = [(program.values[cell, action] - slopes @ program.codevectors[cell], "")]
    parts += [(w, f" {name}") for w, name in zip(slopes, program.features, strict=True)]
    # "goal = 2" is 1 or 0
    texts = [f"{w:+.{digits}g}{f' ({name[1:]})' if ' = ' in name else name}" for w, name in parts if w]
    return " ".join(texts).removeprefix("+") or "0"

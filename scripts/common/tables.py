"""Tables on the terminal and in Markdown, and texts for their cells."""

import sys
from collections.abc import Iterable, Sequence

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table


def make_console() -> Console:
    """A console that prints texts as they are, 100 columns wide if the output is not a terminal."""
    return Console(width=None if sys.stdout.isatty() else 100, markup=False, emoji=False)


def print_line(console: Console, line: str) -> None:
    """Print a line as it is: without colours, and not wrapped."""
    console.print(line, highlight=False, soft_wrap=True)


def print_notes(console: Console, notes: Iterable[str]) -> None:
    """Print notes below a table, dimmed."""
    for note in notes:
        console.print(note, highlight=False, style="dim")


def make_table(title: str, *columns: str, left: int = 1) -> Table:
    """A table with the first `left` columns aligned to the left, and the others to the right."""
    table = Table(title=title, title_justify="left")
    for i, name in enumerate(columns):
        table.add_column(name, justify="left" if i < left else "right")
    return table


def show_table(
    console: Console, title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1
) -> None:
    """Print a table with these rows."""
    table = make_table(title, *columns, left=left)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def show_close_table(
    console: Console, title: str, columns: list[str], rows: Iterable[list[str]], bold: Sequence[str]
) -> None:
    """Print a table of many close columns; rows whose first cell is in `bold` are printed in bold."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=0, pad_edge=False)
    for i, name in enumerate(columns):
        table.add_column(name, justify="right" if i else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row, style="bold" if row[0] in bold else "")
    console.print(f"\n{title}", style="bold", highlight=False)
    console.print(table)
    console.print()


def to_markdown(
    columns: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1, notes: Sequence[str] = ()
) -> str:
    """A table in Markdown, with notes below it."""
    rule = ["---"] * left + ["---:"] * (len(columns) - left)
    lines = [[name.replace("\n", " ") for name in columns], rule, *rows]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return table + "".join(f"\n{note}\n" for note in notes)


def steps_text(value: float) -> str:
    """A number of steps, or a dash for infinity."""
    return f"{value:,.0f}" if np.isfinite(value) else "-"


def seconds_text(value: float) -> str:
    """Seconds with two decimals below 1 and one otherwise, or a dash for infinity."""
    return f"{value:,.{2 if value < 1 else 1}f}" if np.isfinite(value) else "-"


def plain(value: float, digits: int) -> str:
    """A number with `digits` decimals, without a sign if it rounds to zero."""
    return f"{round(value, digits) + 0.0:.{digits}f}"


def return_text(value: float) -> str:
    """A return with four significant digits, but three decimals at most."""
    size = abs(value)
    return plain(value, 0 if size >= 1000 else 1 if size >= 100 else 2 if size >= 10 else 3)


def interval_text(value: float, low: float, high: float, digits: int = 1) -> str:
    """A number and its interval with `digits` decimals, or none if one of them reaches 1000."""
    digits = 0 if max(map(abs, (value, low, high))) >= 1000 else digits
    return f"{plain(value, digits)} ({plain(low, digits)}, {plain(high, digits)})"

"""Tables of named columns, to be written as aligned text, Markdown, CSV or a data frame."""

import csv
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from math import floor, log10
from pathlib import Path
from textwrap import wrap
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oda_rl.storage import written_whole

# Largest number of characters in a line of text, as far as breaking column names between words allows
WIDTH = 100
# Numbers below this are taken for rounding errors of zero.
LEAST_NUMBER = 1e-9


@dataclass(frozen=True, eq=False)
class Table(Mapping[str, Any]):
    """A table as a mapping from the names of its columns to their values; printing aligns it as text.

    Parameters
    ----------
    title : str
        What the table shows.
    columns : dict of str to sequence
        Values of all rows, by the names of the columns.
    formats : dict of str to callable
        For single columns, functions from their values to texts. By default `numbers` formats columns
        of floats, and `str` all others.

    Examples
    --------
    >>> table = Table("Cells", {"action": ["left", "right"], "value": [99.5, 2.0]})
    >>> print(table)
    Cells
    action  value
    ─────────────
    left     99.5
    right     2.0
    >>> print(table.to_markdown())
    | action | value |
    | --- | ---: |
    | left | 99.5 |
    | right | 2.0 |
    >>> table["value"]
    [99.5, 2.0]
    """

    title: str
    columns: dict[str, Any]
    formats: Mapping[str, Callable[[Any], list[str]]] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def header(self) -> list[str]:
        """Names of the columns."""
        return list(self.columns)

    @property
    def rows(self) -> list[list[str]]:
        """The formatted cells of every row."""
        texts = [self.formats.get(name, _texts)(column) for name, column in self.columns.items()]
        return [list(row) for row in zip(*texts, strict=True)]

    def head(self, n: int | None, title: str | None = None) -> Self:
        """The first `n` rows, or all if None, under another title if given."""
        columns = {name: column[:n] for name, column in self.columns.items()}
        return replace(self, title=self.title if title is None else title, columns=columns)

    def __str__(self) -> str:
        header, rows = self.header, self.rows
        bodies = [[row[j] for row in rows] for j in range(len(header))]
        widths, are_texts = _widths(header, bodies), [_is_text(body) for body in bodies]
        broken = [wrap(name, width) for name, width in zip(header, widths, strict=True)]
        height = max(map(len, broken), default=0)
        padded = [[""] * (height - len(part)) + part for part in broken]

        def line(cells: Sequence[str]) -> str:
            parts = [
                cell.ljust(width) if is_text else cell.rjust(width)
                for cell, width, is_text in zip(cells, widths, are_texts, strict=True)
            ]
            return "  ".join(parts).rstrip()

        rule = "─" * (sum(widths) + 2 * (len(widths) - 1))
        lines = [self.title, *map(line, zip(*padded, strict=True)), rule, *map(line, rows)]
        return "\n".join(lines).strip("\n")

    def to_markdown(self) -> str:
        """The table, without its title, in Markdown."""

        def line(cells: Sequence[str]) -> str:
            return "| " + " | ".join(as_markdown(cell).replace("|", r"\|") for cell in cells) + " |"

        rows = self.rows
        sides = ["---" if _is_text(body) else "---:" for body in zip(*rows, strict=True)]
        return "\n".join([line(self.header), line(sides or ["---"] * len(self)), *map(line, rows)])

    def to_csv(self, path: str | os.PathLike[str]) -> Path:
        """Write the values in full precision as a CSV file with a header, and return its path."""
        columns = [np.asarray(column).tolist() for column in self.columns.values()]
        with written_whole(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(self.columns)
            writer.writerows(zip(*columns, strict=True))
        return Path(path)

    def to_pandas(self, index: str | None = None) -> Any:
        """The values as a pandas.DataFrame, indexed by one of the columns. Needs pandas."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_pandas needs pandas: pip install pandas, or use to_csv.") from error
        frame = pandas.DataFrame(self.columns)
        return frame if index is None else frame.set_index(index)


# -- formatting of values --------------------------------------------------------------------------


def as_markdown(text: str) -> str:
    """A text for one line of Markdown, in which HTML would be taken for tags."""
    return " ".join(escape(text, quote=False).splitlines())


def number(value: Any) -> str:
    """A number with four significant digits."""
    return f"{float(value):.4g}"


def counted(n: int, word: str) -> str:
    """A count with its noun in singular or plural: "1 cell", "2 cells"."""
    return f"{n:,} {word}" if n == 1 else f"{n:,} {word}s"


def numbers(values: ArrayLike, size: float | None = None) -> list[str]:
    """Format a column with the decimals that three digits of `size`, by default of the largest, need."""
    found = np.asarray(values, dtype=float)
    largest = np.abs(found[np.isfinite(found)]).max(initial=0.0) if size is None else size
    decimals = max(2 - floor(log10(largest)), 0) if largest > LEAST_NUMBER else 0
    texts = [f"{value:.{decimals}f}" if np.isfinite(value) else "" for value in found]
    zero = f"{0.0:.{decimals}f}"
    return [zero if text == f"-{zero}" else text for text in texts]


def percent(values: ArrayLike) -> list[str]:
    """Fractions in percent; empty texts for values that are not finite."""
    return [f"{100.0 * v:.1f} %" if np.isfinite(v) else "" for v in np.asarray(values, dtype=float)]


def _texts(values: Any) -> list[str]:
    kinds: NDArray[Any] = np.asarray(values)
    return numbers(kinds) if kinds.dtype.kind == "f" else [str(value) for value in kinds.tolist()]


def _is_text(cells: Sequence[str]) -> bool:
    """Whether a column has words, so that it is aligned to the left."""
    return any(cell.lstrip("+-")[:1].isalpha() for cell in cells)


def _widths(header: list[str], bodies: list[list[str]]) -> list[int]:
    """Widths of the columns, with their names broken into as few lines as `WIDTH` allows."""

    def fitted(n_lines: int) -> list[int]:
        pairs = zip(header, bodies, strict=True)
        return [max([_narrowest(name, n_lines), *map(len, body)]) for name, body in pairs]

    available, whole = WIDTH - 2 * (len(header) - 1), fitted(1)
    most = max((len(name.split()) for name in header), default=1)
    widths = next((w for w in map(fitted, range(1, most)) if sum(w) <= available), fitted(most))
    for added, j in sorted(
        (w - width, j) for j, (w, width) in enumerate(zip(whole, widths, strict=True))
    ):
        if sum(widths) + added <= available:
            widths[j] += added
    return widths


def _narrowest(name: str, n_lines: int) -> int:
    """The least width in which a name takes at most `n_lines` lines, without breaking a word."""
    longest = max(map(len, name.split()), default=0)
    fitting = (w for w in range(max(longest, 1), len(name) + 1) if len(wrap(name, w)) <= n_lines)
    return next(fitting, max(longest, 1))

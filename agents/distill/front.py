"""The trade-off between the returns of a policy's tables and their sizes."""

from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

from oda_rl.agents.distill.policy import DistilledPolicy
from oda_rl.inspect.table import Table


def check_tolerance(tolerance: float) -> None:
    """Raise a ValueError if the part of the return that may be lost is not in [0, 1)."""
    if not isinstance(tolerance, Real) or not 0.0 <= tolerance < 1.0:
        raise ValueError(f"tolerance must be a number in [0, 1), got {tolerance!r}.")


class FrontPoint(NamedTuple):
    """One table: its counts of numbers and cells, its result, how it was made, and its state.

    The result is the mean return or, with `judge="states"`, the part of the teacher's values it keeps.
    """

    numbers: int
    cells: int
    result: float
    what: str
    state: dict[str, Any]


@dataclass
class Front:
    """The tables that `shrink` tried.

    Attributes
    ----------
    student : DistilledPolicy
        An agent that can use any of the tables.
    reference : float
        Result of the policy that was shrunk: its mean return in the same episodes, or 1.
    n_reference : int or None
        Its `n_parameters`, if it has that attribute.
    points : list of FrontPoint
        All tables, in the order in which they were tried.
    """

    student: DistilledPolicy
    reference: float
    n_reference: int | None
    points: list[FrontPoint]

    @property
    def best(self) -> list[FrontPoint]:
        """The tables whose result no other table of at most the same size reaches, smallest first."""
        found: list[FrontPoint] = []
        for point in sorted(self.points, key=lambda one: (one.numbers, -one.result)):
            if not found or point.result > found[-1].result:
                found.append(point)
        return found

    def smallest(self, tolerance: float = 0.02) -> DistilledPolicy:
        """The agent with the fewest numbers that loses at most this part of the return.

        If all lose more, the agent with the best return.

        Raises
        ------
        ValueError
            If the tolerance is not in [0, 1).
        """
        check_tolerance(tolerance)
        least = self.reference - tolerance * abs(self.reference)
        return self.within(min((p.numbers for p in self.points if p.result >= least), default=None))

    def within(self, numbers: int | None) -> DistilledPolicy:
        """The agent with the best return among those with at most `numbers` numbers, or among all.

        Raises
        ------
        ValueError
            If no table is that small.
        """
        few = [p for p in self.best if numbers is None or p.numbers <= numbers]
        if not few:
            raise ValueError(f"numbers is {numbers}; the smallest table has {self.best[0].numbers}.")
        self.student.learner.set_state(few[-1].state)
        return self.student

    def table(self) -> Table:
        """Tabulate the best tables: numbers, cells, result, loss, and how each was made."""
        rows = self.best
        columns: dict[str, Any] = {
            "numbers": [one.numbers for one in rows],
            "cells": [one.cells for one in rows],
            self._measure: [one.result for one in rows],
            "lost": [self.reference - one.result for one in rows],
            "how": [one.what for one in rows],
        }
        size = "" if self.n_reference is None else f" with {self.n_reference:,} numbers"
        env_id = self.student.env_id
        title = f"{env_id}: {self._measure} by numbers; {self.reference:.1f}{size} before"
        return Table(title, columns)

    @property
    def _measure(self) -> str:
        return {"return": "return", "states": "kept"}[self.student.config.judge]

    def plot(self, ax: Any = None) -> Any:
        """Draw the returns against the numbers.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure if not given.

        Returns
        -------
        matplotlib.axes.Axes
        """
        if ax is None:
            from matplotlib import pyplot as plt

            ax = plt.subplots(figsize=(7, 4.5), layout="constrained")[1]
        best = self.best
        kept = [p for p in self.points if p.result >= best[0].result]
        ax.scatter([p.numbers for p in kept], [p.result for p in kept], s=12, color="0.7", label="tried")
        line = [p.numbers for p in best], [p.result for p in best]
        ax.plot(*line, "o-", drawstyle="steps-post", markersize=4, label="best of this size")
        ax.axhline(self.reference, color="0.3", linewidth=1, linestyle="--", label="before")
        if self.n_reference is not None:
            ax.plot([self.n_reference], [self.reference], "s", color="0.3")
        ax.set_xscale("symlog", linthresh=1.0)  # a constant action has 0 numbers
        ax.set(xlabel="numbers", ylabel=f"mean {self._measure}", title=self.student.env_id)
        ax.legend(frameon=False, loc="lower right")
        return ax

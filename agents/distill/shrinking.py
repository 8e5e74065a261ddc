"""Shrink a policy: leave out as many numbers as possible, and compare the returns of all tables."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from oda_rl._validation import whole_number
from oda_rl.agents.distill.dagger import Distillation
from oda_rl.agents.distill.fitting import Form, Records, find_form, least_error
from oda_rl.agents.distill.policy import DistilledPolicy
from oda_rl.agents.sb3.env_origin import find_plain_id
from oda_rl.inspect.table import Table

# States from which the importance of each number is estimated
FOR_WORTH = 1000
# Slopes are left out together until at least this part of all numbers is gone; then the table is scored
LEAP = 0.08
# A series of ever smaller tables ends when this many in a row are not good enough.
PATIENCE = 3


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
        _check_tolerance(tolerance)
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
            raise ValueError(
                f"numbers must be at least {self.best[0].numbers}, the size of the smallest table, "
                f"got {numbers}."
            )
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
        from oda_rl.plotting.style import new_axes

        ax, best = new_axes(ax, (7.0, 4.5)), self.best
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


def shrink(
    model: Any, env: str | None = None, *, tolerance: float = 0.02, seed: int = 0, **options: Any
) -> Front:
    """Distil an agent into ever smaller tables, and score each of them.

    The agent is distilled into tables of `max_cells` cells, half as many, and so on down to one. From
    each of these the least important part is left out, repeatedly: a cell, a coordinate of the distance,
    or a coordinate along which preferences change, in one cell or in all. The rest is fitted again, to
    the agent's actions in states that the smaller tables visit. It is scored by its return or, with
    `judge="states"`, by the agent's own Q values in recorded states.

    Parameters
    ----------
    model : object
        An agent, or whatever `distill` takes for a teacher.
    env : str, optional
        Id of the environment; by default the one that the agent was trained on.
    tolerance : float, default=0.02
        Part of the agent's return, as an absolute value, that may be lost: a series of smaller tables
        ends when more is lost. `Front.smallest` accepts any other tolerance. With `judge="states"` it is
        a part of what the worst actions would lose.
    seed : int, default=0
        Same seed, same result.
    **options
        As for `distill`.

    Returns
    -------
    Front
        All tables that were tried.

    Raises
    ------
    TypeError, ValueError
        As for `distill`; or if `env` is not given and the model has no environment id, or was trained on
        an environment with keyword arguments or wrappers.

    Examples
    --------
    >>> upright = lambda observation: int(observation[2] + 0.3 * observation[3] > 0)
    >>> few = {"max_cells": 2, "rounds": 2, "steps_per_round": 500, "eval_episodes": 5}
    >>> front = shrink(upright, "CartPole-v1", **few)
    >>> front.smallest(0.05).n_parameters < 10
    True
    """
    if env is None and getattr(model, "env_id", None) is not None:
        env = find_plain_id(model, "env", exactly=False)
    if env is None:
        raise ValueError(
            "env must be the id of an environment, as the model does not store one; got None."
        )
    _check_tolerance(tolerance)
    student = DistilledPolicy(env=env, seed=whole_number("seed", seed, 0), **options)
    with closing(Distillation(model, student)) as work:
        work.run()
        return _Shrinking(work, model, tolerance).run()


class _Shrinking:
    """Makes several series of ever smaller tables, and collects them in one front."""

    def __init__(self, work: Distillation, model: Any, tolerance: float) -> None:
        self.work, self.student = work, work.student
        reference = work.judge(work.recorder.teacher)
        self.front = Front(self.student, reference, getattr(model, "n_parameters", None), [])
        self.least = reference - tolerance * abs(reference)

    def run(self) -> Front:
        """Run all series, from the form of the distillation down to a single cell."""
        config: Any = self.work.config
        self._add_point(self.work.best, "distilled")
        self._series(self.work.form)
        n_cells = len(self.work.form.codevectors) // 2
        while n_cells >= 1:
            form = find_form(self.work.records, n_cells, config, self.work.rng)
            self._add_point(self.work.fit_and_score(form), f"{len(form.codevectors)} cells")
            self._series(form)
            n_cells //= 2
        return self.front

    def _series(self, form: Form) -> None:
        """Leave out the least important part, repeatedly, until the return no longer holds."""
        work, failed = self.work, 0
        while failed < PATIENCE:
            records = work.records.sample(FOR_WORTH, work.rng)
            found = _smaller(form, records)
            if found is None:
                break
            form, what = found
            work.record(self.student.act)
            result = work.fit_and_score(form)
            failed = failed + 1 if result < self.least else 0
            self._add_point(result, what)

    def _add_point(self, result: float, what: str) -> None:
        student = self.student
        point = FrontPoint(
            student.n_parameters, student.n_cells, result, what, student.learner.get_state()
        )
        self.front.points.append(point)


def _smaller(form: Form, records: Records) -> tuple[Form, str] | None:
    """Leave out what costs least per number; returns the form and what it lacks, None at the end."""
    before, size = least_error(form, records), form.size
    ranked = []
    for what, found in _candidates(form):
        saved = size - found.size
        if saved > 0:
            ranked.append(((least_error(found, records) - before) / saved, what, found))
    if not ranked:
        return None
    ranked.sort(key=lambda one: one[0])
    _, what, found = ranked[0]
    # slopes do not affect the shares of the cells: several can be left out at once
    few = [form for _, name, form in ranked[1:] if name.startswith("slope")]
    for other in few if what.startswith("slope") else []:
        if size - found.size >= LEAP * size:
            break
        found, what = found.without_slopes(~other.linear), "slopes"
    return found, f"without {what}"


def _candidates(form: Form) -> Iterator[tuple[str, Form]]:
    """Descriptions of what can be left out, and the forms without it."""
    k, d = form.linear.shape
    for i in range(k if k > 1 else 0):
        yield f"cell {i}", form.without_cell(i)
    for j in np.flatnonzero(np.isfinite(form.scale)).tolist():
        yield f"distance along {j}", form.without_distance(j)
    for j in range(d):
        yield f"slopes along {j}", form.without_slope(slice(None), j)
    for i in range(k):
        yield f"slopes of cell {i}", form.without_slope(i, slice(None))
        for j in np.flatnonzero(form.linear[i]).tolist():
            yield f"slope of cell {i} along {j}", form.without_slope(i, j)


def _check_tolerance(tolerance: float) -> None:
    """Raise a ValueError if the part of the return that may be lost is not in [0, 1)."""
    if not isinstance(tolerance, Real) or not 0.0 <= tolerance < 1.0:
        raise ValueError(f"tolerance must be a number in [0, 1), got {tolerance!r}.")

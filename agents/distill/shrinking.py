"""Shrink a policy: leave out as many numbers as possible while its return holds."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oda_rl._validation import whole_number
from oda_rl.agents.distill.dagger import Distillation
from oda_rl.agents.distill.fitting import Form, Records, find_form, least_error
from oda_rl.agents.distill.front import Front, FrontPoint, check_tolerance
from oda_rl.agents.distill.policy import DistilledPolicy

Array = NDArray[np.float64]

# States from which the importance of each number is estimated
FOR_WORTH = 1000
# Slopes are left out together until at least this part of all numbers is gone; then the table is scored
LEAP = 0.08
# A series of ever smaller tables ends when this many in a row are not good enough.
PATIENCE = 3


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
        As for `distill`; or if `env` is not given and the model has no environment id.

    Examples
    --------
    >>> upright = lambda observation: int(observation[2] + 0.3 * observation[3] > 0)
    >>> few = {"max_cells": 2, "rounds": 2, "steps_per_round": 500, "eval_episodes": 5}
    >>> front = shrink(upright, "CartPole-v1", **few)
    >>> front.smallest(0.05).n_parameters < 10
    True
    """
    env = env or getattr(model, "env_id", None)
    if env is None:
        raise ValueError("env must be the id of an environment: the model does not know its own.")
    check_tolerance(tolerance)
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

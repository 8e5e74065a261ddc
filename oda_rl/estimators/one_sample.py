# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""One sample of a stream at a time, in a single call of compiled code.

It takes longer to hand over an array than to learn from it, so those that stay from sample to sample
stand in a table of `oda_rl._structs`.
"""

from typing import Any, NamedTuple

import numpy as np

from oda_rl._jit import kernel, lean_kernel
from oda_rl._structs import Float1, Float2, Int1, count_slots, make_opener, slots
from oda_rl._types import Array
from oda_rl.codebook.annealer import Annealer
from oda_rl.codebook.learning import Pace, anneal
from oda_rl.estimators.session import GOLDEN, REHEARSALS, REHEARSED, Run

# The weight of a sample that has none of its own.
ONE = np.ones(1)


class OwnCells(NamedTuple):
    """The codebook and the averages of a run, as `anneal` has them.

    `rows` (n_rows, n_features) and `row_weight` (n_rows,) are for the sample, and those that are
    presented again with it.
    """

    location: Float2
    weight: Float1
    label: Int1
    axis: Float2
    reference: Float2
    spread: Float2
    phase: Float1
    rows: Float2
    row_weight: Float1


open_cells = make_opener(OwnCells, 0)
# Where the groups of others begin in a table.
OTHERS = count_slots(OwnCells)


@lean_kernel
def rehearse(buffer, weight, first, rows, row_weight):
    """Fill the rows after the first with samples of the `buffer` (n, n_features), which takes that one.

    Ages are evenly spread: parts of the integers from `first` on times the golden ratio.
    """
    last = len(buffer) - 1
    for i in range(last):
        weight[i] = weight[i + 1]
        for j in range(buffer.shape[1]):
            buffer[i, j] = buffer[i + 1, j]
    weight[last] = row_weight[0]
    for j in range(buffer.shape[1]):
        buffer[last, j] = rows[0, j]
    for r in range(1, len(rows)):
        at = last - int(((first + r - 1) * GOLDEN) % 1.0 * len(buffer))
        row_weight[r] = weight[at]
        for j in range(buffer.shape[1]):
            rows[r, j] = buffer[at, j]


@kernel
def learn_one(
    table,
    kind,
    sample,
    buffer,
    buffer_weight,
    n_seen,
    temperature,
    a,
    b,
    begin,
    check_every,
    tolerance,
    max_steps,
    most,
    n,
    distortion,
    n_cells,
):
    """Learn from one sample (1, n_features) of weight one.

    The `table` holds the arrays of `OwnCells`. The sample is the first of the rows; the others are drawn
    as in `Run.observe` from the `buffer` (n, n_features), which makes space for this one; `n_seen`
    samples have come before. Then `anneal` has all rows, by a `Pace` of these eight numbers. Returns
    (rows used, n, distortion, whether a temperature or a check has ended).
    """
    cells = open_cells(table)
    rows, row_weight = cells.rows, cells.row_weight
    for j in range(rows.shape[1]):
        rows[0, j] = sample[0, j]
    row_weight[0] = 1.0
    if len(rows) > 1:
        rehearse(buffer, buffer_weight, REHEARSALS * n_seen, rows, row_weight)
    return anneal(
        rows,
        np.zeros(len(rows), dtype=np.int64),
        row_weight,
        kind,
        Pace(temperature, a, b, begin, check_every, tolerance, max_steps, most),
        n,
        distortion,
        n_cells,
        cells,
        cells.reference,
        cells.spread,
        None,
        cells.phase,
    )


class Prepared:
    """The arrays that a sample of a run changes, as a table of `OwnCells` and `others`.

    It `holds` as long as none of those that the run replaces has been replaced.
    """

    annealer_type: type[Annealer] = Annealer
    targets: Array | None = None  # outputs of the rows, where there are any

    def __init__(self, run: Run, n_rows: int, *others: Any) -> None:
        annealer: Any = run.annealer
        codebook = annealer.codebook
        self.reference, self.cells = annealer.reference, codebook.arrays
        self.rows, self.row_weight = np.empty((n_rows, codebook.n_features)), np.empty(n_rows)
        spread = codebook.payload[codebook.rows("spread")]
        found: Any = *self.cells[:4], self.reference, spread, annealer.phase, self.rows, self.row_weight
        own = OwnCells(*found)
        self._groups = (own, *others)  # the table has their addresses: they must live as long
        self.table = np.concatenate([slots(group) for group in self._groups])
        self.pace = annealer.pace(annealer.level_length)

    def holds(self, run: Run, n_rows: int) -> bool:
        """Whether the table may be used again, with as many rows."""
        annealer: Any = run.annealer
        return (
            self.reference is annealer.reference
            and self.cells is annealer.codebook.arrays
            and len(self.row_weight) == n_rows
        )

    def learn(self, run: Run, sample: Any) -> Any:
        """Learn from a sample (1, n_features) that has been given room; as `learn_one` returns."""
        annealer: Any = run.annealer
        book = annealer.codebook
        state = run.buffer, run.buffer_weight, run.n_seen, *self.pace
        end = annealer.n, annealer.distortion, book.n_cells
        return learn_one(self.table, book.divergence.kind, sample, *state, *end)


def make_room(run: Run, sample: Array) -> int:
    """Rows with which the next sample (1, n_features) is learned; the buffer has room for it, if any."""
    assert run.annealer is not None
    if run.annealer.done or not run.rehearses:
        return 1
    if len(run.buffer) < REHEARSED:  # what is at the front makes space
        run.buffer = np.concatenate([sample, run.buffer])
        run.buffer_weight = np.concatenate([ONE, run.buffer_weight])
    return 1 + REHEARSALS


def observe_one(run: Run, sample: Any, prepare: type[Any] = Prepared) -> bool:
    """As `Run.observe` of a single sample (1, n_features) of weight one, once the run has warmed up.

    Returns whether it was learned from.
    """
    annealer: Any = run.annealer
    if type(annealer) is not prepare.annealer_type or annealer.is_measuring:
        return False
    run.start_clock()
    n_rows, ready = make_room(run, sample), run.prepared
    if ready is None or not ready.holds(run, n_rows):
        ready = run.prepared = prepare(run, n_rows)
    used, annealer.n, annealer.distortion, has_ended = ready.learn(run, sample)
    run.n_seen += 1
    annealer.n_samples_seen += used
    if has_ended:
        left = None if ready.targets is None else ready.targets[used:]
        run.end_level(ready.rows[used:], ready.row_weight[used:], left)
    run.stop_clock()
    return True

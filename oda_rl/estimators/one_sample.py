# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Learning from one sample of a stream in a single call of compiled code.

Passing an array to compiled code takes longer than learning from it. So the arrays that stay the same
from sample to sample are passed as a table of `oda_rl._structs`.
"""

from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from oda_rl._jit import kernel, lean_kernel
from oda_rl._structs import Float1, Float2, Int1, count_slots, make_opener, slots
from oda_rl._types import Array
from oda_rl.codebook.annealer import Annealer
from oda_rl.codebook.learning import Pace, anneal
from oda_rl.estimators.session import GOLDEN, REHEARSALS, REHEARSED, Run

# The weight of a sample without a sample weight.
ONE = np.ones(1)


class OwnCells(NamedTuple):
    """The codebook and the averages of a run, as `anneal` takes them.

    `rows` (n_rows, n_features), `row_label` and `row_weight` (n_rows,) hold the sample, and the samples
    of the `buffer` (n, n_features) that are presented again with it. `pace` holds the numbers of a
    `Pace`. `progress` (5,) holds what changes with each sample: the samples of the run before it, n, the
    distortion, the number of cells, and the number of rows learned from.
    """

    location: Float2
    weight: Float1
    label: Int1
    axis: Float2
    reference: Float2
    spread: Float2
    phase: Float1
    rows: Float2
    row_label: Int1
    row_weight: Float1
    buffer: Float2
    buffer_weight: Float1
    pace: Float1
    progress: Float1


open_cells = make_opener(OwnCells, 0)
# Where further groups of arrays begin in a table.
OTHERS = count_slots(OwnCells)


@lean_kernel
def gather_rows(cells):
    """Append the sample in the first row to the buffer, and fill the other rows from the buffer.

    The oldest sample leaves the buffer. The ages of the samples chosen are evenly spread: fractional
    parts of integers times the golden ratio, as in `Run.observe`.
    """
    rows, row_weight, buffer, weight = cells.rows, cells.row_weight, cells.buffer, cells.buffer_weight
    row_weight[0] = 1.0
    if len(rows) == 1:
        return
    last, first = len(buffer) - 1, REHEARSALS * int(cells.progress[0])
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
def learn_rows(cells, kind, models):
    """Run `anneal` on the rows, with local `models` or None.

    Returns whether a temperature or a check has ended.
    """
    progress, pace = cells.progress, cells.pace
    used, n, distortion, has_ended = anneal(
        cells.rows,
        cells.row_label,
        cells.row_weight,
        kind,
        Pace(pace[0], pace[1], pace[2], int(pace[3]), int(pace[4]), pace[5], int(pace[6]), pace[7]),
        int(progress[1]),
        progress[2],
        int(progress[3]),
        cells,
        cells.reference,
        cells.spread,
        models,
        cells.phase,
    )
    progress[0] += 1.0
    progress[1], progress[2] = n, distortion
    progress[4] += used
    return has_ended


@kernel
def learn_one(table, kind, sample):
    """Learn from one sample (1, n_features) of weight one; the `table` contains an `OwnCells`.

    Returns whether a temperature or a check has ended.
    """
    cells = open_cells(table)
    for j in range(sample.shape[1]):
        cells.rows[0, j] = sample[0, j]
    gather_rows(cells)
    return learn_rows(cells, kind, None)


class Prepared:
    """The arrays that a sample of a run changes, as a table of `OwnCells` and `others`.

    The table can be used as long as the run has replaced none of these arrays (see `holds`).
    """

    annealer_type: type[Annealer] = Annealer
    targets: Array | None = None  # outputs of the rows, if there are any

    def __init__(self, run: Run, n_rows: int, *others: Any) -> None:
        annealer: Any = run.annealer
        codebook = annealer.codebook
        self.reference, self.cells, self.buffer = annealer.reference, codebook.arrays, run.buffer
        self.rows, self.row_weight = np.empty((n_rows, codebook.n_features)), np.empty(n_rows)
        self.progress = np.empty(5)
        numbers: Any = self.progress
        self._progress: Any = memoryview(numbers)  # faster access to single numbers
        spread = codebook.payload[codebook.rows("spread")]
        found: Any = (
            *self.cells[:4],
            *(self.reference, spread, annealer.phase),
            *(self.rows, np.zeros(n_rows, dtype=np.int64), self.row_weight),
            *(self.buffer, run.buffer_weight),
            *(np.array(annealer.pace(annealer.level_length), dtype=float), self.progress),
        )
        own = OwnCells(*found)
        self._groups = (own, *others)  # keeps the arrays alive whose addresses are in the table
        self.table = np.concatenate([slots(group) for group in self._groups])

    def holds(self, run: Run, n_rows: int) -> bool:
        """Whether the table is still valid for the run and this number of rows."""
        annealer: Any = run.annealer
        return (
            self.reference is annealer.reference
            and self.cells is annealer.codebook.arrays
            and self.buffer is run.buffer
            and len(self.row_weight) == n_rows
        )

    def begin(self, run: Run) -> None:
        """Copy the state of the run to `progress`, before the kernel is called."""
        annealer: Any = run.annealer
        progress = self._progress
        progress[0], progress[1], progress[2] = run.n_seen, annealer.n, annealer.distortion
        progress[3], progress[4] = annealer.codebook.n_cells, 0.0

    def end(self, run: Run, has_ended: bool) -> None:
        """Copy `progress` back to the run after the kernel, and end the temperature if `has_ended`."""
        annealer: Any = run.annealer
        seen, n, annealer.distortion, _, used = self._progress
        run.n_seen, annealer.n = int(seen), int(n)
        annealer.n_samples_seen += int(used)
        if has_ended:
            run.start_clock()
            last = 1 + (int(used) - 1) % len(self.row_weight)  # rows of the last sample that were used
            left = None if self.targets is None else self.targets[last:]
            run.end_level(self.rows[last:], self.row_weight[last:], left)
            run.stop_clock()

    def learn(self, run: Run, sample: Any) -> bool:
        """Learn from a sample (1, n_features), after `make_room`; returns what `learn_one` does."""
        annealer: Any = run.annealer
        return bool(learn_one(self.table, annealer.codebook.divergence.kind, sample))


def is_growing(run: Run) -> bool:
    """Whether the buffer of samples to present again is still being filled."""
    annealer: Any = run.annealer
    return not annealer.done and len(run.buffer) < REHEARSED and run.rehearses


def make_room(run: Run, samples: Array) -> int:
    """Enlarge the buffer for the next of samples (n, n_features); return the rows it is learned with."""
    if is_growing(run):  # `gather_rows` will shift the entry at the front out
        run.buffer = np.concatenate([samples[:1], run.buffer])
        run.buffer_weight = np.concatenate([ONE, run.buffer_weight])
    annealer: Any = run.annealer
    return 1 if annealer.done or not run.rehearses else 1 + REHEARSALS


def observe_one(run: Run, sample: Any, prepare: type[Any] = Prepared) -> int:
    """Fast path of `Run.observe` for one sample (1, n_features) of weight one, after the warm-up.

    Returns the number of samples learned: 1, or 0 if the fast path does not apply.
    """
    annealer: Any = run.annealer
    if type(annealer) is not prepare.annealer_type or annealer.is_measuring:
        return 0
    begun = perf_counter()
    n_rows, ready = make_room(run, sample), run.prepared
    if ready is None or not ready.holds(run, n_rows):
        ready = run.prepared = prepare(run, n_rows)
    ready.begin(run)
    has_ended = ready.learn(run, sample)
    run.seconds += perf_counter() - begun
    ready.end(run, has_ended)
    return 1

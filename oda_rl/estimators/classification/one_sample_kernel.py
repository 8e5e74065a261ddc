# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled kernel: one sample of a stream, from its moments to the book of all classes."""

from typing import NamedTuple

import numpy as np

from oda_rl._jit import kernel
from oda_rl._structs import Float1, Float2, Int1, count_slots, make_opener
from oda_rl.codebook.learning import Pace, anneal
from oda_rl.estimators.classification.book import RELATIVE_WIDTH
from oda_rl.estimators.classification.kernels import put_cells, weigh_cells
from oda_rl.estimators.classification.session_book import LiveCells
from oda_rl.estimators.feature_scaling import add_moments, scale_samples
from oda_rl.estimators.one_sample import OTHERS, open_cells, rehearse
from oda_rl.estimators.session import REHEARSALS


class Measured(NamedTuple):
    """What all classes have in common: `Scaling`, `Moments`, and weights and numbers of their samples.

    Of d features and C classes they are (d,), (d, d), (C,), (C, d), (d, d), (2, d), (C,) and (C,).
    """

    shift: Float1
    matrix: Float2
    count: Float1  # type: ignore[assignment]
    mean: Float2
    scatter: Float2
    bounds: Float2
    mass: Float1
    counts: Float1


class Decided(NamedTuple):
    """Parts of the `ClassBook` of all classes."""

    labels: Int1
    weights: Float1
    widths: Float1


# What the table holds after `OwnCells`: these groups, one after the other
GROUPS = (Measured, LiveCells, Decided)
open_measured, open_live, open_decided = (
    make_opener(group, OTHERS + count_slots(*GROUPS[:place])) for place, group in enumerate(GROUPS)
)


@kernel
def learn_one(
    table,
    kind,
    sample,
    c,
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
    own,
    factor,
):
    """Learn from one sample of a class that anneals, and bring the book of all up to date.

    The `table` holds the arrays of `OwnCells` and `GROUPS`. The `sample` (1, n_features), of class
    number `c` and of weight one, adds to the moments of features. Scaled, it is the first of the rows;
    the others are drawn as in `Run.observe` from the `buffer` (n, n_features), which makes space for it;
    `n_seen` samples of the class have come before. Then `anneal` has all rows, by a `Pace` of these
    eight numbers, and last comes `weigh_cells` with `own` and `factor`. Returns (rows used, n,
    distortion, whether a temperature or a check has ended, the width of all classes).
    """
    known, cells = open_measured(table), open_cells(table)
    live, book = open_live(table), open_decided(table)
    rows, row_weight = cells.rows, cells.row_weight
    moments = known.count, known.mean, known.scatter, known.bounds
    add_moments(sample, np.array([c]), np.ones(1), *moments)
    known.counts[c] += 1.0
    known.mass[c] += 1.0
    scale_samples(sample, known.shift, known.matrix, rows)
    row_weight[0] = 1.0
    if len(rows) > 1:
        rehearse(buffer, buffer_weight, REHEARSALS * n_seen, rows, row_weight)
    used, n, distortion, finished = anneal(
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
    place = live.location, live.shares, live.spreads
    live.distortion[c] = put_cells(
        kind, cells.location, cells.weight, cells.spread, live.first[c], live.k[c], *place
    )
    decided = known.mass, known.counts, RELATIVE_WIDTH, own, factor
    shared = weigh_cells(live, book.labels, *decided, book.weights, book.widths)
    return used, n, distortion, finished, shared

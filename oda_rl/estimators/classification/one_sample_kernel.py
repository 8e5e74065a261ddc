# Compiled code is typed by numba, from its arguments.
# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Compiled kernel that learns from a few samples: moments, cells, and the codebook of all classes."""

from typing import NamedTuple

import numpy as np

from oda_rl._jit import kernel
from oda_rl._structs import Float1, Float2, Int1, count_slots, make_opener
from oda_rl.estimators.classification.book import RELATIVE_WIDTH
from oda_rl.estimators.classification.kernels import put_cells, weigh_cells
from oda_rl.estimators.classification.session_book import LiveCells
from oda_rl.estimators.feature_scaling import add_moments, scale_samples
from oda_rl.estimators.one_sample import OTHERS, gather_rows, learn_rows, open_cells


class Measured(NamedTuple):
    """Arrays of all classes: those of `Scaling` and `Moments`, and weights and numbers of samples.

    With d features and C classes they are (d,), (d, d), (C,), (C, d), (d, d), (2, d), (C,) and (C,).
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


# The groups of arrays in a table, after `OwnCells`
GROUPS = (Measured, LiveCells, Decided)
open_measured, open_live, open_decided = (
    make_opener(group, OTHERS + count_slots(*GROUPS[:place])) for place, group in enumerate(GROUPS)
)


@kernel
def learn_in_order(tables, kind, samples, numbers, own, factor):
    """Learn from samples (n, n_features) with class `numbers` (n,), one after the other.

    The classes must have begun to anneal; the `tables` (n_classes, n_slots) hold the arrays of
    `OwnCells` and `GROUPS` for each of them. A sample, of weight one, is added to the moments of the
    features, scaled, and learned with rehearsed samples as in `Run.observe`. Stops after a sample that
    ends a temperature or a check of its class. Finally updates the codebook of all classes, with `own`
    and `factor` as for `weigh_cells`. Returns (number of samples learned, whether the last one ended a
    temperature or a check, the width of all classes).
    """
    known, live = open_measured(tables[numbers[0]]), open_live(tables[numbers[0]])
    book, moments = (
        open_decided(tables[numbers[0]]),
        (known.count, known.mean, known.scatter, known.bounds),
    )
    one, touched = np.ones(1), np.zeros(len(live.k), dtype=np.bool_)
    done, has_ended = 0, False
    while done < len(numbers) and not has_ended:
        c, sample = numbers[done], samples[done : done + 1]
        cells, touched[c] = open_cells(tables[c]), True
        add_moments(sample, numbers[done : done + 1], one, *moments)
        known.counts[c] += 1.0
        known.mass[c] += 1.0
        scale_samples(sample, known.shift, known.matrix, cells.rows)
        gather_rows(cells)
        has_ended = learn_rows(cells, kind, None)
        done += 1
    place = live.location, live.shares, live.spreads
    for c in range(len(touched)):
        if touched[c]:
            cells = open_cells(tables[c])
            live.distortion[c] = put_cells(
                kind, cells.location, cells.weight, cells.spread, live.first[c], live.k[c], *place
            )
    decided = known.mass, known.counts, RELATIVE_WIDTH, own, factor
    shared = weigh_cells(live, book.labels, *decided, book.weights, book.widths)
    return done, has_ended, shared

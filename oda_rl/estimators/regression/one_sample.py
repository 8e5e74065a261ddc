# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
"""Fast path for one sample of a stream with its outputs: a single call of compiled code."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oda_rl._jit import kernel
from oda_rl._structs import Float1, Float2, make_opener
from oda_rl._types import Array
from oda_rl._validation import LARGEST
from oda_rl.codebook.annealer import Annealer
from oda_rl.codebook.model_learning import Models
from oda_rl.estimators.one_sample import OTHERS, Prepared, gather_rows, learn_rows, open_cells
from oda_rl.estimators.regression.local_models import ModelAnnealer
from oda_rl.estimators.regression.scaling import admit_sample
from oda_rl.estimators.session import Run


class OwnModels(NamedTuple):
    """The arrays of a run's `Scaling`, and those of the models of its cells as in `Models`.

    With d inputs and m outputs the first five are (d + m,), and `step` is (d,), or empty; `targets`
    (n_rows, m) are standardised.
    """

    mean: Float1
    deviation: Float1
    metric: Float1
    low: Float1
    high: Float1
    step: Float1
    unscale: Float1
    theta: Float2
    gain: Float2
    seen: Float1
    noise: Float2
    figures: Float1
    targets: Float2


open_models = make_opener(OwnModels, OTHERS)


@kernel
def learn_one_output(table, kind, sample, softness, forgetting):
    """Learn from one sample (1, n_inputs + n_outputs): as `one_sample.learn_one`, with local models.

    The `table` holds `OwnCells` and `OwnModels`; the sample and the buffer are in the data's units.
    """
    cells, own = open_cells(table), open_models(table)
    rows, d = cells.rows, len(own.unscale)
    for j in range(rows.shape[1]):
        rows[0, j] = sample[0, j]
        if j >= d:
            own.low[j] = min(own.low[j], sample[0, j])
            own.high[j] = max(own.high[j], sample[0, j])
    admit_sample(rows[0], own.low, own.high, own.deviation, own.step)
    gather_rows(cells)
    for t in range(len(rows)):
        for j in range(rows.shape[1]):
            x = rows[t, j] if j >= d else min(max(rows[t, j], own.low[j]), own.high[j])
            standard = (x - own.mean[j]) / own.deviation[j]
            rows[t, j] = standard * own.metric[j]
            if j >= d:
                own.targets[t, j - d] = standard
    models = Models(
        own.targets,
        d,
        own.unscale,
        own.theta,
        own.gain,
        own.seen,
        own.noise,
        softness,
        own.figures,
        False,
        forgetting,
    )
    return learn_rows(cells, kind, models)


class PreparedOutputs(Prepared):
    """The arrays that change when a run learns a sample, as a table for `learn_one_output`."""

    annealer_type: type[Annealer] = ModelAnnealer

    def __init__(self, run: Any, n_rows: int) -> None:
        annealer, scaling = run.annealer, run.scaling
        payload, rows = annealer.codebook.payload, annealer.codebook.rows
        self.targets: NDArray[np.float64] = np.empty((n_rows, run.n_outputs))
        models = OwnModels(
            *(scaling.mean, scaling.deviation, scaling.metric, scaling.low, scaling.high, scaling.step),
            *(annealer.unscale, payload[rows("theta")], payload[rows("gain")]),
            *(payload[rows("seen")][0], payload[rows("noise")], annealer.figures, self.targets),
        )
        super().__init__(run, n_rows, models)

    def learn(self, run: Run, sample: Array) -> bool:
        """As in the base class, for a `sample` with inputs and outputs."""
        annealer: Any = run.annealer
        kind, softness = annealer.codebook.divergence.kind, float(annealer.softness)
        return bool(learn_one_output(self.table, kind, sample, softness, annealer.forgetting))


def row_of(run: Any, flat: bool, X: Array, y: Any) -> Array | None:
    """Inputs (1, n_inputs) and outputs side by side; None if the fast path does not suit y or run."""
    if (
        type(y) is not np.ndarray
        or y.dtype != X.dtype
        or y.shape != ((1,) if flat else (1, run.n_outputs))
        or not all(abs(value) <= LARGEST for value in y.flat)
        or run.own is not None
        or run.scaling is None
        or run.kernel is not None
        or run.is_entangled
    ):
        return None
    inputs = X if run.effects is None else run.effects(X)
    return np.concatenate([run.scaling.to_ranks(inputs), y.reshape(1, -1)], axis=1)

"""What a fit learns before the cells: the relevance of inputs, and outputs without noise."""

from collections.abc import Iterator

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import softmax

from oda_rl._types import Array
from oda_rl.codebook.divergences import SMALLEST_SQUARE
from oda_rl.estimators.regression.mixture import (
    fit_mixture,
    mean_distance,
    most_cells,
    predict_all,
)
from oda_rl.estimators.regression.scaling import Scaling, usual_range
from oda_rl.estimators.session import Run
from oda_rl.estimators.settings import Settings
from oda_rl.estimators.targets import Data

# Cells and samples of a pilot, at most; its overlap; and samples at which its slopes are measured.
CELLS, SAMPLES, SOFTNESS, SLOPES = 60, 4000, 4.0, 1000
# Slopes are differences between so many standard deviations of an input above and below.
STEP = 0.2
# Samples for each cell of a pilot, at least; but it may have the least number of cells in any case.
SAMPLES_PER_CELL, LEAST_CELLS = 3, 4
# Number of pilots for `relevance_of`, and of their cells, at most: trees are no better with more.
ROUNDS, FEW_CELLS = 2, 30
# Least relevance of an input.
LEAST_RELEVANCE = 0.02


def learn_pilot(
    settings: Settings,
    standard: Array,
    weight: Array,
    metric: Array,
    n_inputs: int,
    followed: Array | None,
    rng: np.random.Generator,
    most: int = CELLS,
) -> tuple[Array, Array]:
    """Learn a mixture of linear models over a first partition, which is annealed with `settings`.

    Its slopes show how much each input matters for the outputs. The cells of the next partition follow
    its predictions: cells that followed the outputs themselves would follow their noise.

    `standard` (n_samples, n_inputs + n_outputs) are standardised inputs and outputs, with their
    `weight`; `metric` (n_inputs + n_outputs,) is how much standard deviations count in the distance. The
    cells of the pilot, `most` or fewer, follow the inputs and, unless None, `followed` (n_samples,
    n_outputs).

    Returns predictions of the standardised outputs (n_samples, n_outputs), and how much a standard
    deviation of each input should count in the distance (n_inputs,), the largest 1.
    """
    n, d = len(standard), n_inputs
    # The pilot is temporary, so that it may have more cells than the final model. But with about as many
    # cells as samples its slopes would be noise, and the last cells would take most of its time.
    k = min(most, most_cells(1 + d), max(LEAST_CELLS, n // SAMPLES_PER_CELL))
    settings = settings._replace(max_codevectors=k, finish=False, max_samples=None)
    chosen = np.arange(n) if n <= SAMPLES else rng.choice(n, SAMPLES, replace=False)
    weight = weight[chosen] / weight[chosen].mean()
    inputs = np.ascontiguousarray(standard[:, :d] * metric[:d])
    space = inputs if followed is None else np.hstack([inputs, followed * metric[d:]])
    run = Run(settings, space.shape[1], rng)
    codevectors = run.fit(space[chosen], weight)[:, :d]
    width = max(SOFTNESS * mean_distance(inputs[chosen], codevectors, weight), SMALLEST_SQUARE)
    outputs = standard[chosen, d:]
    theta = fit_mixture(inputs[chosen], outputs, weight, codevectors, width, True).theta
    predicted = np.empty((n, outputs.shape[1]))
    location, no_scale = np.ascontiguousarray(codevectors.T), np.ones(d)
    predict_all(inputs, no_scale, location, len(codevectors), width, theta, d + 1, predicted)
    slopes, theta = np.empty(d), theta.reshape(outputs.shape[1], d + 1, -1)
    cells = codevectors, width, theta
    for j, change in enumerate(output_changes(*cells, inputs[chosen[:SLOPES]], STEP * metric[:d])):
        slopes[j] = np.sqrt(np.average((change**2).sum(axis=1), weights=weight[:SLOPES]))
    if not slopes.max() > 0.0:
        return predicted, np.ones(d)
    return predicted, np.maximum(slopes / slopes.max(), LEAST_RELEVANCE)


def output_changes(
    codevectors: Array, temperature: float, theta: Array, points: Array, steps: Array
) -> Iterator[Array]:
    """Yield, for each input, the change (n_points, n_outputs) from a step below points to one above.

    The outputs are those of linear models `theta` (n_outputs, 1 + n_inputs, n_cells) in cells that
    overlap at a temperature. Distances and outputs of the cells at the points are computed once, so that
    a step in one input costs only as much as that input.
    """
    near = cdist(points, codevectors, "sqeuclidean")
    values = (theta[:, :1] + points @ theta[:, 1:]).transpose(1, 0, 2)

    def at(j: int, step: float) -> Array:
        away = 2.0 * step * (points[:, j : j + 1] - codevectors[:, j])
        share = softmax((near + away) / -temperature, axis=1)
        return np.asarray(np.einsum("nk,nmk->nm", share, values + step * theta[:, 1 + j]))

    for j, step in enumerate(steps):
        yield at(j, step) - at(j, -step)


def relevance_of(settings: Settings, data: Data, rng: np.random.Generator) -> Array:
    """How much a standard deviation of each feature should count for the outputs, the largest 1.

    Found by two pilots, the second with the results of the first; `data` has outputs as targets.
    """
    d = data.samples.shape[1]
    samples = np.column_stack([data.samples, data.targets])
    scaling = Scaling.of(samples, data.weight, d, 1.0, usual_range)
    standard, followed = scaling.with_outputs(samples, d), None
    for _ in range(ROUNDS):
        own = settings, standard, data.weight, scaling.metric, d, followed, rng, FEW_CELLS
        followed, scaling.metric[:d] = learn_pilot(*own)
    return np.asarray(scaling.metric[:d])
